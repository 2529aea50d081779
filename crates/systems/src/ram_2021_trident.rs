//! `ram-2021-trident`: pages of 1 GB at first touch, then of 2 MB, and promotion to either.
//!
//! After: Ram, Panwar and Basu, "Trident: Harnessing Architectural Resources for All Page Sizes in x86 Processors", MICRO 2021.
//! What is said of it here is from its abstract and from what is generally known of the design.
//!
//! | design | here |
//! |---|---|
//! | a fault takes the largest page that its mapping holds and memory has | [`Trident::fault`] |
//! | blocks for large pages are zeroed ahead of their use | `prezero.rs` |
//! | khugepaged promotes to 1 GB, then to 2 MB | [`Trident::scan`], and `linux_thp/khugepaged.rs` |
//!
//! Readings: an extent of 1 GB is promoted once half of it is in use, and it holds no page of 1 GB yet. The daemon wakes as
//! khugepaged does.
//!
//! Deviations: there is no compaction, here as in `linux-thp`, so the paper's smart compaction has no counterpart. The exchange of page
//! tables in place of copies in guests is left out. A machine without pages of 1 GB has only those of 2 MB.

use crate::collapse::{Census, Collapse, copy_into_block, may_be_huge};
use crate::description::{self, Description};
use crate::error::SystemError;
use crate::evidence::{Criterion, Evidence};
use crate::linux_thp::{self, LinuxThp};
use crate::prezero::{self, Prezero};
use crate::settings::{Accepts, Setting, Settings, Unit};
use crate::superpage;
use crate::system::System;
use reach_core::{Cycles, Event, Fault, FaultCause, Label, PageShift, PageTableKind, Vpn};
use reach_os::{OutOfMemory, Region, Superpage, Vm};

/// The entry of the table of systems.
pub(crate) const DESCRIPTION: Description = Description {
    name: "ram-2021-trident",
    summary: "pages of 1 GB and 2 MB at first touch and by promotion (Trident)",
    role: description::Role::Design,
    compared: false,
    published: Some(
        "Ram, Panwar and Basu: Trident: Harnessing Architectural Resources for All Page Sizes in x86 Processors, MICRO 2021",
    ),
    criterion: Criterion::new(Evidence::Superpages, "mapped no page larger than the base page"),
    page_table: PageTableKind::Radix,
    settings: SETTINGS,
    build: |settings| Box::new(Trident::new(settings)),
};

const SETTINGS: &[Setting] = &[
    prezero::RATE,
    Setting::new(
        "utilization",
        Accepts::number(1, 100, Unit::Percent),
        "50",
        "the share of an extent of 1 GB that must be in use for its promotion",
    ),
    Setting::new(
        "scan_sleep_millisecs",
        Accepts::number(1, u32::MAX as u64, Unit::Milliseconds),
        "10000",
        "the daemon's sleep between scans",
    ),
];

/// Huge pages of all sizes.
pub(crate) struct Trident {
    /// What is left to Linux: pages of 2 MB, and all other faults.
    linux: LinuxThp,
    prezero: Prezero,
    utilization: u64,
    scan_sleep_millisecs: u64,
    /// Pages of 1 GB, if the machine has them.
    giant: Option<PageShift>,
    next: Cycles,
}

impl Trident {
    pub(crate) fn new(settings: &Settings) -> Trident {
        let mut linux = Settings::defaults(linux_thp::SETTINGS);
        linux.replace("scan_sleep_millisecs", &settings.number("scan_sleep_millisecs").to_string());
        Trident {
            linux: LinuxThp::new(&linux),
            prezero: Prezero::new(settings.megabytes(prezero::RATE.name).0),
            utilization: settings.number("utilization"),
            scan_sleep_millisecs: settings.number("scan_sleep_millisecs"),
            giant: None,
            next: Cycles(0),
        }
    }

    fn is_candidate(region: &Region) -> bool {
        may_be_huge(region) && region.huge_shift == 0
    }

    /// Promotes extents of 1 GB that are in use.
    fn scan(&self, giant: PageShift, vm: &mut Vm) -> Result<(), OutOfMemory> {
        let (size, base) = (giant.bytes(), vm.base());
        let mut extents = Vec::new();
        for (asid, process) in vm.processes() {
            for region in process.space().regions().filter(|region| Trident::is_candidate(region)) {
                let starts = (region.start.next_multiple_of(size)..).step_by(size as usize);
                extents.extend(
                    starts.take_while(|at| at + size <= region.end).map(|at| (asid, Vpn(at >> base.0), *region)),
                );
            }
        }
        for (asid, first, region) in extents {
            let census = Census::of(asid, first, giant, vm);
            vm.charge(Label::Daemon, census.pages.len() as u64 * vm.options().costs.scan_per_page);
            let fits = census.pages.iter().all(|page| page.pte.shift() < giant) && census.shared == 0;
            if !fits || census.present * 100 < giant.base_pages(base) * self.utilization {
                continue;
            }
            if copy_into_block(asid, first, giant, &region, Label::Daemon, vm)? == Collapse::NoMemory {
                break;
            }
        }
        Ok(())
    }
}

impl System for Trident {
    fn name(&self) -> &str {
        DESCRIPTION.name
    }

    fn boot(&mut self, vm: &mut Vm) -> Result<(), SystemError> {
        self.linux.boot(vm)?;
        let huge = superpage::nearest(DESCRIPTION.name, PageShift(21), vm)?;
        self.giant = vm.options().sizes.iter().copied().find(|&size| size > huge);
        self.prezero.boot(vm);
        self.next = Cycles(superpage::cycles_in(self.scan_sleep_millisecs, vm));
        Ok(())
    }

    fn event(&mut self, event: &Event, vm: &mut Vm) -> Result<(), OutOfMemory> {
        self.linux.event(event, vm)
    }

    fn fault(&mut self, fault: Fault, vm: &mut Vm) -> Result<(), OutOfMemory> {
        if let Some(giant) = self.giant.filter(|_| fault.cause == FaultCause::NotPresent) {
            let asid = vm.current();
            // Unlike `Vm::fault_view`, this changes nothing, so that Linux's part may follow.
            let view = vm.process(asid).and_then(|process| process.space().page(fault.vpn, 1, vm.base()));
            if let Some(view) = view.filter(|view| Trident::is_candidate(&view.region))
                && let Some(first) = vm.extent_within(asid, fault.vpn, giant, &view.region)
            {
                let page = Superpage { shift: giant, rights: view.protection, writable: true, whole: false };
                if vm.map_superpage(first, &view, page)? {
                    return Ok(());
                }
            }
        }
        self.linux.fault(fault, vm)
    }

    fn tick(&mut self, now: Cycles, vm: &mut Vm) -> Result<(), OutOfMemory> {
        if now >= self.next {
            self.prezero.tick(now, vm);
            if let Some(giant) = self.giant {
                self.scan(giant, vm)?;
            }
            self.next = now + superpage::cycles_in(self.scan_sleep_millisecs, vm);
        }
        self.linux.tick(now, vm)
    }

    fn next_tick(&self) -> Option<Cycles> {
        self.linux.next_tick().into_iter().chain([self.next]).min()
    }
}
