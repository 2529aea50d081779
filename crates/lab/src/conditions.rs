//! What simulations are told, and why they refuse or fail.

use reach_core::StopReason;
use reach_os::{Fragmentation, OutOfMemory};

/// How time passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timing {
    /// Translation is counted; cycles follow from counts and fixed costs. No caches.
    Counts,
    /// A blocking core that executes in order, with caches: every reference and everything that the operating system
    /// and the walker read and write goes through them.
    InOrder,
    /// A core that executes out of order, with caches ([`reach_hardware::ooo`]).
    Ooo,
}

impl Timing {
    /// The name on the command line and in results.
    pub const fn name(self) -> &'static str {
        match self {
            Timing::Counts => "counts",
            Timing::InOrder => "inorder",
            Timing::Ooo => "ooo",
        }
    }

    /// All timings.
    pub const ALL: [Timing; 3] = [Timing::Counts, Timing::InOrder, Timing::Ooo];

    /// Whether data and instruction caches are modelled.
    pub fn has_caches(self) -> bool {
        self != Timing::Counts
    }
}

/// What all simulations of an experiment share.
#[derive(Clone, Debug, PartialEq)]
pub struct Conditions {
    /// How time passes.
    pub timing: Timing,
    /// Physical memory in bytes.
    pub memory: u64,
    /// Seed of everything random.
    pub seed: u64,
    /// What state memory is in at boot.
    pub fragmentation: Option<Fragmentation>,
    /// Files are in the page cache before the program starts.
    pub warm: bool,
    /// On how many hardware threads.
    pub placement: Placement,
}

/// The hardware threads that a program runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Cores, at least 1.
    pub cores: u32,
    /// Hardware threads of each core, at least 1.
    pub threads: u32,
    /// Instructions of a software thread that run before another hardware thread may be due.
    pub slice: u64,
}

impl Placement {
    /// One core with one thread.
    pub const ONE: Placement = Placement::of(1, 1);

    /// The most cores, and the most hardware threads of a core.
    pub const MOST: u32 = 64;

    /// So many cores, with so many hardware threads each.
    pub const fn of(cores: u32, threads: u32) -> Placement {
        Placement { cores, threads, slice: 1000 }
    }

    /// The slices that a program has to be cut into, where there are several hardware threads.
    pub fn slices(&self) -> Option<u64> {
        (self.hardware_threads() > 1).then_some(self.slice)
    }

    /// All hardware threads.
    pub fn hardware_threads(&self) -> u32 {
        self.cores * self.threads
    }
}

/// Why a simulation stopped before its program's end.
#[derive(Debug, thiserror::Error)]
pub enum SimulationError {
    /// Memory is used up.
    #[error("{machine}, {system}: {source}")]
    OutOfMemory {
        /// On which machine.
        machine: String,
        /// Under which system.
        system: String,
        /// How much was wanted.
        source: OutOfMemory,
    },
    /// The machine or the system refused at boot.
    #[error("{machine}, {system}: {what}")]
    Boot {
        /// Which machine.
        machine: String,
        /// Which system.
        system: String,
        /// Why.
        what: String,
    },
    /// The operating system's acts in the middle of a step make a difference that an outline does not tell. With
    /// references instead, the simulation does not fail so.
    #[error("an outline of the program does not suffice; this is a defect of whoever asked for one")]
    NeedsReferences,
    /// A system that answers a fault without removing its cause.
    #[error("{machine}, {system}: {why:?} remains after it was handled; this is a defect of the system")]
    Livelock {
        /// On which machine.
        machine: String,
        /// Under which system.
        system: String,
        /// The stop that keeps coming.
        why: StopReason,
    },
}
