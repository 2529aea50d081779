//! What a simulation has found out.

use super::{Sample, Simulation};
use crate::curve::Misses;
use reach_core::{Asid, AuxTlbOptions, Counts, Ledger};
use reach_hardware::{Access, CacheCounters, ControllerCounters, Counters, MemoryAccesses};
use reach_systems::Role;
use std::collections::BTreeMap;

/// What was counted of a process, or of all together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Instructions and references.
    pub counts: Counts,
    /// What the translation hardware did.
    pub hardware: Counters,
    /// Where the cycles went.
    pub ledger: Ledger,
}

impl Tally {
    /// What was counted since `earlier`.
    pub(crate) fn since(&self, earlier: &Tally) -> Tally {
        Tally {
            counts: self.counts.since(&earlier.counts),
            hardware: self.hardware.since(&earlier.hardware),
            ledger: self.ledger.since(&earlier.ledger),
        }
    }

    /// Adds what `other` has.
    pub(crate) fn absorb(&mut self, other: &Tally) {
        self.counts.absorb(&other.counts);
        self.hardware.absorb(&other.hardware);
        self.ledger.absorb(&other.ledger);
    }
}

/// What one hardware thread did.
#[derive(Clone, Debug)]
pub struct HardwareThread {
    /// Its counts and cycles.
    pub tally: Tally,
    /// Its clock at the end: its cycles, and those for which it had nothing to do.
    pub clock: u64,
}

/// Everything that a finished simulation knows.
pub struct Outcome {
    /// The machine, as it was asked for.
    pub machine: String,
    /// The system, as it was asked for.
    pub system: String,
    /// The system's part in a comparison.
    pub role: Role,
    /// All processes together.
    pub total: Tally,
    /// Each process.
    pub processes: BTreeMap<Asid, Tally>,
    /// What each process last executed, where that is known.
    pub names: BTreeMap<Asid, String>,
    /// What the operating system counted, all together.
    pub os: reach_os::Counters,
    /// What it counted of each process.
    pub os_processes: BTreeMap<Asid, reach_os::Counters>,
    /// What each hardware thread did, those of the first core first.
    pub hardware_threads: Vec<HardwareThread>,
    /// Hardware threads per core.
    pub threads_per_core: usize,
    /// Accesses of each core that no cache answered, by kind. Empty without caches.
    pub memory_accesses: Vec<[MemoryAccesses; Access::KINDS]>,
    /// The core executed out of order.
    pub out_of_order: bool,
    /// The data and instruction caches, where they were modelled.
    pub caches: Vec<(String, CacheCounters)>,
    /// The memory controller, where it retranslates addresses.
    pub controller: Option<ControllerCounters>,
    /// What stood beside the last level of TLB arrays, where anything did.
    pub aux_tlb: Option<AuxTlbOptions>,
    /// Whether fetches, and loads and stores, ask a second level of TLB arrays where the first misses.
    pub second_level: [bool; 2],
    /// Where range TLBs of other sizes were counted: how many searches those of 1, 2, … entries would have answered.
    pub range_hits: Vec<u64>,
    /// Superpages of code of each file, by path, where code has a rule of its own.
    pub code_superpages: Vec<(String, u64)>,
    /// What a TLB array would have missed at other geometries, where that was asked for.
    pub curve: Option<Misses>,
    /// The intervals that were measured, where the program was sampled: counts of hardware and cycles are of these.
    pub sample: Option<Sample>,
    /// The contiguity of the process that had most mapped at its end.
    pub census: Option<reach_os::Census>,
    /// What was code, where the system treats it in its own way.
    pub code: Option<reach_os::CodeCensus>,
    /// Page sizes of the machine.
    pub sizes: Vec<reach_core::PageShift>,
    /// Contiguity of free memory at the end (Navarro §6.5), 0 to 1.
    pub contiguity: f64,
}

impl Simulation {
    /// Ends the simulation.
    pub fn finish(mut self) -> Outcome {
        for hw in 0..self.processor.hardware_threads() {
            self.go_to(hw);
            self.serialise(true);
            self.settle();
        }
        let mut hardware_threads = self.all_hardware_threads();
        let sample = self.take_sample();
        if let (Some(sample), [hw]) = (&sample, &mut hardware_threads[..]) {
            hw.tally = Tally::default();
            sample.intervals.iter().for_each(|interval| hw.tally.absorb(&interval.tally));
        }
        let mut total = Tally::default();
        hardware_threads.iter().for_each(|hw| total.absorb(&hw.tally));
        let mut os_processes = std::mem::take(&mut self.vm.finished);
        os_processes.extend(self.vm.processes().map(|(asid, process)| (asid, process.counters.clone())));
        let contiguity = reach_os::contiguity(self.vm.frames().buddy(), &self.vm.options().sizes);
        let mut beyond: Vec<_> = self.processor.all_caches().iter().map(|caches| caches.beyond).collect();
        for (now, before) in beyond.iter_mut().flatten().zip(self.beyond.iter().flatten()) {
            *now = now.since(before);
        }
        let mut caches: Vec<(String, CacheCounters)> = Vec::new();
        let mut before = self.before.iter();
        for each in self.processor.all_caches() {
            for (at, (name, counters)) in each.counters().enumerate() {
                let counters = before.next().map_or(counters, |before| counters.since(before));
                match caches.get_mut(at) {
                    Some((_, all)) => all.absorb(&counters),
                    None => caches.push((name.to_owned(), counters)),
                }
            }
        }
        if let Some(sample) = &sample {
            for (at, (_, counters)) in caches.iter_mut().enumerate() {
                *counters = CacheCounters::default();
                sample.intervals.iter().for_each(|interval| counters.absorb(&interval.caches[at]));
            }
            beyond.iter_mut().for_each(|beyond| *beyond = Default::default());
            for interval in &sample.intervals {
                let parts = beyond.iter_mut().flatten().zip(interval.beyond.iter().flatten());
                parts.for_each(|(all, part)| all.absorb(part));
            }
        }
        let controllers = || self.processor.all_caches().iter().filter_map(|caches| caches.controller.as_ref());
        let mut range_hits: Vec<u64> = Vec::new();
        for hw in 0..self.processor.hardware_threads() {
            let hits = self.processor.mmu_of(hw).range_hits_by_entries();
            range_hits.resize(range_hits.len().max(hits.len()), 0);
            range_hits.iter_mut().zip(hits).for_each(|(all, hits)| *all += hits);
        }
        let counts = &total.counts;
        let curve = self.misses([counts.fetches, counts.loads, counts.stores]);
        Outcome {
            curve,
            sample,
            machine: self.machine.clone(),
            system: self.system_name.clone(),
            role: self.role,
            total,
            threads_per_core: self.processor.threads(),
            memory_accesses: beyond,
            hardware_threads,
            out_of_order: self.out_of_order,
            controller: controllers().next().map(|controller| controller.counters),
            caches,
            range_hits,
            processes: self.processes,
            names: self.names,
            os: self.vm.counters.clone(),
            os_processes,
            aux_tlb: self.aux_tlb,
            second_level: self.second_level,
            code_superpages: self.vm.code_superpages(),
            census: self.vm.largest_census(),
            code: self.vm.code_census(),
            sizes: self.vm.options().sizes.clone(),
            contiguity,
        }
    }
}
