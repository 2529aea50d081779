//! `basu-2013-direct-segment`: base, limit and offset registers translate one segment of a process, without misses.
//!
//! After: Basu, Gandhi, Chang, Hill and Swift, "Efficient Virtual Memory for Big Memory Servers", ISCA 2013; and the ideal
//! of Karakostas et al. 2015 (section 8), in which all memory of a fixed size that lives for most of the program's time is
//! one range.
//!
//! | design | here |
//! |---|---|
//! | base, limit and offset, compared before the first TLB level | `aux_tlb.rs` of `reach-hardware` |
//! | contiguous memory, reserved at once | `ranges/eager.rs` of `reach-os` |
//!
//! Readings. A captured program does not ask for its primary region. With `kind=explicit`, the region is the first private
//! mapping of at least `min_segment` MB, or a heap that one request makes so large. With `kind=ideal`, every private
//! mapping of 32 KB or more is in the segment, however long it lives; the paper leaves out mappings that live for less
//! than 80 % of the time, so this is a bound. A heap that grows in small steps has no fixed size. But one request of
//! `min_heap_request` MB or more is one large allocation of the program, and in the segment too (allocators grow their
//! heap by 1 MB or less). A segment that loses pages at an end, or whose rights change there, becomes shorter. One that
//! loses pages in the middle ends, or is split in two with `kind=ideal`. Its pages are in the page table as well, which
//! the paper avoids.

use crate::description::{Description, Role};
use crate::error::SystemError;
use crate::evidence::{Criterion, Evidence};
use crate::settings::{Accepts, Setting, Settings, Unit, choice};
use crate::system::System;
use reach_core::{AuxTlbOptions, Bytes, PageTableKind, Permille};
use reach_os::{Ranging, Translated, Vm};

/// The entry of the table of systems.
pub(crate) const DESCRIPTION: Description = Description {
    name: "basu-2013-direct-segment",
    summary: "one contiguous segment, translated by base, limit and offset registers",
    role: Role::Design,
    compared: true,
    published: Some("Basu, Gandhi, Chang, Hill and Swift: Efficient Virtual Memory for Big Memory Servers, ISCA 2013"),
    criterion: Criterion::new(Evidence::Segments, "had no segment: no mapping was large enough"),
    page_table: PageTableKind::Radix,
    settings: SETTINGS,
    build: |settings| Box::new(DirectSegment::new(settings)),
};

pub(crate) const SETTINGS: &[Setting] = &[
    Setting::new(
        "kind",
        SegmentKind::ACCEPTS,
        "explicit",
        "the first large mapping is the segment (explicit), or all mappings of a fixed size are (ideal)",
    ),
    Setting::new(
        "min_segment",
        Accepts::number(1, 1 << 20, Unit::Megabytes),
        "16",
        "explicit: the smallest mapping that becomes the segment",
    )
    .formerly("least"),
    Setting::new(
        "min_heap_request",
        Accepts::number(1, 1 << 20, Unit::Megabytes),
        "2",
        "ideal: the smallest request of heap that is memory of a fixed size",
    )
    .formerly("heap"),
];

choice! {
    /// The memory that the segment translates.
    enum SegmentKind {
        /// The first large private mapping.
        Explicit = "explicit",
        /// All private mappings of a fixed size.
        Ideal = "ideal",
    }
}

/// Direct segments.
pub(crate) struct DirectSegment {
    kind: SegmentKind,
    min_segment: Bytes,
    min_heap_request: Bytes,
}

/// The fewest base pages of the ideal's mappings.
const IDEAL_MIN_PAGES: u64 = 8;

/// The allocator's largest block, so that one block holds any segment.
const MAX_BLOCK: u64 = 2 << 30;

impl DirectSegment {
    pub(crate) fn new(settings: &Settings) -> DirectSegment {
        DirectSegment {
            kind: settings.choice("kind"),
            min_segment: settings.megabytes("min_segment"),
            min_heap_request: settings.megabytes("min_heap_request"),
        }
    }
}

impl System for DirectSegment {
    fn name(&self) -> &str {
        "basu-2013-direct-segment"
    }

    fn boot(&mut self, vm: &mut Vm) -> Result<(), SystemError> {
        let (least, translated, heap) = match self.kind {
            SegmentKind::Explicit => ((self.min_segment.0 >> vm.base().0).max(1), Translated::BySegment, 0),
            SegmentKind::Ideal => (IDEAL_MIN_PAGES, Translated::BySegments, self.min_heap_request.0),
        };
        vm.use_ranges(Ranging {
            least,
            fragmented: Permille(1000),
            larger: true,
            sorted: true,
            block: MAX_BLOCK,
            translated,
            heap,
        });
        Ok(())
    }

    fn aux_tlb(&self, _: &Vm) -> Option<AuxTlbOptions> {
        Some(AuxTlbOptions::Segments)
    }
}
