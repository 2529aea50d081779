//! The performance events of each processor model: names as in Linux perf (from intel/perfmon and the kernel's pmu-events), and
//! their encodings.

/// The quantity that an event contributes to. The count of a role is the sum of its events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Instructions retired.
    Instructions,
    /// Cycles of the core while not halted.
    Cycles,
    /// Loads and stores.
    Accesses,
    /// Walks started for loads and stores that missed all TLB levels.
    Initiated,
    /// Such walks that completed.
    Completed,
    /// Retired loads and stores that missed all TLB levels.
    Retired,
    /// Cycles of walks for loads and stores.
    WalkCycles,
    /// Page-table entries read by walks for loads and stores.
    WalkAccesses,
    /// Hits of loads and stores in the second TLB level.
    SecondHits,
    /// Walks started for instruction fetches.
    FetchInitiated,
    /// Such walks that completed.
    FetchCompleted,
    /// Cycles of walks for instruction fetches.
    FetchWalkCycles,
    /// Hits of instruction fetches in the second TLB level.
    FetchSecondHits,
    /// Cycles in which instruction fetch waited for a translation.
    FetchStall,
    /// Cycles of walks of the host's page table, for a guest.
    HostCycles,
}

/// An event.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// Name in Linux perf.
    pub name: &'static str,
    /// Value of `perf_event_attr.config`.
    pub config: u64,
    /// The quantity that it contributes to.
    pub role: Role,
}

/// Processors with the same events.
#[derive(Debug)]
pub struct Model {
    /// Name on the command line.
    pub name: &'static str,
    /// Description of the processors.
    pub about: &'static str,
    /// Vendor, family, and first and last model number; on Arm: `arm`, implementer, and first and last part number.
    pub processors: &'static [(&'static str, u32, u32, u32)],
    /// The events to count.
    pub events: &'static [Event],
    /// Metrics that the events cannot give, each with the reason.
    pub missing: &'static [(&'static str, &'static str)],
    /// Remarks on metrics whose meaning differs on these processors.
    pub notes: &'static [&'static str],
}

/// Encodes an Intel event.
const fn intel(name: &'static str, event: u64, umask: u64, role: Role) -> Event {
    Event { name, config: event | umask << 8, role }
}

/// Encodes an AMD event, whose number has twelve bits.
const fn amd(name: &'static str, event: u64, umask: u64, role: Role) -> Event {
    Event { name, config: event & 0xff | umask << 8 | (event >> 8) << 32, role }
}

/// Encodes an Arm event.
const fn arm(name: &'static str, event: u64, role: Role) -> Event {
    Event { name, config: event, role }
}

use Role::*;

const HASWELL: &[Event] = &[
    intel("inst_retired.any_p", 0xc0, 0x00, Instructions),
    intel("cpu_clk_unhalted.thread_p", 0x3c, 0x00, Cycles),
    intel("mem_uops_retired.all_loads", 0xd0, 0x81, Accesses),
    intel("mem_uops_retired.all_stores", 0xd0, 0x82, Accesses),
    intel("dtlb_load_misses.miss_causes_a_walk", 0x08, 0x01, Initiated),
    intel("dtlb_store_misses.miss_causes_a_walk", 0x49, 0x01, Initiated),
    intel("dtlb_load_misses.walk_completed", 0x08, 0x0e, Completed),
    intel("dtlb_store_misses.walk_completed", 0x49, 0x0e, Completed),
    intel("mem_uops_retired.stlb_miss_loads", 0xd0, 0x11, Retired),
    intel("mem_uops_retired.stlb_miss_stores", 0xd0, 0x12, Retired),
    intel("dtlb_load_misses.walk_duration", 0x08, 0x10, WalkCycles),
    intel("dtlb_store_misses.walk_duration", 0x49, 0x10, WalkCycles),
    intel("page_walker_loads.dtlb_l1", 0xbc, 0x11, WalkAccesses),
    intel("page_walker_loads.dtlb_l2", 0xbc, 0x12, WalkAccesses),
    intel("page_walker_loads.dtlb_l3", 0xbc, 0x14, WalkAccesses),
    intel("page_walker_loads.dtlb_memory", 0xbc, 0x18, WalkAccesses),
    intel("dtlb_load_misses.stlb_hit", 0x08, 0x60, SecondHits),
    intel("dtlb_store_misses.stlb_hit", 0x49, 0x60, SecondHits),
    intel("itlb_misses.miss_causes_a_walk", 0x85, 0x01, FetchInitiated),
    intel("itlb_misses.walk_completed", 0x85, 0x0e, FetchCompleted),
    intel("itlb_misses.walk_duration", 0x85, 0x10, FetchWalkCycles),
    intel("itlb_misses.stlb_hit", 0x85, 0x60, FetchSecondHits),
    intel("ept.walk_cycles", 0x4f, 0x10, HostCycles),
];

const SKYLAKE: &[Event] = &[
    intel("inst_retired.any_p", 0xc0, 0x00, Instructions),
    intel("cpu_clk_unhalted.thread_p", 0x3c, 0x00, Cycles),
    intel("mem_inst_retired.all_loads", 0xd0, 0x81, Accesses),
    intel("mem_inst_retired.all_stores", 0xd0, 0x82, Accesses),
    intel("dtlb_load_misses.miss_causes_a_walk", 0x08, 0x01, Initiated),
    intel("dtlb_store_misses.miss_causes_a_walk", 0x49, 0x01, Initiated),
    intel("dtlb_load_misses.walk_completed", 0x08, 0x0e, Completed),
    intel("dtlb_store_misses.walk_completed", 0x49, 0x0e, Completed),
    intel("mem_inst_retired.stlb_miss_loads", 0xd0, 0x11, Retired),
    intel("mem_inst_retired.stlb_miss_stores", 0xd0, 0x12, Retired),
    intel("dtlb_load_misses.walk_pending", 0x08, 0x10, WalkCycles),
    intel("dtlb_store_misses.walk_pending", 0x49, 0x10, WalkCycles),
    intel("dtlb_load_misses.stlb_hit", 0x08, 0x20, SecondHits),
    intel("dtlb_store_misses.stlb_hit", 0x49, 0x20, SecondHits),
    intel("itlb_misses.miss_causes_a_walk", 0x85, 0x01, FetchInitiated),
    intel("itlb_misses.walk_completed", 0x85, 0x0e, FetchCompleted),
    intel("itlb_misses.walk_pending", 0x85, 0x10, FetchWalkCycles),
    intel("itlb_misses.stlb_hit", 0x85, 0x20, FetchSecondHits),
    intel("icache_64b.iftag_stall", 0x83, 0x04, FetchStall),
    intel("ept.walk_pending", 0x4f, 0x10, HostCycles),
];

const ICE_LAKE: &[Event] = &[
    intel("inst_retired.any_p", 0xc0, 0x00, Instructions),
    intel("cpu_clk_unhalted.thread_p", 0x3c, 0x00, Cycles),
    intel("mem_inst_retired.all_loads", 0xd0, 0x81, Accesses),
    intel("mem_inst_retired.all_stores", 0xd0, 0x82, Accesses),
    intel("dtlb_load_misses.walk_completed", 0x08, 0x0e, Completed),
    intel("dtlb_store_misses.walk_completed", 0x49, 0x0e, Completed),
    intel("mem_inst_retired.stlb_miss_loads", 0xd0, 0x11, Retired),
    intel("mem_inst_retired.stlb_miss_stores", 0xd0, 0x12, Retired),
    intel("dtlb_load_misses.walk_pending", 0x08, 0x10, WalkCycles),
    intel("dtlb_store_misses.walk_pending", 0x49, 0x10, WalkCycles),
    intel("dtlb_load_misses.stlb_hit", 0x08, 0x20, SecondHits),
    intel("dtlb_store_misses.stlb_hit", 0x49, 0x20, SecondHits),
    intel("itlb_misses.walk_completed", 0x85, 0x0e, FetchCompleted),
    intel("itlb_misses.walk_pending", 0x85, 0x10, FetchWalkCycles),
    intel("itlb_misses.stlb_hit", 0x85, 0x20, FetchSecondHits),
    intel("icache_64b.iftag_stall", 0x83, 0x04, FetchStall),
];

const GOLDEN_COVE: &[Event] = &[
    intel("inst_retired.any_p", 0xc0, 0x00, Instructions),
    intel("cpu_clk_unhalted.thread_p", 0x3c, 0x00, Cycles),
    intel("mem_inst_retired.all_loads", 0xd0, 0x81, Accesses),
    intel("mem_inst_retired.all_stores", 0xd0, 0x82, Accesses),
    intel("dtlb_load_misses.walk_completed", 0x12, 0x0e, Completed),
    intel("dtlb_store_misses.walk_completed", 0x13, 0x0e, Completed),
    intel("mem_inst_retired.stlb_miss_loads", 0xd0, 0x11, Retired),
    intel("mem_inst_retired.stlb_miss_stores", 0xd0, 0x12, Retired),
    intel("dtlb_load_misses.walk_pending", 0x12, 0x10, WalkCycles),
    intel("dtlb_store_misses.walk_pending", 0x13, 0x10, WalkCycles),
    intel("dtlb_load_misses.stlb_hit", 0x12, 0x20, SecondHits),
    intel("dtlb_store_misses.stlb_hit", 0x13, 0x20, SecondHits),
    intel("itlb_misses.walk_completed", 0x11, 0x0e, FetchCompleted),
    intel("itlb_misses.walk_pending", 0x11, 0x10, FetchWalkCycles),
    intel("itlb_misses.stlb_hit", 0x11, 0x20, FetchSecondHits),
    intel("icache_tag.stalls", 0x83, 0x04, FetchStall),
];

macro_rules! zen {
    ($($more:expr,)*) => {
        &[
            amd("ex_ret_instr", 0xc0, 0x00, Instructions),
            amd("ls_not_halted_cyc", 0x76, 0x00, Cycles),
            amd("ls_dispatch.ld_dispatch", 0x29, 0x01, Accesses),
            amd("ls_dispatch.store_dispatch", 0x29, 0x02, Accesses),
            amd("ls_dispatch.ld_st_dispatch", 0x29, 0x04, Accesses),
            $($more,)*
        ]
    };
}

/// Events of Zen to Zen 3, which differ in one page size and in the names of instruction events only.
macro_rules! zen_1_to_3 {
    ($($event:expr),* $(,)?) => {
        zen![
            $($event,)*
            amd("ls_l1_d_tlb_miss.tlb_reload_4k_l2_miss", 0x45, 0x10, Initiated),
            amd("ls_l1_d_tlb_miss.tlb_reload_2m_l2_miss", 0x45, 0x40, Initiated),
            amd("ls_l1_d_tlb_miss.tlb_reload_1g_l2_miss", 0x45, 0x80, Initiated),
            amd("ls_l1_d_tlb_miss.tlb_reload_4k_l2_hit", 0x45, 0x01, SecondHits),
            amd("ls_l1_d_tlb_miss.tlb_reload_2m_l2_hit", 0x45, 0x04, SecondHits),
            amd("ls_l1_d_tlb_miss.tlb_reload_1g_l2_hit", 0x45, 0x08, SecondHits),
            amd("ls_tablewalker.dside", 0x46, 0x03, Completed),
            amd("ls_tablewalker.iside", 0x46, 0x0c, FetchCompleted),
        ]
    };
}

const ZEN_1: &[Event] = zen_1_to_3![
    amd("ls_l1_d_tlb_miss.tlb_reload_32k_l2_miss", 0x45, 0x20, Initiated),
    amd("ls_l1_d_tlb_miss.tlb_reload_32k_l2_hit", 0x45, 0x02, SecondHits),
    amd("bp_l1_tlb_miss_l2_hit", 0x84, 0x00, FetchSecondHits),
    amd("bp_l1_tlb_miss_l2_miss", 0x85, 0x00, FetchInitiated),
];

const ZEN_2: &[Event] = zen_1_to_3![
    amd("ls_l1_d_tlb_miss.tlb_reload_coalesced_page_miss", 0x45, 0x20, Initiated),
    amd("ls_l1_d_tlb_miss.tlb_reload_coalesced_page_hit", 0x45, 0x02, SecondHits),
    amd("bp_l1_tlb_miss_l2_hit", 0x84, 0x00, FetchSecondHits),
    amd("bp_l1_tlb_miss_l2_tlb_miss", 0x85, 0x07, FetchInitiated),
];

const ZEN_3: &[Event] = zen_1_to_3![
    amd("ls_l1_d_tlb_miss.tlb_reload_coalesced_page_miss", 0x45, 0x20, Initiated),
    amd("ls_l1_d_tlb_miss.tlb_reload_coalesced_page_hit", 0x45, 0x02, SecondHits),
    amd("bp_l1_tlb_miss_l2_tlb_hit", 0x84, 0x00, FetchSecondHits),
    amd("bp_l1_tlb_miss_l2_tlb_miss", 0x85, 0x0f, FetchInitiated),
];

const ZEN_4: &[Event] = zen![
    amd("ls_l1_d_tlb_miss.all_l2_miss", 0x45, 0xf0, Initiated),
    amd("ls_l1_d_tlb_miss.tlb_reload_4k_l2_hit", 0x45, 0x01, SecondHits),
    amd("ls_l1_d_tlb_miss.tlb_reload_coalesced_page_hit", 0x45, 0x02, SecondHits),
    amd("ls_l1_d_tlb_miss.tlb_reload_2m_l2_hit", 0x45, 0x04, SecondHits),
    amd("ls_l1_d_tlb_miss.tlb_reload_1g_l2_hit", 0x45, 0x08, SecondHits),
    amd("bp_l1_tlb_miss_l2_tlb_hit", 0x84, 0x00, FetchSecondHits),
    amd("bp_l1_tlb_miss_l2_tlb_miss.all", 0x85, 0x0f, FetchInitiated),
];

const NEOVERSE: &[Event] = &[
    arm("inst_retired", 0x08, Instructions),
    arm("cpu_cycles", 0x11, Cycles),
    arm("mem_access", 0x13, Accesses),
    arm("dtlb_walk", 0x34, Initiated),
    arm("itlb_walk", 0x35, FetchInitiated),
];

const WALK_CYCLES: &str = "wcpi, wcpi_data and walk_cycles";
const RETIRED: &str = "walks.retired and walks.wrong_path";
const ABORTED: &str = "walks.aborted";
const READS: &str = "walk_accesses.data";

const NO_READS: (&str, &str) =
    (READS, "this processor does not count page-table reads; the last two factors are combined into one");
const NO_INITIATED: (&str, &str) =
    ("walks.initiated and walks.aborted", "this processor counts completed walks, not started ones");
const AMD_CYCLES: (&str, &str) =
    (WALK_CYCLES, "AMD has no event for walk cycles; IBS samples (ibs_op) show how long single refills take");
const AMD_RETIRED: (&str, &str) = (RETIRED, "AMD counts misses of all loads and stores, retired or not");
const AMD_READS: (&str, &str) = (READS, "this processor does not count page-table reads");
const DISPATCHED: &str = "accesses are dispatched loads and stores, including those on wrong paths";
const NEGATIVE: &str = "walks.wrong_path may be negative: if two loads wait for one walk, both count as retired";
const PENDING: &str = "walk cycles are counted for each walker: two concurrent walks count two in each cycle";
const EXCLUDES_HOST: &str = "in a guest, walk_pending excludes walks of the host's page table (ept.walk_pending)";

/// All models, in the order in which [`Model::of`] tries them.
pub const MODELS: &[Model] = &[
    Model {
        name: "haswell",
        about: "Intel Haswell and Broadwell",
        processors: &[
            ("GenuineIntel", 6, 0x3c, 0x3d),
            ("GenuineIntel", 6, 0x3f, 0x3f),
            ("GenuineIntel", 6, 0x45, 0x47),
            ("GenuineIntel", 6, 0x4f, 0x4f),
            ("GenuineIntel", 6, 0x56, 0x56),
        ],
        events: HASWELL,
        missing: &[],
        notes: &[NEGATIVE, "page_walker_loads of the last-level cache and memory may be wrong (erratum HSD25)"],
    },
    Model {
        name: "skylake",
        about: "Intel Skylake, Cascade Lake, Kaby, Coffee and Comet Lake",
        processors: &[
            ("GenuineIntel", 6, 0x4e, 0x4e),
            ("GenuineIntel", 6, 0x55, 0x55),
            ("GenuineIntel", 6, 0x5e, 0x5e),
            ("GenuineIntel", 6, 0x8e, 0x8e),
            ("GenuineIntel", 6, 0x9e, 0x9e),
            ("GenuineIntel", 6, 0xa5, 0xa6),
        ],
        events: SKYLAKE,
        missing: &[NO_READS],
        notes: &[NEGATIVE, PENDING, EXCLUDES_HOST],
    },
    Model {
        name: "ice-lake",
        about: "Intel Ice Lake, Tiger and Rocket Lake",
        processors: &[
            ("GenuineIntel", 6, 0x6a, 0x6a),
            ("GenuineIntel", 6, 0x6c, 0x6c),
            ("GenuineIntel", 6, 0x7d, 0x7e),
            ("GenuineIntel", 6, 0x8c, 0x8d),
            ("GenuineIntel", 6, 0xa7, 0xa7),
        ],
        events: ICE_LAKE,
        missing: &[NO_INITIATED, NO_READS],
        notes: &["misses are completed walks: aborted walks are not among them", NEGATIVE, PENDING],
    },
    Model {
        name: "golden-cove",
        about: "Intel Golden Cove and later: Sapphire, Emerald and Granite Rapids, Alder and Raptor Lake",
        processors: &[
            ("GenuineIntel", 6, 0x8f, 0x8f),
            ("GenuineIntel", 6, 0xcf, 0xcf),
            ("GenuineIntel", 6, 0xad, 0xae),
            ("GenuineIntel", 6, 0x97, 0x97),
            ("GenuineIntel", 6, 0x9a, 0x9a),
            ("GenuineIntel", 6, 0xb7, 0xb7),
            ("GenuineIntel", 6, 0xba, 0xba),
            ("GenuineIntel", 6, 0xbf, 0xbf),
        ],
        events: GOLDEN_COVE,
        missing: &[NO_INITIATED, NO_READS],
        notes: &["misses are completed walks: aborted walks are not among them", NEGATIVE, PENDING],
    },
    Model {
        name: "zen-1",
        about: "AMD Zen and Zen+",
        processors: &[("AuthenticAMD", 23, 0x00, 0x2f), ("HygonGenuine", 24, 0x00, 0xff)],
        events: ZEN_1,
        missing: &[AMD_CYCLES, AMD_RETIRED, AMD_READS],
        notes: &[DISPATCHED],
    },
    Model {
        name: "zen-2",
        about: "AMD Zen 2",
        processors: &[("AuthenticAMD", 23, 0x30, 0xff)],
        events: ZEN_2,
        missing: &[AMD_CYCLES, AMD_RETIRED, AMD_READS],
        notes: &[DISPATCHED],
    },
    Model {
        name: "zen-3",
        about: "AMD Zen 3",
        processors: &[("AuthenticAMD", 25, 0x00, 0x0f), ("AuthenticAMD", 25, 0x20, 0x5f)],
        events: ZEN_3,
        missing: &[AMD_CYCLES, AMD_RETIRED, AMD_READS],
        notes: &[DISPATCHED],
    },
    Model {
        name: "zen-4",
        about: "AMD Zen 4 and Zen 5",
        processors: &[
            ("AuthenticAMD", 25, 0x10, 0x1f),
            ("AuthenticAMD", 25, 0x60, 0xaf),
            ("AuthenticAMD", 26, 0x00, 0xff),
        ],
        events: ZEN_4,
        missing: &[
            AMD_CYCLES,
            AMD_RETIRED,
            AMD_READS,
            ("walks.completed and walks.aborted", "Zen 4 and later have no events of the table walker"),
        ],
        notes: &[DISPATCHED],
    },
    Model {
        name: "neoverse",
        about: "Arm Neoverse N1, V1, N2 and V2",
        processors: &[
            ("arm", 0x41, 0xd0c, 0xd0c),
            ("arm", 0x41, 0xd40, 0xd40),
            ("arm", 0x41, 0xd49, 0xd49),
            ("arm", 0x41, 0xd4f, 0xd4f),
        ],
        events: NEOVERSE,
        missing: &[
            (WALK_CYCLES, "these cores do not count walk cycles; later ones have dtlb_walk_percyc"),
            (RETIRED, "only statistical profiling (SPE) shows which misses retire"),
            (ABORTED, "these cores have one event for walks, not one for each outcome"),
            (READS, "these cores do not count page-table reads"),
        ],
        notes: &["dtlb_walk includes walks on wrong paths"],
    },
];

/// Finds a model by name.
pub fn named(name: &str) -> Option<&'static Model> {
    MODELS.iter().find(|model| model.name == name)
}

impl Model {
    /// Finds the model of the first processor in the text of `/proc/cpuinfo`. `None` if it is unknown.
    pub fn of(cpuinfo: &str) -> Option<&'static Model> {
        let field = |name: &str| {
            let lines = cpuinfo.lines().filter_map(|line| line.split_once(':'));
            lines.map(|(key, value)| (key.trim(), value.trim())).find(|(key, _)| *key == name).map(|(_, value)| value)
        };
        let hex = |name| u32::from_str_radix(field(name)?.trim_start_matches("0x"), 16).ok();
        let (vendor, family, model) = match field("vendor_id") {
            Some(vendor) => (vendor, field("cpu family")?.parse().ok()?, field("model")?.parse().ok()?),
            None => ("arm", hex("CPU implementer")?, hex("CPU part")?),
        };
        let is = |known: &&Model| {
            let mut known = known.processors.iter();
            known.any(|&(v, f, first, last)| v == vendor && f == family && (first..=last).contains(&model))
        };
        MODELS.iter().find(is)
    }
}
