//! `linux-thp`: Linux's transparent huge pages for anonymous memory, at fault time and by khugepaged.
//!
//! After: Linux 6.18, `mm/huge_memory.c` and `mm/khugepaged.c`; Documentation/admin-guide/mm/transhuge.rst for the
//! knobs, whose names and defaults are kept, but for `enabled`: distributions differ, and a comparison wants `always`.
//!
//! | Linux | here |
//! |---|---|
//! | `do_huge_pmd_anonymous_page`, `do_huge_zero_wp_pmd` | [`LinuxThp::fault`] |
//! | `do_huge_pmd_wp_page` (reuse, or split and copy a base page), splits on partial unmap, protection and mremap | `Vm` |
//! | `khugepaged_scan_mm_slot` | [`LinuxThp::tick`] |
//! | `hpage_collapse_scan_pmd`, `collapse_huge_page` | [`LinuxThp::collapse`] |
//!
//! Deviations: no compaction (what pre-fragmentation takes is unmovable anyway): `defrag` only says whether a fault
//! may first drop unmapped file pages; stacks get none, because a stack's region is small until it has grown; no
//! multi-size THP (off by default), no huge pages of files. khugepaged's cycles are charged to `daemon` as if it ran
//! on the program's processor. On machines without a 2 MB page the smallest larger size, else the largest, takes its
//! place, and limits on page-table entries scale with it.

use crate::{Accepts, Setting, Settings, System, SystemError, superpage};
use reach_core::{Advice, Asid, Cycles, Event, Fault, FaultCause, Kind, Label, PageShift, Role, Span, Vpn};
use reach_os::{FaultKind, FrameKind, OutOfMemory, PageView, Region, Superpage, Vm};

const PTES: u64 = 512;

pub(crate) const SETTINGS: &[Setting] = &[
    Setting {
        name: "enabled",
        summary: "which anonymous memory may have huge pages: all, only what MADV_HUGEPAGE names, none",
        accepts: Accepts::Choice(&["always", "madvise", "never"]),
        default: "always",
    },
    Setting {
        name: "defrag",
        summary: "whose faults may drop unmapped file pages to get a huge page",
        accepts: Accepts::Choice(&["always", "madvise", "never"]),
        default: "madvise",
    },
    Setting {
        name: "use_zero_page",
        summary: "loads from untouched memory share a huge page of zeroes (1) or get one of their own (0)",
        accepts: Accepts::Number { least: 0, most: 1 },
        default: "1",
    },
    Setting {
        name: "khugepaged",
        summary: "the daemon that collapses base pages runs (1) or not (0)",
        accepts: Accepts::Number { least: 0, most: 1 },
        default: "1",
    },
    Setting {
        name: "pages_to_scan",
        summary: "base pages that khugepaged looks at each time it wakes",
        accepts: Accepts::Number { least: 1, most: u32::MAX as u64 },
        default: "4096",
    },
    Setting {
        name: "scan_sleep_millisecs",
        summary: "how long khugepaged sleeps between scans",
        accepts: Accepts::Number { least: 1, most: u32::MAX as u64 },
        default: "10000",
    },
    Setting {
        name: "alloc_sleep_millisecs",
        summary: "how long khugepaged sleeps when it finds no huge page",
        accepts: Accepts::Number { least: 1, most: u32::MAX as u64 },
        default: "60000",
    },
    Setting {
        name: "max_ptes_none",
        summary: "how many of 512 pages may be missing in what khugepaged collapses",
        accepts: Accepts::Number { least: 0, most: PTES - 1 },
        default: "511",
    },
    Setting {
        name: "max_ptes_shared",
        summary: "how many of 512 pages may be shared with other processes in what khugepaged collapses",
        accepts: Accepts::Number { least: 0, most: PTES - 1 },
        default: "256",
    },
];

/// Transparent huge pages.
pub(crate) struct LinuxThp {
    enabled: Wanted,
    defrag: Wanted,
    use_zero_page: bool,
    khugepaged: bool,
    pages_to_scan: u64,
    scan_sleep_millisecs: u64,
    alloc_sleep_millisecs: u64,
    max_ptes_none: u64,
    max_ptes_shared: u64,
    huge: PageShift,
    /// The huge page of zeroes, once there is one.
    zeroes: Option<reach_core::Pfn>,
    /// Where khugepaged goes on scanning: address space and byte.
    cursor: (Asid, u64),
    wake: Option<Cycles>,
}

#[derive(Clone, Copy, PartialEq)]
enum Wanted {
    Always,
    Madvise,
    Never,
}

impl Wanted {
    fn read(word: &str) -> Wanted {
        match word {
            "always" => Wanted::Always,
            "madvise" => Wanted::Madvise,
            _ => Wanted::Never,
        }
    }

    fn applies(self, region: &Region) -> bool {
        match self {
            Wanted::Always => region.huge != Some(false),
            Wanted::Madvise => region.huge == Some(true),
            Wanted::Never => false,
        }
    }
}

/// How [`LinuxThp::collapse`] judges an extent.
#[derive(Clone, Copy, PartialEq)]
enum Collapser {
    /// khugepaged, which has limits.
    Daemon,
    /// The program itself, by MADV_COLLAPSE, which has none.
    Program,
}

#[derive(PartialEq)]
enum Collapse {
    Done,
    Unfit,
    NoMemory,
}

impl LinuxThp {
    pub(crate) fn new(settings: &Settings) -> LinuxThp {
        LinuxThp {
            enabled: Wanted::read(settings.choice("enabled")),
            defrag: Wanted::read(settings.choice("defrag")),
            use_zero_page: settings.number("use_zero_page") == 1,
            khugepaged: settings.number("khugepaged") == 1,
            pages_to_scan: settings.number("pages_to_scan"),
            scan_sleep_millisecs: settings.number("scan_sleep_millisecs"),
            alloc_sleep_millisecs: settings.number("alloc_sleep_millisecs"),
            max_ptes_none: settings.number("max_ptes_none"),
            max_ptes_shared: settings.number("max_ptes_shared"),
            huge: PageShift(21),
            zeroes: None,
            cursor: (Asid(0), 0),
            wake: None,
        }
    }

    /// `thp_vma_allowable_order` for anonymous memory.
    fn allowed(&self, region: &Region) -> bool {
        region.anonymous() && region.role != Role::Stack && self.enabled.applies(region)
    }

    fn reclaim_for(&self, region: &Region, vm: &mut Vm) {
        let order = self.huge.order(vm.base());
        if self.defrag.applies(region) && vm.frames().buddy().largest_free().is_none_or(|largest| largest < order) {
            vm.drop_idle_file_pages();
        }
    }

    /// Answers a first touch with a huge page. `false`: base pages must do.
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

    /// A store to the huge page of zeroes gets a huge page of its own, if there is one; else it is split as any other.
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
        let pte = vm.entry(pfn, self.huge, view.protection, true);
        vm.own(asid, page.vpn, self.huge.base_pages(vm.base()));
        vm.migrate(asid, page.vpn, pte, Label::Fault)?;
        Ok(true)
    }

    /// Makes the extent at `first`, which lies within `region`, one huge page by copying, if it is worth it.
    fn collapse(
        &mut self,
        asid: Asid,
        first: Vpn,
        region: &Region,
        who: Collapser,
        vm: &mut Vm,
    ) -> Result<Collapse, OutOfMemory> {
        let base = vm.base();
        let pages = self.huge.base_pages(base);
        let Some(process) = vm.process(asid) else { return Ok(Collapse::Unfit) };
        let entries = process.table().pages(first, pages);
        if entries.is_empty() || entries.iter().any(|entry| entry.pte.shift() >= self.huge) {
            return Ok(Collapse::Unfit);
        }
        let (mut present, mut shared, mut accessed, mut writable) = (0, 0, false, false);
        for entry in &entries {
            let n = entry.pte.shift().base_pages(base);
            let frame = vm.frames().get(entry.pte.pfn());
            present += if frame.kind == FrameKind::Zero { 0 } else { n };
            shared += if frame.kind != FrameKind::Zero && frame.maps > 1 { n } else { 0 };
            accessed |= entry.pte.accessed();
            writable |= entry.pte.writable();
        }
        // The limits are per 512 entries; other machines' superpages hold other numbers.
        let limit = |of_512: u64| of_512 * pages / PTES;
        if who == Collapser::Daemon {
            vm.ledger.charge(Label::Daemon, pages * vm.options().costs.scan_per_page);
            let sparse = present == 0 || pages - present > limit(self.max_ptes_none).min(pages - 1);
            if sparse || shared > limit(self.max_ptes_shared) || !accessed || !writable {
                return Ok(Collapse::Unfit);
            }
        }
        self.reclaim_for(region, vm);
        let (order, index) = (self.huge.order(base), region.index(first, base));
        let Some(pfn) = vm.frames_mut().allocate(order, FrameKind::Anonymous, region.object, index) else {
            vm.tally(asid, |c| c.superpage_fallbacks += 1);
            return Ok(Collapse::NoMemory);
        };
        let label = if who == Collapser::Daemon { Label::Daemon } else { Label::Copy };
        let pte = vm.entry(pfn, self.huge, region.protection, true);
        vm.own(asid, first, pages);
        vm.migrate(asid, first, pte, label)?;
        Ok(Collapse::Done)
    }

    /// The first extent at or after the cursor that khugepaged should look at, in the order of address spaces.
    fn next_extent(&self, vm: &Vm) -> Option<(Asid, Vpn, Region)> {
        let size = self.huge.bytes();
        for (asid, process) in vm.processes().filter(|&(asid, _)| asid >= self.cursor.0) {
            let from = if asid == self.cursor.0 { self.cursor.1 } else { 0 };
            for region in process.space().regions().filter(|region| region.end > from && self.allowed(region)) {
                let start = region.start.max(from).next_multiple_of(size);
                if start + size <= region.end {
                    return Some((asid, Vpn(start >> vm.base().0), *region));
                }
            }
        }
        None
    }

    fn collapse_span(&mut self, span: Span, vm: &mut Vm) -> Result<(), OutOfMemory> {
        let (asid, base, size) = (vm.current(), vm.base(), self.huge.bytes());
        let regions: Vec<Region> = match vm.process(asid) {
            Some(process) => process.space().overlapping(span.start.0, span.end().0).copied().collect(),
            None => return Ok(()),
        };
        for region in regions.iter().filter(|region| region.anonymous() && region.role != Role::Stack) {
            let mut at = region.start.max(span.start.0).next_multiple_of(size);
            while at + size <= region.end.min(span.end().0) {
                self.collapse(asid, Vpn(at >> base.0), region, Collapser::Program, vm)?;
                at += size;
            }
        }
        Ok(())
    }

    fn after(&self, now: Cycles, millisecs: u64, vm: &Vm) -> Option<Cycles> {
        let cycles = (millisecs as u128 * vm.options().hertz as u128 / 1000) as u64;
        self.khugepaged.then_some(Cycles(now.0.saturating_add(cycles)))
    }
}

impl System for LinuxThp {
    fn name(&self) -> &str {
        "linux-thp"
    }

    fn boot(&mut self, vm: &mut Vm) -> Result<(), SystemError> {
        self.huge = superpage::nearest(self.name(), PageShift(21), vm)?;
        self.wake = self.after(Cycles(0), self.scan_sleep_millisecs, vm);
        Ok(())
    }

    fn event(&mut self, event: &Event, vm: &mut Vm) -> Result<(), OutOfMemory> {
        if let Event::Advise(span, Advice::Collapse) = event {
            return self.collapse_span(*span, vm);
        }
        match vm.apply(event)? {
            Some(populate) => self.populate(&populate, vm),
            None => Ok(()),
        }
    }

    fn fault(&mut self, fault: Fault, vm: &mut Vm) -> Result<(), OutOfMemory> {
        let view = vm.fault_view(fault)?;
        let done = match fault.cause {
            FaultCause::NotPresent if self.allowed(&view.region) => {
                match vm.extent_within(vm.current(), fault.vpn, self.huge, &view.region) {
                    Some(first) => self.huge_fault(fault, &view, first, vm)?,
                    None => false,
                }
            }
            FaultCause::Protection if fault.kind == Kind::Store => self.store_to_zeroes(fault, &view, vm)?,
            FaultCause::NotPresent | FaultCause::Protection => false,
        };
        if done { Ok(()) } else { vm.demand_fault_in(fault, view) }
    }

    fn wake(&self) -> Option<Cycles> {
        self.wake
    }

    fn tick(&mut self, now: Cycles, vm: &mut Vm) -> Result<(), OutOfMemory> {
        if self.wake.is_none_or(|wake| now < wake) {
            return Ok(());
        }
        self.wake = self.after(now, self.scan_sleep_millisecs, vm);
        let mut left = self.pages_to_scan;
        while left > 0 {
            let Some((asid, first, region)) = self.next_extent(vm) else {
                self.cursor = (Asid(0), 0);
                break;
            };
            self.cursor = (asid, (first.0 << vm.base().0) + self.huge.bytes());
            left = left.saturating_sub(self.huge.base_pages(vm.base()));
            if self.collapse(asid, first, &region, Collapser::Daemon, vm)? == Collapse::NoMemory {
                self.wake = self.after(now, self.alloc_sleep_millisecs, vm);
                break;
            }
        }
        Ok(())
    }
}
