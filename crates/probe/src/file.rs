//! Machine files from measured numbers: those of the nearest preset, with what was measured in their place.

mod exclusion;
mod others;
mod tlb;

use crate::pass::{HOST_PAGE, LEAST_PARALLEL};
use crate::pattern::Page;
use crate::stability::Measured;
use exclusion::excludes_preset;
use reach_lab::machine::{self, Tag};
use toml::{Table, Value};

/// The name of the machine that was measured.
pub const NAME: &str = "this-computer";

/// How far the quotient of times may lie from a whole number of walkers.
const WHOLE: f64 = 0.25;

/// A machine file, and what could not go into it.
#[derive(Clone, Debug)]
pub struct MachineText {
    /// The text of the file.
    pub text: String,
    /// The paths of the facts that were measured.
    pub measured: Vec<String>,
    /// Stable numbers that the file does not hold, each with the reason.
    pub left_out: Vec<(String, String)>,
}

/// Why there is no machine file.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// There is no preset of this name, or it is no table.
    #[error("preset {0}: cannot be read")]
    Preset(String),
    /// Even the preset's own numbers make no valid file.
    #[error("the machine file would be invalid: {0}")]
    Invalid(String),
}

/// A number that goes into the file.
struct Fact {
    path: Vec<String>,
    value: Value,
    reason: String,
    from: String,
}

/// Makes the machine file of the processor `cpu` (as in `processor.exact`) from the stable ones of `numbers` and the facts of
/// `preset`. A number that is not stable goes into it, too, where its interval excludes the preset's, and so does a bound of the walkers
/// that the preset does not reach.
///
/// A number that contradicts the rest of the file is left out: a latency below that of a nearer level, for example.
///
/// # Errors
/// When `preset` does not exist.
pub fn machine_text(preset: &str, cpu: &str, about: &str, numbers: &[Measured]) -> Result<MachineText, FileError> {
    let mut table = machine::preset_table(preset).ok_or_else(|| FileError::Preset(preset.to_owned()))?;
    table.insert("name".into(), Value::String(NAME.into()));
    table.insert("about".into(), Value::String(about.to_owned()));
    if let Some(sources) = table.get_mut("sources").and_then(Value::as_array_mut) {
        sources.push(Value::String(format!(
            "M: `reach machine probe` on this computer; the rest is that of preset {preset}"
        )));
    }
    let exact = Value::Array(vec![Value::String(cpu.to_owned())]);
    set(&mut table, &["processor", "exact"], fact(exact, "the processor that was measured"));
    let mut left_out = Vec::new();
    let mut facts = Vec::new();
    let tells = |number: &&Measured| {
        number.unstable.is_none()
            || number.name == LEAST_PARALLEL && number.surest.is_some()
            || excludes_preset(&table, number, numbers)
    };
    for number in numbers.iter().filter(tells) {
        match fact_of(&table, number, numbers) {
            Ok(found) => facts.extend(found),
            Err(why) => left_out.push((number.name.clone(), why)),
        }
    }
    loop {
        let mut changed = table.clone();
        for fact in &facts {
            let path: Vec<&str> = fact.path.iter().map(String::as_str).collect();
            set(&mut changed, &path, self::fact(fact.value.clone(), &fact.reason));
        }
        let text = toml::to_string(&changed).map_err(|error| FileError::Invalid(error.to_string()))?;
        let Some(problem) = machine::check(&text).into_iter().next() else {
            let measured = facts.iter().map(|fact| fact.path.join(".")).collect();
            return Ok(MachineText { text, measured, left_out });
        };
        let count = facts.len();
        facts.retain(|fact| {
            let blamed = fact.path.join(".").starts_with(&problem.at);
            if blamed {
                left_out.push((fact.from.clone(), problem.to_string()));
            }
            !blamed
        });
        if facts.len() == count {
            return Err(FileError::Invalid(problem.to_string()));
        }
    }
}

fn fact(value: Value, reason: &str) -> Value {
    Value::Array(vec![value, Value::String(Tag::Measured.symbol().into()), Value::String(reason.to_owned())])
}

/// Sets the fact at `path`, whose tables exist.
fn set(table: &mut Table, path: &[&str], value: Value) {
    match path {
        [key] => {
            table.insert((*key).to_owned(), value);
        }
        [key, rest @ ..] => {
            if let Some(inner) = table.get_mut(*key).and_then(Value::as_table_mut) {
                set(inner, rest, value);
            }
        }
        [] => {}
    }
}

/// Returns the fact that `number`, one of `numbers`, gives; `None` where another one gives the same. The error says why it gives none.
fn fact_of(table: &Table, number: &Measured, numbers: &[Measured]) -> Result<Option<Fact>, String> {
    let parts: Vec<&str> = number.name.split('.').collect();
    let make = |path: &[&str], value: Value| {
        let path = path.iter().map(|&part| part.to_owned()).collect();
        Ok(Some(Fact { path, value, reason: interval(table, number), from: number.name.clone() }))
    };
    let find = |name: String| numbers.iter().find(|other| other.name == name);
    let whole = Value::Integer(number.value.round() as i64);
    match parts[..] {
        ["core", "mhz"] => make(&["core", "mhz"], whole),
        ["memory", "latency"] => {
            make(&["memory", "latency"], Value::String(format!("{} cycles", number.value.round())))
        }
        ["memory", "bandwidth", "all"] => match find("memory.bandwidth.one".into()) {
            Some(one) if one.low > number.high => Err("one thread alone gets more".into()),
            _ => make(&["memory", "bandwidth"], whole),
        },
        ["walk", "parallel"] => match (number.value - number.value.round()).abs() {
            ..=WHOLE if number.value >= 0.5 => make(&["walker", "hardware", "walkers"], whole),
            _ => Err("it lies between two numbers of walkers".into()),
        },
        ["walk", "parallel", "least"] => {
            let preset = value(hardware_walker(table)?, "walkers").and_then(Value::as_integer).unwrap_or(0);
            let least = number.low.floor() as i64;
            if least <= preset {
                return Ok(None);
            }
            let reason = format!("at least, some being idle: {}", interval(table, number));
            Ok(make(&["walker", "hardware", "walkers"], Value::Integer(least))?.map(|fact| Fact { reason, ..fact }))
        }
        ["walk", "lookup"] => {
            let rest = number.value - lender_latency(table)?;
            make(&["walker", "hardware", "lookup"], Value::Integer(rest.round().max(0.0) as i64))
        }
        ["walk", "cache_level"] => make(&["walker", "hardware", "cache_level"], whole),
        ["walk", "pde", ..] if find(HOST_PAGE.into()).is_some_and(|page| page.value > 0.0) => {
            Err("in a guest, what the processor caches of two page tables decides about it".into())
        }
        ["walk", "pde", "entries"] => make(&["walker", "hardware", "caches", &walk_cache(table)?, "entries"], whole),
        ["os", "fault", "file"] => {
            let rest = number.value - os_cost(table, "trap") - os_cost(table, "pte_write");
            make(&["os", "file_fault"], Value::Integer(rest.round().max(0.0) as i64))
        }
        ["os", "fault", "around"] => {
            let rest = number.value - os_cost(table, "pte_write");
            make(&["os", "fault_around_page"], Value::Integer(rest.round().max(0.0) as i64))
        }
        ["os", "unmap"] => {
            let rest = number.value - os_cost(table, "pte_write");
            make(&["os", "free_page"], Value::Integer(rest.round().max(0.0) as i64))
        }
        ["os", key @ ("syscall" | "frame_groups" | "frame_jumps")] => make(&["os", key], whole),
        ["os", "zero"] => make(&["os", "zero_per_byte"], whole),
        ["os", "fork", "page"] => {
            let rest = number.value - os_cost(table, "pte_write");
            make(&["os", "fork_per_pte"], Value::Integer(rest.round().max(0.0) as i64))
        }
        ["os", "fault", "4k"] => {
            // The whole fault takes what was measured, whichever zeroing the file has.
            let zero = find("os.zero".into())
                .filter(|zero| zero.unstable.is_none() || excludes_preset(table, zero, numbers))
                .map(|zero| zero.value.round());
            let zero = zero.unwrap_or_else(|| os_cost(table, "zero_per_byte")) / 1000.0 * Page::Small.bytes() as f64;
            let rest = number.value - zero - os_cost(table, "trap") - os_cost(table, "pte_write");
            make(&["os", "fault"], Value::Integer(rest.round().max(0.0) as i64))
        }
        ["nested", "host_page"] => make(&["nested", "host_page"], Value::String(host_page(table, number.value)?)),
        ["tlb", .., key] => match tlb::fact(table, number, numbers)? {
            Some((array, value)) => make(&["tlb", &array, key], value),
            None => Ok(None),
        },
        ["cache", level, key] => {
            let cache = data_cache(table, level)?;
            if let Some(rate) = others::rate(table, level, number.value, numbers).filter(|_| key == "bytes") {
                let found = format!("chains keep {:.1} MB of it: {}", number.value / 1e6, interval(table, number));
                let fact = make(&["caches", &cache, "others"], Value::Integer(rate))?;
                return Ok(fact.map(|fact| Fact { reason: found, ..fact }));
            }
            let value = match key {
                "bytes" => Value::String(size_of(table, &cache, number.value)?),
                _ => whole,
            };
            make(&["caches", &cache, key], value)
        }
        _ => Err("machine files have no such number".into()),
    }
}

/// Returns the host's page size of `bytes` as a file writes it.
fn host_page(table: &Table, bytes: f64) -> Result<String, String> {
    if !table.contains_key("nested") {
        return Err("the preset has no nested paging".into());
    }
    if bytes > 0.0 && bytes < Page::Huge.bytes() as f64 {
        tlb::load_array(table, "first", "2m").map_err(|why| {
            format!("{why} for whole pages of 2 MB, so that entries hold parts of them without a host, too")
        })?;
    }
    Ok(match bytes as u64 {
        0 => "none".into(),
        bytes if bytes < 1 << 20 => format!("{}K", bytes >> 10),
        bytes => format!("{}M", bytes >> 20),
    })
}

/// Returns a cost of the preset's operating system, in cycles.
fn os_cost(table: &Table, key: &str) -> f64 {
    let cost = table.get("os").and_then(|os| value(os, key)?.as_integer());
    cost.unwrap_or(0) as f64
}

/// Returns the hardware walker of the preset.
fn hardware_walker(table: &Table) -> Result<&Value, String> {
    table.get("walker").and_then(|walker| walker.get("hardware")).ok_or_else(|| "the preset has no walker".to_owned())
}

/// Returns the walk caches of the preset.
fn walk_caches(table: &Table) -> Result<impl Iterator<Item = (&String, &Value)>, String> {
    let caches = hardware_walker(table)?.get("caches").and_then(Value::as_table);
    Ok(caches.into_iter().flatten())
}

/// Returns the latency of the TLB array that walk caches lie in, which a walk takes besides its look-up; 0 for none.
fn lender_latency(table: &Table) -> Result<f64, String> {
    let lenders = walk_caches(table)?.filter_map(|(_, cache)| value(cache, "within")?.as_str());
    let latency = |name| value(table.get("tlb")?.get(name)?, "latency")?.as_integer();
    Ok(lenders.filter_map(latency).max().unwrap_or(0) as f64)
}

/// Returns the name of the walk cache that holds entries of the level above the leaf, and no others.
fn walk_cache(table: &Table) -> Result<String, String> {
    let above = |cache: &Value| {
        let levels = value(cache, "levels").and_then(Value::as_array);
        levels.is_some_and(|levels| matches!(&levels[..], [level] if level.as_integer() == Some(1)))
    };
    let mut caches = walk_caches(table)?.filter(|(_, cache)| above(cache) && value(cache, "entries").is_some());
    caches.next().map(|(name, _)| name.clone()).ok_or_else(|| "the preset has no such walk cache of its own".to_owned())
}

/// Returns what the number's reason says in the file.
fn interval(table: &Table, number: &Measured) -> String {
    let (low, high, processes) = (digits(number.low), digits(number.high), number.processes);
    if number.name == HOST_PAGE && number.value == Page::Huge.bytes() as f64 {
        return format!("or larger, found by {} of {processes} processes", number.found);
    }
    if number.is_exact() {
        return format!("found by {} of {processes} processes", number.found);
    }
    let with = match number.name.as_str() {
        "os.fault.4k" => " with trap, zeroing and entry",
        "os.fault.file" => " with trap and entry",
        "os.fork.page" | "os.fault.around" | "os.unmap" => " with the entry's write",
        _ if tlb::holds_replay(table, number) => " with itlb_replay",
        _ => "",
    };
    let unstable = if number.unstable.is_some() { ": not stable, but the preset's is excluded" } else { "" };
    format!("{low} to {high}{with}, {processes} processes{unstable}")
}

/// Returns a number with as many digits as it is worth.
fn digits(number: f64) -> String {
    if number < 100.0 { format!("{number:.1}") } else { format!("{number:.0}") }
}

/// Returns the value of the fact `key` in a section.
fn value<'t>(section: &'t Value, key: &str) -> Option<&'t Value> {
    section.get(key)?.as_array()?.first()
}

/// Returns whether the list `key` of a section has this member.
fn lists(section: &Value, key: &str, member: &str) -> bool {
    value(section, key).and_then(Value::as_array).is_some_and(|list| list.iter().any(|m| m.as_str() == Some(member)))
}

/// Returns the name of the cache that holds data at a level.
fn data_cache(table: &Table, level: &str) -> Result<String, String> {
    let mut caches = table.get("caches").and_then(Value::as_table).into_iter().flatten();
    let number = level.parse().ok();
    let found = caches.find(|(_, cache)| {
        value(cache, "level").and_then(Value::as_integer) == number && lists(cache, "holds", "data")
    });
    found.map(|(name, _)| name.clone()).ok_or_else(|| "the preset has no such cache".to_owned())
}

/// Returns `bytes` as a size, rounded to sets of the preset's ways where it is no multiple of a kilobyte.
fn size_of(table: &Table, cache: &str, bytes: f64) -> Result<String, String> {
    let ways = table.get("caches").and_then(|caches| value(caches.get(cache)?, "ways")?.as_integer()).unwrap_or(1);
    let kilobyte = 1024.0 * if bytes < 4e6 { 1.0 } else { ways as f64 };
    let kilobytes = (bytes / kilobyte).round() * kilobyte / 1024.0;
    if kilobytes < 1.0 { Err("less than 1 KB".into()) } else { Ok(format!("{kilobytes}K")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(name: &str, value: f64) -> Measured {
        let name = name.to_owned();
        let (low, high) = (value - 0.2, value + 0.2);
        Measured { name, value, low, high, found: 7, processes: 7, surest: Some((low, high)), unstable: None }
    }

    #[test]
    fn measured_numbers_replace_those_of_the_preset_and_carry_their_interval() {
        let numbers = [
            number("core.mhz", 3412.0),
            number("memory.latency", 411.3),
            number("tlb.first.2m.entries", 64.0),
            number("tlb.first.4k.entries", 64.0),
            number("tlb.first.4k.ways", 64.0),
            number("tlb.second.4k.latency", 7.6),
            number("cache.3.bytes", 33.1e6),
        ];
        let made = machine_text("zen3", "AuthenticAMD-25-1", "a test", &numbers).unwrap();
        assert!(machine::check(&made.text).is_empty());
        let lines = |part: &str| made.text.lines().any(|line| line == part);
        assert!(lines("mhz = [3412, \"M\", \"3412 to 3412, 7 processes\"]"), "{}", made.text);
        assert!(lines("latency = [8, \"M\", \"7.4 to 7.8, 7 processes\"]"), "{}", made.text);
        assert!(lines("ways = [\"full\", \"M\", \"found by 7 of 7 processes\"]"), "{}", made.text);
        assert!(made.left_out.is_empty(), "{:?}", made.left_out);
        assert_eq!(made.measured.len(), 6);
    }

    #[test]
    fn what_fetches_show_goes_to_the_arrays_of_fetches() {
        let made = |preset: &str, entries: f64| {
            let numbers = [
                number("tlb.first.fetch.4k.entries", entries),
                number("tlb.first.fetch.4k.ways", entries),
                number("tlb.second.4k.latency", 8.0),
                number("tlb.second.fetch.4k.latency", 6.1),
            ];
            let made = machine_text(preset, "AuthenticAMD-25-11", "a test", &numbers).unwrap();
            assert!(machine::check(&made.text).is_empty() && made.left_out.is_empty(), "{:?}", made.left_out);
            made
        };
        let own = made("zen4", 32.0);
        assert_eq!(own.measured, ["tlb.l1i.entries", "tlb.l1i.ways", "tlb.l2d.latency", "tlb.l2i.latency"]);
        let reason = "5.9 to 6.3, 7 processes";
        assert!(own.text.contains(&format!("latency = [6, \"M\", \"{reason}\"]")), "{}", own.text);
        let shared = made("neoverse-n1", 32.0);
        assert_eq!(shared.measured, ["tlb.l1i.entries", "tlb.l1i.ways", "tlb.l2.latency"]);
        assert!(shared.text.contains("latency = [8, \"M\""), "loads have measured the level that both use");
        assert_eq!(made("zenplus-2700x", 48.0).measured[..2], ["tlb.l1i.entries", "tlb.l1i.ways"]);
    }

    #[test]
    fn the_cycles_of_a_repeated_look_up_are_no_part_of_the_latency() {
        // Sandy Bridge repeats a look-up for three cycles. Its loads have found nothing of the level that they share with fetches.
        let numbers = [number("tlb.second.fetch.4k.latency", 11.2)];
        let made = machine_text("sandybridge-e5-2430", "GenuineIntel-6-2D", "a test", &numbers).unwrap();
        let line = "latency = [8, \"M\", \"11.0 to 11.4 with itlb_replay, 7 processes\"]";
        assert!(made.text.contains(line), "{}", made.text);
    }

    #[test]
    fn a_step_of_an_array_before_the_first_level_goes_to_that_array() {
        let numbers = [number("tlb.first.fetch.4k.entries", 16.0), number("tlb.second.fetch.4k.latency", 2.0)];
        let made = machine_text("zenplus-2700x", "AuthenticAMD-23-8", "a test", &numbers).unwrap();
        assert_eq!(made.measured, ["tlb.l0i.entries", "tlb.l1i.latency"]);
    }

    #[test]
    fn what_was_measured_of_walks_replaces_the_walker_of_the_preset() {
        let file =
            |preset: &str, numbers: &[Measured]| machine_text(preset, "GenuineIntel-6-5E", "a test", numbers).unwrap();
        let numbers = [
            number("walk.parallel", 3.9),
            number("walk.lookup", 12.1),
            number("walk.cache_level", 1.0),
            number("walk.pde.entries", 24.0),
            number("memory.bandwidth.all", 21_000.0),
            number("os.fault.file", 1000.0),
            number("os.fault.around", 70.0),
            number("os.unmap", 950.0),
        ];
        let made = file("skylake-e3-1240v5", &numbers);
        assert!(machine::check(&made.text).is_empty());
        let lines = |part: &str| made.text.lines().any(|line| line == part);
        assert!(lines("walkers = [4, \"M\", \"3.7 to 4.1, 7 processes\"]"), "{}", made.text);
        assert!(lines("lookup = [12, \"M\", \"11.9 to 12.3, 7 processes\"]"));
        assert!(lines("bandwidth = [21000, \"M\", \"21000 to 21000, 7 processes\"]"));
        assert!(lines("file_fault = [730, \"M\", \"1000 to 1000 with trap and entry, 7 processes\"]"));
        assert!(lines("fault_around_page = [50, \"M\", \"69.8 to 70.2 with the entry's write, 7 processes\"]"));
        assert!(lines("free_page = [930, \"M\", \"950 to 950 with the entry's write, 7 processes\"]"));
        // 24 entries in 8 ways are no power of two of sets.
        assert_eq!(made.left_out.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["walk.pde.entries"]);
        // 40 thousandths of a cycle for each byte, 250 for the trap and 20 for the entry are the preset's.
        let fault = file("zen4", &[number("os.fault.4k", 5491.0)]).text;
        assert!(fault.contains("\nfault = [5057, \"M\""), "{fault}");
        let rates = [number("memory.bandwidth.all", 21_000.0), number("memory.bandwidth.one", 30_000.0)];
        let rates = file("zen4", &rates);
        assert!(rates.measured.is_empty() && rates.left_out[0].1.contains("alone gets more"), "{:?}", rates.left_out);
        let lookup = file("zen4", &[number("walk.lookup", 13.1)]);
        assert!(lookup.text.contains("lookup = [6, \"M\""), "7 of them are another look-up of the TLB");
        let least = |preset, at_least| file(preset, &[number(LEAST_PARALLEL, at_least)]).text;
        let line = "walkers = [9, \"M\", \"at least, some being idle: 9.1 to 9.5, 7 processes\"]";
        assert!(least("zen4", 9.3).lines().any(|text| text == line), "{}", least("zen4", 9.3));
        assert!(!least("zen4", 6.1).contains("some being idle"), "the preset has as many");
        let between = file("zen4", &[number("walk.parallel", 4.5), number("walk.pde.entries", 32.0)]);
        assert!(between.measured.is_empty() && between.left_out.len() == 2, "{:?}", between.left_out);
    }

    #[test]
    fn how_scattered_frames_are_is_written_if_it_is_possible() {
        let wanted = |groups, jumps| {
            let numbers = [number("os.frame_groups", groups), number("os.frame_jumps", jumps)];
            let made = machine_text("zen4", "AuthenticAMD-25-17", "a test", &numbers).unwrap();
            assert!(machine::check(&made.text).is_empty());
            let lines = made.text.lines().filter(|line| line.starts_with("frame_")).map(str::to_owned);
            (lines.collect::<Vec<_>>(), made.left_out.len())
        };
        let (groups, jumps) = (
            "frame_groups = [838, \"M\", \"838 to 838, 7 processes\"]",
            "frame_jumps = [990, \"M\", \"990 to 990, 7 processes\"]",
        );
        assert_eq!(wanted(838.2, 990.1), (vec![groups.into(), jumps.into()], 0));
        assert_eq!(wanted(838.2, 1990.0), (vec![groups.into()], 1));
        assert_eq!(wanted(9.0, 990.1), (vec![], 2));
    }

    #[test]
    fn the_host_page_is_written_as_the_size_that_the_file_knows() {
        let line = |bytes: f64| {
            let numbers = [number("nested.host_page", bytes), number("tlb.part.2m.bytes", bytes)];
            let made = machine_text("zen3", "AuthenticAMD-25-1", "a test", &numbers).unwrap();
            assert!(machine::check(&made.text).is_empty() && made.left_out.is_empty(), "{:?}", made.left_out);
            made.text.lines().find(|line| line.starts_with("host_page")).unwrap().to_owned()
        };
        assert_eq!(line(4096.0), "host_page = [\"4K\", \"M\", \"found by 7 of 7 processes\"]");
        assert_eq!(line(2_097_152.0), "host_page = [\"2M\", \"M\", \"or larger, found by 7 of 7 processes\"]");
        assert_eq!(line(0.0), "host_page = [\"none\", \"M\", \"found by 7 of 7 processes\"]");
    }

    #[test]
    fn unstable_and_contradictory_numbers_are_not_written() {
        let mut unstable = number("tlb.second.4k.latency", 9.0);
        unstable.unstable = Some("it is not".into());
        let numbers = [unstable, number("memory.latency", 20.0), number("tlb.second.4k.ways", 7.0)];
        let made = machine_text("zen3", "AuthenticAMD-25-1", "a test", &numbers).unwrap();
        assert!(machine::check(&made.text).is_empty());
        assert_eq!(made.measured, [""; 0]);
        let why: Vec<&str> = made.left_out.iter().map(|(name, _)| name.as_str()).collect();
        assert!(why.contains(&"memory.latency") && why.contains(&"tlb.second.4k.ways"), "{:?}", made.left_out);
    }
}
