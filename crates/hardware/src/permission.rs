//! Decides whether a page-table entry permits a reference, and what the reference changes in it.
//!
//! Every look-up, walk and curve of this crate asks here, so that they cannot disagree. `oracle` states the rule again.

use reach_core::{Fault, FaultCause, Kind, Pte, StopReason, Vpn};

/// The effect of a permitted reference on the entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// The entry stays as it is.
    None,
    /// The first store through a clean entry: the processor sets the dirty bit.
    SetDirty,
}

/// The reason why an entry does not permit a reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The entry lacks the right.
    Protection,
    /// The first store through a clean entry that the operating system watches.
    FirstWrite,
}

impl Refusal {
    /// Returns the stop that a refused reference of `kind` to `vpn` causes.
    #[inline(always)]
    pub fn stop(self, vpn: Vpn, kind: Kind) -> StopReason {
        match self {
            Refusal::Protection => StopReason::Fault(Fault { vpn, kind, cause: FaultCause::Protection }),
            Refusal::FirstWrite => StopReason::FirstWrite(vpn),
        }
    }
}

/// Returns whether `pte` grants the right to a reference of `kind`. A refusal is a protection fault.
#[inline(always)]
pub(crate) fn permits(pte: Pte, kind: Kind) -> bool {
    match kind {
        Kind::Fetch => pte.executable(),
        Kind::Load => true,
        Kind::Store => pte.writable(),
    }
}

/// Checks a reference of `kind` against `pte`. Returns its effect on the entry, the accessed bit aside.
#[inline(always)]
pub(crate) fn check(pte: Pte, kind: Kind) -> Result<Effect, Refusal> {
    if !permits(pte, kind) {
        return Err(Refusal::Protection);
    }
    if kind != Kind::Store || pte.dirty() {
        return Ok(Effect::None);
    }
    if pte.watched() { Err(Refusal::FirstWrite) } else { Ok(Effect::SetDirty) }
}

/// Returns the bits of an entry with which [`check`] returns [`Effect::None`] for a reference of `kind`: all of them must
/// be set. For the hot loop, which needs no other answer.
#[inline(always)]
pub(crate) fn as_is_bits(kind: Kind) -> u64 {
    match kind {
        Kind::Fetch => Pte::EXECUTABLE,
        Kind::Load => 0,
        Kind::Store => Pte::WRITABLE | Pte::DIRTY,
    }
}

/// Returns the bits that a walk for a permitted reference of `kind` leaves set in the entry.
#[inline(always)]
pub(crate) fn walk_bits(kind: Kind) -> u64 {
    Pte::ACCESSED | if kind == Kind::Store { Pte::DIRTY } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_permits_a_reference_as_is_exactly_if_it_has_the_as_is_bits() {
        for bits in 0..64 {
            for kind in [Kind::Fetch, Kind::Load, Kind::Store] {
                let as_is = bits & as_is_bits(kind) == as_is_bits(kind);
                assert_eq!(check(Pte(bits), kind) == Ok(Effect::None), as_is, "{:?} {kind:?}", Pte(bits));
            }
        }
    }

    #[test]
    fn a_store_through_a_clean_watched_entry_is_a_first_write() {
        let clean = Pte(Pte::PRESENT | Pte::WRITABLE);
        assert_eq!(check(clean, Kind::Store), Ok(Effect::SetDirty));
        assert_eq!(check(clean.with_watched(true), Kind::Store), Err(Refusal::FirstWrite));
        assert_eq!(check(clean.with_watched(true).with_dirty(true), Kind::Store), Ok(Effect::None));
        assert_eq!(check(clean.with_watched(true).with_writable(false), Kind::Store), Err(Refusal::Protection));
    }
}
