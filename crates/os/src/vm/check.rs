//! Invariants between page tables, regions, objects and frames.

use crate::{FrameKind, ObjectId, Vm};
use reach_core::Pfn;
use std::collections::BTreeMap;

impl Vm {
    /// Checks all parts against each other. Takes time linear in memory; for tests.
    ///
    /// # Panics
    /// When frames are lost or have a wrong count of mappings, a page is mapped outside every region, an object's uses are
    /// miscounted, a range disagrees with the page table, or the allocator and the frames disagree.
    pub fn check(&self) {
        self.frames.check();
        self.check_ranges();
        let base = self.base();
        let mut maps: BTreeMap<u64, u32> = BTreeMap::new();
        let mut shadows: BTreeMap<u64, u32> = BTreeMap::new();
        let mut mapped: BTreeMap<ObjectId, u64> = BTreeMap::new();
        let limit = 1 << (self.options().layout.address_bits() - base.0);
        for (asid, process) in self.processes() {
            process.table().check();
            process.space.check();
            let mut resident = 0;
            for entry in process.table().pages(reach_core::Vpn(0), limit) {
                let pages = entry.pte.shift().base_pages(base);
                let view = process.space.page(entry.vpn, pages, base);
                assert!(view.is_some(), "{asid:?}: {entry:?} is in no region");
                for at in entry.pte.pfn().0..entry.pte.pfn().0 + pages {
                    *maps.entry(self.frames.real(Pfn(at)).0).or_default() += 1;
                    shadows.entry(at).and_modify(|n| *n += 1).or_insert(1);
                }
                if self.kind_of(entry.pte) != FrameKind::Zero {
                    resident += entry.pte.shift().bytes();
                }
            }
            let counters = self.counters_of(asid).expect("every process has counters");
            assert_eq!(resident, counters.resident_bytes.current, "resident bytes of {asid:?}");
            assert_eq!(process.table().bytes(), counters.page_table_bytes.current, "page table of {asid:?}");
            for &at in &process.swapped {
                assert!(
                    process.table().find(reach_core::Vpn(at)).is_none(),
                    "{asid:?}: {at:#x} is in swap and in memory"
                );
                assert!(
                    process.space.page(reach_core::Vpn(at), 1, base).is_some(),
                    "{asid:?}: {at:#x} is in no region"
                );
            }
            for region in process.space.regions() {
                *mapped.entry(region.object).or_default() += region.len();
            }
        }
        for (shadow, real, maps) in self.frames.shadow.iter().flat_map(|shadow| shadow.in_use()) {
            assert_eq!(shadows.get(&shadow.0), Some(&maps), "maps of {shadow:?}, which translates to {real:?}");
        }
        let recorded = self.pager.as_ref().map_or(0, |pager| pager.record_pages());
        let kept = recorded + self.frames.unused_kernel_frames();
        assert!(self.frames.census()[3] >= kept, "frames of the kernel's records, pools and stores are wired: {kept}");
        let mut cached: BTreeMap<u64, (ObjectId, u64)> = BTreeMap::new();
        for (id, object) in self.objects.iter() {
            let kernel = self.objects.mapped_by_kernel(id);
            assert_eq!(object.mapped, mapped.get(&id).copied().unwrap_or(0) + kernel, "mapped bytes of {id:?}");
            assert!(object.swapped.iter().all(|index| !object.pages.contains_key(index)), "{id:?}: swap");
            for (&first, &pages) in &object.folios {
                let block = object.pages.get(&first).copied();
                let at = |index| block.map(|block| block + (index - first));
                let whole = (first..first + pages).all(|index| object.pages.get(&index).copied() == at(index));
                assert!(whole && first % pages == 0, "block of {pages} pages at {first} of {id:?}");
            }
            for (&index, &pfn) in &object.pages {
                assert_eq!(cached.insert(pfn.0, (id, index)), None, "{pfn:?} is cached twice");
            }
        }
        for at in 0..self.frames.buddy().frames() {
            let frame = self.frames.get(Pfn(at));
            assert_eq!(frame.maps, maps.get(&at).copied().unwrap_or(0), "maps of {at:#x}: {frame:?}");
            assert_eq!(frame.cached, cached.contains_key(&at), "{at:#x}: {frame:?}");
            if let Some(&place) = cached.get(&at) {
                assert_eq!((frame.object, frame.index), place, "{at:#x}");
            }
            for (asid, vpn) in self.frames.translations(Pfn(at)) {
                let pte =
                    self.at(asid).table().page(vpn).map(|page| self.frames.real(page.pte.pfn() + (vpn - page.vpn)));
                assert_eq!(pte, Some(Pfn(at)), "reverse mapping of {at:#x}");
            }
            let needed = frame.maps > 0 || frame.cached;
            let user = matches!(frame.kind, FrameKind::Anonymous | FrameKind::File);
            assert!(!user || needed, "{at:#x} is neither mapped nor cached: {frame:?}");
        }
    }
}
