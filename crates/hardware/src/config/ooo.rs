//! Descriptions of out-of-order cores.

/// Cycles from the start of an instruction to its result, by class. Loads take the time of the caches; all others 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Latencies {
    /// Integer multiplication.
    pub multiply: u32,
    /// Integer division, at the most common width.
    pub divide: u32,
    /// Floating-point addition, multiplication and conversion, including vectors.
    pub float: u32,
    /// Floating-point division and square root.
    pub float_divide: u32,
}

/// A part of an instruction, which waits in a scheduler until it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Operation {
    /// An operation other than those below.
    Integer,
    /// A floating-point operation.
    Float,
    /// A load.
    Load,
    /// A store: its address and its data.
    Store,
}

impl Operation {
    /// The number of kinds.
    pub const ALL: usize = 4;
}

/// The schedulers (reservation stations). Each serves one or several kinds of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedulers {
    /// Entries of each.
    pub entries: [u32; Schedulers::MOST],
    /// By [`Operation`], the number of the scheduler that serves it.
    pub of: [u8; Operation::ALL],
}

impl Schedulers {
    /// The most schedulers that a core can have.
    pub const MOST: usize = Operation::ALL;

    /// One scheduler of so many `entries` for all operations.
    pub const fn unified(entries: u32) -> Schedulers {
        Schedulers { entries: [entries; Schedulers::MOST], of: [0; Operation::ALL] }
    }
}

/// The physical registers that instructions in flight can take: those of the files that hold no architectural state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegisterFiles {
    /// Integer registers, at least [`RegisterFiles::LEAST`].
    pub integer: u32,
    /// Vector registers, at least [`RegisterFiles::LEAST`].
    pub vector: u32,
    /// Whether an instruction that writes only the flags takes an integer register.
    pub flags_in_integer: bool,
}

impl RegisterFiles {
    /// The registers of a kind that one instruction can take.
    pub const LEAST: u32 = 3;
}

/// The branch predictor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Predictor {
    /// Entries of the table without history: a power of two, 64 to 2^20. Each of the four tables with history, and that of
    /// indirect targets, has a quarter of them.
    pub entries: u32,
    /// Conditional branches in the longest of the four histories, 8 to 255.
    pub history: u32,
    /// Entries of the return-address stack.
    pub return_stack: u32,
}

/// What a prefetcher's stream does at the end of its page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageEnd {
    /// It ends.
    Stop,
    /// It ends, but the next page is translated, by a walk if need be, and its first line fetched.
    FirstLine,
    /// It goes on in the next virtual page, which is translated, by a walk if need be.
    Continue,
}

/// The prefetchers, which fetch lines into the second-level data cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefetch {
    /// Streams: pages in which ascending or descending runs of first-level misses are tracked; 0 for no streamer.
    pub streams: u32,
    /// Maximum number of lines ahead of the last miss.
    pub distance: u32,
    /// Maximum number of lines for each miss.
    pub degree: u32,
    /// Whether a second-level miss also fetches the other line of its aligned pair.
    pub adjacent_line: bool,
    /// What a stream does at the end of its page.
    pub page_end: PageEnd,
    /// Maximum number of prefetches under way at once.
    pub max_in_flight: u32,
}

/// An out-of-order core. All numbers are at least 1, except where 0 is explained and in `front_end_depth`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OooCore {
    /// Entries of the reorder buffer.
    pub rob: u32,
    /// Instructions that are fetched, that enter the reorder buffer, that start and that retire in one cycle.
    pub width: u32,
    /// The schedulers, which hold instructions that wait to start.
    pub schedulers: Schedulers,
    /// The registers that they write.
    pub registers: RegisterFiles,
    /// Loads that can start in one cycle.
    pub load_ports: u32,
    /// Stores that can start in one cycle.
    pub store_ports: u32,
    /// Entries of the load queue.
    pub load_queue: u32,
    /// Entries of the store queue, including stores that have retired and wait to be written.
    pub store_queue: u32,
    /// Miss registers: first-level data misses under way at once.
    pub l1_mshrs: u32,
    /// Cycles between two lines that arrive in the first-level data cache; 0 where any number arrives at once.
    pub l1_fill: u32,
    /// Cycles to memory: an access of at least that latency came from memory.
    pub memory: u32,
    /// Cycles between two lines from memory, by its bandwidth; 0 for unlimited bandwidth.
    pub line_interval: u32,
    /// Cycles from the fetch of an instruction to its entry into the reorder buffer.
    pub front_end_depth: u32,
    /// Instructions that may wait between fetch and reorder buffer.
    pub fetch_queue: u32,
    /// Whether an entry of the first-level ITLB is replaced only when the last instruction in flight that was fetched through
    /// it has retired (Zhou et al. 2023, section 7.1).
    pub itlb_inclusion: bool,
    /// Cycles from the end of an ITLB miss to the next fetch, which looks the translation up again.
    pub itlb_replay: u32,
    /// Whether instructions on the wrong path of a branch, or behind a load that has to be repeated, fetch, load and
    /// translate until that is known.
    pub wrong_path: bool,
    /// Latencies of instructions.
    pub latencies: Latencies,
    /// The branch predictor.
    pub predictor: Predictor,
    /// The prefetchers.
    pub prefetch: Prefetch,
}
