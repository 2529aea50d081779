//! `kanellopoulos-2023-utopia`: part of memory is a segment in which a page has few places, so that tags say where it is.
//!
//! After: Kanellopoulos, Bera, Stojiljkovic, Bostanci, Firtina, Ausavarungnirun, Kumar, Hajinazar, Sadrosadati, Vijaykumar and
//! Mutlu, "Utopia: Fast and Efficient Address Translation via Hybrid Restrictive & Flexible Virtual-to-Physical Address Mappings",
//! MICRO 2023. What is said of it here is from its abstract and from what is generally known of the design.
//!
//! | design | here |
//! |---|---|
//! | a restrictive segment: sets of sixteen frames, found by the page number; all other memory is flexible | [`Segment`] |
//! | a first touch takes a frame of its set, or else any frame | [`Utopia::fault`] |
//! | a line of tags for each set says which page is in which frame | [`RestSeg::search`] |
//! | a cache of these lines beside the walker | [`RestSeg`] |
//! | pages that are not in the segment are walked for | [`RestSeg::search`] |
//!
//! Readings: the segment is the end of memory, of 1 GB as in the authors' simulator. A page's set is its number plus
//! the address space, modulo the sets. The cache has 128 lines in eight ways and answers in two cycles. The filter that says that a set is
//! empty is part of the line.
//!
//! Deviations: one segment, for base pages; the paper has another for 2 MB. Pages do not migrate into the segment when they turn out to
//! be costly, because first touches fill it here. A frame of the segment that is freed serves everyone, until its set takes it again.

use crate::description::{self, Description};
use crate::error::SystemError;
use crate::evidence::{Criterion, Evidence};
use crate::placed::placed_fault;
use crate::settings::{Accepts, Setting, Settings, Unit};
use crate::system::System;
use reach_core::{
    Asid, AssistAnswer, AssistPort, Fault, PageShift, PageTableKind, Pfn, PhysAddr, Pte, TlbMiss, Vpn, WalkAssist,
};
use reach_os::{FrameKind, ObjectId, OutOfMemory, Region, Vm};

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

const SETTINGS: &[Setting] = &[Setting::new(
    "segment",
    Accepts::number(1, 1 << 20, Unit::Megabytes),
    "1024",
    "the restrictive segment: at most half of memory, and what is free there without a gap",
)];

/// Frames of a set.
const WAYS: u64 = 16;
/// The first byte of the tags, beyond all frames; a line for each set.
const TAGS: u64 = 1 << 43;
const LINE: u64 = 64;
/// Sets and ways of the cache of lines, and cycles of a hit in it.
const CACHE_SETS: usize = 16;
const CACHE_WAYS: usize = 8;
const CACHE_LATENCY: u32 = 2;

/// A segment of memory, in sets of neighbouring frames.
#[derive(Clone, Copy, Debug)]
struct Segment {
    start: Pfn,
    sets: u64,
}

impl Segment {
    /// Returns the set of a page; `None` in a segment without sets.
    fn set(self, asid: Asid, vpn: Vpn) -> Option<u64> {
        (vpn.0 + u64::from(asid.0)).checked_rem(self.sets)
    }

    /// Returns the frames of a set.
    fn frames(self, set: u64) -> impl Iterator<Item = Pfn> {
        (0..WAYS).map(move |way| self.start + set * WAYS + way)
    }
}

/// The hardware beside the walker.
#[derive(Clone, Debug)]
struct RestSeg {
    segment: Segment,
    base: PageShift,
    /// The cached lines of tags, by set of the cache, the most recently used first.
    cached: Vec<Vec<u64>>,
}

impl RestSeg {
    /// Returns whether the cache has the line of `set`, and enters it.
    fn is_cached(&mut self, set: u64) -> bool {
        let lines = &mut self.cached[set as usize % CACHE_SETS];
        let at = lines.iter().position(|&line| line == set);
        match at {
            Some(at) => lines[..=at].rotate_right(1),
            None => {
                lines.truncate(CACHE_WAYS - 1);
                lines.insert(0, set);
            }
        }
        at.is_some()
    }
}

impl WalkAssist for RestSeg {
    fn search(&mut self, miss: TlbMiss, port: &mut dyn AssistPort) -> AssistAnswer {
        let Some(set) = self.segment.set(miss.asid, miss.vpn) else { return AssistAnswer::Walk };
        port.wait(CACHE_LATENCY);
        if !self.is_cached(set) {
            let cycles = port.read(PhysAddr(TAGS + set * LINE));
            port.wait(cycles);
        }
        // The tags name the pages that the page table maps to the frames of the set.
        let entry = port.entry(miss.vpn).filter(|pte| pte.shift() == self.base);
        let in_set = entry.filter(|pte| self.segment.frames(set).any(|frame| frame == pte.pfn()));
        in_set.map_or(AssistAnswer::Walk, AssistAnswer::Hit)
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

/// Demand paging into a restrictive segment.
pub(crate) struct Utopia {
    megabytes: u64,
    segment: Segment,
}

/// Allocates a frame of the page's set. Returns `None` when all are taken.
fn allocate(segment: Segment, asid: Asid, vpn: Vpn, region: &Region, vm: &mut Vm) -> Option<Pfn> {
    let index = region.index(vpn, vm.base());
    segment.frames(segment.set(asid, vpn)?).find_map(|frame| {
        // Frames that were never used are set aside.
        if vm.frames().get(frame).kind == FrameKind::Wired {
            vm.frames_mut().free(frame, 1);
        }
        vm.frames_mut().allocate_at(frame, 0, FrameKind::Anonymous, region.object, index)
    })
}

impl Utopia {
    pub(crate) fn new(settings: &Settings) -> Utopia {
        Utopia { megabytes: settings.number("segment"), segment: Segment { start: Pfn(0), sets: 0 } }
    }
}

impl System for Utopia {
    fn name(&self) -> &str {
        DESCRIPTION.name
    }

    /// Sets the segment aside, from the end of memory down to the first frame that is taken.
    fn boot(&mut self, vm: &mut Vm) -> Result<(), SystemError> {
        let frames = vm.frames().buddy().frames();
        let order = vm.frames().buddy().max_order().min(9);
        let block = 1u64 << order;
        let end = frames / block * block;
        let wanted = ((self.megabytes << 20 >> vm.base().0).min(frames / 2)) / block;
        let mut start = end;
        for _ in 0..wanted {
            let at = Pfn(start - block);
            if vm.frames_mut().allocate_at(at, order, FrameKind::Wired, ObjectId::NONE, 0).is_none() {
                break;
            }
            start = at.0;
        }
        self.segment = Segment { start: Pfn(start), sets: (end - start) / WAYS };
        Ok(())
    }

    fn fault(&mut self, fault: Fault, vm: &mut Vm) -> Result<(), OutOfMemory> {
        let segment = self.segment;
        placed_fault(fault, vm, |asid, vpn, region, vm| allocate(segment, asid, vpn, region, vm))
    }

    fn walk_assist(&self, vm: &Vm) -> Option<Box<dyn WalkAssist>> {
        let cached = vec![Vec::new(); CACHE_SETS];
        Some(Box::new(RestSeg { segment: self.segment, base: vm.base(), cached }))
    }
}
