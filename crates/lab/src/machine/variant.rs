//! Variants: machine files that name the preset on which they are based and give only what differs.
//!
//! The complete machine has the variant's values over those of the preset, each with its own provenance. Name and
//! description are never inherited; sources are those of both.

use super::error::{Problem, suggestion};
use super::presets::PRESETS;
use toml::{Table, Value};

/// The key that names the preset.
const BASED_ON: &str = "based_on";
/// The key that lists sections and keys of the preset that the variant lacks.
const WITHOUT: &str = "without";

/// Returns whether `table` is that of a variant.
pub(super) fn is_variant(table: &Table) -> bool {
    table.contains_key(BASED_ON)
}

/// Returns the complete table of a file: `table` itself, or that of its preset with the differences applied.
///
/// # Errors
/// When there is no such preset, and when the preset lacks what `without` names.
pub(super) fn complete(mut table: Table) -> Result<Table, Problem> {
    let without = table.remove(WITHOUT);
    let Some(base) = table.remove(BASED_ON) else {
        let lost = || Problem::new(WITHOUT, "only a variant lacks parts of a preset; name one in based_on");
        return if without.is_some() { Err(lost()) } else { Ok(table) };
    };
    let mut whole = preset(&base)?;
    whole.remove("name");
    whole.remove("about");
    for path in texts(WITHOUT, without.as_ref())? {
        remove(&mut whole, path)
            .ok_or_else(|| Problem::new(WITHOUT, format!("{path:?}: expected a section or key of {base}")))?;
    }
    let sources = [table.get("sources"), whole.get("sources")].map(|list| texts("sources", list));
    let [own, inherited] = sources;
    let (own, inherited) = (own?, inherited?);
    let inherited = inherited.into_iter().filter(|source| !own.contains(source));
    let sources = own.iter().copied().chain(inherited).map(|source| Value::String(source.to_owned())).collect();
    table.insert("sources".to_owned(), Value::Array(sources));
    overlay(&mut whole, table);
    Ok(whole)
}

/// Returns the complete table of the preset that `name` names.
fn preset(name: &Value) -> Result<Table, Problem> {
    let unknown = |what| Problem::new(BASED_ON, what);
    let name = name.as_str().ok_or_else(|| unknown(format!("{name}: expected the name of a preset, in quotes")))?;
    let Some((_, text)) = PRESETS.iter().find(|(preset, _)| *preset == name) else {
        let names = PRESETS.iter().map(|(preset, _)| *preset);
        let todo = suggestion(name, names, "`reach machine list` lists them all");
        return Err(unknown(format!("no preset {name:?}; {todo}")));
    };
    // A test completes every preset, so that this ends.
    complete(text.parse().map_err(|_| unknown(format!("preset {name} is malformed")))?)
}

/// Returns the texts of a list; none without a list.
fn texts<'v>(key: &str, list: Option<&'v Value>) -> Result<Vec<&'v str>, Problem> {
    let Some(list) = list else { return Ok(Vec::new()) };
    let texts = list.as_array().and_then(|list| list.iter().map(Value::as_str).collect::<Option<Vec<_>>>());
    texts.ok_or_else(|| Problem::new(key, "expected a list of texts"))
}

/// Removes the section or key at `path`, and keeps the order of its neighbours. `None`: there is none.
fn remove(table: &mut Table, path: &str) -> Option<Value> {
    match path.split_once('.') {
        Some((first, rest)) => remove(table.get_mut(first)?.as_table_mut()?, rest),
        None => {
            let kept = std::mem::take(table).into_iter();
            let (gone, kept): (Vec<_>, Vec<_>) = kept.partition(|(key, _)| key == path);
            table.extend(kept);
            gone.into_iter().next().map(|(_, value)| value)
        }
    }
}

/// Puts the values of `changes` over those of `whole`, section by section.
fn overlay(whole: &mut Table, changes: Table) {
    for (key, value) in changes {
        match (whole.get_mut(&key), value) {
            (Some(Value::Table(section)), Value::Table(changes)) => overlay(section, changes),
            (_, value) => drop(whole.insert(key, value)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{check, facts, resolve};

    fn table(text: &str) -> Table {
        text.parse().unwrap()
    }

    #[test]
    fn a_variant_differs_in_what_it_gives_only() {
        let variant = "name = \"mine\"\nabout = \"a variant\"\nsources = [\"P: mine\"]\nbased_on = \"zen4\"\n\
                       [tlb.l2d]\nentries = [1536, \"P\"]\nways = [12, \"P\"]\n[core]\nmhz = [1000, \"P\"]\n";
        assert_eq!(check(variant), []);
        let whole = complete(table(variant)).unwrap();
        let changed = resolve("zen4:tlb.l2d.entries=1536,tlb.l2d.ways=12,core.mhz=1000").unwrap();
        assert_eq!(facts::configuration(&whole).to_string(), changed.configuration);
        assert_eq!(whole["name"].as_str(), Some("mine"));
        let sources = whole["sources"].as_array().unwrap();
        assert!(sources[0].as_str() == Some("P: mine") && sources.len() > 1, "{sources:?}");
    }

    #[test]
    fn a_variant_may_lack_parts_and_their_neighbours_keep_their_order() {
        let without = "name = \"x\"\nabout = \"y\"\nsources = []\nbased_on = \"zenplus-2700x\"\n\
                       without = [\"tlb.l0i\", \"ooo.smt.l0i\"]\n";
        assert_eq!(check(without), []);
        let whole = complete(table(without)).unwrap();
        let names: Vec<_> = whole["tlb"].as_table().unwrap().keys().map(String::as_str).collect();
        assert_eq!(names, ["l1i", "l1d", "l2i", "l2d"]);
    }

    #[test]
    fn what_a_variant_gets_wrong_is_named_with_its_line() {
        let variant = |base: &str, rest: &str| format!("name = \"x\"\nabout = \"y\"\nsources = []\n{base}\n{rest}");
        for (base, rest, message) in [
            ("based_on = \"zen9\"", "", "line 4: based_on: no preset \"zen9\"; did you mean zen"),
            ("based_on = 4", "", "line 4: based_on: 4: expected the name of a preset"),
            ("without = [\"tlb.l2d\"]", "", "line 4: without: only a variant lacks parts"),
            (
                "based_on = \"zen4\"\nwithout = [\"tlb.l9\"]",
                "",
                "line 5: without: \"tlb.l9\": expected a section or key",
            ),
            ("based_on = \"zen4\"\nwithout = [4]", "", "line 5: without: expected a list of texts"),
            ("based_on = \"zen4\"", "[tlb.l2d]\nways = [7, \"P\"]", "line 5: tlb.l2d: 3072 entries in 7 ways is not"),
            ("based_on = \"zen4\"", "[tlb.l2d]\nwidth = [7, \"P\"]", "unknown field `width`"),
            ("based_on = \"zen4\"", "[tlb.l2d]\nways = 7", "a value with its provenance"),
            ("based_on = \"zen4\"", "[core]\nmhz = [5, \"set\"]", "core.mhz: tag \"set\" is for overrides"),
        ] {
            let problems = check(&variant(base, rest));
            let shown: Vec<_> = problems.iter().map(Problem::to_string).collect();
            assert!(shown.iter().any(|shown| shown.contains(message)), "{base} {rest}: {shown:?}");
        }
    }
}
