//! The conditions that all simulations of an experiment share.

use reach_os::FreeMemory;
use serde::Deserialize;
use std::str::FromStr;

/// How time passes.
///
/// ```
/// use reach_lab::Timing;
///
/// assert_eq!("ooo".parse(), Ok(Timing::Ooo));
/// assert_eq!(Timing::InOrder.name(), "inorder");
/// assert!(!Timing::Counts.has_caches());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum Timing {
    /// Translation is counted; cycles follow from counts and fixed costs. No caches.
    Counts,
    /// A blocking in-order core with caches, which see every reference of the program, the walker and the operating system.
    InOrder,
    /// An out-of-order core with caches ([`reach_hardware::ooo`]).
    Ooo,
}

impl Timing {
    /// All timings.
    pub const ALL: [Timing; 3] = [Timing::Counts, Timing::InOrder, Timing::Ooo];

    /// Returns the name on the command line, in files and in results.
    pub const fn name(self) -> &'static str {
        match self {
            Timing::Counts => "counts",
            Timing::InOrder => "inorder",
            Timing::Ooo => "ooo",
        }
    }

    /// Returns whether data and instruction caches are modelled.
    pub fn has_caches(self) -> bool {
        self != Timing::Counts
    }
}

impl FromStr for Timing {
    type Err = String;

    fn from_str(name: &str) -> Result<Timing, String> {
        match Timing::ALL.into_iter().find(|timing| timing.name() == name) {
            Some(timing) => Ok(timing),
            None if name == "window" => Err("timing \"window\" is now called \"ooo\"".into()),
            None => Err(format!("timing {name:?}: expected counts, inorder or ooo")),
        }
    }
}

impl TryFrom<String> for Timing {
    type Error = String;

    fn try_from(name: String) -> Result<Timing, String> {
        name.parse()
    }
}

/// The conditions that all simulations of an experiment share.
///
/// ```
/// use reach_lab::{Conditions, Placement, Timing};
///
/// let conditions = Conditions { timing: Timing::InOrder, placement: Placement::of(2, 1), ..Conditions::new(8 << 30) };
/// assert_eq!((conditions.memory, conditions.seed, conditions.warm), (8 << 30, 1, true));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Conditions {
    /// How time passes.
    pub timing: Timing,
    /// Physical memory in bytes.
    pub memory: u64,
    /// The seed of everything random.
    pub seed: u64,
    /// The state of memory at boot; `None`: all of it is free and contiguous.
    pub fragmentation: Option<FreeMemory>,
    /// Whether files are in the page cache before the program starts.
    pub warm: bool,
    /// The hardware threads that the program runs on.
    pub placement: Placement,
    /// The seed of a captured program's random addresses. `None`: the addresses of Linux without randomisation, or of a trace.
    pub aslr: Option<u32>,
    /// Whether the kernel's own code is simulated ([`crate::KernelCode`]).
    pub kernel: bool,
    /// In a guest: the host's operating system, as a system is named. `None`: the host has given all memory pages of one size.
    pub host: Option<String>,
    /// The guests on that host, each with an operating system and memory of its own, at least 1. Programs say which of them they
    /// are in ([`reach_core::Mark::Guest`]).
    pub guests: u32,
}

impl Conditions {
    /// Returns plain conditions with `memory` bytes: counts only, one hardware thread, contiguous memory, files in the
    /// page cache, seed 1.
    pub const fn new(memory: u64) -> Conditions {
        let timing = Timing::Counts;
        Conditions {
            timing,
            memory,
            seed: 1,
            fragmentation: None,
            warm: true,
            placement: Placement::ONE,
            aslr: None,
            kernel: false,
            host: None,
            guests: 1,
        }
    }

    /// The precision of speedups unless another is asked for ([`crate::Experiment::precision`]), relative to the speedup.
    pub const PRECISION: f64 = 0.01;

    /// Returns whether programs can be sampled until speedups are precise: out of order, on one hardware thread.
    pub fn suit_precision(&self) -> bool {
        self.timing == Timing::Ooo && self.placement.hardware_threads() == 1
    }
}

/// The hardware threads that a program runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Cores, from 1 to [`Placement::MOST`].
    pub cores: u32,
    /// Hardware threads of each core, from 1 to [`Placement::MOST`].
    pub threads: u32,
    /// Instructions that a software thread runs before another hardware thread may be due.
    pub slice: u64,
}

impl Placement {
    /// One core with one thread.
    pub const ONE: Placement = Placement::of(1, 1);

    /// The most cores, and the most hardware threads of a core.
    pub const MOST: u32 = 64;

    /// Returns a placement on `cores` cores of `threads` hardware threads, with slices of 1000 instructions.
    pub const fn of(cores: u32, threads: u32) -> Placement {
        Placement { cores, threads, slice: 1000 }
    }

    /// Returns the length in instructions of the slices that the program is cut into. `None` for one hardware thread,
    /// which needs no slices.
    pub fn slices(&self) -> Option<u64> {
        (self.hardware_threads() > 1).then_some(self.slice)
    }

    /// Returns the number of hardware threads.
    pub fn hardware_threads(&self) -> u32 {
        self.cores * self.threads
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_old_name_of_a_timing_is_refused_with_the_new_one() {
        assert_eq!("window".parse::<Timing>(), Err("timing \"window\" is now called \"ooo\"".into()));
        assert_eq!("slow".parse::<Timing>(), Err("timing \"slow\": expected counts, inorder or ooo".into()));
        assert!(Timing::ALL.into_iter().all(|timing| timing.name().parse() == Ok(timing)));
    }
}
