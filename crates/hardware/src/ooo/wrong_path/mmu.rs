//! References on the wrong path, through the MMU and the caches.

use super::{WrongPathLoad, WrongPathLookup, WrongPathMemory, WrongPathWalk};
use crate::cache::{Access, Caches};
use crate::mmu::{EarlyLookup, Mmu, physical};
use crate::ooo::code::Code;
use crate::ooo::front_end::Misprediction;
use crate::ooo::prefetch::L1Miss;
use crate::ooo::reference::{ADDRESS_MASK, ByteRange};
use crate::ooo::right_path::RightPath;
use crate::ooo::{CoreAndCaches, OooCore};
use reach_core::{Kind, PageTable, Pte, VirtAddr, Vpn};

/// An MMU with its page table and caches, for the wrong path.
struct WrongPathMmu<'a> {
    mmu: &'a mut Mmu,
    table: &'a mut PageTable,
    caches: &'a mut Caches,
    /// The last translation for a fetch. `None` before the first, and where there is none.
    code: Option<Pte>,
    /// The last translation for a load or store. `None` before the first, and where there is none.
    data: Option<Pte>,
}

impl<'a> WrongPathMmu<'a> {
    fn new(mmu: &'a mut Mmu, table: &'a mut PageTable, caches: &'a mut Caches) -> Self {
        WrongPathMmu { mmu, table, caches, code: None, data: None }
    }

    /// Keeps a translation for the references of its kind that follow.
    fn keep(&mut self, kind: Kind, pte: Option<Pte>) {
        match kind {
            Kind::Fetch => self.code = pte,
            Kind::Load | Kind::Store => self.data = pte,
        }
    }

    fn vpn(&self, at: u64) -> Vpn {
        VirtAddr(at & ADDRESS_MASK).vpn(self.mmu.base)
    }
}

impl WrongPathMemory for WrongPathMmu<'_> {
    fn page(&self, at: u64) -> u64 {
        self.vpn(at).0
    }

    fn page_end(&self, at: u64) -> u64 {
        (self.vpn(at) + 1).addr(self.mmu.base).0.max(at + 1)
    }

    fn is_mapped(&self, at: u64) -> bool {
        self.table.lookup(self.vpn(at)).is_some()
    }

    fn look_up(&mut self, kind: Kind, at: u64, within: u64) -> WrongPathLookup {
        let vpn = self.vpn(at);
        self.mmu.counters.squashed_fetches += u64::from(kind == Kind::Fetch);
        let (lookup, pte) = match self.mmu.look_up_early(kind, vpn, self.table, self.caches, within) {
            EarlyLookup::Hit(latency, pte) => (WrongPathLookup::Hit(latency), Some(pte)),
            EarlyLookup::Unusable => (WrongPathLookup::Unusable, None),
            EarlyLookup::Miss(latency) => (WrongPathLookup::Miss(latency), None),
        };
        self.keep(kind, pte);
        lookup
    }

    fn walk(&mut self, kind: Kind, at: u64, within: u64) -> WrongPathWalk {
        let vpn = self.vpn(at);
        let (cycles, pte) = self.mmu.walk_early(kind, vpn, self.table, self.caches, within);
        self.keep(kind, pte);
        WrongPathWalk { cycles, translated: pte.is_some() }
    }

    fn is_in_l1(&self, at: u64) -> bool {
        self.data.is_none_or(|pte| self.caches.is_near(physical(pte, at, self.mmu.base)))
    }

    fn load(&mut self, core: &mut OooCore, at: u64, from: u64) -> WrongPathLoad {
        let l1_latency = self.caches.near_latency(Access::Load);
        let Some(pte) = self.data else { return WrongPathLoad { line: 0, l1_latency, latency: l1_latency } };
        let address = physical(pte, at, self.mmu.base);
        let (latency, depth) = self.caches.access(Access::Load, address);
        if depth > 0 && core.prefetches() {
            let miss = L1Miss { page: self.vpn(at), at: address, from: Some(from), missed_l2: depth > 1 };
            self.mmu.prefetch_after_miss(miss, self.table, CoreAndCaches { core, caches: self.caches });
        }
        WrongPathLoad { line: address.0 >> self.caches.line_shift(Access::Load), l1_latency, latency }
    }

    fn fetch(&mut self, bytes: ByteRange) -> u64 {
        let (Some(pte), true) = (self.code, self.caches.models_fetches()) else { return 0 };
        let (shift, l1_latency) = (self.caches.line_shift(Access::Fetch), self.caches.near_latency(Access::Fetch));
        let lines = bytes.start >> shift..=(bytes.end - 1) >> shift;
        let slowest = lines.map(|line| {
            let at = physical(pte, bytes.start.max(line << shift), self.mmu.base);
            self.caches.access(Access::Fetch, at).0.saturating_sub(l1_latency)
        });
        u64::from(slowest.max().unwrap_or(0))
    }
}

impl Mmu {
    /// Runs the wrong path of a mispredicted branch.
    pub(in crate::ooo) fn run_wrong_path(
        &mut self,
        misprediction: &Misprediction,
        code: &Code,
        right: RightPath,
        table: &mut PageTable,
        CoreAndCaches { core, caches }: CoreAndCaches,
    ) {
        if self.speculates() {
            core.run_wrong_path(code, misprediction, right, &mut WrongPathMmu::new(self, table, caches));
            self.end_wrong_path();
        }
    }

    /// Runs what follows a load that violated memory order, until the machine clear in cycle `clear`.
    pub(in crate::ooo) fn run_until_clear(
        &mut self,
        clear: u64,
        code: &Code,
        right: RightPath,
        table: &mut PageTable,
        CoreAndCaches { core, caches }: CoreAndCaches,
    ) {
        if self.speculates() {
            core.run_until_clear(code, clear, right, &mut WrongPathMmu::new(self, table, caches));
            self.end_wrong_path();
        }
    }

    fn end_wrong_path(&mut self) {
        // The wrong path may have evicted the pages of the same-page filter.
        self.same_page.clear();
        // Drop the evicted ITLB entry: fetching on the wrong path did not wait for its users.
        self.take_itlb_victim();
    }
}
