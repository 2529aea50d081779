//! The results of a simulation.

use super::alignment::AlignedSuperpages;
use super::over_time::MemoryPoint;
use super::sample::Sample;
use super::stops::Stops;
use super::tally::{HardwareThread, Tally};
use crate::attribution::Attribution;
use crate::curve::Misses;
use crate::findings::Finding;
use reach_core::{Asid, AuxTlbOptions};
use reach_hardware::{Access, BackSideCounters, CacheCounters, ControllerCounters, MemoryAccesses};
use reach_systems::Role;
use std::collections::BTreeMap;

/// The results of a finished simulation.
///
/// In a sampled program, counts of hardware and cycles are estimates for the whole program.
pub struct Outcome {
    /// The machine, as the user named it.
    pub machine: String,
    /// The system, as the user named it.
    pub system: String,
    /// The system's part in a comparison.
    pub role: Role,
    /// All processes together.
    pub total: Tally,
    /// Each process.
    pub processes: BTreeMap<Asid, Tally>,
    /// The file that each process last executed, if that is known.
    pub names: BTreeMap<Asid, String>,
    /// The operating system's counts, all processes together.
    pub os: reach_os::Counters,
    /// How long page faults stopped the program.
    pub stops: Stops,
    /// Memory over time. Empty on several hardware threads, and for programs of less than a million instructions.
    pub over_time: Vec<MemoryPoint>,
    /// The operating system's counts of each process.
    pub os_processes: BTreeMap<Asid, reach_os::Counters>,
    /// The work of each hardware thread, those of the first core first.
    pub hardware_threads: Vec<HardwareThread>,
    /// Hardware threads per core.
    pub threads_per_core: usize,
    /// Accesses of each core that no cache answered, by kind. Empty without caches.
    pub memory_accesses: Vec<[MemoryAccesses; Access::KINDS]>,
    /// Whether the kernel's own code was simulated.
    pub kernel_code: bool,
    /// Whether the core executed out of order.
    pub out_of_order: bool,
    /// Each data and instruction cache by name, the same cache of all cores together. Empty without caches.
    pub caches: Vec<(String, CacheCounters)>,
    /// The memory controller, if it translates addresses.
    pub controller: Option<ControllerCounters>,
    /// The translator behind the last cache, if the system has one.
    pub back_side: Option<BackSideCounters>,
    /// The auxiliary TLB, if the system has one.
    pub aux_tlb: Option<AuxTlbOptions>,
    /// Whether the system has a walk assist.
    pub assisted: bool,
    /// What the host's operating system has counted, if it has one.
    pub host: Option<reach_os::Counters>,
    /// What it has counted for each guest, where there are several.
    pub host_by_guest: Vec<reach_os::Counters>,
    /// Superpages of guests and of that host.
    pub aligned_superpages: Option<AlignedSuperpages>,
    /// Whether fetches, and loads and stores, have a second level of TLB arrays.
    pub second_level: [bool; 2],
    /// How many searches range TLBs of 1, 2, … entries would have answered. Empty unless the system counts them.
    pub range_hits: Vec<u64>,
    /// Code superpages of each file, by path. Empty unless the system makes them by a rule of its own.
    pub code_superpages: Vec<(String, u64)>,
    /// The miss curve, if one was requested.
    pub curve: Option<Misses>,
    /// The measured intervals, if the program was sampled.
    pub sample: Option<Sample>,
    /// The contiguity of the process that had most mapped at its end.
    pub census: Option<reach_os::Census>,
    /// The code that was mapped, if the system has a rule of its own for code.
    pub code: Option<reach_os::CodeCensus>,
    /// The cost of translation by owner, if it was requested.
    pub attribution: Option<Attribution>,
    /// Page sizes of the machine, base pages first.
    pub sizes: Vec<reach_core::PageShift>,
    /// Contiguity of free memory at the end (Navarro §6.5), 0 to 1.
    pub contiguity: f64,
    /// What readers of these results must know about this simulation.
    pub findings: Vec<Finding>,
}
