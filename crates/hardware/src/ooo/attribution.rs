//! Attributes every cycle between two retirements to a label.
//!
//! All earlier instructions have retired when the gap before an instruction begins. So in the gap the instruction waits
//! only for itself. Its last activity is charged first, back to the start of the gap:
//!
//! | label | activity |
//! |---|---|
//! | `walk` | waiting for the walk that verifies a predicted translation |
//! | `compute` | executing, and the latency of a first-level cache hit |
//! | `cache` | the caches and memory beyond that latency, for the reference that was done last |
//! | `walk` | that reference's walk, with the wait for a walker |
//! | `l2_tlb_hit` | its look-ups in later levels of TLBs |
//! | `compute` | waiting for registers and ports after dispatch |
//! | `cache` | waiting for an entry of the load or store queue |
//! | `compute` | dispatching at the core's width |
//! | `cache` | the fetch stall by instruction caches |
//! | `itlb_stall` | the fetch stall by ITLB entries in use (pipeline inclusion), and by replayed look-ups |
//! | `itlb_walk` | the fetch stall by walks |
//! | `itlb_l2_tlb_hit` | the fetch stall by later levels of TLBs |
//! | `branch` | the fetch stall by a mispredicted branch or a machine clear, and the front end's length after it |
//! | `compute` | fetching and the front end's length otherwise |
//!
//! `handler` is charged where a software miss handler runs (`OooCore::run_handler`). The operating system's labels do
//! not occur here.

use super::in_flight::DynInst;
use super::statistics::FetchStalls;
use crate::config;
use reach_core::{Label, Ledger};

/// The cycles before the retirement of an instruction in which no other retires.
pub(super) struct RetirementGap<'a> {
    pub inst: &'a DynInst,
    /// How long its fetch was stalled.
    pub stalls: Option<&'a FetchStalls>,
    /// The cycle in which the instruction's result is known.
    pub completed: u64,
    /// The first cycle in which it waits for a verification alone; `None` if it does not.
    pub verifies: Option<u64>,
    pub config: &'a config::OooCore,
}

impl RetirementGap<'_> {
    /// Charges every cycle after `from` up to and including `to` to one label.
    #[inline(always)]
    pub fn charge(&self, from: u64, to: u64, ledger: &mut Ledger) {
        let inst = self.inst;
        let mut left = to;
        let mut charge_back_to = |time: u64, label| {
            let time = time.max(from);
            if time < left {
                ledger.charge(label, left - time);
                left = time;
            }
        };
        if let Some(executed) = self.verifies {
            charge_back_to(executed, Label::Walk);
        }
        let critical = &inst.critical;
        if critical.done > from {
            charge_back_to(critical.line_ready.min(self.completed), Label::Compute);
            charge_back_to(critical.translated, Label::Cache);
            charge_back_to(critical.looked_up, Label::Walk);
            charge_back_to(critical.issued, Label::L2TlbHit);
        }
        charge_back_to(inst.dispatched, Label::Compute);
        charge_back_to(inst.dispatchable, Label::Cache);
        let mut fetched = inst.fetched + u64::from(self.config.front_end_depth);
        charge_back_to(fetched, Label::Compute);
        let Some(stalls) = self.stalls else { return charge_back_to(0, Label::Compute) };
        let parts = [
            (stalls.cache, Label::Cache),
            (stalls.inclusion + stalls.replay, Label::ItlbStall),
            (stalls.walk, Label::ItlbWalk),
            (stalls.tlb, Label::ItlbL2TlbHit),
            (stalls.branch, Label::Branch),
        ];
        for (cycles, label) in parts {
            fetched = fetched.saturating_sub(cycles);
            charge_back_to(fetched, label);
        }
        // Refilling the front end is part of the cost of a misprediction.
        charge_back_to(0, if stalls.branch > 0 { Label::Branch } else { Label::Compute });
    }
}
