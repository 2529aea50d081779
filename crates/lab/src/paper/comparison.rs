//! Our numbers beside the published ones, with a verdict.

use super::experiment::PaperExperiment;
use super::item::{MissingItem, PublishedItem};
use serde::{Deserialize, Serialize};

/// A published number beside ours.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// The paper.
    pub paper: String,
    /// The experiment; empty if the number is of several, or of none.
    pub experiment: String,
    /// Where the number is published.
    pub section: String,
    /// Its name.
    pub item: String,
    /// Its unit.
    pub unit: String,
    /// Whether the number is for checks only ([`PublishedItem::kept_back`]).
    #[serde(skip)]
    pub kept_back: bool,
    /// The value without the mechanism in question ([`PublishedItem::null`]).
    #[serde(skip)]
    pub null: Option<f64>,
    /// The published number.
    pub published: f64,
    /// Our number; `None` if nothing was measured.
    pub ours: Option<f64>,
    /// How far they may be apart; empty if nothing measures the number.
    pub tolerance: String,
    /// Whether ours is near enough.
    pub verdict: Verdict,
    /// Why the tolerance is what it is, or why nothing was measured.
    pub reason: String,
    /// The paper's own program, and how ours differs from it; empty where ours is the paper's.
    pub replaces: String,
}

/// Whether a published number was met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    /// Ours is within the tolerance.
    #[serde(rename = "met")]
    Met,
    /// Ours is outside the tolerance.
    #[serde(rename = "missed")]
    Missed,
    /// Ours is within the tolerance, and so is the value without the mechanism in question.
    #[serde(rename = "not decisive")]
    NotDecisive,
    /// There is no number of ours.
    #[serde(rename = "not measurable")]
    NotMeasurable,
}

impl Verdict {
    /// Returns the verdict as rows spell it.
    pub const fn name(self) -> &'static str {
        match self {
            Verdict::Met => "met",
            Verdict::Missed => "missed",
            Verdict::NotDecisive => "not decisive",
            Verdict::NotMeasurable => "not measurable",
        }
    }
}

/// Judges a number of ours.
fn verdict(item: &PublishedItem, ours: f64) -> Verdict {
    let meets = |value| item.tolerance.allows(item.published, value);
    match (meets(ours), item.null.is_some_and(meets)) {
        (false, _) => Verdict::Missed,
        (true, true) => Verdict::NotDecisive,
        (true, false) => Verdict::Met,
    }
}

impl Comparison {
    /// Judges `ours` by the tolerance of `item`, which belongs to `experiment`, if to any.
    pub(super) fn judge(
        paper: &str,
        experiment: Option<&PaperExperiment>,
        item: &PublishedItem,
        ours: Result<f64, String>,
    ) -> Comparison {
        let (ours, verdict, reason) = match ours {
            Ok(ours) => (Some(ours), verdict(item, ours), item.reason.clone()),
            Err(why) => (None, Verdict::NotMeasurable, why),
        };
        Comparison {
            paper: paper.into(),
            experiment: experiment.map_or(String::new(), |experiment| experiment.name.clone()),
            section: item.section.clone(),
            item: item.item.clone(),
            unit: item.unit.clone(),
            kept_back: item.kept_back,
            null: item.null,
            published: item.published,
            ours,
            tolerance: item.tolerance.to_string(),
            verdict,
            reason,
            replaces: experiment.and_then(|experiment| experiment.replaces.clone()).unwrap_or_default(),
        }
    }

    /// Returns the comparison of a number that nothing measures.
    pub(super) fn missing(paper: &str, missing: &MissingItem) -> Comparison {
        Comparison {
            paper: paper.into(),
            experiment: String::new(),
            section: missing.section.clone(),
            item: missing.item.clone(),
            unit: missing.unit.clone(),
            kept_back: false,
            null: None,
            published: missing.published,
            ours: None,
            tolerance: String::new(),
            verdict: Verdict::NotMeasurable,
            reason: missing.reason.clone(),
            replaces: String::new(),
        }
    }
}
