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
//! Deviations: the segment of 2 MB pages has to be asked for, so that base pages are compared with base pages by default. Pages do not
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
        "the restrictive segment: with the other one at most half of memory, and what is free there without a gap",
    ),
    Setting::new(
        "huge_segment",
        Accepts::number(0, 1 << 20, Unit::Megabytes),
        "0",
        "a segment for pages of 2 MB, in multiples of 32 MB; with it, first touches get a page of 2 MB where one fits; 0: none",
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
    segments: Vec<Segment>,
    cache: TagCache,
}

/// The cached lines of tags, by set of the cache, the most recently used first.
#[derive(Clone, Debug)]
struct TagCache(Vec<Vec<u64>>);

impl TagCache {
    /// Returns whether the cache has `line`, and enters it.
    fn enter(&mut self, line: u64) -> bool {
        let lines = &mut self.0[line as usize % CACHE_SETS];
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
        // The tags name the pages that the page table maps to the frames of the set.
        let entry = port.entry(miss.vpn);
        let (mut slowest, mut found) = (0, None);
        for segment in &self.segments {
            let Some(set) = segment.set(miss.asid, miss.vpn) else { continue };
            let line = segment.first_line + set;
            let read = if self.cache.enter(line) { 0 } else { port.read(PhysAddr(TAGS + line * LINE)) };
            slowest = slowest.max(CACHE_LATENCY + read);
            found = found.or(entry.filter(|&pte| segment.holds(set, pte)));
        }
        port.wait(slowest);
        found.map_or(AssistAnswer::Walk, AssistAnswer::Hit)
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
    /// For each place: whether it is still set aside, never used.
    aside: Vec<bool>,
}

impl Reserve {
    /// Sets a segment of at most `megabytes` MB for pages of size `page` aside, from frame `end` down to the first that is taken.
    fn new(megabytes: u64, page: PageShift, end: u64, vm: &mut Vm) -> Reserve {
        let pages = page.base_pages(vm.base());
        // Blocks of 512 base pages, where a place is smaller.
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
        // Frees the rest, which is less than a set.
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
        mut take: impl FnMut(Pfn, &mut Vm) -> Option<T>,
    ) -> Option<T> {
        let Reserve { segment, aside } = self;
        segment.places(segment.set(asid, vpn)?).find_map(|place| {
            let frame = segment.frame(place);
            if std::mem::take(&mut aside[place as usize]) {
                vm.frames_mut().free(frame, segment.pages);
            }
            take(frame, vm)
        })
    }
}

/// Demand paging into restrictive segments.
pub(crate) struct Utopia {
    megabytes: u64,
    huge_megabytes: u64,
    small: Option<Reserve>,
    huge: Option<Reserve>,
}

impl Utopia {
    pub(crate) fn new(settings: &Settings) -> Utopia {
        Utopia {
            megabytes: settings.number("segment"),
            huge_megabytes: settings.number("huge_segment"),
            small: None,
            huge: None,
        }
    }

    /// Answers a first touch with a page of 2 MB: in a place of its set, or else anywhere. Returns false where none fits.
    fn map_huge(&mut self, fault: Fault, view: &PageView, vm: &mut Vm) -> Result<bool, OutOfMemory> {
        let Some(huge) = &mut self.huge else { return Ok(false) };
        let (asid, size) = (vm.current(), huge.segment.page);
        let gets_frame = fault.kind == Kind::Store || !vm.options().zero_page;
        let first_touch = fault.cause == FaultCause::NotPresent && gets_frame;
        let may = may_be_huge(&view.region) && view.region.huge_shift == 0;
        if !first_touch || !may {
            return Ok(false);
        }
        let Some(first) = vm.extent_within(asid, fault.vpn, size, &view.region) else { return Ok(false) };
        let page = Superpage { shift: size, rights: view.protection, writable: true, whole: false };
        let placed = huge.find(asid, first, vm, |frame, vm| {
            let mapped = vm.map_superpage_at(first, view, page, frame);
            mapped.map(|mapped| mapped.then_some(())).transpose()
        });
        Ok(placed.transpose()?.is_some() || vm.map_superpage(first, view, page)?)
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
        let mut end = frames;
        if self.huge_megabytes > 0 {
            let page = nearest(DESCRIPTION.name, PageShift(21), vm)?;
            let huge = Reserve::new(self.huge_megabytes.min(half), page, end, vm);
            if huge.aside.is_empty() {
                let what = "its memory ends with no free set of sixteen pages of 2 MB; give more memory, or a huge_segment of at least 32";
                return Err(SystemError::Machine { system: DESCRIPTION.name.into(), what: what.into() });
            }
            end = huge.segment.start.0;
            self.huge = Some(huge);
        }
        let rest = half - ((frames - end) << vm.base().0 >> 20).min(half);
        let small = Reserve::new(self.megabytes.min(rest), vm.base(), end, vm);
        self.huge.iter_mut().for_each(|huge| huge.segment.first_line = small.segment.sets);
        self.small = Some(small);
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
            let take =
                |frame, vm: &mut Vm| vm.frames_mut().allocate_at(frame, 0, FrameKind::Anonymous, region.object, index);
            small.as_mut()?.find(asid, vpn, vm, take)
        })
    }

    fn walk_assist(&self, _: &Vm) -> Option<Box<dyn WalkAssist>> {
        let reserves = [&self.small, &self.huge].into_iter().flatten();
        let segments = reserves.map(|reserve| reserve.segment).collect();
        Some(Box::new(RestSeg { segments, cache: TagCache(vec![Vec::new(); CACHE_SETS]) }))
    }
}
