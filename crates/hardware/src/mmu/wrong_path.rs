//! References that will not retire. They use what others use, and find, fill and count what these do. But they never need the
//! operating system and never write but for the accessed bit: a translation that is missing or forbids them is none, and
//! the dirty bit waits for a store that retires. The accessed bit they do set, at the end of a walk, as processors may
//! (Intel SDM 3A, 4.8 and 4.10.2.3: what is cached for speculation has its accessed flag set; AMD's are documented alike).

use super::{Filler, Mmu, allows, physical};
use crate::cache::{Access, Caches};
use crate::ooo::{Found, Walk};
use reach_core::{Kind, PageTable, Pte, Slot, Vpn};

impl Mmu {
    /// Whether such references can be made: not where the operating system keeps account of entries that come and go.
    pub(crate) fn speculates(&self) -> bool {
        self.telling.is_none()
    }

    /// Looks `vpn` up. What a later level knows only after more than `within` cycles is not entered in earlier ones.
    pub(crate) fn look_up_early(
        &mut self,
        kind: Kind,
        vpn: Vpn,
        table: &mut PageTable,
        caches: &mut Caches,
        within: u64,
    ) -> (Found, Option<Pte>) {
        const NOTHING: (Found, Option<Pte>) = (Found::Nothing, None);
        if self.perfect {
            let pte = table.lookup(vpn).filter(|&pte| allows(pte, kind));
            return pte.map_or(NOTHING, |pte| (Found::Known(0), Some(pte)));
        }
        // What stands beside takes a store for one that writes.
        let asks = if kind == Kind::Fetch { Kind::Fetch } else { Kind::Load };
        if self.aux_tlb.is_some()
            && let Some(done) = self.in_segment(asks, vpn, table)
        {
            return done.map_or(NOTHING, |pte| (Found::Known(0), Some(pte)));
        }
        let mut latency = 0;
        let Some(found) = self.tlbs.lookup(kind, self.context, vpn, &mut latency) else {
            if latency > within {
                return NOTHING;
            }
            if self.aux_tlb.is_some()
                && let Some(known) = self.find_aux_tlb(asks, vpn, table, Some(caches))
            {
                let latency = latency + u64::from(self.taken().tlb);
                return known.map_or(NOTHING, |pte| (Found::Known(latency), Some(pte)));
            }
            let walks = matches!(self.filler, Filler::Hardware { .. });
            return if walks { (Found::Missed(latency), None) } else { NOTHING };
        };
        let array = &self.tlbs.arrays[found.array];
        let beyond_first = array.level >= 2;
        if found.depth > 0 {
            latency += u64::from(array.latency);
        }
        if latency > within {
            return NOTHING;
        }
        if beyond_first {
            self.counters.count_later_hit(kind);
            if self.aux_tlb.is_some() {
                self.search_aux_tlb(asks, vpn, found.depth);
            }
        }
        if !allows(found.pte, kind) {
            return NOTHING;
        }
        if found.depth > 0 {
            self.tlbs.fill(kind, self.context, vpn, found.pte, found.depth);
        }
        (Found::Known(latency), Some(found.pte))
    }

    /// Walks for `vpn`, which no TLB knows, for at most `within` cycles: what would be read later is not, and what was read
    /// is forgotten but for what it has changed in caches.
    pub(crate) fn walk_early(
        &mut self,
        kind: Kind,
        vpn: Vpn,
        table: &mut PageTable,
        caches: &mut Caches,
        within: u64,
    ) -> (Walk, Option<Pte>) {
        let fetch = kind == Kind::Fetch;
        let Mmu { tlbs, filler, context, counters: c, base, .. } = self;
        let Filler::Hardware { caches: walk_caches, lookup, nested } = filler else {
            return (Walk { cycles: 0, found: false }, None);
        };
        let mut cycles = u64::from(*lookup);
        let (mut reads, mut of_host) = (0, 0);
        let mut read = |at| {
            if cycles >= within {
                return false;
            }
            reads += 1;
            cycles += u64::from(caches.access(Access::Walk, at).0);
            cycles <= within
        };
        let mut walked = walk_caches.walk_while(tlbs, table, *context, vpn, |at, known| {
            if let Some(nested) = nested.as_deref_mut().filter(|_| !known) {
                nested.translate(at, true, |at| of_host += u64::from(read(at)));
            }
            read(at)
        });
        if let Some(nested) = nested
            && let Some(Slot::Leaf(pte)) = walked.map(|walked| walked.slot)
        {
            let mut goes_on = true;
            let at = physical(pte, vpn.addr(*base).0, *base);
            nested.translate(at, false, |at| {
                goes_on = read(at);
                of_host += u64::from(goes_on);
            });
            walked = walked.filter(|_| goes_on);
        }
        let cycles = cycles.min(within);
        c.host_accesses += of_host;
        c.walk_accesses += reads;
        c.walk_cycles += cycles;
        match fetch {
            true => {
                (c.l1i_tlb_misses, c.walks_fetch) = (c.l1i_tlb_misses + 1, c.walks_fetch + 1);
                c.walk_cycles_fetch += cycles;
                let ended = if walked.is_some() { &mut c.walks_fetch_wrong_path } else { &mut c.walks_fetch_aborted };
                *ended += 1;
            }
            false => {
                (c.l1d_tlb_misses, c.walks_data) = (c.l1d_tlb_misses + 1, c.walks_data + 1);
                if walked.is_some() {
                    (c.walks_completed, c.walks_wrong_path) = (c.walks_completed + 1, c.walks_wrong_path + 1);
                } else {
                    c.walks_aborted += 1;
                }
            }
        }
        let Some(walked) = walked else { return (Walk { cycles, found: false }, None) };
        let pte = match walked.slot {
            Slot::Leaf(pte) if allows(pte, kind) => pte,
            _ => {
                c.walks_faulting += 1;
                return (Walk { cycles, found: false }, None);
            }
        };
        table.mark(walked.node, walked.index, Pte::ACCESSED);
        let pte = self.piece(Pte(pte.0 | Pte::ACCESSED), vpn);
        let depth = match &self.aux_tlb {
            None => self.tlbs.depth(kind),
            Some(_) => self.learn_aux_tlb(kind, vpn, pte, table, Some(caches)),
        };
        self.tlbs.fill(kind, self.context, vpn, pte, depth);
        (Walk { cycles, found: true }, Some(pte))
    }
}
