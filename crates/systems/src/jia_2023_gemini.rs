//! `jia-2023-gemini`: huge pages of a guest and of its host are formed where the other layer has one, since a TLB holds the smaller of
//! the two (Gemini). Both layers run it: `--system jia-2023-gemini --host jia-2023-gemini`.
//!
//! After: Jia, Zhang, Shan and Ding, "Making Dynamic Page Coalescing Effective on Virtualized Clouds", EuroSys 2023.
//!
//! | section | here |
//! |---|---|
//! | 4, the scanner of mis-aligned huge pages (MHPS) of the host | [`System::next_scan`], and what it finds: [`System::host_superpages`], [`System::guest_superpages`] |
//! | 3 and 4, huge booking: a region that the other layer has as a huge page is reserved for a time | `booking.rs` |
//! | 4.1, Algorithm 1: how long | `timeout.rs` |
//! | 4.2, the enhanced memory allocator (EMA): a page takes the frame at its own place in the block of its extent | `placing.rs` |
//! | 4.2, huge preallocation | [`Gemini::note_use`] and [`Gemini::complete`] in `promoter.rs` |
//! | 3, the promoter: base pages that belong to huge pages of the other layer come first | [`Gemini::promote`] in `promoter.rs` |
//! | 5, the huge bucket: freed memory that the host has as huge pages is kept for a time | [`Gemini::fill_bucket`] |
//!
//! Readings. The periods of scanner and timeouts are not given; the defaults suit programs that run for fractions of a second. "The
//! existing page coalescing" of a guest is that of Linux: a first touch gets a huge page where a block is free. A host's gets one where its
//! guest has one, and otherwise a base page, of a booked block unless memory is fragmented, until a scan tells more; without a scan it does
//! as a guest does. Each block that EMA begins is booked, not only those with a huge page at the other layer, so that what follows finds
//! it free. An extent whose pages are all in use is promoted where it is. Where the other layer has a huge page, any number of base pages
//! is promoted: section 4.2's threshold is for the others. Bookings are given up when less than a sixteenth of memory is free.
//! The fragmentation index (FMFI) is that of `kwon-2016-ingens`.
//!
//! Deviations: distances are kept for each huge page, as section 4.2 has it, and not for each mapping (section 5): there is nothing here
//! that would make use of longer runs. An extent that reaches beyond its mapping has none, so that a heap that grows in small steps has base
//! pages anywhere, and the promoter leaves them. Blocks are those that the buddy allocator gives, not the next by address. First loads of memory
//! that gets a huge page get one of their own, as without the page of zeroes. Memory of files and shared memory has base pages. Memory that a
//! program gives back by `madvise` does not enter the bucket. The scanner
//! charges for each huge page that it finds. Cycles are charged to `daemon` as if daemons ran on the program's processor.

mod booking;
mod placing;
mod promoter;
mod timeout;

use crate::collapse::{fragmentation, may_be_huge};
use crate::description::{self, Description};
use crate::error::SystemError;
use crate::evidence::{Criterion, Evidence};
use crate::placed::placed_fault_in;
use crate::settings::{Accepts, Setting, Settings, Unit};
use crate::superpage;
use crate::system::System;
use booking::Booked;
use reach_core::{Asid, Cycles, Event, Fault, FaultCause, Label, PageShift, PageTableKind, Pfn, Span, Vpn};
use reach_os::{OutOfMemory, Vm};
use std::collections::{BTreeMap, BTreeSet};
use timeout::Timeout;

/// The entry of the table of systems.
pub(crate) const DESCRIPTION: Description = Description {
    name: "jia-2023-gemini",
    summary: "huge pages of guest and host where the other has one, from booked memory (Gemini)",
    role: description::Role::Design,
    compared: false,
    published: Some(
        "Jia, Zhang, Shan and Ding: Making Dynamic Page Coalescing Effective on Virtualized Clouds, EuroSys 2023",
    ),
    criterion: Criterion::new(Evidence::Superpages, "mapped no huge page"),
    page_table: PageTableKind::Radix,
    settings: SETTINGS,
    build: |settings| Box::new(Gemini::new(settings)),
};

/// Base pages of a huge page to which the threshold of preallocation refers.
const PAGES: u64 = 512;

const SETTINGS: &[Setting] = &[
    Setting::new(
        "huge_faults",
        Accepts::Switch,
        "on",
        "whether a first touch gets any free huge page; off: only where the other layer has one",
    ),
    Setting::new(
        "scan_millisecs",
        Accepts::number(1, 600_000, Unit::Milliseconds),
        "1",
        "the time between two scans of the huge pages of guests and host, and between two wakes of the promoter",
    ),
    Setting::new(
        "booking_millisecs",
        Accepts::number(0, 600_000, Unit::Milliseconds),
        "10",
        "how long memory is booked at first; 0 books none",
    ),
    Setting::new(
        "adjust_millisecs",
        Accepts::number(0, 600_000, Unit::Milliseconds),
        "10",
        "the period after which TLB misses and fragmentation decide whether that time changes; 0 leaves it",
    ),
    Setting::new(
        "bucket_millisecs",
        Accepts::number(0, 600_000, Unit::Milliseconds),
        "100",
        "how long freed memory that the host has as huge pages is kept for others; 0 keeps none",
    ),
    Setting::new(
        "preallocate_above",
        Accepts::number(1, PAGES, Unit::Count),
        "256",
        "the base pages of 512 in use above which those missing are allocated for a promotion",
    ),
    Setting::new(
        "fragmented_above",
        Accepts::number(0, 100, Unit::Percent),
        "50",
        "the share of free memory in smaller blocks above which missing pages are not allocated",
    ),
    Setting::new(
        "pages_per_wake",
        Accepts::number(1, 1 << 20, Unit::Count),
        "8",
        "huge pages that the promoter forms each time it wakes, at most",
    ),
];

/// The part of free memory below which bookings are given up.
const SCARCE: u64 = 16;

/// An aligned extent of a process, of the size of a huge page. Its number is its place among all.
type Extent = (Asid, u64);

/// What the scanner has told of the other layer.
enum Other {
    /// Nothing: there is no host, or none that scans, or it has not scanned yet.
    Unknown,
    /// In a guest: the blocks of its memory that the host has as huge pages, by number.
    Host(BTreeSet<u64>),
    /// In a host: the extents that are huge pages of a guest.
    Guest(BTreeSet<Extent>),
}

/// Where the pages of an extent lie.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    /// The first frame of its block; `None` where there was no free block.
    block: Option<Pfn>,
    /// Base pages that came into use.
    used: u64,
    /// Its promotion has been requested.
    requested: bool,
}

/// Huge pages that are aligned with those of the other layer.
pub(crate) struct Gemini {
    huge_faults: bool,
    scan_millisecs: u64,
    bucket_millisecs: u64,
    preallocate_above: u64,
    fragmented_above: u64,
    pages_per_wake: u64,
    huge: PageShift,
    other: Other,
    booked: Booked,
    timeout: Timeout,
    places: BTreeMap<Extent, Place>,
    /// The extents to promote: those that the other layer has as huge pages, and the others.
    matching: BTreeSet<Extent>,
    full: BTreeSet<Extent>,
    /// Blocks whose booking has timed out since the host has had them as huge pages.
    timed_out: BTreeSet<u64>,
    /// The time of the last wake; faults are not told the time.
    now: Cycles,
    next_wake: Cycles,
    next_scan: Cycles,
}

impl Gemini {
    pub(crate) fn new(settings: &Settings) -> Gemini {
        Gemini {
            huge_faults: settings.is_on("huge_faults"),
            scan_millisecs: settings.number("scan_millisecs"),
            bucket_millisecs: settings.number("bucket_millisecs"),
            preallocate_above: settings.number("preallocate_above"),
            fragmented_above: settings.number("fragmented_above"),
            pages_per_wake: settings.number("pages_per_wake"),
            huge: PageShift(21),
            other: Other::Unknown,
            booked: Booked::default(),
            timeout: Timeout::new(settings.number("booking_millisecs"), settings.number("adjust_millisecs")),
            places: BTreeMap::new(),
            matching: BTreeSet::new(),
            full: BTreeSet::new(),
            timed_out: BTreeSet::new(),
            now: Cycles(0),
            next_wake: Cycles(0),
            next_scan: Cycles(0),
        }
    }

    fn pages(&self, vm: &Vm) -> u64 {
        self.huge.base_pages(vm.base())
    }

    /// Returns the time until which memory that is booked now stays so. `None`: nothing is booked.
    fn until(&self, vm: &Vm) -> Option<Cycles> {
        let cycles = self.timeout.cycles(vm);
        (cycles > 0).then(|| Cycles(self.now.0.saturating_add(cycles)))
    }

    /// Returns whether the block of a huge page at `block` is free, and not booked.
    fn is_free(&self, block: Pfn, vm: &Vm) -> bool {
        let order = self.huge.order(vm.base());
        vm.frames().buddy().free_block(block).is_some_and(|(_, of)| of >= order)
    }

    /// Returns a block that the host has as a huge page and of which nothing is in use, booked or free.
    fn matching_block(&self, vm: &Vm) -> Option<Pfn> {
        let Other::Host(blocks) = &self.other else { return None };
        let pages = self.pages(vm);
        let mut blocks = blocks.iter().map(|number| Pfn(number * pages));
        blocks.find(|&block| self.booked.is_whole(block) || self.is_free(block, vm))
    }

    /// Books any free block, if bookings last at all, and returns it. `None` where there is none.
    fn book_any(&mut self, vm: &mut Vm) -> Option<Pfn> {
        self.booked.book_any(self.huge.order(vm.base()), self.until(vm), vm)
    }

    /// Returns whether a first touch of `extent` gets a huge page.
    fn wants_huge(&self, extent: Extent, vm: &Vm) -> bool {
        match &self.other {
            Other::Guest(theirs) => theirs.contains(&extent),
            Other::Host(_) if !self.huge_faults => self.matching_block(vm).is_some(),
            Other::Host(_) | Other::Unknown => self.huge_faults,
        }
    }

    fn is_fragmented(&self, vm: &Vm) -> bool {
        fragmentation(vm, self.huge.order(vm.base())) > self.fragmented_above
    }

    /// Keeps memory that has become free and that the host has as huge pages, for `bucket_millisecs`.
    fn fill_bucket(&mut self, vm: &mut Vm) {
        let Other::Host(blocks) = &self.other else { return };
        if self.bucket_millisecs == 0 {
            return;
        }
        let (pages, order) = (self.pages(vm), self.huge.order(vm.base()));
        let until = Cycles(self.now.0.saturating_add(superpage::cycles_in(self.bucket_millisecs, vm)));
        let free: Vec<u64> = blocks.iter().copied().filter(|number| self.is_free(Pfn(number * pages), vm)).collect();
        for number in free {
            self.timed_out.remove(&number);
            self.booked.book(Pfn(number * pages), order, until, vm);
        }
    }

    /// Gives all bookings up where free memory has become scarce.
    fn relieve(&mut self, vm: &mut Vm) {
        let buddy = vm.frames().buddy();
        if self.booked.any() && buddy.free_frames() < buddy.frames() / SCARCE {
            self.booked.release_all(vm);
        }
    }

    /// Forgets the blocks of extents that `span` was unmapped from, as far as they have no page left: what is mapped there next is
    /// something else.
    fn forget_unmapped(&mut self, span: Span, vm: &mut Vm) {
        let (asid, pages) = (vm.current(), self.pages(vm));
        let number = |at: u64| (at >> vm.base().0) / pages;
        let extents = (asid, number(span.start.0))..=(asid, number(span.start.0.saturating_add(span.len)));
        let touched: Vec<Extent> = self.places.range(extents).map(|(&extent, _)| extent).collect();
        for extent in touched {
            if vm.nothing_mapped(asid, Vpn(extent.1 * pages), pages)
                && let Some(block) = self.places.remove(&extent).and_then(|place| place.block)
            {
                self.booked.release(block, vm);
            }
        }
    }

    /// Forgets a process.
    fn forget(&mut self, asid: Asid, vm: &mut Vm) {
        let own: Vec<Extent> = self.places.range((asid, 0)..=(asid, u64::MAX)).map(|(&extent, _)| extent).collect();
        for extent in own {
            if let Some(block) = self.places.remove(&extent).and_then(|place| place.block) {
                self.booked.release(block, vm);
            }
        }
        self.matching.retain(|extent| extent.0 != asid);
        self.full.retain(|extent| extent.0 != asid);
    }

    /// Returns the numbers of extents that a page of size `shift` at base page or frame `at` covers; none for a smaller page.
    fn covered(&self, at: u64, shift: PageShift, vm: &Vm) -> std::ops::Range<u64> {
        let pages = self.pages(vm);
        let covers = if shift < self.huge { 0 } else { shift.base_pages(vm.base()) / pages };
        at / pages..at / pages + covers
    }
}

impl System for Gemini {
    fn name(&self) -> &str {
        DESCRIPTION.name
    }

    fn boot(&mut self, vm: &mut Vm) -> Result<(), SystemError> {
        self.huge = superpage::nearest(DESCRIPTION.name, PageShift(21), vm)?;
        Ok(())
    }

    fn event(&mut self, event: &Event, vm: &mut Vm) -> Result<(), OutOfMemory> {
        self.relieve(vm);
        let leaves = matches!(event, Event::Exit | Event::Exec { .. });
        if leaves {
            self.forget(vm.current(), vm);
        }
        let populate = vm.apply(event)?;
        let unmapped = match event {
            Event::Unmap(span) => Some(*span),
            Event::Remap(remap) => Some(remap.from),
            _ => None,
        };
        if let Some(span) = unmapped {
            self.forget_unmapped(span, vm);
        }
        if leaves || unmapped.is_some() {
            self.fill_bucket(vm);
        }
        match populate {
            Some(populate) => self.populate(&populate, vm),
            None => Ok(()),
        }
    }

    fn fault(&mut self, fault: Fault, vm: &mut Vm) -> Result<(), OutOfMemory> {
        self.relieve(vm);
        let view = vm.fault_view(fault)?;
        if !may_be_huge(&view.region) {
            return vm.demand_fault_in(fault, view);
        }
        let asid = vm.current();
        if fault.cause == FaultCause::NotPresent
            && let Some(first) = vm.extent_within(asid, fault.vpn, self.huge, &view.region)
            && self.wants_huge((asid, first.0 / self.pages(vm)), vm)
            && self.map_huge(first, &view, vm)?
        {
            return Ok(());
        }
        let mut placed = false;
        placed_fault_in(fault, view, vm, |asid, vpn, region, vm| {
            let pfn = self.place(asid, vpn, region, vm);
            placed = pfn.is_some();
            pfn
        })?;
        if placed {
            self.note_use(fault.vpn, vm);
        }
        Ok(())
    }

    /// Wakes the promoter.
    fn tick(&mut self, now: Cycles, vm: &mut Vm) -> Result<(), OutOfMemory> {
        self.now = now;
        if now < self.next_wake {
            return Ok(());
        }
        self.next_wake = now + superpage::cycles_in(self.scan_millisecs, vm);
        self.relieve(vm);
        let pages = self.pages(vm);
        self.timed_out.extend(self.booked.expire(now, vm).into_iter().map(|block| block.0 / pages));
        let share = fragmentation(vm, self.huge.order(vm.base()));
        self.timeout.pass(now, vm.performance().walks, share, vm);
        let mut left = self.pages_per_wake;
        while left > 0 {
            let (extent, matching) = match self.matching.pop_first() {
                Some(extent) => (extent, true),
                None => match self.full.pop_first() {
                    Some(extent) => (extent, false),
                    None => break,
                },
            };
            left -= u64::from(self.promote(extent, matching, vm)?);
        }
        Ok(())
    }

    fn next_tick(&self) -> Option<Cycles> {
        Some(self.next_wake)
    }

    /// Reads TLB misses, for the time that memory is booked.
    fn reads_counters(&self) -> bool {
        self.timeout.adjusts()
    }

    fn next_scan(&self) -> Option<Cycles> {
        Some(self.next_scan)
    }

    /// Learns which blocks of a guest's memory its host has as huge pages. Those of which nothing is in use are booked.
    fn host_superpages(&mut self, superpages: &[(Pfn, PageShift)], vm: &mut Vm) -> Result<(), OutOfMemory> {
        let theirs: BTreeSet<u64> =
            superpages.iter().flat_map(|&(pfn, shift)| self.covered(pfn.0, shift, vm)).collect();
        let (pages, order) = (self.pages(vm), self.huge.order(vm.base()));
        self.timed_out.retain(|number| theirs.contains(number));
        if let Some(until) = self.until(vm) {
            for &number in theirs.difference(&self.timed_out) {
                if self.is_free(Pfn(number * pages), vm) {
                    self.booked.book(Pfn(number * pages), order, until, vm);
                }
            }
        }
        // Base pages in the host's huge pages are promoted first.
        let matches = |place: &Place| place.block.is_some_and(|block| theirs.contains(&(block.0 / pages)));
        self.matching.extend(self.places.iter().filter(|(_, place)| place.used > 0 && matches(place)).map(|(&e, _)| e));
        self.other = Other::Host(theirs);
        Ok(())
    }

    /// Learns which pages of the process `guest` are that guest's huge pages. A block is booked for those that it has not touched, and the
    /// others are to be promoted.
    fn guest_superpages(
        &mut self,
        guest: Asid,
        superpages: &[(Vpn, PageShift)],
        now: Cycles,
        vm: &mut Vm,
    ) -> Result<(), OutOfMemory> {
        self.next_scan = now + superpage::cycles_in(self.scan_millisecs, vm);
        let numbers = superpages.iter().flat_map(|&(vpn, shift)| self.covered(vpn.0, shift, vm));
        let theirs: BTreeSet<Extent> = numbers.map(|number| (guest, number)).collect();
        vm.charge(Label::Daemon, theirs.len() as u64 * vm.options().costs.scan_per_page);
        let pages = self.pages(vm);
        for &extent in &theirs {
            let first = Vpn(extent.1 * pages);
            let page = vm.process(guest).and_then(|process| process.table().page(first));
            if page.is_some_and(|page| page.pte.shift() >= self.huge) {
                continue;
            }
            if !vm.nothing_mapped(guest, first, pages) {
                self.matching.insert(extent);
            } else if !self.places.contains_key(&extent)
                && let Some(block) = self.book_any(vm)
            {
                self.places.entry(extent).or_default().block = Some(block);
            }
        }
        match &mut self.other {
            Other::Guest(known) => {
                known.retain(|extent| extent.0 != guest);
                known.extend(theirs);
            }
            other => *other = Other::Guest(theirs),
        }
        Ok(())
    }
}
