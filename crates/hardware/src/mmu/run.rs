//! Running references: folded, one by one, or through the caches.

use super::pte_prefetch::Ahead;
use super::{Mmu, NOWHERE};
use crate::cache::{Access, Caches};
use reach_core::fold::{PAGE_SHIFT, PageRef};
use reach_core::{
    BlockId, Chunk, Kind, Label, PageShift, PageTable, PhysAddr, Pte, Ref, Step, StopReason, VirtAddr, Vpn,
};

/// References of a chunk that are to run without an event between them, with and without runs folded.
#[derive(Clone, Copy, Debug)]
pub struct Segment<'a> {
    /// The references of the chunk up to the segment's end.
    pub(crate) refs: &'a [Ref],
    /// The blocks that its fetches fetch, from the segment's first on.
    pub(crate) fetched: &'a [BlockId],
    /// What folding kept of those in the segment.
    entries: &'a [PageRef],
    /// Where the segment begins.
    start: usize,
    /// There are no references, only entries.
    outlined: bool,
}

impl<'a> Segment<'a> {
    /// The references of a step of `chunk`, which has been folded or is an outline.
    pub fn new(chunk: &'a Chunk, step: &Step) -> Segment<'a> {
        debug_assert_eq!(chunk.folded, chunk.refs.len());
        let (refs, entries) = (&chunk.refs[..step.refs.end], &chunk.page_refs[step.page_refs.clone()]);
        // Chunks made of references alone have no blocks.
        let fetched = chunk.fetched.get(step.fetched.clone()).unwrap_or_default();
        Segment { refs, fetched, entries, start: step.refs.start, outlined: chunk.is_outline() }
    }

    /// All references of `chunk`, which has been folded.
    pub fn whole(chunk: &'a Chunk) -> Segment<'a> {
        debug_assert_eq!(chunk.folded, chunk.refs.len());
        Segment { refs: &chunk.refs, fetched: &chunk.fetched, entries: &chunk.page_refs, start: 0, outlined: false }
    }

    /// Where a run of it begins.
    pub fn begin(&self) -> Cursor {
        Cursor { raw: self.start, fetched: 0, entry: 0, whole: false, ahead: Ahead::default() }
    }
}

/// Where in a segment a run stands; [`Segment::begin`] gives the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// The next reference.
    pub(crate) raw: usize,
    /// The next fetch's block, of those of the segment; kept by runs that need blocks.
    pub(crate) fetched: usize,
    /// The first entry at or after it.
    entry: usize,
    /// In an outline: the next entry is the second page of a reference, and the first is to be looked up again too.
    whole: bool,
    /// What it has asked this computer's memory for.
    ahead: Ahead,
}

/// The highest address: references have 48 bits for theirs.
const ADDRESSES: u64 = (1 << 48) - 1;

impl Mmu {
    /// Runs `segment` from `cursor` until its end or until the operating system is needed. `table` is that of the
    /// current address space. With `caches` every reference is also sent through them.
    pub fn run(
        &mut self,
        segment: Segment,
        cursor: &mut Cursor,
        table: &mut PageTable,
        caches: Option<&mut Caches>,
    ) -> StopReason {
        assert!(
            !segment.outlined || self.foldable && caches.is_none(),
            "an outline for a machine that needs references"
        );
        let shot = self.begin_run();
        match caches {
            Some(caches) => self.run_cached(segment, cursor, table, caches),
            None if segment.outlined => {
                if shot && !self.outline_holds(segment, cursor, table) {
                    return StopReason::NeedsReferences;
                }
                match self.look_up_first_page(segment, cursor, table) {
                    Ok(()) => self.run_folded(segment, cursor, table),
                    Err(why) => why,
                }
            }
            None if self.foldable => {
                self.unfolded |= shot;
                if self.unfolded
                    && let Some(why) = self.look_up_again(segment, cursor, table)
                {
                    return why;
                }
                self.run_folded(segment, cursor, table)
            }
            None => self.run_raw(segment, cursor, table),
        }
    }

    /// The same as in no time, but for translation: what `caches` hold follows from the references alone, and which waits for
    /// them a core would have hidden does not.
    pub fn follow(
        &mut self,
        segment: Segment,
        cursor: &mut Cursor,
        table: &mut PageTable,
        caches: Option<&mut Caches>,
    ) -> StopReason {
        let waited = self.ledger.charged(Label::Cache);
        let why = self.run(segment, cursor, table, caches);
        self.ledger.restore(Label::Cache, waited);
        why
    }

    /// Returns whether the operating system has done something since the last run that must be seen now.
    pub(crate) fn begin_run(&mut self) -> bool {
        // A perfect unit holds nothing: every look-up sees what the operating system has done since the last.
        let shot = std::mem::take(&mut self.shot) || self.perfect;
        if shot {
            self.memo = NOWHERE;
        }
        shot
    }

    /// The hot loop: folded references.
    fn run_folded(&mut self, segment: Segment, cursor: &mut Cursor, table: &mut PageTable) -> StopReason {
        if self.perfect {
            return self.run_perfect(segment, cursor, table);
        }
        let to_vpn = u32::from(self.base.0) - PAGE_SHIFT;
        let observes_all = self.observes_all();
        loop {
            let hits = self.tlbs.leading_hits(self.context, &segment.entries[cursor.entry..]);
            if observes_all {
                self.observe_hits(&segment.entries[cursor.entry..][..hits]);
            }
            cursor.entry += hits;
            let Some(entry) = segment.entries.get(cursor.entry) else { break };
            let walks = self.counters.walks_data;
            if let Err(why) = self.reference(entry.kind(), Vpn(entry.page() >> to_vpn), table, None) {
                cursor.raw = entry.index();
                return why;
            }
            cursor.entry += 1;
            if self.counters.walks_data != walks {
                cursor.ahead.walked(segment.entries, cursor.entry, table, to_vpn);
            }
        }
        cursor.entry = segment.entries.len();
        cursor.raw = segment.refs.len();
        StopReason::End
    }

    /// Folded references of a unit that never misses. What has been translated since the operating system last acted
    /// is not looked up again: no second time would change anything.
    fn run_perfect(&mut self, segment: Segment, cursor: &mut Cursor, table: &mut PageTable) -> StopReason {
        let to_vpn = u32::from(self.base.0) - PAGE_SHIFT;
        let mut known = [u64::MAX; 512];
        for entry in &segment.entries[cursor.entry..] {
            let what = entry.page_and_kind();
            // Kinds of one page stand apart.
            let known = &mut known[(what ^ what >> 28) as usize % 512];
            if *known != what {
                if let Err(why) = self.translate_free(entry.kind(), Vpn(entry.page() >> to_vpn), table) {
                    cursor.raw = entry.index();
                    return why;
                }
                *known = what;
            }
            cursor.entry += 1;
        }
        cursor.raw = segment.refs.len();
        StopReason::End
    }

    /// After an invalidation: runs references one by one until whatever each side might skip has been looked up since.
    /// Then runs may be skipped again.
    fn look_up_again(&mut self, segment: Segment, cursor: &mut Cursor, table: &mut PageTable) -> Option<StopReason> {
        // Fetches are on a page looked up since after any one of them. Data is when it has turned to another page, or
        // has been both loaded and stored where it is.
        let (mut code, mut data) = (false, false);
        let (mut page, mut kinds) = (None, 0);
        while cursor.raw < segment.refs.len() {
            while segment.entries.get(cursor.entry).is_some_and(|e| e.index() < cursor.raw) {
                cursor.entry += 1;
            }
            let at_entry = segment.entries.get(cursor.entry).is_none_or(|e| e.index() == cursor.raw);
            if code && data && at_entry {
                self.unfolded = false;
                break;
            }
            let r = segment.refs[cursor.raw];
            if let Err(why) = self.reference_pages(r, table) {
                return Some(why);
            }
            if r.kind() == Kind::Fetch {
                code = true;
            } else {
                let last = Some(r.last().0 >> PAGE_SHIFT);
                kinds |= r.kind() as u64;
                data |= kinds == 3 || page.is_some_and(|page| Some(page) != last);
                page = last;
            }
            cursor.raw += 1;
        }
        while segment.entries.get(cursor.entry).is_some_and(|e| e.index() < cursor.raw) {
            cursor.entry += 1;
        }
        None
    }

    /// After an invalidation within an outline: whether everything that was left out because its page had been looked
    /// up would still change nothing. A step is folded by itself, so at its start nothing has been.
    fn outline_holds(&self, segment: Segment, cursor: &mut Cursor, table: &PageTable) -> bool {
        let Some(next) = segment.entries.get(cursor.entry) else { return true };
        cursor.whole = next.is_second_page();
        let to_vpn = u32::from(self.base.0) - PAGE_SHIFT;
        let fetches = |entry: &PageRef| entry.kind() == Kind::Fetch;
        let before = &segment.entries[..cursor.entry];
        // What a side has looked up on the page that it is on.
        let side = |fetch: bool| {
            let mut entries = before.iter().rev().filter(move |entry| fetches(entry) == fetch).peekable();
            let page = entries.peek().map(|entry| entry.page());
            entries.take_while(move |entry| Some(entry.page()) == page)
        };
        let holds = |entry: &PageRef| {
            let (kind, vpn) = (entry.kind(), Vpn(entry.page() >> to_vpn));
            if self.perfect { self.is_free(kind, vpn, table) } else { self.tlbs.keeps(kind, self.context, vpn) }
        };
        // The side that is next may turn, and then needs nothing of where it was; if not, a store does a load's work
        // where both ask the same arrays.
        let implied = next.kind() == Kind::Store && (self.perfect || self.tlbs.are_data_alike());
        side(!fetches(next)).all(holds)
            && side(fetches(next)).all(|entry| implied || entry.page() != next.page() || holds(entry))
    }

    /// A reference that crosses into another page is done again as a whole.
    fn look_up_first_page(
        &mut self,
        segment: Segment,
        cursor: &mut Cursor,
        table: &mut PageTable,
    ) -> Result<(), StopReason> {
        if !cursor.whole {
            return Ok(());
        }
        let entry = segment.entries[cursor.entry];
        let first = VirtAddr(entry.previous_page() << PAGE_SHIFT).vpn(self.base);
        self.reference(entry.kind(), first, table, None)?;
        cursor.whole = false;
        Ok(())
    }

    /// References one by one, without caches.
    fn run_raw(&mut self, segment: Segment, cursor: &mut Cursor, table: &mut PageTable) -> StopReason {
        while cursor.raw < segment.refs.len() {
            if let Err(why) = self.reference_pages(segment.refs[cursor.raw], table) {
                return why;
            }
            cursor.raw += 1;
        }
        StopReason::End
    }

    #[inline]
    fn reference_pages(&mut self, r: Ref, table: &mut PageTable) -> Result<(), StopReason> {
        let (first, last) = (r.addr().vpn(self.base), r.last().vpn(self.base));
        self.reference(r.kind(), first, table, None)?;
        if last != first {
            self.reference(r.kind(), last, table, None)?;
        }
        Ok(())
    }

    /// References one by one, each sent through the caches after its translation.
    fn run_cached(
        &mut self,
        segment: Segment,
        cursor: &mut Cursor,
        table: &mut PageTable,
        caches: &mut Caches,
    ) -> StopReason {
        let fetches = caches.models_fetches();
        let lines = [caches.line_shift(Access::Fetch), caches.line_shift(Access::Load)];
        let near = [caches.near_latency(Access::Fetch), caches.near_latency(Access::Load)];
        let mut stalls = 0;
        let mut why = StopReason::End;
        'refs: for &r in &segment.refs[cursor.raw..] {
            let kind = r.kind();
            let fetch = kind == Kind::Fetch;
            let bytes = if fetch { r.len().max(1) } else { r.size() };
            let (mut at, end) = (r.addr().0, r.addr().0 + bytes);
            loop {
                let vpn = VirtAddr(at & ADDRESSES).vpn(self.base);
                let pte = match self.known(kind, vpn) {
                    Some(pte) => pte,
                    None => match self.reference(kind, vpn, table, Some(caches)) {
                        Ok(pte) => {
                            self.remember(kind, vpn, pte);
                            pte
                        }
                        Err(stop) => {
                            why = stop;
                            break 'refs;
                        }
                    },
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
                        // Stores retire into a buffer; only loads and fetches keep the core waiting.
                        if kind != Kind::Store {
                            stalls += u64::from(latency.saturating_sub(near));
                        }
                    }
                }
                at = stop;
                if at == end {
                    break;
                }
            }
            cursor.raw += 1;
        }
        self.ledger.charge(Label::Cache, stalls);
        why
    }
}

/// The physical address of `addr`, which the page `pte` translates.
#[inline(always)]
pub(crate) fn physical(pte: Pte, addr: u64, base: PageShift) -> PhysAddr {
    PhysAddr(pte.pfn().addr(base).0 | addr & (pte.shift().bytes() - 1))
}
