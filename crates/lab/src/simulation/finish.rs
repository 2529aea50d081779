//! The end of a simulation: gathers its results.

use super::hardware::MemoryCounts;
use super::kernel::Kernel;
use super::sample::Scale;
use super::{HardwareThread, Interval, Measured, Outcome, Sample, Simulation, Tally, findings};
use reach_core::Asid;
use reach_hardware::{CacheCounters, Processor};
use std::collections::BTreeMap;

impl Simulation {
    /// Ends the simulation and returns its results.
    pub fn finish(mut self) -> Outcome {
        for hw in 0..self.hardware.processor.hardware_threads() {
            self.go_to(hw);
            self.hardware.serialise(true);
            self.settle();
        }
        self.attribute_rest();
        self.end_interval();
        self.compare_superpages();
        let (processor, vm) = (&self.hardware.processor, &self.kernel.vm);
        let mut hardware_threads = self.accounts.hardware_threads(processor, vm.ledger());
        let mut memory = MemoryCounts::of(processor).since(&self.accounts.memory_at_start);
        let sample = self.sampling.take().map(|sampling| sampling.into_sample());
        if let Some(sample) = &sample {
            // Sampling takes one hardware thread.
            let scales = estimate(sample, &mut hardware_threads[0]);
            estimate_memory(sample, scales, &mut memory);
            estimate_processes(sample, &mut self.accounts.processes);
        }
        let mut total = Tally::default();
        hardware_threads.iter().for_each(|hw| total.absorb(&hw.tally));
        let counts = &total.counts;
        let curve = self.misses([counts.fetches, counts.loads, counts.stores]);
        let mut os_processes = BTreeMap::new();
        for Kernel { vm, .. } in self.kernels() {
            os_processes.extend(vm.finished().iter().map(|(&asid, counters)| (asid, counters.clone())));
            os_processes.extend(vm.live_counters().map(|(asid, counters)| (asid, counters.clone())));
        }
        let (os, code, code_superpages) = (self.os_counters(), self.code_census(), self.code_superpages());
        let census = self.kernels().filter_map(|kernel| kernel.vm.largest_census());
        let census = census.max_by_key(|census| census.pages);
        let contiguity = self.contiguity();
        let mut outcome = Outcome {
            machine: self.names.machine.clone(),
            system: self.names.system.clone(),
            role: self.role,
            total,
            threads_per_core: processor.threads(),
            caches: caches_by_name(processor, &memory.caches),
            memory_accesses: memory.accesses,
            hardware_threads,
            kernel_code: self.passages.is_some(),
            out_of_order: self.hardware.out_of_order,
            controller: processor.all_caches().iter().find_map(|caches| Some(caches.controller.as_ref()?.counters)),
            back_side: processor.all_caches().iter().find_map(|caches| Some(caches.back_side.as_ref()?.counters)),
            range_hits: range_hits(processor),
            curve,
            attribution: self.attributor.map(|attributor| attributor.finish()),
            sample,
            os,
            stops: self.stops,
            over_time: self.over_time.into_points(),
            os_processes,
            aux_tlb: self.hardware.aux_tlb,
            assisted: self.hardware.assisted,
            host: self.host.as_ref().map(|host| host.counters()),
            aligned_superpages: self.host.as_ref().map(|host| host.aligned),
            host_by_guest: self.host.as_ref().map_or(Vec::new(), |host| host.counters_by_guest()),
            second_level: self.hardware.second_level,
            code_superpages,
            census,
            code,
            sizes: vm.options().sizes.clone(),
            contiguity,
            processes: self.accounts.processes,
            names: self.accounts.names,
            findings: Vec::new(),
        };
        outcome.findings = findings::of(&outcome, self.criterion);
        outcome
    }

    /// Returns the contiguity of free memory: the mean over guests, each of which has as much memory.
    fn contiguity(&self) -> f64 {
        let of = |Kernel { vm, .. }: &Kernel| reach_os::contiguity(vm.frames().buddy(), &vm.options().sizes);
        self.kernels().map(of).sum::<f64>() / self.kernels().count() as f64
    }
}

/// Replaces what was simulated in any detail by an estimate of the whole program. Returns the scales of estimates.
fn estimate(sample: &Sample, hw: &mut HardwareThread) -> [Scale; 2] {
    let measured = Measured::new(sample, None);
    let scales = sample.scales(&measured, &hw.tally);
    hw.tally = sample.estimate(&measured, &hw.tally);
    scales
}

/// Does the same for each process. The rates of a process are those of its own intervals, so the estimates of processes need
/// not sum to the program's.
fn estimate_processes(sample: &Sample, processes: &mut BTreeMap<Asid, Tally>) {
    for (asid, whole) in processes {
        *whole = sample.estimate(&Measured::new(sample, Some(*asid)), whole);
    }
}

/// Does the same for caches and memory.
fn estimate_memory(sample: &Sample, scales: [Scale; 2], memory: &mut MemoryCounts) {
    let [mut known, first_run] =
        [(&sample.intervals, scales[0]), (&sample.first_run, scales[1])].map(|(stratum, scale)| {
            let mut all = Interval::without_counts(memory);
            stratum.iter().for_each(|interval| all.absorb(interval));
            all.caches.iter_mut().for_each(|counters| *counters = counters.map(|n| scale.of(n)));
            all.memory_accesses.iter_mut().flatten().for_each(|accesses| *accesses = accesses.map(|n| scale.of(n)));
            all
        });
    known.absorb(&first_run);
    known.absorb(&sample.first_run_in_full);
    *memory = MemoryCounts { caches: known.caches, accesses: known.memory_accesses };
}

/// Returns each cache by name with its counts in all cores, given the counts of each cache of each core.
fn caches_by_name(processor: &Processor, counts: &[CacheCounters]) -> Vec<(String, CacheCounters)> {
    let mut counts = counts.iter();
    let mut caches: Vec<(String, CacheCounters)> = Vec::new();
    for core in processor.all_caches() {
        for ((at, (name, _)), counters) in core.counters().enumerate().zip(&mut counts) {
            match caches.get_mut(at) {
                Some((_, all)) => all.absorb(counters),
                None => caches.push((name.to_owned(), *counters)),
            }
        }
    }
    caches
}

/// Returns how many searches range TLBs of 1, 2, … entries would have answered, all hardware threads together.
fn range_hits(processor: &Processor) -> Vec<u64> {
    let mut all: Vec<u64> = Vec::new();
    for hw in 0..processor.hardware_threads() {
        let hits = processor.mmu_of(hw).range_hits_by_entries();
        all.resize(all.len().max(hits.len()), 0);
        all.iter_mut().zip(hits).for_each(|(all, hits)| *all += hits);
    }
    all
}
