//! The interface of what runs patterns: this computer, or a simulated one.

use crate::pattern::{Page, Pattern};

/// Why a pattern could not be measured.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BenchError {
    /// There are no pages of this size.
    #[error("there are no pages of {}: {why}", .page.name().to_uppercase())]
    NoPages {
        /// The page size.
        page: Page,
        /// The reason, as a clause.
        why: String,
    },
    /// The pattern could not be run.
    #[error("{0}")]
    Failed(String),
    /// The time that the bench was given is over.
    #[error("the time is over")]
    TimeOver,
}

/// A computer that runs patterns.
///
/// What is inferred from a bench follows from these numbers alone. A bench knows nothing of what is inferred.
pub trait Bench {
    /// Returns the core cycles of a step of `pattern`, on average over whole laps, after enough laps that another one changes
    /// nothing.
    ///
    /// # Errors
    /// When the computer gives no pages of the size for this access, or the pattern cannot run.
    fn cycles(&mut self, pattern: &Pattern) -> Result<f64, BenchError>;

    /// Returns how many pages of this size a pattern may visit; 0 if there are none.
    fn max_pages(&self, page: Page) -> u64;

    /// Returns how many small pages a pattern may visit that measures walks, where more of them are needed than for TLBs.
    fn most_walked(&self) -> u64;

    /// Returns the frequency of the core in MHz, as it is now.
    fn megahertz(&self) -> f64;

    /// Returns the bytes of the area in which a pattern may lie.
    fn area(&self) -> u64;
}
