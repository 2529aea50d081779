//! `basu-2013-direct-segment`: one segment of a process is translated by base, limit and offset, and never misses.
//!
//! After: Basu, Gandhi, Chang, Hill and Swift, "Efficient Virtual Memory for Big Memory Servers", ISCA 2013; and the ideal
//! of Karakostas et al. 2015 (section 8), in which all memory of a fixed size that lives for most of the program's time is
//! one range.
//!
//! | | here |
//! |---|---|
//! | base, limit and offset, looked at beside the first level | `Mmu::in_segment` of `reach-hardware` |
//! | memory reserved at once and in one piece | `eager.rs` of `reach-os` |
//!
//! Readings. A captured program does not ask for its primary region: with `kind=explicit` it is the first private mapping
//! of at least `least` MB, the heap included where one request makes it so large. With `kind=ideal` every private mapping of
//! 32 KB or more is in the segment, however long it lives: the paper leaves out what lives for less than 80 % of the time, so
//! that this is a bound. A heap that grows by and by has no fixed size; but what is asked of it at once, `heap` MB or more,
//! is one large allocation of the program (allocators let their heap grow by 1 MB or less), and in the segment too. A segment that loses pages at an end, or whose rights change there, becomes shorter; one that loses them in the middle ends, or
//! becomes two with `kind=ideal`. Its pages stand in the page table, too, which the paper spares.

use crate::{Accepts, Setting, Settings, System, SystemError};
use reach_core::AuxTlbOptions;
use reach_os::{Ranging, Translated, Vm};

pub(crate) const SETTINGS: &[Setting] = &[
    Setting {
        name: "kind",
        summary: "the first large mapping is the segment (explicit), or all mappings of a fixed size are (ideal)",
        accepts: Accepts::Choice(&["explicit", "ideal"]),
        default: "explicit",
    },
    Setting {
        name: "least",
        summary: "explicit: the smallest mapping that becomes the segment, in MB",
        accepts: Accepts::Number { least: 1, most: 1 << 20 },
        default: "16",
    },
    Setting {
        name: "heap",
        summary: "ideal: the smallest request of heap that is memory of a fixed size, in MB",
        accepts: Accepts::Number { least: 1, most: 1 << 20 },
        default: "2",
    },
];

/// Direct segments.
pub(crate) struct DirectSegment {
    ideal: bool,
    least: u64,
    heap: u64,
}

impl DirectSegment {
    pub(crate) fn new(settings: &Settings) -> DirectSegment {
        DirectSegment {
            ideal: settings.choice("kind") == "ideal",
            least: settings.number("least") << 20,
            heap: settings.number("heap") << 20,
        }
    }
}

impl System for DirectSegment {
    fn name(&self) -> &str {
        "basu-2013-direct-segment"
    }

    fn boot(&mut self, vm: &mut Vm) -> Result<(), SystemError> {
        vm.use_ranges(Ranging {
            least: if self.ideal { 8 } else { (self.least >> vm.base().0).max(1) },
            fragmented: 1000,
            larger: true,
            sorted: true,
            block: 2 << 30,
            translated: if self.ideal { Translated::BySegments } else { Translated::BySegment },
            heap: if self.ideal { self.heap } else { 0 },
        });
        Ok(())
    }

    fn aux_tlb(&self, _: &Vm) -> Option<AuxTlbOptions> {
        Some(AuxTlbOptions::Segments)
    }
}
