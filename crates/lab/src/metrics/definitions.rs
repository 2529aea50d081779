//! The definitions of all metrics: name, unit, meaning, source, and which runs give it.
//!
//! One table serves `reach explain`, the page `docs/metrics.md`, `--metric`, and the check that every row's unit is the one
//! defined here. A name with placeholders, such as `superpages.<size>`, defines a family of metrics.

mod cycles;
mod hardware;
mod kernel;
mod page;
mod pattern;
mod runs;
mod selector;
mod systems;
mod translation;

pub use page::page;
pub use selector::{Selector, UnknownMetric};

use pattern::{intersects, matches};
use std::collections::HashMap;
use std::sync::OnceLock;

/// The definition of a metric, or of a family of metrics.
#[derive(Debug, PartialEq, Eq)]
pub struct Definition {
    /// The name in rows. Parts in angle brackets are placeholders ([`Definition::names`]).
    pub name: &'static str,
    /// The unit in rows.
    pub unit: &'static str,
    /// What is measured, in one or two sentences.
    pub meaning: &'static str,
    /// Where it comes from: a formula over other metrics, a section of a paper, a counter of a kernel or a processor. Empty if
    /// the simulator counts it as it is defined.
    pub source: &'static str,
    /// The timings, systems or verbs that give it; empty: every run.
    pub given: &'static str,
}

impl Definition {
    /// Returns the definition of a metric that the simulator counts in every run.
    const fn new(name: &'static str, unit: &'static str, meaning: &'static str) -> Definition {
        Definition { name, unit, meaning, source: "", given: "" }
    }

    /// Adds the source.
    const fn from(self, source: &'static str) -> Definition {
        Definition { source, ..self }
    }

    /// Restricts the metric to some runs.
    const fn given(self, given: &'static str) -> Definition {
        Definition { given, ..self }
    }

    /// Returns whether this defines the metric `name`.
    pub fn names(&self, name: &str) -> bool {
        matches(self.name, name)
    }

    /// Returns whether this measures time or follows from it: a timing that only counts does not give it.
    pub fn takes_time(&self) -> bool {
        const QUOTIENTS: [&str; 4] = ["speedup", "relative_overhead", "model.overhead", "sample.translation"];
        self.unit.starts_with("cycles") || QUOTIENTS.contains(&self.name)
    }

    /// Returns the source, for people.
    pub fn source(&self) -> &'static str {
        if self.source.is_empty() { "counted by the simulator" } else { self.source }
    }

    /// Returns which runs give it, for people.
    pub fn given_by(&self) -> &'static str {
        match self.given {
            "" if self.takes_time() => "`--timing ooo` and `inorder`",
            "" => "every run",
            given => given,
        }
    }
}

/// Metrics of one subject.
pub struct Group {
    /// The title.
    pub title: &'static str,
    /// What the metrics have in common, in Markdown; may be empty.
    pub about: &'static str,
    /// The definitions.
    pub definitions: &'static [Definition],
}

/// Returns all groups.
pub fn groups() -> &'static [Group] {
    static GROUPS: &[Group] = &[
        cycles::PROGRAM,
        cycles::CYCLES,
        cycles::COMPARISONS,
        translation::TLBS,
        translation::WALKS,
        translation::WCPI,
        translation::OUT_OF_ORDER,
        hardware::CACHES,
        hardware::CORES,
        kernel::FAULTS,
        kernel::CODE,
        kernel::MEMORY,
        kernel::CONTIGUITY,
        systems::RESERVATIONS,
        systems::STEPS,
        systems::OVER_TIME,
        systems::CODE,
        systems::EXPLICIT,
        systems::AUXILIARY_TLBS,
        systems::WALK_ASSISTS,
        systems::HOST,
        systems::MONITOR,
        systems::RANGES,
        runs::SAMPLES,
        runs::CURVES,
        runs::FINDINGS,
        runs::COUNTERS,
    ];
    GROUPS
}

/// Returns all definitions.
pub fn definitions() -> impl Iterator<Item = &'static Definition> {
    groups().iter().flat_map(|group| group.definitions)
}

/// Returns the definition of the metric `name`, which may be a family's name. `None` if there is none.
pub fn definition(name: &str) -> Option<&'static Definition> {
    static BY_NAME: OnceLock<HashMap<&str, &Definition>> = OnceLock::new();
    let by_name = BY_NAME.get_or_init(|| definitions().map(|definition| (definition.name, definition)).collect());
    by_name.get(name).copied().or_else(|| definitions().find(|definition| definition.names(name)))
}

/// Returns the definitions whose metrics the `glob` can match; `*` stands for any characters.
pub fn matching(glob: &str) -> Vec<&'static Definition> {
    definitions().filter(|definition| intersects(glob, &pattern::as_glob(definition.name))).collect()
}

#[cfg(test)]
mod tests;
