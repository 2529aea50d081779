//! Where what will not retire meets translation and caches.

use super::super::{Code, OooCore, Wrong};
use super::{Found, Memory, Walk};
use crate::cache::{Access, Caches};
use crate::mmu::{EarlyLookup, Mmu, physical};
use reach_core::{Kind, PageTable, Pte, VirtAddr, Vpn};

/// The highest address: references have 48 bits for theirs.
const ADDRESSES: u64 = (1 << 48) - 1;

/// A unit, what it translates by, and what it found last.
struct Speculation<'a> {
    mmu: &'a mut Mmu,
    table: &'a mut PageTable,
    caches: &'a mut Caches,
    pte: Option<Pte>,
}

impl Speculation<'_> {
    fn vpn(&self, at: u64) -> Vpn {
        VirtAddr(at & ADDRESSES).vpn(self.mmu.base)
    }
}

impl Memory for Speculation<'_> {
    fn page(&self, at: u64) -> u64 {
        self.vpn(at).0
    }

    fn page_end(&self, at: u64) -> u64 {
        (self.vpn(at) + 1).addr(self.mmu.base).0.max(at + 1)
    }

    fn maps(&self, at: u64) -> bool {
        self.table.lookup(self.vpn(at)).is_some()
    }

    fn look_up(&mut self, kind: Kind, at: u64, within: u64) -> Found {
        let vpn = self.vpn(at);
        self.mmu.counters.squashed_fetches += u64::from(kind == Kind::Fetch);
        let (found, pte) = match self.mmu.look_up_early(kind, vpn, self.table, self.caches, within) {
            EarlyLookup::Hit(latency, pte) => (Found::Known(latency), Some(pte)),
            EarlyLookup::Unusable => (Found::Nothing, None),
            EarlyLookup::Miss(latency) => (Found::Missed(latency), None),
        };
        self.pte = pte;
        found
    }

    fn walk(&mut self, kind: Kind, at: u64, within: u64) -> Walk {
        let vpn = self.vpn(at);
        let (cycles, pte) = self.mmu.walk_early(kind, vpn, self.table, self.caches, within);
        self.pte = pte;
        Walk { cycles, found: pte.is_some() }
    }

    fn is_near(&self, at: u64) -> bool {
        self.pte.is_none_or(|pte| self.caches.is_near(physical(pte, at, self.mmu.base)))
    }

    fn load(&mut self, ooo: &mut OooCore, at: u64, from: u64) -> (u64, u32, u32) {
        let near = self.caches.near_latency(Access::Load);
        let Some(pte) = self.pte else { return (0, near, near) };
        let at_memory = physical(pte, at, self.mmu.base);
        let (latency, depth) = self.caches.access(Access::Load, at_memory);
        if depth > 0 && ooo.looks_ahead() {
            let place = (self.vpn(at), at_memory);
            self.mmu.look_ahead(place, from, depth > 1, self.table, (ooo, self.caches));
        }
        (at_memory.0 >> self.caches.line_shift(Access::Load), near, latency)
    }

    fn fetch(&mut self, from: u64, to: u64) -> u64 {
        let (Some(pte), true) = (self.pte, self.caches.models_fetches()) else { return 0 };
        let (shift, near) = (self.caches.line_shift(Access::Fetch), self.caches.near_latency(Access::Fetch));
        let lines = from >> shift..=(to - 1) >> shift;
        let slowest = lines.map(|line| {
            let at = physical(pte, from.max(line << shift), self.mmu.base);
            self.caches.access(Access::Fetch, at).0.saturating_sub(near)
        });
        u64::from(slowest.max().unwrap_or(0))
    }
}

impl Mmu {
    /// The core is on the wrong path of a branch.
    pub(in crate::ooo) fn run_wrong_path(
        &mut self,
        wrong: &Wrong,
        code: &Code,
        table: &mut PageTable,
        (ooo, caches): (&mut OooCore, &mut Caches),
    ) {
        if self.speculates() {
            ooo.run_wrong_path(code, wrong, &mut Speculation { mmu: self, table, caches, pte: None });
            self.come_back();
        }
    }

    /// A load has gone ahead of a store that it depends on, and the core goes on behind it until that is known.
    pub(in crate::ooo) fn go_on_in_vain(
        &mut self,
        again: u64,
        code: &Code,
        table: &mut PageTable,
        (ooo, caches): (&mut OooCore, &mut Caches),
    ) {
        if self.speculates() {
            ooo.go_on_in_vain(code, again, &mut Speculation { mmu: self, table, caches, pte: None });
            self.come_back();
        }
    }

    /// The pages that either side was on may have had to go.
    fn come_back(&mut self) {
        self.same_page.clear();
        // What was in use by instructions in flight is not asked: fetching did not wait.
        self.take_itlb_victim();
    }
}
