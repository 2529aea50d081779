//! `hugetlb-2m` and `hugetlb-1g`: everything that is anonymous is backed by pages of one large size at first touch, as
//! with glibc's `glibc.malloc.hugetlb` tunable over a pool of explicit huge pages.
//!
//! After: Lindsay and Bhattacharjee, "Understanding Address Translation Scaling Behaviours Using Hardware PerformanceCounters
//! Counters", IISWC 2024 (heap on hugetlbfs through `GLIBC_TUNABLES`); Linux, `mm/hugetlb.c`.
//!
//! Models: first touch of the heap and of anonymous mappings allocates, zeroes and maps a whole page; file mappings,
//! shared memory, program images and stacks stay on base pages; copy on write copies the whole page; a page is
//! unmapped when the last of its mappings is, never in part.
//!
//! Rounding: with the tunable, glibc would round each mapping up to the page size and place it apart. The addresses of
//! a program that was captured without it cannot be moved, so a page here covers the aligned extent around the touch,
//! whatever part of it is mapped, as long as only heap and anonymous mappings lie in it. Where something else does, the
//! next smaller superpage of the machine is tried (`fallback=next`, so that a heap in the same gigabyte as the program's
//! image still gets 2 MB pages under `hugetlb-1g`) or base pages are taken (`fallback=base`).
//!
//! Deviations: the pool is all of memory, nothing is reserved at mmap; a machine without the size takes its smallest
//! larger one, else its largest.

use crate::{Accepts, Setting, Settings, System, SystemError, superpage};
use reach_core::{Asid, Fault, FaultCause, Kind, PageShift, Role, Vpn};
use reach_os::{OutOfMemory, PageView, Region, Superpage, Vm};

pub(crate) const SETTINGS: &[Setting] = &[Setting {
    name: "fallback",
    summary: "what backs an extent that also holds other mappings: the next smaller superpage, or base pages",
    accepts: Accepts::Choice(&["next", "base"]),
    default: "next",
}];

/// One large size for all anonymous memory.
pub(crate) struct Hugetlb {
    name: &'static str,
    wanted: PageShift,
    next: bool,
    /// The sizes to be tried, largest first.
    sizes: Vec<PageShift>,
}

impl Hugetlb {
    pub(crate) fn new(name: &'static str, wanted: PageShift, settings: &Settings) -> Hugetlb {
        Hugetlb { name, wanted, next: settings.choice("fallback") == "next", sizes: Vec::new() }
    }

    /// The extent of size `shift` around `vpn`, if it may be one page.
    fn extent(&self, vm: &Vm, asid: Asid, vpn: Vpn, shift: PageShift) -> Option<(Vpn, PageView)> {
        let base = vm.base();
        let (first, pages) = (vpn.align_down(shift, base), shift.base_pages(base));
        let space = vm.process(asid)?.space();
        let start = first.0 << base.0;
        let only = space.overlapping(start, start + shift.bytes()).all(backed);
        let view = space.page(first, pages, base).filter(|_| only)?;
        vm.nothing_mapped(asid, first, pages).then_some((first, view))
    }
}

fn backed(region: &Region) -> bool {
    region.anonymous() && matches!(region.role, Role::Heap | Role::Mmap)
}

impl System for Hugetlb {
    fn name(&self) -> &str {
        self.name
    }

    fn boot(&mut self, vm: &mut Vm) -> Result<(), SystemError> {
        let size = superpage::nearest(self.name, self.wanted, vm)?;
        self.sizes = vm.options().sizes[1..].iter().copied().filter(|&s| s <= size).rev().collect();
        if !self.next {
            self.sizes.truncate(1);
        }
        Ok(())
    }

    fn fault(&mut self, fault: Fault, vm: &mut Vm) -> Result<(), OutOfMemory> {
        let view = vm.fault_view(fault)?;
        let asid = vm.current();
        if fault.cause == FaultCause::NotPresent && backed(&view.region) {
            for &shift in &self.sizes {
                let Some((first, all)) = self.extent(vm, asid, fault.vpn, shift) else { continue };
                // What this very touch may do was settled by `fault_view`.
                let mut rights = all.protection;
                rights.write |= view.protection.write;
                rights.execute |= view.protection.execute;
                let writable = fault.kind == Kind::Store;
                if vm.map_superpage(first, &all, Superpage { shift, rights, writable, whole: true })? {
                    return Ok(());
                }
            }
        }
        vm.demand_fault_in(fault, view)
    }
}
