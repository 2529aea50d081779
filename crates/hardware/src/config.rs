//! Descriptions of machines, as plain numbers.
//!
//! `lab` reads machine files, which give the provenance of every number, checks them and converts them to this form. Use
//! these types with their module name: `config::Cache` describes a cache, `config::OooCore` an [`crate::ooo::OooCore`].

use reach_core::{Layout, PageShift, PageTableKind, ReuseSignature};
use std::fmt;

mod ooo;

pub use ooo::{Latencies, OooCore, Operation, PageEnd, Predictor, Prefetch, RegisterFiles, Schedulers};

/// The kinds of reference that a TLB array serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Serves {
    /// Instruction fetches.
    pub fetch: bool,
    /// Loads.
    pub load: bool,
    /// Stores.
    pub store: bool,
}

/// The replacement policy of a set. A free way, if there is one, is always filled first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Replacement {
    /// The least recently used.
    Lru,
    /// Tree pseudo-LRU: a binary tree of bits over the ways. The number of ways is a power of two, at most 64.
    TreePlru,
    /// Not recently used: one reference bit for each way. A use sets it, and clears all others if no bit is left clear. The
    /// victim is the first way whose bit is clear.
    Nru,
    /// A random way, from a seeded generator.
    Random,
    /// Three trees of tree-PLRU, each over a third of the ways. The victim is in the tree after that of the last use, the
    /// first tree being after the third (Tatar et al., USENIX Security 2022: Skylake's second-level TLB). The number of ways
    /// is three times a power of two, at most 48.
    RotatingPlru,
    /// Ages from 0 to 3. A hit sets a way's age to 0, a fill to 1. The victim is the first way of age 3; if no way is left
    /// with that age, all but the one just used age alike until one has it. A free way has age 3 (`QLRU_H00_M1_R0_U1` of Abel
    /// and Reineke, ISPASS 2020: the second-level cache of Ice Lake). The number of ways is at most 32.
    QuadAgeLru,
    /// iTP (Chasapis et al., ASPLOS 2025): entries that fetches insert come in below the top of a stack and rise to it once used
    /// often; others come in at the bottom and rise by a few ways at a use. The victim is at the bottom.
    InstructionAware,
    /// CHiRP (Mirbagher-Ajorpaz et al., MICRO 2020): the least recently used of the entries that the control flow before their fill
    /// or first reuse predicts dead; the least recently used if there is none. `array/reuse_predicted.rs` states the rules.
    ReusePrediction(ReuseSignature),
    /// xPTP (Chasapis et al.): the least recently used, but a line with page-table entries of data only if the eight least recently used all
    /// have such entries.
    PageTableAware,
}

impl Replacement {
    /// Returns whether the policy supports sets of `ways` ways.
    pub fn takes(self, ways: u32) -> bool {
        match self {
            Replacement::TreePlru => ways.is_power_of_two() && ways <= 64,
            Replacement::RotatingPlru => ways.is_multiple_of(3) && (ways / 3).is_power_of_two() && ways <= 48,
            Replacement::QuadAgeLru => ways <= 32,
            Replacement::Lru
            | Replacement::Nru
            | Replacement::Random
            | Replacement::InstructionAware
            | Replacement::ReusePrediction(_)
            | Replacement::PageTableAware => true,
        }
    }

    /// Returns whether another use of the entry that its set has used last changes nothing, so that runs of uses may be folded.
    pub fn repeats_change_nothing(self) -> bool {
        !matches!(self, Replacement::QuadAgeLru | Replacement::InstructionAware | Replacement::ReusePrediction(_))
    }

    /// Returns, for error messages, which numbers of ways [`Replacement::takes`] accepts.
    pub fn expected_ways(self) -> &'static str {
        match self {
            Replacement::TreePlru => "a power of two, at most 64",
            Replacement::RotatingPlru => "three times a power of two, at most 48",
            Replacement::QuadAgeLru => "at most 32",
            Replacement::Lru
            | Replacement::Nru
            | Replacement::Random
            | Replacement::InstructionAware
            | Replacement::ReusePrediction(_)
            | Replacement::PageTableAware => "any number",
        }
    }
}

impl fmt::Display for Replacement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Replacement::Lru => "LRU",
            Replacement::TreePlru => "tree-PLRU",
            Replacement::Nru => "NRU",
            Replacement::Random => "random replacement",
            Replacement::RotatingPlru => "rotating tree-PLRU",
            Replacement::QuadAgeLru => "quad-age LRU",
            Replacement::InstructionAware => "iTP",
            Replacement::ReusePrediction(_) => "CHiRP",
            Replacement::PageTableAware => "xPTP",
        })
    }
}

/// The function from page numbers, in units of the page's own size, to the sets of a TLB array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Index {
    /// The low bits of the page number.
    Low,
    /// The low bits, each xor the bit as many places above it as there are index bits. Only beyond the first level.
    Xor,
}

impl Index {
    /// Returns by how many bits a page number is shifted before it is xored with itself to choose among `sets`, a power of
    /// two. The shift for [`Index::Low`] leaves nothing of a number.
    pub fn fold(self, sets: usize) -> u32 {
        match self {
            Index::Low => 63,
            Index::Xor => sets.trailing_zeros(),
        }
    }
}

/// The division of a TLB array among the hardware threads of a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sharing {
    /// All threads compete for all entries.
    Shared,
    /// Each thread has an equal part of the entries: of the sets, if there are enough of them.
    Partitioned,
    /// Each thread has an array of the full size.
    Replicated,
}

/// One array of a TLB.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tlb {
    /// Its name, unique in the machine: `l1d_4k`, `l2`.
    pub name: String,
    /// 0 or 1 for a first-level array; 2 and above for levels that are probed after a miss there. Level 0 is a micro-TLB in
    /// front of level 1; a hit in either is a first-level hit.
    pub level: u8,
    /// The kinds of reference that it serves.
    pub serves: Serves,
    /// Number of translations.
    pub entries: u32,
    /// Ways; `entries` when fully associative. `entries / ways` is a power of two.
    pub ways: u32,
    /// The page sizes that it may hold, ascending. With several, a set-associative array is probed once for each size that it
    /// has held since the start, smallest first, with the set index of that size. A fully associative array is probed once.
    pub sizes: Vec<PageShift>,
    /// The replacement policy.
    pub replacement: Replacement,
    /// The choice of the set.
    pub index: Index,
    /// Cycles that a hit here adds to those of a first-level hit; 0 for the first level. A reference that misses in the last
    /// level has waited as long before its walk begins.
    pub latency: u32,
    /// Cycles of every probe of this array that is not the first probe of its level. First-level arrays are probed in
    /// parallel, at no cost.
    pub probe: u32,
    /// Whether a page larger than every size here is entered as a piece of the largest size here ("1 GB pages are smashed to
    /// 2 MB"), rather than not at all. First-level arrays always smash if no array of their level takes the page. If several
    /// arrays of a level take a size, the bits of the page number above the set index choose one, so that they act as one
    /// larger array.
    pub smash: bool,
    /// The span of coalesced entries, no page size of the machine and the same for all arrays that coalesce; `None` if this
    /// array has an entry for each page. A walk that finds a base page has read its neighbours' entries in the same line. If
    /// all base pages of the aligned span are in neighbouring frames, aligned alike, and their entries have equal bits
    /// otherwise, accessed, and dirty if they are writable, the array gets one entry for all, in place of those that its level
    /// has for some. Other arrays get the page. In a guest, the host's page must be as large as the span.
    pub coalesce: Option<PageShift>,
}

/// A walk cache: a cache of page-table entries that point to lower tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WalkCache {
    /// Its name, unique in the machine: `pde`.
    pub name: String,
    /// The page-table levels whose entries it holds, ascending; at least 1, since 0 is the leaf level.
    pub levels: Vec<u8>,
    /// Number of entries; 0 if `within` names a TLB array that lends its entries.
    pub entries: u32,
    /// Ways; `entries` when fully associative.
    pub ways: u32,
    /// The TLB array in which the entries are, competing with translations (AMD's L2 DTLB, Arm's L2 TLB). `None`: an array of
    /// its own.
    pub within: Option<String>,
}

/// The filler of the TLB.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Walker {
    /// A hardware walker.
    Hardware {
        /// Walks that can be under way at once.
        walkers: u32,
        /// Cycles of each walk besides those of its reads: its start, the look-up of walk caches with entries of their own,
        /// and the hand-over of the translation. A walk cache within a TLB array adds that array's latency.
        lookup: u32,
        /// The level of the nearest data cache that walks read, from 1; 1 without caches.
        cache_level: u8,
        /// Walk caches. The walk starts below the lowest level that hits.
        caches: Vec<WalkCache>,
    },
    /// A trap to a software miss handler.
    Software {
        /// Cycles of a miss whose memory references all hit the first-level cache: trap, instructions and return.
        cycles: u32,
        /// Instructions of the handler.
        instructions: u32,
        /// Loads of the handler: those of page-table entries, and of the kernel's data for the process.
        loads: u32,
        /// Stores of the handler, to the kernel's data.
        stores: u32,
    },
}

/// The write policy of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Writes {
    /// Write-back, write-allocate.
    Back,
    /// Write-back on a hit; a store that misses goes to the next level, without allocation.
    Around,
    /// Write-through, no write-allocate.
    Through,
}

/// One data or instruction cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    /// Its name, unique in the machine: `l1d`.
    pub name: String,
    /// 1 for the nearest.
    pub level: u8,
    /// Whether it serves fetches.
    pub instructions: bool,
    /// Whether it serves loads, stores and walks.
    pub data: bool,
    /// Capacity in bytes.
    pub bytes: u64,
    /// Ways. `bytes / ways / line` is the number of sets: any number for the last level, a power of two otherwise.
    pub ways: u32,
    /// Bytes of a line, a power of two.
    pub line: u32,
    /// Load-to-use cycles of a hit here.
    pub latency: u32,
    /// The write policy.
    pub writes: Writes,
    /// The replacement policy.
    pub replacement: Replacement,
    /// Whether all cores share one, rather than each having its own.
    pub shared: bool,
    /// Bytes that others, such as other guests of the computer, bring into it in 1,024 cycles. Only the last cache has others.
    pub others: u32,
}

/// The core, as far as all timings need it.
#[derive(Clone, Debug, PartialEq)]
pub struct Core {
    /// Cycles of an instruction without any miss (timings `counts` and `inorder`), in thousandths.
    pub millicycles_per_instruction: u32,
    /// Clock frequency in Hz.
    pub hertz: u64,
    /// Cycles to read a page-table entry if no caches are modelled (timing `counts`).
    pub walk_access: u32,
    /// Cycles to invalidate the translation of one page, on this or another core (INVLPG class).
    pub invalidate: u32,
    /// Number of address spaces that TLBs and walk caches distinguish, at least 1; more than 8192 count as 8192. A switch to
    /// one more flushes them; with 1, every switch does.
    pub asids: u32,
}

/// The host of a guest, and the processor's caches of its page table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nested {
    /// Size of the host's pages: one of the machine's sizes.
    pub host_page: PageShift,
    /// Entries of the nested TLB, which holds host translations of guest page-table pages; fully associative, 0 for none.
    pub tlb_entries: u32,
    /// Entries of the caches of the host's page table, by level from 1 up; fully associative, 0 for none.
    pub walk_cache_entries: Vec<u32>,
}

/// A whole machine.
///
/// ```
/// use reach_core::{Layout, PageShift};
/// use reach_hardware::config::{Cache, Core, Index, Machine, Replacement, Serves, Tlb, WalkCache, Walker, Writes};
///
/// fn small_machine() -> Machine {
///     let (small, large) = (PageShift(12), PageShift(21));
///     let array = |name: &str, level, serves, entries, latency| Tlb {
///         name: name.into(),
///         level,
///         serves,
///         entries,
///         ways: 4,
///         sizes: vec![small, large],
///         replacement: Replacement::Lru,
///         index: Index::Low,
///         latency,
///         probe: 0,
///         smash: false,
///         coalesce: None,
///     };
///     let code = Serves { fetch: true, ..Serves::default() };
///     let data = Serves { load: true, store: true, ..Serves::default() };
///     let all = Serves { fetch: true, load: true, store: true };
///     let pde = WalkCache { name: "pde".into(), levels: vec![1], entries: 16, ways: 16, within: None };
///     Machine {
///         layout: Layout::x86_64(),
///         sizes: vec![small, large],
///         tlbs: vec![array("l1i", 1, code, 64, 0), array("l1d", 1, data, 64, 0), array("l2", 2, all, 128, 7)],
///         walker: Walker::Hardware { walkers: 1, lookup: 2, cache_level: 1, caches: vec![pde] },
///         nested: None,
///         caches: vec![Cache {
///             name: "l1d".into(),
///             level: 1,
///             instructions: false,
///             data: true,
///             bytes: 32 << 10,
///             ways: 8,
///             line: 64,
///             latency: 4,
///             writes: Writes::Back,
///             replacement: Replacement::Lru,
///             shared: false,
///             others: 0,
///         }],
///         memory: 200,
///         core: Core {
///             millicycles_per_instruction: 500,
///             hertz: 3_000_000_000,
///             walk_access: 20,
///             invalidate: 250,
///             asids: 4096,
///         },
///     }
/// }
///
/// let machine = small_machine();
/// assert_eq!(machine.tlbs.iter().map(|tlb| tlb.entries).sum::<u32>(), 256);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    /// The format of the page table.
    pub layout: Layout,
    /// Page sizes that the machine can map, ascending; the first is the base page.
    pub sizes: Vec<PageShift>,
    /// TLB arrays. Arrays of one level are probed in this order.
    pub tlbs: Vec<Tlb>,
    /// The filler of the TLB.
    pub walker: Walker,
    /// The host, if the program runs in a guest; only with a hardware walker. `None`: no guest.
    pub nested: Option<Nested>,
    /// Caches, nearest first. If empty, every reference takes `memory` cycles.
    pub caches: Vec<Cache>,
    /// Load-to-use cycles of memory.
    pub memory: u32,
    /// The core.
    pub core: Core,
}

impl Machine {
    /// Returns the span of coalesced entries ([`Tlb::coalesce`]); `None` if no array coalesces.
    pub fn coalesces(&self) -> Option<PageShift> {
        self.tlbs.iter().find_map(|tlb| tlb.coalesce)
    }

    /// Returns the walk caches that are used: none by software, nor where the page table is not a radix tree, whose nodes they
    /// hold.
    pub fn walk_caches(&self) -> &[WalkCache] {
        match &self.walker {
            Walker::Hardware { caches, .. } if self.layout.kind == PageTableKind::Radix => caches,
            _ => &[],
        }
    }

    /// Returns the sizes that entries of TLB arrays have, ascending: the page sizes, and the span of coalesced entries.
    pub fn entry_sizes(&self) -> Vec<PageShift> {
        let mut all: Vec<PageShift> = self.sizes.iter().copied().chain(self.coalesces()).collect();
        all.sort_unstable();
        all
    }
}
