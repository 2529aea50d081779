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

use crate::error::SystemError;
use crate::settings::{Setting, Settings, choice};
use crate::superpage;
use crate::system::System;
use reach_core::{Asid, Fault, FaultCause, Kind, PageShift, Role, Vpn};
use reach_os::{OutOfMemory, PageView, Region, Superpage, Vm};

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
    /// The sizes to try, largest first.
    sizes: Vec<PageShift>,
}

impl Hugetlb {
    pub(crate) fn new(name: &'static str, wanted: PageShift, settings: &Settings) -> Hugetlb {
        Hugetlb { name, wanted, fallback: settings.choice("fallback"), sizes: Vec::new() }
    }

    /// Returns the first page and the view of the extent of size `shift` around `vpn`. `None`: something else is
    /// mapped there.
    fn extent(&self, vm: &Vm, asid: Asid, vpn: Vpn, shift: PageShift) -> Option<(Vpn, PageView)> {
        let base = vm.base();
        let (first, pages) = (vpn.align_down(shift, base), shift.base_pages(base));
        let space = vm.process(asid)?.space();
        let start = first.0 << base.0;
        let eligible_only = space.overlapping(start, start + shift.bytes()).all(eligible);
        let view = space.page(first, pages, base).filter(|_| eligible_only)?;
        vm.nothing_mapped(asid, first, pages).then_some((first, view))
    }
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
        self.sizes = vm.options().sizes[1..].iter().copied().filter(|&s| s <= size).rev().collect();
        if self.fallback == Fallback::Base {
            self.sizes.truncate(1);
        }
        Ok(())
    }

    fn fault(&mut self, fault: Fault, vm: &mut Vm) -> Result<(), OutOfMemory> {
        let view = vm.fault_view(fault)?;
        let asid = vm.current();
        if fault.cause == FaultCause::NotPresent && eligible(&view.region) {
            for &shift in &self.sizes {
                let Some((first, all)) = self.extent(vm, asid, fault.vpn, shift) else { continue };
                // The extent's common rights may lack some of this touch's, which `fault_view` has settled.
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
