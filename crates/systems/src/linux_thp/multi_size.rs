//! Multi-size huge pages (mTHP): blocks smaller than a huge page at the first store to anonymous memory.
//!
//! After: Linux 6.18, `mm/memory.c` (`alloc_anon_folio`) and `include/linux/huge_mm.h` (`thp_vma_allowable_orders`).
//! A block of a size for which the machine has pages, such as Arm's 64 KB by its contiguous hint (`contpte`), is mapped
//! by these. Any other is mapped by base pages, and saves faults only, unless the TLB coalesces.

use super::Scope;
use crate::error::SystemError;
use crate::settings::{Accepts, Setting, Settings, choice};
use reach_core::{Fault, Kind, PageShift};
use reach_os::{OutOfMemory, PageView, Region, Vm};

pub(super) const SIZES: Setting = Setting::new(
    "mthp",
    Accepts::Blocks,
    "none",
    "sizes of the blocks smaller than a huge page that first stores to anonymous memory may get",
);

pub(super) const ENABLED: Setting = Setting::new(
    "mthp_enabled",
    Inherited::ACCEPTS,
    "inherit",
    "the anonymous memory that may have the blocks of mthp: as enabled says, all, only what MADV_HUGEPAGE names",
);

choice! {
    /// The memory to which `mthp` applies.
    enum Inherited {
        /// What `enabled` says.
        Inherit = "inherit",
        /// All but what MADV_NOHUGEPAGE names.
        Always = "always",
        /// Only what MADV_HUGEPAGE names.
        Madvise = "madvise",
    }
}

/// Returns the sizes that a setting names, each once, the largest first.
pub(super) fn descending(settings: &Settings, setting: &Setting) -> Vec<PageShift> {
    let mut sizes = settings.blocks(setting.name);
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    sizes.dedup();
    sizes
}

/// Checks that Linux has blocks of all `sizes`, which `setting` names: of `least` and more, to half a huge page.
///
/// # Errors
/// When it has not.
pub(super) fn check(
    sizes: &[PageShift],
    setting: &Setting,
    system: &str,
    least: PageShift,
    huge: PageShift,
) -> Result<(), SystemError> {
    let most = PageShift(huge.0 - 1);
    match sizes.iter().find(|&&size| size < least || size > most) {
        None => Ok(()),
        Some(size) => Err(SystemError::Options {
            system: system.into(),
            what: format!("{}={size}: expected sizes from {least} to {most} on this machine", setting.name),
        }),
    }
}

/// The blocks that first stores may get.
pub(super) struct MultiSize {
    /// Descending.
    sizes: Vec<PageShift>,
    scope: Scope,
}

impl MultiSize {
    /// `enabled` is the scope of huge pages.
    pub(super) fn new(settings: &Settings, enabled: Scope) -> MultiSize {
        let sizes = descending(settings, &SIZES);
        let scope = match settings.choice(ENABLED.name) {
            Inherited::Inherit => enabled,
            Inherited::Always => Scope::Always,
            Inherited::Madvise => Scope::Madvise,
        };
        MultiSize { sizes, scope }
    }

    /// Checks the sizes of the blocks, which have four base pages at least.
    ///
    /// # Errors
    /// When Linux has no blocks of such a size.
    pub(super) fn check(&self, system: &str, huge: PageShift, vm: &Vm) -> Result<(), SystemError> {
        check(&self.sizes, &SIZES, system, PageShift(vm.base().0 + 2), huge)
    }

    /// Maps the largest block that fits around a first store and that memory has. Returns false where there is none, so
    /// that the caller maps a base page. A first load gets the page of zeroes, which has no larger form here.
    pub(super) fn fault(&self, fault: Fault, view: &PageView, vm: &mut Vm) -> Result<bool, OutOfMemory> {
        let reads_zeroes = fault.kind != Kind::Store && vm.options().zero_page;
        if reads_zeroes || !self.allowed(&view.region) {
            return Ok(false);
        }
        let asid = vm.current();
        // Smaller extents around the page lie within larger ones, so that those fit from the first that does.
        for &size in &self.sizes {
            if let Some(first) = vm.extent_within(asid, fault.vpn, size, &view.region)
                && vm.map_folio(first, view, size)?
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The sizes, largest first.
    pub(super) fn sizes(&self) -> &[PageShift] {
        &self.sizes
    }

    /// Whether `region` may have such blocks. Stacks are left out as for huge pages, although Linux would give the first thread's a block of 64 KB.
    pub(super) fn allowed(&self, region: &Region) -> bool {
        !self.sizes.is_empty() && super::is_candidate(region) && self.scope.holds(region)
    }
}
