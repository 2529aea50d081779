//! Runs a program's references on the out-of-order core.
//!
//! Each reference is translated and sent through the caches in program order, as under timing `inorder`. What that took
//! goes to the core, which decides when it happened.

use super::code::Code;
use super::front_end::EvictedPages;
use super::prefetch::L1Miss;
use super::reference::{ADDRESS_MASK, ByteRange, MemoryReference, TranslationCost};
use super::{CoreAndCaches, OooCore};
use crate::cache::{Access, Caches};
use crate::mmu::{Cursor, Mmu, StepRefs, WalkReads, physical};
use reach_core::{Kind, Label, Ledger, PageTable, Pte, StopReason, VirtAddr, Vpn};

/// The core of a run, its caches, and the program's code.
pub struct OooRun<'a> {
    /// The core.
    pub core: &'a mut OooCore,
    /// The instructions of all blocks.
    pub code: &'a Code,
    /// The caches of the core.
    pub caches: &'a mut Caches,
}

/// A reference that needs the operating system, and the translation that was paid for until then.
type Stopped = (StopReason, TranslationCost);

impl Mmu {
    /// Runs `step` from `cursor` on the core until the step ends or the operating system is needed.
    pub fn run_ooo(&mut self, step: StepRefs, cursor: &mut Cursor, table: &mut PageTable, run: OooRun) -> StopReason {
        self.begin_run();
        let space = self.asid().0;
        // Translation charges this ledger. `take_translation_cost` empties it after each reference.
        let ledger = std::mem::take(&mut self.ledger);
        let OooRun { core, code, caches } = run;
        let mut reason = StopReason::End;
        core.enter_space(space);
        let mut insts = core.instructions(code);
        let logs_costs = self.logs_costs();
        let reads_instructions = self.reads_instructions();
        while let Some(&r) = step.refs.get(cursor.next_ref) {
            if reads_instructions {
                self.note_instruction(step.refs, cursor.next_ref);
            }
            let outcome = match r.kind() {
                Kind::Fetch => {
                    let block = step.fetched[cursor.next_block];
                    if let Some(&next) = step.fetched.get(cursor.next_block + 1) {
                        core.prefetch_block(code, next);
                    }
                    core.end_block(insts);
                    if let Some(misprediction) = core.resolve_branch(code, r.addr().0) {
                        let right = step.right_path(cursor);
                        self.run_wrong_path(&misprediction, code, right, table, CoreAndCaches { core, caches });
                        core.resume_fetch(&misprediction);
                        if logs_costs {
                            self.log_ooo_counts(cursor.next_ref, true, core.ledger());
                        }
                    }
                    let bytes = ByteRange { start: r.addr().0, end: r.addr().0 + r.len().max(1) };
                    self.fetch_block(bytes, table, core, caches).map(|()| {
                        core.start_block(code, block, bytes);
                        insts = code.of(block);
                        cursor.next_block += 1;
                    })
                }
                kind => {
                    core.advance_to(insts, r.index().into());
                    core.begin_reference(kind);
                    let bytes = ByteRange { start: r.addr().0, end: r.addr().0 + r.size() };
                    self.load_or_store(bytes, kind, (&step, cursor), code, table, CoreAndCaches { core, caches })
                }
            };
            if logs_costs {
                self.log_ooo_costs(cursor.next_ref, r.kind() == Kind::Fetch, core.ledger());
            }
            if let Err((stop, translation)) = outcome {
                core.charge_stopped(translation);
                reason = stop;
                break;
            }
            cursor.next_ref += 1;
        }
        self.ledger = ledger;
        self.settle_ooo(core);
        reason
    }

    /// Drains the pipeline, so that the operating system's next work overlaps with nothing. `ends_block` says that the
    /// program does not continue in the current block.
    pub fn serialise_ooo(&mut self, core: &mut OooCore, code: &Code, ends_block: bool) {
        core.serialise(code, ends_block);
        self.settle_ooo(core);
    }

    /// Adds the core's cycles and counts to the MMU's.
    fn settle_ooo(&mut self, core: &mut OooCore) {
        let charged = core.take_ledger();
        self.log_last_ooo_costs(&charged);
        self.ledger.absorb(&charged);
        let counted = core.take_statistics();
        let c = &mut self.counters;
        c.branches += counted.branches;
        c.mispredictions += counted.mispredictions;
        c.memory_ordering_clears += counted.memory_order_clears;
        c.squashed += counted.squashed;
        c.squashed_loads += counted.squashed_loads;
        c.squashed_stores += counted.squashed_stores;
        c.itlb_stall_l2_tlb_hit += counted.fetch_stalls.tlb;
        c.itlb_stall_walk += counted.fetch_stalls.walk;
        c.itlb_stall_inclusion += counted.fetch_stalls.inclusion;
        c.itlb_stall_replay += counted.fetch_stalls.replay;
        c.fetch_stall_cache += counted.fetch_stalls.cache;
    }

    /// Translates a page, and returns what that took.
    #[inline(always)]
    fn translate_timed(
        &mut self,
        kind: Kind,
        vpn: Vpn,
        table: &mut PageTable,
        caches: &mut Caches,
    ) -> Result<(Pte, TranslationCost), Stopped> {
        if let Some(pte) = self.same_page.get(kind, vpn) {
            return Ok((pte, TranslationCost::default()));
        }
        let found = self.reference(kind, vpn, table, Some(caches));
        let translation = self.take_translation_cost();
        let pte = found.map_err(|reason| (reason, translation))?;
        self.same_page.set(kind, vpn, pte);
        Ok((pte, translation))
    }

    /// Returns what translation has charged since the last call, and takes it out of the ledger.
    #[inline(always)]
    pub(crate) fn take_translation_cost(&mut self) -> TranslationCost {
        let of = |ledger: &Ledger, label| ledger.charged(label).0 as u32;
        let Mmu { ledger, walk_reads, .. } = self;
        let WalkReads { from_memory, l1_miss_cycles, hidden, ahead } = std::mem::take(walk_reads);
        let translation = TranslationCost {
            tlb: of(ledger, Label::L2TlbHit),
            walk: of(ledger, Label::Walk),
            memory_reads: from_memory,
            l1_miss_cycles,
            handler: of(ledger, Label::Handler),
            hidden_walk: hidden,
            data_ahead: ahead > 0,
        };
        if translation != TranslationCost::default() {
            *ledger = Ledger::default();
        }
        translation
    }

    /// Fetches the block of `bytes`.
    fn fetch_block(
        &mut self,
        bytes: ByteRange,
        table: &mut PageTable,
        core: &mut OooCore,
        caches: &mut Caches,
    ) -> Result<(), Stopped> {
        let models_fetches = caches.models_fetches();
        let (shift, l1_latency) = (caches.line_shift(Access::Fetch), caches.near_latency(Access::Fetch));
        let mut at = bytes.start;
        let mut slowest = 0;
        while at < bytes.end {
            let vpn = VirtAddr(at & ADDRESS_MASK).vpn(self.base);
            let misses = self.counters.l1i_tlb_misses;
            let (pte, translation) = self.translate_timed(Kind::Fetch, vpn, table, caches)?;
            let missed = self.counters.l1i_tlb_misses != misses;
            let evicted = if missed { self.take_itlb_victim() } else { None };
            core.fetch_page(vpn.0, translation, evicted.map(|(first, end)| EvictedPages { first, end }));
            let page_end = bytes.end.min((vpn + 1).addr(self.base).0.max(at + 1));
            if models_fetches {
                for line in at >> shift..=(page_end - 1) >> shift {
                    let byte = at.max(line << shift);
                    let (latency, _) = caches.access(Access::Fetch, physical(pte, byte, self.base));
                    // The lines of a block are fetched in parallel.
                    slowest = slowest.max(latency.saturating_sub(l1_latency));
                }
            }
            at = page_end;
        }
        if slowest > 0 {
            core.fetch_lines(slowest);
        }
        Ok(())
    }

    /// Loads or stores `bytes`, line by line: the reference of `step` at `cursor`.
    #[inline]
    fn load_or_store(
        &mut self,
        bytes: ByteRange,
        kind: Kind,
        (step, cursor): (&StepRefs, &Cursor),
        code: &Code,
        table: &mut PageTable,
        CoreAndCaches { core, caches }: CoreAndCaches,
    ) -> Result<(), Stopped> {
        let access = if kind == Kind::Store { Access::Store } else { Access::Load };
        let (shift, l1_latency) = (caches.line_shift(access), caches.near_latency(access));
        let mut at = bytes.start;
        let (mut missed_first_level, mut missed_tlbs) = (false, false);
        while at < bytes.end {
            let vpn = VirtAddr(at & ADDRESS_MASK).vpn(self.base);
            let walks = self.counters.walks_data;
            let found = self.translate_timed(kind, vpn, table, caches);
            let walks = self.counters.walks_data - walks;
            self.counters.walks_completed += walks;
            self.counters.walks_retired += walks;
            let (pte, mut translation) = found?;
            missed_first_level |= translation != TranslationCost::default();
            let page_end = bytes.end.min((vpn + 1).addr(self.base).0.max(at + 1));
            while at < page_end {
                let line_end = page_end.min(((at >> shift) + 1) << shift);
                let address = physical(pte, at, self.base);
                let (latency, depth) = caches.access(access, address);
                let bytes = ByteRange { start: at, end: line_end };
                let (line, page) = (address.0 >> shift, vpn.0);
                let reference = MemoryReference { bytes, line, page, translation, l1_latency, latency };
                let times = match kind {
                    Kind::Store => core.store(reference),
                    _ => core.load(reference),
                };
                if depth > 0 && core.prefetches() {
                    let miss = L1Miss { page: vpn, at: address, from: Some(times.translated), missed_l2: depth > 1 };
                    self.prefetch_after_miss(miss, table, CoreAndCaches { core, caches });
                }
                match times.clear {
                    None => missed_tlbs |= times.missed_tlbs,
                    Some(clear) => {
                        // The walk was for the squashed load. The repeated one finds the translation.
                        let walks = if translation.walk + translation.hidden_walk > 0 { walks } else { 0 };
                        self.counters.walks_retired -= walks;
                        self.counters.walks_wrong_path += walks;
                        let right = step.right_path_behind(cursor);
                        self.log_ooo_counts(cursor.next_ref, false, core.ledger());
                        self.run_until_clear(clear, code, right, table, CoreAndCaches { core, caches });
                        self.log_ooo_counts(cursor.next_ref, true, core.ledger());
                        core.repeat_load(bytes, clear, l1_latency);
                        missed_tlbs = false;
                    }
                }
                translation = TranslationCost::default();
                at = line_end;
            }
        }
        core.end_reference(kind, bytes.start, missed_first_level);
        self.counters.stlb_miss_retired += u64::from(missed_tlbs);
        Ok(())
    }
}
