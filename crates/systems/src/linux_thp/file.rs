//! Huge pages and large folios of shared memory and of files.
//!
//! After: Linux 6.18, `mm/shmem.c`, `mm/filemap.c`, `mm/memory.c`, `mm/khugepaged.c` and `mm/hugetlb.c`; Documentation/filesystems/tmpfs.rst.
//!
//! | Linux | here |
//! |---|---|
//! | `shmem_allowable_huge_orders` | [`Files::shared_sizes`] |
//! | `shmem_alloc_and_add_folio` | `Vm::cache_folio` |
//! | `filemap_map_pmd`, `do_set_pmd` | `Vm::map_cached_superpage` |
//! | `finish_fault` and `filemap_map_folio_range`, by base pages | `Vm::map_cached_folio` |
//! | `do_sync_mmap_readahead`, for MADV_HUGEPAGE and for code | [`Files::file_sizes`] |
//! | `collapse_file`, `collapse_pte_mapped_thp` | [`LinuxThp::collapse_cached_extent`] |
//! | `hugetlb_no_page`, for shared memory | [`Files::hugetlb_fault`] |
//!
//! A huge page of the page cache is mapped by one page where address and offset are congruent, the mapping covers it and nothing in
//! it is mapped yet. Otherwise the first touch maps all base pages of the folio, as Linux does since 6.18, if mapping and page table hold
//! all of it, and else sixteen around a load. A store to a private mapping copies a base page. Whatever splits such a page unmaps it:
//! the page cache still has its parts.
//!
//! Deviations: a file in memory that is mapped both shared and privately has two copies here; on hugetlbfs, each private mapping
//! has one. A file that grows after its first mapping counts as large as then, for `within_size`. Files open for writing are
//! collapsed like others, but mappings that may be written are not. A folio stays one until it is dropped. Readahead stops for no
//! file: Linux 6.18 stops after 100 misses that faults around have not made up for, and 7.2 does not for code.

use super::{LinuxThp, PTES, Scope, Version, multi_size};
use crate::error::SystemError;
use crate::settings::{Accepts, Setting, Settings, choice};
use reach_core::{Asid, Fault, Kind, Label, PageShift, Vpn};
use reach_os::{Object, OutOfMemory, PageView, Region, Vm, soft};

pub(super) const SHMEM: Setting = Setting::new(
    "shmem_enabled",
    Shared::ACCEPTS,
    "never",
    "the shared memory without a file, and of memfd, that may have huge pages",
);

pub(super) const TMPFS: Setting = Setting::new(
    "tmpfs_huge",
    Shared::ACCEPTS,
    "never",
    "the files on tmpfs, /dev/shm among them, that may have huge pages: the mount option huge=",
);

pub(super) const SHMEM_SIZES: Setting = Setting::new(
    "shmem_mthp",
    Accepts::Blocks,
    "none",
    "sizes of the blocks smaller than a huge page that shared memory may get",
);

pub(super) const SHMEM_SIZES_ENABLED: Setting = Setting::new(
    "shmem_mthp_enabled",
    Shared::ACCEPTS,
    "always",
    "the shared memory without a name that may have the blocks of shmem_mthp",
);

pub(super) const FILES: Setting = Setting::new(
    "file_folios",
    Accepts::Choice(&["none", "64K", "128K", "256K", "512K", "1M", "2M"]),
    "none",
    "the largest folios of the files in memory; 2M: as after writes of 2 MB or reach text promote; none: 64 KB, without huge pages",
);

pub(super) const EXEC: Setting = Setting::new(
    "exec_folio",
    Accepts::Choice(&["none", "16K", "32K", "64K", "128K", "2M"]),
    "none",
    "the folios in which code is read in (exec_folio_order): none on x86-64, 64K on Arm since Linux 6.17",
);

pub(super) const COLLAPSE: Setting = Setting::new(
    "read_only_thp_for_fs",
    Accepts::Switch,
    "off",
    "whether khugepaged and MADV_COLLAPSE make huge pages of files that are mapped read-only; 7.2 always does",
);

choice! {
    /// The shared memory that may have huge pages.
    enum Shared {
        /// None.
        Never = "never",
        /// All that lies within the size of its file, and what MADV_HUGEPAGE names.
        WithinSize = "within_size",
        /// Only what MADV_HUGEPAGE names.
        Advise = "advise",
        /// All but what MADV_NOHUGEPAGE names.
        Always = "always",
    }
}

impl Shared {
    /// Whether a block of `pages` base pages around page `index` of `object` may be allocated. `object_pages` is the object's size.
    fn holds(self, region: &Region, index: u64, pages: u64, object_pages: u64) -> bool {
        let end = index - index % pages + pages;
        match (self, region.huge) {
            (Shared::Never, _) | (_, Some(false)) => false,
            (Shared::Always, _) | (_, Some(true)) => true,
            (Shared::WithinSize, None) => end <= object_pages,
            (Shared::Advise, None) => false,
        }
    }
}

/// Where the pages of shared memory come from, which decides the setting that applies.
#[derive(Clone, Copy, PartialEq)]
enum Origin {
    /// The kernel's own mount: shared memory without a file, memfd, System V.
    Internal,
    /// A file of a tmpfs mount that has lost its name.
    Unlinked,
    /// A file of a tmpfs mount.
    Named,
}

impl Origin {
    fn of(object: &Object) -> Origin {
        match object.path.as_deref() {
            None => Origin::Internal,
            Some(path) if path.starts_with("/memfd:") => Origin::Internal,
            Some(path) if path.ends_with(" (deleted)") => Origin::Unlinked,
            Some(_) => Origin::Named,
        }
    }
}

/// The settings of shared memory and files.
pub(super) struct Files {
    shmem: Shared,
    tmpfs: Shared,
    /// Descending.
    blocks: Vec<PageShift>,
    blocks_enabled: Shared,
    largest: Option<PageShift>,
    exec: Option<PageShift>,
    collapses: bool,
}

impl Files {
    pub(super) fn new(settings: &Settings, version: Version) -> Files {
        Files {
            shmem: settings.choice(SHMEM.name),
            tmpfs: settings.choice(TMPFS.name),
            blocks: multi_size::descending(settings, &SHMEM_SIZES),
            blocks_enabled: settings.choice(SHMEM_SIZES_ENABLED.name),
            largest: settings.blocks(FILES.name).first().copied(),
            exec: settings.blocks(EXEC.name).first().copied(),
            collapses: settings.is_on(COLLAPSE.name) || version == Version::V7_2,
        }
    }

    /// Checks the sizes of blocks, which have two base pages at least (`THP_ORDERS_ALL_FILE_DEFAULT`), and sets up the page cache.
    ///
    /// # Errors
    /// When Linux has no blocks of a size of `shmem_mthp`.
    pub(super) fn boot(&self, system: &str, huge: PageShift, vm: &mut Vm) -> Result<(), SystemError> {
        multi_size::check(&self.blocks, &SHMEM_SIZES, system, PageShift(vm.base().0 + 1), huge)?;
        if let Some(largest) = self.largest {
            vm.use_file_folios(largest);
        }
        Ok(())
    }

    /// The sizes of the blocks that page `vpn` of `region`, which maps shared memory, may be allocated in, largest first.
    fn shared_sizes(&self, region: &Region, vpn: Vpn, huge: PageShift, vm: &Vm) -> Vec<PageShift> {
        let base = vm.base();
        let object = vm.objects().get(region.object);
        let index = region.index(vpn, base);
        let object_pages = match object.len {
            None | Some(0) => (region.offset + region.len()) >> base.0,
            Some(len) => len.div_ceil(base.bytes()),
        };
        let may = |scope: Shared, size: PageShift| scope.holds(region, index, size.base_pages(base), object_pages);
        let origin = Origin::of(object);
        let scope = if origin == Origin::Internal { self.shmem } else { self.tmpfs };
        let mut sizes = Vec::from_iter(Some(huge).filter(|&size| may(scope, size)));
        // Faults on a file with a name try no other size, on Linux 6.18.44 as measured.
        if origin != Origin::Named {
            sizes.extend(self.blocks.iter().filter(|&&size| may(self.blocks_enabled, size)));
        }
        sizes
    }

    /// The sizes of the folios that page `vpn` of `region`, which maps a file on a disk, may be read in with, largest first.
    /// Those of code lie within its mapping.
    fn file_sizes(&self, region: &Region, vpn: Vpn, huge: PageShift, vm: &Vm) -> Vec<PageShift> {
        if region.huge == Some(true) && !vm.options().warm {
            return vec![huge];
        }
        let Some(largest) = self.exec.filter(|_| region.protection.execute) else { return Vec::new() };
        let base = vm.base();
        let (pages, index) = (region.pages(base), region.index(vpn, base));
        let (start, end) = (region.index(Vpn(pages.start), base), region.index(Vpn(pages.end), base));
        let is_inside = |&size: &PageShift| {
            let pages = size.base_pages(base);
            let first = index - index % pages;
            start <= first && first + pages <= end
        };
        (base.0 + 1..=largest.0).rev().map(PageShift).filter(is_inside).collect()
    }

    /// Brings page `vpn` of `region`, which is absent, into memory in a block, where it may have one.
    fn read_in(&self, fault: Fault, region: &Region, huge: PageShift, vm: &mut Vm) -> Result<(), OutOfMemory> {
        let on_disk = region.file && !vm.objects().get(region.object).in_memory;
        let sizes = match on_disk {
            true => self.file_sizes(region, fault.vpn, huge, vm),
            false => self.shared_sizes(region, fault.vpn, huge, vm),
        };
        for size in sizes {
            if (on_disk || vm.suits(region, fault.vpn, size)) && vm.cache_folio(region, fault.vpn, size) {
                return Ok(());
            }
        }
        if on_disk && self.largest.is_some() { vm.fill_warm(region, fault.vpn) } else { Ok(()) }
    }

    /// Answers a first touch of shared memory or of a file by a page or a block larger than a base page. Returns false where
    /// there is none.
    pub(super) fn fault(
        &self,
        fault: Fault,
        view: &PageView,
        huge: PageShift,
        vm: &mut Vm,
    ) -> Result<bool, OutOfMemory> {
        let region = &view.region;
        if !vm.is_cached(region, fault.vpn) {
            self.read_in(fault, region, huge, vm)?;
        }
        if vm.folio_at(region, fault.vpn).is_none() || fault.kind == Kind::Store && !region.shared {
            return Ok(false);
        }
        if region.huge != Some(false) && vm.map_cached_superpage(fault, view, huge, soft::REFAULT)? {
            return Ok(true);
        }
        vm.map_cached_folio(fault, view, huge)
    }

    /// Maps a page of the size that the program asked for by MAP_HUGETLB, or of its file on hugetlbfs, for shared memory. Returns
    /// false where memory has none, or the machine has no such size.
    pub(super) fn hugetlb_fault(&self, fault: Fault, view: &PageView, vm: &mut Vm) -> Result<bool, OutOfMemory> {
        let region = &view.region;
        let shift = PageShift(region.huge_shift);
        if !vm.options().sizes.contains(&shift) || !vm.suits(region, fault.vpn, shift) {
            return Ok(false);
        }
        let is_cached = vm.is_cached(region, fault.vpn) || vm.cache_folio(region, fault.vpn, shift);
        Ok(is_cached && vm.map_cached_superpage(fault, view, shift, soft::WHOLE)?)
    }

    /// Whether MADV_COLLAPSE may collapse extents of `region`, which maps a file or shared memory.
    pub(super) fn is_collapsible(&self, region: &Region, vm: &Vm) -> bool {
        let object = vm.objects().get(region.object);
        let shared = !region.anonymous() && (!region.file || object.in_memory);
        let read_only = region.file && !region.protection.write && self.collapses;
        region.huge != Some(false) && region.huge_shift == 0 && (shared || read_only)
    }

    /// Whether khugepaged may. `enabled` is the scope of huge pages of files on a disk.
    pub(super) fn is_scanned(&self, region: &Region, enabled: Scope, huge: PageShift, vm: &Vm) -> bool {
        if !self.is_collapsible(region, vm) {
            return false;
        }
        let in_memory = !region.file || vm.objects().get(region.object).in_memory;
        let first = Vpn(region.start >> vm.base().0);
        if in_memory { self.shared_sizes(region, first, huge, vm).contains(&huge) } else { enabled.holds(region) }
    }
}

impl LinuxThp {
    /// Collapses the extent of the page cache that is mapped at `first` in `region`. With `limited`, khugepaged does so and obeys its
    /// limit on absent pages, and later faults map the block; otherwise it is mapped at once.
    pub(super) fn collapse_cached_extent(
        &self,
        asid: Asid,
        first: Vpn,
        region: &Region,
        limited: bool,
        vm: &mut Vm,
    ) -> Result<crate::collapse::Collapse, OutOfMemory> {
        use crate::collapse::Collapse;
        let (base, huge) = (vm.base(), self.huge);
        let (pages, index) = (huge.base_pages(base), region.index(first, base));
        let label = if limited { Label::Daemon } else { Label::Copy };
        if !vm.suits(region, first, huge) {
            return Ok(Collapse::Ineligible);
        }
        if limited {
            vm.charge(Label::Daemon, pages * vm.options().costs.scan_per_page);
        }
        let is_huge = vm.folio_at(region, first).is_some_and(|folio| folio.pages >= pages);
        let mapped = vm.process(asid).map(|process| process.table().pages(first, pages)).unwrap_or_default();
        if is_huge && (mapped.first().is_some_and(|page| page.pte.shift() >= huge) || limited && mapped.is_empty()) {
            return Ok(Collapse::Ineligible);
        }
        let object = vm.objects().get(region.object);
        let on_disk = region.file && !object.in_memory;
        let end = object.len.map_or(u64::MAX, |len| len.div_ceil(base.bytes()));
        if on_disk && index + pages > end {
            return Ok(Collapse::Ineligible);
        }
        let present = match on_disk && vm.options().warm {
            true => pages,
            false => object.pages.range(index..index + pages).count() as u64,
        };
        if present == 0 || limited && (pages - present > self.max_ptes_none * pages / PTES) {
            return Ok(Collapse::Ineligible);
        }
        if !is_huge {
            self.reclaim_for(region, vm);
            if !vm.collapse_cached(asid, region, first, huge, label)? {
                return Ok(Collapse::NoMemory);
            }
        } else if limited {
            // The page table goes, so that the next fault maps the block by one page.
            vm.unmap_cached(region.object, index, pages, label)?;
        }
        if !limited {
            vm.promote_cached(asid, region, first, huge, label)?;
        }
        Ok(Collapse::Done)
    }
}
