//! What the cycles between two retirements were spent on.

use super::Flight;
use crate::config;
use reach_core::{Label, Ledger};

/// The instruction that retires at the end of the gap. All before it have retired when the gap begins, so that what it
/// waits for in the gap is its own: nothing else is left to wait for.
pub(super) struct Gap<'a> {
    pub flight: &'a Flight,
    /// When its result was known.
    pub complete: u64,
    pub config: &'a config::OooCore,
}

impl Gap<'_> {
    /// Charges every cycle after `from`, up to `to`. What the instruction did last is charged first: execution, the
    /// nearest cache, later caches, the walk, later TLB levels; then what kept it out of the window.
    #[inline(always)]
    pub fn charge(&self, from: u64, to: u64, ledger: &mut Ledger) {
        let (flight, front) = (self.flight, &self.flight.front);
        let mut left = to;
        let mut back_to = |time: u64, label| {
            let time = time.max(from);
            if time < left {
                ledger.charge(label, left - time);
                left = time;
            }
        };
        let critical = &flight.critical;
        if critical.done > from {
            back_to(critical.near.min(self.complete), Label::Compute);
            back_to(critical.translated, Label::Cache);
            back_to(critical.found, Label::Walk);
            back_to(critical.start, Label::L2TlbHit);
        }
        back_to(flight.entered, Label::Compute);
        back_to(flight.could_enter, Label::Cache);
        let mut fetched = flight.fetched + u64::from(self.config.front_end_depth);
        back_to(fetched, Label::Compute);
        let parts = [
            (front.cache, Label::Cache),
            (front.inclusion, Label::ItlbStall),
            (front.walk, Label::ItlbWalk),
            (front.tlb, Label::ItlbL2TlbHit),
            (front.branch, Label::Branch),
        ];
        for (cycles, label) in parts {
            fetched = fetched.saturating_sub(cycles);
            back_to(fetched, label);
        }
        // Behind a branch that was guessed wrong the way through the front end is part of its cost.
        back_to(0, if front.branch > 0 { Label::Branch } else { Label::Compute });
    }
}
