//! References of instructions that will not retire: on the wrong path, or prefetched.
//!
//! They use the same TLBs, walk caches and data caches as others, and fill and count there. But they never stop for the
//! operating system: a translation that is missing, or that forbids them, ends them. They write nothing but the accessed
//! bit; the dirty bit waits for a store that retires. They set the accessed bit at the end of a walk, as processors may
//! (Intel SDM 3A, 4.8 and 4.10.2.3: what is cached for speculation has its accessed flag set; AMD's are documented alike).

use super::{Mmu, host};
use crate::cache::Caches;
use crate::permission::permits;
use reach_core::{Kind, PageTable, Pte, Slot, Vpn};

/// The result of a look-up for a reference that will not retire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EarlyLookup {
    /// The translation, after this many cycles.
    Hit(u64, Pte),
    /// A translation that forbids the reference or comes too late, or a miss that hardware cannot fill.
    Unusable,
    /// A miss after this many cycles. A walk may follow ([`Mmu::walk_early`]).
    Miss(u64),
}

impl Mmu {
    /// Returns whether references that will not retire can be simulated: not if the operating system sees every miss.
    pub(crate) fn speculates(&self) -> bool {
        !self.logs_events()
    }

    /// Looks `vpn` up. A later level that answers only after more than `within` cycles fills no earlier level.
    pub(crate) fn look_up_early(
        &mut self,
        kind: Kind,
        vpn: Vpn,
        table: &mut PageTable,
        caches: &mut Caches,
        within: u64,
    ) -> EarlyLookup {
        if self.perfect {
            let pte = table.lookup(vpn).filter(|&pte| permits(pte, kind));
            return pte.map_or(EarlyLookup::Unusable, |pte| EarlyLookup::Hit(0, pte));
        }
        // For the auxiliary TLB a store would set the dirty bit, so it is checked as a load. It fills the arrays of stores.
        let aux_kind = if kind == Kind::Fetch { Kind::Fetch } else { Kind::Load };
        if self.aux_tlb.is_some()
            && let Some(outcome) = self.reference_segment(aux_kind, vpn, table)
        {
            return outcome.map_or(EarlyLookup::Unusable, |pte| EarlyLookup::Hit(0, pte));
        }
        let mut latency = 0;
        let Some(found) = self.tlbs.lookup(kind, self.spaces.context, vpn, &mut latency) else {
            if latency > within {
                return EarlyLookup::Unusable;
            }
            if self.aux_tlb.is_some()
                && let Some(outcome) = self.reference_aux(kind, aux_kind, vpn, table, Some(caches))
            {
                let latency = latency + u64::from(self.take_translation_cost().tlb);
                return outcome.map_or(EarlyLookup::Unusable, |pte| EarlyLookup::Hit(latency, pte));
            }
            latency += u64::from(self.tlbs.miss_latency(kind));
            if self.assist.is_some() && latency <= within {
                let (found, waited) = self.search_assist_early(kind, vpn, table, caches);
                latency += waited;
                if let Some(found) = found {
                    return found.map_or(EarlyLookup::Unusable, |pte| EarlyLookup::Hit(latency, pte));
                }
            }
            let walks = self.filler.is_hardware() && latency <= within;
            return if walks { EarlyLookup::Miss(latency) } else { EarlyLookup::Unusable };
        };
        let array = &self.tlbs.arrays[found.array];
        let beyond_first = array.level >= 2;
        if found.depth > 0 {
            latency += u64::from(array.latency);
        }
        if latency > within {
            return EarlyLookup::Unusable;
        }
        if beyond_first {
            self.counters.count_later_hit(kind);
            if self.aux_tlb.is_some() {
                self.search_aux_in_parallel(aux_kind, vpn, found.depth);
            }
        }
        if !permits(found.pte, kind) {
            return EarlyLookup::Unusable;
        }
        if found.depth > 0 {
            self.fill(kind, vpn, found.pte, found.depth);
        }
        EarlyLookup::Hit(latency, found.pte)
    }

    /// Walks for `vpn`, which no TLB holds, for at most `within` cycles. Returns the cycles and the translation; `None` if the
    /// walk was aborted, if the page is unmapped, or if it forbids the reference. An aborted walk changes only the caches.
    pub(crate) fn walk_early(
        &mut self,
        kind: Kind,
        vpn: Vpn,
        table: &mut PageTable,
        caches: &mut Caches,
        within: u64,
    ) -> (u64, Option<Pte>) {
        if !self.filler.is_hardware() {
            return (0, None);
        }
        caches.walks_for_data = kind != Kind::Fetch;
        let Mmu { tlbs, filler, spaces, counters: c, .. } = self;
        let (walked, cost) = filler.fetch_within(tlbs, table, spaces.context, vpn, caches, within);
        c.host_accesses += cost.host_accesses;
        c.walk_accesses += cost.accesses;
        c.walk_cycles += cost.cycles;
        c.count_walk(kind);
        match (kind, walked.is_some()) {
            (Kind::Fetch, completed) => {
                c.walk_accesses_fetch += cost.accesses;
                c.walk_cycles_fetch += cost.cycles;
                *(if completed { &mut c.walks_fetch_wrong_path } else { &mut c.walks_fetch_aborted }) += 1;
            }
            (_, true) => (c.walks_completed, c.walks_wrong_path) = (c.walks_completed + 1, c.walks_wrong_path + 1),
            (_, false) => c.walks_aborted += 1,
        }
        let Some(walked) = walked else { return (cost.cycles, None) };
        let pte = match walked.slot {
            Slot::Leaf(pte) if permits(pte, kind) => pte,
            _ => {
                c.walks_faulting += 1;
                return (cost.cycles, None);
            }
        };
        table.mark(walked.node, walked.index, Pte::ACCESSED);
        host::mark_accessed(table, pte, vpn, self.base);
        let pte = self.within_host_page(Pte(pte.0 | Pte::ACCESSED), vpn, table);
        let depth = match &self.aux_tlb {
            None => self.tlbs.depth(kind),
            Some(_) => self.learn_aux(kind, vpn, pte, table, Some(caches)),
        };
        self.fill_walked(kind, vpn, pte, (walked.node, walked.index), table, depth);
        if self.assist.is_some() {
            self.tell_assist(kind, vpn, Some(cost.finished(pte)), table, Some(caches));
        }
        (cost.cycles, Some(pte))
    }
}
