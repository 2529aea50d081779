//! The beginning of a program, which is simulated but not measured.

use crate::TraceError;
use reach_core::Event;
use serde::{Deserialize, Serialize};

/// How much of a program's beginning to fast-forward.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum FastForward {
    /// This many references.
    References(u64),
    /// Everything before the phase of this name, which the program announces.
    Phase(String),
}

impl Default for FastForward {
    fn default() -> FastForward {
        FastForward::References(0)
    }
}

impl FastForward {
    /// Returns whether the beginning is empty.
    pub fn is_nothing(&self) -> bool {
        *self == FastForward::default()
    }
}

/// The most phases that an error message lists.
const MAX_LISTED_PHASES: usize = 8;

/// Finds the end of a program's beginning.
pub(super) struct Beginning {
    fast_forward: FastForward,
    /// The names of the first phases that came, without repetition.
    phases: Vec<String>,
}

impl Beginning {
    pub(super) fn new(fast_forward: FastForward) -> Beginning {
        Beginning { fast_forward, phases: Vec::new() }
    }

    /// Returns the length of the beginning in references; `None` where it ends with a phase.
    pub(super) fn references(&self) -> Option<u64> {
        match self.fast_forward {
            FastForward::References(references) => Some(references),
            FastForward::Phase(_) => None,
        }
    }

    /// Returns whether `event` ends the beginning.
    pub(super) fn ends_with(&mut self, event: &Event) -> bool {
        let (Event::Phase(name), FastForward::Phase(wanted)) = (event, &self.fast_forward) else { return false };
        if self.phases.len() < MAX_LISTED_PHASES && !self.phases.contains(name) {
            self.phases.push(name.clone());
        }
        name == wanted
    }

    /// Returns the error for `program`, which ended after `references` references, before its beginning did.
    pub(super) fn never_ended(&self, program: &str, references: u64) -> TraceError {
        TraceError::Invalid(match &self.fast_forward {
            FastForward::References(wanted) => {
                format!(
                    "{program}: ends after {references} references, before the {wanted} to fast-forward; give fewer"
                )
            }
            FastForward::Phase(name) if self.phases.is_empty() => {
                format!("{program}: announces no phases, so not {name:?} either; fast-forward a number of references")
            }
            FastForward::Phase(name) => {
                format!("{program}: announces no phase {name:?}; fast-forward to one of {}", self.phases.join(", "))
            }
        })
    }
}
