//! Rows of results: one metric a row, under the names that others rely on.

mod memory;

use crate::simulation::{Outcome, Tally};
use reach_core::{Asid, AuxTlbOptions, Label};
use reach_hardware::{Access, CacheCounters, Counters, MemoryAccesses};
use serde::Serialize;

/// A measured value.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Value {
    /// A count.
    Count(u64),
    /// A ratio, share or rate.
    Ratio(f64),
}

impl Value {
    /// As a number.
    pub fn as_f64(self) -> f64 {
        match self {
            Value::Count(n) => n as f64,
            Value::Ratio(x) => x,
        }
    }
}

/// One metric of one simulation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The machine, as it was asked for.
    pub machine: String,
    /// The system, as it was asked for.
    pub system: String,
    /// The program.
    pub program: String,
    /// `all`, or the number of an address space and what it executed.
    pub process: String,
    /// The metric's name.
    pub metric: String,
    /// What the value is counted in.
    pub unit: &'static str,
    /// The value.
    pub value: Value,
    /// Of a rate that was sampled: half the width of the interval around it that holds the whole program's with a
    /// probability of 95 %, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<f64>,
}

/// The name of all processes together in [`Row::process`].
pub const ALL: &str = "all";

/// All metrics of `outcome`: of all processes together, and of each where there are several. `baseline` is the
/// simulation that speedups are relative to, on the same machine.
pub fn rows(outcome: &Outcome, program: &str, baseline: Option<&Outcome>) -> Vec<Row> {
    let mut rows = Rows { outcome, program, process: ALL.into(), asid: None, rows: Vec::new() };
    rows.tally(&outcome.total);
    rows.operating_system(&outcome.os, &outcome.sizes);
    rows.caches();
    rows.ratio("contiguity", "share", outcome.contiguity);
    rows.range_tlbs();
    rows.curve();
    rows.census();
    rows.cores();
    rows.code();
    if let Some(baseline) = baseline {
        rows.ratio("speedup", "ratio", quotient(baseline.total.cycles(), outcome.total.cycles()));
        rows.of_error(outcome.speedup_error(baseline));
    }
    if outcome.processes.len() > 1 {
        for (asid, tally) in &outcome.processes {
            (rows.process, rows.asid) = (process_name(outcome, *asid), Some(*asid));
            rows.tally(tally);
            if let Some(counters) = outcome.os_processes.get(asid) {
                rows.operating_system(counters, &outcome.sizes);
            }
        }
    }
    rows.rows
}

/// Lindsay and Bhattacharjee §III: (t_4K − min(t_2M, t_1G)) / min(t_2M, t_1G).
pub fn relative_overhead(base: &Outcome, superpages: &[&Outcome]) -> Option<f64> {
    let cycles = |outcome: &Outcome| outcome.total.ledger.total().0;
    let best = superpages.iter().map(|o| cycles(o)).min()?;
    (best > 0).then(|| (cycles(base) as f64 - best as f64) / best as f64)
}

/// How well a sample knows that: as well as the quotient of cycles that it is less 1.
pub(crate) fn overhead_error(base: &Outcome, superpages: &[&Outcome]) -> Option<f64> {
    superpages.iter().min_by_key(|outcome| outcome.total.cycles())?.speedup_error(base)
}

fn process_name(outcome: &Outcome, asid: Asid) -> String {
    match outcome.names.get(&asid) {
        Some(name) => format!("{} {name}", asid.0),
        None => asid.0.to_string(),
    }
}

/// `a / b`, and 0 where nothing was counted.
fn quotient(a: u64, b: u64) -> f64 {
    if b == 0 { 0.0 } else { a as f64 / b as f64 }
}

struct Rows<'a> {
    outcome: &'a Outcome,
    program: &'a str,
    process: String,
    /// The process that rows are of, if not all.
    asid: Option<Asid>,
    rows: Vec<Row>,
}

impl Rows<'_> {
    fn push(&mut self, metric: &str, unit: &'static str, value: Value) {
        self.rows.push(Row {
            machine: self.outcome.machine.clone(),
            system: self.outcome.system.clone(),
            program: self.program.into(),
            process: self.process.clone(),
            metric: metric.into(),
            unit,
            value,
            error: None,
        });
    }

    fn count(&mut self, metric: &str, unit: &'static str, value: u64) {
        self.push(metric, unit, Value::Count(value));
    }

    fn ratio(&mut self, metric: &str, unit: &'static str, value: f64) {
        self.push(metric, unit, Value::Ratio(value));
    }

    /// The row that was pushed last has this error.
    fn of_error(&mut self, error: Option<f64>) {
        if let Some(row) = self.rows.last_mut() {
            row.error = error;
        }
    }

    /// A quotient of what `tally`, which is that of the process that rows are of, has counted.
    fn rate(&mut self, tally: &Tally, metric: &str, unit: &'static str, of: &dyn Fn(&Tally) -> (u64, u64)) {
        let (a, b) = of(tally);
        self.ratio(metric, unit, quotient(a, b));
        self.of_error(match self.asid {
            None => self.outcome.error(of),
            Some(process) => self.outcome.process_error(process, of),
        });
    }

    /// What was sampled, and rates that follow from counts, which by themselves have no error.
    fn sampled(&mut self, tally: &Tally) {
        let Some(sample) = &self.outcome.sample else { return };
        if self.asid.is_none() {
            self.count("sample.intervals", "count", sample.intervals.len() as u64);
            self.count("sample.references", "count", sample.measured());
            self.count("sample.program_references", "count", sample.program());
        }
        let c = |t: &Tally| t.counts.instructions;
        self.rate(tally, "sample.walks_per_instruction", "ratio", &|t| (t.hardware.walks(), c(t)));
        self.rate(tally, "sample.cycles_per_instruction", "cycles/instruction", &|t| (t.cycles(), c(t)));
        self.rate(tally, "sample.translation", "share", &|t| (t.translation(), t.cycles()));
    }

    fn tally(&mut self, tally: &Tally) {
        let (c, h) = (&tally.counts, &tally.hardware);
        self.count("instructions", "count", c.instructions);
        self.count("fetches", "count", c.fetches);
        self.count("loads", "count", c.loads);
        self.count("stores", "count", c.stores);
        self.count("l1i_tlb_misses", "count", h.l1i_tlb_misses);
        self.count("l1d_tlb_misses", "count", h.l1d_tlb_misses);
        self.count("l2_tlb_hits", "count", h.l2_tlb_hits());
        // What takes energy, with searches, walk accesses and range walk accesses: every reference asks the arrays of the
        // first level, and every miss there those of the next.
        self.count("l1i_tlb_lookups", "count", c.fetches + h.squashed_fetches);
        self.count("l1d_tlb_lookups", "count", c.loads + c.stores + h.squashed_loads + h.squashed_stores);
        let second =
            [(h.l1i_tlb_misses, self.outcome.second_level[0]), (h.l1d_tlb_misses, self.outcome.second_level[1])];
        let second = second.iter().map(|(misses, there)| if *there { *misses } else { 0 });
        self.count("l2_tlb_lookups", "count", second.sum());
        self.count("walks", "count", h.walks());
        self.count("walks.fetch", "count", h.walks_fetch);
        self.count("walks.data", "count", h.walks_data);
        self.count("walks.faulting", "count", h.walks_faulting);
        self.count("walk_accesses", "count", h.walk_accesses);
        if h.host_accesses > 0 {
            self.count("walk_accesses.host", "count", h.host_accesses);
        }
        self.count("walk_cycles", "cycles", h.walk_cycles);
        self.count("walk_cycles.fetch", "cycles", h.walk_cycles_fetch);
        self.count("walk_cycles.data", "cycles", h.walk_cycles - h.walk_cycles_fetch);
        self.count("walks.filled", "count", h.walks() - h.walks_faulting - h.walks_aborted - h.walks_fetch_aborted);
        let miss = [Label::Walk, Label::ItlbWalk, Label::Handler, Label::Copy, Label::Remap]
            .map(|label| tally.ledger.charged(label).0);
        // What misses cost with all that is done because of them, by each miss that found a translation (Fang section 5.1).
        self.count("miss_cycles", "cycles", miss.iter().sum());
        self.count("dirty_updates", "count", h.dirty_updates);
        let named = match &self.outcome.aux_tlb {
            Some(AuxTlbOptions::Ranges(_)) => Some("range_tlb"),
            Some(AuxTlbOptions::Clusters(_)) => Some("cluster_tlb"),
            Some(AuxTlbOptions::Segments) | None => None,
        };
        if let Some(name) = named {
            self.count(&format!("{name}.lookups"), "count", h.aux_tlb_searches);
            self.count(&format!("{name}.hits"), "count", h.aux_tlb_hits);
            self.count(&format!("{name}.mru_hits"), "count", h.aux_tlb_mru_hits);
            self.count(&format!("{name}.spared_walks"), "count", h.aux_tlb_spared);
            self.count(&format!("{name}.fills"), "count", h.aux_tlb_fills);
        }
        if let Some(AuxTlbOptions::Ranges(options)) = &self.outcome.aux_tlb {
            // What takes energy: entries compared all at once, unless the one used last was the right one (section 4.1).
            let searches = h.aux_tlb_searches - if options.mru { h.aux_tlb_mru_hits } else { 0 };
            self.count("range_tlb.searches", "count", searches);
            self.count("range_tlb.not_asked", "count", h.aux_tlb_unasked);
            self.count("range_walks", "count", h.range_walks);
            self.count("range_walk_accesses", "count", h.range_walk_accesses);
            self.count("range_walk_cycles", "cycles", h.range_walk_cycles);
        }
        if self.outcome.out_of_order {
            // As the paper splits its counters (Zhou et al. 2023, section 7.1): hidden cycles are among them.
            self.count("itlb_stall", "cycles", h.itlb_stall());
            self.count("itlb_stall.walk", "cycles", h.itlb_stall_walk);
            self.count("itlb_stall.l2_tlb_hit", "cycles", h.itlb_stall_l2_tlb_hit);
            self.count("itlb_stall.inclusion", "cycles", h.itlb_stall_inclusion);
            self.count("fetch_stall.cache", "cycles", h.fetch_stall_cache);
            self.count("branches", "count", h.branches);
            self.count("branches.mispredicted", "count", h.mispredictions);
            self.count("machine_clears.memory_ordering", "count", h.memory_ordering_clears);
            self.count("squashed.instructions", "count", h.squashed);
            self.count("squashed.loads", "count", h.squashed_loads);
            self.count("squashed.stores", "count", h.squashed_stores);
            self.outcomes(h);
        }
        self.rate(tally, "wcpi", "cycles/instruction", &|t| (t.hardware.walk_cycles, t.counts.instructions));
        // The four factors of Lindsay and Bhattacharjee §IV; each numerator is the next one's denominator.
        let all = |t: &Tally| t.counts.references();
        self.rate(tally, "wcpi.accesses_per_instruction", "ratio", &|t| (all(t), t.counts.instructions));
        self.rate(tally, "wcpi.misses_per_access", "ratio", &|t| (t.hardware.walks(), all(t)));
        let of = |t: &Tally| (t.hardware.walk_accesses, t.hardware.walks());
        self.rate(tally, "wcpi.walk_accesses_per_miss", "ratio", &of);
        let of = |t: &Tally| (t.hardware.walk_cycles, t.hardware.walk_accesses);
        self.rate(tally, "wcpi.cycles_per_walk_access", "cycles", &of);
        self.sampled(tally);
        self.count("cycles", "cycles", tally.ledger.total().0);
        let system: u64 = Label::ALL.into_iter().filter(|l| l.is_system()).map(|l| tally.ledger.charged(l).0).sum();
        self.count("system_cycles", "cycles", system);
        self.count("user_cycles", "cycles", tally.ledger.total().0 - system);
        for label in Label::ALL {
            self.count(&format!("cycles.{}", label.name()), "cycles", tally.ledger.charged(label).0);
        }
    }

    /// What became of walks: the exact partition, and what a processor's events would say (Lindsay and Bhattacharjee,
    /// Table VI, which looks at loads and stores only).
    fn outcomes(&mut self, h: &Counters) {
        self.count("walks.initiated", "count", h.walks_data);
        self.count("walks.completed", "count", h.walks_completed);
        self.count("walks.aborted", "count", h.walks_aborted);
        self.count("walks.retired", "count", h.walks_retired);
        self.count("walks.wrong_path", "count", h.walks_wrong_path);
        self.count("walks.fetch.aborted", "count", h.walks_fetch_aborted);
        self.count("walks.fetch.wrong_path", "count", h.walks_fetch_wrong_path);
        self.count("stlb_miss_retired", "count", h.stlb_miss_retired);
        let of_all = |walks: u64| quotient(walks, h.walks_data);
        self.ratio("walks.not_retired", "share", of_all(h.walks_aborted + h.walks_wrong_path));
        // Both terms of Table VI that are not retired: all that was initiated less what is counted by instruction.
        let events = h.walks_data as f64 - h.stlb_miss_retired as f64;
        self.ratio("walks.not_retired.by_events", "share", events / (h.walks_data.max(1)) as f64);
    }

    /// What range TLBs of other sizes would have missed, where they were counted (Karakostas et al., Figure 7).
    fn range_tlbs(&mut self) {
        let lookups = self.outcome.total.hardware.aux_tlb_searches;
        // Counted of all that was simulated, not of what was measured of it.
        let sampled = self.outcome.sample.is_some();
        if sampled || !matches!(self.outcome.aux_tlb, Some(AuxTlbOptions::Ranges(options)) if options.sweep_entries > 0)
        {
            return;
        }
        for (entries, hits) in (1..).zip(&self.outcome.range_hits) {
            self.count(&format!("range_tlb.misses@{entries}"), "count", lookups - hits);
            self.ratio(&format!("range_tlb.miss_ratio@{entries}"), "ratio", quotient(lookups - hits, lookups));
        }
    }

    /// What a TLB array would have missed at other geometries, by entries and ways.
    fn curve(&mut self) {
        let Some(curve) = &self.outcome.curve else { return };
        let name = |metric: &str| format!("curve.{}.{metric}", curve.array);
        self.count(&name("lookups"), "count", curve.lookups);
        for (geometry, misses) in &curve.misses {
            let at = format!("@{}x{}", geometry.entries, geometry.ways);
            self.count(&(name("misses") + &at), "count", *misses);
            self.ratio(&(name("miss_ratio") + &at), "ratio", quotient(*misses, curve.lookups));
        }
        self.count(&name("wakes"), "count", curve.wakes);
    }

    /// How contiguous the largest process was (Karakostas et al., Tables 2 and 7), in base pages.
    fn census(&mut self) {
        let Some(census) = &self.outcome.census else { return };
        self.count("mapped.pages", "pages", census.pages);
        for (size, entries) in self.outcome.sizes.iter().zip(&census.entries) {
            self.count(&format!("mapped.entries.{size}"), "count", *entries);
        }
        let count = census.ranges.len() as u64;
        self.count("mapped.ranges", "count", count);
        self.ratio("mapped.ranges.coverage", "share", quotient(census.covered(), census.pages));
        self.count("mapped.ranges.median", "pages", census.median());
        self.ratio("mapped.ranges.average", "pages", quotient(census.covered(), count));
        self.count("mapped.ranges.greatest", "pages", census.ranges.last().copied().unwrap_or(0));
        self.count("mapped.ideal_ranges", "count", census.ideal.len() as u64);
        self.count("mapped.ideal_ranges.for_99_percent", "count", census.for_99_percent());
        let greatest = census.ideal.last().copied().unwrap_or(0);
        self.ratio("mapped.ideal_ranges.greatest", "share", quotient(greatest, census.pages));
    }

    /// What each core did, where there are several hardware threads.
    fn cores(&mut self) {
        let Outcome { hardware_threads, threads, beyond, out_of_order, .. } = self.outcome;
        if hardware_threads.len() == 1 {
            return;
        }
        // Who has nothing to do waits for the last, so all clocks are the same at the end.
        self.count("elapsed_cycles", "cycles", hardware_threads.iter().map(|hw| hw.clock).max().unwrap_or(0));
        for (core, hardware_threads) in hardware_threads.chunks(*threads).enumerate() {
            let mut all = Tally::default();
            hardware_threads.iter().for_each(|hw| all.absorb(&hw.tally));
            let (h, name) = (&all.hardware, |metric: &str| format!("core.{core}.{metric}"));
            self.count(&name("instructions"), "count", all.counts.instructions);
            self.count(&name("cycles"), "cycles", all.ledger.total().0);
            self.count(&name("l1i_tlb_misses"), "count", h.l1i_tlb_misses);
            self.count(&name("l1d_tlb_misses"), "count", h.l1d_tlb_misses);
            self.count(&name("walks.fetch"), "count", h.walks_fetch);
            self.count(&name("walks.data"), "count", h.walks_data);
            self.count(&name("walk_cycles"), "cycles", h.walk_cycles);
            self.count(&name("walk_cycles.fetch"), "cycles", h.walk_cycles_fetch);
            if *out_of_order {
                self.count(&name("itlb_stall"), "cycles", h.itlb_stall());
            }
            if let Some(beyond) = beyond.get(core) {
                self.beyond(&format!("core.{core}."), beyond);
            }
        }
    }

    /// What no cache answered.
    fn beyond(&mut self, of: &str, beyond: &[MemoryAccesses; Access::KINDS]) {
        for (kind, beyond) in ["fetch", "load", "store", "walk"].iter().zip(beyond) {
            self.count(&format!("{of}memory.{kind}.accesses"), "count", beyond.accesses);
            self.count(&format!("{of}memory.{kind}.cycles"), "cycles", beyond.cycles);
        }
    }

    /// How much code there was, touched and in superpages (Zhou et al. 2023, Table 3, Figures 1 and 2).
    fn code(&mut self) {
        let Some(code) = &self.outcome.code else { return };
        let below = |bytes: u64| code.libraries.partition_point(|&library| library < bytes) as u64;
        let with = |clusters: u64| (code.clusters.len() - code.clusters.partition_point(|&c| c < clusters)) as u64;
        self.count("code.executable_bytes", "bytes", code.executable);
        self.count("code.libraries", "count", code.libraries.len() as u64);
        self.count("code.libraries.below_1M", "count", below(1 << 20));
        self.count("code.libraries.below_2M", "count", below(2 << 20));
        self.count("code.libraries.greatest_bytes", "bytes", code.libraries.last().copied().unwrap_or(0));
        self.count("code.written_bytes", "bytes", code.written.resident);
        self.count("code.extents", "count", code.clusters.len() as u64 + code.written.extents);
        self.count("code.extents.touched", "count", with(1) + code.written.touched);
        for clusters in 1..=32 {
            self.count(&format!("code.extents.with_{clusters}"), "count", with(clusters));
        }
        self.count("code.superpages", "pages", code.promoted + code.written.promoted);
    }

    fn caches(&mut self) {
        for (at, (name, c)) in self.outcome.caches.iter().enumerate() {
            self.count(&format!("cache.{name}.accesses"), "count", c.fetches + c.loads + c.stores + c.walks);
            self.count(&format!("cache.{name}.fetch_misses"), "count", c.fetch_misses);
            self.count(&format!("cache.{name}.load_misses"), "count", c.load_misses);
            self.count(&format!("cache.{name}.store_misses"), "count", c.store_misses);
            self.count(&format!("cache.{name}.walk_accesses"), "count", c.walks);
            self.count(&format!("cache.{name}.walk_misses"), "count", c.walk_misses);
            self.count(&format!("cache.{name}.walk_hits"), "count", c.walks - c.walk_misses);
            self.count(&format!("cache.{name}.write_backs"), "count", c.write_backs);
            let all = |c: &CacheCounters| c.fetches + c.loads + c.stores + c.walks;
            let misses = |c: &CacheCounters| c.fetch_misses + c.load_misses + c.store_misses + c.walk_misses;
            self.count(&format!("cache.{name}.misses"), "count", misses(c));
            let hits = |c: &CacheCounters| (all(c) - misses(c), all(c));
            self.ratio(&format!("cache.{name}.hit_ratio"), "ratio", quotient(hits(c).0, hits(c).1));
            self.of_error(self.outcome.cache_error(at, &hits));
        }
        if !self.outcome.beyond.is_empty() {
            let mut all = [MemoryAccesses::default(); Access::KINDS];
            for core in &self.outcome.beyond {
                all.iter_mut().zip(core).for_each(|(all, core)| all.absorb(core));
            }
            self.beyond("", &all);
        }
        if let Some(controller) = &self.outcome.controller {
            self.count("controller.retranslations", "count", controller.retranslations);
            self.count("controller.misses", "count", controller.misses);
        }
    }
}
