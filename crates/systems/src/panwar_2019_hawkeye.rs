//! `panwar-2019-hawkeye`: huge pages at faults from memory that is zeroed already, and promotion of the extents whose base pages
//! are accessed most widely.
//!
//! After: Panwar, Bansal and Gopinath, "HawkEye: Efficient Fine-grained OS Support for Huge Pages", ASPLOS 2019. What is said of
//! it here is from its abstract and from what is generally known of the design.
//!
//! | design | here |
//! |---|---|
//! | a thread zeroes free pages ahead of their use, at a limited rate | `prezero.rs` |
//! | faults take huge pages where memory has them | `linux_thp.rs`, with its daemon off |
//! | access bits are cleared, and counted after a while: the access coverage of an extent | [`HawkEye::sample`] |
//! | an average that forgets, and ten buckets of coverage; promotion from the highest | [`HawkEye::promote`] |
//!
//! Readings: coverage is sampled every 30 seconds for one second, as an average that takes in one half of each new sample. The
//! processes of a bucket take turns.
//!
//! Deviations: pages full of zeroes are not found again and freed, because what memory holds is not known. Processes are not ranked by
//! what their misses cost, which is the paper's variant with counters. What the threads do is charged to `daemon`; zeroing ahead is
//! not charged.

use crate::collapse::{Census, Collapse, copy_into_block, extents};
use crate::description::{self, Description};
use crate::error::SystemError;
use crate::evidence::{Criterion, Evidence};
use crate::linux_thp::{self, LinuxThp};
use crate::prezero::{self, Prezero};
use crate::settings::{Accepts, Setting, Settings, Unit};
use crate::superpage;
use crate::system::System;
use reach_core::{Asid, Cycles, Event, Fault, Label, PageShift, PageTableKind, Vpn};
use reach_os::{OutOfMemory, Region, Vm};
use std::collections::BTreeMap;

/// The entry of the table of systems.
pub(crate) const DESCRIPTION: Description = Description {
    name: "panwar-2019-hawkeye",
    summary: "huge pages zeroed ahead of their faults, and promotion by access coverage (HawkEye)",
    role: description::Role::Design,
    compared: false,
    published: Some(
        "Panwar, Bansal and Gopinath: HawkEye: Efficient Fine-grained OS Support for Huge Pages, ASPLOS 2019",
    ),
    criterion: Criterion::new(Evidence::Superpages, "mapped no huge page, neither at a fault nor by coverage"),
    page_table: PageTableKind::Radix,
    settings: SETTINGS,
    build: |settings| Box::new(HawkEye::new(settings)),
};

const SETTINGS: &[Setting] = &[
    Setting::new("huge_faults", Accepts::Switch, "on", "whether faults take huge pages, as far as memory has them"),
    prezero::RATE,
    Setting::new(
        "sample_millisecs",
        Accepts::number(1, 600_000, Unit::Milliseconds),
        "30000",
        "the time between two samples of access bits",
    ),
    Setting::new(
        "window_millisecs",
        Accepts::number(1, 600_000, Unit::Milliseconds),
        "1000",
        "how long access bits are collected for a sample",
    ),
    Setting::new(
        "pages_per_sample",
        Accepts::number(1, 1 << 20, Unit::Count),
        "64",
        "huge pages that are promoted after a sample, at most",
    ),
];

/// Buckets of access coverage.
const BUCKETS: u64 = 10;

/// Huge pages by access coverage.
pub(crate) struct HawkEye {
    faults: LinuxThp,
    prezero: Prezero,
    sample_millisecs: u64,
    window_millisecs: u64,
    pages_per_sample: u64,
    huge: PageShift,
    /// The average coverage of extents, in base pages, by address space and first base page.
    coverage: BTreeMap<(Asid, Vpn), u64>,
    /// Access bits have been cleared, and are being collected.
    collecting: bool,
    next: Cycles,
}

impl HawkEye {
    pub(crate) fn new(settings: &Settings) -> HawkEye {
        let mut faults = Settings::defaults(linux_thp::SETTINGS);
        faults.replace("khugepaged", "off");
        if !settings.is_on("huge_faults") {
            faults.replace("enabled", "never");
        }
        HawkEye {
            faults: LinuxThp::new(&faults),
            prezero: Prezero::new(settings.megabytes(prezero::RATE.name).0),
            sample_millisecs: settings.number("sample_millisecs"),
            window_millisecs: settings.number("window_millisecs"),
            pages_per_sample: settings.number("pages_per_sample"),
            huge: PageShift(21),
            coverage: BTreeMap::new(),
            collecting: false,
            next: Cycles(0),
        }
    }

    /// Clears the access bits of base pages.
    fn clear(&mut self, vm: &mut Vm) -> Result<(), OutOfMemory> {
        let pages = self.huge.base_pages(vm.base());
        for (asid, first, _) in extents(self.huge, vm) {
            let census = Census::of(asid, first, self.huge, vm);
            if census.pages.iter().all(|page| page.pte.shift() < self.huge) && census.accessed {
                vm.protect(asid, first, pages, Label::Daemon, |_, entry| entry.pte.with_accessed(false))?;
            }
        }
        Ok(())
    }

    /// Takes what was accessed since then into the averages.
    fn sample(&mut self, vm: &mut Vm) {
        let mut seen = BTreeMap::new();
        for (asid, first, _) in extents(self.huge, vm) {
            let census = Census::of(asid, first, self.huge, vm);
            vm.charge(Label::Daemon, census.pages.len() as u64 * vm.options().costs.scan_per_page);
            if census.present == 0 || census.pages.iter().any(|page| page.pte.shift() >= self.huge) {
                continue;
            }
            let accessed = census.pages.iter().filter(|page| page.pte.accessed()).count() as u64;
            let before = self.coverage.get(&(asid, first)).copied();
            seen.insert((asid, first), before.map_or(accessed, |before| (before + accessed) / 2));
        }
        self.coverage = seen;
    }

    /// Promotes the extents of the highest buckets, whose processes take turns.
    fn promote(&mut self, vm: &mut Vm) -> Result<(), OutOfMemory> {
        let pages = self.huge.base_pages(vm.base());
        let bucket = |coverage: u64| (coverage * BUCKETS / pages).min(BUCKETS - 1);
        // The number of a process's extent in its bucket says whose turn it is.
        let mut turns: BTreeMap<(u64, Asid), u64> = BTreeMap::new();
        let mut ranked = Vec::new();
        for (&(asid, first), &coverage) in self.coverage.iter().filter(|(_, coverage)| **coverage > 0) {
            let turn = turns.entry((bucket(coverage), asid)).or_default();
            ranked.push((BUCKETS - bucket(coverage), *turn, asid, first));
            *turn += 1;
        }
        ranked.sort();
        let regions: BTreeMap<(Asid, Vpn), Region> =
            extents(self.huge, vm).into_iter().map(|(asid, first, region)| ((asid, first), region)).collect();
        let mut left = self.pages_per_sample;
        for (.., asid, first) in ranked {
            let Some(region) = regions.get(&(asid, first)).filter(|_| left > 0) else { continue };
            if Census::of(asid, first, self.huge, vm).shared > 0 {
                continue;
            }
            if copy_into_block(asid, first, self.huge, region, Label::Daemon, vm)? == Collapse::NoMemory {
                break;
            }
            self.coverage.remove(&(asid, first));
            left -= 1;
        }
        Ok(())
    }
}

impl System for HawkEye {
    fn name(&self) -> &str {
        DESCRIPTION.name
    }

    fn boot(&mut self, vm: &mut Vm) -> Result<(), SystemError> {
        self.faults.boot(vm)?;
        self.huge = superpage::nearest(DESCRIPTION.name, PageShift(21), vm)?;
        self.prezero.boot(vm);
        self.next = Cycles(superpage::cycles_in(self.sample_millisecs, vm));
        Ok(())
    }

    fn event(&mut self, event: &Event, vm: &mut Vm) -> Result<(), OutOfMemory> {
        self.faults.event(event, vm)
    }

    fn fault(&mut self, fault: Fault, vm: &mut Vm) -> Result<(), OutOfMemory> {
        self.faults.fault(fault, vm)
    }

    fn tick(&mut self, now: Cycles, vm: &mut Vm) -> Result<(), OutOfMemory> {
        if now < self.next {
            return Ok(());
        }
        self.prezero.tick(now, vm);
        if self.collecting {
            self.sample(vm);
            self.promote(vm)?;
        } else {
            self.clear(vm)?;
        }
        self.collecting = !self.collecting;
        let pause = if self.collecting { self.window_millisecs } else { self.sample_millisecs };
        self.next = now + superpage::cycles_in(pause, vm);
        Ok(())
    }

    fn next_tick(&self) -> Option<Cycles> {
        Some(self.next)
    }
}
