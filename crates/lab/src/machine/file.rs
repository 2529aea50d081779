//! The schema of machine files. Each file describes one machine whole; nothing is inherited and nothing has a default.
//! `docs/machines.md` is its prose.

use super::tag::Tagged;
use super::value::{Delay, HostPage, PageSize, Size, Ways};
use indexmap::IndexMap;
use serde::Deserialize;

/// A machine file. Tables of arrays (`tlb`, `caches`, `walker.hardware.caches`) keep the order of the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineFile {
    /// The preset's name; that of the file without `.toml`.
    pub name: String,
    /// What it is, on one line.
    pub about: String,
    /// Which documents the tags refer to.
    pub sources: Vec<String>,
    /// Which processors it stands for.
    pub processor: Processor,
    /// The page table and the page sizes.
    pub page_table: PageTable,
    /// TLB arrays by name, in the order in which equals are probed.
    pub tlb: IndexMap<String, Tlb>,
    /// Who fills the TLB.
    pub walker: Walker,
    /// Caches by name, nearest first. No cache that serves fetches: fetches never wait.
    pub caches: IndexMap<String, Cache>,
    /// Memory.
    pub memory: Memory,
    /// The core.
    pub core: Core,
    /// What the operating system's own work costs.
    pub os: Os,
    /// What guests have beside the walker, and whether the program runs in one; for machines with nested paging.
    pub nested: Option<Nested>,
    /// The out-of-order window, for machines that have one.
    pub ooo: Option<OooCore>,
}

/// Nested paging: see [`reach_hardware::config::Nested`].
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nested {
    /// The host's pages; `"none"` where the program does not run in a guest.
    pub host_page: Tagged<HostPage>,
    /// Entries of the nested TLB.
    pub tlb_entries: Tagged<u32>,
    /// Entries kept of each level of the host's page table from 1 up.
    pub walk_cache_entries: Tagged<Vec<u32>>,
}

/// Which processors a preset stands for, as patterns that the choice of a machine for this computer goes by.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Processor {
    /// Processors with this very core.
    pub exact: Tagged<Vec<String>>,
    /// Other processors to which no preset is nearer.
    pub near: Tagged<Vec<String>>,
}

/// The page table and the page sizes.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PageTable {
    /// The base page.
    pub base: Tagged<PageSize>,
    /// Index bits of each level, leaf first.
    pub bits: Tagged<Vec<u8>>,
    /// All page sizes, ascending, the base page first.
    pub sizes: Tagged<Vec<PageSize>>,
}

/// One class of references.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// Instruction fetches.
    Fetch,
    /// Loads.
    Load,
    /// Stores.
    Store,
}

/// How a victim is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Replacement {
    /// Least recently used.
    Lru,
    /// Binary tree.
    TreePlru,
    /// One reference bit a way.
    Nru,
    /// Any.
    Random,
}

/// One array of a TLB: see [`reach_hardware::config::Tlb`].
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the fields are those of reach_hardware::config::Tlb")]
pub struct Tlb {
    pub level: Tagged<u8>,
    pub serves: Tagged<Vec<Class>>,
    pub entries: Tagged<u32>,
    pub ways: Tagged<Ways>,
    pub sizes: Tagged<Vec<PageSize>>,
    pub replacement: Tagged<Replacement>,
    pub latency: Tagged<u32>,
    pub probe: Tagged<u32>,
    pub smash: Tagged<bool>,
}

/// Who fills the TLB: `[walker.hardware]` or `[walker.software]`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Walker {
    /// A state machine.
    Hardware(HardwareWalker),
    /// A handler.
    Software(SoftwareWalker),
}

/// See [`reach_hardware::config::Walker::Hardware`].
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the fields are those of reach_hardware::config::Walker")]
pub struct HardwareWalker {
    pub walkers: Tagged<u32>,
    pub lookup: Tagged<u32>,
    pub caches: IndexMap<String, WalkCache>,
}

/// A walk cache with an array of its own (`entries` and `ways`) or one that lives in a TLB array (`within`).
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the fields are those of reach_hardware::config::WalkCache")]
pub struct WalkCache {
    pub levels: Tagged<Vec<u8>>,
    pub entries: Option<Tagged<u32>>,
    pub ways: Option<Tagged<Ways>>,
    pub within: Option<Tagged<String>>,
}

/// See [`reach_hardware::config::Walker::Software`].
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the fields are those of reach_hardware::config::Walker")]
pub struct SoftwareWalker {
    pub cycles: Tagged<u32>,
    pub instructions: Tagged<u32>,
    pub loads: Tagged<u32>,
    pub stores: Tagged<u32>,
}

/// What a cache holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Holds {
    /// What is fetched.
    Instructions,
    /// What is loaded and stored, page tables included.
    Data,
}

/// What a cache does with stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Writes {
    /// Write-back, allocating.
    Back,
    /// Write-back, not allocating.
    Around,
    /// Write-through, not allocating.
    Through,
}

/// One cache: see [`reach_hardware::config::Cache`].
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the fields are those of reach_hardware::config::Cache")]
pub struct Cache {
    pub level: Tagged<u8>,
    pub holds: Tagged<Vec<Holds>>,
    pub bytes: Tagged<Size>,
    pub ways: Tagged<Ways>,
    pub line: Tagged<Size>,
    pub latency: Tagged<u32>,
    pub writes: Tagged<Writes>,
    pub replacement: Tagged<Replacement>,
    pub shared: Tagged<bool>,
}

/// Memory.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    /// From the load to the use of its value.
    pub latency: Tagged<Delay>,
    /// Millions of bytes a second, for all threads together; where it is not written, as many as they ask for.
    pub bandwidth: Option<Tagged<u32>>,
}

/// The core: see [`reach_hardware::config::Core`].
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Core {
    /// Clock in MHz.
    pub mhz: Tagged<u32>,
    /// Thousandths of a cycle that an instruction takes when nothing misses.
    pub millicycles_per_instruction: Tagged<u32>,
    /// Cycles of a page-table entry fetched by a walk where no caches are modelled.
    pub walk_access: Tagged<u32>,
    /// Cycles to invalidate one page.
    pub invalidate: Tagged<u32>,
    /// Address spaces that TLBs tell apart.
    pub asids: Tagged<u32>,
}

/// What the operating system's own work costs: see [`super::OsCosts`].
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the fields are those of OsCosts")]
pub struct Os {
    pub trap: Tagged<u32>,
    pub fault: Tagged<u32>,
    pub file_fault: Tagged<u32>,
    pub fault_around_page: Tagged<u32>,
    pub zero_per_byte: Tagged<u32>,
    pub copy_per_byte: Tagged<u32>,
    pub pte_write: Tagged<u32>,
    pub shootdown: Tagged<u32>,
    pub fork: Tagged<u32>,
    pub fork_per_pte: Tagged<u32>,
    pub exit_per_pte: Tagged<u32>,
    pub table_page: Tagged<u32>,
    pub file_read: Tagged<u32>,
    pub file_read_per_byte: Tagged<u32>,
    pub scan_per_page: Tagged<u32>,
    pub syscall: Tagged<u32>,
}

/// How the hardware threads of a core divide an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sharing {
    /// All compete for all entries.
    Shared,
    /// Each has its part of the entries.
    Partitioned,
    /// Each has an array of the given size to itself.
    Replicated,
}

/// The out-of-order window: see [`reach_hardware::config::OooCore`], and [`super::Window`] for what threads divide.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the fields are those of the two")]
pub struct OooCore {
    pub rob: Tagged<u32>,
    pub width: Tagged<u32>,
    pub load_ports: Tagged<u32>,
    pub store_ports: Tagged<u32>,
    pub load_queue: Tagged<u32>,
    pub store_queue: Tagged<u32>,
    pub l1_mshrs: Tagged<u32>,
    pub itlb_walkers: Tagged<u32>,
    pub itlb_inclusion: Tagged<bool>,
    pub itlb_replay: Tagged<u32>,
    pub front_end_depth: Tagged<u32>,
    pub fetch_queue: Tagged<u32>,
    pub wrong_path: Tagged<bool>,
    pub latency: Latency,
    pub predictor: Predictor,
    pub prefetch: Prefetch,
    pub threads: Tagged<u32>,
    pub smt: Option<IndexMap<String, Tagged<Sharing>>>,
}

/// See [`reach_hardware::config::Latencies`].
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the fields are those of reach_hardware::config::Latencies")]
pub struct Latency {
    pub multiply: Tagged<u32>,
    pub divide: Tagged<u32>,
    pub float: Tagged<u32>,
    pub float_divide: Tagged<u32>,
}

/// See [`reach_hardware::config::Predictor`].
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the fields are those of reach_hardware::config::Predictor")]
pub struct Predictor {
    pub entries: Tagged<u32>,
    pub history: Tagged<u32>,
    pub return_stack: Tagged<u32>,
}

/// See [`reach_hardware::config::Prefetch`].
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the fields are those of reach_hardware::config::Prefetch")]
pub struct Prefetch {
    pub streams: Tagged<u32>,
    pub distance: Tagged<u32>,
    pub degree: Tagged<u32>,
    pub adjacent_line: Tagged<bool>,
    pub next_page: Tagged<bool>,
    pub max_in_flight: Tagged<u32>,
}
