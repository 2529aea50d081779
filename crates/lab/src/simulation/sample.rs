//! The measured intervals of a sampled program.

use super::tally::Tally;
use reach_core::Asid;
use reach_hardware::{Access, CacheCounters, MemoryAccesses};
use std::collections::BTreeMap;

/// The counts of one measured interval.
#[derive(Clone, Debug, Default)]
pub struct Interval {
    /// All processes together.
    pub tally: Tally,
    /// Each process that ran.
    pub processes: BTreeMap<Asid, Tally>,
    /// Each cache, in the order of [`super::Outcome::caches`].
    pub caches: Vec<CacheCounters>,
    /// Accesses of each core that no cache answered, by kind.
    pub memory_accesses: Vec<[MemoryAccesses; Access::KINDS]>,
}

/// The measured intervals of a program.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// The intervals in the program's order.
    pub intervals: Vec<Interval>,
    /// References from the start of one interval to the start of the next; 0 if the source does not say.
    pub every: u64,
    /// References of the whole program; 0 if the source gives only the sample.
    pub references: u64,
}

impl Sample {
    /// Returns the references in measured intervals.
    pub fn measured(&self) -> u64 {
        self.intervals.iter().map(|interval| interval.tally.counts.references()).sum()
    }

    /// Returns the references of the whole program, estimated from the number of intervals if they were not counted.
    pub fn program(&self) -> u64 {
        match self.references {
            0 => self.every * self.intervals.len() as u64,
            counted => counted,
        }
    }

    /// Returns the measured share of the program's references, from 0 to 1.
    pub fn share(&self) -> f64 {
        match self.program() {
            0 => 1.0,
            program => self.measured() as f64 / program as f64,
        }
    }
}
