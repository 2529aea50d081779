//! Rows of caches, memory, cores, and of hardware that was only observed.

use super::Rows;
use crate::metrics::{self, Estimate, quotient};
use crate::simulation::{Outcome, Tally};
use reach_core::AuxTlbOptions;
use reach_hardware::{Access, MemoryAccesses};

impl Rows<'_> {
    /// Adds the counts of each cache, of memory, and of a memory controller that translates addresses.
    pub(super) fn caches(&mut self) {
        for (at, (name, c)) in self.outcome.caches.iter().enumerate() {
            let metric = |name_of: &str| format!("cache.{name}.{name_of}");
            self.count(&metric("accesses"), "count", metrics::cache_accesses(c));
            self.count(&metric("fetch_misses"), "count", c.fetch_misses);
            self.count(&metric("load_misses"), "count", c.load_misses);
            self.count(&metric("store_misses"), "count", c.store_misses);
            self.count(&metric("walk_accesses"), "count", c.walks);
            self.count(&metric("walk_misses"), "count", c.walk_misses);
            self.count(&metric("walk_hits"), "count", c.walks - c.walk_misses);
            self.count(&metric("write_backs"), "count", c.write_backs);
            self.count(&metric("misses"), "count", metrics::cache_misses(c));
            let rate = &metrics::CACHE_HIT_RATIO;
            let estimate = Estimate { value: rate.value(c), error: self.outcome.cache_error(at, &rate.of) };
            self.estimate(&metric(rate.name), rate.unit, estimate);
        }
        if !self.outcome.memory_accesses.is_empty() {
            let mut all = [MemoryAccesses::default(); Access::KINDS];
            for core in &self.outcome.memory_accesses {
                all.iter_mut().zip(core).for_each(|(all, core)| all.absorb(core));
            }
            self.memory_accesses("", &all);
        }
        if let Some(controller) = &self.outcome.controller {
            self.count("controller.retranslations", "count", controller.retranslations);
            self.count("controller.misses", "count", controller.misses);
        }
        // Its counts are of the whole simulation, not of measured intervals.
        if let Some(back_side) = self.outcome.back_side.as_ref().filter(|_| self.outcome.sample.is_none()) {
            self.count("back_side.translations", "count", back_side.translations);
            self.count("back_side.misses", "count", back_side.misses);
            self.count("back_side.accesses", "count", back_side.accesses);
            self.count("back_side.memory_reads", "count", back_side.memory_reads);
            self.count("back_side.cycles", "cycles", back_side.cycles);
        }
    }

    /// Adds accesses that no cache answered; `prefix` names the core, and is empty for all together.
    fn memory_accesses(&mut self, prefix: &str, accesses: &[MemoryAccesses; Access::KINDS]) {
        for (kind, memory) in ["fetch", "load", "store", "walk"].iter().zip(accesses) {
            self.count(&format!("{prefix}memory.{kind}.accesses"), "count", memory.accesses);
            self.count(&format!("{prefix}memory.{kind}.cycles"), "cycles", memory.cycles);
        }
    }

    /// Adds what range TLBs of other sizes would have missed, if that was counted (Karakostas et al., Figure 7).
    pub(super) fn range_tlbs(&mut self) {
        let lookups = self.outcome.total.hardware.aux_tlb_lookups;
        // The counts are of the whole simulation, not of measured intervals.
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

    /// Adds the miss curve by entries and ways, if one was requested.
    pub(super) fn curve(&mut self) {
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

    /// Adds the counts of each core, if there are several hardware threads.
    pub(super) fn cores(&mut self) {
        let Outcome { hardware_threads, threads_per_core, memory_accesses, out_of_order, .. } = self.outcome;
        if hardware_threads.len() == 1 {
            return;
        }
        // Idle threads wait for the last one, so all clocks agree at the end.
        self.count("elapsed_cycles", "cycles", hardware_threads.iter().map(|hw| hw.clock).max().unwrap_or(0));
        for (core, hardware_threads) in hardware_threads.chunks(*threads_per_core).enumerate() {
            let mut all = Tally::default();
            hardware_threads.iter().for_each(|hw| all.absorb(&hw.tally));
            let (h, name) = (&all.hardware, |metric: &str| format!("core.{core}.{metric}"));
            self.count(&name("instructions"), "count", all.counts.instructions);
            self.count(&name("cycles"), "cycles", all.cycles());
            self.count(&name("l1i_tlb_misses"), "count", h.l1i_tlb_misses);
            self.count(&name("l1d_tlb_misses"), "count", h.l1d_tlb_misses);
            self.count(&name("walks.fetch"), "count", h.walks_fetch);
            self.count(&name("walks.data"), "count", h.walks_data);
            self.count(&name("walk_cycles"), "cycles", h.walk_cycles);
            self.count(&name("walk_cycles.fetch"), "cycles", h.walk_cycles_fetch);
            if *out_of_order {
                self.count(&name("itlb_stall"), "cycles", h.itlb_stall());
            }
            if let Some(accesses) = memory_accesses.get(core) {
                self.memory_accesses(&format!("core.{core}."), accesses);
            }
        }
    }
}
