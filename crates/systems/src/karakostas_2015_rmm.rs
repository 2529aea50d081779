//! `karakostas-2015-rmm`: redundant memory mappings.
//!
//! After: Karakostas, Gandhi, Ayar, Cristal, Hill, McKinley, Nemirovsky, Swift and Ünsal, "Redundant Memory Mappings for
//! Fast Access to Large Memories", ISCA 2015.
//!
//! | section | here |
//! |---|---|
//! | 4.1 range TLB, MRU pointer | `aux_tlb.rs` and `aux_tlb/range_tlb.rs` of `reach-hardware` |
//! | 4.2 range table, a B-tree | `range_table.rs` of `reach-core` |
//! | 4.3 misses, range bit, INVLPG, address-space identifiers | `aux_tlb.rs` of `reach-hardware` |
//! | 5.1 ranges created, merged, split and dissolved | `translation/ranges.rs` of `reach-os` |
//! | 5.2 eager paging, Figure 5, and its two improvements | `ranges/eager.rs` of `reach-os`; `round_up`, `sorted_free_lists` |
//! | 6 TLB-friendly workloads | `ranges/enabling.rs` of `reach-os`; `enable=measured` |
//! | 6 accessed and dirty bits set in advance | `translation/ranges.rs` of `reach-os` |
//! | 6 copy-on-write | `Rmm::fault` |
//! | 7 BadgerTrap's emulation | `lookup=after-miss` |
//!
//! Readings, where the paper is silent. A request is paged eagerly if it has at least the pages of the shortest range.
//! Figure 5's `freelist[i]` is read as the allocator, which splits larger blocks. Adjacent blocks form one range, and so
//! do adjacent ranges with the same rights. Fragmentation is the share of free memory in blocks smaller than 2 MB
//! (`max_fragmentation`, an estimate). A sixteenth of memory is never allocated eagerly. The range TLB evicts its least
//! recently used entry. Unmapping, a change of rights and reclaim split a range at the pages concerned. After a change of
//! rights contiguous pages become ranges anew, and so do pages that fork and mremap leave. Only mmap, brk and mremap page
//! eagerly: memory that is mapped without rights and then enabled by mprotect (glibc's arenas of threads) is
//! demand-paged. A range walk ends before the next reference, and nothing waits for it. Stacks, files and shared memory
//! are demand-paged.

use crate::description::{Description, Role};
use crate::error::SystemError;
use crate::evidence::{Criterion, Evidence};
use crate::settings::{Accepts, Setting, Settings, Unit, choice};
use crate::superpage;
use crate::system::System;
use reach_core::{
    AuxLookup, AuxTlbOptions, Cycles, Event, Fault, FaultCause, Kind, Label, PageTableKind, Permille, RangeTlbOptions,
};
use reach_os::{Enabling, OutOfMemory, Ranging, Translated, Vm, Worth};

/// The entry of the table of systems.
pub(crate) const DESCRIPTION: Description = Description {
    name: "karakostas-2015-rmm",
    summary: "eager paging in contiguous ranges, translated by a range TLB",
    role: Role::Design,
    compared: true,
    published: Some(
        "Karakostas, Gandhi, Ayar, Cristal, Hill, McKinley, Nemirovsky, Swift and Ünsal: Redundant Memory Mappings for \
         Fast Access to Large Memories, ISCA 2015",
    ),
    criterion: Criterion::new(Evidence::Ranges, "made no range: no request was paged eagerly"),
    page_table: PageTableKind::Radix,
    settings: SETTINGS,
    build: |settings| Box::new(Rmm::new(settings)),
};

pub(crate) const SETTINGS: &[Setting] = &[
    Setting::new("entries", Accepts::number(1, 4096, Unit::Count), "32", "ranges that the range TLB holds"),
    Setting::new(
        "mru",
        Accepts::Switch,
        "off",
        "whether an MRU pointer compares the range used last first, which avoids searches",
    ),
    Setting::new(
        "sweep",
        Accepts::number(0, 4096, Unit::Count),
        "0",
        "lookup=after-miss: also count the hits of range TLBs of 1 to this many entries, in the same pass; 0: none",
    ),
    Setting::new(
        "lookup",
        Lookup::ACCEPTS,
        "in-parallel",
        "the range TLB is looked up with the last level of TLBs, or after a miss there (the paper's emulation)",
    )
    .formerly("asked"),
    Setting::new(
        "latency",
        Accepts::number(0, 1000, Unit::Cycles),
        "7",
        "cycles of a hit on machines with a single TLB level; elsewhere a hit takes those of the last level",
    ),
    Setting::new(
        "min_range",
        Accepts::number(1, 1 << 20, Unit::Count),
        "8",
        "the fewest base pages of a range (contiguity threshold)",
    )
    .formerly("least"),
    Setting::new(
        "max_fragmentation",
        Accepts::number(0, 1000, Unit::Permille),
        "750",
        "no eager paging when more than this share of free memory, in thousandths, lies in blocks below 2 MB",
    )
    .formerly("fragmented"),
    Setting::new(
        "round_up",
        Accepts::Switch,
        "off",
        "whether a request takes one larger block and returns the rest; off: blocks that add up to it (the prototype)",
    )
    .formerly("larger"),
    Setting::new(
        "sorted_free_lists",
        Accepts::Switch,
        "off",
        "whether free lists are sorted by address, so that largest blocks are adjacent; off: the prototype",
    )
    .formerly("sorted"),
    Setting::new(
        "max_block",
        Accepts::number(1, 2048, Unit::Megabytes),
        "2048",
        "the allocator's largest block; Linux has 4 MB, the paper 2048 MB",
    )
    .formerly("block"),
    Setting::new(
        "copy_on_write",
        CopyOnWrite::ACCEPTS,
        "dissolve",
        "a store to a shared page dissolves its whole range into pages, or splits off only that page",
    ),
    Setting::new(
        "enable",
        Enable::ACCEPTS,
        "always",
        "the range TLB is on always, or for programs that performance counters show to walk much (measured)",
    ),
    Setting::new(
        "min_walk_share",
        Accepts::number(0, 10_000, Unit::BasisPoints),
        "50",
        "enable=measured: the share of its time, in ten-thousandths, that a program must spend in walks",
    )
    .formerly("worth"),
    Setting::new(
        "min_resident",
        Accepts::number(0, 1 << 32, Unit::Kilobytes),
        "2048",
        "enable=measured: the memory that a program must have resident; 2048 KB are 512 base pages of 4 KB",
    )
    .formerly("memory"),
    Setting::new(
        "period",
        Accepts::number(1, 1_000_000, Unit::Milliseconds),
        "1",
        "enable=measured: the time between two readings of the counters",
    ),
];

choice! {
    /// When the range TLB is looked up.
    enum Lookup {
        /// Together with the last level of TLBs.
        InParallel = "in-parallel",
        /// After a miss there.
        AfterMiss = "after-miss",
    }
}

choice! {
    /// The effect of a store to a shared page on its range.
    enum CopyOnWrite {
        /// The range is dissolved into pages.
        Dissolve = "dissolve",
        /// Only the page leaves the range.
        Split = "split",
    }
}

choice! {
    /// When the range TLB is on.
    enum Enable {
        /// Always.
        Always = "always",
        /// For programs whose counters justify it.
        Measured = "measured",
    }
}

/// Redundant memory mappings.
pub(crate) struct Rmm {
    range_tlb: RangeTlbOptions,
    ranging: Ranging,
    copy_on_write: CopyOnWrite,
    /// The decision for each program. `None`: the range TLB is always on.
    enabling: Option<Enabling>,
    /// Milliseconds between two readings of the counters.
    period: u64,
    next_reading: Option<Cycles>,
}

impl Rmm {
    pub(crate) fn new(settings: &Settings) -> Rmm {
        Rmm {
            range_tlb: RangeTlbOptions {
                entries: settings.number32("entries"),
                sweep_entries: settings.number32("sweep"),
                mru: settings.is_on("mru"),
                lookup: match settings.choice("lookup") {
                    Lookup::InParallel => AuxLookup::InParallel,
                    Lookup::AfterMiss => AuxLookup::AfterMiss,
                },
                latency: settings.number32("latency"),
            },
            ranging: Ranging {
                least: settings.number("min_range"),
                fragmented: Permille(settings.number("max_fragmentation")),
                larger: settings.is_on("round_up"),
                sorted: settings.is_on("sorted_free_lists"),
                block: settings.megabytes("max_block").0,
                translated: Translated::ByRanges,
                heap: 0,
            },
            copy_on_write: settings.choice("copy_on_write"),
            enabling: match settings.choice("enable") {
                Enable::Always => None,
                Enable::Measured => Some(Enabling::new(Worth {
                    share: settings.number("min_walk_share"),
                    memory: settings.kilobytes("min_resident").0,
                })),
            },
            period: settings.number("period"),
            next_reading: None,
        }
    }

    /// Returns the time of the reading after one at `now`.
    fn reading_after(&self, now: Cycles, vm: &Vm) -> Cycles {
        Cycles(now.0.saturating_add(superpage::cycles_in(self.period, vm)))
    }
}

impl System for Rmm {
    fn name(&self) -> &str {
        "karakostas-2015-rmm"
    }

    fn boot(&mut self, vm: &mut Vm) -> Result<(), SystemError> {
        let exclusive = |what: &str| Err(SystemError::Options { system: self.name().into(), what: what.into() });
        if self.range_tlb.sweep_entries > 0 && self.range_tlb.lookup == AuxLookup::InParallel {
            return exclusive("sweep counts range TLBs only with lookup=after-miss; give that option too");
        }
        if self.range_tlb.sweep_entries > 0 && self.enabling.is_some() {
            return exclusive("sweep counts range TLBs that are always on; leave out enable=measured");
        }
        if self.enabling.is_some() {
            self.next_reading = Some(self.reading_after(Cycles(0), vm));
        }
        vm.use_ranges(self.ranging);
        Ok(())
    }

    fn event(&mut self, event: &Event, vm: &mut Vm) -> Result<(), OutOfMemory> {
        if let Some(enabling) = &mut self.enabling {
            enabling.attribute(vm);
        }
        let populate = vm.apply(event)?;
        if let Some(enabling) = &mut self.enabling
            && matches!(event, Event::Exec { .. } | Event::Exit)
        {
            enabling.forget(vm.current());
        }
        populate.map_or(Ok(()), |populate| self.populate(&populate, vm))
    }

    /// Handles a fault. A store to a shared page dissolves its range first, unless `copy_on_write=split` (section 6).
    fn fault(&mut self, fault: Fault, vm: &mut Vm) -> Result<(), OutOfMemory> {
        let view = vm.fault_view(fault)?;
        let shared_store = fault.kind == Kind::Store && fault.cause == FaultCause::Protection;
        if shared_store && self.copy_on_write == CopyOnWrite::Dissolve {
            vm.dissolve_range(fault.vpn, Label::Fault);
        }
        vm.demand_fault_in(fault, view)
    }

    fn tick(&mut self, now: Cycles, vm: &mut Vm) -> Result<(), OutOfMemory> {
        if self.next_reading.is_some_and(|next| next <= now)
            && let Some(enabling) = &mut self.enabling
        {
            enabling.review(vm);
            self.next_reading = Some(self.reading_after(now, vm));
        }
        Ok(())
    }

    fn next_tick(&self) -> Option<Cycles> {
        self.next_reading
    }

    fn aux_tlb(&self, _: &Vm) -> Option<AuxTlbOptions> {
        Some(AuxTlbOptions::Ranges(self.range_tlb))
    }

    fn reads_counters(&self) -> bool {
        self.enabling.is_some()
    }

    fn enables_aux_tlb(&self, vm: &Vm) -> bool {
        self.enabling.as_ref().is_none_or(|enabling| enabling.is_on(vm.current()))
    }
}
