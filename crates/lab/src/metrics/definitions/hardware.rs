//! Caches, memory, and cores.

use super::{Definition, Group};

const fn of(name: &'static str, unit: &'static str, meaning: &'static str) -> Definition {
    Definition::new(name, unit, meaning).given("`--timing inorder` and `ooo`")
}

const fn of_core(name: &'static str, unit: &'static str, meaning: &'static str) -> Definition {
    Definition::new(name, unit, meaning).given("`--cores` or `--smt` above 1")
}

const CONTROLLER: &str = "machines whose memory controller translates addresses (`fang-1999:mechanism=remap`)";

const fn of_back_side(name: &'static str, unit: &'static str, meaning: &'static str) -> Definition {
    Definition::new(name, unit, meaning)
        .given("systems whose caches hold intermediate addresses (`gupta-2021-midgard`), unless sampled")
}

pub(super) const CACHES: Group = Group {
    title: "Caches and memory",
    about: "Caches with the same name on several cores count together. The operating system's own work goes through the same \
            caches: zeroing, copying, page-table writes.",
    definitions: &[
        of("cache.<cache>.accesses", "count", "Accesses to the cache: fetches, loads, stores and reads of walks."),
        of("cache.<cache>.fetch_misses", "count", "Fetches that missed."),
        of("cache.<cache>.load_misses", "count", "Loads that missed."),
        of("cache.<cache>.store_misses", "count", "Stores that missed."),
        of("cache.<cache>.walk_accesses", "count", "Page-table reads of walks that looked up this cache."),
        of("cache.<cache>.walk_hits", "count", "Page-table reads of walks that this cache answered.")
            .from("`.walk_accesses` − `.walk_misses`"),
        of("cache.<cache>.walk_misses", "count", "Page-table reads of walks that missed."),
        of("cache.<cache>.write_backs", "count", "Dirty lines that the cache evicted."),
        of("cache.<cache>.misses", "count", "Misses of all kinds.")
            .from("`.fetch_misses` + `.load_misses` + `.store_misses` + `.walk_misses`"),
        of("cache.<cache>.hit_ratio", "ratio", "The share of accesses that the cache answered.")
            .from("(`.accesses` − `.misses`) / `.accesses`"),
        of("memory.<kind>.accesses", "count", "Accesses that no cache answered, by kind."),
        of("memory.<kind>.cycles", "cycles", "The sum of their latencies, each counted in full, hidden or not."),
        Definition::new(
            "controller.retranslations",
            "count",
            "Shadow addresses that the memory controller translated: of lines fetched and lines written back.",
        )
        .from("Fang et al. 1999, section 3.2")
        .given(CONTROLLER),
        Definition::new("controller.misses", "count", "Of these, translations that missed in the controller's TLB.")
            .given(CONTROLLER),
        of_back_side(
            "back_side.translations",
            "count",
            "Accesses that missed in the last cache and were translated: of the whole simulation, parts passed over and the zeroing of pages included. So are those below.",
        ),
        of_back_side("back_side.misses", "count", "Of these, those that the translator's own cache did not answer."),
        of_back_side(
            "back_side.accesses",
            "count",
            "Page-table entries that the translator looked up in the last cache.",
        ),
        of_back_side("back_side.memory_reads", "count", "Of these, entries that it read from memory."),
        of_back_side(
            "back_side.cycles",
            "cycles",
            "Cycles of these translations, each counted in full, hidden or not.",
        ),
    ],
};

pub(super) const CORES: Group = Group {
    title: "Cores",
    about: "[cores.md](cores.md) describes several cores and hardware threads. `<n>` is the number of the core, from 0.",
    definitions: &[
        of_core(
            "elapsed_cycles",
            "cycles",
            "Cycles from the program's start to its end, by the clocks that all threads agree on.",
        ),
        of_core("core.<n>.instructions", "count", "Instructions that the core executed."),
        of_core("core.<n>.cycles", "cycles", "Cycles in which the core's hardware threads were busy, added up."),
        of_core("core.<n>.l1i_tlb_misses", "count", "`l1i_tlb_misses` of the core."),
        of_core("core.<n>.l1d_tlb_misses", "count", "`l1d_tlb_misses` of the core."),
        of_core("core.<n>.walks.fetch", "count", "`walks.fetch` of the core."),
        of_core("core.<n>.walks.data", "count", "`walks.data` of the core."),
        of_core("core.<n>.walk_cycles", "cycles", "`walk_cycles` of the core."),
        of_core("core.<n>.walk_cycles.fetch", "cycles", "`walk_cycles.fetch` of the core."),
        of_core("core.<n>.itlb_stall", "cycles", "`itlb_stall` of the core.")
            .given("`--timing ooo` with `--cores` or `--smt` above 1"),
        of_core("core.<n>.memory.<kind>.accesses", "count", "`memory.<kind>.accesses` of the core.")
            .given("`--timing inorder` and `ooo` with `--cores` or `--smt` above 1"),
        of_core("core.<n>.memory.<kind>.cycles", "cycles", "`memory.<kind>.cycles` of the core.")
            .given("`--timing inorder` and `ooo` with `--cores` or `--smt` above 1"),
    ],
};
