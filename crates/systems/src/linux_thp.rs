//! `linux-thp`: Linux's transparent huge pages, at fault time and by khugepaged, and the large folios of files and shared memory.
//!
//! After: Linux 6.18, `mm/huge_memory.c` and `mm/khugepaged.c`, and 7.2 where `version` says so; Documentation/admin-guide/mm/transhuge.rst for the
//! knobs. Knobs keep their names and defaults, except that `enabled` defaults to `always`: distributions differ, and a
//! comparison wants huge pages.
//!
//! | Linux | here |
//! |---|---|
//! | `do_huge_pmd_anonymous_page`, `do_huge_zero_wp_pmd` | [`LinuxThp::fault`] |
//! | `do_huge_pmd_wp_page` (reuse, or split and copy a base page), splits on partial unmap, protection and mremap | `Vm` |
//! | `alloc_anon_folio` | [`MultiSize::fault`] |
//! | `hugetlb_no_page`, for private memory that the program maps by MAP_HUGETLB or on hugetlbfs | [`LinuxThp::hugetlb_fault`] |
//! | huge pages of shared memory and files, readahead | `file.rs` |
//! | khugepaged and MADV_COLLAPSE | `khugepaged.rs` |
//!
//! Deviations: there is no compaction, because pre-fragmentation takes unmovable memory anyway. `defrag` only says
//! whether a fault may first drop unmapped file pages. Stacks get no huge pages: Linux excludes those of threads
//! (MAP_STACK), and the first thread's is small until it has grown. All sizes of multi-size THP have one scope, and frames
//! of such blocks are freed one by one, as if deferred splits came at once. The pool of hugetlb pages is all of memory.
//! khugepaged's cycles are charged to `daemon` as if it ran on the program's processor. A
//! machine without a 2 MB page takes its smallest larger size, else its largest, and limits on page-table entries scale
//! with it.

mod advised;
mod file;
mod khugepaged;
mod multi_size;

use crate::description::{self, Description};
use crate::error::SystemError;
use crate::evidence::{Criterion, Evidence};
use crate::settings::{Accepts, Setting, Settings, Unit, choice};
use crate::superpage;
use crate::system::System;
use advised::Advised;
use file::Files;
use multi_size::MultiSize;
use reach_core::{Advice, Asid, Cycles, Event, Fault, FaultCause, Kind, Label, PageShift, PageTableKind, Role, Vpn};
use reach_os::{FaultKind, FrameKind, OutOfMemory, PageView, Region, Superpage, Vm};

/// The entry of the table of systems.
pub(crate) const DESCRIPTION: Description = Description {
    name: "linux-thp",
    summary: "Linux's transparent huge pages, at first touch and by khugepaged",
    role: description::Role::Transparent,
    compared: true,
    published: None,
    criterion: Criterion::new(Evidence::Superpages, "mapped no huge page, neither at a fault nor by khugepaged"),
    page_table: PageTableKind::Radix,
    settings: SETTINGS,
    build: |settings| Box::new(LinuxThp::new(settings)),
};

/// Page-table entries of a 2 MB page on x86-64, to which Linux's limits refer.
const PTES: u64 = 512;

pub(crate) const SETTINGS: &[Setting] = &[
    Setting::new(
        "version",
        Version::ACCEPTS,
        "6.18",
        "the Linux: khugepaged of 7.2 collapses to the sizes of mthp, and files of large folios, too",
    ),
    Setting::new(
        "enabled",
        Scope::ACCEPTS,
        "always",
        "the anonymous memory that may have huge pages: all, only what MADV_HUGEPAGE names, none",
    ),
    Setting::new(
        "defrag",
        Scope::ACCEPTS,
        "madvise",
        "the memory whose faults may drop unmapped file pages to get a huge page",
    ),
    multi_size::SIZES,
    multi_size::ENABLED,
    advised::SPANS,
    Setting::new(
        "use_zero_page",
        Accepts::Switch,
        "on",
        "whether first loads from untouched memory share a huge page of zeroes",
    ),
    Setting::new("khugepaged", Accepts::Switch, "on", "whether the daemon that collapses base pages runs"),
    Setting::new(
        "pages_to_scan",
        Accepts::number(1, u32::MAX as u64, Unit::Count),
        "4096",
        "base pages that khugepaged scans each time it wakes",
    ),
    Setting::new(
        "scan_sleep_millisecs",
        Accepts::number(1, u32::MAX as u64, Unit::Milliseconds),
        "10000",
        "khugepaged's sleep between scans",
    ),
    Setting::new(
        "alloc_sleep_millisecs",
        Accepts::number(1, u32::MAX as u64, Unit::Milliseconds),
        "60000",
        "khugepaged's sleep after a failed allocation of a huge page",
    ),
    Setting::new(
        "max_ptes_none",
        Accepts::number(0, PTES - 1, Unit::Count),
        "511",
        "khugepaged collapses an extent with at most this many of 512 pages missing",
    ),
    Setting::new(
        "max_ptes_shared",
        Accepts::number(0, PTES - 1, Unit::Count),
        "256",
        "khugepaged collapses an extent with at most this many of 512 pages shared with other processes",
    ),
    file::SHMEM,
    file::TMPFS,
    file::SHMEM_SIZES,
    file::SHMEM_SIZES_ENABLED,
    file::FILES,
    file::EXEC,
    file::COLLAPSE,
];

choice! {
    /// The Linux, as far as it concerns huge pages.
    enum Version {
        /// 6.8, which brought multi-size huge pages, to 7.1.
        V6_18 = "6.18",
        /// 7.2 and later.
        V7_2 = "7.2",
    }
}

choice! {
    /// The memory to which `enabled` or `defrag` applies.
    enum Scope {
        /// All but what MADV_NOHUGEPAGE names.
        Always = "always",
        /// Only what MADV_HUGEPAGE names.
        Madvise = "madvise",
        /// None.
        Never = "never",
    }
}

impl Scope {
    fn holds(self, region: &Region) -> bool {
        match self {
            Scope::Always => region.huge != Some(false),
            Scope::Madvise => region.huge == Some(true),
            Scope::Never => false,
        }
    }
}

/// Whether `region` is memory of a kind that Linux gives huge pages.
pub(crate) fn is_candidate(region: &Region) -> bool {
    region.anonymous() && region.role != Role::Stack
}

/// Transparent huge pages.
pub(crate) struct LinuxThp {
    version: Version,
    enabled: Scope,
    defrag: Scope,
    multi_size: MultiSize,
    files: Files,
    advised: Advised,
    use_zero_page: bool,
    khugepaged: bool,
    pages_to_scan: u64,
    scan_sleep_millisecs: u64,
    alloc_sleep_millisecs: u64,
    max_ptes_none: u64,
    max_ptes_shared: u64,
    huge: PageShift,
    /// The huge page of zeroes; `None` until the first load needs it.
    zeroes: Option<reach_core::Pfn>,
    /// Where khugepaged's next scan begins: address space and byte address.
    cursor: (Asid, u64),
    next_scan: Option<Cycles>,
}

impl LinuxThp {
    pub(crate) fn new(settings: &Settings) -> LinuxThp {
        let (version, enabled) = (settings.choice("version"), settings.choice("enabled"));
        LinuxThp {
            version,
            enabled,
            multi_size: MultiSize::new(settings, enabled),
            files: Files::new(settings, version),
            advised: Advised::new(settings),
            defrag: settings.choice("defrag"),
            use_zero_page: settings.is_on("use_zero_page"),
            khugepaged: settings.is_on("khugepaged"),
            pages_to_scan: settings.number("pages_to_scan"),
            scan_sleep_millisecs: settings.number("scan_sleep_millisecs"),
            alloc_sleep_millisecs: settings.number("alloc_sleep_millisecs"),
            max_ptes_none: settings.number("max_ptes_none"),
            max_ptes_shared: settings.number("max_ptes_shared"),
            huge: PageShift(21),
            zeroes: None,
            cursor: (Asid(0), 0),
            next_scan: None,
        }
    }

    /// Sets whether faults to come may map huge pages, and drop unmapped file pages for them, whatever the options say.
    pub(crate) fn admit(&mut self, huge: bool, reclaim: bool) {
        let scope = |on| if on { Scope::Always } else { Scope::Never };
        (self.enabled, self.defrag) = (scope(huge), scope(reclaim));
    }

    /// Whether `region` may have huge pages: `thp_vma_allowable_order` for anonymous memory.
    fn allowed(&self, region: &Region) -> bool {
        is_candidate(region) && self.enabled.holds(region)
    }

    /// Drops unmapped file pages where `defrag` allows it and no block of the huge page's size is free.
    fn reclaim_for(&self, region: &Region, vm: &mut Vm) {
        let order = self.huge.order(vm.base());
        if self.defrag.holds(region) && vm.frames().buddy().largest_free().is_none_or(|largest| largest < order) {
            vm.drop_idle_file_pages();
        }
    }

    /// Maps a huge page or a smaller block at a first touch. Returns false where neither fits or is free.
    fn first_touch(&mut self, fault: Fault, view: &PageView, vm: &mut Vm) -> Result<bool, OutOfMemory> {
        match (view.region.huge_shift, view.region.shared) {
            (0, _) if view.region.anonymous() => {}
            (0, _) => return self.files.fault(fault, view, self.huge, vm),
            (_, true) => return self.files.hugetlb_fault(fault, view, vm),
            (_, false) => return self.hugetlb_fault(fault, view, vm),
        }
        if self.allowed(&view.region)
            && let Some(first) = vm.extent_within(vm.current(), fault.vpn, self.huge, &view.region)
            && self.huge_fault(fault, view, first, vm)?
        {
            return Ok(true);
        }
        self.multi_size.fault(fault, view, vm)
    }

    /// Maps a page of the size that the program asked for by MAP_HUGETLB or by its file, whatever `enabled` says; loads get one, too. Returns
    /// false where none is free, or the machine has no such size.
    fn hugetlb_fault(&self, fault: Fault, view: &PageView, vm: &mut Vm) -> Result<bool, OutOfMemory> {
        let shift = PageShift(view.region.huge_shift);
        if !vm.options().sizes.contains(&shift) {
            return Ok(false);
        }
        let Some(first) = vm.extent_within(vm.current(), fault.vpn, shift, &view.region) else { return Ok(false) };
        let writable = fault.kind == Kind::Store;
        vm.map_superpage(first, view, Superpage { shift, rights: view.protection, writable, whole: true })
    }

    /// Maps a huge page at a first touch. Returns false where no huge page is free, so that the caller maps a base page.
    fn huge_fault(&mut self, fault: Fault, view: &PageView, first: Vpn, vm: &mut Vm) -> Result<bool, OutOfMemory> {
        self.reclaim_for(&view.region, vm);
        if fault.kind != Kind::Store && self.use_zero_page && vm.options().zero_page {
            if self.zeroes.is_none() {
                self.zeroes = vm.zero_block(self.huge);
            }
            let asid = vm.current();
            let Some(zeroes) = self.zeroes else {
                vm.tally(asid, |c| c.superpage_fallbacks += 1);
                return Ok(false);
            };
            vm.charge_fault(asid, FaultKind::ZeroPage, false);
            let pte = vm.entry(zeroes, self.huge, view.protection, false);
            vm.map(asid, first, pte, Label::Fault)?;
            return Ok(true);
        }
        let page = Superpage { shift: self.huge, rights: view.protection, writable: true, whole: false };
        vm.map_superpage(first, view, page)
    }

    /// Gives a store to the huge page of zeroes a huge page of its own. Returns false where the fault is of another kind
    /// or no huge page is free; the default path then splits the page of zeroes.
    fn store_to_zeroes(&mut self, fault: Fault, view: &PageView, vm: &mut Vm) -> Result<bool, OutOfMemory> {
        let asid = vm.current();
        let page = vm.process(asid).and_then(|process| process.table().page(fault.vpn));
        let Some(page) = page.filter(|page| page.pte.shift() == self.huge && Some(page.pte.pfn()) == self.zeroes)
        else {
            return Ok(false);
        };
        self.reclaim_for(&view.region, vm);
        let (order, index) = (self.huge.order(vm.base()), view.region.index(page.vpn, vm.base()));
        let Some(pfn) = vm.frames_mut().allocate(order, FrameKind::Anonymous, view.region.object, index) else {
            vm.tally(asid, |c| c.superpage_fallbacks += 1);
            return Ok(false);
        };
        vm.charge_fault(asid, FaultKind::Cow, false);
        vm.tally(asid, |c| c.superpage_faults += 1);
        let pte = vm.entry(pfn, self.huge, view.protection, true);
        vm.note_private_pages(asid, page.vpn, self.huge.base_pages(vm.base()));
        vm.migrate(asid, page.vpn, pte, Label::Fault)?;
        Ok(true)
    }

    /// Returns the time `millisecs` after `now`. `None`: khugepaged is off.
    fn after(&self, now: Cycles, millisecs: u64, vm: &Vm) -> Option<Cycles> {
        let cycles = superpage::cycles_in(millisecs, vm);
        self.khugepaged.then_some(Cycles(now.0.saturating_add(cycles)))
    }
}

impl System for LinuxThp {
    fn name(&self) -> &str {
        "linux-thp"
    }

    fn boot(&mut self, vm: &mut Vm) -> Result<(), SystemError> {
        self.huge = superpage::nearest(self.name(), PageShift(21), vm)?;
        self.multi_size.check(self.name(), self.huge, vm)?;
        self.files.boot(self.name(), self.huge, vm)?;
        self.next_scan = self.after(Cycles(0), self.scan_sleep_millisecs, vm);
        Ok(())
    }

    fn event(&mut self, event: &Event, vm: &mut Vm) -> Result<(), OutOfMemory> {
        if let Event::Advise(span, Advice::Collapse) = event {
            return self.collapse_span(*span, vm);
        }
        let populate = vm.apply(event)?;
        self.advised.after(event, vm)?;
        match populate {
            Some(populate) => self.populate(&populate, vm),
            None => Ok(()),
        }
    }

    fn fault(&mut self, fault: Fault, vm: &mut Vm) -> Result<(), OutOfMemory> {
        let view = vm.fault_view(fault)?;
        let done = match fault.cause {
            FaultCause::NotPresent => self.first_touch(fault, &view, vm)?,
            FaultCause::Protection if fault.kind == Kind::Store => self.store_to_zeroes(fault, &view, vm)?,
            FaultCause::Protection => false,
        };
        if done { Ok(()) } else { vm.demand_fault_in(fault, view) }
    }

    fn tick(&mut self, now: Cycles, vm: &mut Vm) -> Result<(), OutOfMemory> {
        if self.next_scan.is_none_or(|next| now < next) {
            return Ok(());
        }
        self.scan(now, vm)
    }

    fn next_tick(&self) -> Option<Cycles> {
        self.next_scan
    }
}
