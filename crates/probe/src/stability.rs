//! What several processes have measured together: which numbers agree, and which do not.

use crate::pass::{HOST_PAGE, Pass};
use std::collections::{BTreeMap, BTreeSet};

/// The fewest processes that can agree.
pub const LEAST: usize = 4;
/// Half of the interval's width, as a part of the median, up to which a number is stable: two runs of the probe then differ
/// by less than a tenth.
const TOLERANCE: f64 = 0.04;
/// Cycles that are always tolerated: less than the simulator resolves.
const CYCLES: f64 = 0.25;

/// A number with its interval.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// The name, as in [`Pass`].
    pub name: String,
    /// The median.
    pub value: f64,
    /// The lower end of the interval: a quarter of the processes measured less.
    pub low: f64,
    /// The upper end: a quarter measured more.
    pub high: f64,
    /// The processes that found the number.
    pub found: usize,
    /// All processes.
    pub processes: usize,
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
        let (low, high) = (sorted[(n - 1) / 4], sorted[n - 1 - (n - 1) / 4]);
        let value =
            if is_exact(name) { most_frequent(&sorted) } else { f64::midpoint(sorted[(n - 1) / 2], sorted[n / 2]) };
        let mut measured = Measured { name: name.to_owned(), value, low, high, found: n, processes, unstable: None };
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
        (wide > CYCLES.max(TOLERANCE * self.value))
            .then(|| "processes differ by more than 4 %: other load, or the frames that they were given".to_owned())
    }
}

/// Returns whether numbers of this name are exact.
fn is_exact(name: &str) -> bool {
    if name == HOST_PAGE {
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
        assert_eq!(verdict("tlb.first.4k.entries", &[64.0, 64.0, 64.0, 64.0, 32.0]), (64.0, None));
        let (value, why) = verdict("tlb.first.4k.entries", &[64.0, 64.0, 64.0, 32.0, 32.0]);
        assert_eq!((value, why.unwrap()), (64.0, "only 3 of 5 processes agree; others found 32".into()));
    }

    #[test]
    fn times_are_stable_where_their_interval_is_narrow() {
        assert_eq!(verdict("memory.latency", &[300.0, 305.0, 301.0, 299.0, 900.0]), (301.0, None));
        assert!(verdict("memory.latency", &[300.0, 400.0, 301.0, 299.0, 900.0]).1.unwrap().contains("4 %"));
    }

    #[test]
    fn few_processes_and_rare_findings_are_not_stable() {
        assert!(verdict("memory.latency", &[300.0; 3]).1.unwrap().contains("4 must agree"));
        let mut all = passes("memory.latency", &[300.0; 5]);
        all.extend(vec![Pass::default(); 2]);
        assert!(combine(&all)[0].unstable.as_ref().unwrap().contains("5 of 7"));
    }
}
