//! Counts that `perf stat` has written: `-x,` (fields between separators) and `-j` (JSON, a line for each count).

use super::models::{Event, MODELS, Model};
use serde::Deserialize;

/// One event's count.
#[derive(Clone, Debug, PartialEq)]
pub struct Count {
    /// The event, in lower case, without modifiers; raw encodings by the name that they have in a model.
    pub name: String,
    /// How often; none where it was not counted. Where events took turns, for the whole time.
    pub value: Option<u64>,
    /// For which share of the time it was counted.
    pub share: f64,
}

/// What is wrong with a file.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ReadError {
    /// A line.
    #[error("line {line}: {what}")]
    Line {
        /// Counted from 1.
        line: usize,
        /// What about it.
        what: String,
    },
    /// All of it.
    #[error("holds no counts of `perf stat -x,` or `perf stat -j`")]
    Nothing,
}

/// What perf writes for a count with `-j`.
#[derive(Deserialize)]
struct Json {
    #[serde(rename = "counter-value")]
    value: Option<String>,
    event: Option<String>,
    #[serde(rename = "pcnt-running")]
    percent: Option<f64>,
}

/// The counts that `text` holds. Counts of one event (of several intervals or cores) are added.
///
/// # Errors
/// When it is not what perf writes.
pub fn counts(text: &str) -> Result<Vec<Count>, ReadError> {
    let mut all: Vec<Count> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let wrong = |what: String| ReadError::Line { line: number + 1, what };
        let count = if line.starts_with('{') { json(line) } else { fields(line) }.map_err(wrong)?;
        let Some(count) = count else { continue };
        match all.iter_mut().find(|known| known.name == count.name) {
            Some(known) => {
                known.value = known.value.zip(count.value).map(|(a, b)| a.saturating_add(b));
                known.share = known.share.min(count.share);
            }
            None => all.push(count),
        }
    }
    if all.is_empty() { Err(ReadError::Nothing) } else { Ok(all) }
}

fn json(line: &str) -> Result<Option<Count>, String> {
    let parsed: Json = serde_json::from_str(line).map_err(|error| format!("is not the JSON of perf: {error}"))?;
    let (Some(event), Some(value)) = (parsed.event, parsed.value) else { return Ok(None) };
    Ok(Some(count(&event, &value, parsed.percent.unwrap_or(100.0))?))
}

/// value, unit, event, running time, percent, and more; behind the event the deviation of several runs (`-r`), before all
/// of it the time of an interval (`-I`) or the CPU, core or socket with how many there are.
fn fields(line: &str) -> Result<Option<Count>, String> {
    let separator = [',', ';', '\t', '|', ' '].into_iter().find(|&c| line.matches(c).count() >= 3);
    let Some(separator) = separator else { return Err("is no line of `perf stat -x,`".into()) };
    let fields = split(line, separator);
    let is_value = |field: &str| field.parse::<f64>().is_ok() || field.starts_with('<');
    // The unit of what is counted here is empty: the event is the field after a value and an empty one.
    let at = (0..fields.len().saturating_sub(2)).find(|&at| {
        is_value(fields[at])
            && fields[at + 1].is_empty()
            && fields[at + 2].starts_with(|c: char| c.is_ascii_alphabetic())
    });
    // Times and metrics have units.
    let Some(at) = at else {
        return if fields.iter().any(|field| is_value(field)) { Ok(None) } else { Err("has no count".into()) };
    };
    let mut rest = fields[at + 3..].iter().filter(|field| !field.ends_with('%'));
    let percent = rest.nth(1).and_then(|field| field.parse().ok()).unwrap_or(100.0);
    Ok(Some(count(fields[at + 2], fields[at], percent)?))
}

/// Fields of a line; separators between slashes are the event's own.
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
            let number: f64 = value.parse().map_err(|_| format!("{value:?} is no count"))?;
            if !(0.0..1.8e19).contains(&number) {
                return Err(format!("{value:?} is no count"));
            }
            // Whole numbers beyond 2^53 stay exact.
            Some(value.parse().unwrap_or(number.round() as u64))
        }
    };
    Ok(Count { name: name(event), value, share: (percent / 100.0).clamp(0.0, 1.0) })
}

/// The event's name as models have it.
fn name(event: &str) -> String {
    let mut name = event.trim().to_ascii_lowercase();
    if let Some((_, inner)) = name.split_once('/') {
        // cpu_core/NAME/u, or cpu/event=0x08,umask=0x10/.
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

/// Names that stand for one another: perf's own for instructions and cycles, and Intel's two for one event.
fn same(event: &Event, name: &str) -> bool {
    use super::models::Role;
    match name {
        "inst_retired.any_p" => event.role == Role::Instructions,
        "cpu_clk_unhalted.thread_p" => event.role == Role::Cycles,
        "icache_64b.iftag_stall" | "icache_tag.stalls" => event.role == Role::FetchStall,
        _ => event.name == name,
    }
}

/// Gives counts the names that `model` has for them, raw encodings (`r0108`, `event=0x08,umask=0x01`) included.
pub fn rename_events(counts: &mut [Count], model: &Model) {
    for count in counts {
        let config = raw(&count.name);
        let known = model.events.iter().find(|event| Some(event.config) == config || same(event, &count.name));
        if let Some(event) = known {
            count.name = event.name.to_owned();
        }
    }
}

/// The configuration that a raw name stands for.
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

/// The model whose events these are: the one that knows most of them, of equals the first; none where one does not know any
/// but what all count.
pub fn identify(counts: &[Count]) -> Option<&'static Model> {
    let own = |model: &Model| {
        let names = counts
            .iter()
            .filter(|count| !matches!(count.name.as_str(), "inst_retired.any_p" | "cpu_clk_unhalted.thread_p"));
        names.filter(|count| model.events.iter().any(|event| event.name == count.name)).count()
    };
    let mut best: Option<(usize, &Model)> = None;
    for model in MODELS {
        // Of those with as many, the one with the fewest that were not counted.
        let known = own(model);
        let better =
            best.is_none_or(|(most, chosen)| known > most || known == most && model.events.len() < chosen.events.len());
        if known > 0 && better {
            best = Some((known, model));
        }
    }
    best.map(|(_, model)| model)
}
