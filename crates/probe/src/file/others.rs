//! What other guests bring into a cache that is theirs, too.
//!
//! Chains of loads through more and more lines find the size at which they take half of the way from the cache's cycles to
//! memory's. If a line leaves when it is the least recently used of all, ours and theirs, then the whole cache is what we hold
//! and what they bring while our chain goes round once.

use super::{data_cache, value};
use crate::pass::HOST_PAGE;
use crate::pattern::LINE;
use crate::stability::Measured;
use reach_lab::machine::{Delay, Size};
use toml::{Table, Value};

/// The part of the preset's bytes that a guest finds at most where others use the cache: less than errors of the probe, a tenth,
/// could explain.
const OTHERS_USE_IT: f64 = 0.75;

/// Returns the millions of bytes a second that others bring into the preset's cache of this level, of which chains in a guest
/// find `bytes`. `None`: all of it is found, the cache is not the last, or this is no guest.
pub(super) fn rate(table: &Table, level: &str, bytes: f64, numbers: &[Measured]) -> Option<i64> {
    let measured = |name: &str| numbers.iter().find(|number| number.name == name).map(|number| number.value);
    measured(HOST_PAGE).filter(|&page| page > 0.0)?;
    let next: u32 = level.parse::<u32>().ok()? + 1;
    if data_cache(table, &next.to_string()).is_ok() {
        return None;
    }
    let cache = table.get("caches")?.get(data_cache(table, level).ok()?)?;
    let Size(whole) = value(cache, "bytes")?.clone().try_into().ok()?;
    if bytes > OTHERS_USE_IT * whole as f64 {
        return None;
    }
    let mhz = measured("core.mhz").or_else(|| Some(value(table.get("core")?, "mhz")?.as_integer()? as f64))?;
    let delay = |fact: &Value| fact.clone().try_into().ok().map(|delay: Delay| delay.at(mhz as u32) as f64);
    let memory = measured("memory.latency").or_else(|| delay(value(table.get("memory")?, "latency")?))?;
    let near = value(cache, "latency")?.as_integer()? as f64;
    let round = bytes / LINE as f64 * f64::midpoint(near, memory);
    Some(((whole as f64 - bytes) / round * mhz).round() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_bring_while_a_chain_goes_round_is_what_it_does_not_hold() {
        let text = "[core]\nmhz = [1000, \"T\"]\n[memory]\nlatency = [\"300 cycles\", \"T\"]\n[caches.l3]\nlevel = [3, \"V\"]\n\
                    holds = [[\"data\"], \"V\"]\nbytes = [\"32M\", \"V\"]\nlatency = [50, \"T\"]\n";
        let table: Table = text.parse().unwrap();
        let (low, high, surest) = (4096.0, 4096.0, Some((4096.0, 4096.0)));
        let page = Measured {
            name: HOST_PAGE.into(),
            value: 4096.0,
            low,
            high,
            found: 9,
            processes: 9,
            surest,
            unstable: None,
        };
        let guest = [page];
        // 131,072 lines of 175 cycles each are 22.9 milliseconds, in which 24 MB come.
        assert_eq!(rate(&table, "3", 8.0 * 1_048_576.0, &guest), Some(1097));
        assert_eq!(rate(&table, "3", 8.0 * 1_048_576.0, &[]), None, "no guest");
        assert_eq!(rate(&table, "3", 30.0 * 1_048_576.0, &guest), None, "nobody else");
        assert_eq!(rate(&table, "2", 1.0 * 1_048_576.0, &guest), None, "not the last");
    }
}
