//! When and as which processes a program ran.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

/// When a program ran, and Linux's identifiers of its processes. They find the files that the program has left on the computer
/// that ran it. No result of a simulation depends on them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Execution {
    /// The start of the program, in nanoseconds since 1970.
    pub from: u64,
    /// The end of the recording, in nanoseconds since 1970. Processes that outlive the recording run on.
    pub to: u64,
    /// The identifiers of its processes, by address space: those of the first [`Execution::MAX_PROCESSES`].
    pub pids: BTreeMap<u32, u32>,
}

impl Execution {
    /// The most processes whose identifiers are kept, so that the endings of all programs fit in traces.
    pub const MAX_PROCESSES: usize = 4096;

    /// Returns whether `moment` lies between start and end.
    pub fn contains(&self, moment: SystemTime) -> bool {
        (self.from..=self.to).contains(&nanoseconds(moment))
    }
}

/// Returns the nanoseconds from 1970 to `moment`; 0 for earlier moments.
pub(crate) fn nanoseconds(moment: SystemTime) -> u64 {
    let since = moment.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
