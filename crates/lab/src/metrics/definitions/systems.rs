//! What single systems count: reservations, memory over time, code, ranges.

use super::{Definition, Group};

const RESERVING: &str = "systems with reservations: `navarro-2002`, `freebsd`, `talluri-hill-1994`, `zhou-2023`, `barr-2011-spectlb`, `margaritov-2021-ptemagnet`";
const DAEMON: &str = "systems with a page daemon: `freebsd`, `navarro-2002`, `romer-1995`, `fang-1999`, `zhou-2023`, `barr-2011-spectlb`";

const fn reserving(name: &'static str, unit: &'static str, meaning: &'static str) -> Definition {
    Definition::new(name, unit, meaning).given(RESERVING)
}

const fn of_daemon(name: &'static str, unit: &'static str, meaning: &'static str) -> Definition {
    Definition::new(name, unit, meaning).given(DAEMON)
}

const fn of_code(name: &'static str, unit: &'static str, meaning: &'static str) -> Definition {
    Definition::new(name, unit, meaning).given("`zhou-2023`, for all processes together")
}

const fn of_ranges(name: &'static str, unit: &'static str, meaning: &'static str) -> Definition {
    Definition::new(name, unit, meaning)
        .given("systems that page eagerly: `karakostas-2015-rmm`, `pham-2014-clustered`, `basu-2013-direct-segment`")
}

const fn of_hugetlb(name: &'static str, unit: &'static str, meaning: &'static str) -> Definition {
    Definition::new(name, unit, meaning).given("`hugetlb-2m` and `hugetlb-1g`")
}

const RMM: &str = "`karakostas-2015-rmm`";

const fn of_rmm(name: &'static str, unit: &'static str, meaning: &'static str) -> Definition {
    Definition::new(name, unit, meaning).given(RMM)
}

const fn of_host(name: &'static str, unit: &'static str, meaning: &'static str) -> Definition {
    Definition::new(name, unit, meaning).given("`--host`")
}

const fn of_guest(name: &'static str, unit: &'static str, meaning: &'static str) -> Definition {
    Definition::new(name, unit, meaning).given("`--guests` of 2 or more")
}

const fn of_monitor(name: &'static str, unit: &'static str, meaning: &'static str) -> Definition {
    Definition::new(name, unit, meaning).given("`guest_paging=shadow` or `agile`")
}

const fn of_assist(name: &'static str, unit: &'static str, meaning: &'static str) -> Definition {
    Definition::new(name, unit, meaning).given("systems with a walk assist")
}

const CLUSTERED: &str = "`pham-2012-colt`, `pham-2014-clustered` and `gosakan-2023-mosaic`";

const fn of_clusters(name: &'static str, unit: &'static str, meaning: &'static str) -> Definition {
    Definition::new(name, unit, meaning).given(CLUSTERED)
}

pub(super) const RESERVATIONS: Group = Group {
    title: "Reservations",
    about: "`vm.reserv.*` are FreeBSD's counters of the same names.",
    definitions: &[
        Definition::new("reservations", "count", "Reservations made.").from("Navarro et al. 2002, section 4.1"),
        Definition::new("reservations.<size>", "count", "Reservations made of this size."),
        Definition::new(
            "reservations_wanted",
            "count",
            "Pages for which a reservation was wanted, whether or not it was made.",
        ),
        Definition::new("reservations_wanted.<size>", "count", "Reservations of this size that were wanted."),
        Definition::new("preemptions", "count", "Reservations broken because an allocation failed.")
            .from("Navarro et al. 2002, section 4.3"),
        reserving("vm.reserv.broken", "count", "Reservations broken for any reason, the end of their object included."),
        reserving("vm.reserv.freed", "count", "Reservations that ended because their last page was freed."),
        reserving("vm.reserv.fullpop", "count", "Fully populated reservations, at their peak."),
        reserving("vm.reserv.partpopq", "count", "Partially populated reservations in a queue, at their peak."),
        reserving("vm.reserv.reclaimed", "count", "Reservations broken because memory was short."),
    ],
};

pub(super) const STEPS: Group = Group {
    title: "Work in elementary steps",
    about: "Operations are `look_up` (a page in its population map), `reserve`, `update` (of a population map and a reservation's \
            list), `preempt`, `split` and `join` (the allocator's), `promote`, `demote`, `emulate` (rights and accessed or \
            dirty bits changed) and `scan` (the page daemon). A step is a node visited, a list element linked or unlinked, a \
            page-table entry rewritten, or a page examined (Navarro et al. 2002, section 6.8). The option `step_cycles` gives \
            the cycles per step of the first six; entries cost what page-table writes do.",
    definitions: &[
        reserving("work.<operation>.times", "count", "How often the operation ran."),
        reserving("work.<operation>.steps", "count", "Its elementary steps."),
        reserving("work.<operation>.times.<size>", "count", "How often the operation ran on pages of this size."),
        reserving("work.<operation>.steps.<size>", "count", "Its elementary steps on pages of this size."),
    ],
};

pub(super) const OVER_TIME: Group = Group {
    title: "Memory over time, and the page daemon",
    about: "The rows of a process have `start` and `end`: before it began and after it ended. Rows of all processes have `@` and \
            milliseconds since boot, where the system samples memory (`navarro-2002:sample_period=1000`).",
    definitions: &[
        of_daemon("memory.contiguity.<when>", "share", "Contiguity of free and cached memory, from 0 to 1.")
            .from("Navarro et al. 2002, section 6.5"),
        of_daemon("memory.free.<when>", "bytes", "Memory that is free or cached."),
        of_daemon("memory.active.<when>", "bytes", "Memory in the page daemon's active queue."),
        of_daemon("memory.inactive.<when>", "bytes", "Memory in the page daemon's inactive queue."),
        of_daemon(
            "memory.extents_in_use.<when>",
            "count",
            "Extents of the largest page size with pages in those queues.",
        ),
        of_daemon("memory.extents_wired.<when>", "count", "Extents of the largest page size with wired pages."),
        of_daemon("paging.out", "pages", "Pages written to swap or to their file."),
        of_daemon(
            "paging.unchanged",
            "pages",
            "Dirty pages that were not written, because their contents had not changed.",
        ),
        of_daemon("paging.swapped_in", "pages", "Pages read back from swap."),
        of_daemon(
            "paging.cached",
            "pages",
            "Pages that the daemon moved to the cache, where they keep their contents until they are allocated.",
        ),
        of_daemon("paging.reactivated", "pages", "Cached pages that were used again."),
        of_daemon("paging.scanned", "pages", "Pages that the page daemon examined."),
        of_daemon("paging.regions_wanted", "count", "Times that the daemon was asked to restore a contiguous region."),
        of_daemon("paging.regions_restored", "count", "Times that it did."),
    ],
};

pub(super) const CODE: Group = Group {
    title: "Code",
    about: "An extent is 2 MB of addresses, aligned to 2 MB. Extents of files count once, whoever maps them; private code is that \
            of the process that has most.",
    definitions: &[
        of_code("code.executable_bytes", "bytes", "Code of the executable that has most.").from("Zhou et al. 2023, Table 3"),
        of_code("code.libraries", "count", "Libraries mapped."),
        of_code("code.libraries.below_1M", "count", "Libraries with less than 1 MB of code."),
        of_code("code.libraries.below_2M", "count", "Libraries with less than 2 MB of code."),
        of_code("code.libraries.greatest_bytes", "bytes", "The most code that a library has."),
        of_code("code.written_bytes", "bytes", "Private executable memory, such as compiled code, of the process that has most."),
        of_code("code.extents", "count", "Extents with code of files, and with private code."),
        of_code("code.extents.touched", "count", "Of these, extents with any page in memory."),
        of_code(
            "code.extents.with_<n>",
            "count",
            "Extents of files with at least this many of their 32 clusters of 64 KB in memory. With `--cold`, clusters arrive as \
             they are touched.",
        )
        .from("Zhou et al. 2023, Figures 1 and 2"),
        of_code("code.superpages", "pages", "Extents that a superpage maps, padded ones included."),
    ],
};

pub(super) const EXPLICIT: Group = Group {
    title: "Explicit huge pages",
    about: "What first touches of the heap and of anonymous mappings got under systems that have pages of one size for all of it.",
    definitions: &[
        of_hugetlb("explicit.bytes.<size>", "bytes", "Memory that first touches mapped with pages of this size."),
        of_hugetlb(
            "explicit.shared_extents",
            "count",
            "First touches that got a smaller page because the aligned extent around them holds other mappings, too.",
        ),
        of_hugetlb(
            "explicit.failures",
            "count",
            "First touches that got a smaller page because memory had no free block of the size.",
        )
        .from("Linux: `HugePages_Free` of 0"),
    ],
};

pub(super) const AUXILIARY_TLBS: Group = Group {
    title: "Auxiliary TLBs",
    about: "`basu-2013-direct-segment` has segment registers in place of an auxiliary TLB, and counts nothing here. `sweep` \
            counts every size exactly, and is refused on machines where it could not (docs/ranges.md).",
    definitions: &[
        of_rmm("range_tlb.lookups", "count", "Look-ups of the range TLB."),
        of_rmm("range_tlb.hits", "count", "Look-ups that found the page."),
        of_rmm("range_tlb.mru_hits", "count", "Hits in the entry used last (the MRU pointer)."),
        of_rmm("range_tlb.spared_walks", "count", "Hits where the last level of TLBs missed."),
        of_rmm("range_tlb.fills", "count", "Entries inserted."),
        of_rmm("range_tlb.searches", "count", "Associative searches: look-ups that the MRU pointer did not answer.")
            .from("Karakostas et al. 2015, section 4.1"),
        of_rmm("range_tlb.not_asked", "count", "Look-ups not made because the range TLB was off.")
            .given("`karakostas-2015-rmm`; above 0 with `enable=measured`"),
        of_rmm(
            "range_tlb.misses@<n>",
            "count",
            "Misses of a range TLB with this many entries, counted in the same pass.",
        )
        .from("Karakostas et al. 2015, Figure 7")
        .given("`karakostas-2015-rmm:sweep=64`"),
        of_rmm("range_tlb.miss_ratio@<n>", "ratio", "Misses of a range TLB with this many entries per look-up.")
            .from("`range_tlb.misses@<n>` / `range_tlb.lookups`")
            .given("`karakostas-2015-rmm:sweep=64`"),
        of_rmm("range_walks", "count", "Walks of range tables, for which no instruction waits."),
        of_rmm("range_walk_accesses", "count", "Lines of 64 bytes that walks of range tables read."),
        of_rmm("range_walk_cycles", "cycles", "Cycles of walks of range tables, for which no instruction waits."),
        of_clusters("cluster_tlb.lookups", "count", "Look-ups of the clustered or coalesced TLB."),
        of_clusters("cluster_tlb.hits", "count", "Look-ups that found the page."),
        of_clusters("cluster_tlb.mru_hits", "count", "Hits in the entry used last."),
        of_clusters("cluster_tlb.spared_walks", "count", "Hits where the last level of TLBs missed."),
        of_clusters("cluster_tlb.fills", "count", "Entries inserted."),
        of_clusters("cluster_tlb.coalesced", "count", "Entries inserted that translate several pages."),
    ],
};

pub(super) const HOST: Group = Group {
    title: "The host's operating system",
    about: "What the operating system of a guest's host has done. The metrics of the same names without `host.` define them.",
    definitions: &[
        of_host("host.page_faults", "count", "Pages that the host gave the guest because a walk needed them."),
        of_host("host.promotions", "count", "Superpages that the host promoted."),
        of_host("host.demotions", "count", "Superpages that the host demoted."),
        of_host("host.superpages.<size>", "pages", "Superpages of this size that the host mapped, at their peak."),
        of_host("host.bytes_copied", "bytes", "Memory that the host copied."),
        of_host("host.bytes_zeroed", "bytes", "Memory that the host zeroed, page tables included."),
        of_host("host.peak_resident_bytes", "bytes", "The memory of all guests on the host, at its peak."),
        of_host("host.page_table_bytes", "bytes", "Memory of the host's page tables, at its peak."),
        of_host(
            "alignment.guest_superpages",
            "pages",
            "Superpages of guests, before the last exit of a process while there were any.",
        ),
        of_host("alignment.host_superpages", "pages", "Superpages by which the host mapped the memory of guests then."),
        of_host("alignment.aligned_superpages", "pages", "Superpages of guests that lay in one of the host's then."),
        of_host(
            "alignment.share",
            "share",
            "Aligned superpages of both layers: twice those of guests, relative to all superpages of guests and host.",
        )
        .from("Jia et al. 2023, section 2.2"),
        of_guest("host.guest.<n>.page_faults", "count", "`host.page_faults` of the guest, numbered from 0."),
        of_guest("host.guest.<n>.superpages.<size>", "pages", "`host.superpages.<size>` of the guest, at their peak."),
        of_guest("host.guest.<n>.peak_resident_bytes", "bytes", "The guest's memory on the host, at its peak."),
        of_guest("host.guest.<n>.page_table_bytes", "bytes", "The host's page table for the guest, at its peak."),
    ],
};

pub(super) const MONITOR: Group = Group {
    title: "The monitor that shadows page tables",
    about: "What a virtual machine monitor does where it shadows a guest's page tables (docs/guests.md).",
    definitions: &[
        of_monitor("monitor.traps", "count", "Traps to the monitor, the sum of those by cause.")
            .from("Gandhi et al. 2016, section II-B"),
        of_monitor("monitor.traps.page_table_writes", "count", "Writes of entries of page tables in shadow mode."),
        of_monitor(
            "monitor.traps.accessed_and_dirty",
            "count",
            "References that set the accessed or dirty bit of an entry in shadow mode.",
        ),
        of_monitor("monitor.traps.page_faults", "count", "The guest's page faults at pages in shadow mode."),
        of_monitor("monitor.traps.invalidations", "count", "Invalidations of pages in shadow mode."),
        of_monitor("monitor.traps.switches", "count", "Switches to another address space."),
        of_monitor("monitor.returns", "count", "Page-table nodes that went back from nested to shadow mode.")
            .from("Gandhi et al. 2016, section III-C"),
        of_monitor("monitor.nested_nodes", "count", "Page-table nodes in nested mode at the monitor's last look."),
    ],
};

pub(super) const WALK_ASSISTS: Group = Group {
    title: "Walk assists",
    about: "Hardware between the last level of TLBs and the page walker: it answers misses, predicts what a walk will find, or \
            shortens the walk.",
    definitions: &[
        of_assist("walk_assist.searches", "count", "Misses in the last level of TLBs that it was searched for."),
        of_assist("walk_assist.hits", "count", "Searches that made the walk needless."),
        of_assist(
            "walk_assist.reads",
            "count",
            "Lines that it read through the data caches, of its own or ahead of a walk.",
        ),
        of_assist("walk_assist.cycles", "cycles", "Cycles that references waited for it, wrong predictions included.")
            .from("part of `walk_cycles`"),
        of_assist("walk_assist.walks", "count", "Walks in the background, for which no instruction waits."),
        of_assist("walk_assist.walk_accesses", "count", "Page-table entries that these walks read."),
        of_assist("walk_assist.walk_cycles", "cycles", "Cycles of these walks."),
        of_assist("walk_assist.read_ahead", "count", "Page-table entries that it began to read when the walk began."),
        of_assist("walk_assist.predictions", "count", "Frames that it predicted."),
        of_assist("walk_assist.mispredictions", "count", "Predictions that the walk found wrong."),
        of_assist("walk_assist.hidden_cycles", "cycles", "Cycles of walks that only verified a right prediction.")
            .from("part of `walk_cycles`, but not of `cycles.walk`"),
    ],
};

pub(super) const RANGES: Group = Group {
    title: "Ranges",
    about: "",
    definitions: &[
        of_ranges("ranges", "count", "Ranges, at their peak."),
        of_ranges("ranges.bytes", "bytes", "Memory in ranges, at its peak."),
        of_ranges("range_table_bytes", "bytes", "Memory of range tables, at its peak."),
        of_ranges("ranges.made", "count", "Ranges made."),
        of_ranges("segments.made", "count", "Direct segments made.").from("Basu et al. 2013, section 3"),
        of_ranges("ranges.grown", "count", "Ranges extended."),
        of_ranges("ranges.cut", "count", "Ranges shortened or split."),
        of_ranges("ranges.dissolved", "count", "Ranges turned back into pages."),
        of_ranges("ranges.nodes_read", "count", "Range-table nodes of 128 bytes that the operating system read."),
        of_ranges("ranges.nodes_written", "count", "Range-table nodes of 128 bytes that the operating system wrote."),
        of_ranges("range_tlb.enabled", "count", "Times that the range TLB was turned on."),
        of_ranges("range_tlb.disabled", "count", "Times that the range TLB was turned off."),
        of_ranges("eager.requests", "count", "Requests that got their memory at once.")
            .from("Karakostas et al. 2015, section 5.2"),
        of_ranges("eager.blocks", "count", "Blocks in which that memory came."),
        of_ranges("eager.bytes", "bytes", "The size of that memory."),
        of_ranges("eager.fragmented", "count", "Requests left to demand paging because memory was fragmented."),
        of_ranges(
            "eager.short",
            "count",
            "Requests left to demand paging, in whole or in part, because memory was short.",
        ),
    ],
};
