//! What several processes have measured together: which numbers agree, and which do not.

use crate::pass::{HOST_PAGE, Pass};
use reach_live::statistics::{MIN_VALUES, Median};
use std::collections::{BTreeMap, BTreeSet};

/// The fewest processes that can agree.
pub const LEAST: usize = MIN_VALUES;
/// Half of the interval's width, as a part of the median, up to which a number is stable. The medians of 95 in a hundred pairs of
/// runs then differ by less than √2 times as much, which is less than a tenth.
const TOLERANCE: f64 = 0.06;
/// Cycles that are always tolerated: less than the simulator resolves.
const CYCLES: f64 = 0.25;

/// A number with its interval.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// The name, as in [`Pass`].
    pub name: String,
    /// The median; of an exact number, the most frequent value.
    pub value: f64,
    /// The lower end of the median's 95 % interval.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// The processes that found the number.
    pub found: usize,
    /// All processes.
    pub processes: usize,
    /// The 95 % interval of the median of all processes, whatever those would have found that did not find the number. `None` where
    /// too few found it, and for exact numbers, except those of later TLB levels, of which another thread of the core may take a part.
    pub surest: Option<(f64, f64)>,
    /// Why it is not stable, as a clause. `None`: it is.
    pub unstable: Option<String>,
}

impl Measured {
    /// Returns whether the number is one of a structure, which is exact, rather than a time.
    pub fn is_exact(&self) -> bool {
        is_exact(&self.name)
    }

    fn of(name: &str, values: &[f64], processes: usize) -> Measured {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let n = sorted.len();
        let middle = f64::midpoint(sorted[(n - 1) / 2], sorted[n / 2]);
        // Fewer processes have no interval of 95 %, and their number is not stable.
        let median = Median::of(&sorted).unwrap_or(Median { value: middle, low: sorted[0], high: sorted[n - 1] });
        let Median { low, high, .. } = median;
        let value = if is_exact(name) { most_frequent(&sorted) } else { median.value };
        let has_one = !is_exact(name) || name.starts_with("tlb.second.");
        let surest = if has_one { surest(&sorted, processes) } else { None };
        let mut measured =
            Measured { name: name.to_owned(), value, low, high, found: n, processes, surest, unstable: None };
        measured.unstable = measured.judge(&sorted);
        measured
    }

    /// Returns why the number is not stable.
    fn judge(&self, sorted: &[f64]) -> Option<String> {
        let (n, processes) = (sorted.len(), self.processes);
        if processes < LEAST {
            return Some(format!("{processes} processes were run, and {LEAST} must agree"));
        }
        if 4 * n < 3 * processes {
            return Some(format!("only {n} of {processes} processes found it"));
        }
        if self.is_exact() {
            let agree = sorted.iter().filter(|&&value| value == self.value).count();
            let others: BTreeSet<u64> =
                sorted.iter().map(|&value| value as u64).filter(|&v| v != self.value as u64).collect();
            let others: Vec<String> = others.iter().map(u64::to_string).collect();
            return (4 * agree < 3 * processes)
                .then(|| format!("only {agree} of {processes} processes agree; others found {}", others.join(", ")));
        }
        let wide = (self.high - self.low) / 2.0;
        (wide > CYCLES.max(TOLERANCE * self.value)).then(|| {
            let width = 200.0 * TOLERANCE;
            format!("its interval is wider than {width:.0} %: other load, or the frames that processes were given")
        })
    }
}

/// Returns the interval of the median of `processes` values, of which all but `found` may lie anywhere. `None` if an end may, too.
fn surest(found: &[f64], processes: usize) -> Option<(f64, f64)> {
    let with = |unknown: f64| {
        let mut all = found.to_vec();
        all.resize(processes, unknown);
        Median::of(&all)
    };
    let interval = (with(f64::NEG_INFINITY)?.low, with(f64::INFINITY)?.high);
    (interval.0.is_finite() && interval.1.is_finite()).then_some(interval)
}

/// Returns whether numbers of this name are exact.
fn is_exact(name: &str) -> bool {
    if name == HOST_PAGE || name == "walk.cache_level" || name == "walk.pde.entries" {
        return true;
    }
    let near = name.starts_with("cache.1.") || name.starts_with("cache.2.") || name.starts_with("tlb.");
    near && [".entries", ".ways", ".bytes"].iter().any(|end| name.ends_with(end))
}

/// Returns the value that occurs most often in `sorted`, the smallest of several.
fn most_frequent(sorted: &[f64]) -> f64 {
    let runs = sorted.chunk_by(|a, b| a == b);
    runs.max_by_key(|run| (run.len(), std::cmp::Reverse(run[0] as u64))).map_or(0.0, |run| run[0])
}

/// Returns every number that any of `passes` has found, by name.
pub fn combine(passes: &[Pass]) -> Vec<Measured> {
    let mut values: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for (name, &value) in passes.iter().flat_map(|pass| &pass.numbers) {
        values.entry(name).or_default().push(value);
    }
    values.into_iter().map(|(name, values)| Measured::of(name, &values, passes.len())).collect()
}

/// Returns what no pass has found, with the reason that the last one gives.
pub fn missing(passes: &[Pass]) -> BTreeMap<String, String> {
    let found: BTreeSet<&String> = passes.iter().flat_map(|pass| pass.numbers.keys()).collect();
    let all = passes.iter().flat_map(|pass| &pass.missing);
    all.filter(|(name, _)| !found.contains(name)).map(|(name, why)| (name.clone(), why.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passes(name: &str, values: &[f64]) -> Vec<Pass> {
        let pass = |&value: &f64| {
            let mut pass = Pass::default();
            pass.enter(name, value);
            pass
        };
        values.iter().map(pass).collect()
    }

    fn verdict(name: &str, values: &[f64]) -> (f64, Option<String>) {
        let measured = combine(&passes(name, values)).remove(0);
        (measured.value, measured.unstable)
    }

    #[test]
    fn exact_numbers_are_stable_where_three_quarters_agree() {
        assert_eq!(verdict("tlb.first.4k.entries", &[64.0, 64.0, 64.0, 64.0, 64.0, 32.0]), (64.0, None));
        let (value, why) = verdict("tlb.first.4k.entries", &[64.0, 64.0, 64.0, 64.0, 32.0, 32.0]);
        assert_eq!((value, why.unwrap()), (64.0, "only 4 of 6 processes agree; others found 32".into()));
    }

    #[test]
    fn times_are_stable_where_their_interval_is_narrow() {
        let mut values = vec![300.0, 305.0, 301.0, 299.0, 900.0, 302.0, 303.0, 300.0, 301.0, 302.0];
        assert_eq!(verdict("memory.latency", &values), (301.5, None), "of ten, the interval leaves out the last");
        values.push(400.0);
        values.truncate(11);
        values.remove(2);
        assert!(verdict("memory.latency", &values).1.unwrap().contains("wider than 12 %"));
    }

    #[test]
    fn few_processes_and_rare_findings_are_not_stable() {
        assert!(verdict("memory.latency", &[300.0; 5]).1.unwrap().contains("6 must agree"));
        let mut all = passes("memory.latency", &[300.0; 6]);
        all.extend(vec![Pass::default(); 3]);
        assert!(combine(&all)[0].unstable.as_ref().unwrap().contains("6 of 9"));
    }

    #[test]
    fn processes_that_found_nothing_may_have_any_value_in_the_surest_interval() {
        let surest = |found: u32, processes: usize| {
            let values: Vec<f64> = (1..=found).map(f64::from).collect();
            Measured::of("cache.3.bytes", &values, processes).surest
        };
        // The sign test's interval for 30 values is from the 10th to the 21st.
        assert_eq!(surest(30, 30), Some((10.0, 21.0)));
        assert_eq!(surest(22, 30), Some((2.0, 21.0)), "eight may lie below, or above");
        assert_eq!(surest(20, 30), None, "ten may lie above");
        assert_eq!(Measured::of("tlb.first.4k.entries", &[64.0; 30], 30).surest, None);
        assert_eq!(Measured::of("tlb.second.4k.entries", &[64.0; 30], 30).surest, Some((64.0, 64.0)));
    }
}
