//! An out-of-order core, timed in one pass over the program (timing `ooo`).
//!
//! Instructions are taken in program order, each once. Each gets the cycles in which it is fetched, dispatched, issued,
//! completed and retired. The times of older instructions never change afterwards. So all that limits an instruction is
//! known when its turn comes:
//!
//! 1. *Fetch* is in order, `width` a cycle; a taken branch ends a cycle's fetching. Fetch waits for the translation and
//!    the lines of the block, and for an entry of the fetch queue. After a mispredicted branch it waits until that is
//!    resolved.
//! 2. *Dispatch* follows at least `front_end_depth` cycles later, in order, `width` a cycle. It waits for entries of
//!    the reorder buffer, of the load and store queues and of the schedulers, and for physical registers
//!    (`register_files.rs`). An instruction's entries in the schedulers (`schedulers.rs`) are free again when it starts,
//!    which may be in any order.
//! 3. *Loads* issue when their address registers are known and a port is free. Then comes the translation. A
//!    first-level TLB miss takes the latency of the level that hits, or that of a walk, which waits for a free page
//!    walker, and for a free MSHR (`l1_mshrs`) if it reads entries that miss the first-level cache. Then comes the cache.
//!    A first-level cache miss waits for a free MSHR, and one that goes to memory waits for the channel (`memory_channel.rs`). With `l1_fill`, lines arrive that many cycles
//!    apart; their MSHRs are free before. A reference to a page or line in flight waits for the same
//!    walk or miss. A load from the bytes of a store in flight takes its data (store forwarding).
//!    *Memory disambiguation*: a load waits for the addresses of all older stores until it is trusted. A trusted load
//!    does not wait. If one of these stores turns out to be to the same bytes, the load violated memory order: a
//!    machine clear repeats it and all that follows ([`OooCore::repeat_load`]).
//! 4. *Execution* starts when sources and loads are known and a port is free. It takes the latency of the class.
//! 5. *Stores* are complete when address and data are known. They are written after retirement, in order. Their misses
//!    overlap.
//! 6. *Retirement* is in order, `width` a cycle.
//!
//! Every cycle between two retirements has one label, which says what the later instruction waited for
//! (`attribution.rs`). The operating system acts between instructions, on an empty pipeline ([`OooCore::serialise`]).
//!
//! Caches and TLBs see references in program order. They see the wrong path (`wrong_path.rs`) at the point where it
//! leaves the right path. So it can change only what happens later.

mod attribution;
mod branch_trainer;
mod code;
mod decode;
mod execution_history;
mod front_end;
mod in_flight;
mod in_order;
mod instruction;
mod line_stream;
mod load_store;
mod memory_channel;
mod occupancy;
mod pipeline;
mod ports;
mod predictor;
mod prefetch;
mod reference;
mod register_files;
mod right_path;
mod run;
mod schedulers;
mod statistics;
mod store_queue;
mod warming;
mod wrong_path;

pub use branch_trainer::{BranchTrainer, TrainedPredictor};
pub use code::{BlockSpan, Code};
pub use front_end::{EvictedPages, Misprediction};
pub use instruction::{BranchKind, Inst, NO_SOURCE, NO_TARGET, OpClass, Register, Renamed};
pub use line_stream::LineStream;
pub use predictor::{Prediction, Predictor, WrongTurn};
pub use reference::{ByteRange, MemoryReference, ReferenceTimes, TranslationCost};
pub use right_path::{FOLLOWING, Following, RightPath};
pub use run::OooRun;
pub use statistics::{FetchStalls, OooStatistics};
pub use wrong_path::{WrongPathLoad, WrongPathLookup, WrongPathMemory, WrongPathWalk};

use crate::cache::Caches;
use crate::config;
use execution_history::ExecutionHistory;
use in_flight::{CurrentBlock, DynInst, FetchedPage, PendingBranch, PendingStore};
use in_order::{EntryQueue, InOrderStage};
use instruction::RegisterTimes;
use memory_channel::MemoryChannel;
use occupancy::Occupancy;
use pipeline::latencies;
use ports::IssuePorts;
use prefetch::{Buddies, Streamer};
use reach_core::{BlockId, Label, Ledger};
use register_files::RegisterFiles;
use schedulers::Schedulers;
use std::collections::VecDeque;
use store_queue::StoreQueue;

/// The number of walks and misses that later references can join. Each is found by a hash of its page or line, and the
/// latest replaces an older one of the same hash.
const PENDING_WALKS: usize = 64;
const PENDING_MISSES: usize = 256;

/// An out-of-order core.
///
/// ```
/// use reach_core::{Block, BlockId, BlockTable, Kind, VirtAddr};
/// use reach_hardware::config;
/// use reach_hardware::ooo::{ByteRange, Code, MemoryReference, OooCore, TranslationCost};
///
/// # let config = config::OooCore {
/// #     rob: 224, width: 4, schedulers: config::Schedulers::unified(97),
/// #     registers: config::RegisterFiles { integer: 132, vector: 136, flags_in_integer: true },
/// #     load_ports: 2, store_ports: 1, load_queue: 72, store_queue: 56, l1_mshrs: 12, l1_fill: 0,
/// #     memory: 200, line_interval: 0, front_end_depth: 10, fetch_queue: 64,
/// #     itlb_inclusion: false, itlb_replay: 0, wrong_path: false,
/// #     latencies: config::Latencies { multiply: 3, divide: 26, float: 4, float_divide: 11 },
/// #     predictor: config::Predictor { entries: 64, history: 8, return_stack: 16 },
/// #     prefetch: config::Prefetch {
/// #         streams: 0, distance: 0, degree: 0, adjacent_line: false, page_end: config::PageEnd::Stop, max_in_flight: 0,
/// #     },
/// # };
/// // Runs two instructions that each load a line of their own from memory, in 200 cycles.
/// let cycles = |bytes: &[u8]| {
///     let block = Block { pc: VirtAddr(0x1000), len: 6, instructions: 2, bytes: bytes.into() };
///     let mut blocks = BlockTable::default();
///     let id = blocks.push(block);
///     let mut code = Code::default();
///     code.learn(&blocks);
///
///     let mut core = OooCore::new(config, 1);
///     core.start_block(&code, id, ByteRange { start: 0x1000, end: 0x1006 });
///     for index in 0..2 {
///         core.advance_to(code.of(id), index);
///         core.begin_reference(Kind::Load);
///         let start = 0x8000 + 64 * u64::from(index);
///         core.load(MemoryReference {
///             bytes: ByteRange { start, end: start + 8 },
///             line: start / 64,
///             page: start / 4096,
///             translation: TranslationCost::default(), // a hit in the first-level TLB
///             l1_latency: 4,
///             latency: 200,
///         });
///         core.end_reference(Kind::Load, start, false);
///     }
///     core.end_block(code.of(id));
///     core.now()
/// };
///
/// let independent = cycles(&[0x48, 0x8b, 0x07, 0x48, 0x8b, 0x1e]); // mov rax, [rdi]; mov rbx, [rsi]
/// let dependent = cycles(&[0x48, 0x8b, 0x07, 0x48, 0x8b, 0x18]); // mov rax, [rdi]; mov rbx, [rax]
/// assert!(independent < 220 && dependent > 400); // only independent misses overlap
/// ```
#[derive(Clone, Debug)]
pub struct OooCore {
    config: config::OooCore,
    fetch_stage: InOrderStage,
    dispatch_stage: InOrderStage,
    retire_stage: InOrderStage,
    fetch_queue: EntryQueue,
    rob: EntryQueue,
    load_queue: EntryQueue,
    store_queue: StoreQueue,
    schedulers: Schedulers,
    registers_in_flight: RegisterFiles,
    ports: IssuePorts,
    walkers: Occupancy,
    l1_mshrs: Occupancy,
    l1_fills: Occupancy,
    memory_channel: MemoryChannel,
    prefetches_in_flight: Occupancy,
    streamer: Streamer,
    buddies: Buddies,
    registers: RegisterTimes,
    /// By [`OpClass`].
    latencies: [u64; OpClass::ALL],
    /// By hash, the page of a walk and the cycle in which it ends.
    pending_walks: Box<[(u64, u64); PENDING_WALKS]>,
    /// By hash, the line of a miss and the cycle in which it arrives.
    pending_misses: Box<[(u64, u64); PENDING_MISSES]>,
    predictor: Predictor,
    /// The current block. `None` between blocks.
    block: Option<CurrentBlock>,
    /// The dispatched instruction whose references come next. `None` between instructions. Boxed, so that retiring it moves a
    /// pointer: the references have just written its parts, which a copy would have to wait for.
    inst: Option<Box<DynInst>>,
    /// The box of the last such instruction, for the next one.
    spare: Option<Box<DynInst>>,
    /// Its stores.
    pending_stores: Vec<PendingStore>,
    /// How long fetching was stalled since the last instruction was fetched. `None` if it was not.
    fetch_stalls: Option<FetchStalls>,
    /// How long the fetch of the last dispatched instruction was stalled. Not part of [`DynInst`], because few have any.
    inst_stalls: Option<FetchStalls>,
    /// The pages through which instructions in flight were fetched, the oldest first.
    fetched_pages: VecDeque<FetchedPage>,
    /// The page that is fetched from. `u64::MAX` before the first.
    fetched_page: u64,
    /// The branch at the end of the last block. `None` within a block.
    branch: Option<PendingBranch>,
    history: ExecutionHistory,
    /// The number of the current reference in the execution history. `None` if the instruction's operands do not make
    /// it.
    reference: Option<u32>,
    wrong_path_buffers: wrong_path::Buffers,
    /// The cycle in which the last instruction was complete.
    completed: u64,
    /// The cycle in which all predicted translations so far are verified.
    verified: u64,
    /// The cycles since [`OooCore::take_ledger`] was last called.
    ledger: Ledger,
    statistics: OooStatistics,
}

/// The block that a core was executing, and the branch that it was about to resolve.
#[derive(Clone, Copy, Debug)]
pub struct Aside {
    block: Option<CurrentBlock>,
    branch: Option<PendingBranch>,
}

/// A core and its caches, for the references that the core makes itself: prefetches and the wrong path.
struct CoreAndCaches<'a> {
    core: &'a mut OooCore,
    caches: &'a mut Caches,
}

impl OooCore {
    /// Creates an idle core with untrained predictors and `walkers` page walkers.
    pub fn new(config: config::OooCore, walkers: u32) -> OooCore {
        OooCore {
            fetch_stage: InOrderStage::default(),
            dispatch_stage: InOrderStage::default(),
            retire_stage: InOrderStage::default(),
            fetch_queue: EntryQueue::new(config.fetch_queue),
            rob: EntryQueue::new(config.rob),
            load_queue: EntryQueue::new(config.load_queue),
            store_queue: StoreQueue::new(config.store_queue),
            schedulers: Schedulers::new(&config.schedulers),
            registers_in_flight: RegisterFiles::new(&config.registers),
            ports: IssuePorts::new(config.width, config.load_ports, config.store_ports),
            walkers: Occupancy::new(walkers),
            l1_mshrs: Occupancy::new(config.l1_mshrs),
            l1_fills: Occupancy::new(1),
            memory_channel: MemoryChannel::new(config.line_interval, config.memory),
            prefetches_in_flight: Occupancy::new(config.prefetch.max_in_flight),
            streamer: Streamer::new(config.prefetch),
            buddies: Buddies::new(),
            registers: RegisterTimes::ZERO,
            latencies: latencies(&config.latencies),
            pending_walks: Box::new([(u64::MAX, 0); PENDING_WALKS]),
            pending_misses: Box::new([(u64::MAX, 0); PENDING_MISSES]),
            predictor: Predictor::new(&config.predictor),
            block: None,
            inst: None,
            spare: None,
            pending_stores: Vec::new(),
            fetch_stalls: None,
            inst_stalls: None,
            fetched_pages: VecDeque::new(),
            fetched_page: u64::MAX,
            branch: None,
            history: ExecutionHistory::default(),
            reference: None,
            wrong_path_buffers: wrong_path::Buffers::default(),
            completed: 0,
            verified: 0,
            ledger: Ledger::default(),
            statistics: OooStatistics::default(),
            config,
        }
    }

    /// Returns the cycle in which the last instruction retired: all cycles that have passed.
    pub fn now(&self) -> u64 {
        self.retire_stage.cycle
    }

    /// Returns the cycles by label since [`OooCore::take_ledger`] was last called.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Returns the cycles by label since the last call.
    pub fn take_ledger(&mut self) -> Ledger {
        std::mem::take(&mut self.ledger)
    }

    /// Returns what the core has counted since the last call.
    pub fn take_statistics(&mut self) -> OooStatistics {
        std::mem::take(&mut self.statistics)
    }

    /// Starts `block`, whose `bytes` have been fetched.
    pub fn start_block(&mut self, code: &Code, block: BlockId, bytes: ByteRange) {
        let first_reference = self.history.execute(code, block);
        let ByteRange { start, end } = bytes;
        self.block = Some(CurrentBlock { block, start, end, next: 0, first_reference });
    }

    /// Prefetches what is known about `block` into the caches of the host computer.
    #[inline(always)]
    pub(crate) fn prefetch_block(&self, code: &Code, block: BlockId) {
        code.prefetch(block);
        self.history.prefetch(block);
    }

    /// Switches to address space number `space`.
    pub fn enter_space(&mut self, space: u32) {
        self.history.enter_space(space);
    }

    /// Runs a software miss handler of `cycles`: the pipeline drains, the handler runs, and fetching starts anew.
    fn run_handler(&mut self, cycles: u32) {
        let returned = self.retire_stage.cycle + u64::from(cycles);
        self.ledger.charge(Label::Handler, cycles.into());
        self.retire_stage = InOrderStage { cycle: returned, used: 0 };
        self.fetch_stage.stall_until(returned);
    }

    /// Returns a cycle before which no later instruction requests a resource.
    #[inline(always)]
    fn request_floor(&self) -> u64 {
        // Fetching precedes dispatch by no more than the fetch queue. Instructions fetched later are dispatched later.
        self.dispatch_stage.cycle.min(self.fetch_stage.cycle)
    }

    /// Drains the pipeline for the operating system: all earlier instructions have retired, and no later one has been
    /// fetched. `ends_block` says that the program does not continue in the current block.
    pub fn serialise(&mut self, code: &Code, ends_block: bool) {
        if ends_block {
            self.end_block(self.instructions(code));
            self.branch = None;
        }
        let now = self.retire_stage.cycle;
        self.fetch_stage.stall_until(now);
        if let Some(inst) = &mut self.inst {
            inst.fetched = inst.fetched.max(now);
            let dispatched = now + u64::from(self.config.front_end_depth);
            inst.dispatchable = inst.dispatchable.max(dispatched);
            inst.dispatched = inst.dispatched.max(dispatched);
            inst.address_ready = inst.address_ready.max(dispatched + 1);
            self.dispatch_stage = InOrderStage { cycle: inst.dispatched.max(self.dispatch_stage.cycle), used: 1 };
        }
    }

    /// Puts the current block aside for other code, which the kernel runs on behalf of the program. Call after
    /// [`OooCore::serialise`].
    pub fn put_aside(&mut self) -> Aside {
        self.close();
        Aside { block: self.block.take(), branch: self.branch.take() }
    }

    /// Goes on with what was put aside. Call after [`OooCore::serialise`].
    pub fn take_up(&mut self, aside: Aside) {
        (self.block, self.branch) = (aside.block, aside.branch);
    }

    /// Charges a translation that ended in a stop. It overlaps with nothing.
    pub fn charge_stopped(&mut self, translation: TranslationCost) {
        let parts = [
            (Label::L2TlbHit, translation.tlb),
            (Label::Walk, translation.walk),
            (Label::Handler, translation.handler),
        ];
        for (label, cycles) in parts {
            self.ledger.charge(label, cycles.into());
            self.retire_stage = InOrderStage { cycle: self.retire_stage.cycle + u64::from(cycles), used: 0 };
        }
    }
}
