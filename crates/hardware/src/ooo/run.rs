//! References through the window: each is translated and sent through the caches in program order, and the window says
//! when that was.

use super::{Code, OooCore, Translation};
use crate::cache::{Access, Caches};
use crate::mmu::{Cursor, Mmu, StepRefs, physical};
use reach_core::{Kind, Label, Ledger, PageTable, Pte, StopReason, VirtAddr, Vpn};

/// The highest address: references have 48 bits for theirs.
const ADDRESSES: u64 = (1 << 48) - 1;

/// What a run in the window needs beside what every run needs.
pub struct OooRun<'a> {
    /// The window.
    pub ooo: &'a mut OooCore,
    /// The instructions of all blocks.
    pub code: &'a Code,
    /// The caches.
    pub caches: &'a mut Caches,
}

impl Mmu {
    /// Runs `step` from `cursor` until its end or until the operating system is needed, through the window.
    pub fn run_ooo(&mut self, step: StepRefs, cursor: &mut Cursor, table: &mut PageTable, core: OooRun) -> StopReason {
        self.begin_run();
        let space = self.asid().0;
        // What translations take is charged to this ledger one by one, and taken out of it again.
        let ledger = std::mem::take(&mut self.ledger);
        let OooRun { ooo, code, caches } = core;
        let mut why = StopReason::End;
        ooo.enter_space(space);
        let mut insts = ooo.instructions(code);
        while let Some(&r) = step.refs.get(cursor.next_ref) {
            let done = match r.kind() {
                Kind::Fetch => {
                    let block = step.fetched[cursor.next_block];
                    if let Some(&next) = step.fetched.get(cursor.next_block + 1) {
                        ooo.prefetch_block(code, next);
                    }
                    ooo.end_block(insts);
                    let (from, to) = (r.addr().0, r.addr().0 + r.len().max(1));
                    self.fetch_block((from, to), code, table, ooo, caches).map(|()| {
                        ooo.start_block(code, block, from, to);
                        insts = code.of(block);
                        cursor.next_block += 1;
                    })
                }
                kind => {
                    ooo.advance(insts, r.index().into());
                    ooo.refer(kind);
                    self.data((r.addr().0, r.addr().0 + r.size()), kind, code, table, ooo, caches)
                }
            };
            if let Err((stop, taken)) = done {
                ooo.stopped(taken);
                why = stop;
                break;
            }
            cursor.next_ref += 1;
        }
        self.ledger = ledger;
        self.settle_ooo(ooo);
        why
    }

    /// Ends what is under way: what the operating system does next is not to overlap with it. `ends`: the program does not
    /// go on in the block under way.
    pub fn serialise_ooo(&mut self, ooo: &mut OooCore, code: &Code, ends: bool) {
        ooo.serialise(code, ends);
        self.settle_ooo(ooo);
    }

    /// Books what has passed in the window.
    fn settle_ooo(&mut self, ooo: &mut OooCore) {
        self.ledger.absorb(&ooo.hand_over());
        let counted = ooo.hand_over_counts();
        let c = &mut self.counters;
        c.branches += counted.branches;
        c.mispredictions += counted.mispredictions;
        c.memory_ordering_clears += counted.clears;
        c.squashed += counted.squashed;
        c.squashed_loads += counted.squashed_loads;
        c.squashed_stores += counted.squashed_stores;
        c.itlb_stall_l2_tlb_hit += counted.front.tlb;
        c.itlb_stall_walk += counted.front.walk;
        c.itlb_stall_inclusion += counted.front.inclusion;
        c.fetch_stall_cache += counted.front.cache;
    }

    /// Translates, and says what that took.
    #[inline(always)]
    fn timed(
        &mut self,
        kind: Kind,
        vpn: Vpn,
        table: &mut PageTable,
        caches: &mut Caches,
    ) -> Result<(Pte, Translation), (StopReason, Translation)> {
        if let Some(pte) = self.same_page.get(kind, vpn) {
            return Ok((pte, Translation::default()));
        }
        let found = self.reference(kind, vpn, table, Some(caches));
        let taken = self.taken();
        let pte = found.map_err(|why| (why, taken))?;
        self.same_page.set(kind, vpn, pte);
        Ok((pte, taken))
    }

    /// What has been charged since this was last asked.
    #[inline(always)]
    pub(crate) fn taken(&mut self) -> Translation {
        let of = |ledger: &Ledger, label| ledger.charged(label).0 as u32;
        let Mmu { ledger, entries_from_memory, .. } = self;
        let taken = Translation {
            tlb: of(ledger, Label::L2TlbHit),
            walk: of(ledger, Label::Walk),
            entries: std::mem::take(entries_from_memory),
            handler: of(ledger, Label::Handler),
        };
        if taken != Translation::default() {
            *ledger = Ledger::default();
        }
        taken
    }

    /// Fetches the bytes from `from` to before `to`.
    fn fetch_block(
        &mut self,
        (from, to): (u64, u64),
        code: &Code,
        table: &mut PageTable,
        ooo: &mut OooCore,
        caches: &mut Caches,
    ) -> Result<(), (StopReason, Translation)> {
        if let Some(wrong) = ooo.redirect(code, from) {
            self.run_wrong_path(&wrong, code, table, (ooo, caches));
            ooo.resume(&wrong);
        }
        let models = caches.models_fetches();
        let (shift, near) = (caches.line_shift(Access::Fetch), caches.near_latency(Access::Fetch));
        let mut at = from;
        let mut slowest = 0;
        while at < to {
            let vpn = VirtAddr(at & ADDRESSES).vpn(self.base);
            let misses = self.counters.l1i_tlb_misses;
            let (pte, taken) = self.timed(Kind::Fetch, vpn, table, caches)?;
            let missed = self.counters.l1i_tlb_misses != misses;
            let victim = if missed { self.take_itlb_victim() } else { None };
            ooo.fetch_page(vpn.0, taken, victim);
            let stop = to.min((vpn + 1).addr(self.base).0.max(at + 1));
            if models {
                for line in at >> shift..=(stop - 1) >> shift {
                    let byte = at.max(line << shift);
                    let (latency, _) = caches.access(Access::Fetch, physical(pte, byte, self.base));
                    // The lines of a block are asked for one right after the other.
                    slowest = slowest.max(latency.saturating_sub(near));
                }
            }
            at = stop;
        }
        if slowest > 0 {
            ooo.fetch_lines(slowest);
        }
        Ok(())
    }

    /// A load or store of the bytes from `from` to before `to`.
    #[inline]
    fn data(
        &mut self,
        (from, to): (u64, u64),
        kind: Kind,
        code: &Code,
        table: &mut PageTable,
        ooo: &mut OooCore,
        caches: &mut Caches,
    ) -> Result<(), (StopReason, Translation)> {
        let access = if kind == Kind::Store { Access::Store } else { Access::Load };
        let (shift, near) = (caches.line_shift(access), caches.near_latency(access));
        let mut at = from;
        let (mut far, mut missed) = (false, false);
        while at < to {
            let vpn = VirtAddr(at & ADDRESSES).vpn(self.base);
            let walks = self.counters.walks_data;
            let found = self.timed(kind, vpn, table, caches);
            let walks = self.counters.walks_data - walks;
            self.counters.walks_completed += walks;
            self.counters.walks_retired += walks;
            let (pte, mut taken) = found?;
            far |= taken != Translation::default();
            let stop = to.min((vpn + 1).addr(self.base).0.max(at + 1));
            while at < stop {
                let end = stop.min(((at >> shift) + 1) << shift);
                let physical = physical(pte, at, self.base);
                let (latency, depth) = caches.access(access, physical);
                let line = physical.0 >> shift;
                // The whole reference is what stores and loads are compared by; a line's part of it is what is got here.
                let done = if kind == Kind::Store {
                    let miss = if latency > near { latency } else { 0 };
                    ooo.store((at, end), line, vpn.0, taken, miss)
                } else {
                    ooo.load((at, end), line, vpn.0, taken, near, latency)
                };
                if depth > 0 && ooo.looks_ahead() {
                    self.look_ahead((vpn, physical), done.translated, depth > 1, table, (ooo, caches));
                }
                match done.again {
                    None => missed |= done.missed,
                    Some(again) => {
                        // The walk was for what did not retire; what does finds the page.
                        let walks = if taken.walk > 0 { walks } else { 0 };
                        self.counters.walks_retired -= walks;
                        self.counters.walks_wrong_path += walks;
                        self.go_on_in_vain(again, code, table, (ooo, caches));
                        ooo.repeat((at, end), again, near);
                        missed = false;
                    }
                }
                taken = Translation::default();
                at = end;
            }
        }
        ooo.note(kind, from, far);
        self.counters.stlb_miss_retired += u64::from(missed);
        Ok(())
    }
}
