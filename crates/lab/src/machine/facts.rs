//! A machine as a table of facts, each with its unit and provenance, and as JSON without provenance.

use super::tag::Tag;
use serde_json::Value as Json;
use std::collections::BTreeMap;
use toml::{Table, Value};

/// One fact of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    /// The path of its key, as an override names it: `tlb.l2.entries`.
    pub path: String,
    /// The value as it is written; members of a list are separated by `+`.
    pub value: String,
    /// The unit; empty for plain counts and for values that carry theirs.
    pub unit: &'static str,
    /// The provenance.
    pub tag: Tag,
    /// Why the file gives this value; empty where it does not say.
    pub reason: String,
}

/// Whether `value` is a value with its provenance.
pub(super) fn is_fact(value: &Value) -> bool {
    let symbol = value.as_array().filter(|parts| (2..=3).contains(&parts.len())).and_then(|parts| parts[1].as_str());
    symbol.and_then(Tag::parse).is_some()
}

/// Calls `see` with the path and value of every leaf below the file's sections, in order. Texts at the top are no facts.
pub(super) fn walk(table: &Table, see: &mut dyn FnMut(&str, &Value)) {
    fn inner(path: &str, value: &Value, see: &mut dyn FnMut(&str, &Value)) {
        match value {
            Value::Table(table) => table.iter().for_each(|(key, value)| inner(&format!("{path}.{key}"), value, see)),
            leaf => see(path, leaf),
        }
    }
    for (key, value) in table.iter().filter(|(_, value)| value.is_table()) {
        inner(key, value, see);
    }
}

/// Returns all facts of a machine file, in the order of the file.
pub(super) fn facts(table: &Table) -> Vec<Fact> {
    let mut facts = Vec::new();
    walk(table, &mut |path, value| {
        let Some(parts) = value.as_array().filter(|_| is_fact(value)) else { return };
        let Some(tag) = parts[1].as_str().and_then(Tag::parse) else { return };
        let reason = parts.get(2).and_then(Value::as_str).unwrap_or_default().to_owned();
        facts.push(Fact { path: path.to_owned(), value: text(&parts[0]), unit: unit(path), tag, reason });
    });
    facts
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(members) => members.iter().map(text).collect::<Vec<_>>().join("+"),
        other => other.to_string(),
    }
}

fn unit(path: &str) -> &'static str {
    let (section, key) = (path.split('.').next().unwrap_or(path), path.rsplit('.').next().unwrap_or(path));
    match (section, key) {
        ("memory", "bandwidth") => "MB/s",
        ("memory", _) => "",
        (_, "latency" | "probe" | "lookup" | "cycles" | "walk_access" | "invalidate") => "cycles",
        ("ooo", "front_end_depth" | "itlb_replay" | "multiply" | "divide" | "float" | "float_divide") => "cycles",
        (_, "millicycles_per_instruction") => "millicycles",
        (_, "mhz") => "MHz",
        ("os", "zero_per_byte" | "copy_per_byte" | "file_read_per_byte") => "millicycles",
        ("os", "frame_groups") => "groups of 8 frames, by 1000 pages",
        ("os", "frame_jumps") => "pages in another 2 MB, of 1000",
        ("os", _) => "cycles",
        _ => "",
    }
}

/// Returns the part of the machine that results depend on: no names, texts or provenance. Tables whose order matters
/// (TLBs, caches) become lists; the keys of all others are sorted.
pub(super) fn configuration(table: &Table) -> Json {
    let sections = ["page_table", "tlb", "walker", "caches", "memory", "core", "os", "nested", "ooo"];
    sorted(sections.into_iter().filter_map(|key| Some((key.to_owned(), strip(key, table.get(key)?)))))
}

/// Returns `value`, found under `key`, without provenance.
fn strip(key: &str, value: &Value) -> Json {
    match value {
        Value::Array(parts) if is_fact(value) => plain(&parts[0]),
        Value::Table(table) if matches!(key, "tlb" | "caches") => {
            let named = |(name, array): (&String, &Value)| {
                let facts = array.as_table().into_iter().flatten().map(|(key, value)| (key.clone(), strip(key, value)));
                sorted(facts.chain([("name".to_owned(), Json::from(name.as_str()))]))
            };
            Json::Array(table.iter().map(named).collect())
        }
        Value::Table(table) => sorted(table.iter().map(|(key, value)| (key.clone(), strip(key, value)))),
        other => plain(other),
    }
}

/// Returns an object with sorted keys. Sorting here keeps hashes independent of a feature of `serde_json` that changes
/// the order of its `Map`.
fn sorted(entries: impl Iterator<Item = (String, Json)>) -> Json {
    Json::Object(entries.collect::<BTreeMap<_, _>>().into_iter().collect())
}

fn plain(value: &Value) -> Json {
    match value {
        Value::Integer(number) => Json::from(*number),
        Value::Boolean(yes) => Json::from(*yes),
        Value::Array(members) => Json::Array(members.iter().map(plain).collect()),
        other => Json::String(text(other)),
    }
}
