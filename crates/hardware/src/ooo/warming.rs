//! Functional warming of an out-of-order core: TLBs, caches, prefetchers and the branch predictor see the program, in no
//! time (Wunderlich et al. 2003, SMARTS, §4.2).
//!
//! Only what depends on time is left out: the wrong path, prefetches that would be too late or too many, and the pipeline
//! itself. A detailed warm-up of some thousand references restores it.

use super::code::Code;
use super::in_flight::PendingBranch;
use super::instruction::BranchKind;
use super::prefetch::L1Miss;
use super::reference::ADDRESS_MASK;
use super::{CoreAndCaches, OooCore, OooRun};
use crate::cache::{Access, Caches};
use crate::mmu::{Confirmation, Cursor, Mmu, StepRefs, physical};
use reach_core::fold::{PAGE_SHIFT, PageRef};
use reach_core::{BlockId, Kind, PageTable, Pte, Ref, StopReason, VirtAddr, Vpn};
use std::ops::Range;

impl Mmu {
    /// Warms the core of `run` with `step` from `cursor` on, until the step ends or the operating system is needed. Charges
    /// no cycles.
    ///
    /// Call [`OooCore::serialise`] before the first step, and again before the core executes instructions.
    pub fn run_warming_ooo(
        &mut self,
        step: StepRefs,
        cursor: &mut Cursor,
        table: &mut PageTable,
        run: OooRun,
    ) -> StopReason {
        let stale = self.begin_run();
        let ledger = std::mem::take(&mut self.ledger);
        let OooRun { core, code, caches } = run;
        let from = cursor.next_ref;
        let folds = self.same_page.enabled && caches.folds_lines() && !step.line_refs.is_empty();
        // After an invalidation, each side must look its page up again before references are left out. A perfect unit looks
        // up nothing, and calls the operating system for every page once more.
        self.same_page.unconfirmed |= stale && !self.perfect;
        let mut result = Ok(());
        if !folds || self.same_page.unconfirmed {
            result = self.warm_one_by_one(step, cursor, table, core, caches, folds);
        }
        if folds && result.is_ok() {
            result = self.warm_folded(step, cursor, table, core, caches);
        }
        let fetches = step.refs[from..cursor.next_ref].iter().filter(|r| r.kind() == Kind::Fetch);
        for &fetch in fetches {
            core.warm_predictor(code, step.fetched[cursor.next_block], fetch);
            cursor.next_block += 1;
        }
        self.ledger = ledger;
        // No core waits for them.
        self.entries_from_memory = 0;
        result.err().unwrap_or(StopReason::End)
    }

    /// Warms with every reference: of the whole step, or, if `until_confirmed`, until folding is exact again.
    fn warm_one_by_one(
        &mut self,
        step: StepRefs,
        cursor: &mut Cursor,
        table: &mut PageTable,
        core: &mut OooCore,
        caches: &mut Caches,
        until_confirmed: bool,
    ) -> Result<(), StopReason> {
        let mut confirmation = Confirmation::default();
        while let Some(&r) = step.refs.get(cursor.next_ref) {
            if until_confirmed && confirmation.is_complete() && step.looks_up(cursor) {
                self.same_page.unconfirmed = false;
                break;
            }
            self.warm(r, table, core, caches)?;
            confirmation.add(r);
            cursor.next_ref += 1;
        }
        Ok(())
    }

    /// Warms with the references that folding keeps: TLBs with one look-up for a run on a page, caches with one access for a
    /// run on a line. Walks and lines come in the program's order.
    fn warm_folded(
        &mut self,
        step: StepRefs,
        cursor: &mut Cursor,
        table: &mut PageTable,
        core: &mut OooCore,
        caches: &mut Caches,
    ) -> Result<(), StopReason> {
        let to_vpn = u32::from(self.base.0) - PAGE_SHIFT;
        let mut translations = Translations::default();
        let mut line_refs = step.line_refs_from(cursor);
        step.skip_page_refs(cursor);
        let result = loop {
            let ahead = &step.page_refs[cursor.next_page_ref..];
            let hits = match self.perfect {
                true => ahead.iter().take_while(|page_ref| translations.has(page_ref)).count(),
                false => self.leading_hits(ahead),
            };
            cursor.next_page_ref += hits;
            let next = ahead.get(hits);
            let until = next.map_or(step.refs.len(), |page_ref| page_ref.index());
            let lines = line_refs.partition_point(|&at| (at as usize) < until);
            for &at in &line_refs[..lines] {
                self.warm_line_ref(step.refs[at as usize], table, &mut translations, core, caches);
            }
            line_refs = &line_refs[lines..];
            cursor.next_ref = until;
            let Some(page_ref) = next else { break Ok(()) };
            let vpn = Vpn(page_ref.page() >> to_vpn);
            match self.reference(page_ref.kind(), vpn, table, Some(caches)) {
                Ok(pte) => translations.set(page_ref, vpn, pte),
                Err(stop) => break Err(stop),
            }
            cursor.next_page_ref += 1;
        };
        // The sides have moved to other pages, which the filter has not seen.
        self.same_page.clear();
        result
    }

    /// Sends a reference, whose pages are translated, through the caches and prefetchers.
    #[inline(always)]
    fn warm_line_ref(
        &mut self,
        r: Ref,
        table: &mut PageTable,
        translations: &mut Translations,
        core: &mut OooCore,
        caches: &mut Caches,
    ) {
        let (access, length) = access_of(r);
        let (first, end) = (r.addr().0, r.addr().0 + length);
        let mut at = first;
        while at < end {
            let vpn = VirtAddr(at & ADDRESS_MASK).vpn(self.base);
            let pte = match translations.get(vpn) {
                Some(pte) => pte,
                // A translation without a page table, as by a segment, is asked for as by the program.
                None => match table.lookup(vpn).map_or_else(|| self.reference(r.kind(), vpn, table, None), Ok) {
                    Ok(pte) => {
                        translations.add(vpn, pte);
                        pte
                    }
                    Err(_) => return,
                },
            };
            let page_end = end.min((vpn + 1).addr(self.base).0.max(at + 1));
            self.warm_lines(access, vpn, pte, at..page_end, table, core, caches);
            at = page_end;
        }
    }

    /// Translates a reference, and sends it through the caches and prefetchers.
    fn warm(
        &mut self,
        r: Ref,
        table: &mut PageTable,
        core: &mut OooCore,
        caches: &mut Caches,
    ) -> Result<(), StopReason> {
        let kind = r.kind();
        let (access, length) = access_of(r);
        let (mut at, end) = (r.addr().0, r.addr().0 + length);
        while at < end {
            let vpn = VirtAddr(at & ADDRESS_MASK).vpn(self.base);
            let pte = match self.same_page.get(kind, vpn) {
                Some(pte) => pte,
                None => {
                    let pte = self.reference(kind, vpn, table, Some(caches))?;
                    self.same_page.set(kind, vpn, pte);
                    pte
                }
            };
            let page_end = end.min((vpn + 1).addr(self.base).0.max(at + 1));
            self.warm_lines(access, vpn, pte, at..page_end, table, core, caches);
            at = page_end;
        }
        Ok(())
    }

    /// Accesses the lines of `bytes`, which lie in one page.
    #[expect(clippy::too_many_arguments, reason = "the parts of a processor that one access concerns")]
    #[inline(always)]
    fn warm_lines(
        &mut self,
        access: Access,
        vpn: Vpn,
        pte: Pte,
        bytes: Range<u64>,
        table: &mut PageTable,
        core: &mut OooCore,
        caches: &mut Caches,
    ) {
        if access == Access::Fetch && !caches.models_fetches() {
            return;
        }
        let shift = caches.line_shift(access);
        let mut at = bytes.start;
        while at < bytes.end {
            let address = physical(pte, at, self.base);
            let (_, depth) = caches.access(access, address);
            if access != Access::Fetch && depth > 0 && core.prefetches() {
                let miss = L1Miss { page: vpn, at: address, from: None, missed_l2: depth > 1 };
                self.prefetch_after_miss(miss, table, CoreAndCaches { core, caches });
            }
            at = ((at >> shift) + 1) << shift;
        }
    }
}

/// Returns how caches see a reference, and its length in bytes.
fn access_of(r: Ref) -> (Access, u64) {
    match r.kind() {
        Kind::Fetch => (Access::Fetch, r.len().max(1)),
        Kind::Load => (Access::Load, r.size()),
        Kind::Store => (Access::Store, r.size()),
    }
}

/// Translations that hold until the operating system is called, found by page.
struct Translations {
    pages: [(Vpn, Pte); Translations::SLOTS],
    /// Pages that were looked up, each with the kind of reference.
    looked_up: [u64; Translations::SLOTS],
}

impl Default for Translations {
    fn default() -> Translations {
        let nothing = (Vpn(!0), Pte(0));
        Translations { pages: [nothing; Translations::SLOTS], looked_up: [!0; Translations::SLOTS] }
    }
}

impl Translations {
    const SLOTS: usize = 256;

    #[inline(always)]
    fn get(&self, vpn: Vpn) -> Option<Pte> {
        let (held, pte) = self.pages[vpn.0 as usize % Self::SLOTS];
        (held == vpn).then_some(pte)
    }

    fn add(&mut self, vpn: Vpn, pte: Pte) {
        self.pages[vpn.0 as usize % Self::SLOTS] = (vpn, pte);
    }

    /// Returns whether the page was looked up for that kind of reference.
    fn has(&self, page_ref: &PageRef) -> bool {
        let page = page_ref.page_and_kind();
        self.looked_up[Self::slot(page)] == page
    }

    /// Notes a look-up and its result.
    fn set(&mut self, page_ref: &PageRef, vpn: Vpn, pte: Pte) {
        let page = page_ref.page_and_kind();
        self.looked_up[Self::slot(page)] = page;
        self.add(vpn, pte);
    }

    /// The kinds of reference to one page have different slots.
    fn slot(page_and_kind: u64) -> usize {
        (page_and_kind ^ page_and_kind >> 28) as usize % Self::SLOTS
    }
}

impl OooCore {
    /// Trains the predictor: the program fetches `block` by `fetch`, after the branch that ends the block before it.
    #[inline(always)]
    fn warm_predictor(&mut self, code: &Code, block: BlockId, fetch: Ref) {
        let (start, end) = (fetch.addr().0, fetch.addr().0 + fetch.len().max(1));
        if let Some(PendingBranch { branch, start: from, end, .. }) = self.branch.take() {
            self.predictor.learn(branch, from, end, start);
        }
        let branch = code.of(block).last().map_or(BranchKind::None, |last| last.branch);
        self.branch = Some(PendingBranch { branch, block, start, end, resolved: 0 });
    }
}

#[cfg(test)]
mod tests {
    use super::super::reference::ByteRange;
    use super::*;
    use crate::config;
    use reach_core::{Block, BlockTable, Random};

    fn core() -> OooCore {
        let latencies = config::Latencies { multiply: 3, divide: 26, float: 4, float_divide: 11 };
        let predictor = config::Predictor { entries: 4096, history: 100, return_stack: 16 };
        let prefetch = config::Prefetch {
            streams: 0,
            distance: 0,
            degree: 0,
            adjacent_line: false,
            next_page: false,
            max_in_flight: 0,
        };
        let config = config::OooCore {
            rob: 64,
            width: 4,
            load_ports: 2,
            store_ports: 1,
            load_queue: 32,
            store_queue: 32,
            l1_mshrs: 8,
            memory: 200,
            line_interval: 0,
            itlb_walkers: 1,
            front_end_depth: 10,
            fetch_queue: 64,
            itlb_inclusion: false,
            itlb_replay: 0,
            wrong_path: false,
            latencies,
            predictor,
            prefetch,
        };
        OooCore::new(config, 1)
    }

    /// Executes `blocks` of two bytes, which follow each other in memory, and returns the mispredictions.
    fn execute(core: &mut OooCore, code: &Code, blocks: &[u32]) -> u64 {
        for &block in blocks {
            let start = u64::from(block) * 2;
            core.end_block(core.instructions(code));
            core.resolve_branch(code, start);
            core.start_block(code, BlockId(block), ByteRange { start, end: start + 2 });
        }
        core.take_statistics().mispredictions
    }

    #[test]
    fn a_warmed_predictor_predicts_as_one_that_has_executed_the_program() {
        // jnz: whether it is taken follows a pattern for most blocks, and chance for one in eight.
        let (mut table, mut code) = (BlockTable::default(), Code::default());
        for block in 0..64u64 {
            table.push(Block { pc: VirtAddr(2 * block), len: 2, instructions: 1, bytes: [0x75, 0x20].into() });
        }
        code.learn(&table);
        let (mut random, mut at) = (Random::new(3), 0u32);
        let program: Vec<u32> = (0..20_000u32)
            .map(|n| {
                let skip = if at % 8 == 0 { random.below(2) as u32 } else { u32::from((n + at) % 5 == 0) };
                at = (at + 1 + 2 * skip) % 64;
                at
            })
            .collect();
        let (first, second) = program.split_at(program.len() / 2);
        let mut whole = core();
        execute(&mut whole, &code, first);
        let expected = execute(&mut whole, &code, second);

        let mut warmed = core();
        for &block in first {
            warmed.warm_predictor(&code, BlockId(block), Ref::fetch(VirtAddr(u64::from(block) * 2), 2));
        }
        let after_warming = execute(&mut warmed, &code, second);
        assert!(after_warming.abs_diff(expected) <= 1, "{after_warming} for {expected}");
        let cold = execute(&mut core(), &code, second);
        assert!(cold > expected + 20, "{cold} for {expected}");
    }
}
