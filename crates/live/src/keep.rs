//! Keeps files promoted: examines them periodically, and promotes regions that were reclaimed, or replaced by an upgrade.

use crate::error::LiveError;
use crate::image::Image;
use crate::layout::SUPERPAGE;
use crate::promote::{self, Outcome, Request, State};
use procfs::{Current, Meminfo};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Limits of the work.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Least number of resident clusters in a region to promote, 0 to 32.
    pub threshold: u64,
    /// Bytes of code to promote in a round, at least one region. The rest waits for later rounds, of one file too.
    pub bytes_per_round: u64,
}

/// State of a file between rounds.
#[derive(Default)]
struct Known {
    /// The last line reported.
    reported: String,
    /// Failed attempts in a row, at most [`MAX_FAILURES`].
    failures: u32,
    /// Rounds to wait before the next attempt.
    wait: u32,
    /// Number of the round that last promoted any of it, from 1. 0 before.
    served: u64,
}

/// After this many failures in a row, the wait stops growing: 2^n - 2 rounds after n failures.
const MAX_FAILURES: u32 = 6;

/// The files that are kept.
pub struct Keeper {
    bounds: Bounds,
    known: BTreeMap<PathBuf, Known>,
    /// Number of rounds until now.
    round: u64,
}

impl Keeper {
    /// Starts without state of any file.
    pub fn new(bounds: Bounds) -> Keeper {
        Keeper { bounds, known: BTreeMap::new(), round: 0 }
    }

    /// Examines the files once and promotes what is not promoted. Passes a line for each change to `report`.
    pub fn round(&mut self, files: &[PathBuf], mut report: impl FnMut(&str)) {
        self.known.retain(|path, _| files.contains(path));
        let mut budget = (self.bounds.bytes_per_round / SUPERPAGE).max(1) as usize;
        self.round += 1;
        // The files that were promoted least recently come first, so that none can use up the budget of every round.
        let mut order: Vec<&PathBuf> = files.iter().collect();
        order.sort_by_key(|path| self.known.get(*path).map_or(0, |known| known.served));
        for path in order {
            let known = self.known.entry(path.clone()).or_default();
            if known.wait > 0 {
                known.wait -= 1;
                continue;
            }
            let before = budget;
            let kept = keep(path, self.bounds.threshold, &mut budget);
            if budget < before {
                known.served = self.round;
            }
            let (line, done) = match kept {
                Ok(Some(line)) => line,
                Ok(None) => continue,
                Err(error) => (error.to_string(), false),
            };
            known.failures = if done { 0 } else { (known.failures + 1).min(MAX_FAILURES) };
            known.wait = if done { 0 } else { (1 << known.failures) - 2 };
            if known.reported != line {
                report(&line);
                known.reported = line;
            }
        }
    }
}

/// Promotes what can be promoted of a file, at most `budget` regions, and subtracts what it has used. Returns a line on its
/// state, and whether it needs no further attempt but for what is left to later rounds. `None` if nothing of the budget is
/// left for it.
fn keep(path: &Path, threshold: u64, budget: &mut usize) -> Result<Option<(String, bool)>, LiveError> {
    let image = Image::open(path)?;
    promote::check(&image)?;
    let before = State::of(&image)?;
    let missing = before.regions - before.superpages;
    let mut outcome = Outcome { already: before.superpages, ..Outcome::default() };
    if missing > 0 {
        let limit = missing.min(*budget);
        if limit == 0 {
            return Ok(None);
        }
        if available().is_some_and(|available| available < 2 * limit as u64 * SUPERPAGE) {
            return Ok(Some((format!("{}: too little memory is available to promote it now", path.display()), false)));
        }
        let request = Request { threshold, around_users: true };
        outcome = promote::promote_at_most(&image, request, limit)?;
        *budget = budget.saturating_sub(outcome.promoted + outcome.failed);
    }
    let (now, all) = (outcome.already + outcome.promoted, before.regions);
    let mut line = format!("{}: {now} of {all} regions are superpages", path.display());
    for (count, why) in [
        (outcome.promoted, "promoted now"),
        (outcome.deferred, "left for later rounds (--work)"),
        (outcome.busy, "mapped with smaller pages by running processes"),
        (outcome.below_threshold, "with fewer clusters in memory than --threshold asks for"),
        (outcome.failed, "read in smaller folios (memory is fragmented, or the file system has no large folios)"),
    ] {
        if count > 0 {
            line += &format!(", {count} {why}");
        }
    }
    Ok(Some((line, outcome.busy + outcome.failed == 0)))
}

/// Returns the bytes that the kernel can allocate without swapping. `None` if unknown.
pub fn available() -> Option<u64> {
    Meminfo::current().ok()?.mem_available
}

/// SIGTERM and SIGINT, blocked while the service works.
pub struct EndSignals {
    signals: libc::sigset_t,
    /// Whether one of them has come.
    came: Cell<bool>,
}

impl EndSignals {
    /// Blocks SIGTERM and SIGINT from now on.
    ///
    /// # Errors
    /// If the signal mask cannot be set.
    pub fn block() -> io::Result<EndSignals> {
        // SAFETY: sigset_t is plain data, and emptied before use; a null pointer asks for no old mask.
        unsafe {
            let mut set = std::mem::zeroed();
            libc::sigemptyset(&mut set);
            libc::sigaddset(&mut set, libc::SIGTERM);
            libc::sigaddset(&mut set, libc::SIGINT);
            match libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut()) {
                0 => Ok(EndSignals { signals: set, came: Cell::new(false) }),
                error => Err(io::Error::from_raw_os_error(error)),
            }
        }
    }

    /// Waits for one of the signals, at most for `time`. Returns whether one has come, now or before.
    pub fn wait(&self, time: Duration) -> bool {
        let time = libc::timespec { tv_sec: time.as_secs() as libc::time_t, tv_nsec: time.subsec_nanos().into() };
        // SAFETY: the set and the time are initialized; a null pointer asks for no details of the signal.
        if !self.came.get() && unsafe { libc::sigtimedwait(&self.signals, std::ptr::null_mut(), &time) > 0 } {
            self.came.set(true);
        }
        self.came.get()
    }
}
