//! What every operating system counts: faults, superpages, memory, contiguity.

use super::{Definition, Group};

const fn of(name: &'static str, unit: &'static str, meaning: &'static str) -> Definition {
    Definition::new(name, unit, meaning)
}

pub(super) const FAULTS: Group = Group {
    title: "Page faults",
    about: "Counts of the operating system cover the whole program, also with `--fast-forward` and `--sample`: what is measured \
            depends on what was mapped before.",
    definitions: &[
        of("page_faults", "count", "Page faults of all kinds.").from("the sum of the six kinds; Linux: `pgfault`"),
        of("page_faults.major", "count", "Of these, faults that waited for a disk.").from("Linux: `pgmajfault`"),
        of("page_faults.anonymous", "count", "First touches of anonymous memory that got a page of their own."),
        of(
            "page_faults.zero_page",
            "count",
            "First loads from anonymous memory, answered with the shared page of zeroes.",
        ),
        of("page_faults.file", "count", "First touches of pages of files and of shared memory."),
        of("page_faults.cow", "count", "Stores that copied a page on write, or found it no longer shared."),
        of("page_faults.write_notify", "count", "First stores to pages of shared files, which only had to be noticed."),
        of(
            "page_faults.spurious",
            "count",
            "Faults with nothing to do: the translation existed when they were handled.",
        ),
        of("page_faults.superpage", "count", "Of all kinds, faults that mapped a new superpage of private or shared memory.")
            .from("Linux: `thp_fault_alloc`, `thp_file_alloc`"),
        of(
            "page_faults.folio",
            "count",
            "Of all kinds, faults that mapped a new block of several base pages, smaller than a huge page (`mthp`, `shmem_mthp`).",
        )
        .from("Linux: `hugepages-*/stats/anon_fault_alloc`, `shmem_alloc`"),
        of(
            "stop.p99",
            "cycles",
            "The length that 99 % of the program's stops at page faults do not exceed, within 1 %.",
        ),
        of("stop.longest", "cycles", "The longest stop at a page fault."),
        of(
            "unmapped_references",
            "count",
            "References outside all known mappings. Each makes an anonymous mapping; a trace without events has only these.",
        ),
        of(
            "protection_violations",
            "count",
            "References that their mapping's access rights forbid; they are let through.",
        ),
    ],
};

pub(super) const MEMORY: Group = Group {
    title: "Superpages and memory",
    about: "",
    definitions: &[
        of("promotions", "count", "Times that smaller pages became a larger one."),
        of("demotions", "count", "Times that a page was broken into smaller ones."),
        of("superpages.<size>", "pages", "Superpages of this size that were mapped at a time, at their peak."),
        of(
            "superpages_at_peak.<size>",
            "pages",
            "Superpages of this size that were mapped when resident memory was at its peak, as papers show them.",
        )
        .given("rows of all processes"),
        of("superpage_fallbacks", "count", "Superpages that were wanted and for which memory had no block.")
            .from("Linux: `thp_fault_fallback`"),
        of("padded_bytes", "bytes", "Addresses added to code so that it fills whole superpages.")
            .from("Zhou et al. 2023, section 6"),
        of("bytes_copied", "bytes", "Memory copied by copy-on-write, migration and promotion.")
            .given("rows of all processes"),
        of("bytes_zeroed", "bytes", "Memory zeroed, page tables included.").given("rows of all processes"),
        of("bytes_zeroed_ahead", "bytes", "Memory of first touches that had been zeroed ahead of them, at no cost.")
            .given("`panwar-2019-hawkeye`, `ram-2021-trident` and `mansi-2022-cbmm`; rows of all processes"),
        of("bytes_read_in", "bytes", "Memory read from files.").given("rows of all processes"),
        of(
            "peak_resident_bytes",
            "bytes",
            "Physical memory mapped by the program, at its peak; memory that several processes share counts once. For a process: \
             what it maps.",
        ),
        of("page_table_bytes", "bytes", "Memory of page tables, at its peak."),
        of("page_table.entries_copied", "count", "Page-table entries that forks copied."),
        of(
            "page_table.entries_torn_down",
            "count",
            "Page-table entries that exec and exit removed, where these cost cycles each.",
        ),
        of(
            "page_table.tables_shared",
            "count",
            "Leaf page tables that processes shared with others instead of filling their own.",
        ),
        of("shootdowns", "count", "TLB shootdowns sent."),
    ],
};

pub(super) const CONTIGUITY: Group = Group {
    title: "Contiguity",
    about: "`mapped.*` describe the process that had most memory when it ended, in base pages and without pages of zeroes. A range \
            is a run of at least eight pages that are contiguous in addresses and in frames, with equal rights (Karakostas et \
            al. 2015).",
    definitions: &[
        of(
            "contiguity",
            "share",
            "Contiguity of free memory at the end: 1 if it could be handed out in the largest pages, 0 if only in base pages.",
        )
        .from("Navarro et al. 2002, section 6.5"),
        of("mapped.pages", "pages", "Base pages mapped."),
        of("mapped.entries.<size>", "count", "Translations of this page size."),
        of("mapped.ranges", "count", "Ranges, in which the process had its memory.").from("Karakostas et al. 2015, Table 2"),
        of("mapped.ranges.coverage", "share", "The share of pages in ranges."),
        of("mapped.ranges.median", "pages", "The length of the range in the middle, by length."),
        of("mapped.ranges.average", "pages", "The mean length of ranges."),
        of("mapped.ranges.greatest", "pages", "The length of the longest range."),
        of("mapped.ideal_ranges", "count", "Runs that are contiguous in addresses alone: the fewest ranges possible."),
        of("mapped.ideal_ranges.for_99_percent", "count", "How many of them hold 99 % of all pages, the longest first."),
        of("mapped.ideal_ranges.greatest", "share", "The share of pages in the longest of them."),
    ],
};

const fn of_code(name: &'static str, unit: &'static str, meaning: &'static str) -> Definition {
    Definition::new(name, unit, meaning).given("`--kernel`")
}

pub(super) const CODE: Group = Group {
    title: "The kernel's own code",
    about: "With `--kernel`, the kernel's own code is executed too (docs/kernel.md). All other counts stay those of the program, \
            except those of caches and memory, which both share, and cycles, of which the kernel's are `cycles.kernel`.",
    definitions: &[
        of_code("kernel.system_calls", "count", "System calls of the program."),
        of_code(
            "kernel.system_calls.unrecorded",
            "count",
            "Of these, calls of a kind that was not recorded; a call that does nothing stands for each.",
        ),
        of_code("kernel.faults", "count", "Page faults whose path through the kernel was executed."),
        of_code("kernel.processes", "count", "Forks, execs and ends of processes."),
        of_code("kernel.switches", "count", "Switches between threads."),
        of_code("kernel.interrupts", "count", "Interrupts by the timer, 250 in a second."),
        of_code("kernel.instructions", "count", "Instructions of the kernel."),
        of_code("kernel.l1i_tlb_misses", "count", "Fetches of the kernel that missed the first level of TLBs."),
        of_code("kernel.l1d_tlb_misses", "count", "Its loads and stores that did."),
        of_code("kernel.walks", "count", "Walks for references of the kernel."),
        of_code("kernel.walks.fetch", "count", "Of these, walks for fetches."),
        of_code("kernel.walk_cycles", "cycles", "Cycles of these walks."),
        of_code("kernel.itlb_stall", "cycles", "Cycles that fetching the kernel's code waited for translations.")
            .given("`--kernel --timing ooo`; 0 under the others"),
    ],
};
