//! `mansi-2022-cbmm`: the kernel does for memory what saves the program more cycles than it costs, by a profile of an earlier run.
//!
//! After: Mansi, Tabatabai and Swift, "CBMM: Financial Advice for Kernel Memory Managers", USENIX ATC 2022. At hand were its
//! abstract, the source of its kernel (mm/estimator.c, mm/memory.c, mm/khugepaged.c and mm/asynczero) and the numbers, profiles and
//! scripts of its artifact; the text of the paper was not.
//!
//! | kernel | here |
//! |---|---|
//! | `mm_decide`: only what has a greater benefit than cost | [`Estimate::is_worth_it`] |
//! | `mm_estimate_huge_page_promote_cost_benefit`, at each fault that may get a huge page | [`Cbmm::huge_page`] |
//! | `mm_estimate_huge_page_reclaim_cost`, where no block is free | [`Cbmm::reclaim`] |
//! | `mm_estimate_eager_page_cost_benefit`, at each new mapping | [`Cbmm::page_eagerly`] |
//! | `mm_estimate_async_prezeroing_benefit` and `mm_estimate_daemon_cost`, asynczero | [`Cbmm::zero_ahead`] |
//! | profiles, as text | `profile.rs` |
//! | faults and allocation, if the answer is yes | `linux_thp.rs`, with its daemon off |
//!
//! Readings: costs and the benefit of zeroing are the constants of the artifact's kernel, in cycles. Its estimate of what khugepaged and
//! compaction gain is 0, so neither ever runs, and an address without a line in the profile never gets a huge page. Recent use
//! of zeroed memory is that of the last 10 to 20 seconds (the kernel's long time unit has 10). asynczero zeroes ten pages each
//! time it wakes; here they are huge pages, every 10 ms. Only huge pages are taken from what is zeroed. Memory that is free at boot is
//! zeroed, as on a computer that has run such programs before.
//!
//! Deviations: one profile holds for all processes of the program. Other properties of mappings than section and address are not
//! compared; the artifact's profiles name no others. Memory that asynczero has zeroed is counted, not found: the next huge page is
//! zeroed if any is. Its lock is never contended. Asking the estimator costs nothing. With `promotion=on`, which the
//! kernel has not, a daemon copies extents into huge pages where the estimate for a fault allows it.

use crate::collapse::{Census, Collapse, copy_into_block, extents};
use crate::description::{self, Description};
use crate::error::SystemError;
use crate::evidence::{Criterion, Evidence};
use crate::linux_thp::{self, LinuxThp};
use crate::profile::{Profile, Section};
use crate::settings::{Accepts, Setting, Settings, Unit};
use crate::superpage;
use crate::system::System;
use reach_core::{Advice, Cycles, Event, Fault, FaultCause, Kind, Label, Map, PageShift, PageTableKind};
use reach_os::{OutOfMemory, Populate, Region, Vm};

/// The entry of the table of systems.
pub(crate) const DESCRIPTION: Description = Description {
    name: "mansi-2022-cbmm",
    summary: "huge pages where a profile says that they save more cycles than they cost (CBMM)",
    role: description::Role::Design,
    compared: false,
    published: Some("Mansi, Tabatabai and Swift: CBMM: Financial Advice for Kernel Memory Managers, USENIX ATC 2022"),
    criterion: Criterion::new(
        Evidence::Superpages,
        "mapped no huge page: nowhere does one save more than it costs, by its profile",
    ),
    page_table: PageTableKind::Radix,
    settings: SETTINGS,
    build: |settings| Box::new(Cbmm::new(settings)),
};

const SETTINGS: &[Setting] = &[
    Setting::new(
        "profile",
        Accepts::Profile,
        "none",
        "what huge pages and eager paging save, by section and address; memory that it does not name gets neither",
    ),
    Setting::new(
        "zero_cycles",
        Accepts::number(0, 1 << 40, Unit::Cycles),
        "200000",
        "the estimated cost of zeroing a huge page at a fault, or of copying into one",
    ),
    Setting::new(
        "no_block_cycles",
        Accepts::number(0, 1 << 40, Unit::Cycles),
        "4294967296",
        "the estimated cost of a huge page for which no block is free",
    ),
    Setting::new(
        "reclaim_cycles",
        Accepts::number(0, 1 << 40, Unit::Cycles),
        "1000000000",
        "the estimated cost of reclaiming memory for a huge page, on top",
    ),
    Setting::new(
        "eager_micros",
        Accepts::number(0, 1_000_000, Unit::Microseconds),
        "10",
        "the estimated cost of a page before its first touch",
    ),
    Setting::new(
        "prezero",
        Accepts::Switch,
        "on",
        "whether free memory is zeroed ahead of its use, where recent use makes that worth it",
    ),
    Setting::new(
        "prezero_pages",
        Accepts::number(1, 1 << 20, Unit::Count),
        "10",
        "huge pages that are zeroed ahead every 10 ms, at most",
    ),
    Setting::new(
        "zeroed_at_boot",
        Accepts::Switch,
        "on",
        "whether the memory that is free at boot has been zeroed, if prezero is on",
    ),
    Setting::new(
        "idle_processor",
        Accepts::Switch,
        "on",
        "whether a processor is idle, on which zeroing ahead costs nothing",
    ),
    Setting::new(
        "promotion",
        Accepts::Switch,
        "off",
        "whether a daemon copies into huge pages, where that is worth it; the published kernel never does",
    ),
    Setting::new(
        "promotion_millisecs",
        Accepts::number(1, 600_000, Unit::Milliseconds),
        "10000",
        "the time between two scans of the promoting daemon",
    ),
];

/// The estimated benefit of a huge page that is zeroed ahead, in cycles.
const ZEROING_SAVES: u64 = 1_000_000;

/// The estimated cost of zeroing a huge page ahead where no processor is idle, in cycles.
const ZEROING_COSTS: u64 = 100_000;

/// The time between two decisions to zero ahead.
const PREZERO_MILLISECS: u64 = 10;

/// The kernel's long time unit, in which use is called recent.
const RECENT_MILLISECS: u64 = 10_000;

/// Cost and benefit of an action for the program, in cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Estimate {
    cost: u64,
    benefit: u64,
}

impl Estimate {
    fn is_worth_it(self) -> bool {
        self.benefit > self.cost
    }
}

/// Memory management by costs and benefits.
pub(crate) struct Cbmm {
    linux: LinuxThp,
    profile: Profile,
    zero_cycles: u64,
    no_block_cycles: u64,
    reclaim_cycles: u64,
    eager_micros: u64,
    prezero: bool,
    prezero_pages: u64,
    zeroed_at_boot: bool,
    idle_processor: bool,
    promotion: bool,
    promotion_millisecs: u64,
    huge: PageShift,
    /// Free huge pages that are zeroed.
    zeroed: u64,
    /// Huge pages that faults took in this long time unit and in the one before.
    used: [u64; 2],
    unit_ends: Cycles,
    next_zeroing: Cycles,
    next_scan: Cycles,
}

impl Cbmm {
    pub(crate) fn new(settings: &Settings) -> Cbmm {
        let mut linux = Settings::defaults(linux_thp::SETTINGS);
        linux.replace("khugepaged", "off");
        Cbmm {
            linux: LinuxThp::new(&linux),
            profile: settings.profile("profile"),
            zero_cycles: settings.number("zero_cycles"),
            no_block_cycles: settings.number("no_block_cycles"),
            reclaim_cycles: settings.number("reclaim_cycles"),
            eager_micros: settings.number("eager_micros"),
            prezero: settings.is_on("prezero"),
            prezero_pages: settings.number("prezero_pages"),
            zeroed_at_boot: settings.is_on("zeroed_at_boot"),
            idle_processor: settings.is_on("idle_processor"),
            promotion: settings.is_on("promotion"),
            promotion_millisecs: settings.number("promotion_millisecs"),
            huge: PageShift(21),
            zeroed: 0,
            used: [0; 2],
            unit_ends: Cycles(0),
            next_zeroing: Cycles(0),
            next_scan: Cycles(0),
        }
    }

    /// Returns how many huge pages free memory holds.
    fn free_huge_pages(&self, vm: &Vm) -> u64 {
        let (buddy, order) = (vm.frames().buddy(), self.huge.order(vm.base()));
        (buddy.free_frames() - buddy.free_below(order)) >> order
    }

    /// Returns what a huge page costs and saves at `address` of memory in `section`, of which `prepared` pages need no zeroing.
    fn huge_page(&self, section: Section, address: u64, free: u64, prepared: u64) -> Estimate {
        let allocation = if free > 0 { 0 } else { self.no_block_cycles };
        let preparation = if prepared > 0 { 0 } else { self.zero_cycles };
        Estimate { cost: allocation + preparation, benefit: self.profile.of_huge_page(section, address) }
    }

    /// Returns what a huge page costs and saves for which memory is reclaimed.
    fn reclaim(&self, page: Estimate) -> Estimate {
        Estimate { cost: page.cost + self.reclaim_cycles, ..page }
    }

    /// Returns the region at a fault and whether a huge page, and reclaiming for it, are worth it there.
    fn decide(&mut self, fault: Fault, vm: &Vm) -> (Option<Region>, bool, bool) {
        let address = fault.vpn.addr(vm.base());
        let region = vm.process(vm.current()).and_then(|process| process.space().find(address)).copied();
        // Memory of which no event told, as in traces without events, counts as mapped by a call.
        let section = region.map_or(Some(Section::Mmap), |region| Section::of(region.role, region.protection));
        let Some(section) = section.filter(|&section| self.profile.of_huge_page(section, address.0) > 0) else {
            return (region, false, false);
        };
        let free = self.free_huge_pages(vm);
        self.zeroed = self.zeroed.min(free);
        let page = self.huge_page(section, address.0, free, self.zeroed);
        (region, page.is_worth_it(), free == 0 && self.reclaim(page).is_worth_it())
    }

    /// Whether a fault for which a huge page is worth it takes a block and zeroes it.
    fn takes_block(&self, fault: Fault, region: &Region, vm: &Vm) -> bool {
        let stores = fault.kind == Kind::Store || !vm.options().zero_page;
        let fits = || vm.extent_within(vm.current(), fault.vpn, self.huge, region).is_some();
        let may = linux_thp::is_candidate(region) && region.huge != Some(false) && region.huge_shift == 0;
        fault.cause == FaultCause::NotPresent && stores && may && fits()
    }

    /// Faults in the parts of a new mapping that the profile says are worth it.
    fn page_eagerly(&mut self, map: &Map, vm: &mut Vm) -> Result<(), OutOfMemory> {
        let Some(section) = Section::of(map.role, map.protection).filter(|_| map.protection.read) else {
            return Ok(());
        };
        let cost = self.eager_micros * vm.options().hertz / 1_000_000;
        let parts = self.profile.of_eager_paging(section, map.span);
        let parts: Vec<_> = parts.filter(|&(_, benefit)| Estimate { cost, benefit }.is_worth_it()).collect();
        let shift = vm.base().0;
        for (part, _) in parts {
            let pages = part.start >> shift..((part.end - 1) >> shift) + 1;
            self.populate(&Populate { pages, write: map.protection.write && !map.shared }, vm)?;
        }
        Ok(())
    }

    /// Zeroes free memory, if recent use makes that worth it.
    fn zero_ahead(&mut self, vm: &mut Vm) {
        let free = self.free_huge_pages(vm);
        self.zeroed = self.zeroed.min(free);
        let benefit = self.prezero_pages.min(self.used.iter().sum()) * ZEROING_SAVES;
        let cost = if self.idle_processor { 0 } else { self.prezero_pages * ZEROING_COSTS };
        if !(Estimate { cost, benefit }).is_worth_it() {
            return;
        }
        let pages = self.prezero_pages.min(free - self.zeroed);
        self.zeroed += pages;
        if !self.idle_processor {
            let cycles = vm.options().costs.zero_per_byte.times(pages * self.huge.bytes()).0;
            vm.charge(Label::Daemon, cycles);
        }
    }

    /// Copies extents with base pages into huge pages, where that is worth it.
    fn promote(&mut self, vm: &mut Vm) -> Result<(), OutOfMemory> {
        for (asid, first, region) in extents(self.huge, vm) {
            let Some(section) = Section::of(region.role, region.protection) else { continue };
            let address = first.addr(vm.base()).0;
            if !self.huge_page(section, address, self.free_huge_pages(vm), 0).is_worth_it() {
                continue;
            }
            let census = Census::of(asid, first, self.huge, vm);
            vm.charge(Label::Daemon, census.pages.len() as u64 * vm.options().costs.scan_per_page);
            let is_huge = census.pages.iter().any(|page| page.pte.shift() >= self.huge);
            if is_huge || census.present == 0 || census.shared > 0 {
                continue;
            }
            if copy_into_block(asid, first, self.huge, &region, Label::Daemon, vm)? == Collapse::NoMemory {
                break;
            }
        }
        Ok(())
    }

    fn after(&self, now: Cycles, millisecs: u64, vm: &Vm) -> Cycles {
        Cycles(now.0.saturating_add(superpage::cycles_in(millisecs, vm)))
    }
}

impl System for Cbmm {
    fn name(&self) -> &str {
        DESCRIPTION.name
    }

    fn boot(&mut self, vm: &mut Vm) -> Result<(), SystemError> {
        self.linux.boot(vm)?;
        self.huge = superpage::nearest(DESCRIPTION.name, PageShift(21), vm)?;
        if self.prezero && self.zeroed_at_boot {
            self.zeroed = self.free_huge_pages(vm);
        }
        self.unit_ends = self.after(Cycles(0), RECENT_MILLISECS, vm);
        self.next_zeroing = self.after(Cycles(0), PREZERO_MILLISECS, vm);
        self.next_scan = self.after(Cycles(0), self.promotion_millisecs, vm);
        Ok(())
    }

    fn event(&mut self, event: &Event, vm: &mut Vm) -> Result<(), OutOfMemory> {
        if let Event::Advise(_, Advice::Collapse) = event {
            return self.linux.event(event, vm);
        }
        if let Some(populate) = vm.apply(event)? {
            self.populate(&populate, vm)?;
        }
        match event {
            Event::Map(map) => self.page_eagerly(map, vm),
            _ => Ok(()),
        }
    }

    fn fault(&mut self, fault: Fault, vm: &mut Vm) -> Result<(), OutOfMemory> {
        let (region, huge, reclaim) = self.decide(fault, vm);
        self.linux.admit(huge, reclaim);
        let takes = huge && region.is_some_and(|region| self.takes_block(fault, &region, vm));
        if takes && self.zeroed > 0 {
            // The fault itself takes all of it, because it maps a huge page.
            self.zeroed -= 1;
            vm.zero_ahead(self.huge.bytes());
        }
        let before = vm.counters().superpage_faults;
        self.linux.fault(fault, vm)?;
        self.used[0] += u64::from(takes && vm.counters().superpage_faults > before);
        Ok(())
    }

    fn tick(&mut self, now: Cycles, vm: &mut Vm) -> Result<(), OutOfMemory> {
        if now >= self.unit_ends {
            self.used = [0, self.used[0]];
            self.unit_ends = self.after(now, RECENT_MILLISECS, vm);
        }
        if self.prezero && now >= self.next_zeroing {
            self.zero_ahead(vm);
            self.next_zeroing = self.after(now, PREZERO_MILLISECS, vm);
        }
        if self.promotion && now >= self.next_scan {
            self.next_scan = self.after(now, self.promotion_millisecs, vm);
            return self.promote(vm);
        }
        Ok(())
    }

    fn next_tick(&self) -> Option<Cycles> {
        let zeroing = self.prezero.then_some(self.next_zeroing);
        let scan = self.promotion.then_some(self.next_scan);
        zeroing.into_iter().chain(scan).min()
    }
}
