//! Published numbers, and how near to them ours must be.

use super::measure::Measure;
use super::reason::{Reason, ReasonKind};
use serde::Deserialize;

/// A published number, and how ours is found.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishedItem {
    /// The number's name, unique in its paper.
    pub item: String,
    /// Where it is published: section, table or figure.
    pub section: String,
    /// The published number.
    pub published: f64,
    /// Its unit.
    pub unit: String,
    /// How far ours may be from it; `None` if it is not judged.
    pub tolerance: Option<Tolerance>,
    /// Why the tolerance is what it is, or why the number is not judged.
    pub reason: Reason,
    /// How ours follows from rows of results.
    pub ours: Measure,
    /// The value where nothing has an effect: 0 for a penalty, 1 for a ratio of times. If this is within the tolerance, the
    /// number decides nothing. `None`: it is measured ([`super::PaperExperiment`]).
    pub null: Option<f64>,
    /// The conclusion of the paper that the number decides, in a sentence.
    pub conclusion: Option<String>,
    /// Whether the number is for checks only, and no part of the model was built with it.
    #[serde(default)]
    pub kept_back: bool,
}

impl PublishedItem {
    /// Returns whether ours is judged.
    pub fn is_judged(&self) -> bool {
        self.tolerance.is_some()
    }

    /// Fails unless the number can be judged where `known` holds the labels of systems.
    pub(super) fn check(&self, known: impl Fn(&str) -> bool) -> Result<(), String> {
        if self.reason.text.trim().is_empty() {
            return Err("the tolerance has no reason; give one".into());
        }
        match (self.tolerance, self.reason.kind.is_none_or(ReasonKind::is_judged)) {
            (None, true) => return Err("there is no tolerance; give one".into()),
            (Some(_), false) => return Err("its reason says that it is not judged; leave the tolerance out".into()),
            (Some(tolerance), true) if !tolerance.is_valid() => {
                return Err(format!(
                    "tolerance {tolerance}: expected a factor of at least 1, a distance of at least 0, or a finite bound"
                ));
            }
            (Some(tolerance), true) if tolerance.is_two_sided() && self.reason.kind == Some(ReasonKind::Claim) => {
                return Err("a claim is a bound; give above or below, or another reason".into());
            }
            _ => {}
        }
        if self.null.is_some_and(|null| !null.is_finite()) {
            return Err("null: expected a finite number".into());
        }
        if !self.published.is_finite() {
            return Err(format!("published {}: expected a finite number", self.published));
        }
        self.ours.check(known)
    }
}

/// A published number that nothing measures yet.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MissingItem {
    /// The number's name, unique in its paper.
    pub item: String,
    /// Where it is published.
    pub section: String,
    /// The published number.
    pub published: f64,
    /// Its unit.
    pub unit: String,
    /// Why it cannot be measured.
    pub reason: String,
}

/// How far our number may be from the published one.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tolerance {
    /// The greater over the smaller is at most this, which is at least 1; both must be positive.
    Factor(f64),
    /// The distance is at most this, in the item's unit.
    Within(f64),
    /// Ours is greater than this.
    Above(f64),
    /// Ours is less than this.
    Below(f64),
}

impl Tolerance {
    /// Returns whether `ours` is near enough to `published`.
    pub fn allows(self, published: f64, ours: f64) -> bool {
        match self {
            Tolerance::Factor(factor) => {
                let (low, high) = (published.min(ours), published.max(ours));
                low > 0.0 && high / low <= factor
            }
            Tolerance::Within(distance) => (published - ours).abs() <= distance,
            Tolerance::Above(bound) => ours > bound,
            Tolerance::Below(bound) => ours < bound,
        }
    }

    /// Returns whether numbers on both sides of the published one may be too far from it.
    pub fn is_two_sided(self) -> bool {
        matches!(self, Tolerance::Factor(_) | Tolerance::Within(_))
    }

    fn is_valid(self) -> bool {
        match self {
            Tolerance::Factor(factor) => factor >= 1.0 && factor.is_finite(),
            Tolerance::Within(distance) => distance >= 0.0 && distance.is_finite(),
            Tolerance::Above(bound) | Tolerance::Below(bound) => bound.is_finite(),
        }
    }
}

impl std::fmt::Display for Tolerance {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Tolerance::Factor(factor) => write!(f, "factor {factor}"),
            Tolerance::Within(distance) => write!(f, "±{distance}"),
            Tolerance::Above(bound) => write!(f, "> {bound}"),
            Tolerance::Below(bound) => write!(f, "< {bound}"),
        }
    }
}
