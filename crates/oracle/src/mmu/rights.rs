//! What a page-table entry lets a reference do, as a table of rules.
//!
//! The fast MMU computes this with nested conditions. Here each rule states the conditions under which it applies, and
//! the rules exclude one another. So neither formulation can inherit an error of the other.

use reach_core::{Fault, FaultCause, Kind, Pte, Slot, StopReason, Vpn};

/// The outcome of a reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Fault(FaultCause),
    /// The operating system wants to see the first store to the page.
    FirstWrite,
    /// The reference goes on. A walk sets these bits in the entry; a TLB hit writes the entry only to set `DIRTY`.
    Proceed {
        sets: u64,
    },
}

/// A rule: for references of these kinds, entries with all of the bits `with` and none of `without` have this outcome.
struct Rule {
    kinds: &'static [Kind],
    with: u64,
    without: u64,
    outcome: Outcome,
}

const fn rule(kinds: &'static [Kind], with: u64, without: u64, outcome: Outcome) -> Rule {
    Rule { kinds, with, without, outcome }
}

const ANY: &[Kind] = &[Kind::Fetch, Kind::Load, Kind::Store];
const FETCH: &[Kind] = &[Kind::Fetch];
const LOAD: &[Kind] = &[Kind::Load];
const STORE: &[Kind] = &[Kind::Store];
const NOT_PRESENT: Outcome = Outcome::Fault(FaultCause::NotPresent);
const PROTECTION: Outcome = Outcome::Fault(FaultCause::Protection);
const READS: Outcome = Outcome::Proceed { sets: Pte::ACCESSED };
const WRITES: Outcome = Outcome::Proceed { sets: Pte::ACCESSED | Pte::DIRTY };
const P: u64 = Pte::PRESENT;
const X: u64 = Pte::EXECUTABLE;
const W: u64 = Pte::WRITABLE;

const RULES: [Rule; 8] = [
    //   reference, entry with,            and without,               outcome
    rule(ANY, 0, P, NOT_PRESENT),
    // Every present page is readable.
    rule(LOAD, P, 0, READS),
    rule(FETCH, P, X, PROTECTION),
    rule(FETCH, P | X, 0, READS),
    // A page that forbids stores faults, dirty or watched or not.
    rule(STORE, P, W, PROTECTION),
    // Stores to a dirty page change nothing in its entry.
    rule(STORE, P | W | Pte::DIRTY, 0, READS),
    // The first store to a clean page sets the dirty bit, unless the operating system watches for it.
    rule(STORE, P | W | Pte::WATCHED, Pte::DIRTY, Outcome::FirstWrite),
    rule(STORE, P | W, Pte::DIRTY | Pte::WATCHED, WRITES),
];

/// Returns the outcome of a reference of `kind` through the entry `pte`. `None` is a page without an entry.
pub(super) fn outcome(kind: Kind, pte: Option<Pte>) -> Outcome {
    let bits = pte.map_or(0, |pte| pte.0);
    let mut applying = RULES.iter().filter(|rule| applies(rule, kind, bits));
    applying.next().expect("the rules are complete").outcome
}

fn applies(rule: &Rule, kind: Kind, bits: u64) -> bool {
    rule.kinds.contains(&kind) && bits & rule.with == rule.with && bits & rule.without == 0
}

/// Returns whether `pte` gives the right to a reference of `kind`.
pub(super) fn permits(kind: Kind, pte: Pte) -> bool {
    !matches!(outcome(kind, Some(pte)), Outcome::Fault(_))
}

impl Outcome {
    /// Returns the bits to set, or why the reference to `vpn` stops.
    pub fn bits_or_stop(self, kind: Kind, vpn: Vpn) -> Result<u64, StopReason> {
        match self {
            Outcome::Fault(cause) => Err(StopReason::Fault(Fault { vpn, kind, cause })),
            Outcome::FirstWrite => Err(StopReason::FirstWrite(vpn)),
            Outcome::Proceed { sets } => Ok(sets),
        }
    }
}

/// Returns the entry at which a walk ended. `None` if the page has none.
pub(super) fn leaf(slot: Option<Slot>) -> Option<Pte> {
    match slot {
        Some(Slot::Leaf(pte)) => Some(pte),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_one_rule_applies_to_every_reference_and_entry() {
        let bits = [P, X, W, Pte::ACCESSED, Pte::DIRTY, Pte::WATCHED];
        for &kind in ANY {
            for chosen in 0..1u32 << bits.len() {
                let entry = (0..bits.len()).filter(|at| chosen >> at & 1 != 0).fold(0, |entry, at| entry | bits[at]);
                let applying = RULES.iter().filter(|rule| applies(rule, kind, entry)).count();
                assert_eq!(applying, 1, "{kind:?} with {entry:#x}");
            }
        }
    }
}
