//! TLBs, page walks, WCPI, and what only the out-of-order timing counts.

use super::{Definition, Group};

const fn of(name: &'static str, unit: &'static str, meaning: &'static str) -> Definition {
    Definition::new(name, unit, meaning)
}

pub(super) const TLBS: Group = Group {
    title: "TLBs",
    about: "Look-ups are counted by structure for estimates of energy (Karakostas et al. 2015, section 8.4). Their weights depend \
            on circuits, so no metric adds them up.",
    definitions: &[
        of("l1i_tlb_misses", "count", "Fetches that missed every first-level TLB array."),
        of("l1d_tlb_misses", "count", "Loads and stores that missed every first-level TLB array."),
        of("l2_tlb_hits", "count", "First-level misses that a later TLB level answered."),
        of(
            "l1i_tlb_lookups",
            "count",
            "Look-ups by fetches, squashed ones included; each looks up all first-level arrays of its kind. A fetch that repeats \
             after a fault counts once.",
        )
        .from("`fetches` + fetches of squashed instructions, one for each page"),
        of("l1d_tlb_lookups", "count", "Look-ups by loads and stores, squashed ones included.")
            .from("`loads` + `stores` + `squashed.loads` + `squashed.stores`"),
        of(
            "l2_tlb_lookups",
            "count",
            "First-level misses that look up a later level; each looks up all its arrays. 0 on machines without a later level.",
        ),
        of("dirty_updates", "count", "Stores through a clean TLB entry, each of which set the dirty bit in the page table."),
        of("l2_tlb_hits.data", "count", "Loads and stores that missed the first TLB level and hit in the second.")
            .from("`dtlb_*_misses.stlb_hit`; AMD: `ls_l1_d_tlb_miss.*_l2_hit`")
            .given("`reach stat`"),
        of("l2_tlb_hits.fetch", "count", "Fetches that missed the first TLB level and hit in the second.")
            .from("`itlb_misses.stlb_hit`; AMD: `bp_l1_tlb_miss_l2_hit`")
            .given("`reach stat`"),
    ],
};

const STAT_TOO: &str = "every run; `reach stat` where the processor counts it";

pub(super) const WALKS: Group = Group {
    title: "Page walks",
    about: "A walk reads the page table after a miss in every TLB; on machines with software-filled TLBs it is a run of the miss \
            handler. Counts include walks for instructions that do not retire, as processors' counters do.",
    definitions: &[
        of("walks", "count", "Walks begun for fetches, loads and stores.").from("`walks.fetch` + `walks.data`"),
        of("walks.fetch", "count", "Walks begun for fetches; `reach stat` has walks that ended where begun ones are not counted.")
            .from("processors: `itlb_misses.miss_causes_a_walk` or `.walk_completed`; Arm: `itlb_walk`")
            .given(STAT_TOO),
        of("walks.data", "count", "Walks begun for loads and stores."),
        of("walks.faulting", "count", "Walks that found no translation, or one that forbids the reference."),
        of("walks.filled", "count", "Walks that found a translation.")
            .from("`walks` − `walks.faulting` − `walks.aborted` − `walks.fetch.aborted`"),
        of("walks.coalesced", "count", "Walks that entered one translation of several neighbouring pages.")
            .given("machines with `tlb.NAME.coalesce`"),
        of("walk_accesses", "count", "Page-table entries that walks read, those of the host's table included.")
            .from("`walk_accesses.fetch` + `walk_accesses.data`"),
        of("walk_accesses.fetch", "count", "Page-table entries that walks for fetches read."),
        of("walk_accesses.data", "count", "Page-table entries that walks for loads and stores read.")
            .from("processors: `page_walker_loads.dtlb_*`")
            .given(STAT_TOO),
        of("walk_accesses.host", "count", "Page-table entries of the host's table that walks of a guest read.")
            .given("machines with a `[nested]` section"),
        of(
            "walk_cycles",
            "cycles",
            "Cycles from the beginning of walks to their end, whether or not other work hid them; two walks at a time count twice.",
        )
        .from("`walk_cycles.fetch` + `walk_cycles.data`")
        .given(STAT_TOO),
        of("walk_cycles.fetch", "cycles", "Cycles of walks for fetches.")
            .from("processors: `itlb_misses.walk_pending` or `.walk_duration`")
            .given(STAT_TOO),
        of("walk_cycles.data", "cycles", "Cycles of walks for loads and stores.")
            .from("`walk_cycles` − `walk_cycles.fetch`; processors: `dtlb_*_misses.walk_pending` or `.walk_duration`")
            .given(STAT_TOO),
    ],
};

pub(super) const WCPI: Group = Group {
    title: "WCPI: walk cycles per instruction",
    about: "WCPI is the measure of Lindsay and Bhattacharjee (2024): cycles of all walks, for fetches as for loads and stores, \
            divided by retired instructions. It is the same in `reach run`, `reach compare` and `reach stat`. Events of some \
            processors, and recordings of perf, cover loads and stores only; their measure is `wcpi_data`, and `wcpi` is then \
            missing. Each measure is the product of its factors, exactly: the numerator of each factor is the denominator of \
            the next.",
    definitions: &[
        of(
            "wcpi",
            "cycles/instruction",
            "Walk cycles per instruction: cycles of all walks, divided by retired instructions.",
        )
        .from("`walk_cycles` / `instructions`; Lindsay and Bhattacharjee 2024, section III.C")
        .given(STAT_TOO),
        of(
            "wcpi.accesses_per_instruction",
            "ratio",
            "References (fetches of blocks, loads and stores) per instruction.",
        )
        .from("(`fetches` + `loads` + `stores`) / `instructions`"),
        of("wcpi.misses_per_access", "ratio", "Walks per reference.")
            .from("`walks` / (`fetches` + `loads` + `stores`)"),
        of("wcpi.walk_accesses_per_miss", "ratio", "Page-table entries read per walk.")
            .from("`walk_accesses` / `walks`"),
        of("wcpi.cycles_per_walk_access", "cycles", "Walk cycles per page-table entry read.")
            .from("`walk_cycles` / `walk_accesses`"),
        of(
            "wcpi_data",
            "cycles/instruction",
            "Walk cycles of loads and stores per instruction: the part of `wcpi` without fetches.",
        )
        .from("`walk_cycles.data` / `instructions`")
        .given(STAT_TOO),
        of("wcpi_data.accesses_per_instruction", "ratio", "Loads and stores per instruction.")
            .from("(`loads` + `stores`) / `instructions`; processors: `accesses` / `instructions`")
            .given(STAT_TOO),
        of(
            "wcpi_data.misses_per_access",
            "ratio",
            "Walks begun per load or store; `reach stat` has walks that ended where begun ones are not counted.",
        )
        .from("`walks.data` / (`loads` + `stores`)")
        .given(STAT_TOO),
        of("wcpi_data.walk_accesses_per_miss", "ratio", "Page-table entries read per walk of a load or store.")
            .from("`walk_accesses.data` / `walks.data`")
            .given(STAT_TOO),
        of(
            "wcpi_data.cycles_per_walk_access",
            "cycles",
            "Walk cycles per page-table entry read, for loads and stores.",
        )
        .from("`walk_cycles.data` / `walk_accesses.data`")
        .given(STAT_TOO),
        of(
            "wcpi_data.cycles_per_miss",
            "cycles",
            "Cycles per walk of a load or store: the product of the last two factors.",
        )
        .from("`walk_cycles.data` / walks")
        .given("`reach stat` on processors that do not count page-table reads"),
    ],
};

const OOO: &str = "`--timing ooo`";
const OOO_AND_STAT: &str = "`--timing ooo`; `reach stat` where the processor counts it";

pub(super) const OUT_OF_ORDER: Group = Group {
    title: "The out-of-order core and the outcome of walks",
    about: "[timing.md](timing.md) describes the core. Outcomes of walks cover loads and stores, as in Table VI of Lindsay and \
            Bhattacharjee (2024): `initiated = completed + aborted`, `completed = retired + wrong_path`.",
    definitions: &[
        of("walks.initiated", "count", "Walks begun for loads and stores; equal to `walks.data`.")
            .from("processors: `dtlb_*_misses.miss_causes_a_walk`; Arm: `dtlb_walk`")
            .given(OOO_AND_STAT),
        of("walks.completed", "count", "Walks for loads and stores that ran to their end, those that found a fault included.")
            .from("processors: `dtlb_*_misses.walk_completed`")
            .given(OOO_AND_STAT),
        of("walks.aborted", "count", "Walks for loads and stores that were ended early, because their instruction was squashed.")
            .from("`walks.initiated` − `walks.completed`")
            .given(OOO_AND_STAT),
        of(
            "walks.retired",
            "count",
            "Completed walks whose load or store retired, one for each repetition after a fault. `reach stat` has retired loads \
             and stores that missed every TLB, which can be more: several may wait for one walk.",
        )
        .from("processors: `mem_*_retired.stlb_miss_*`")
        .given(OOO_AND_STAT),
        of(
            "walks.wrong_path",
            "count",
            "Completed walks for what did not retire, those of prefetchers included. Negative in `reach stat` where several \
             loads wait for one walk.",
        )
        .from("`walks.completed` − `walks.retired`")
        .given(OOO_AND_STAT),
        of("walks.not_retired", "share", "The share of walks for loads and stores that were aborted or on the wrong path.")
            .from("(`walks.aborted` + `walks.wrong_path`) / `walks.initiated`")
            .given(OOO),
        of(
            "walks.not_retired.by_events",
            "share",
            "The same share as a processor's events give it. Negative where several references wait for one walk.",
        )
        .from("(`walks.initiated` − `stlb_miss_retired`) / `walks.initiated`; Lindsay and Bhattacharjee 2024, Table VI")
        .given(OOO),
        of("stlb_miss_retired", "count", "Retired loads and stores that had a walk, or waited for one.")
            .from("what processors count as `mem_*_retired.stlb_miss_*`")
            .given(OOO),
        of("walks.fetch.aborted", "count", "Walks for fetches that were ended early.")
            .from("processors: walks begun − walks completed")
            .given("`--timing ooo`; `reach stat` where the processor counts both"),
        of("walks.fetch.wrong_path", "count", "Completed walks for fetches of instructions that did not retire.").given(OOO),
        of(
            "itlb_stall",
            "cycles",
            "Cycles that fetching waited for translations, whether or not older instructions kept the core busy meanwhile.",
        )
        .from("the sum of its parts; processors: `icache_64b.iftag_stall`; Zhou et al. 2023, section 7.1")
        .given(OOO_AND_STAT),
        of("itlb_stall.walk", "cycles", "The part of `itlb_stall` for page walks.")
            .from("processors: `itlb_misses.walk_pending`")
            .given(OOO_AND_STAT),
        of("itlb_stall.l2_tlb_hit", "cycles", "The part of `itlb_stall` for look-ups in later TLB levels, whether they hit or a walk follows.")
            .from("processors: 7 × `itlb_misses.stlb_hit`")
            .given(OOO_AND_STAT),
        of(
            "itlb_stall.inclusion",
            "cycles",
            "The part of `itlb_stall` for ITLB entries that instructions in flight still used (pipeline inclusion).",
        )
        .from("Zhou et al. 2023, section 7.1; processors: the rest of `itlb_stall`, repeated look-ups included")
        .given(OOO_AND_STAT),
        of("itlb_stall.replay", "cycles", "The part of `itlb_stall` for look-ups that are repeated once the translation is there.")
            .from("`ooo.itlb_replay` for each")
            .given(OOO),
        of("fetch_stall.cache", "cycles", "Cycles that fetching waited for instruction caches.").given(OOO),
        of("branches", "count", "Branches that retired.").given(OOO),
        of("branches.mispredicted", "count", "Branches that retired and had been mispredicted.").given(OOO),
        of(
            "machine_clears.memory_ordering",
            "count",
            "Pipeline clears because a load had run ahead of an older store to its bytes, and was repeated.",
        )
        .given(OOO),
        of("squashed.instructions", "count", "Instructions that entered the reorder buffer and did not retire.").given(OOO),
        of("squashed.loads", "count", "Loads of squashed instructions that looked up the TLB.").given(OOO),
        of("squashed.stores", "count", "Stores of squashed instructions that looked up the TLB.").given(OOO),
    ],
};
