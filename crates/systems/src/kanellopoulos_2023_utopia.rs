//! `kanellopoulos-2023-utopia`: part of memory is a segment in which a page has few places, so that tags say where it is.
//!
//! After: Kanellopoulos, Bera, Stojiljkovic, Bostanci, Firtina, Ausavarungnirun, Kumar, Hajinazar, Sadrosadati, Vijaykumar and
//! Mutlu, "Utopia: Fast and Efficient Address Translation via Hybrid Restrictive & Flexible Virtual-to-Physical Address Mappings",
//! MICRO 2023. What is said of it here is from its abstract and from what is generally known of the design.
//!
//! | design | here |
//! |---|---|
//! | a restrictive segment: sets of sixteen frames, found by the page number; all other memory is flexible | [`Segment`] |
//! | another one for pages of 2 MB | [`Utopia::map_huge`] |
//! | a first touch takes a frame of its set, or else any frame | [`Utopia::fault`] |
//! | a line of tags for each set says which page is in which frame | [`RestSeg::search`] |
//! | a cache of these lines beside the walker | [`RestSeg`] |
//! | pages that are not in a segment are walked for | [`RestSeg::search`] |
//!
//! Readings: the segments are the end of memory, that of base pages of 1 GB as in the authors' simulator. A page's set is its number plus
//! the address space, modulo the sets. The tags of both segments are looked up at once. The cache has 128 lines in eight ways and answers
//! in two cycles. The filter that says that a set is empty is part of the line.
//!
//! Deviations: the segment of 2 MB pages has to be asked for, since the other design comparisons are between base pages. Pages do not
//! migrate into a segment when they turn out to be costly, because first touches fill it here. A frame of a segment that is freed serves
//! everyone, until its set takes it again.

use crate::collapse::may_be_huge;
use crate::description::{self, Description};
use crate::error::SystemError;
use crate::evidence::{Criterion, Evidence};
use crate::placed::placed_fault_in;
use crate::settings::{Accepts, Setting, Settings, Unit};
use crate::superpage::nearest;
use crate::system::System;
use reach_core::{
    Asid, AssistAnswer, AssistPort, Fault, FaultCause, Kind, PageShift, PageTableKind, Pfn, PhysAddr, Pte, TlbMiss,
    Vpn, WalkAssist,
};
use reach_os::{FrameKind, ObjectId, OutOfMemory, PageView, Superpage, Vm};
use std::ops::Range;

/// The entry of the table of systems.
pub(crate) const DESCRIPTION: Description = Description {
    name: "kanellopoulos-2023-utopia",
    summary: "a segment of memory in which tags say where a page is (Utopia)",
    role: description::Role::Design,
    compared: false,
    published: Some(
        "Kanellopoulos, Bera, Stojiljkovic, Bostanci, Firtina, Ausavarungnirun, Kumar, Hajinazar, Sadrosadati, Vijaykumar and \
         Mutlu: Utopia: Fast and Efficient Address Translation via Hybrid Restrictive & Flexible Virtual-to-Physical Address \
         Mappings, MICRO 2023",
    ),
    criterion: Criterion::new(Evidence::AssistedWalks, "found no page in the restrictive segment"),
    page_table: PageTableKind::Radix,
    settings: SETTINGS,
    build: |settings| Box::new(Utopia::new(settings)),
};

const SETTINGS: &[Setting] = &[
    Setting::new(
        "segment",
        Accepts::number(1, 1 << 20, Unit::Megabytes),
        "1024",
        "the restrictive segment: at most half of memory, and what is free there without a gap",
    ),
    Setting::new(
        "huge_segment",
        Accepts::number(0, 1 << 20, Unit::Megabytes),
        "0",
        "a segment like it for pages of 2 MB, which first touches get wherever they fit then; 0: base pages only",
    ),
];

/// Frames of a set.
const WAYS: u64 = 16;
/// The first byte of the tags, beyond all frames; a line for each set, those of base pages first.
const TAGS: u64 = 1 << 43;
const LINE: u64 = 64;
/// Sets and ways of the cache of lines, and cycles of a hit in it.
const CACHE_SETS: usize = 16;
const CACHE_WAYS: usize = 8;
const CACHE_LATENCY: u32 = 2;

/// A segment of memory, in sets of neighbouring frames.
#[derive(Clone, Copy, Debug)]
struct Segment {
    /// The size of its pages, and their base pages.
    page: PageShift,
    pages: u64,
    start: Pfn,
    sets: u64,
    /// The number of its first set's line of tags.
    first_line: u64,
}

impl Segment {
    /// Returns the set of the page around `vpn`; `None` in a segment without sets.
    fn set(self, asid: Asid, vpn: Vpn) -> Option<u64> {
        (vpn.0 / self.pages + u64::from(asid.0)).checked_rem(self.sets)
    }

    /// Returns the numbers of a set's places in the segment.
    fn places(self, set: u64) -> Range<u64> {
        set * WAYS..(set + 1) * WAYS
    }

    /// Returns the first frame of a place.
    fn frame(self, place: u64) -> Pfn {
        self.start + place * self.pages
    }

    /// Returns whether the tags of `set` name the page of this entry.
    fn holds(self, set: u64, pte: Pte) -> bool {
        let frame = |place| self.frame(place);
        pte.shift() == self.page && self.places(set).map(frame).any(|frame| frame == pte.pfn())
    }
}

/// The hardware beside the walker.
#[derive(Clone, Debug)]
struct RestSeg {
    segments: [Segment; 2],
    /// The cached lines of tags, by set of the cache, the most recently used first.
    cached: Vec<Vec<u64>>,
}

impl RestSeg {
    /// Returns whether the cache has `line`, and enters it.
    fn is_cached(&mut self, line: u64) -> bool {
        let lines = &mut self.cached[line as usize % CACHE_SETS];
        let at = lines.iter().position(|&cached| cached == line);
        match at {
            Some(at) => lines[..=at].rotate_right(1),
            None => {
                lines.truncate(CACHE_WAYS - 1);
                lines.insert(0, line);
            }
        }
        at.is_some()
    }
}

impl WalkAssist for RestSeg {
    fn search(&mut self, miss: TlbMiss, port: &mut dyn AssistPort) -> AssistAnswer {
        let set = |segment: Segment| Some((segment, segment.set(miss.asid, miss.vpn)?));
        let sets = self.segments.map(set);
        let mut slowest = 0;
        for (segment, set) in sets.into_iter().flatten() {
            let line = segment.first_line + set;
            let read = if self.is_cached(line) { 0 } else { port.read(PhysAddr(TAGS + line * LINE)) };
            slowest = slowest.max(CACHE_LATENCY + read);
        }
        port.wait(slowest);
        // The tags name the pages that the page table maps to the frames of the set.
        let Some(pte) = port.entry(miss.vpn) else { return AssistAnswer::Walk };
        let found = sets.into_iter().flatten().any(|(segment, set)| segment.holds(set, pte));
        if found { AssistAnswer::Hit(pte) } else { AssistAnswer::Walk }
    }

    /// Tags are in memory, and the cache holds lines of them: what changes in memory changes there.
    fn invalidate(&mut self, _: Asid, _: Vpn, _: u64) {}

    fn translations(&self, _: Asid) -> Vec<(Vpn, Pte)> {
        Vec::new()
    }

    fn clone_box(&self) -> Box<dyn WalkAssist> {
        Box::new(self.clone())
    }
}

/// A segment, as the operating system sees it.
struct Reserve {
    segment: Segment,
    /// Of each place, whether it is set aside since boot, because nobody has used it.
    aside: Vec<bool>,
}

impl Reserve {
    /// Sets a segment of at most `megabytes` MB for pages of size `page` aside, from frame `end` down to the first that is taken.
    fn new(megabytes: u64, page: PageShift, end: u64, vm: &mut Vm) -> Reserve {
        let pages = page.base_pages(vm.base());
        // Blocks of 2 MB, where a place is smaller.
        let order = vm.frames().buddy().max_order().min(9).max(page.order(vm.base()));
        let block = 1u64 << order;
        let end = end / block * block;
        let mut start = end;
        for _ in 0..(megabytes << 20 >> vm.base().0) / block {
            let at = Pfn(start.saturating_sub(block));
            if start < block || vm.frames_mut().allocate_at(at, order, FrameKind::Wired, ObjectId::NONE, 0).is_none() {
                break;
            }
            start = at.0;
        }
        let sets = (end - start) / (WAYS * pages);
        // What fills no set is nobody's.
        let surplus = end - start - sets * WAYS * pages;
        vm.frames_mut().free(Pfn(start), surplus);
        let segment = Segment { page, pages, start: Pfn(start + surplus), sets, first_line: 0 };
        Reserve { segment, aside: vec![true; (sets * WAYS) as usize] }
    }

    /// Calls `take` with the places of the set of `vpn` until one is taken. Places that nobody has used become free first.
    fn find<T>(
        &mut self,
        asid: Asid,
        vpn: Vpn,
        vm: &mut Vm,
        mut take: impl FnMut(Pfn, &mut Vm) -> Result<Option<T>, OutOfMemory>,
    ) -> Result<Option<T>, OutOfMemory> {
        let Some(set) = self.segment.set(asid, vpn) else { return Ok(None) };
        for place in self.segment.places(set) {
            let frame = self.segment.frame(place);
            if std::mem::take(&mut self.aside[place as usize]) {
                vm.frames_mut().free(frame, self.segment.pages);
            }
            if let Some(taken) = take(frame, vm)? {
                return Ok(Some(taken));
            }
        }
        Ok(None)
    }
}

/// Demand paging into restrictive segments.
pub(crate) struct Utopia {
    megabytes: u64,
    huge_megabytes: u64,
    small: Reserve,
    huge: Reserve,
}

impl Utopia {
    pub(crate) fn new(settings: &Settings) -> Utopia {
        let page = PageShift(12);
        let none = || Reserve {
            segment: Segment { page, pages: 1, start: Pfn(0), sets: 0, first_line: 0 },
            aside: Vec::new(),
        };
        Utopia {
            megabytes: settings.number("segment"),
            huge_megabytes: settings.number("huge_segment"),
            small: none(),
            huge: none(),
        }
    }

    /// Answers a first touch with a page of 2 MB: in a place of its set, or else anywhere. Returns false where none fits.
    fn map_huge(&mut self, fault: Fault, view: &PageView, vm: &mut Vm) -> Result<bool, OutOfMemory> {
        let (asid, segment) = (vm.current(), self.huge.segment);
        let gets_frame = fault.kind == Kind::Store || !vm.options().zero_page;
        let first_touch = fault.cause == FaultCause::NotPresent && gets_frame;
        let may = may_be_huge(&view.region) && view.region.huge_shift == 0;
        if self.huge_megabytes == 0 || !first_touch || !may {
            return Ok(false);
        }
        let Some(first) = vm.extent_within(asid, fault.vpn, segment.page, &view.region) else { return Ok(false) };
        let page = Superpage { shift: segment.page, rights: view.protection, writable: true, whole: false };
        let placed = self
            .huge
            .find(asid, first, vm, |frame, vm| Ok(vm.map_superpage_at(first, view, page, frame)?.then_some(())))?;
        Ok(placed.is_some() || vm.map_superpage(first, view, page)?)
    }
}

impl System for Utopia {
    fn name(&self) -> &str {
        DESCRIPTION.name
    }

    /// Sets the segments aside: that of 2 MB pages at the end of memory, the other below it.
    fn boot(&mut self, vm: &mut Vm) -> Result<(), SystemError> {
        let frames = vm.frames().buddy().frames();
        let half = frames << vm.base().0 >> 21;
        if self.huge_megabytes > 0 {
            let huge = nearest(DESCRIPTION.name, PageShift(21), vm)?;
            self.huge = Reserve::new(self.huge_megabytes.min(half), huge, frames, vm);
        }
        let end = if self.huge.segment.sets > 0 { self.huge.segment.start.0 } else { frames };
        self.small = Reserve::new(self.megabytes.min(half), vm.base(), end, vm);
        self.huge.segment.first_line = self.small.segment.sets;
        Ok(())
    }

    fn fault(&mut self, fault: Fault, vm: &mut Vm) -> Result<(), OutOfMemory> {
        let view = vm.fault_view(fault)?;
        if self.map_huge(fault, &view, vm)? {
            return Ok(());
        }
        let small = &mut self.small;
        placed_fault_in(fault, view, vm, |asid, vpn, region, vm| {
            let index = region.index(vpn, vm.base());
            let taken = small.find(asid, vpn, vm, |frame, vm| {
                Ok(vm.frames_mut().allocate_at(frame, 0, FrameKind::Anonymous, region.object, index))
            });
            taken.ok().flatten()
        })
    }

    fn walk_assist(&self, _: &Vm) -> Option<Box<dyn WalkAssist>> {
        let cached = vec![Vec::new(); CACHE_SETS];
        Some(Box::new(RestSeg { segments: [self.small.segment, self.huge.segment], cached }))
    }
}
