//! Findings: facts without which results would mislead.
//!
//! A finding concerns the program ([`Report::findings`](crate::Report)), so that it holds for all simulations, or one
//! simulation ([`Outcome::findings`](crate::Outcome)). Every format of results shows all findings.

use reach_trace::Ending;
use serde::Serialize;

/// The kind of a finding. Rows call it `finding.` and [`FindingKind::name`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingKind {
    /// A part of the program could not be read.
    Incomplete,
    /// The program ended by a signal, or with an exit status other than 0.
    ProgramFailed,
    /// A sample was requested, and the whole program was simulated.
    NotSampled,
    /// The sample allows no confidence interval.
    NoInterval,
    /// The sample is less precise than was asked for.
    Imprecise,
    /// The system got nothing of what it was chosen for, such as a page size, and used something else.
    NotGiven,
    /// The system got a part of what it was chosen for, and used something else for the rest.
    FellBack,
    /// The system had no occasion to act, so its results do not show what it can do.
    NeverActed,
    /// The kernel's own code was to be executed, and the program announces no system calls.
    NoSystemCalls,
}

impl FindingKind {
    /// All kinds.
    pub const ALL: [FindingKind; 9] = [
        FindingKind::Incomplete,
        FindingKind::ProgramFailed,
        FindingKind::NotSampled,
        FindingKind::NoInterval,
        FindingKind::Imprecise,
        FindingKind::NotGiven,
        FindingKind::FellBack,
        FindingKind::NeverActed,
        FindingKind::NoSystemCalls,
    ];

    /// Returns the name in rows and headers.
    pub const fn name(self) -> &'static str {
        match self {
            FindingKind::Incomplete => "incomplete",
            FindingKind::ProgramFailed => "program_failed",
            FindingKind::NotSampled => "not_sampled",
            FindingKind::NoInterval => "no_interval",
            FindingKind::Imprecise => "imprecise",
            FindingKind::NotGiven => "not_given",
            FindingKind::FellBack => "fell_back",
            FindingKind::NeverActed => "never_acted",
            FindingKind::NoSystemCalls => "no_system_calls",
        }
    }

    /// Returns whether results with such a finding are not what the user asked for, whatever the user asked for: a command
    /// that prints them exits with a status other than 0.
    pub const fn fails(self) -> bool {
        matches!(self, FindingKind::Incomplete | FindingKind::ProgramFailed | FindingKind::NoInterval)
    }

    /// Returns whether the same holds only where the user named the system: a default comparison has every system, and some
    /// do not suit the program.
    pub const fn fails_if_named(self) -> bool {
        matches!(self, FindingKind::NotGiven)
    }
}

/// A fact without which results would mislead.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The kind.
    pub kind: FindingKind,
    /// What happened and what it means for the results: a sentence without capital and full stop.
    pub text: String,
}

impl Finding {
    /// Returns a finding.
    pub fn new(kind: FindingKind, text: impl Into<String>) -> Finding {
        Finding { kind, text: text.into() }
    }
}

/// Returns the findings about a program that ended so.
pub(crate) fn of_ending(ending: &Ending) -> impl Iterator<Item = Finding> {
    let missing = ending.missing.iter().map(|missing| Finding::new(FindingKind::Incomplete, missing.to_string()));
    let failed = ending.failures().map(|exit| Finding::new(FindingKind::ProgramFailed, exit.to_string()));
    missing.chain(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinct_and_those_of_serialised_findings() {
        let names: std::collections::BTreeSet<_> = FindingKind::ALL.map(FindingKind::name).into();
        assert_eq!(names.len(), FindingKind::ALL.len());
        for kind in FindingKind::ALL {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
        }
    }
}
