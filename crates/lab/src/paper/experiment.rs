//! One experiment of a paper, with all its conditions.

use super::command::Command;
use super::item::PublishedItem;
use super::measure::Measure;
use crate::results::Row;
use crate::{Conditions, machine};
use indexmap::IndexMap;
use reach_systems::Role;
use reach_trace::{Alignment, FastForward, Sampling};

/// Instructions after which the next of several copies of a program runs: few, so that all hardware threads have work.
pub const QUANTUM: u64 = 20_000;

/// One experiment of a paper, resolved and checked.
#[derive(Clone)]
pub struct PaperExperiment {
    /// Its name on the command line.
    pub name: String,
    /// A description on one line.
    pub about: String,
    /// The paper's own program, and how ours differs from it; `None` where ours is the paper's.
    pub replaces: Option<String>,
    /// Synthetic programs, one after the other on one machine. Empty if `scenario` or `command` is given.
    pub programs: Vec<String>,
    /// A scenario file of the paper's folder, in place of `programs`.
    pub scenario: Option<String>,
    /// A real program to capture, in place of `programs`.
    pub command: Option<Command>,
    /// The name of its row in the paper's table; `None` if it is not part of a table.
    pub row: Option<String>,
    /// The workload of which it is a point, for relations.
    pub workload: Option<String>,
    /// The machine.
    pub machine: machine::Resolved,
    /// The conditions that all its simulations share.
    pub conditions: Conditions,
    /// How many copies of the recorded program run, in turns of [`QUANTUM`] instructions.
    pub copies: u32,
    /// The recorded programs end after this many references, all together.
    pub cut: Option<u64>,
    /// Which files of code are moved to superpage boundaries.
    pub align_code: Option<Alignment>,
    /// The beginning of the program that is fast-forwarded.
    pub fast_forward: FastForward,
    /// How intervals of the rest are measured; `None`: all of it is.
    pub sample: Option<Sampling>,
    /// The program ends after this many references, not counting fast-forwarded ones.
    pub limit: Option<u64>,
    /// Systems by label; speedups are relative to the first.
    pub systems: IndexMap<String, reach_systems::Resolved>,
    /// The published numbers that it reproduces.
    pub items: Vec<PublishedItem>,
    /// Whether no system is to have an effect ([`super::Paper::without_effect`]).
    pub(super) inert: bool,
}

impl PaperExperiment {
    /// Returns whether its program is recorded: captured programs are, and samples of synthetic ones.
    pub(super) fn is_recorded(&self) -> bool {
        self.command.is_some() || (self.sample.is_some() && self.scenario.is_none())
    }

    /// Returns the name and options of the system with this label; empty if there is none.
    pub(super) fn spec(&self, label: &str) -> String {
        self.systems.get(label).map_or(String::new(), |system| system.spec().to_owned())
    }

    /// Returns the number that `measure` finds in `rows`, the results of this experiment.
    pub(super) fn measure(&self, measure: &Measure, rows: &[Row]) -> Result<f64, String> {
        match self.inert {
            true => self.without_effect(measure, rows),
            false => measure.compute(rows, |label| self.spec(label), |label| self.spec(label)),
        }
    }

    /// Returns the systems to simulate: all, or, where none is to have an effect, the baseline and free translation.
    pub(super) fn simulated(&self) -> Vec<reach_systems::Resolved> {
        let is_needed = |at: usize, system: &reach_systems::Resolved| at == 0 || system.role() == Role::Bound;
        let all = self.systems.values().enumerate();
        all.filter(|(at, system)| !self.inert || is_needed(*at, system)).map(|(_, system)| system.clone()).collect()
    }

    /// Returns what `measure` finds in `rows` where nothing has an effect: with the rows of the baseline for those of every
    /// system, or, where it measures the baseline alone, those of a baseline whose translation costs nothing. Fails where that
    /// has no such number.
    pub(super) fn without_effect(&self, measure: &Measure, rows: &[Row]) -> Result<f64, String> {
        let (baseline, _) = self.systems.first().ok_or("there is no system")?;
        let stand_in = match measure.is_of(baseline) {
            true => self.free_translation().ok_or("no system translates at no cost")?,
            false => baseline,
        };
        measure.compute(rows, |_| self.spec(stand_in), |label| self.spec(label))
    }

    /// Returns the label of a system whose translation costs nothing.
    pub(super) fn free_translation(&self) -> Option<&str> {
        let found = self.systems.iter().find(|(_, system)| system.role() == Role::Bound);
        found.map(|(label, _)| label.as_str())
    }

    /// Returns the number that `measure` finds, and `None` if a system or metric is missing.
    pub(super) fn measure_if_present(&self, measure: &Measure, rows: &[Row]) -> Option<f64> {
        measure.check(|label| self.systems.contains_key(label)).ok()?;
        self.measure(measure, rows).ok()
    }

    /// Returns what [`PaperExperiment::without_effect`] does, and `None` if a system or metric is missing.
    pub(super) fn without_effect_if_present(&self, measure: &Measure, rows: &[Row]) -> Option<f64> {
        measure.check(|label| self.systems.contains_key(label)).ok()?;
        self.without_effect(measure, rows).ok()
    }

    /// Returns whether `other` runs the same on another machine, so that one pass does for both.
    pub(super) fn shares_pass(&self, other: &PaperExperiment) -> bool {
        let copies = |e: &PaperExperiment| (e.copies, e.cut, e.align_code);
        let specs = |e: &PaperExperiment| e.systems.values().map(|s| s.spec().to_owned()).collect::<Vec<_>>();
        self.machine.name != other.machine.name
            && self.same_program(other)
            && self.scenario == other.scenario
            && copies(self) == copies(other)
            && self.conditions == other.conditions
            && specs(self) == specs(other)
    }

    /// Returns whether `other` has the same program, fast-forwarded, sampled and limited alike. Scenarios are not compared.
    pub(super) fn same_program(&self, other: &PaperExperiment) -> bool {
        self.programs == other.programs
            && self.command == other.command
            && self.fast_forward == other.fast_forward
            && self.sample == other.sample
            && self.limit == other.limit
    }
}
