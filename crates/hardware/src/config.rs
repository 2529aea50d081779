//! What a machine is made of, as plain numbers. Machine files (with the provenance of every number) are read by
//! `lab`, which checks them and hands them over in this form.

use reach_core::{Layout, PageShift};

/// Which references a structure serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Serves {
    /// Instruction fetches.
    pub fetch: bool,
    /// Loads.
    pub load: bool,
    /// Stores.
    pub store: bool,
}

/// How a victim is chosen. A set with a free way always takes the first free way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Replacement {
    /// The least recently used.
    Lru,
    /// A binary tree of bits over the ways; the number of ways must be a power of two, at most 64.
    TreePlru,
    /// One reference bit a way. A use sets it; when that leaves none clear, all others are cleared. The victim is the
    /// first way with a clear bit.
    Nru,
    /// Any way, by a seeded generator.
    Random,
}

impl Replacement {
    /// Whether there are sets of so many ways with it.
    pub fn takes(self, ways: u32) -> bool {
        self != Replacement::TreePlru || ways.is_power_of_two() && ways <= 64
    }
}

/// How the hardware threads of a core divide a TLB array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sharing {
    /// All compete for all entries.
    Shared,
    /// Each has its part of the entries: a part of the sets, where there are enough of them.
    Partitioned,
    /// Each has an array of the full size to itself.
    Replicated,
}

/// One array of a TLB.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tlb {
    /// Its name, unique in the machine: `l1d_4k`, `l2`.
    pub name: String,
    /// 0 or 1 for what is probed first, 2 and above for what is probed after a miss there. 0 stands in front of 1
    /// (a micro-TLB); a hit in either is a first-level hit.
    pub level: u8,
    /// Whom it serves.
    pub serves: Serves,
    /// How many translations.
    pub entries: u32,
    /// Ways; `entries` when fully associative. `entries / ways` is a power of two.
    pub ways: u32,
    /// The page sizes it may hold, ascending. With several, a set-associative array is probed once for each size that
    /// it has held since the start, smallest first, with that size's index; a fully associative one compares all at
    /// once.
    pub sizes: Vec<PageShift>,
    /// How a victim is chosen.
    pub replacement: Replacement,
    /// Cycles that a hit here adds to those of a hit in the first array asked; 0 for that one itself.
    pub latency: u32,
    /// Cycles for every probe of this array that is not the first in its level; first-level arrays are probed side by
    /// side and add none.
    pub probe: u32,
    /// Whether a page larger than every size held here is entered as the piece of the largest size that fits ("1 GB
    /// pages are smashed to 2 MB") or not at all. First-level arrays always smash when nothing beside them in their
    /// level takes the page. Where several arrays of a level take a size, the bits of the page number above the set
    /// index choose among them, so that they act as one larger array.
    pub smash: bool,
}

/// A cache of page-table entries that point to lower tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WalkCache {
    /// Its name, unique in the machine: `pde`.
    pub name: String,
    /// The levels (leaf = 0, so >= 1) whose entries it holds, ascending.
    pub levels: Vec<u8>,
    /// How many entries; 0 when `within` names a TLB array that lends its own.
    pub entries: u32,
    /// Ways; `entries` when fully associative.
    pub ways: u32,
    /// The TLB array in which the entries live (AMD's L2 DTLB, Arm's L2 TLB), competing with translations.
    pub within: Option<String>,
}

/// Who fills the TLB.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Walker {
    /// A state machine.
    Hardware {
        /// Walks that can be under way at once.
        walkers: u32,
        /// Cycles to consult the walk caches, once a walk.
        lookup: u32,
        /// Walk caches. Probed from the lowest level up; the lowest hit wins.
        caches: Vec<WalkCache>,
    },
    /// A trap to a handler in software.
    Software {
        /// Cycles of a miss whose memory references all hit the first-level cache: trap, instructions and return.
        cycles: u32,
        /// Instructions of the handler.
        instructions: u32,
        /// Loads. The walk's own are among them; the rest read the kernel's data for the faulting process.
        loads: u32,
        /// Stores to the kernel's data.
        stores: u32,
    },
}

/// What a cache does with stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Writes {
    /// Write-back, allocating.
    Back,
    /// Write-back on a hit; a store that misses goes around it without allocating.
    Around,
    /// Write-through, not allocating.
    Through,
}

/// One data or instruction cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    /// Its name, unique in the machine: `l1d`.
    pub name: String,
    /// 1 for the nearest.
    pub level: u8,
    /// Serves fetches.
    pub instructions: bool,
    /// Serves loads, stores and walks.
    pub data: bool,
    /// Capacity in bytes.
    pub bytes: u64,
    /// Ways. `bytes / ways / line` is the number of sets: any number for the last level, a power of two otherwise.
    pub ways: u32,
    /// Line in bytes, a power of two.
    pub line: u32,
    /// Cycles from the load to the use of its value, for a hit here.
    pub latency: u32,
    /// Stores.
    pub writes: Writes,
    /// How a victim is chosen.
    pub replacement: Replacement,
    /// One for all cores rather than one for each.
    pub shared: bool,
}

/// The core, as far as the simple timings need it.
#[derive(Clone, Debug, PartialEq)]
pub struct Core {
    /// Cycles an instruction takes when nothing misses (timing `counts` and `inorder`), in thousandths.
    pub millicycles_per_instruction: u32,
    /// Clock in Hz.
    pub hertz: u64,
    /// Cycles that a page-table entry fetched by a walk takes where no caches are modelled (timing `counts`).
    pub walk_access: u32,
    /// Cycles that a remote processor's or this processor's TLB invalidation of one page takes (INVLPG class).
    pub invalidate: u32,
    /// Address spaces that TLBs and walk caches tell apart, at least 1. When one more is switched to, they are emptied;
    /// with 1, at every switch. More than 8192 count as so many.
    pub asids: u32,
}

/// Cycles from an instruction's start to its result, by what it does; loads take what caches take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Latencies {
    /// Integer multiplication.
    pub multiply: u32,
    /// Integer division of the most common width.
    pub divide: u32,
    /// Addition, multiplication and conversion of floating-point numbers, vectors of them included.
    pub float: u32,
    /// Division and square root of floating-point numbers.
    pub float_divide: u32,
}

/// What guesses where the program goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Predictor {
    /// Entries of the table without history; each of the four tables with history, and that of indirect targets, has a
    /// quarter of them. A power of two, 64 to 2^20.
    pub entries: u32,
    /// How many earlier conditional branches the longest of the four histories tells apart, 8 to 255.
    pub history: u32,
    /// Return addresses on the stack.
    pub return_stack: u32,
}

/// What fetches lines before they are asked for, into the second-level data cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefetch {
    /// Pages in which ascending or descending runs of first-level misses are followed; 0 for none.
    pub streams: u32,
    /// How many lines ahead of the last miss it fetches, within the page.
    pub distance: u32,
    /// At most so many lines for each miss.
    pub degree: u32,
    /// What the second level misses is fetched with its neighbour, to a pair of aligned lines.
    pub adjacent_line: bool,
    /// A run that reaches the end of its page goes on: the next page is translated, by a walk if need be, and its first line
    /// fetched.
    pub next_page: bool,
    /// Lines under way at once; where there are more, none is fetched ahead.
    pub max_in_flight: u32,
}

/// The out-of-order window of a core, as `window` times it. All numbers are at least 1, `front_end_depth` excepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OooCore {
    /// Instructions in flight: entries of the reorder buffer.
    pub rob: u32,
    /// Instructions that are fetched, enter the window, start and leave it in one cycle.
    pub width: u32,
    /// Loads that can start in one cycle.
    pub load_ports: u32,
    /// Stores that can start in one cycle.
    pub store_ports: u32,
    /// Loads in flight.
    pub load_queue: u32,
    /// Stores in flight, those that have retired and wait to be written included.
    pub store_queue: u32,
    /// First-level data misses under way at once.
    pub l1_mshrs: u32,
    /// What takes so many cycles comes from memory.
    pub memory: u32,
    /// Cycles from one line that comes from memory to the next, by its bandwidth; 0 for no bound.
    pub line_interval: u32,
    /// How many of the page walkers serve instruction fetches.
    pub itlb_walkers: u32,
    /// Cycles from the fetch of an instruction to its entry into the window.
    pub front_end_depth: u32,
    /// Instructions that may wait between the two.
    pub fetch_queue: u32,
    /// An entry of the first-level ITLB is replaced only when the last instruction in flight that was fetched through it
    /// has retired (Zhou et al. 2023, section 7.1).
    pub itlb_inclusion: bool,
    /// Cycles from a translation that fetching has waited for to the next fetch: it is looked up once more.
    pub itlb_replay: u32,
    /// What is on the wrong path of a branch, or behind a load that has to be repeated, fetches, loads and translates too,
    /// until that is known.
    pub wrong_path: bool,
    /// What instructions take.
    pub latencies: Latencies,
    /// What guesses branches.
    pub predictor: Predictor,
    /// What guesses addresses.
    pub prefetch: Prefetch,
}

/// The host below a guest, and what the processor keeps of its page table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nested {
    /// The host's pages: one of the machine's sizes.
    pub host_page: PageShift,
    /// How many places of the guest's page-table pages are kept, compared all at once; 0 for none.
    pub tlb_entries: u32,
    /// How many entries of the host's page table are kept, by level from 1 up, compared all at once; 0 for none.
    pub walk_cache_entries: Vec<u32>,
}

/// A whole machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    /// The page table.
    pub layout: Layout,
    /// Page sizes that the machine can map, ascending; the first is the base page.
    pub sizes: Vec<PageShift>,
    /// TLB arrays, in the order in which equals are probed.
    pub tlbs: Vec<Tlb>,
    /// Who fills them.
    pub walker: Walker,
    /// The program runs in a guest. Only where hardware walks.
    pub nested: Option<Nested>,
    /// Caches, nearest first. None: every reference takes `memory` cycles.
    pub caches: Vec<Cache>,
    /// Cycles to memory, from the load to the use.
    pub memory: u32,
    /// The core.
    pub core: Core,
}
