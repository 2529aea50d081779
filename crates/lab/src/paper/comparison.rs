//! Our numbers beside the published ones, with a verdict.

use super::experiment::PaperExperiment;
use super::item::{MissingItem, PublishedItem};
use super::reason::ReasonKind;
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
    /// The paper's conclusion that the number decides; empty if it decides none.
    pub conclusion: String,
    /// The published number; `None` if the paper has none.
    pub published: Option<f64>,
    /// Our number; `None` if nothing was measured.
    pub ours: Option<f64>,
    /// The lower end of our number's 95 % confidence interval over rows or points; `None` if it has none.
    pub low: Option<f64>,
    /// The upper end.
    pub high: Option<f64>,
    /// Our number where nothing has an effect; `None` if there is no such number, which cannot be within any tolerance.
    pub null: Option<f64>,
    /// How far they may be apart; empty if nothing measures the number, or if it is not judged.
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
    /// The value where nothing has an effect is within the tolerance, so that ours proves nothing.
    #[serde(rename = "not decisive")]
    NotDecisive,
    /// Ours is shown, and not judged.
    #[serde(rename = "not judged")]
    NotJudged,
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
            Verdict::NotJudged => "not judged",
            Verdict::NotMeasurable => "not measurable",
        }
    }
}

/// Judges a number of ours; `null` is the number where nothing has an effect.
fn verdict(item: &PublishedItem, ours: f64, null: Option<f64>) -> Verdict {
    let Some(tolerance) = item.tolerance else { return Verdict::NotJudged };
    let meets = |value| tolerance.allows(item.published, value);
    match (null.is_some_and(meets), meets(ours)) {
        (true, _) => Verdict::NotDecisive,
        (false, true) => Verdict::Met,
        (false, false) => Verdict::Missed,
    }
}

impl Comparison {
    /// Judges `ours` by the tolerance of `item`, which belongs to `experiment`, if to any. `null` is the number where nothing
    /// has an effect, if the item does not state it.
    pub(super) fn judge(
        paper: &str,
        experiment: Option<&PaperExperiment>,
        item: &PublishedItem,
        ours: Result<f64, String>,
        null: Option<f64>,
    ) -> Comparison {
        let null = item.null.or(null).filter(|_| ours.is_ok());
        let (ours, verdict, reason) = match ours {
            Ok(ours) => (Some(ours), verdict(item, ours, null), item.reason.text.clone()),
            Err(why) => (None, Verdict::NotMeasurable, why),
        };
        Comparison {
            paper: paper.into(),
            experiment: experiment.map_or(String::new(), |experiment| experiment.name.clone()),
            section: item.section.clone(),
            item: item.item.clone(),
            unit: item.unit.clone(),
            kept_back: item.kept_back,
            conclusion: item.conclusion.clone().unwrap_or_default(),
            published: Some(item.published).filter(|_| item.reason.kind != Some(ReasonKind::Unpublished)),
            ours,
            low: None,
            high: None,
            null,
            tolerance: item.tolerance.map_or(String::new(), |tolerance| tolerance.to_string()),
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
            conclusion: String::new(),
            published: Some(missing.published),
            ours: None,
            low: None,
            high: None,
            null: None,
            tolerance: String::new(),
            verdict: Verdict::NotMeasurable,
            reason: missing.reason.clone(),
            replaces: String::new(),
        }
    }
}
