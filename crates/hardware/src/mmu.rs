//! The memory-management unit of one core: walks references until it needs the operating system.
//!
//! What a reference does, exactly (`oracle` restates it naively):
//! 1. The arrays of its kind are asked level by level. A hit in level 0 or 1 is a first-level hit; a later one costs
//!    that array's latency.
//! 2. A hit that forbids the reference is a protection fault; nothing is filled.
//! 3. Without a hit there is a walk, or a handler run. What it reads goes through walk caches and data caches. A missing
//!    or forbidding entry is a fault.
//! 4. A store through a clean entry stops with `FirstWrite` where the entry is watched; otherwise the dirty bit is set
//!    in the page table and the entry found is refreshed in place.
//! 5. The translation is filled into all levels before the one that held it (all, after a walk), and a walk's sets the
//!    accessed bit.
//!
//! A reference that crosses a page boundary does this for both pages, in order.

use crate::cache::{Access, Caches};
use crate::config::{self, Walker};
use crate::counters::Counters;
use crate::tlb::{CONTEXTS, Context, Tlbs};
use crate::walk::WalkCaches;
use reach_core::fold::{Entry, UNIT};
use reach_core::{
    Asid, Cause, Chunk, Fault, Hint, Kind, Label, Ledger, PageShift, PageTable, PhysAddr, Pte, Ref, Shootdown, Slot,
    VirtAddr, Vpn, Why,
};
use std::ops::Range;

#[cfg(feature = "testing")]
mod testing;

/// References of a chunk that are to run without an event between them, with and without runs folded.
#[derive(Clone, Copy, Debug)]
pub struct Segment<'a> {
    /// The references of the chunk up to the segment's end.
    refs: &'a [Ref],
    /// What folding kept of those in the segment.
    entries: &'a [Entry],
    /// Where the segment begins.
    start: usize,
}

impl<'a> Segment<'a> {
    /// The references of `chunk`, which has been folded, with these numbers.
    pub fn new(chunk: &'a Chunk, range: Range<usize>) -> Segment<'a> {
        debug_assert_eq!(chunk.folded, chunk.refs.len());
        let entry = |at: usize| chunk.entries.partition_point(|e| e.at() < at);
        let entries = &chunk.entries[entry(range.start)..entry(range.end)];
        Segment { refs: &chunk.refs[..range.end], entries, start: range.start }
    }

    /// All references of `chunk`, which has been folded.
    pub fn whole(chunk: &'a Chunk) -> Segment<'a> {
        Segment::new(chunk, 0..chunk.refs.len())
    }

    /// Where a run of it begins.
    pub fn begin(&self) -> Cursor {
        Cursor { raw: self.start, entry: 0 }
    }
}

/// Where in a segment a run stands; [`Segment::begin`] gives the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// The next reference.
    raw: usize,
    /// The first entry at or after it.
    entry: usize,
}

/// How many folded references the hot loop looks ahead.
const AHEAD: usize = 16;

/// The highest address: references have 48 bits for theirs.
const ADDRESSES: u64 = (1 << 48) - 1;

/// Kernel data that a software handler reads and writes for each process lies here, outside all frames.
const KERNEL_DATA: u64 = 1 << 45;

#[derive(Clone, Debug)]
enum Filler {
    Hardware { caches: WalkCaches, consult: u32 },
    Software { cycles: u32, loads: u32, stores: u32, caches: WalkCaches },
}

/// The memory-management unit of one core.
#[derive(Clone, Debug)]
pub struct Mmu {
    tlbs: Tlbs,
    filler: Filler,
    base: PageShift,
    walk_access: u32,
    foldable: bool,
    /// Never misses: translation is free, faults remain.
    perfect: bool,
    asid: Asid,
    context: Context,
    contexts: Vec<Option<Context>>,
    used_contexts: u64,
    /// Something was invalidated, or the address space has changed, since the last run.
    shot: bool,
    /// Since then, not both sides have left the pages they were on: runs may not be skipped.
    unfolded: bool,
    memo: Memo,
    /// What was counted so far.
    pub counters: Counters,
    /// Where this core's cycles went.
    pub ledger: Ledger,
}

/// The page each side is on, for references that need a physical address but no look-up.
#[derive(Clone, Copy, Debug)]
struct Memo {
    code: Vpn,
    code_pte: Pte,
    data: Vpn,
    data_pte: Pte,
    loaded: bool,
    stored: bool,
}

const NOWHERE: Memo =
    Memo { code: Vpn(!0), code_pte: Pte(0), data: Vpn(!0), data_pte: Pte(0), loaded: false, stored: false };

impl Mmu {
    /// An empty unit of `machine`, which has been checked. `perfect`: translation costs nothing and never misses.
    pub fn new(machine: &config::Machine, perfect: bool, seed: u64) -> Mmu {
        let mut tlbs = Tlbs::new(machine, seed);
        let filler = match &machine.walker {
            Walker::Hardware { consult, caches, .. } => {
                Filler::Hardware { caches: WalkCaches::new(machine, caches, &mut tlbs), consult: *consult }
            }
            Walker::Software { cycles, loads, stores, .. } => Filler::Software {
                cycles: *cycles,
                loads: *loads,
                stores: *stores,
                caches: WalkCaches::new(machine, &[], &mut tlbs),
            },
        };
        Mmu {
            foldable: tlbs.keep_what_was_just_used(),
            tlbs,
            filler,
            base: machine.sizes[0],
            walk_access: machine.core.walk_access,
            perfect,
            asid: Asid(0),
            context: Context::new(0),
            contexts: vec![Some(Context::new(0))],
            used_contexts: 1,
            shot: false,
            unfolded: false,
            memo: NOWHERE,
            counters: Counters::default(),
            ledger: Ledger::default(),
        }
    }

    /// Goes over to another address space. Contexts are given out once; when they are used up, everything is flushed.
    pub fn switch(&mut self, asid: Asid) {
        self.asid = asid;
        // What a side skipped was a page of the other address space.
        self.shot = true;
        let index = asid.0 as usize;
        if self.contexts.len() <= index {
            self.contexts.resize(index + 1, None);
        }
        if self.contexts[index].is_none() {
            if self.used_contexts == CONTEXTS {
                for n in 0..CONTEXTS {
                    self.forget(Context::new(n), Vpn(0), u64::MAX);
                }
                self.contexts.fill(None);
                self.used_contexts = 0;
            }
            self.contexts[index] = Some(Context::new(self.used_contexts));
            self.used_contexts += 1;
        }
        self.context = self.contexts[index].expect("given above");
    }

    /// Forgets what `shootdown` names.
    pub fn invalidate(&mut self, shootdown: &Shootdown) {
        self.counters.shootdowns += 1;
        self.shot = true;
        if let Some(&Some(context)) = self.contexts.get(shootdown.asid.0 as usize) {
            self.forget(context, shootdown.vpn, shootdown.pages);
        }
    }

    fn forget(&mut self, context: Context, vpn: Vpn, pages: u64) {
        if pages == 0 {
            return;
        }
        self.tlbs.invalidate(context, vpn, pages);
        match &mut self.filler {
            Filler::Hardware { caches, .. } | Filler::Software { caches, .. } => caches.invalidate(context),
        }
    }

    /// Runs `segment` from `cursor` until its end or until the operating system is needed. `table` is that of the
    /// current address space. With `caches` every reference is also sent through them.
    pub fn run(
        &mut self,
        segment: Segment,
        cursor: &mut Cursor,
        table: &mut PageTable,
        caches: Option<&mut Caches>,
    ) -> Why {
        // A perfect unit holds nothing: every look-up sees what the operating system has done since the last.
        let shot = std::mem::take(&mut self.shot) || self.perfect;
        if shot {
            self.memo = NOWHERE;
        }
        match caches {
            Some(caches) => self.run_cached(segment, cursor, table, caches),
            None if self.foldable => {
                self.unfolded |= shot;
                self.run_folded(segment, cursor, table)
            }
            None => self.run_raw(segment, cursor, table),
        }
    }

    /// The hot loop: folded references.
    fn run_folded(&mut self, segment: Segment, cursor: &mut Cursor, table: &mut PageTable) -> Why {
        if self.unfolded
            && let Some(why) = self.look_up_again(segment, cursor, table)
        {
            return why;
        }
        if self.perfect {
            return self.run_perfect(segment, cursor, table);
        }
        let to_vpn = u32::from(self.base.0) - UNIT;
        let mut hint = Hint::default();
        loop {
            cursor.entry += self.tlbs.leading_hits(self.context, &segment.entries[cursor.entry..]);
            let Some(entry) = segment.entries.get(cursor.entry) else { break };
            let walks = self.counters.walks_data;
            if let Err(why) = self.reference(entry.kind(), Vpn(entry.page() >> to_vpn), table, None) {
                cursor.raw = entry.at();
                return why;
            }
            cursor.entry += 1;
            // Where one reference walks, those that follow will too: ask this computer's memory for their entries.
            if self.counters.walks_data != walks
                && let Some(&ahead) = segment.entries.get(cursor.entry + AHEAD)
            {
                table.prefetch(Vpn(ahead.page() >> to_vpn), &mut hint);
            }
        }
        cursor.entry = segment.entries.len();
        cursor.raw = segment.refs.len();
        Why::End
    }

    /// Folded references of a unit that never misses. What has been translated since the operating system last acted
    /// is not looked up again: no second time would change anything.
    fn run_perfect(&mut self, segment: Segment, cursor: &mut Cursor, table: &mut PageTable) -> Why {
        let to_vpn = u32::from(self.base.0) - UNIT;
        let mut known = [u64::MAX; 512];
        for entry in &segment.entries[cursor.entry..] {
            let what = entry.what();
            // Kinds of one page stand apart.
            let known = &mut known[(what ^ what >> 28) as usize % 512];
            if *known != what {
                if let Err(why) = self.translate_free(entry.kind(), Vpn(entry.page() >> to_vpn), table) {
                    cursor.raw = entry.at();
                    return why;
                }
                *known = what;
            }
            cursor.entry += 1;
        }
        cursor.raw = segment.refs.len();
        Why::End
    }

    /// After an invalidation: runs references one by one until whatever each side might skip has been looked up since.
    /// Then runs may be skipped again.
    fn look_up_again(&mut self, segment: Segment, cursor: &mut Cursor, table: &mut PageTable) -> Option<Why> {
        // Fetches are on a page looked up since after any one of them. Data is when it has turned to another page, or
        // has been both loaded and stored where it is.
        let (mut code, mut data) = (false, false);
        let (mut page, mut kinds) = (None, 0);
        while cursor.raw < segment.refs.len() {
            while segment.entries.get(cursor.entry).is_some_and(|e| e.at() < cursor.raw) {
                cursor.entry += 1;
            }
            let at_entry = segment.entries.get(cursor.entry).is_none_or(|e| e.at() == cursor.raw);
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
                let last = Some(r.last().0 >> UNIT);
                kinds |= r.kind() as u64;
                data |= kinds == 3 || page.is_some_and(|page| Some(page) != last);
                page = last;
            }
            cursor.raw += 1;
        }
        while segment.entries.get(cursor.entry).is_some_and(|e| e.at() < cursor.raw) {
            cursor.entry += 1;
        }
        None
    }

    /// References one by one, without caches.
    fn run_raw(&mut self, segment: Segment, cursor: &mut Cursor, table: &mut PageTable) -> Why {
        while cursor.raw < segment.refs.len() {
            if let Err(why) = self.reference_pages(segment.refs[cursor.raw], table) {
                return why;
            }
            cursor.raw += 1;
        }
        Why::End
    }

    #[inline]
    fn reference_pages(&mut self, r: Ref, table: &mut PageTable) -> Result<(), Why> {
        let (first, last) = (r.addr().vpn(self.base), r.last().vpn(self.base));
        self.reference(r.kind(), first, table, None)?;
        if last != first {
            self.reference(r.kind(), last, table, None)?;
        }
        Ok(())
    }

    /// References one by one, each sent through the caches after its translation.
    fn run_cached(&mut self, segment: Segment, cursor: &mut Cursor, table: &mut PageTable, caches: &mut Caches) -> Why {
        let fetches = caches.models_fetches();
        let lines = [caches.line_shift(Access::Fetch), caches.line_shift(Access::Load)];
        let near = [caches.near_latency(Access::Fetch), caches.near_latency(Access::Load)];
        let mut stalls = 0;
        let mut why = Why::End;
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

    /// The translation of a page that this side is on already, by the argument of `fold`.
    #[inline(always)]
    fn known(&self, kind: Kind, vpn: Vpn) -> Option<Pte> {
        let memo = &self.memo;
        let known = match kind {
            Kind::Fetch => (memo.code == vpn, memo.code_pte),
            Kind::Load => (memo.data == vpn && memo.loaded, memo.data_pte),
            Kind::Store => (memo.data == vpn && memo.stored, memo.data_pte),
        };
        known.0.then_some(known.1)
    }

    #[inline(always)]
    fn remember(&mut self, kind: Kind, vpn: Vpn, pte: Pte) {
        if !self.foldable {
            return;
        }
        let memo = &mut self.memo;
        if kind == Kind::Fetch {
            (memo.code, memo.code_pte) = (vpn, pte);
            return;
        }
        if memo.data != vpn {
            (memo.data, memo.loaded, memo.stored) = (vpn, false, false);
        }
        memo.data_pte = pte;
        memo.loaded |= kind == Kind::Load;
        memo.stored |= kind == Kind::Store;
    }

    /// One reference to one page.
    #[inline]
    fn reference(
        &mut self,
        kind: Kind,
        vpn: Vpn,
        table: &mut PageTable,
        caches: Option<&mut Caches>,
    ) -> Result<Pte, Why> {
        if self.perfect {
            return self.translate_free(kind, vpn, table);
        }
        let mut latency = 0;
        let found = self.tlbs.lookup(kind, self.context, vpn, &mut latency);
        let Some(found) = found else {
            self.ledger.charge(Label::L2TlbHit, latency);
            return self.miss(kind, vpn, table, caches);
        };
        let array = &self.tlbs.arrays[found.array];
        let beyond_first = array.level >= 2;
        if found.depth > 0 {
            latency += u64::from(array.latency);
        }
        if latency > 0 {
            self.ledger.charge(Label::L2TlbHit, latency);
        }
        if beyond_first {
            let c = &mut self.counters;
            match kind {
                Kind::Fetch => {
                    (c.l1i_tlb_misses, c.l2_tlb_hits_fetch) = (c.l1i_tlb_misses + 1, c.l2_tlb_hits_fetch + 1)
                }
                _ => (c.l1d_tlb_misses, c.l2_tlb_hits_data) = (c.l1d_tlb_misses + 1, c.l2_tlb_hits_data + 1),
            }
        }
        let mut pte = found.pte;
        if !allows(pte, kind) {
            return Err(Why::Fault(Fault { vpn, kind, cause: Cause::Protection }));
        }
        if kind == Kind::Store && !pte.dirty() {
            if pte.watched() {
                return Err(Why::FirstWrite(vpn));
            }
            pte = pte.with_dirty(true);
            self.set_dirty(vpn, table, caches);
            self.tlbs.refresh(found.array, self.context, vpn, pte);
        }
        if found.depth > 0 {
            self.tlbs.fill(kind, self.context, vpn, pte, found.depth);
        }
        Ok(pte)
    }

    /// The processor writes the dirty bit: one page-table entry read and written.
    #[cold]
    fn set_dirty(&mut self, vpn: Vpn, table: &mut PageTable, caches: Option<&mut Caches>) {
        let (node, index) = table.find(vpn).expect("what a TLB holds, the page table holds");
        table.mark(node, index, Pte::ACCESSED | Pte::DIRTY);
        self.counters.dirty_updates += 1;
        if let Some(caches) = caches {
            caches.access(Access::Store, table.entry_at(node, index));
        }
    }

    /// No array knows the page.
    #[inline(never)]
    fn miss(&mut self, kind: Kind, vpn: Vpn, table: &mut PageTable, caches: Option<&mut Caches>) -> Result<Pte, Why> {
        let c = &mut self.counters;
        match kind {
            Kind::Fetch => (c.l1i_tlb_misses, c.walks_fetch) = (c.l1i_tlb_misses + 1, c.walks_fetch + 1),
            _ => (c.l1d_tlb_misses, c.walks_data) = (c.l1d_tlb_misses + 1, c.walks_data + 1),
        }
        let (node, index, slot) = self.fetch_entry(vpn, table, caches);
        let forbidden = |cause| Err(Why::Fault(Fault { vpn, kind, cause }));
        let Slot::Leaf(pte) = slot else {
            self.counters.walks_faulting += 1;
            return forbidden(Cause::Missing);
        };
        if !allows(pte, kind) {
            self.counters.walks_faulting += 1;
            return forbidden(Cause::Protection);
        }
        let store = kind == Kind::Store;
        if store && !pte.dirty() && pte.watched() {
            self.counters.walks_faulting += 1;
            return Err(Why::FirstWrite(vpn));
        }
        let bits = Pte::ACCESSED | if store { Pte::DIRTY } else { 0 };
        table.mark(node, index, bits);
        let pte = Pte(pte.0 | bits);
        let depth = self.tlbs.depth(kind);
        self.tlbs.fill(kind, self.context, vpn, pte, depth);
        Ok(pte)
    }

    /// A walk or a handler run, with its cost.
    fn fetch_entry(
        &mut self,
        vpn: Vpn,
        table: &PageTable,
        mut caches: Option<&mut Caches>,
    ) -> (reach_core::NodeId, usize, Slot) {
        let Mmu { tlbs, filler, context, counters, ledger, walk_access, asid, .. } = self;
        match filler {
            Filler::Hardware { caches: walk_caches, consult } => {
                let mut cycles = u64::from(*consult);
                let walked = walk_caches.walk(tlbs, table, *context, vpn, |at| {
                    cycles += match caches.as_deref_mut() {
                        Some(caches) => u64::from(caches.access(Access::Load, at).0),
                        None => u64::from(*walk_access),
                    };
                });
                counters.walk_accesses += u64::from(walked.accesses);
                counters.walk_cycles += cycles;
                ledger.charge(Label::Walk, cycles);
                (walked.node, walked.index, walked.slot)
            }
            Filler::Software { cycles, loads, stores, caches: walk_caches } => {
                let mut path = [PhysAddr(0); 8];
                let mut depth = 0;
                let walked = walk_caches.walk(tlbs, table, *context, vpn, |at| {
                    path[depth % 8] = at;
                    depth += 1;
                });
                // A handler with fewer loads than levels finds the lower ones through its linear table.
                let own = depth.min(*loads as usize);
                let mut cycles = u64::from(*cycles);
                if let Some(caches) = caches {
                    let near = caches.near_latency(Access::Load);
                    let kernel = |n: usize| PhysAddr(KERNEL_DATA + u64::from(asid.0) * 128 + n as u64 * 8);
                    let entries = path[depth - own..depth].iter().copied();
                    for at in entries.chain((own..*loads as usize).map(kernel)) {
                        cycles += u64::from(caches.access(Access::Load, at).0.saturating_sub(near));
                    }
                    for n in 0..*stores as usize {
                        caches.access(Access::Store, kernel(8 + n));
                    }
                }
                counters.walk_accesses += own as u64;
                counters.walk_cycles += cycles;
                ledger.charge(Label::Handler, cycles);
                (walked.node, walked.index, walked.slot)
            }
        }
    }

    /// Translation without cost. Faults and first writes remain: the same work is left for the operating system.
    #[inline(never)]
    fn translate_free(&mut self, kind: Kind, vpn: Vpn, table: &mut PageTable) -> Result<Pte, Why> {
        let fault = |cause| Err(Why::Fault(Fault { vpn, kind, cause }));
        let Some((node, index)) = table.find(vpn) else { return fault(Cause::Missing) };
        let Slot::Leaf(pte) = table.slot(node, index) else { return fault(Cause::Missing) };
        if !allows(pte, kind) {
            return fault(Cause::Protection);
        }
        let store = kind == Kind::Store;
        if store && !pte.dirty() && pte.watched() {
            return Err(Why::FirstWrite(vpn));
        }
        let bits = Pte::ACCESSED | if store { Pte::DIRTY } else { 0 };
        table.mark(node, index, bits);
        Ok(Pte(pte.0 | bits))
    }

    /// Checks that every translation held for the current address space is the page table's (law 4 of the tests).
    pub fn check(&self, table: &PageTable) {
        for (array, vpn, held) in self.tlbs.translations(self.context) {
            let real = table.lookup(vpn).unwrap_or_else(|| panic!("array {array} holds {vpn:?} {held:?}, unmapped"));
            let offset = vpn.0 & (real.shift().base_pages(self.base) - 1);
            assert_eq!(held.pfn(), real.pfn() + offset, "array {array} holds {vpn:?} {held:?} for {real:?}");
            assert!(held.shift() <= real.shift(), "array {array}: {vpn:?} {held:?} for {real:?}");
            assert_eq!(held.writable(), real.writable(), "array {array}: {vpn:?} {held:?} for {real:?}");
            assert!(!held.dirty() || table.page(vpn).is_some_and(|p| p.pte.dirty()), "array {array}: {vpn:?} dirty");
        }
    }
}

/// Whether a page may be used so.
#[inline(always)]
fn allows(pte: Pte, kind: Kind) -> bool {
    match kind {
        Kind::Fetch => pte.executable(),
        Kind::Load => true,
        Kind::Store => pte.writable(),
    }
}

#[inline(always)]
fn physical(pte: Pte, addr: u64, base: PageShift) -> PhysAddr {
    PhysAddr(pte.pfn().addr(base).0 | addr & (pte.shift().bytes() - 1))
}
