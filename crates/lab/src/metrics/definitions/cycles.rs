//! The program's size, cycles by cause, and comparisons of cycles.

use super::{Definition, Group};

const fn of(name: &'static str, unit: &'static str, meaning: &'static str) -> Definition {
    Definition::new(name, unit, meaning)
}

pub(super) const PROGRAM: Group = Group {
    title: "Program",
    about: "",
    definitions: &[
        of("instructions", "count", "Instructions that the program executed, all of which retire."),
        of("fetches", "count", "Fetches of blocks: straight runs of instructions that a processor fetches as one."),
        of("loads", "count", "Loads that the program executed."),
        of("stores", "count", "Stores that the program executed."),
    ],
};

const OOO: &str = "`--timing ooo`; 0 under the others";
const KERNEL_CODE: &str = "`--kernel`; 0 without it";
const CACHES: &str = "`--timing ooo` and `inorder`";

pub(super) const CYCLES: Group = Group {
    title: "Cycles",
    about: "Every cycle is charged to one label, so `cycles.*` add up to `cycles`.",
    definitions: &[
        of("cycles", "cycles", "Cycles of the simulated processor, all hardware threads together.")
            .from("the sum of `cycles.*`"),
        of("user_cycles", "cycles", "Cycles outside the operating system.").from("`cycles` − `system_cycles`"),
        of("system_cycles", "cycles", "Cycles of the operating system: handlers, copies, remapping, faults, daemons, its own code.")
            .from(
                "`cycles.handler` + `cycles.copy` + `cycles.remap` + `cycles.fault` + `cycles.daemon` + `cycles.kernel`",
            ),
        of("cycles.compute", "cycles", "Cycles of executing instructions, or of nothing else under `--timing ooo`."),
        of(
            "cycles.cache",
            "cycles",
            "Cycles that the program waited for caches and memory on its own behalf; under `--timing ooo` only where nothing \
             else hid them.",
        )
        .given(CACHES),
        of("cycles.l2_tlb_hit", "cycles", "Cycles of look-ups in later TLB levels, whether they hit or a walk follows."),
        of("cycles.walk", "cycles", "Cycles that the program waited for page walks by hardware."),
        of("cycles.handler", "cycles", "Cycles of TLB miss handlers, and of policies that run in them.")
            .given("machines with software-filled TLBs; 0 on others"),
        of("cycles.copy", "cycles", "Cycles of copying pages into a superpage."),
        of(
            "cycles.remap",
            "cycles",
            "Cycles of promotion without copying: page-table entries, the memory controller's table, TLB shootdowns.",
        ),
        of("cycles.fault", "cycles", "Cycles of page faults, zeroing included, and of fork, exec and exit."),
        of("cycles.kernel", "cycles", "Cycles of the kernel's own code, its waits for caches and translation included.")
            .given(KERNEL_CODE),
        of("cycles.daemon", "cycles", "Cycles of background daemons: khugepaged, the page daemon."),
        of(
            "cycles.itlb_stall",
            "cycles",
            "Cycles that fetching waited to evict ITLB entries that instructions in flight still used (pipeline inclusion).",
        )
        .from("Zhou et al. 2023, section 7.1")
        .given(OOO),
        of("cycles.itlb_walk", "cycles", "Cycles that fetching waited for page walks, where nothing hid them.").given(OOO),
        of(
            "cycles.itlb_l2_tlb_hit",
            "cycles",
            "Cycles that fetching waited for translations from a later TLB level, where nothing hid them.",
        )
        .given(OOO),
        of("cycles.branch", "cycles", "Cycles of refilling the pipeline after branch mispredictions and machine clears.")
            .given(OOO),
        of(
            "miss_cycles",
            "cycles",
            "Cycles of TLB misses and of everything done because of them. Divided by `walks.filled`, it is the cost of a miss.",
        )
        .from(
            "`cycles.walk` + `cycles.itlb_walk` + `cycles.handler` + `cycles.copy` + `cycles.remap`; Fang et al. 1999, \
             section 5.1",
        ),
    ],
};

pub(super) const COMPARISONS: Group = Group {
    title: "Comparisons of systems",
    about: "The systems of one machine, compared with each other.",
    definitions: &[
        of(
            "speedup",
            "ratio",
            "How many times as fast the program is as under the first system named. Above 1 is faster; the first system's own \
             is 1.",
        )
        .from("`cycles` of the first system / `cycles`"),
        of(
            "relative_overhead",
            "ratio",
            "How much longer the program takes with base pages than with the better of the larger explicit page sizes.",
        )
        .from("(t_4K − min(t_2M, t_1G)) / min(t_2M, t_1G); Lindsay and Bhattacharjee 2024, section III.A")
        .given("the row of `base`, if `hugetlb-2m` or `hugetlb-1g` is simulated too"),
        of(
            "model.overhead",
            "ratio",
            "The overhead of translation by the linear model that papers used before full simulation. Read it beside `speedup`.",
        )
        .from(
            "`walk_cycles` / T for the systems of stock Linux, and `walks` × (`base`'s cycles per walk) / T for others, where T \
             is `linux-thp`'s `cycles` − `walk_cycles`; Karakostas et al. 2015, Table 6",
        )
        .given("comparisons that have both `base` and `linux-thp`"),
    ],
};
