//! `karakostas-2015-rmm`: redundant memory mappings.
//!
//! After: Karakostas, Gandhi, Ayar, Cristal, Hill, McKinley, Nemirovsky, Swift and Ünsal, "Redundant Memory Mappings for
//! Fast Access to Large Memories", ISCA 2015.
//!
//! | section | here |
//! |---|---|
//! | 4.1 range TLB, MRU pointer | `range_tlb.rs` and `beside.rs` of `reach-hardware` |
//! | 4.2 range table, a B-tree | `range_table.rs` of `reach-core` |
//! | 4.3 misses, range bit, INVLPG, address-space identifiers | `beside.rs` |
//! | 5.1 ranges made, merged, cut and dissolved | `ranges.rs` of `reach-os` |
//! | 5.2 eager paging, Figure 5, and its two improvements | `eager.rs` of `reach-os`; `larger`, `sorted` |
//! | 6 TLB-friendly workloads | `enabling.rs` of `reach-os`; `enable=measured` |
//! | 6 accessed and dirty bits in advance | `ranges.rs` |
//! | 6 copy-on-write | `Rmm::fault` |
//! | 7 BadgerTrap's emulation | `asked=after-miss` |
//!
//! Readings, where the paper is silent. A request is paged eagerly if it has the pages of the shortest range. Figure 5's
//! `freelist[i]` stands for the allocator, which splits larger blocks. Blocks that continue one another, and ranges that
//! do so with the same rights, are one range. Memory is fragmented as far as its free part lies in blocks smaller than 2 MB
//! (`fragmented`, an estimate); a sixteenth of memory is never given out in advance. The range TLB evicts its least
//! recently used entry. Unmapping, a change of rights and reclaim cut a range at the pages that they concern; after a
//! change of rights what is contiguous becomes ranges anew, and so does what fork and mremap leave. Only mmap, brk and
//! mremap page eagerly: memory that is mapped without rights and then opened by mprotect (glibc's arenas of threads) is
//! demand-paged. A range walk ends before the next reference; nothing waits for it. Stacks, files and shared memory are paged on
//! demand.

use crate::{Accepts, Setting, Settings, System, SystemError};
use reach_core::{AuxLookup, AuxTlbOptions, Cycles, Event, Fault, FaultCause, Kind, Label, RangeTlbOptions};
use reach_os::{Enabling, OutOfMemory, Ranging, Translated, Vm, Worth};

pub(crate) const SETTINGS: &[Setting] = &[
    Setting {
        name: "entries",
        summary: "ranges that the range TLB holds",
        accepts: Accepts::Number { least: 1, most: 4096 },
        default: "32",
    },
    Setting {
        name: "mru",
        summary: "the range used last is looked at first (1), which spares searches, or not (0)",
        accepts: Accepts::Number { least: 0, most: 1 },
        default: "0",
    },
    Setting {
        name: "sweep",
        summary: "count in the same pass what range TLBs of up to so many entries would hit; asked=after-miss only",
        accepts: Accepts::Number { least: 0, most: 4096 },
        default: "0",
    },
    Setting {
        name: "asked",
        summary: "the range TLB is asked with the last level of TLBs, or after a miss there (the paper's emulation)",
        accepts: Accepts::Choice(&["in-parallel", "after-miss"]),
        default: "in-parallel",
    },
    Setting {
        name: "latency",
        summary: "cycles of a hit where the TLB has one level; elsewhere it takes those of the last level",
        accepts: Accepts::Number { least: 0, most: 1000 },
        default: "7",
    },
    Setting {
        name: "least",
        summary: "the fewest base pages of a range (contiguity threshold)",
        accepts: Accepts::Number { least: 1, most: 1 << 20 },
        default: "8",
    },
    Setting {
        name: "fragmented",
        summary: "no eager paging when more of free memory, in thousandths, lies in blocks below 2 MB",
        accepts: Accepts::Number { least: 0, most: 1000 },
        default: "750",
    },
    Setting {
        name: "larger",
        summary: "a request takes a larger block and returns the rest (1), or blocks that add up to it (0, the prototype)",
        accepts: Accepts::Number { least: 0, most: 1 },
        default: "0",
    },
    Setting {
        name: "sorted",
        summary: "free lists are sorted, so that the largest blocks follow one another (1), or not (0, the prototype)",
        accepts: Accepts::Number { least: 0, most: 1 },
        default: "0",
    },
    Setting {
        name: "block",
        summary: "the allocator's largest block in MB; Linux has 4, the paper 2048",
        accepts: Accepts::Number { least: 1, most: 2048 },
        default: "2048",
    },
    Setting {
        name: "copy_on_write",
        summary: "a store to a shared page makes its whole range pages (dissolve), or only that page one (split)",
        accepts: Accepts::Choice(&["dissolve", "split"]),
        default: "dissolve",
    },
    Setting {
        name: "enable",
        summary: "the range TLB is on always, or for programs that are worth it by the performance counters (measured)",
        accepts: Accepts::Choice(&["always", "measured"]),
        default: "always",
    },
    Setting {
        name: "worth",
        summary: "enable=measured: the share of its time, in ten-thousandths, for which a program must walk",
        accepts: Accepts::Number { least: 0, most: 10_000 },
        default: "50",
    },
    Setting {
        name: "memory",
        summary: "enable=measured: what a program must have in memory, in KB; 2048 is what 512 base pages hold",
        accepts: Accepts::Number { least: 0, most: 1 << 32 },
        default: "2048",
    },
    Setting {
        name: "period",
        summary: "enable=measured: milliseconds between two looks at the counters",
        accepts: Accepts::Number { least: 1, most: 1_000_000 },
        default: "1",
    },
];

/// Redundant memory mappings.
pub(crate) struct Rmm {
    range_tlb: RangeTlbOptions,
    ranging: Ranging,
    dissolve: bool,
    /// Where the range TLB is not always on.
    enabling: Option<Enabling>,
    /// Milliseconds between looks, and when the next is.
    period: u64,
    wake: Option<Cycles>,
}

impl Rmm {
    pub(crate) fn new(settings: &Settings) -> Rmm {
        Rmm {
            range_tlb: RangeTlbOptions {
                entries: settings.number("entries") as u32,
                sweep_entries: settings.number("sweep") as u32,
                mru: settings.number("mru") == 1,
                lookup: match settings.choice("asked") {
                    "after-miss" => AuxLookup::AfterMiss,
                    _ => AuxLookup::InParallel,
                },
                latency: settings.number("latency") as u32,
            },
            ranging: Ranging {
                least: settings.number("least"),
                fragmented: settings.number("fragmented"),
                larger: settings.number("larger") == 1,
                sorted: settings.number("sorted") == 1,
                block: settings.number("block") << 20,
                translated: Translated::ByRanges,
                heap: 0,
            },
            dissolve: settings.choice("copy_on_write") == "dissolve",
            enabling: (settings.choice("enable") == "measured").then(|| {
                Enabling::new(Worth { share: settings.number("worth"), memory: settings.number("memory") << 10 })
            }),
            period: settings.number("period"),
            wake: None,
        }
    }
}

impl Rmm {
    fn after(&self, now: Cycles, vm: &Vm) -> Cycles {
        let cycles = u128::from(self.period) * u128::from(vm.options().hertz) / 1000;
        Cycles(now.0.saturating_add(cycles as u64))
    }
}

impl System for Rmm {
    fn name(&self) -> &str {
        "karakostas-2015-rmm"
    }

    fn reads_counters(&self) -> bool {
        self.enabling.is_some()
    }

    fn enables_aux_tlb(&self, vm: &Vm) -> bool {
        self.enabling.as_ref().is_none_or(|enabling| enabling.is_on(vm.current()))
    }

    fn boot(&mut self, vm: &mut Vm) -> Result<(), SystemError> {
        if self.range_tlb.sweep_entries > 0 && self.range_tlb.lookup == AuxLookup::InParallel {
            let what = "sweep counts in one pass only what asked=after-miss asks; give that too".into();
            return Err(SystemError::Machine { system: self.name().into(), what });
        }
        if self.range_tlb.sweep_entries > 0 && self.enabling.is_some() {
            let what = "sweep counts for range TLBs that are always on; leave enable=measured out".into();
            return Err(SystemError::Machine { system: self.name().into(), what });
        }
        if self.enabling.is_some() {
            self.wake = Some(self.after(Cycles(0), vm));
        }
        vm.use_ranges(self.ranging);
        Ok(())
    }

    fn event(&mut self, event: &Event, vm: &mut Vm) -> Result<(), OutOfMemory> {
        if let Some(enabling) = &mut self.enabling {
            enabling.book(vm);
        }
        let populate = vm.apply(event)?;
        if let Some(enabling) = &mut self.enabling
            && matches!(event, Event::Exec { .. } | Event::Exit)
        {
            enabling.forget(vm.current());
        }
        populate.map_or(Ok(()), |populate| self.populate(&populate, vm))
    }

    fn wake(&self) -> Option<Cycles> {
        self.wake
    }

    fn tick(&mut self, now: Cycles, vm: &mut Vm) -> Result<(), OutOfMemory> {
        if self.wake.is_some_and(|wake| wake <= now)
            && let Some(enabling) = &mut self.enabling
        {
            enabling.look(vm);
            self.wake = Some(self.after(now, vm));
        }
        Ok(())
    }

    fn fault(&mut self, fault: Fault, vm: &mut Vm) -> Result<(), OutOfMemory> {
        let view = vm.fault_view(fault)?;
        if self.dissolve && fault.kind == Kind::Store && fault.cause == FaultCause::Protection {
            vm.dissolve_range(fault.vpn, Label::Fault);
        }
        vm.demand_fault_in(fault, view)
    }

    fn aux_tlb(&self, _: &Vm) -> Option<AuxTlbOptions> {
        Some(AuxTlbOptions::Ranges(self.range_tlb))
    }
}
