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
                self.note_instruction(&step, cursor.next_ref);
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
                    let place = Place { step: &step, cursor, code };
                    self.load_or_store(bytes, kind, place, table, CoreAndCaches { core, caches })
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

    /// Loads or stores `bytes`: the reference of `place`.
    #[inline(always)]
    fn load_or_store(
        &mut self,
        bytes: ByteRange,
        kind: Kind,
        place: Place,
        table: &mut PageTable,
        CoreAndCaches { core, caches }: CoreAndCaches,
    ) -> Result<(), Stopped> {
        let shift = caches.line_shift(access(kind));
        // Without a loop, for which the compiler would keep some thirty addresses ready.
        let is_one_line = bytes.start >> shift == bytes.end.wrapping_sub(1) >> shift;
        let missed = if is_one_line {
            let page = self.translate_data(kind, bytes.start, table, caches)?;
            let missed_first_level = page.translation != TranslationCost::default();
            let missed_tlbs = self.access_line(bytes, kind, &page, place, table, CoreAndCaches { core, caches });
            Missed { first_level: missed_first_level, tlbs: missed_tlbs == Some(true) }
        } else {
            self.access_lines(bytes, kind, place, table, CoreAndCaches { core, caches })?
        };
        core.end_reference(kind, bytes.start, missed.first_level);
        self.counters.stlb_miss_retired += u64::from(missed.tlbs);
        Ok(())
    }

    /// Loads or stores `bytes`, which lie on several lines or none.
    #[cold]
    #[inline(never)]
    fn access_lines(
        &mut self,
        bytes: ByteRange,
        kind: Kind,
        place: Place,
        table: &mut PageTable,
        CoreAndCaches { core, caches }: CoreAndCaches,
    ) -> Result<Missed, Stopped> {
        let shift = caches.line_shift(access(kind));
        let mut missed = Missed { first_level: false, tlbs: false };
        let mut at = bytes.start;
        while at < bytes.end {
            let mut page = self.translate_data(kind, at, table, caches)?;
            missed.first_level |= page.translation != TranslationCost::default();
            let page_end = bytes.end.min((page.vpn + 1).addr(self.base).0.max(at + 1));
            while at < page_end {
                let line_end = page_end.min(((at >> shift) + 1) << shift);
                let line = ByteRange { start: at, end: line_end };
                match self.access_line(line, kind, &page, place, table, CoreAndCaches { core, caches }) {
                    Some(missed_tlbs) => missed.tlbs |= missed_tlbs,
                    None => missed.tlbs = false,
                }
                page.translation = TranslationCost::default();
                at = line_end;
            }
        }
        Ok(missed)
    }

    /// Translates the page of `at` for a load or store.
    #[inline(always)]
    fn translate_data(
        &mut self,
        kind: Kind,
        at: u64,
        table: &mut PageTable,
        caches: &mut Caches,
    ) -> Result<DataPage, Stopped> {
        let vpn = VirtAddr(at & ADDRESS_MASK).vpn(self.base);
        let walks = self.counters.walks_data;
        let found = self.translate_timed(kind, vpn, table, caches);
        let walks = self.counters.walks_data - walks;
        self.counters.walks_completed += walks;
        self.counters.walks_retired += walks;
        let (pte, translation) = found?;
        Ok(DataPage { vpn, pte, translation, walks })
    }

    /// Loads or stores `bytes`, on one line of `page`. Returns whether no TLB held the page; `None` if the load violated memory
    /// order and was repeated.
    #[inline(always)]
    fn access_line(
        &mut self,
        bytes: ByteRange,
        kind: Kind,
        page: &DataPage,
        place: Place,
        table: &mut PageTable,
        CoreAndCaches { core, caches }: CoreAndCaches,
    ) -> Option<bool> {
        let access = access(kind);
        let (shift, l1_latency) = (caches.line_shift(access), caches.near_latency(access));
        let address = physical(page.pte, bytes.start, self.base);
        let (latency, depth) = caches.access(access, address);
        let (line, translation) = (address.0 >> shift, page.translation);
        let reference = MemoryReference { bytes, line, page: page.vpn.0, translation, l1_latency, latency };
        let times = match kind {
            Kind::Store => core.store(reference),
            _ => core.load(reference),
        };
        if depth > 0 && core.prefetches() {
            let miss = L1Miss { page: page.vpn, at: address, from: Some(times.translated), missed_l2: depth > 1 };
            self.prefetch_after_miss(miss, table, CoreAndCaches { core, caches });
        }
        match times.clear {
            None => Some(times.missed_tlbs),
            Some(clear) => {
                self.repeat_after_clear(bytes, clear, page, place, table, CoreAndCaches { core, caches });
                None
            }
        }
    }

    /// Runs until the machine clear in cycle `clear`, which a load of `bytes` causes, and repeats the load.
    #[cold]
    #[inline(never)]
    fn repeat_after_clear(
        &mut self,
        bytes: ByteRange,
        clear: u64,
        page: &DataPage,
        Place { step, cursor, code }: Place,
        table: &mut PageTable,
        CoreAndCaches { core, caches }: CoreAndCaches,
    ) {
        // The walk was for the squashed load. The repeated one finds the translation.
        let walks = if page.translation.walk + page.translation.hidden_walk > 0 { page.walks } else { 0 };
        self.counters.walks_retired -= walks;
        self.counters.walks_wrong_path += walks;
        let right = step.right_path_behind(cursor);
        self.log_ooo_counts(cursor.next_ref, false, core.ledger());
        self.run_until_clear(clear, code, right, table, CoreAndCaches { core, caches });
        self.log_ooo_counts(cursor.next_ref, true, core.ledger());
        core.repeat_load(bytes, clear, caches.near_latency(Access::Load));
    }
}

/// Returns how the caches see a reference to data.
#[inline(always)]
fn access(kind: Kind) -> Access {
    if kind == Kind::Store { Access::Store } else { Access::Load }
}

/// Where a reference stands in the program.
#[derive(Clone, Copy)]
struct Place<'a> {
    step: &'a StepRefs<'a>,
    cursor: &'a Cursor,
    code: &'a Code,
}

/// A page of data, and what translating it took.
struct DataPage {
    vpn: Vpn,
    pte: Pte,
    translation: TranslationCost,
    /// The walks for it.
    walks: u64,
}

/// What lacked a page of a reference.
struct Missed {
    /// The first-level TLB.
    first_level: bool,
    /// All TLBs.
    tlbs: bool,
}
