//! The TLB arrays of a machine file that measured numbers belong to.

use super::{lists, value};
use crate::stability::Measured;
use toml::{Table, Value};

/// The end of the name of the latency that fetches show.
const FETCH_LATENCY: &str = ".fetch.4k.latency";

/// Returns the array that `number`, one of `numbers`, belongs to, and the value there; `None` where another number gives the same.
/// The error says why there is none.
pub(super) fn fact(table: &Table, number: &Measured, numbers: &[Measured]) -> Result<Option<(String, Value)>, String> {
    let parts: Vec<&str> = number.name.split('.').collect();
    match parts[..] {
        // The host's page size follows from it.
        ["tlb", "part", ..] => Ok(None),
        ["tlb", level, "fetch", size, key] => by_fetches(table, number, numbers, [level, size, key]),
        ["tlb", level, size, key] => by_loads(table, number, numbers, [level, size, key]),
        _ => Err("machine files have no such number".into()),
    }
}

/// Returns whether a number holds the cycles of a repeated look-up besides those of an array.
pub(super) fn holds_replay(table: &Table, number: &Measured) -> bool {
    number.name.ends_with(FETCH_LATENCY) && replay(table) > 0.0
}

/// Returns the measured number of this name.
fn find(numbers: &[Measured], name: String) -> Option<&Measured> {
    numbers.iter().find(|number| number.name == name)
}

/// Returns the array and the value of a number that loads have shown.
fn by_loads(
    table: &Table,
    number: &Measured,
    numbers: &[Measured],
    [level, size, key]: [&str; 3],
) -> Result<Option<(String, Value)>, String> {
    let array = load_array(table, level, size)?;
    if let Some(small) = find(numbers, format!("tlb.{level}.4k.{key}")).filter(|_| size != "4k")
        && load_array(table, level, "4k").is_ok_and(|other| other == array)
    {
        let small = small.value.round();
        return match small == number.value.round() {
            true => Ok(None),
            false => Err(format!("{array} holds pages of both sizes, and has {small} for small ones")),
        };
    }
    let entries = find(numbers, format!("tlb.{level}.{size}.entries"));
    Ok(Some((array, size_value(number, key, entries))))
}

/// Returns the array and the value of a number that fetches have shown.
fn by_fetches(
    table: &Table,
    number: &Measured,
    numbers: &[Measured],
    [level, size, key]: [&str; 3],
) -> Result<Option<(String, Value)>, String> {
    let entries = find(numbers, format!("tlb.first.fetch.{size}.entries"));
    let array = fetch_array(table, level, size, entries)?;
    let loads = find(numbers, format!("tlb.{level}.{size}.{key}")).filter(|loads| loads.unstable.is_none());
    if loads.is_some() && load_array(table, level, size).is_ok_and(|other| other == array) {
        return Ok(None);
    }
    let value = match key {
        "latency" => Value::Integer((number.value - replay(table)).round().max(0.0) as i64),
        _ => size_value(number, key, entries),
    };
    Ok(Some((array, value)))
}

/// Returns the value of a whole number; of ways, `full` where they are all `entries`.
fn size_value(number: &Measured, key: &str, entries: Option<&Measured>) -> Value {
    let is_full = key == "ways" && entries.is_some_and(|entries| entries.value == number.value);
    if is_full { Value::String("full".into()) } else { Value::Integer(number.value.round() as i64) }
}

/// Returns the name of the only array that holds loads' pages of `size` at a level, `first` or `second`.
pub(super) fn load_array(table: &Table, level: &str, size: &str) -> Result<String, String> {
    let number = if level == "first" { 1 } else { 2 };
    only(arrays(table, "load", size).filter(|array| array.level == number))
}

/// Returns the name of the only array that holds fetches' pages of `size` at a level, `first` or `second`. `entries` are those
/// of the first step.
///
/// Some processors have a small array before the first level. It shows a step where its misses take time, and none where they
/// do not. So the first step is that of the array which is nearest in size.
fn fetch_array(table: &Table, level: &str, size: &str, entries: Option<&Measured>) -> Result<String, String> {
    let distance = |array: &Array, entries: f64| (array.entries / entries).log2().abs();
    let nearest = entries.and_then(|entries| {
        let near = arrays(table, "fetch", size).filter(|array| array.level <= 1);
        near.min_by(|a, b| distance(a, entries.value).total_cmp(&distance(b, entries.value)))
    });
    let first = nearest.map_or(1, |array| array.level);
    let number = if level == "first" { first } else { first + 1 };
    only(arrays(table, "fetch", size).filter(|array| array.level == number))
}

/// A TLB array of a preset.
struct Array<'t> {
    name: &'t str,
    level: i64,
    entries: f64,
}

/// Returns the arrays that hold pages of `size` for what they serve: `load` or `fetch`.
fn arrays<'t>(table: &'t Table, serves: &'t str, size: &'t str) -> impl Iterator<Item = Array<'t>> {
    let all = table.get("tlb").and_then(Value::as_table).into_iter().flatten();
    all.filter(move |(_, array)| lists(array, "serves", serves) && lists(array, "sizes", &size.to_uppercase()))
        .filter_map(|(name, array)| {
            let number = |key| value(array, key).and_then(Value::as_integer);
            Some(Array { name, level: number("level")?, entries: number("entries")? as f64 })
        })
}

/// Returns the name of the only one of `found`.
fn only<'t>(found: impl Iterator<Item = Array<'t>>) -> Result<String, String> {
    let found: Vec<Array> = found.collect();
    match &found[..] {
        [array] => Ok(array.name.to_owned()),
        [] => Err("the preset has no such array".into()),
        _ => Err("the preset has several such arrays".into()),
    }
}

/// Returns the cycles of the preset for a look-up that fetches repeat after a miss.
fn replay(table: &Table) -> f64 {
    let replay = table.get("ooo").and_then(|core| value(core, "itlb_replay")?.as_integer());
    replay.unwrap_or(0) as f64
}
