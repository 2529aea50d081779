//! What only some runs give: samples, curves, findings; and what only counters of processors give.

use super::{Definition, Group};

const fn of_sample(name: &'static str, unit: &'static str, meaning: &'static str) -> Definition {
    Definition::new(name, unit, meaning).given("`--sample`, and recordings of a sample")
}

const fn of_curve(name: &'static str, unit: &'static str, meaning: &'static str) -> Definition {
    Definition::new(name, unit, meaning).given("`reach run --curve`")
}

const fn finding(name: &'static str, meaning: &'static str) -> Definition {
    Definition::new(name, "count", meaning).given("results with such a finding")
}

const fn counted(name: &'static str, unit: &'static str, meaning: &'static str) -> Definition {
    Definition::new(name, unit, meaning).given("`reach stat`")
}

pub(super) const SAMPLES: Group = Group {
    title: "Samples",
    about: "[sampling.md](sampling.md) describes samples. With one, counts of hardware and cycles are \
            estimates for the whole program; rates have error bars.",
    definitions: &[
        of_sample("sample.intervals", "count", "Sampled intervals."),
        of_sample("sample.references", "count", "References in sampled intervals."),
        of_sample(
            "sample.first_run_references",
            "count",
            "References of code that runs, or touches memory, for the first time.",
        ),
        of_sample("sample.first_run_measured", "count", "Those of `sample.first_run_references` that are measured."),
        of_sample("sample.program_references", "count", "References of the whole program."),
        of_sample("sample.walks_per_instruction", "ratio", "Walks per instruction.").from("`walks` / `instructions`"),
        of_sample("sample.cycles_per_instruction", "cycles/instruction", "Cycles per instruction.")
            .from("`cycles` / `instructions`"),
        of_sample("sample.translation", "share", "The share of cycles that address translation took.").from(
            "(`cycles.l2_tlb_hit` + `cycles.walk` + `cycles.handler` + `cycles.itlb_stall` + `cycles.itlb_walk` + \
             `cycles.itlb_l2_tlb_hit`) / `cycles`",
        ),
    ],
};

pub(super) const CURVES: Group = Group {
    title: "Miss curves",
    about: "[curve.md](curve.md) describes curves. `@<n>x<n>` is a geometry: entries and ways.",
    definitions: &[
        of_curve(
            "curve.<array>.lookups",
            "count",
            "Look-ups of the array's level, of the kinds that the array serves.",
        ),
        of_curve(
            "curve.<array>.misses@<n>x<n>",
            "count",
            "Look-ups that no array of the level would have answered, if this one had that geometry.",
        ),
        of_curve("curve.<array>.miss_ratio@<n>x<n>", "ratio", "The share of look-ups that would have missed.")
            .from("`curve.<array>.misses@<n>x<n>` / `curve.<array>.lookups`"),
        of_curve("curve.<array>.wakes", "count", "Times that daemons woke, by the clock of the machine as it is."),
    ],
};

pub(super) const FINDINGS: Group = Group {
    title: "Findings",
    about: "A finding is a fact without which results would mislead. The row counts findings of a kind; the header of `jsonl` and \
            the table have their text. `--metric` does not leave them out.",
    definitions: &[
        finding("finding.incomplete", "A part of the program could not be read."),
        finding("finding.program_failed", "The program ended by a signal, or with an exit status other than 0."),
        finding("finding.not_sampled", "A sample was requested, and the whole program was simulated."),
        finding("finding.no_interval", "The sample allows no confidence interval."),
        finding("finding.imprecise", "A speedup is less precise than was asked for."),
        finding(
            "finding.not_given",
            "The system got nothing of what it is for: not one page of its size. The exit status is 1 if the system was named on \
             the command line.",
        ),
        finding("finding.fell_back", "The system got smaller pages for more than 1 % of its memory."),
        finding(
            "finding.never_acted",
            "The system had no occasion to act: no superpage was mapped, no range made, no entry coalesced, whatever it is for.",
        ),
        finding(
            "finding.no_system_calls",
            "The kernel's own code was to be executed, and the program announces no system calls.",
        )
        .given("`--kernel`"),
        finding(
            "finding.processor_guessed",
            "Events of the file that was read fit several processors, and one of them was taken.",
        )
        .given("`reach stat --read` without `--model`"),
        finding("finding.counts_unused", "Counts that no metric uses; standard error names them.")
            .given("results of `reach stat`"),
    ],
};

pub(super) const COUNTERS: Group = Group {
    title: "Counters of the processor",
    about: "`reach stat` reads these from performance counters, beside metrics of the same meaning above. \
            [stat.md](stat.md) says which processors count what.",
    definitions: &[
        counted("accesses", "count", "Loads and stores: retired ones on Intel, dispatched ones on AMD.")
            .from("`mem_inst_retired.all_loads` and `.all_stores`; AMD: `ls_dispatch.*`; Arm: `mem_access`"),
        counted(
            "walk_cycles.share",
            "share of cycles",
            "Walk cycles per cycle; above 1 is possible with several walkers.",
        )
        .from("`walk_cycles` / `cycles`, or `walk_cycles.data` / `cycles` where fetches are not counted"),
        counted(
            "walk_cycles.host",
            "cycles",
            "Cycles in which walks of guests read the host's table, counted on the host.",
        )
        .from("`ept.walk_pending` or `ept.walk_cycles`"),
    ],
};
