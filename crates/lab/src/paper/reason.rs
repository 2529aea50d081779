//! Why a tolerance is what it is, or why a number is shown and not judged.

use serde::Deserialize;

/// A reason, whose kind is its text up to the first colon: `rounding: Table 1 has two digits`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "String")]
pub struct Reason {
    /// The kind; `None` where the text begins with no kind.
    pub kind: Option<ReasonKind>,
    /// The whole text.
    pub text: String,
}

/// Kinds of reasons. The first four are for tolerances around a number, `Claim` is for bounds, and the others say why a
/// number is not judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReasonKind {
    /// The paper's own spread, between its programs or its runs.
    Spread,
    /// The digits that the paper prints.
    Rounding,
    /// How well a plot can be read.
    Plot,
    /// A program, an input or a machine that is not the paper's.
    Substitution,
    /// The paper states the bound in words.
    Claim,
    /// The number follows from the definition of what is counted.
    Definition,
    /// The number is a setting of the experiment.
    Input,
    /// The model was built with this number.
    Calibrated,
    /// The paper does not have the number.
    Unpublished,
}

/// The kinds by name.
const KINDS: [(&str, ReasonKind); 9] = [
    ("spread", ReasonKind::Spread),
    ("rounding", ReasonKind::Rounding),
    ("plot", ReasonKind::Plot),
    ("substitution", ReasonKind::Substitution),
    ("claim", ReasonKind::Claim),
    ("definition", ReasonKind::Definition),
    ("input", ReasonKind::Input),
    ("calibrated", ReasonKind::Calibrated),
    ("unpublished", ReasonKind::Unpublished),
];

impl ReasonKind {
    /// Returns whether numbers with such a reason are judged.
    pub const fn is_judged(self) -> bool {
        use ReasonKind::{Claim, Plot, Rounding, Spread, Substitution};
        matches!(self, Spread | Rounding | Plot | Substitution | Claim)
    }
}

impl From<String> for Reason {
    fn from(text: String) -> Reason {
        let word = text.split_once(':').map_or("", |(word, _)| word);
        let kind = KINDS.iter().find(|(name, _)| *name == word).map(|(_, kind)| *kind);
        Reason { kind, text }
    }
}

impl Reason {
    /// Fails unless it has a kind.
    pub(super) fn check(&self) -> Result<(), String> {
        match self.kind {
            Some(_) => Ok(()),
            None => {
                let known = KINDS.map(|(name, _)| name).join(", ");
                Err(format!("reason {:?}: begin it with one of these words and a colon: {known}", self.text))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_is_the_word_before_the_first_colon() {
        let kind = |text: &str| Reason::from(text.to_owned()).kind;
        assert_eq!(kind("rounding: two digits: 1.5"), Some(ReasonKind::Rounding));
        assert_eq!(kind("another compiler"), None);
        assert_eq!(kind("the paper: less than two"), None);
        let error = Reason::from("two digits".to_owned()).check().unwrap_err();
        assert!(error.contains("\"two digits\"") && error.contains("spread, rounding, plot"), "{error}");
    }
}
