//! The schema of machine files. Nothing has a default: a file describes one machine whole, or names the preset on which it is
//! based and is completed from that before it is read. `docs/machines.md` is its prose.
//!
//! A type here is a section of the file: its fields are the keys, each value with its provenance. The simulator's types,
//! without provenance, are those of [`reach_hardware::config`]; `lower.rs` makes them from these.

use super::tag::Tagged;
use super::value::{Delay, PageSize, Size, SizeOrNone, Ways, Word};
use indexmap::IndexMap;
use reach_hardware::config::{Index, Operation, PageEnd, Replacement, Sharing, Writes};
use serde::Deserialize;

/// A machine file. Tables of arrays (`tlb`, `caches`, `walker.hardware.caches`) keep the order of the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineFile {
    /// The preset's name: the file's name without `.toml`.
    pub name: String,
    /// A description of the machine, on one line.
    pub about: String,
    /// The documents that the tags refer to.
    pub sources: Vec<String>,
    /// The processors that the machine describes.
    pub processor: ProcessorSection,
    /// The page table and the page sizes.
    pub page_table: PageTableSection,
    /// TLB arrays by name. Arrays of one level are probed in this order.
    pub tlb: IndexMap<String, TlbSection>,
    /// The page walker, or the software miss handler.
    pub walker: WalkerSection,
    /// Caches by name, nearest first. Where no cache holds instructions, fetches never wait.
    pub caches: IndexMap<String, CacheSection>,
    /// Memory.
    pub memory: MemorySection,
    /// The core.
    pub core: CoreSection,
    /// The costs of the operating system's own work.
    pub os: OsSection,
    /// Nested paging, and whether the program runs in a guest. `None`: the machine has no nested paging.
    pub nested: Option<NestedSection>,
    /// The out-of-order core. `None`: the machine has no model of one, and `--timing ooo` refuses it.
    pub ooo: Option<OooSection>,
}

/// Nested paging: see [`reach_hardware::config::Nested`].
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NestedSection {
    /// The host's page size; `"none"` where the program does not run in a guest.
    pub host_page: Tagged<SizeOrNone>,
    /// Entries of the nested TLB, which holds translations of the guest's page-table pages.
    pub tlb_entries: Tagged<u32>,
    /// Entries of the walk caches for the host's page table, by level from 1 up.
    pub walk_cache_entries: Tagged<Vec<u32>>,
    /// Cycles of a trap to a monitor that shadows page tables, with what it does for an entry. `None`: not told, and no monitor
    /// can be simulated.
    pub trap: Option<Tagged<u32>>,
    /// Milliseconds between two looks of the monitor at which nodes the guest still writes (agile paging).
    pub interval_ms: Option<Tagged<u32>>,
}

/// The processors that the file describes: patterns by which a preset is chosen for this computer, and the number of cores.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProcessorSection {
    /// Processors with this core.
    pub exact: Tagged<Vec<String>>,
    /// Other processors for which this preset is the nearest.
    pub near: Tagged<Vec<String>>,
    /// Cores that share what all cores share. `None`: not told, and any number can be simulated.
    pub cores: Option<Tagged<u32>>,
}

/// The page table and the page sizes.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PageTableSection {
    /// The base page.
    pub base: Tagged<PageSize>,
    /// Index bits of each level, leaf first.
    pub bits: Tagged<Vec<u8>>,
    /// All page sizes, ascending, the base page first.
    pub sizes: Tagged<Vec<PageSize>>,
}

/// A class of references.
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

/// One array of a TLB: see [`reach_hardware::config::Tlb`].
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the fields are those of reach_hardware::config::Tlb")]
pub struct TlbSection {
    pub level: Tagged<u8>,
    pub serves: Tagged<Vec<Class>>,
    pub entries: Tagged<u32>,
    pub ways: Tagged<Ways>,
    pub sizes: Tagged<Vec<PageSize>>,
    pub replacement: Tagged<Word<Replacement>>,
    pub index: Tagged<Word<Index>>,
    pub latency: Tagged<u32>,
    pub probe: Tagged<u32>,
    pub smash: Tagged<bool>,
    pub coalesce: Option<Tagged<SizeOrNone>>,
}

/// The structure that fills the TLB: `[walker.hardware]` or `[walker.software]`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WalkerSection {
    /// A page walker.
    Hardware(HardwareWalkerSection),
    /// A miss handler.
    Software(SoftwareWalkerSection),
}

/// See [`reach_hardware::config::Walker::Hardware`].
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the fields are those of reach_hardware::config::Walker")]
pub struct HardwareWalkerSection {
    pub walkers: Tagged<u32>,
    pub lookup: Tagged<u32>,
    pub cache_level: Tagged<u8>,
    pub caches: IndexMap<String, WalkCacheSection>,
}

/// A walk cache with an array of its own (`entries` and `ways`), or within a TLB array (`within`).
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the fields are those of reach_hardware::config::WalkCache")]
pub struct WalkCacheSection {
    pub levels: Tagged<Vec<u8>>,
    pub entries: Option<Tagged<u32>>,
    pub ways: Option<Tagged<Ways>>,
    pub within: Option<Tagged<String>>,
}

/// See [`reach_hardware::config::Walker::Software`].
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the fields are those of reach_hardware::config::Walker")]
pub struct SoftwareWalkerSection {
    pub cycles: Tagged<u32>,
    pub instructions: Tagged<u32>,
    pub loads: Tagged<u32>,
    pub stores: Tagged<u32>,
}

/// The contents of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Holds {
    /// Fetched lines.
    Instructions,
    /// Loaded and stored lines, page tables included.
    Data,
}

/// One cache: see [`reach_hardware::config::Cache`].
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the fields are those of reach_hardware::config::Cache")]
pub struct CacheSection {
    pub level: Tagged<u8>,
    pub holds: Tagged<Vec<Holds>>,
    pub bytes: Tagged<Size>,
    pub ways: Tagged<Ways>,
    pub line: Tagged<Size>,
    pub latency: Tagged<u32>,
    pub writes: Tagged<Word<Writes>>,
    pub replacement: Tagged<Word<Replacement>>,
    pub shared: Tagged<bool>,
    /// Millions of bytes a second that others bring into it. `None`: nobody else uses it.
    pub others: Option<Tagged<u32>>,
}

/// Memory.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemorySection {
    /// Load-to-use latency.
    pub latency: Tagged<Delay>,
    /// Millions of bytes a second, for all threads together. `None`: unlimited.
    pub bandwidth: Option<Tagged<u32>>,
}

/// The core: see [`reach_hardware::config::Core`].
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CoreSection {
    /// The clock in MHz.
    pub mhz: Tagged<u32>,
    /// Thousandths of a cycle that an instruction takes when nothing misses.
    pub millicycles_per_instruction: Tagged<u32>,
    /// Cycles for each page-table entry that a walk reads where no caches are modelled.
    pub walk_access: Tagged<u32>,
    /// Cycles to invalidate one page.
    pub invalidate: Tagged<u32>,
    /// Address-space identifiers of TLBs and walk caches.
    pub asids: Tagged<u32>,
}

/// The costs of the operating system's own work: see [`super::OsCosts`].
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the fields are those of OsCosts")]
pub struct OsSection {
    pub trap: Tagged<u32>,
    pub fault: Tagged<u32>,
    pub file_fault: Tagged<u32>,
    pub fault_around_page: Tagged<u32>,
    pub zero_per_byte: Tagged<u32>,
    pub copy_per_byte: Tagged<u32>,
    pub pte_write: Tagged<u32>,
    pub shootdown: Tagged<u32>,
    /// `None`: other processors are not interrupted.
    pub interrupt: Option<Tagged<u32>>,
    pub fork: Tagged<u32>,
    pub fork_per_pte: Tagged<u32>,
    pub exit_per_pte: Tagged<u32>,
    /// `None`: freeing is not charged.
    pub free_page: Option<Tagged<u32>>,
    pub table_page: Tagged<u32>,
    pub file_read: Tagged<u32>,
    pub file_read_per_byte: Tagged<u32>,
    pub scan_per_page: Tagged<u32>,
    pub syscall: Tagged<u32>,
    /// `None`: frames are contiguous.
    pub frame_groups: Option<Tagged<u32>>,
    /// `None`: not known.
    pub frame_jumps: Option<Tagged<u32>>,
}

/// The out-of-order core: see [`reach_hardware::config::OooCore`], and [`super::OutOfOrder`] for `threads` and `smt`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the fields are those of the two")]
pub struct OooSection {
    pub rob: Tagged<u32>,
    pub schedulers: IndexMap<String, SchedulerSection>,
    pub registers: RegistersSection,
    pub width: Tagged<u32>,
    pub load_ports: Tagged<u32>,
    pub store_ports: Tagged<u32>,
    pub load_queue: Tagged<u32>,
    pub store_queue: Tagged<u32>,
    pub l1_mshrs: Tagged<u32>,
    /// `None`: not limited.
    pub l1_fill: Option<Tagged<u32>>,
    pub itlb_inclusion: Tagged<bool>,
    pub itlb_replay: Tagged<u32>,
    pub front_end_depth: Tagged<u32>,
    pub fetch_queue: Tagged<u32>,
    pub wrong_path: Tagged<bool>,
    pub latency: LatencySection,
    pub predictor: PredictorSection,
    pub prefetch: PrefetchSection,
    pub threads: Tagged<u32>,
    pub smt: Option<IndexMap<String, Tagged<Word<Sharing>>>>,
}

/// A scheduler: see [`reach_hardware::config::Schedulers`].
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SchedulerSection {
    /// The operations that wait in it.
    pub serves: Tagged<Vec<Word<Operation>>>,
    /// Its entries.
    pub entries: Tagged<u32>,
}

/// See [`reach_hardware::config::RegisterFiles`].
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the fields are those of reach_hardware::config::RegisterFiles")]
pub struct RegistersSection {
    pub integer: Tagged<u32>,
    pub vector: Tagged<u32>,
    pub flags_in_integer: Tagged<bool>,
}

/// See [`reach_hardware::config::Latencies`].
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the fields are those of reach_hardware::config::Latencies")]
pub struct LatencySection {
    pub multiply: Tagged<u32>,
    pub divide: Tagged<u32>,
    pub float: Tagged<u32>,
    pub float_divide: Tagged<u32>,
}

/// See [`reach_hardware::config::Predictor`].
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the fields are those of reach_hardware::config::Predictor")]
pub struct PredictorSection {
    pub entries: Tagged<u32>,
    pub history: Tagged<u32>,
    pub return_stack: Tagged<u32>,
}

/// See [`reach_hardware::config::Prefetch`].
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the fields are those of reach_hardware::config::Prefetch")]
pub struct PrefetchSection {
    pub streams: Tagged<u32>,
    pub distance: Tagged<u32>,
    pub degree: Tagged<u32>,
    pub adjacent_line: Tagged<bool>,
    pub page_end: Tagged<Word<PageEnd>>,
    pub max_in_flight: Tagged<u32>,
}
