//! Rows of counts and cycles: of all processes together, and of each.

use super::Rows;
use crate::metrics;
use crate::simulation::{KernelWork, Tally};
use reach_core::{AuxTlbOptions, Label};
use reach_hardware::Counters;

impl Rows<'_> {
    /// Adds the counts, cycles and rates of `tally`, which is the one that rows are being added for.
    pub(super) fn tally(&mut self, tally: &Tally) {
        let (c, h) = (&tally.counts, &tally.hardware);
        self.count("instructions", "count", c.instructions);
        self.count("fetches", "count", c.fetches);
        self.count("loads", "count", c.loads);
        self.count("stores", "count", c.stores);
        self.count("l1i_tlb_misses", "count", h.l1i_tlb_misses);
        self.count("l1d_tlb_misses", "count", h.l1d_tlb_misses);
        self.count("l2_tlb_hits", "count", h.l2_tlb_hits());
        self.sum(tally, &metrics::L1I_TLB_LOOKUPS);
        self.sum(tally, &metrics::L1D_TLB_LOOKUPS);
        let l2_lookups = metrics::l2_tlb_lookups(tally, self.outcome.second_level);
        self.count(metrics::L2_TLB_LOOKUPS, "count", l2_lookups);
        self.count("walks", "count", h.walks());
        self.count("walks.fetch", "count", h.walks_fetch);
        self.count("walks.data", "count", h.walks_data);
        self.count("walks.faulting", "count", h.walks_faulting);
        if h.walks_coalesced > 0 {
            self.count("walks.coalesced", "count", h.walks_coalesced);
        }
        self.count("walk_accesses", "count", h.walk_accesses);
        self.count("walk_accesses.fetch", "count", h.walk_accesses_fetch);
        self.sum(tally, &metrics::WALK_ACCESSES_DATA);
        if h.host_accesses > 0 {
            self.count("walk_accesses.host", "count", h.host_accesses);
        }
        self.count("walk_cycles", "cycles", h.walk_cycles);
        self.count("walk_cycles.fetch", "cycles", h.walk_cycles_fetch);
        self.sum(tally, &metrics::WALK_CYCLES_DATA);
        self.sum(tally, &metrics::WALKS_FILLED);
        self.sum(tally, &metrics::MISS_CYCLES);
        self.count("dirty_updates", "count", h.dirty_updates);
        self.aux_tlb(h);
        if self.outcome.assisted {
            self.walk_assist(h);
        }
        if self.outcome.out_of_order {
            self.out_of_order(tally);
        }
        self.rate(tally, &metrics::WCPI);
        metrics::WCPI_FACTORS.iter().for_each(|factor| self.rate(tally, factor));
        self.rate(tally, &metrics::WCPI_DATA);
        metrics::WCPI_DATA_FACTORS.iter().for_each(|factor| self.rate(tally, factor));
        if self.outcome.kernel_code {
            self.kernel_code(&tally.kernel);
        }
        self.sampled(tally);
        self.count("cycles", "cycles", tally.cycles());
        self.sum(tally, &metrics::SYSTEM_CYCLES);
        self.sum(tally, &metrics::USER_CYCLES);
        for label in Label::ALL {
            self.count(&format!("cycles.{}", label.name()), "cycles", tally.ledger.charged(label).0);
        }
    }

    /// Adds what the kernel's own code has done.
    fn kernel_code(&mut self, kernel: &KernelWork) {
        let h = &kernel.hardware;
        for (name, unit, value) in [
            ("kernel.system_calls", "count", kernel.system_calls),
            ("kernel.system_calls.unrecorded", "count", kernel.unrecorded),
            ("kernel.faults", "count", kernel.faults),
            ("kernel.processes", "count", kernel.processes),
            ("kernel.switches", "count", kernel.switches),
            ("kernel.interrupts", "count", kernel.interrupts),
            ("kernel.instructions", "count", kernel.instructions),
            ("kernel.l1i_tlb_misses", "count", h.l1i_tlb_misses),
            ("kernel.l1d_tlb_misses", "count", h.l1d_tlb_misses),
            ("kernel.walks", "count", h.walks()),
            ("kernel.walks.fetch", "count", h.walks_fetch),
            ("kernel.walk_cycles", "cycles", h.walk_cycles),
            ("kernel.itlb_stall", "cycles", h.itlb_stall()),
        ] {
            self.count(name, unit, value);
        }
    }

    /// Adds the counts of the auxiliary TLB, if the system has one that counts.
    fn aux_tlb(&mut self, h: &Counters) {
        let name = match &self.outcome.aux_tlb {
            Some(AuxTlbOptions::Ranges(_)) => "range_tlb",
            Some(AuxTlbOptions::Clusters(_)) => "cluster_tlb",
            Some(AuxTlbOptions::Segments) | None => return,
        };
        self.count(&format!("{name}.lookups"), "count", h.aux_tlb_lookups);
        self.count(&format!("{name}.hits"), "count", h.aux_tlb_hits);
        self.count(&format!("{name}.mru_hits"), "count", h.aux_tlb_mru_hits);
        self.count(&format!("{name}.spared_walks"), "count", h.aux_tlb_walks_avoided);
        self.count(&format!("{name}.fills"), "count", h.aux_tlb_fills);
        if let Some(AuxTlbOptions::Clusters(_)) = &self.outcome.aux_tlb {
            self.count("cluster_tlb.coalesced", "count", h.aux_tlb_coalesced);
        }
        if let Some(AuxTlbOptions::Ranges(options)) = &self.outcome.aux_tlb {
            // Searches cost energy: all entries are compared at once, unless the entry used last hits (§4.1).
            let searches = h.aux_tlb_lookups - if options.mru { h.aux_tlb_mru_hits } else { 0 };
            self.count("range_tlb.searches", "count", searches);
            self.count("range_tlb.not_asked", "count", h.aux_tlb_disabled_lookups);
            self.count("range_walks", "count", h.range_walks);
            self.count("range_walk_accesses", "count", h.range_walk_accesses);
            self.count("range_walk_cycles", "cycles", h.range_walk_cycles);
        }
    }

    /// Adds the counts of the walk assist.
    fn walk_assist(&mut self, h: &Counters) {
        for (name, unit, value) in [
            ("searches", "count", h.assist_searches),
            ("hits", "count", h.assist_hits),
            ("reads", "count", h.assist_reads),
            ("cycles", "cycles", h.assist_cycles),
            ("walks", "count", h.assist_walks),
            ("walk_accesses", "count", h.assist_walk_accesses),
            ("walk_cycles", "cycles", h.assist_walk_cycles),
            ("read_ahead", "count", h.assist_hastened),
            ("predictions", "count", h.assist_predictions),
            ("mispredictions", "count", h.assist_mispredictions),
            ("hidden_cycles", "cycles", h.assist_hidden_cycles),
        ] {
            self.count(&format!("walk_assist.{name}"), unit, value);
        }
    }

    /// Adds the counts of out-of-order timing.
    fn out_of_order(&mut self, tally: &Tally) {
        let h = &tally.hardware;
        // Split as the paper splits its counters (Zhou et al. 2023, §7.1); hidden cycles are included.
        self.count("itlb_stall", "cycles", h.itlb_stall());
        self.count("itlb_stall.walk", "cycles", h.itlb_stall_walk);
        self.count("itlb_stall.l2_tlb_hit", "cycles", h.itlb_stall_l2_tlb_hit);
        self.count("itlb_stall.inclusion", "cycles", h.itlb_stall_inclusion);
        self.count("itlb_stall.replay", "cycles", h.itlb_stall_replay);
        self.count("fetch_stall.cache", "cycles", h.fetch_stall_cache);
        self.count("branches", "count", h.branches);
        self.count("branches.mispredicted", "count", h.mispredictions);
        self.count("machine_clears.memory_ordering", "count", h.memory_ordering_clears);
        self.count("squashed.instructions", "count", h.squashed);
        self.count("squashed.loads", "count", h.squashed_loads);
        self.count("squashed.stores", "count", h.squashed_stores);
        // Walk outcomes, as an exact partition and as a processor's events count them. Lindsay and Bhattacharjee, Table VI,
        // count loads and stores only.
        self.count("walks.initiated", "count", h.walks_data);
        self.count("walks.completed", "count", h.walks_completed);
        self.count("walks.aborted", "count", h.walks_aborted);
        self.count("walks.retired", "count", h.walks_retired);
        self.count("walks.wrong_path", "count", h.walks_wrong_path);
        self.count("walks.fetch.aborted", "count", h.walks_fetch_aborted);
        self.count("walks.fetch.wrong_path", "count", h.walks_fetch_wrong_path);
        self.count("stlb_miss_retired", "count", h.stlb_miss_retired);
        self.ratio(metrics::NOT_RETIRED.name, metrics::NOT_RETIRED.unit, metrics::NOT_RETIRED.value(tally));
        self.ratio(metrics::NOT_RETIRED_BY_EVENTS, "share", metrics::not_retired_by_events(tally));
    }

    /// Adds the size of the sample and its rates, if the program was sampled: counts of a sample have no error bars.
    fn sampled(&mut self, tally: &Tally) {
        let Some(sample) = &self.outcome.sample else { return };
        if self.asid.is_none() {
            self.count("sample.intervals", "count", sample.intervals.len() as u64);
            self.count("sample.references", "count", sample.measured());
            let (first_run, measured) = sample.first_run_references();
            self.count("sample.first_run_references", "count", first_run);
            self.count("sample.first_run_measured", "count", measured);
            self.count("sample.program_references", "count", sample.program());
        }
        metrics::SAMPLED.iter().for_each(|rate| self.rate(tally, rate));
    }
}
