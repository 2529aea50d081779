//! `psomadakis-2024-elastic`: pages of the sizes between the usual ones, which the contiguous bit of Arm's page tables gives.
//!
//! After: Psomadakis, Alverti, Karakostas, Katsakioris, Siakavaras, Nikas, Goumas and Koziris, "Elastic Translations: Fast Virtual
//! Memory with Multiple Translation Sizes", MICRO 2024. What is said of it here is from its abstract and from what is generally
//! known of the design.
//!
//! | design | here |
//! |---|---|
//! | memory that has no huge page gets blocks of 64 KB | `mthp` of `linux_thp.rs` |
//! | samples of TLB misses say which extents are worth 32 MB | `walk_candidates.rs` |
//! | huge pages of an extent of 32 MB lie so that it can become one translation without being copied | [`Elastic::fault`] |
//! | extents do so in the order of their misses | [`Elastic::tick`] |
//!
//! Readings: 64 extents are sampled, and every 10 milliseconds the four most frequent ones are promoted, if their frames are one
//! block. The first touch of an extent looks for such a block. All other faults are those of Linux with transparent huge pages.
//!
//! Deviations: every miss is sampled; the paper's processor records one in many. Memory is not moved to make an extent contiguous, and
//! extents that cool down stay as they are. In a guest the guest alone has these sizes, and pages of the host limit them.

use crate::description::{self, Description};
use crate::error::SystemError;
use crate::evidence::{Criterion, Evidence};
use crate::linux_thp::{self, LinuxThp};
use crate::settings::{Accepts, Setting, Settings, Unit};
use crate::superpage;
use crate::system::System;
use crate::walk_candidates::{Making, WalkCandidates};
use reach_core::{Asid, Cycles, Event, Fault, FaultCause, PageShift, PageTableKind, Pfn, Role, Vpn, WalkAssist};
use reach_os::{FrameKind, ObjectId, OutOfMemory, PageView, Populate, Superpage, Vm};
use std::collections::BTreeMap;

/// The entry of the table of systems.
pub(crate) const DESCRIPTION: Description = Description {
    name: "psomadakis-2024-elastic",
    summary: "pages of 64 KB and 32 MB as well, by Arm's contiguous bit (elastic translations)",
    role: description::Role::Design,
    compared: false,
    published: Some(
        "Psomadakis, Alverti, Karakostas, Katsakioris, Siakavaras, Nikas, Goumas and Koziris: Elastic Translations: Fast Virtual \
         Memory with Multiple Translation Sizes, MICRO 2024",
    ),
    criterion: Criterion::new(Evidence::Superpages, "mapped no page larger than the base page"),
    page_table: PageTableKind::Radix,
    settings: SETTINGS,
    build: |settings| Box::new(Elastic::new(settings)),
};

const SETTINGS: &[Setting] = &[
    Setting::new(
        "extents",
        Accepts::number(1, 1 << 12, Unit::Count),
        "64",
        "extents of 32 MB whose misses are sampled",
    ),
    Setting::new(
        "interval_millisecs",
        Accepts::number(1, 600_000, Unit::Milliseconds),
        "10",
        "the time between two readings of the samples",
    ),
    Setting::new(
        "promotions",
        Accepts::number(1, 1 << 12, Unit::Count),
        "4",
        "the most frequent extents that are promoted after each reading, at most",
    ),
];

/// The sizes between which the larger of the added ones lies.
const HUGE: PageShift = PageShift(21);
const GIANT: PageShift = PageShift(30);

/// Huge pages, and pages of the sizes between.
pub(crate) struct Elastic {
    linux: LinuxThp,
    extents: usize,
    interval_millisecs: u64,
    promotions: u64,
    candidates: WalkCandidates,
    /// The machine's smaller huge pages, and the pages of the size above them.
    huge: PageShift,
    large: PageShift,
    /// Where the frames of a large extent would be one block, by the extent's first page.
    places: BTreeMap<(Asid, Vpn), Pfn>,
    next: Cycles,
}

impl Elastic {
    pub(crate) fn new(settings: &Settings) -> Elastic {
        let mut linux = Settings::defaults(linux_thp::SETTINGS);
        linux.replace("mthp", "64K");
        // The shared page of zeroes would be replaced by one that lies elsewhere.
        linux.replace("use_zero_page", "off");
        Elastic {
            linux: LinuxThp::new(&linux),
            extents: settings.number("extents") as usize,
            interval_millisecs: settings.number("interval_millisecs"),
            promotions: settings.number("promotions"),
            candidates: WalkCandidates::new(1, HUGE, PageShift(12)),
            huge: HUGE,
            large: HUGE,
            places: BTreeMap::new(),
            next: Cycles(0),
        }
    }

    /// Answers a first touch with a huge page in its place in a large extent. Returns false where Linux has to.
    fn map_in_place(&mut self, vpn: Vpn, view: &PageView, vm: &mut Vm) -> Result<bool, OutOfMemory> {
        let (asid, base, region) = (vm.current(), vm.base(), &view.region);
        let extent = vpn.align_down(self.large, base);
        let start = extent.addr(base).0;
        let may =
            region.anonymous() && region.role != Role::Stack && region.huge != Some(false) && region.huge_shift == 0;
        let fits = may && region.start <= start && start + self.large.bytes() <= region.end;
        let Some(first) = vm.extent_within(asid, vpn, self.huge, region).filter(|_| fits) else { return Ok(false) };
        let place = match self.places.get(&(asid, extent)) {
            Some(&place) => place,
            None => {
                let order = self.large.order(base);
                let Some(place) = vm.frames_mut().allocate(order, FrameKind::Wired, ObjectId::NONE, 0) else {
                    return Ok(false);
                };
                vm.frames_mut().free(place, 1 << order);
                self.places.insert((asid, extent), place);
                place
            }
        };
        let page = Superpage { shift: self.huge, rights: view.protection, writable: true, whole: false };
        vm.map_superpage_at(first, view, page, place + (first - extent))
    }
}

impl System for Elastic {
    fn name(&self) -> &str {
        DESCRIPTION.name
    }

    fn boot(&mut self, vm: &mut Vm) -> Result<(), SystemError> {
        let large = vm.options().sizes.iter().copied().find(|&size| HUGE < size && size < GIANT);
        let large = large.ok_or_else(|| SystemError::Machine {
            system: DESCRIPTION.name.into(),
            what: "it has no page size between 2M and 1G; take one of Arm's, such as neoverse-v1".into(),
        })?;
        self.linux.boot(vm)?;
        self.huge = superpage::nearest(DESCRIPTION.name, HUGE, vm)?;
        self.large = large;
        self.candidates = WalkCandidates::new(self.extents, large, vm.base());
        self.next = Cycles(superpage::cycles_in(self.interval_millisecs, vm));
        Ok(())
    }

    fn event(&mut self, event: &Event, vm: &mut Vm) -> Result<(), OutOfMemory> {
        if let Event::Exit | Event::Exec { .. } = event {
            let asid = vm.current();
            self.places.retain(|(of, _), _| *of != asid);
        }
        self.linux.event(event, vm)
    }

    fn fault(&mut self, fault: Fault, vm: &mut Vm) -> Result<(), OutOfMemory> {
        if fault.cause == FaultCause::NotPresent {
            let asid = vm.current();
            // Unlike `Vm::fault_view`, this changes nothing, so that Linux's part may follow.
            let view = vm.process(asid).and_then(|process| process.space().page(fault.vpn, 1, vm.base()));
            if let Some(view) = view
                && self.map_in_place(fault.vpn, &view, vm)?
            {
                return Ok(());
            }
        }
        self.linux.fault(fault, vm)
    }

    fn first_write(&mut self, vpn: Vpn, vm: &mut Vm) -> Result<(), OutOfMemory> {
        self.linux.first_write(vpn, vm)
    }

    fn walk_assist(&self, _: &Vm) -> Option<Box<dyn WalkAssist>> {
        Some(self.candidates.hardware())
    }

    fn tick(&mut self, now: Cycles, vm: &mut Vm) -> Result<(), OutOfMemory> {
        if now >= self.next {
            self.next = now + superpage::cycles_in(self.interval_millisecs, vm);
            self.candidates.promote(self.promotions, Making::InPlace, vm)?;
        }
        self.linux.tick(now, vm)
    }

    fn next_tick(&self) -> Option<Cycles> {
        self.linux.next_tick().into_iter().chain([self.next]).min()
    }

    fn populate(&mut self, populate: &Populate, vm: &mut Vm) -> Result<(), OutOfMemory> {
        self.linux.populate(populate, vm)
    }
}
