//! Why a simulation refuses to start, or stops early.

use crate::machine;
use reach_core::StopReason;
use reach_os::OutOfMemory;

/// Why a simulation stopped before its program's end.
#[derive(Debug, thiserror::Error)]
pub enum SimulationError {
    /// The simulated memory is used up.
    #[error("{machine}, {system}: {source}")]
    OutOfMemory {
        /// The machine.
        machine: String,
        /// The system.
        system: String,
        /// The allocation that failed.
        source: OutOfMemory,
    },
    /// The machine has fewer cores or hardware threads than were asked for.
    #[error("{0}")]
    Placement(String),
    /// The machine, the system or the conditions do not fit together.
    #[error("{machine}, {system}: {what}")]
    Boot {
        /// The machine.
        machine: String,
        /// The system.
        system: String,
        /// The mismatch, and the remedy.
        what: String,
    },
    /// The operating system changed translations in the middle of a step, and an outline does not say which references
    /// come before and after. The same simulation succeeds with references.
    #[error(
        "an outline of the program is not enough here, and references were not requested; please report this defect"
    )]
    NeedsReferences,
    /// The system handles a stop without removing its cause.
    #[error("{machine}, {system}: {stop:?} recurs after it was handled; please report this defect of the system")]
    Livelock {
        /// The machine.
        machine: String,
        /// The system.
        system: String,
        /// The stop that recurs.
        stop: StopReason,
    },
}

/// The names that errors and results carry.
#[derive(Clone, Debug)]
pub(super) struct Names {
    /// The machine, as the user named it.
    pub machine: String,
    /// The system, as the user named it.
    pub system: String,
}

impl Names {
    pub fn new(machine: &machine::Resolved, system: &reach_systems::Resolved) -> Names {
        Names { machine: machine.name.clone(), system: system.spec().into() }
    }

    pub fn refusal(&self, what: String) -> SimulationError {
        SimulationError::Boot { machine: self.machine.clone(), system: self.system.clone(), what }
    }

    pub fn out_of_memory(&self, source: OutOfMemory) -> SimulationError {
        SimulationError::OutOfMemory { machine: self.machine.clone(), system: self.system.clone(), source }
    }

    pub fn livelock(&self, stop: StopReason) -> SimulationError {
        SimulationError::Livelock { machine: self.machine.clone(), system: self.system.clone(), stop }
    }
}
