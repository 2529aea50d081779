//! Reads counts written by `perf stat`: `-x,` (fields between separators) and `-j` (JSON, one count a line).

use super::models::{Event, MODELS, Model};
use serde::Deserialize;
use std::collections::HashMap;

/// The count of one event.
#[derive(Clone, Debug, PartialEq)]
pub struct Count {
    /// The event's name in lower case, without modifiers. [`rename_events`] replaces raw encodings by names.
    pub name: String,
    /// Number of events, scaled to the whole time if events shared a counter. `None` if it was not counted.
    pub value: Option<u64>,
    /// Share of the time for which it was counted, 0 to 1.
    pub share: f64,
}

/// The most events in a file. Perf lists some thousands on any processor.
const MAX_EVENTS: usize = 1 << 14;

/// Why a file cannot be read.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ReadError {
    /// One line is invalid.
    #[error("line {line}: {problem}")]
    Line {
        /// Number of the line, from 1.
        line: usize,
        /// What is wrong with it.
        problem: String,
    },
    /// The file has no counts.
    #[error("holds no counts of `perf stat -x,` or `perf stat -j`")]
    Nothing,
}

/// A count as perf writes it with `-j`.
#[derive(Deserialize)]
struct Json {
    #[serde(rename = "counter-value")]
    value: Option<String>,
    event: Option<String>,
    #[serde(rename = "pcnt-running")]
    percent: Option<f64>,
}

/// Reads the counts in `text`. Adds counts of one event from several intervals or cores.
///
/// # Errors
/// If a line is not in a format of perf.
pub fn counts(text: &str) -> Result<Vec<Count>, ReadError> {
    let mut all: Vec<Count> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let wrong = |problem: String| ReadError::Line { line: number + 1, problem };
        let count = if line.starts_with('{') { json(line) } else { fields(line) }.map_err(wrong)?;
        let Some(count) = count else { continue };
        match places.get(&count.name) {
            Some(&place) => {
                let known = &mut all[place];
                known.value = known.value.zip(count.value).map(|(a, b)| a.saturating_add(b));
                known.share = known.share.min(count.share);
            }
            None if all.len() == MAX_EVENTS => return Err(wrong(format!("more than {MAX_EVENTS} events"))),
            None => {
                places.insert(count.name.clone(), all.len());
                all.push(count);
            }
        }
    }
    if all.is_empty() { Err(ReadError::Nothing) } else { Ok(all) }
}

/// Reads a line of `-j`. `None` if it holds no count.
fn json(line: &str) -> Result<Option<Count>, String> {
    let parsed: Json =
        serde_json::from_str(line).map_err(|error| format!("expected a JSON object of `perf stat -j`: {error}"))?;
    let (Some(event), Some(value)) = (parsed.event, parsed.value) else { return Ok(None) };
    Ok(Some(count(&event, &value, parsed.percent.unwrap_or(100.0))?))
}

/// Reads a line of `-x`: value, unit, event, running time, percentage, and more. The deviation of several runs (`-r`) follows
/// the event. The time of an interval (`-I`), or the CPU, core or socket with their number, precedes the value. `None` if the
/// line holds no count.
fn fields(line: &str) -> Result<Option<Count>, String> {
    let separator = [',', ';', '\t', '|', ' '].into_iter().find(|&c| line.matches(c).count() >= 3);
    let Some(separator) = separator else { return Err("expected a line of `perf stat -x,`".into()) };
    let fields = split(line, separator);
    let is_value = |field: &str| field.parse::<f64>().is_ok() || field.starts_with('<');
    // Counted events have no unit: the event follows a value and an empty field.
    let at = (0..fields.len().saturating_sub(2)).find(|&at| {
        is_value(fields[at])
            && fields[at + 1].is_empty()
            && fields[at + 2].starts_with(|c: char| c.is_ascii_alphabetic())
    });
    // Times and metrics have units, and are ignored.
    let Some(at) = at else {
        return if fields.iter().any(|field| is_value(field)) { Ok(None) } else { Err("has no count".into()) };
    };
    let mut rest = fields[at + 3..].iter().filter(|field| !field.ends_with('%'));
    let percent = rest.nth(1).and_then(|field| field.parse().ok()).unwrap_or(100.0);
    Ok(Some(count(fields[at + 2], fields[at], percent)?))
}

/// Splits a line into fields. Separators between slashes are part of the event.
fn split(line: &str, separator: char) -> Vec<&str> {
    let (mut fields, mut from, mut inside) = (Vec::new(), 0, false);
    for (at, c) in line.char_indices() {
        inside ^= c == '/';
        if c == separator && !inside {
            fields.push(&line[from..at]);
            from = at + c.len_utf8();
        }
    }
    fields.push(&line[from..]);
    fields
}

fn count(event: &str, value: &str, percent: f64) -> Result<Count, String> {
    let value = match value {
        _ if value.starts_with('<') => None,
        _ => {
            let number: f64 = value.parse().map_err(|_| format!("{value:?}: expected a count"))?;
            if !(0.0..1.8e19).contains(&number) {
                return Err(format!("{value:?}: expected a count"));
            }
            // Integers above 2^53 stay exact.
            Some(value.parse().unwrap_or(number.round() as u64))
        }
    };
    Ok(Count { name: name(event), value, share: (percent / 100.0).clamp(0.0, 1.0) })
}

/// How the names of events on efficiency cores begin, which no model has.
pub(super) const EFFICIENCY_CORES: &str = "cpu_atom/";

/// Returns an event's name as the models spell it.
fn name(event: &str) -> String {
    let mut name = event.trim().to_ascii_lowercase();
    // Efficiency cores have events of their own under the same names.
    if name.starts_with(EFFICIENCY_CORES) {
        return name.split_inclusive('/').take(2).collect();
    }
    if let Some((_, inner)) = name.split_once('/') {
        // As in cpu_core/NAME/u, or cpu/event=0x08,umask=0x10/.
        name = inner.rsplit_once('/').map_or(inner, |(inner, _)| inner).to_owned();
    }
    if let Some((plain, modifiers)) = name.rsplit_once(':')
        && modifiers.chars().all(|c| "ukhgpPSDGHIeWb".contains(c))
    {
        name.truncate(plain.len());
    }
    match name.as_str() {
        "instructions" | "inst_retired.any" => "inst_retired.any_p".to_owned(),
        "cycles" | "cpu-cycles" | "cpu_clk_unhalted.thread" => "cpu_clk_unhalted.thread_p".to_owned(),
        _ => name,
    }
}

/// Returns whether `name` means `event`. Perf has generic names for instructions and cycles, and Intel two names for one event.
fn same(event: &Event, name: &str) -> bool {
    use super::models::Role;
    match name {
        "inst_retired.any_p" => event.role == Role::Instructions,
        "cpu_clk_unhalted.thread_p" => event.role == Role::Cycles,
        "icache_64b.iftag_stall" | "icache_tag.stalls" => event.role == Role::FetchStall,
        _ => event.name == name,
    }
}

/// Renames counts as `model` names their events, raw encodings (`r0108`, `event=0x08,umask=0x01`) included.
pub fn rename_events(counts: &mut [Count], model: &Model) {
    for count in counts {
        let config = raw(&count.name);
        let known = model.events.iter().find(|event| Some(event.config) == config || same(event, &count.name));
        if let Some(event) = known {
            count.name = event.name.to_owned();
        }
    }
}

/// Parses a raw event name. `None` if it is not raw.
fn raw(name: &str) -> Option<u64> {
    if let Some(hex) = name.strip_prefix('r').filter(|hex| hex.len() >= 2) {
        return u64::from_str_radix(hex, 16).ok();
    }
    let mut config = None;
    for part in name.split(',') {
        let (key, value) = part.split_once('=')?;
        let value = u64::from_str_radix(value.strip_prefix("0x")?, 16).ok()?;
        let bits = match key {
            "event" => value & 0xff | (value >> 8) << 32,
            "umask" => value << 8,
            "cmask" => value << 24,
            _ => return None,
        };
        config = Some(config.unwrap_or(0) | bits);
    }
    config
}

/// A model that was told by events.
#[derive(Clone, Debug)]
pub struct Identified {
    /// The model.
    pub model: &'static Model,
    /// Number of events, besides instructions and cycles, that the model has.
    pub events: usize,
    /// Other models that have as many of the events: if there are any, the model is a guess. None if all events of the model
    /// were counted.
    pub others: Vec<&'static Model>,
}

/// Identifies the model by its events: the model that has most of them, and of several the one with the fewest events. `None`
/// if no model has any event besides instructions and cycles.
pub fn identify(counts: &[Count]) -> Option<Identified> {
    let is_generic = |name: &str| matches!(name, "inst_retired.any_p" | "cpu_clk_unhalted.thread_p");
    let known_events = |model: &Model| {
        let names = counts.iter().filter(|count| !is_generic(&count.name));
        names.filter(|count| model.events.iter().any(|event| event.name == count.name)).count()
    };
    let events = MODELS.iter().map(known_events).max().filter(|&events| events > 0)?;
    let mut others: Vec<&Model> = MODELS.iter().filter(|model| known_events(model) == events).collect();
    // Of models with as many events, the one with fewer that were not counted.
    others.sort_by_key(|model| model.events.len());
    let model = others.remove(0);
    let has = |event: &Event| counts.iter().any(|count| same(event, &count.name));
    if model.events.iter().all(has) {
        others.clear();
    }
    Some(Identified { model, events, others })
}
