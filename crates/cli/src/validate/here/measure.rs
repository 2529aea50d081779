//! Native runs in interleaved pairs, and the speedup that they show.

use reach_lab::validation::here::{Measured, Prepared, Seconds, WIDEST};
use reach_live::backed::Backing;
use reach_live::native::{TUNABLES, Task, Thp, Usage};
use reach_live::statistics::Median;

/// Pairs of runs before the width of the interval is looked at, and each time that it is too wide.
const PAIRS: usize = 9;

/// The most pairs of runs.
const MOST_PAIRS: usize = 27;

/// The sides of a pair: base pages only, and huge pages where this Linux gives them.
const BASE: Thp = Thp::Disabled;
const HUGE: Thp = Thp::Allowed;

/// A run on base pages, and a run with huge pages beside it.
type Pair = [Usage; 2];

/// Runs a program natively in pairs until its speedup is known well enough, or for [`MOST_PAIRS`] pairs. Which side is first
/// alternates. Stops early, with an error, once `stop` returns true.
pub fn measure(prepared: &Prepared, mut stop: impl FnMut() -> bool) -> Result<Measured, String> {
    let backing = Backing::default();
    // The first run reads files from disk; its time does not count.
    once(prepared, BASE, &backing)?;
    let mut pairs: Vec<Pair> = Vec::new();
    loop {
        for _ in 0..PAIRS {
            if stop() {
                return Err("interrupted".into());
            }
            let base_first = pairs.len().is_multiple_of(2);
            let first = once(prepared, if base_first { BASE } else { HUGE }, &backing)?;
            let second = once(prepared, if base_first { HUGE } else { BASE }, &backing)?;
            pairs.push(if base_first { [first, second] } else { [second, first] });
        }
        let measured = speedup(&pairs).ok_or("it takes no processor time that can be measured")?;
        if measured.width() <= WIDEST || pairs.len() >= MOST_PAIRS {
            return Ok(measured);
        }
    }
}

/// Runs a program once. Both sides have the tunable, so that they differ in their pages only.
fn once(prepared: &Prepared, thp: Thp, backing: &Backing) -> Result<Usage, String> {
    backing.back();
    let folder = prepared.folder.path();
    let task = Task {
        program: &prepared.program,
        args: &prepared.args,
        folder: Some(folder),
        output: &folder.join("output.txt"),
        environment: &[(TUNABLES.0, TUNABLES.1.as_ref())],
        thp,
        own_group: false,
    };
    let usage = task.run().map_err(|error| format!("{}: {error}", prepared.program.display()))?;
    backing.note(usage.peak);
    if usage.status.success() { Ok(usage) } else { Err(format!("{} when it ran natively", usage.status)) }
}

/// Returns the median of the ratios of processor times, with its interval. `None` for too few pairs, and where a run took no
/// time.
fn speedup(pairs: &[Pair]) -> Option<Measured> {
    let ratio = |[base, huge]: &Pair| base.processor().as_secs_f64() / huge.processor().as_secs_f64();
    let ratios: Vec<f64> = pairs.iter().map(ratio).collect();
    if ratios.iter().any(|ratio| !ratio.is_finite() || *ratio <= 0.0) {
        return None;
    }
    let Median { value, low, high } = Median::of(&ratios)?;
    let seconds = |side: usize| {
        let median = |time: fn(&Usage) -> f64| {
            let times: Vec<f64> = pairs.iter().map(|pair| time(&pair[side])).collect();
            Median::of(&times).map(|median| median.value)
        };
        let user = median(|usage| usage.user.as_secs_f64())?;
        Some(Seconds { user, system: median(|usage| usage.system.as_secs_f64())? })
    };
    Some(Measured { median: value, low, high, pairs: pairs.len(), base: seconds(0)?, huge: seconds(1)? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;
    use std::time::Duration;

    /// Returns a run of these milliseconds in user mode and in the kernel.
    fn usage(user: u64, system: u64) -> Usage {
        let [user, system] = [user, system].map(Duration::from_millis);
        Usage { wall: user + system, user, system, faults: 0, peak: 0, status: ExitStatus::from_raw(0) }
    }

    #[test]
    fn a_slow_run_moves_neither_median_nor_interval_of_nine_pairs() {
        let mut pairs: Vec<Pair> = (0..9).map(|i| [usage(1100 + i, 100), usage(950 + i, 50)]).collect();
        let clean = speedup(&pairs).unwrap();
        assert!((clean.median - 1.2).abs() < 0.01 && clean.low < clean.median && clean.median < clean.high);
        assert!(clean.width() < WIDEST);
        assert_eq!(
            (clean.base, clean.huge),
            (Seconds { user: 1.104, system: 0.1 }, Seconds { user: 0.954, system: 0.05 })
        );
        pairs[4][0] = usage(9000, 100);
        let noisy = speedup(&pairs).unwrap();
        assert!((noisy.median - clean.median).abs() < 0.01 && noisy.width() < WIDEST, "{noisy:?}");
    }

    #[test]
    fn scattered_pairs_have_a_wide_interval_and_few_have_none() {
        let pairs: Vec<Pair> = (0..9).map(|i| [usage(1000 + 100 * i, 0), usage(1000, 0)]).collect();
        assert!(speedup(&pairs).unwrap().width() > WIDEST);
        assert_eq!(speedup(&pairs[..5]), None);
        assert_eq!(speedup(&[[usage(0, 0), usage(0, 0)]; 9]), None);
    }
}
