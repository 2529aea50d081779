//! An out-of-order core in one pass (timing `window`).
//!
//! Instructions are taken in program order, each once, and each gets the times at which it is fetched, enters the window,
//! starts, is complete and retires. An earlier instruction's times never change any more; so all that limits a later one
//! is known when its turn comes:
//!
//! 1. *Fetch*, in order, `width` in a cycle; a taken branch ends a cycle's. It waits for the translation and the lines of
//!    the block, for room in the fetch queue, and behind a branch that was guessed wrong for that branch's result.
//! 2. *Entry*, `front_end_depth` cycles later, in order, `width` in a cycle; it waits for room in the reorder buffer and in the
//!    load and store queues.
//! 3. *Loads* start when the registers of their address are known and a port is free. A translation that the first-level
//!    TLB does not hold takes the time of the level that does, or of a walk, for which one of the walkers must be free; then
//!    comes the cache, for a miss as soon as one of the bounded misses (`l1_mshrs`) is free. Who comes to a page or a line
//!    that is under way already waits for the same walk or miss. What comes from memory waits for the way there (`channel.rs`). A load from what a store in flight writes takes its data. A
//!    load that has been trusted for long enough does not wait for the addresses of the stores before it; where one of them
//!    turns out to be its own, it and all behind it is done again ([`OooCore::repeat`]).
//! 4. *Execution* starts when sources and loads are known, and takes what its class takes.
//! 5. *Stores* are complete when address and data are known. They are written after retirement, in order; their misses
//!    overlap.
//! 6. *Retirement*, in order, `width` in a cycle.
//!
//! Every cycle between two retirements has a label, by what the later of the two was waiting for ([`Gap`]). What the
//! operating system does stands between instructions: the window is empty when it begins ([`OooCore::serialise`]).
//!
//! The caches and the TLB see references in program order. What a core does on the wrong path (`astray.rs`) they see where
//! it leaves the right one: it can only change what is done later.

mod attribution;
mod code;
mod decode;
mod execution_history;
mod front_end;
mod in_order;
mod load_store;
mod memory_channel;
mod pipeline;
mod ports;
mod predictor;
mod prefetch;
mod run;
mod store_queue;
mod wrong_path;

pub use code::{Branch, Class, Code, Inst, NO_SOURCE, NO_TARGET, Place, Register};
pub use front_end::Wrong;
pub use load_store::Done;
pub use predictor::{Guess, Predictor};
pub use run::OooRun;
pub use wrong_path::{Found, Memory, Walk};

use crate::config;
use code::REGISTERS;
use execution_history::History;
use in_order::{InOrder, Ring};
use memory_channel::Channel;
use pipeline::latencies;
use ports::{Busy, Calendar};
use prefetch::Streams;
use reach_core::{BlockId, Kind, Label, Ledger};
use std::collections::VecDeque;
use store_queue::Stores;

/// Pages whose walk, and lines whose miss, may be waited for: places by a hash of their number, each for the last that
/// came there.
const PAGES: usize = 64;
const LINES: usize = 256;

/// What the translation of a reference took, in cycles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Translation {
    /// Later levels of TLBs.
    pub tlb: u32,
    /// A walk.
    pub walk: u32,
    /// Page-table entries that it has read from memory.
    pub entries: u32,
    /// A miss handler in software, for which the window must be empty.
    pub handler: u32,
}

/// How long the front end has waited for a block, in cycles, by what it waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrontEnd {
    /// A branch that was guessed wrong.
    pub branch: u64,
    /// Later levels of TLBs.
    pub tlb: u64,
    /// Walks.
    pub walk: u64,
    /// The entry to be replaced was in use by an instruction in flight.
    pub inclusion: u64,
    /// Instruction caches.
    pub cache: u64,
}

/// The times of the reference that an instruction has waited for longest.
#[derive(Clone, Copy, Debug, Default)]
struct Critical {
    start: u64,
    /// The TLB's later levels have answered.
    found: u64,
    translated: u64,
    /// All but the time of a hit in the nearest cache has passed.
    near: u64,
    done: u64,
}

/// A store of the instruction under way.
#[derive(Clone, Copy, Debug)]
struct Pending {
    from: u64,
    to: u64,
    line: u64,
    translated: u64,
    /// Cycles of its miss, 0 where the nearest cache that keeps stores has the line.
    miss: u32,
}

/// The instruction under way.
#[derive(Clone, Copy, Debug)]
struct Flight {
    inst: Inst,
    fetched: u64,
    /// When it could enter the window but for the store queue, and when it does.
    could_enter: u64,
    entered: u64,
    /// When the registers of its addresses are known.
    address: u64,
    /// When its loads are.
    loaded: u64,
    /// How many it has done.
    loads: u32,
    stores: u32,
    /// How many of its references, loads and stores, have been noted.
    noted: [u8; 2],
    critical: Critical,
    front: FrontEnd,
}

/// The block under way.
#[derive(Clone, Copy, Debug)]
struct Running {
    block: BlockId,
    start: u64,
    end: u64,
    /// The next instruction, of those of the block.
    next: u32,
    /// The number of its first reference.
    first: u32,
}

/// The branch at the end of a block.
#[derive(Clone, Copy, Debug)]
struct Left {
    branch: Branch,
    block: BlockId,
    /// Where its block begins and ends.
    start: u64,
    end: u64,
    /// When its result is known.
    result: u64,
}

/// A run of instructions that were fetched through one page.
#[derive(Clone, Copy, Debug)]
struct Fetched {
    page: u64,
    /// When the last of them retired.
    retired: u64,
}

/// The core.
#[derive(Clone, Debug)]
pub struct OooCore {
    config: config::OooCore,
    fetch: InOrder,
    entry: InOrder,
    retire: InOrder,
    queue: Ring,
    rob: Ring,
    loads: Ring,
    stores: Stores,
    calendar: Calendar,
    walkers: Busy,
    misses: Busy,
    channel: Channel,
    /// Lines under way that nothing has asked for, and what guesses them.
    ahead: Busy,
    streams: Streams,
    registers: [u64; REGISTERS],
    /// By class.
    latencies: [u64; Class::ALL],
    pages: Box<[(u64, u64); PAGES]>,
    lines: Box<[(u64, u64); LINES]>,
    predictor: Predictor,
    block: Option<Running>,
    flight: Option<Flight>,
    /// Its stores.
    pending: Vec<Pending>,
    /// How the front end has waited since the last instruction.
    front: FrontEnd,
    /// The pages of instructions in flight, the oldest first, and the page of the block under way.
    in_flight: VecDeque<Fetched>,
    fetching: u64,
    /// The last block's branch.
    branch: Option<Left>,
    history: History,
    /// The reference of the instruction under way that comes next, among all, if it has a number.
    reference: Option<u32>,
    /// Kept for its room.
    scratch: Vec<u64>,
    /// When the instruction that was taken last was complete.
    completed: u64,
    /// Where the cycles went that have not been handed over.
    ledger: Ledger,
    /// What was counted and not handed over.
    counted: Counted,
}

/// What the window counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Branches.
    pub branches: u64,
    /// Those that were guessed wrong.
    pub mispredictions: u64,
    /// How the front end has waited, whether or not that was hidden.
    pub front: FrontEnd,
    /// Loads that had gone ahead of a store to the same bytes, whose address was not known.
    pub clears: u64,
    /// Instructions that entered the window and were not to retire.
    pub squashed: u64,
    /// Their loads and stores that asked the TLB.
    pub squashed_loads: u64,
    /// See `squashed_loads`.
    pub squashed_stores: u64,
}

impl OooCore {
    /// An empty window in a core with so many page walkers.
    pub fn new(config: config::OooCore, walkers: u32) -> OooCore {
        OooCore {
            fetch: InOrder::default(),
            entry: InOrder::default(),
            retire: InOrder::default(),
            queue: Ring::new(config.fetch_queue),
            rob: Ring::new(config.rob),
            loads: Ring::new(config.load_queue),
            stores: Stores::new(config.store_queue),
            calendar: Calendar::new(config.width, config.load_ports, config.store_ports),
            walkers: Busy::new(walkers),
            misses: Busy::new(config.l1_mshrs),
            channel: Channel::new(config.line_interval, config.memory),
            ahead: Busy::new(config.prefetch.max_in_flight),
            streams: Streams::new(config.prefetch),
            registers: [0; REGISTERS],
            latencies: latencies(&config.latencies),
            pages: Box::new([(u64::MAX, 0); PAGES]),
            lines: Box::new([(u64::MAX, 0); LINES]),
            predictor: Predictor::new(&config.predictor),
            block: None,
            flight: None,
            pending: Vec::new(),
            front: FrontEnd::default(),
            in_flight: VecDeque::new(),
            fetching: u64::MAX,
            branch: None,
            history: History::default(),
            reference: None,
            scratch: Vec::new(),
            completed: 0,
            ledger: Ledger::default(),
            counted: Counted::default(),
            config,
        }
    }

    /// When the last instruction retired: all cycles that have passed.
    pub fn now(&self) -> u64 {
        self.retire.cycle
    }

    /// The cycles that have passed since this was last asked, by label.
    pub fn hand_over(&mut self) -> Ledger {
        std::mem::take(&mut self.ledger)
    }

    /// What was counted since this was last asked.
    pub fn hand_over_counts(&mut self) -> Counted {
        std::mem::take(&mut self.counted)
    }

    /// The block to which the program goes on, from `start` to before `end`, has been fetched.
    pub fn start_block(&mut self, code: &Code, block: BlockId, start: u64, end: u64) {
        let first = self.history.execute(code, block);
        self.block = Some(Running { block, start, end, next: 0, first });
    }

    /// `block` will be executed soon: this computer's caches are told.
    #[inline(always)]
    pub(crate) fn prefetch_block(&self, code: &Code, block: BlockId) {
        code.prefetch(block);
        self.history.prefetch(block);
    }

    /// What is executed from here on is executed in address space number `space`.
    pub fn enter_space(&mut self, space: u32) {
        self.history.enter(space);
    }

    /// A trap to a miss handler: the window empties, the handler runs, and fetching begins anew.
    fn handle(&mut self, cycles: u32) {
        let gone_by = self.retire.cycle + u64::from(cycles);
        self.ledger.charge(Label::Handler, cycles.into());
        self.retire = InOrder { cycle: gone_by, used: 0 };
        self.wait_fetch(gone_by);
    }

    /// No instruction to come starts or asks for anything before this.
    #[inline(always)]
    fn base(&self) -> u64 {
        // Fetching runs ahead of the window's entry by no more than the queue: what is fetched later enters later.
        self.entry.cycle.min(self.fetch.cycle)
    }

    /// The operating system acts: everything before is over by then, and nothing after has begun. `ends`: the program goes on
    /// elsewhere, so that the block under way is over as well.
    pub fn serialise(&mut self, code: &Code, ends: bool) {
        if ends {
            self.end_block(self.instructions(code));
            self.branch = None;
        }
        let now = self.retire.cycle;
        self.wait_fetch(now);
        if let Some(flight) = &mut self.flight {
            flight.fetched = flight.fetched.max(now);
            let entered = now + u64::from(self.config.front_end_depth);
            flight.could_enter = flight.could_enter.max(entered);
            flight.entered = flight.entered.max(entered);
            flight.address = flight.address.max(entered + 1);
            self.entry = InOrder { cycle: flight.entered.max(self.entry.cycle), used: 1 };
        }
    }

    /// A translation that ended in a stop: nothing else happens meanwhile.
    pub fn stopped(&mut self, translation: Translation) {
        let parts = [
            (Label::L2TlbHit, translation.tlb),
            (Label::Walk, translation.walk),
            (Label::Handler, translation.handler),
        ];
        for (label, cycles) in parts {
            self.ledger.charge(label, cycles.into());
            self.retire = InOrder { cycle: self.retire.cycle + u64::from(cycles), used: 0 };
        }
    }
}
