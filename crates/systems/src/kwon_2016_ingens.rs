//! `kwon-2016-ingens`: huge pages as a resource that processes share: base pages at faults, huge pages by a thread of the kernel
//! once enough of them are in use.
//!
//! After: Kwon, Yu, Peter, Rossbach and Witchel, "Coordinated and Efficient Huge Page Management with Ingens", OSDI 2016. What is
//! said of it here is from its abstract, from what is generally known of the design, and from papers that compare with it.
//!
//! | design | here |
//! |---|---|
//! | a fault maps a base page, whatever its memory: its latency stays small | [`Ingens::fault`] |
//! | a bit vector of the base pages in use of each huge page | [`Extent::used`] |
//! | promotion once 90 % are in use; at once while memory is not fragmented | [`Ingens::needed`] |
//! | the fragmentation index (FMFI) | [`fragmentation`] |
//! | Promote-kth, which copies, and serves the process with the fewest huge pages first | [`Ingens::tick`] |
//!
//! Readings: the index is the share of free memory that lies in blocks smaller than a huge page; memory is fragmented above
//! one half. A page is in use from its first store on, so that the page of zeroes does not count. All processes have the same share.
//!
//! Deviations: idle huge pages are not demoted, since nothing here takes their memory, and access bits are not sampled for the
//! penalty of idle pages. Memory of files and shared memory has base pages. The thread's cycles are charged to `daemon` as if it
//! ran on the program's processor.

use crate::collapse::{Census, Collapse, copy_into_block, fragmentation, may_be_huge, region_of};
use crate::description::{self, Description};
use crate::error::SystemError;
use crate::evidence::{Criterion, Evidence};
use crate::settings::{Accepts, Setting, Settings, Unit};
use crate::superpage;
use crate::system::System;
use reach_core::{Asid, Cycles, Event, Fault, Label, PageShift, PageTableKind, Vpn};
use reach_os::{FrameKind, OutOfMemory, Vm};
use std::collections::BTreeMap;

/// The entry of the table of systems.
pub(crate) const DESCRIPTION: Description = Description {
    name: "kwon-2016-ingens",
    summary: "base pages at faults, promoted in the background by their use (Ingens)",
    role: description::Role::Design,
    compared: false,
    published: Some(
        "Kwon, Yu, Peter, Rossbach and Witchel: Coordinated and Efficient Huge Page Management with Ingens, OSDI 2016",
    ),
    criterion: Criterion::new(Evidence::Superpages, "never promoted: no huge page was used enough"),
    page_table: PageTableKind::Radix,
    settings: SETTINGS,
    build: |settings| Box::new(Ingens::new(settings)),
};

const SETTINGS: &[Setting] = &[
    Setting::new(
        "utilization",
        Accepts::number(1, 100, Unit::Percent),
        "90",
        "the share of a huge page's base pages in use at which it is promoted while memory is fragmented",
    ),
    Setting::new(
        "fragmented_above",
        Accepts::number(0, 100, Unit::Percent),
        "50",
        "the share of free memory in smaller blocks above which memory is fragmented; below, the first page promotes",
    ),
    Setting::new(
        "wake_millisecs",
        Accepts::number(1, 60_000, Unit::Milliseconds),
        "1",
        "the least time between two wakes of the promoting thread",
    ),
    Setting::new(
        "pages_per_wake",
        Accepts::number(1, 1 << 20, Unit::Count),
        "8",
        "huge pages that the thread promotes each time it wakes, at most",
    ),
];

/// An aligned extent of the size of a huge page that has base pages.
#[derive(Clone, Copy, Debug, Default)]
struct Extent {
    /// Base pages in use.
    used: u64,
    /// Its promotion has been requested.
    requested: bool,
}

/// Huge pages by use.
pub(crate) struct Ingens {
    utilization: u64,
    fragmented_above: u64,
    wake_millisecs: u64,
    pages_per_wake: u64,
    huge: PageShift,
    extents: BTreeMap<(Asid, u64), Extent>,
    /// The extents to promote, by process, the first requested first.
    requests: BTreeMap<Asid, Vec<u64>>,
    /// Huge pages given, by process.
    given: BTreeMap<Asid, u64>,
    last_wake: Cycles,
}

impl Ingens {
    pub(crate) fn new(settings: &Settings) -> Ingens {
        Ingens {
            utilization: settings.number("utilization"),
            fragmented_above: settings.number("fragmented_above"),
            wake_millisecs: settings.number("wake_millisecs"),
            pages_per_wake: settings.number("pages_per_wake"),
            huge: PageShift(21),
            extents: BTreeMap::new(),
            requests: BTreeMap::new(),
            given: BTreeMap::new(),
            last_wake: Cycles(0),
        }
    }

    fn pages(&self, vm: &Vm) -> u64 {
        self.huge.base_pages(vm.base())
    }

    /// Returns how many base pages must be in use for a promotion.
    fn needed(&self, vm: &Vm) -> u64 {
        if fragmentation(vm, self.huge.order(vm.base())) <= self.fragmented_above {
            return 1;
        }
        (self.pages(vm) * self.utilization).div_ceil(100)
    }

    /// Returns whether a base page other than that of zeroes is mapped at `vpn`.
    fn is_used(vpn: Vpn, vm: &Vm) -> bool {
        let pte = vm.process(vm.current()).and_then(|process| process.table().lookup(vpn));
        pte.is_some_and(|pte| vm.kind_of(pte) != FrameKind::Zero)
    }

    /// Notes that `vpn` has come into use.
    fn note_use(&mut self, vpn: Vpn, vm: &Vm) {
        let (asid, needed) = (vm.current(), self.needed(vm));
        let number = vpn.0 / self.pages(vm);
        let extent = self.extents.entry((asid, number)).or_default();
        extent.used += 1;
        if extent.used >= needed && !extent.requested {
            extent.requested = true;
            self.requests.entry(asid).or_default().push(number);
        }
    }

    /// Takes the next request: the oldest of the process with the fewest huge pages.
    fn take_request(&mut self) -> Option<(Asid, u64)> {
        let given = |asid: &Asid| self.given.get(asid).copied().unwrap_or_default();
        let asid = *self.requests.keys().min_by_key(|asid| (given(asid), **asid))?;
        let requests = self.requests.get_mut(&asid)?;
        let number = requests.remove(0);
        if requests.is_empty() {
            self.requests.remove(&asid);
        }
        Some((asid, number))
    }

    /// Forgets a process.
    fn forget(&mut self, asid: Asid) {
        self.requests.remove(&asid);
        self.given.remove(&asid);
        let own: Vec<_> = self.extents.range((asid, 0)..=(asid, u64::MAX)).map(|(&key, _)| key).collect();
        own.iter().for_each(|key| _ = self.extents.remove(key));
    }
}

impl System for Ingens {
    fn name(&self) -> &str {
        DESCRIPTION.name
    }

    fn boot(&mut self, vm: &mut Vm) -> Result<(), SystemError> {
        self.huge = superpage::nearest(DESCRIPTION.name, PageShift(21), vm)?;
        Ok(())
    }

    fn event(&mut self, event: &Event, vm: &mut Vm) -> Result<(), OutOfMemory> {
        if let Event::Exit | Event::Exec { .. } = event {
            self.forget(vm.current());
        }
        match vm.apply(event)? {
            Some(populate) => self.populate(&populate, vm),
            None => Ok(()),
        }
    }

    fn fault(&mut self, fault: Fault, vm: &mut Vm) -> Result<(), OutOfMemory> {
        let view = vm.fault_view(fault)?;
        let candidate = may_be_huge(&view.region) && !Ingens::is_used(fault.vpn, vm);
        vm.demand_fault_in(fault, view)?;
        if candidate && Ingens::is_used(fault.vpn, vm) {
            self.note_use(fault.vpn, vm);
        }
        Ok(())
    }

    fn tick(&mut self, now: Cycles, vm: &mut Vm) -> Result<(), OutOfMemory> {
        if self.next_tick().is_none_or(|next| now < next) {
            return Ok(());
        }
        self.last_wake = now + superpage::cycles_in(self.wake_millisecs, vm);
        let pages = self.pages(vm);
        for _ in 0..self.pages_per_wake {
            let Some((asid, number)) = self.take_request() else { break };
            self.extents.remove(&(asid, number));
            let first = Vpn(number * pages);
            let Some(region) = region_of(asid, first, self.huge, vm).filter(may_be_huge) else { continue };
            let census = Census::of(asid, first, self.huge, vm);
            // It may have been unmapped, or shared by a fork, since.
            if census.present == 0 || census.shared > 0 || census.pages.iter().any(|page| page.pte.shift() >= self.huge)
            {
                continue;
            }
            if copy_into_block(asid, first, self.huge, &region, Label::Daemon, vm)? == Collapse::Done {
                *self.given.entry(asid).or_default() += 1;
            }
        }
        Ok(())
    }

    fn next_tick(&self) -> Option<Cycles> {
        (!self.requests.is_empty()).then_some(self.last_wake)
    }
}
