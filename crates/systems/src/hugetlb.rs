//! `hugetlb-2m` and `hugetlb-1g`: pages of one large size back all anonymous memory from its first touch, as with
//! glibc's `glibc.malloc.hugetlb` tunable over a pool of explicit huge pages.
//!
//! After: Lindsay and Bhattacharjee, "Understanding Address Translation Scaling Behaviours Using Hardware Performance
//! Counters", IISWC 2024 (heap on hugetlbfs through `GLIBC_TUNABLES`); Linux, `mm/hugetlb.c`.
//!
//! Models: the first touch of the heap or of an anonymous mapping allocates, zeroes and maps a whole page. File mappings,
//! shared memory, program images and stacks stay on base pages. Copy on write copies the whole page. A page is unmapped
//! when the last of its mappings is, never in part.
//!
//! Rounding: with the tunable, glibc would round each mapping up to the page size and place it apart. The addresses of
//! a program that was captured without the tunable cannot be moved. A page here therefore covers the aligned extent
//! around the touch, whatever part of it is mapped, as long as only heap and anonymous mappings lie in it. An extent
//! that holds another mapping gets the next smaller superpage of the machine (`fallback=next`, so that a heap in the
//! same gigabyte as the program's image still gets 2 MB pages under `hugetlb-1g`) or base pages (`fallback=base`).
//!
//! Deviations: the pool is all of memory; nothing is reserved at mmap; a machine without the size takes its smallest
//! larger one, else its largest.

use crate::description::{self, Description};
use crate::error::SystemError;
use crate::settings::{Setting, Settings, choice};
use crate::superpage;
use crate::system::System;
use reach_core::{Asid, Fault, FaultCause, Kind, PageShift, PageTableKind, Role, Vpn};
use reach_os::{ExplicitCounts, OutOfMemory, PageView, Region, Superpage, Vm};

/// The entry of the table of systems.
pub(crate) const DESCRIPTION_1G: Description = Description {
    name: "hugetlb-1g",
    summary: "all anonymous memory on explicit 1 GB pages from its first touch",
    role: description::Role::Explicit(PageShift(30)),
    compared: false,
    published: None,
    criterion: None,
    page_table: PageTableKind::Radix,
    settings: SETTINGS,
    build: |settings| Box::new(Hugetlb::new("hugetlb-1g", PageShift(30), settings)),
};

/// The entry of the table of systems.
pub(crate) const DESCRIPTION_2M: Description = Description {
    name: "hugetlb-2m",
    summary: "all anonymous memory on explicit 2 MB pages from its first touch",
    role: description::Role::Explicit(PageShift(21)),
    compared: true,
    published: None,
    criterion: None,
    page_table: PageTableKind::Radix,
    settings: SETTINGS,
    build: |settings| Box::new(Hugetlb::new("hugetlb-2m", PageShift(21), settings)),
};

pub(crate) const SETTINGS: &[Setting] = &[Setting::new(
    "fallback",
    Fallback::ACCEPTS,
    "next",
    "the pages of an extent that also holds other mappings: the next smaller superpage, or base pages",
)];

choice! {
    /// The pages of an extent that also holds other mappings.
    enum Fallback {
        /// The next smaller superpage.
        Next = "next",
        /// Base pages.
        Base = "base",
    }
}

/// One large page size for all anonymous memory.
pub(crate) struct Hugetlb {
    name: &'static str,
    wanted: PageShift,
    fallback: Fallback,
    /// The sizes to try, largest first, each with its index among the machine's.
    sizes: Vec<(usize, PageShift)>,
}

impl Hugetlb {
    pub(crate) fn new(name: &'static str, wanted: PageShift, settings: &Settings) -> Hugetlb {
        Hugetlb { name, wanted, fallback: settings.choice("fallback"), sizes: Vec::new() }
    }

    /// Examines the extent of size `shift` around `vpn`.
    fn extent(&self, vm: &Vm, asid: Asid, vpn: Vpn, shift: PageShift) -> Extent {
        let base = vm.base();
        let (first, pages) = (vpn.align_down(shift, base), shift.base_pages(base));
        let Some(space) = vm.process(asid).map(|process| process.space()) else { return Extent::Shared };
        let start = first.0 << base.0;
        let eligible_only = space.overlapping(start, start + shift.bytes()).all(eligible);
        match space.page(first, pages, base).filter(|_| eligible_only) {
            None => Extent::Shared,
            Some(view) if vm.nothing_mapped(asid, first, pages) => Extent::Free(first, view),
            Some(_) => Extent::Occupied,
        }
    }

    /// Answers a first touch of eligible memory with the largest page that is to be tried. Returns `false` if none fits.
    fn first_touch(&self, fault: Fault, view: &PageView, vm: &mut Vm) -> Result<bool, OutOfMemory> {
        let asid = vm.current();
        for (tried, &(at, shift)) in self.sizes.iter().enumerate() {
            let failed = match self.extent(vm, asid, fault.vpn, shift) {
                Extent::Free(first, all) => {
                    // The extent's common rights may lack some of this touch's, which `fault_view` has settled.
                    let mut rights = all.protection;
                    rights.write |= view.protection.write;
                    rights.execute |= view.protection.execute;
                    let writable = fault.kind == Kind::Store;
                    if vm.map_superpage(first, &all, Superpage { shift, rights, writable, whole: true })? {
                        count(vm, |counts| counts.mapped[at] += shift.bytes());
                        return Ok(true);
                    }
                    (0, 1)
                }
                Extent::Shared => (1, 0),
                // An earlier touch got smaller pages, and was counted.
                Extent::Occupied => (0, 0),
            };
            if tried == 0 {
                count(vm, |counts| {
                    counts.shared_extents += failed.0;
                    counts.failures += failed.1;
                });
            }
        }
        let base = vm.base().bytes();
        count(vm, |counts| counts.mapped[0] += base);
        Ok(false)
    }
}

/// The state of an extent that a page could map.
enum Extent {
    /// Its first page, and its view: nothing is mapped in it.
    Free(Vpn, PageView),
    /// Memory that gets no page of this size lies in it, too.
    Shared,
    /// Some of its pages are mapped.
    Occupied,
}

/// Updates the counts of first touches.
fn count(vm: &mut Vm, update: impl Fn(&mut ExplicitCounts)) {
    vm.explicit_counts().into_iter().for_each(update);
}

/// Whether the tunable would back `region` with huge pages.
fn eligible(region: &Region) -> bool {
    region.anonymous() && matches!(region.role, Role::Heap | Role::Mmap)
}

impl System for Hugetlb {
    fn name(&self) -> &str {
        self.name
    }

    fn boot(&mut self, vm: &mut Vm) -> Result<(), SystemError> {
        let size = superpage::nearest(self.name, self.wanted, vm)?;
        vm.count_explicit_pages(self.wanted, size);
        let sizes = vm.options().sizes.iter().copied().enumerate().skip(1);
        self.sizes = sizes.filter(|&(_, smaller)| smaller <= size).collect();
        self.sizes.reverse();
        if self.fallback == Fallback::Base {
            self.sizes.truncate(1);
        }
        Ok(())
    }

    fn fault(&mut self, fault: Fault, vm: &mut Vm) -> Result<(), OutOfMemory> {
        let view = vm.fault_view(fault)?;
        let first_touch = fault.cause == FaultCause::NotPresent && eligible(&view.region);
        if first_touch && self.first_touch(fault, &view, vm)? {
            return Ok(());
        }
        vm.demand_fault_in(fault, view)
    }
}
