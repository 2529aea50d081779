//! Numbers that are not stable, and yet tell that the preset's are wrong here.

use super::{fact_of, value};
use crate::stability::Measured;
use reach_lab::machine::{Delay, Size};
use toml::{Table, Value};

/// Returns whether the interval of `number`, one of `numbers`, a time or the size of a cache or TLB, excludes what the preset
/// says. A size must differ by more than a factor of two: what many share is a part of it, or the preset's is a larger sibling.
pub(super) fn excludes_preset(table: &Table, number: &Measured, numbers: &[Measured]) -> bool {
    let Some((low, high)) = number.surest else { return false };
    let is_size = [".bytes", ".entries", ".ways"].iter().any(|end| number.name.ends_with(end));
    let slack = if is_size { 2.0 } else { 1.0 };
    let fact = |value: f64| fact_of(table, &Measured { value, ..number.clone() }, numbers).ok().flatten();
    let (Some(low), Some(high)) = (fact(low / slack), fact(high * slack)) else { return false };
    if low.path != high.path {
        return false;
    }
    let mhz = table.get("core").and_then(|core| value(core, "mhz")?.as_integer()?.try_into().ok());
    let (key, sections) = low.path.split_last().expect("a fact has a path");
    let table = Value::Table(table.clone());
    let section = sections.iter().try_fold(&table, |section, part| section.get(part));
    let Some(preset) = section.and_then(|section| value(section, key)) else { return true };
    let quantities = [&low.value, preset, &high.value].map(|value| quantity(value, mhz?));
    matches!(quantities, [Some(low), Some(preset), Some(high)] if preset < low || preset > high)
}

/// Returns what a fact's value amounts to: a number, the bytes of a size, or the cycles of a time at `mhz` MHz.
fn quantity(value: &Value, mhz: u32) -> Option<f64> {
    let size = || value.clone().try_into().ok().map(|Size(bytes)| bytes as f64);
    let delay = || value.clone().try_into().ok().map(|delay: Delay| delay.at(mhz) as f64);
    value.as_integer().map(|number| number as f64).or_else(size).or_else(delay)
}

#[cfg(test)]
mod tests {
    use super::super::machine_text;
    use super::*;

    fn wide(name: &str, low: f64, high: f64) -> Measured {
        let (name, value) = (name.to_owned(), f64::midpoint(low, high));
        let (surest, unstable) = (Some((low, high)), Some("its interval is wide".into()));
        Measured { name, value, low, high, found: 9, processes: 9, surest, unstable }
    }

    #[test]
    fn an_unstable_time_replaces_a_preset_that_its_interval_excludes() {
        let file = |name: &str, low: f64, high: f64| {
            machine_text("zen4", "AuthenticAMD-25-11", "a test", &[wide(name, low, high)]).unwrap()
        };
        let fault = file("os.fault.4k", 5351.0, 6213.0);
        assert_eq!(fault.measured, ["os.fault"], "the preset's is 1500");
        assert!(fault.text.contains("not stable, but the preset's is excluded"), "{}", fault.text);
        assert_eq!(
            file("os.fault.4k", 1500.0, 2500.0).measured,
            [""; 0],
            "1934 with trap, zeroing and entry is possible"
        );
        // Where zeroing takes 1,213 cycles, the preset's 1,500 would make the whole fault longer than it was measured.
        let both = [wide("os.zero", 276.0, 316.0), wide("os.fault.4k", 1500.0, 2500.0)];
        let both = machine_text("zen4", "AuthenticAMD-25-11", "a test", &both).unwrap();
        assert!(both.text.contains("\nfault = [518, \"M\""), "{}", both.text);
        // 50 cycles and 65 ns at 4500 MHz are 342 cycles.
        assert_eq!(file("memory.latency", 300.0, 400.0).measured, [""; 0]);
        assert_eq!(file("memory.latency", 400.0, 500.0).measured, ["memory.latency"]);
        assert_eq!(file("memory.bandwidth.all", 20e3, 30e3).measured, ["memory.bandwidth"], "the preset has none");
    }

    #[test]
    fn the_share_of_a_tlb_replaces_a_size_that_its_interval_excludes() {
        let shares = |entries: f64, ways: f64| {
            let numbers = [wide("tlb.second.4k.entries", entries, entries), wide("tlb.second.4k.ways", ways, ways)];
            machine_text("zen4", "AuthenticAMD-25-11", "a test", &numbers).unwrap().measured
        };
        assert_eq!(shares(1408.0, 11.0), ["tlb.l2d.entries", "tlb.l2d.ways"]);
        assert_eq!(shares(2560.0, 20.0), [""; 0], "the preset's 3,072 entries in 24 ways are possible");
    }

    #[test]
    fn the_share_of_a_cache_replaces_a_size_that_its_interval_excludes() {
        let line = |value: f64| {
            let share = wide("cache.3.bytes", 0.8 * value, 1.2 * value);
            let made = machine_text("sapphire-rapids", "GenuineIntel-6-CF", "a test", &[share]).unwrap();
            made.measured == ["caches.l3.bytes"]
        };
        assert!(line(24e6) && line(500e6));
        assert!(!line(60e6) && !line(105e6), "the preset's 105 MB are possible");
    }
}
