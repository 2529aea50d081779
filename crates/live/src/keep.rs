//! Keeping files promoted: looking at them from time to time, and promoting again what has been lost to reclaim or has come
//! anew with an upgrade.

use crate::error::LiveError;
use crate::image::Image;
use crate::promote::{self, Outcome, Request, State};
use procfs::{Current, Meminfo};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Bounds of the work.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Regions with at least so many clusters in memory.
    pub threshold: u64,
    /// Bytes of code that are promoted in a round; the rest waits for the next.
    pub bytes_per_round: u64,
}

/// What is known of a file that is kept.
#[derive(Default)]
struct Known {
    said: String,
    /// Rounds in a row in which nothing could be done, and rounds to wait before the next attempt.
    failures: u32,
    wait: u32,
}

/// Files are tried again after 1, 2, 4 … rounds in vain, and at most so many.
const PATIENCE: u32 = 6;

/// What is left of a round's work, and whether any of it has been done.
struct Left {
    bytes: u64,
    touched: bool,
}

/// The files that are kept.
pub struct Keeper {
    bounds: Bounds,
    known: BTreeMap<PathBuf, Known>,
}

impl Keeper {
    /// Begins with nothing known.
    pub fn new(bounds: Bounds) -> Keeper {
        Keeper { bounds, known: BTreeMap::new() }
    }

    /// Looks at files once, promotes what is not promoted, and hands each change in a line to `say`.
    pub fn round(&mut self, files: &[PathBuf], mut say: impl FnMut(&str)) {
        self.known.retain(|path, _| files.contains(path));
        let mut left = Left { bytes: self.bounds.bytes_per_round, touched: false };
        for path in files {
            let known = self.known.entry(path.clone()).or_default();
            if known.wait > 0 {
                known.wait -= 1;
                continue;
            }
            let (line, done) = match keep(path, self.bounds.threshold, &mut left) {
                Ok(Some(line)) => line,
                Ok(None) => continue,
                Err(error) => (error.to_string(), false),
            };
            known.failures = if done { 0 } else { (known.failures + 1).min(PATIENCE) };
            known.wait = if done { 0 } else { (1 << known.failures) - 2 };
            if known.said != line {
                say(&line);
                known.said = line;
            }
        }
    }
}

/// Promotes what can be promoted of a file; says what is new, and whether all is as it should be. Nothing when it is the
/// next round's turn.
fn keep(path: &Path, threshold: u64, left: &mut Left) -> Result<Option<(String, bool)>, LiveError> {
    let image = Image::open(path)?;
    promote::check(&image)?;
    let before = State::of(&image)?;
    let needed = (before.regions - before.superpages) as u64 * crate::layout::SUPERPAGE;
    let request = Request { threshold, around_users: true };
    let mut outcome = Outcome { already: before.superpages, ..Outcome::default() };
    if needed > 0 {
        // A file that is larger than a whole round's work has a round of its own.
        if needed > left.bytes && left.touched {
            return Ok(None);
        }
        if available().is_some_and(|available| available < 2 * needed) {
            return Ok(Some((format!("{}: memory is too short to promote it now", path.display()), false)));
        }
        *left = Left { bytes: left.bytes.saturating_sub(needed), touched: true };
        outcome = promote::promote(&image, request)?;
    }
    let (now, all) = (outcome.already + outcome.promoted, before.regions);
    let mut line = format!("{}: {now} of {all} regions are superpages", path.display());
    for (count, why) in [
        (outcome.promoted, "promoted now"),
        (outcome.busy, "in use with smaller pages"),
        (outcome.below_threshold, "below the threshold"),
        (outcome.failed, "not to be had: memory is fragmented, or the file system has no large folios"),
    ] {
        if count > 0 {
            line += &format!(", {count} {why}");
        }
    }
    Ok(Some((line, outcome.busy + outcome.failed == 0)))
}

/// Memory that the kernel can give without swapping, in bytes.
fn available() -> Option<u64> {
    Meminfo::current().ok()?.mem_available
}

/// Signals that end the service, held back while it works.
pub struct Ending(libc::sigset_t);

impl Ending {
    /// Holds SIGTERM and SIGINT back from now on.
    ///
    /// # Errors
    /// When the mask cannot be set.
    pub fn hold() -> io::Result<Ending> {
        // SAFETY: the set is plain data, made empty before it is used.
        unsafe {
            let mut set = std::mem::zeroed();
            libc::sigemptyset(&mut set);
            libc::sigaddset(&mut set, libc::SIGTERM);
            libc::sigaddset(&mut set, libc::SIGINT);
            match libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut()) {
                0 => Ok(Ending(set)),
                error => Err(io::Error::from_raw_os_error(error)),
            }
        }
    }

    /// Waits for one of them; `false` when none has come in this time.
    pub fn wait(&self, time: Duration) -> bool {
        let time = libc::timespec { tv_sec: time.as_secs() as libc::time_t, tv_nsec: time.subsec_nanos().into() };
        // SAFETY: the set and the time are whole; what is known of the signal is not asked for.
        unsafe { libc::sigtimedwait(&self.0, std::ptr::null_mut(), &time) > 0 }
    }
}
