//! Functional warming of an out-of-order core: TLBs, caches and prefetchers see the program, in no time (Wunderlich et al.
//! 2003, SMARTS, §4.2). What they see of a long run are the last uses of its lines and pages ([`reach_core::last_use`]).
//!
//! Left out is what depends on time: the wrong path, streams that would be too late or too many, and the pipeline itself.
//! Of buddy lines, as many are prefetched as lately in detail ([`super::prefetch::Buddies`]). A detailed warm-up of some thousand references restores it. The branch predictor sees all branches, but not here: it
//! depends on the program alone, so one trainer serves all systems ([`super::BranchTrainer`]).

use super::prefetch::L1Miss;
use super::reference::ADDRESS_MASK;
use super::{CoreAndCaches, OooCore, OooRun};
use crate::cache::{Access, Caches};
use crate::mmu::{Cursor, Mmu, StepRefs, WalkReads, physical};
use reach_core::fold::{PAGE_SHIFT, PageRef};
use reach_core::{Kind, PageTable, Pte, Ref, StopReason, VirtAddr, Vpn};
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
        let OooRun { core, caches, .. } = run;
        // What follows in detail may need what this run leaves out.
        self.same_page.unconfirmed |= stale;
        let result = if self.same_page.enabled && caches.folds_lines() && !step.last_lines.is_empty() {
            // A policy that counts misses, or learns from them, needs all of them.
            let step = if self.logs_events() || self.reads_control_flow() { step } else { step.last_pages_only() };
            self.warm_with_last_uses(step, cursor, table, core, caches)
        } else {
            self.warm_one_by_one(step, cursor, table, core, caches)
        };
        self.ledger = ledger;
        // No core waits for them.
        self.walk_reads = WalkReads::default();
        result.err().unwrap_or(StopReason::End)
    }

    /// Warms with every reference of the step.
    fn warm_one_by_one(
        &mut self,
        step: StepRefs,
        cursor: &mut Cursor,
        table: &mut PageTable,
        core: &mut OooCore,
        caches: &mut Caches,
    ) -> Result<(), StopReason> {
        while let Some(&r) = step.refs.get(cursor.next_ref) {
            self.note_instruction(&step, cursor.next_ref);
            self.warm(r, table, core, caches)?;
            cursor.next_ref += 1;
        }
        Ok(())
    }

    /// Warms TLBs with the page references of the step, and caches with its last uses of lines. Walks and lines come in the
    /// program's order.
    fn warm_with_last_uses(
        &mut self,
        step: StepRefs,
        cursor: &mut Cursor,
        table: &mut PageTable,
        core: &mut OooCore,
        caches: &mut Caches,
    ) -> Result<(), StopReason> {
        let to_vpn = u32::from(self.base.0) - PAGE_SHIFT;
        let mut translations = Translations::default();
        let mut last_lines = step.last_lines_from(cursor);
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
            let lines = last_lines.partition_point(|&at| (at as usize) < until);
            for &at in &last_lines[..lines] {
                self.warm_lines_of(step.refs[at as usize], table, &mut translations, core, caches);
            }
            last_lines = &last_lines[lines..];
            cursor.next_ref = until;
            let Some(page_ref) = next else { break Ok(()) };
            let vpn = Vpn(page_ref.page() >> to_vpn);
            self.note_instruction(&step, page_ref.index());
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
    fn warm_lines_of(
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
