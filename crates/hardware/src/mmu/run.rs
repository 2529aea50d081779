//! Runs references: folded, one by one, or through the caches.

use super::physical::physical;
use super::{Confirmation, Cursor, Mmu, StepRefs, WalkReads};
use crate::cache::{Access, Caches};
use reach_core::fold::{PAGE_SHIFT, PageRef};
use reach_core::{Kind, Label, PageTable, Ref, StopReason, VirtAddr, Vpn};

/// The highest address: references have 48-bit addresses.
const ADDRESSES: u64 = (1 << 48) - 1;

impl Mmu {
    /// Runs `step` from `cursor` until its end or until the operating system is needed. `table` is the page table of the
    /// current address space. With `caches`, every reference also accesses them, and loads and fetches charge stalls.
    ///
    /// # Panics
    /// If `step` is an outline and [`Mmu::takes_outlines`] is false, or there are caches.
    pub fn run(
        &mut self,
        step: StepRefs,
        cursor: &mut Cursor,
        table: &mut PageTable,
        caches: Option<&mut Caches>,
    ) -> StopReason {
        assert!(
            !step.outlined || self.same_page.enabled && caches.is_none(),
            "an outline for a machine that needs every reference"
        );
        let stale = self.begin_run();
        match caches {
            Some(caches) => self.run_cached(step, cursor, table, caches),
            None if step.outlined => {
                if stale && !self.outline_is_exact(step, cursor, table) {
                    return StopReason::NeedsReferences;
                }
                match self.repeat_first_page(step, cursor, table) {
                    Ok(()) => self.run_folded(step, cursor, table),
                    Err(reason) => reason,
                }
            }
            None if self.same_page.enabled => {
                self.same_page.unconfirmed |= stale;
                if self.same_page.unconfirmed
                    && let Some(reason) = self.run_until_confirmed(step, cursor, table)
                {
                    return reason;
                }
                self.run_folded(step, cursor, table)
            }
            None => self.run_unfolded(step, cursor, table),
        }
    }

    /// Functional warming: runs like [`Mmu::run`], but charges no cache stalls. The contents of `caches` follow from the
    /// references alone, whereas the stalls depend on what a core hides.
    pub fn run_warming(
        &mut self,
        step: StepRefs,
        cursor: &mut Cursor,
        table: &mut PageTable,
        caches: Option<&mut Caches>,
    ) -> StopReason {
        let stalls = self.ledger.charged(Label::Cache);
        let reason = self.run(step, cursor, table, caches);
        self.ledger.restore(Label::Cache, stalls);
        // No core waits for them.
        self.walk_reads = WalkReads::default();
        reason
    }

    /// Runs the references at the head of `page_refs` that a first-level TLB answers. Returns how many there are.
    pub(crate) fn leading_hits(&mut self, page_refs: &[PageRef]) -> usize {
        self.tlbs.leading_hits(self.spaces.context, page_refs)
    }

    /// Begins a run. Returns whether the operating system has changed translations or the address space since the last run.
    pub(crate) fn begin_run(&mut self) -> bool {
        self.same_page.begin_run(self.perfect)
    }

    /// Runs folded references. This is the hot loop.
    fn run_folded(&mut self, step: StepRefs, cursor: &mut Cursor, table: &mut PageTable) -> StopReason {
        if self.perfect {
            return self.run_perfect(step, cursor, table);
        }
        let to_vpn = u32::from(self.base.0) - PAGE_SHIFT;
        let observes_hits = self.observer.as_ref().is_some_and(|observer| observer.observes_front_hits());
        loop {
            let hits = self.tlbs.leading_hits(self.spaces.context, &step.page_refs[cursor.next_page_ref..]);
            if observes_hits {
                self.observe_front_hits(&step.page_refs[cursor.next_page_ref..][..hits]);
            }
            cursor.next_page_ref += hits;
            let Some(page_ref) = step.page_refs.get(cursor.next_page_ref) else { break };
            let walks = self.counters.walks_data;
            self.note_instruction(&step, page_ref.index());
            let outcome = self.reference(page_ref.kind(), Vpn(page_ref.page() >> to_vpn), table, None);
            self.log_costs(page_ref.index(), page_ref.kind() == Kind::Fetch);
            if let Err(reason) = outcome {
                cursor.next_ref = page_ref.index();
                return reason;
            }
            cursor.next_page_ref += 1;
            if self.counters.walks_data != walks {
                cursor.prefetcher.walked(step.page_refs, cursor.next_page_ref, table, to_vpn);
            }
        }
        cursor.next_page_ref = step.page_refs.len();
        cursor.next_ref = step.refs.len();
        StopReason::End
    }

    /// Runs folded references of a perfect unit. A page that has been translated since the operating system last acted is not
    /// translated again, which would change nothing.
    fn run_perfect(&mut self, step: StepRefs, cursor: &mut Cursor, table: &mut PageTable) -> StopReason {
        let to_vpn = u32::from(self.base.0) - PAGE_SHIFT;
        let mut translated = [u64::MAX; 512];
        for page_ref in &step.page_refs[cursor.next_page_ref..] {
            let page = page_ref.page_and_kind();
            // The kinds of reference to one page have different slots.
            let translated = &mut translated[(page ^ page >> 28) as usize % 512];
            if *translated != page {
                if let Err(reason) = self.translate_free(page_ref.kind(), Vpn(page_ref.page() >> to_vpn), table) {
                    cursor.next_ref = page_ref.index();
                    return reason;
                }
                *translated = page;
            }
            cursor.next_page_ref += 1;
        }
        cursor.next_ref = step.refs.len();
        StopReason::End
    }

    /// After an invalidation: runs references one by one until each side has looked up again all that folding might skip.
    /// Returns why it stopped before; `None` if folding is exact again.
    fn run_until_confirmed(
        &mut self,
        step: StepRefs,
        cursor: &mut Cursor,
        table: &mut PageTable,
    ) -> Option<StopReason> {
        let mut confirmation = Confirmation::default();
        while cursor.next_ref < step.refs.len() {
            if step.looks_up(cursor) && confirmation.is_complete() {
                self.same_page.unconfirmed = false;
                break;
            }
            let r = step.refs[cursor.next_ref];
            self.note_instruction(&step, cursor.next_ref);
            let outcome = self.reference_pages(r, table);
            self.log_costs(cursor.next_ref, r.kind() == Kind::Fetch);
            if let Err(reason) = outcome {
                return Some(reason);
            }
            confirmation.add(r);
            cursor.next_ref += 1;
        }
        step.skip_page_refs(cursor);
        None
    }

    /// After an invalidation within an outline: returns whether the references that folding omitted would still change
    /// nothing. Each step is folded by itself, so that nothing is omitted at its start.
    fn outline_is_exact(&self, step: StepRefs, cursor: &mut Cursor, table: &PageTable) -> bool {
        let Some(next) = step.page_refs.get(cursor.next_page_ref) else { return true };
        cursor.repeat_first_page = next.is_second_page();
        let to_vpn = u32::from(self.base.0) - PAGE_SHIFT;
        let fetches = |page_ref: &PageRef| page_ref.kind() == Kind::Fetch;
        let before = &step.page_refs[..cursor.next_page_ref];
        // The look-ups of a side on its present page, latest first.
        let side = |fetch: bool| {
            let mut of_side = before.iter().rev().filter(move |page_ref| fetches(page_ref) == fetch).peekable();
            let page = of_side.peek().map(|page_ref| page_ref.page());
            of_side.take_while(move |page_ref| Some(page_ref.page()) == page)
        };
        let holds = |page_ref: &PageRef| {
            let (kind, vpn) = (page_ref.kind(), Vpn(page_ref.page() >> to_vpn));
            match self.perfect {
                true => self.is_translated(kind, vpn, table),
                false => self.tlbs.still_holds(kind, self.spaces.context, vpn),
            }
        };
        // If the side of the next reference turns to another page, it needs nothing of its old one. If it stays, a store has
        // the effect of a load too, where both probe the same arrays.
        let implied = next.kind() == Kind::Store && (self.perfect || self.tlbs.are_data_alike());
        side(!fetches(next)).all(holds)
            && side(fetches(next)).all(|page_ref| implied || page_ref.page() != next.page() || holds(page_ref))
    }

    /// Looks up the first page of a reference that crosses into another page and is retried as a whole.
    fn repeat_first_page(
        &mut self,
        step: StepRefs,
        cursor: &mut Cursor,
        table: &mut PageTable,
    ) -> Result<(), StopReason> {
        if !cursor.repeat_first_page {
            return Ok(());
        }
        let page_ref = step.page_refs[cursor.next_page_ref];
        let first = VirtAddr(page_ref.previous_page() << PAGE_SHIFT).vpn(self.base);
        self.reference(page_ref.kind(), first, table, None)?;
        cursor.repeat_first_page = false;
        Ok(())
    }

    /// Runs references one by one, without caches.
    fn run_unfolded(&mut self, step: StepRefs, cursor: &mut Cursor, table: &mut PageTable) -> StopReason {
        while cursor.next_ref < step.refs.len() {
            let r = step.refs[cursor.next_ref];
            self.note_instruction(&step, cursor.next_ref);
            let outcome = self.reference_pages(r, table);
            self.log_costs(cursor.next_ref, r.kind() == Kind::Fetch);
            if let Err(reason) = outcome {
                return reason;
            }
            cursor.next_ref += 1;
        }
        StopReason::End
    }

    /// Looks up the first page of `r`, and the last one if `r` crosses into it.
    #[inline]
    fn reference_pages(&mut self, r: Ref, table: &mut PageTable) -> Result<(), StopReason> {
        let (first, last) = (r.addr().vpn(self.base), r.last().vpn(self.base));
        self.reference(r.kind(), first, table, None)?;
        if last != first {
            self.reference(r.kind(), last, table, None)?;
        }
        Ok(())
    }

    /// Runs references one by one; each accesses the caches after its translation.
    fn run_cached(
        &mut self,
        step: StepRefs,
        cursor: &mut Cursor,
        table: &mut PageTable,
        caches: &mut Caches,
    ) -> StopReason {
        let fetches = caches.models_fetches();
        let lines = [caches.line_shift(Access::Fetch), caches.line_shift(Access::Load)];
        let near = [caches.near_latency(Access::Fetch), caches.near_latency(Access::Load)];
        let mut stalls = 0;
        let mut reason = StopReason::End;
        'refs: for &r in &step.refs[cursor.next_ref..] {
            let kind = r.kind();
            let fetch = kind == Kind::Fetch;
            let bytes = if fetch { r.len().max(1) } else { r.size() };
            let (mut at, end) = (r.addr().0, r.addr().0 + bytes);
            loop {
                let vpn = VirtAddr(at & ADDRESSES).vpn(self.base);
                // Cycles in which the first line was read during the walk.
                let mut ahead = 0;
                let pte = match self.same_page.get(kind, vpn) {
                    Some(pte) => pte,
                    None => {
                        self.note_instruction(&step, cursor.next_ref);
                        let outcome = self.reference(kind, vpn, table, Some(caches));
                        ahead = std::mem::take(&mut self.walk_reads.ahead);
                        self.log_costs(cursor.next_ref, fetch);
                        match outcome {
                            Ok(pte) => {
                                self.same_page.set(kind, vpn, pte);
                                pte
                            }
                            Err(stop) => {
                                reason = stop;
                                break 'refs;
                            }
                        }
                    }
                };
                let stop = end.min((vpn + 1).addr(self.base).0);
                if !fetch || fetches {
                    let shift = lines[usize::from(!fetch)];
                    let near = near[usize::from(!fetch)];
                    let access = match kind {
                        Kind::Fetch => Access::Fetch,
                        Kind::Load => Access::Load,
                        Kind::Store => Access::Store,
                    };
                    for line in at >> shift..=(stop - 1) >> shift {
                        let byte = at.max(line << shift);
                        let (latency, _) = caches.access(access, physical(pte, byte, self.base));
                        // Stores retire into a buffer; only loads and fetches stall the core.
                        if kind != Kind::Store {
                            stalls += u64::from(latency.saturating_sub(near).saturating_sub(ahead));
                            ahead = 0;
                        }
                    }
                }
                at = stop;
                if at == end {
                    break;
                }
            }
            cursor.next_ref += 1;
        }
        self.ledger.charge(Label::Cache, stalls);
        reason
    }
}
