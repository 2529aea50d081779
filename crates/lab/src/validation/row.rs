//! A measured number beside ours, as `reach validate` gives it.

use super::Set;
use crate::paper::{Comparison, Verdict};
use serde::Serialize;

/// A measured number beside ours.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The set.
    pub set: String,
    /// The experiment; empty if nothing measures the number.
    pub experiment: String,
    /// What was measured.
    pub item: String,
    /// The unit.
    pub unit: String,
    /// The number that the hardware gave; `None` if it was not published.
    pub measured: Option<f64>,
    /// Our number; `None` if there is none.
    pub ours: Option<f64>,
    /// The value without the mechanism in question; `None`: not stated.
    pub null: Option<f64>,
    /// How far they may be apart.
    pub tolerance: String,
    /// Whether ours is near enough.
    pub verdict: Verdict,
    /// Whether no part of the model was built with this number.
    pub kept_back: bool,
    /// Why the tolerance is what it is, or why there is no number of ours.
    pub reason: String,
    /// How our machine or program differs from the measured one.
    pub replaces: String,
    /// The address of the source.
    pub source: String,
}

impl Set {
    /// Returns the row of a comparison of this set.
    pub fn row(&self, comparison: &Comparison) -> Row {
        let Comparison { paper, experiment, item, unit, published, ours, tolerance, verdict, reason, .. } =
            comparison.clone();
        Row {
            set: paper,
            experiment,
            item,
            unit,
            measured: published,
            ours,
            null: comparison.null,
            tolerance,
            verdict,
            kept_back: comparison.kept_back,
            reason,
            replaces: comparison.replaces.clone(),
            source: self.source.address.clone(),
        }
    }
}
