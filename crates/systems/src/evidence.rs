//! How results show that a system did what it is for.

/// Counts that show that a system acted, if they are not 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// Superpages, or other blocks of several pages, that were mapped, at a fault or by promotion.
    Superpages,
    /// Superpages of code in files.
    CodeSuperpages,
    /// Groups of frames that were reserved.
    Reservations,
    /// Ranges that were made.
    Ranges,
    /// Direct segments that were made.
    Segments,
    /// TLB entries that translate several pages.
    CoalescedEntries,
    /// Walks of the page table.
    Walks,
    /// Walks that a walk assist answered, predicted or shortened.
    AssistedWalks,
}

/// The criterion by which a system has acted. If it has not, results do not show what the system can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Criterion {
    /// The counts that show it.
    pub evidence: Evidence,
    /// What did not happen if they are 0: a clause whose subject is the system, "never promoted".
    pub never: &'static str,
}

impl Criterion {
    pub(crate) const fn new(evidence: Evidence, never: &'static str) -> Option<Criterion> {
        Some(Criterion { evidence, never })
    }
}
