//! The wrong path: what the core fetches and executes, and later squashes.
//!
//! It begins at a mispredicted branch and ends when the branch is resolved. It also begins behind a load that violated
//! memory order, and ends with the machine clear.
//!
//! - The core fetches the blocks on the predicted path, if it has executed them before ([`ExecutionHistory`]). It stops
//!   at others.
//! - Their instructions are dispatched and executed among those in flight: they need ROB and queue entries, registers,
//!   ports, walkers and MSHRs. None retires.
//! - Where it joins the right path (`wrong_path/convergence.rs`), loads and stores refer to the same addresses. Elsewhere,
//!   and where the address depends on registers that differ, they refer to the address that the instruction may have
//!   next, by those it has had.
//! - Stores only translate, as store-address operations look up the TLB when they execute (Intel, Optimization
//!   Reference Manual: STA).
//! - At the end, a line in flight still arrives, and a walk in progress is aborted.
//!
//! [`ExecutionHistory`]: super::execution_history::ExecutionHistory

mod convergence;
mod mmu;

use super::code::Code;
use super::front_end::Misprediction;
use super::in_order::InOrderStage;
use super::instruction::{BranchKind, Inst, RegisterTimes};
use super::ports::Port;
use super::predictor::WrongTurn;
use super::reference::ByteRange;
use super::register_files::Taken;
use super::right_path::RightPath;
use super::schedulers::{Schedulers, Starts};
use super::{OooCore, PENDING_WALKS};
use convergence::{Convergence, Found};
use reach_core::{BlockId, Kind};

/// The outcome of a TLB look-up on the wrong path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WrongPathLookup {
    /// A translation, after this many cycles.
    Hit(u64),
    /// No usable translation: it forbids the reference, or it comes after the deadline.
    Unusable,
    /// No TLB holds the page. A walk may begin after this many cycles.
    Miss(u64),
}

/// The outcome of a walk on the wrong path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrongPathWalk {
    /// The cycles that it took, at most those that it was given.
    pub cycles: u64,
    /// Whether it ended with a translation.
    pub translated: bool,
}

/// The line that a load on the wrong path accesses, with its latencies in cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrongPathLoad {
    /// The number of the line in physical memory.
    pub line: u64,
    /// A hit in the first-level cache.
    pub l1_latency: u32,
    /// This access.
    pub latency: u32,
}

/// The TLBs, walker and caches that the wrong path uses.
pub trait WrongPathMemory {
    /// Returns the number of the base page that holds `at`.
    fn page(&self, at: u64) -> u64;
    /// Returns the first byte after the base page that holds `at`.
    fn page_end(&self, at: u64) -> u64;
    /// Returns whether the page that holds `at` is mapped.
    fn is_mapped(&self, at: u64) -> bool;
    /// Looks up the page that holds `at`, for at most `within` cycles.
    fn look_up(&mut self, kind: Kind, at: u64, within: u64) -> WrongPathLookup;
    /// Walks for the page that holds `at`, for at most `within` cycles. The last look-up was for that page.
    fn walk(&mut self, kind: Kind, at: u64, within: u64) -> WrongPathWalk;
    /// Returns whether the first-level cache has the line of `at`, on the page that was last translated for data.
    fn is_in_l1(&self, at: u64) -> bool;
    /// Loads from `at` in cycle `from`. `at` lies on the page that was last translated for data.
    fn load(&mut self, core: &mut OooCore, at: u64, from: u64) -> WrongPathLoad;
    /// Fetches `bytes`, on the page that was last translated for a fetch. Returns by how many cycles that exceeds a hit.
    fn fetch(&mut self, bytes: ByteRange) -> u64;
}

/// The begin of a wrong path.
#[derive(Clone, Copy, Debug)]
pub(super) enum WrongPathStart {
    /// The block that starts at this address.
    Block(u64),
    /// The instruction after the dispatched one.
    AfterDispatched {
        block: BlockId,
        /// The number of the block's first reference in the execution history.
        first_reference: u32,
        /// The index of the instruction in the block.
        next: u32,
    },
}

/// The state of the pipeline on the wrong path. All else is the core's.
struct WrongPath<'a> {
    /// The cycle in which everything on it is squashed.
    end: u64,
    fetch_stage: InOrderStage,
    dispatch_stage: InOrderStage,
    registers: RegisterTimes,
    /// The dispatch cycles of its instructions.
    dispatched: Vec<u64>,
    /// How many entries of the reorder buffer and of the load and store queues it has allocated.
    rob_entries: usize,
    load_entries: usize,
    store_entries: usize,
    schedulers: Schedulers,
    /// The registers that it has taken.
    registers_taken: Taken,
    /// The base page that was fetched from last. `None` at first.
    page: Option<u64>,
    convergence: Convergence<'a>,
}

/// The next instruction of a wrong path.
#[derive(Clone, Copy)]
struct NextInst<'a> {
    inst: &'a Inst,
    /// Its index in its block.
    index: usize,
    /// The number of its first reference in the execution history.
    first_reference: u32,
}

impl NextInst<'_> {
    /// Returns the number of its reference `at` in the execution history.
    fn reference(&self, at: u8) -> u32 {
        self.first_reference + u32::from(at)
    }
}

/// A load or store on a wrong path.
#[derive(Clone, Copy)]
struct SquashedReference {
    /// Its number in the execution history.
    number: u32,
    /// Its address, if the right path tells it.
    joined: Option<u64>,
    /// The cycle in which it starts.
    issued: u64,
    /// The cycle in which it is squashed.
    end: u64,
}

/// Buffers of wrong paths, reused between them.
#[derive(Clone, Debug, Default)]
pub(super) struct Buffers {
    dispatched: Vec<u64>,
    schedulers: Schedulers,
    found: Vec<Found>,
}

impl OooCore {
    /// Runs the wrong path of a mispredicted branch until the branch is resolved. `right` begins with the fetch behind it.
    ///
    /// Does nothing without a predicted target, and where the machine does not model the wrong path.
    pub fn run_wrong_path(
        &mut self,
        code: &Code,
        misprediction: &Misprediction,
        right: RightPath,
        memory: &mut impl WrongPathMemory,
    ) {
        let Some(target) = misprediction.target.filter(|_| self.config.wrong_path) else { return };
        let Misprediction { branch, end, until, .. } = *misprediction;
        self.predictor.begin_wrong_path(Some(WrongTurn { branch, end, target }));
        self.run_squashed(code, WrongPathStart::Block(target), until, right, memory);
        self.predictor.end_wrong_path();
    }

    /// Fetches and executes instructions from `start` on until cycle `end`, which squashes them. `right` follows `start`
    /// on the right path.
    pub(super) fn run_squashed(
        &mut self,
        code: &Code,
        start: WrongPathStart,
        end: u64,
        right: RightPath,
        memory: &mut impl WrongPathMemory,
    ) {
        let Buffers { mut dispatched, mut schedulers, found } = std::mem::take(&mut self.wrong_path_buffers);
        dispatched.clear();
        schedulers.copy_from(&self.schedulers);
        let mut path = WrongPath {
            end,
            fetch_stage: self.fetch_stage,
            dispatch_stage: self.dispatch_stage,
            registers: self.registers,
            dispatched,
            rob_entries: 0,
            load_entries: 0,
            store_entries: 0,
            schedulers,
            registers_taken: [0; 2],
            page: None,
            convergence: Convergence::apart(right, self.rob.capacity(), found),
        };
        self.history.begin_wrong_path();
        let next = match start {
            WrongPathStart::Block(at) => self.fetch_on_wrong_path(code, &mut path, at, memory),
            WrongPathStart::AfterDispatched { block, first_reference, next } => {
                self.place_dispatched(&mut path);
                Some((block, first_reference, next))
            }
        };
        self.follow_wrong_path(code, &mut path, next, memory);
        let WrongPath { dispatched, schedulers, convergence, .. } = path;
        self.wrong_path_buffers = Buffers { dispatched, schedulers, found: convergence.into_buffer() };
    }

    /// Executes from instruction `next` on: a block, the number of its first reference and an index.
    fn follow_wrong_path(
        &mut self,
        code: &Code,
        path: &mut WrongPath,
        mut next: Option<(BlockId, u32, u32)>,
        memory: &mut impl WrongPathMemory,
    ) {
        while let Some((block, first_reference, index)) = next {
            let insts = code.of(block);
            for (index, inst) in insts.iter().enumerate().skip(index as usize) {
                let first_reference = first_reference + u32::from(inst.first_reference);
                if !self.dispatch_on_wrong_path(path, NextInst { inst, index, first_reference }, memory) {
                    return;
                }
            }
            let span = *code.span(block);
            let branch = insts.last().map_or(BranchKind::None, |last| last.branch);
            next = self.predictor.predict(branch, span.start, span.end, span.target).and_then(|to| {
                if to != span.end {
                    path.fetch_stage.end_cycle();
                }
                self.fetch_on_wrong_path(code, path, to, memory)
            });
        }
    }

    /// Places the dispatched instruction on the wrong path behind it: its entries, and its results although they are
    /// wrong.
    fn place_dispatched(&self, path: &mut WrongPath) {
        let Some(dispatched) = &self.inst else { return };
        path.rob_entries = 1;
        path.load_entries = dispatched.loads as usize;
        path.store_entries = self.pending_stores.len();
        let ready = self.registers.all_known(dispatched.inst.sources, dispatched.loaded.max(dispatched.address_ready));
        let result = ready + self.execution_latency(dispatched.inst.class, true);
        path.registers_taken = self.registers_in_flight.taken_by(&dispatched.inst);
        let Starts { load, store, .. } = dispatched.starts;
        let starts = Starts { load, store: store.max(result), operation: ready };
        path.schedulers.hold(&dispatched.inst, dispatched.dispatched, starts);
        path.registers.set(dispatched.inst.targets, result);
        path.convergence.stay_behind(&dispatched.inst);
    }

    /// Fetches the block that starts at `at`. Returns it with the number of its first reference and the index 0. `None` if
    /// the core has not executed it, or it has no translation before the end.
    fn fetch_on_wrong_path(
        &mut self,
        code: &Code,
        path: &mut WrongPath,
        at: u64,
        memory: &mut impl WrongPathMemory,
    ) -> Option<(BlockId, u32, u32)> {
        let (block, first_reference) = self.history.block_at(at)?;
        let span = code.span(block);
        let mut start = span.start;
        let mut slowest = 0;
        while start < span.end {
            if path.fetch_stage.cycle >= path.end {
                return None;
            }
            let page = memory.page(start);
            if path.page != Some(page) {
                self.fetch_page_on_wrong_path(path, start, memory)?;
                path.page = Some(page);
            }
            let end = span.end.min(memory.page_end(start));
            slowest = slowest.max(memory.fetch(ByteRange { start, end }));
            start = end;
        }
        path.fetch_stage.stall_until(path.fetch_stage.cycle + slowest);
        path.convergence.enter(block, code);
        Some((block, first_reference, 0))
    }

    /// Translates the page of `at` for a fetch. `None` if there is no translation before the end.
    fn fetch_page_on_wrong_path(
        &mut self,
        path: &mut WrongPath,
        at: u64,
        memory: &mut impl WrongPathMemory,
    ) -> Option<()> {
        let now = path.fetch_stage.cycle;
        let replay = u64::from(self.config.itlb_replay);
        match memory.look_up(Kind::Fetch, at, path.end - now) {
            WrongPathLookup::Hit(0) => {}
            WrongPathLookup::Hit(latency) => _ = path.fetch_stage.stall_until(now + latency + replay),
            WrongPathLookup::Unusable => return None,
            WrongPathLookup::Miss(latency) => {
                let walked = self.walk_on_wrong_path(Kind::Fetch, at, now + latency, path.end, memory)?;
                path.fetch_stage.stall_until(walked + replay);
            }
        }
        Some(())
    }

    /// Walks for the page of `at` from cycle `from` on. Returns the cycle in which there is a translation. `None` if
    /// there is none before cycle `end`.
    fn walk_on_wrong_path(
        &mut self,
        kind: Kind,
        at: u64,
        from: u64,
        end: u64,
        memory: &mut impl WrongPathMemory,
    ) -> Option<u64> {
        let start = self.walkers.free_until(self.request_floor(), from, end)?;
        let walk = memory.walk(kind, at, end - start);
        let walked = start + walk.cycles;
        self.walkers.record(start, walked);
        walk.translated.then_some(walked)
    }

    /// Dispatches and executes the next instruction. Returns whether another may follow.
    fn dispatch_on_wrong_path(
        &mut self,
        path: &mut WrongPath,
        next: NextInst,
        memory: &mut impl WrongPathMemory,
    ) -> bool {
        let inst = next.inst;
        let width = self.config.width;
        let number = path.dispatched.len();
        let entry_free = match number.checked_sub(self.fetch_queue.capacity()) {
            Some(own) => path.dispatched[own],
            None => self.fetch_queue.free_after(number),
        };
        let fetched = path.fetch_stage.pass(entry_free, width);
        if fetched >= path.end || path.rob_entries >= self.rob.capacity() {
            return false;
        }
        let Some(registers_free) = self.registers_in_flight.free_after(path.registers_taken, inst) else {
            return false;
        };
        let decoded = fetched + u64::from(self.config.front_end_depth);
        let entries_free = self.rob.free_after(path.rob_entries).max(registers_free);
        let ready = path.schedulers.free_for(inst, decoded.max(entries_free).max(path.dispatch_stage.cycle));
        let mut dispatched = path.dispatch_stage.pass(ready, width);
        for _ in 0..inst.loads {
            if path.load_entries >= self.load_queue.capacity() {
                return false;
            }
            dispatched = path.dispatch_stage.delay_last(dispatched, self.load_queue.free_after(path.load_entries));
            path.load_entries += 1;
        }
        for _ in 0..inst.stores {
            let Some(free) = self.store_queue.free_after(path.store_entries) else { return false };
            dispatched = path.dispatch_stage.delay_last(dispatched, free);
            path.store_entries += 1;
        }
        path.dispatched.push(dispatched);
        path.rob_entries += 1;
        let [integer, vector] = self.registers_in_flight.taken_by(inst);
        path.registers_taken = [path.registers_taken[0] + integer, path.registers_taken[1] + vector];
        self.statistics.squashed += 1;
        let result = match dispatched < path.end {
            true => self.execute_on_wrong_path(path, next, dispatched, memory),
            false => path.end,
        };
        path.convergence.execute(inst);
        path.registers.set(inst.targets, result);
        true
    }

    /// Executes an instruction. Returns the cycle in which its result is known, or the end of the path if that is
    /// earlier.
    fn execute_on_wrong_path(
        &mut self,
        path: &mut WrongPath,
        next: NextInst,
        dispatched: u64,
        memory: &mut impl WrongPathMemory,
    ) -> u64 {
        let NextInst { inst, .. } = next;
        let end = path.end;
        let address_ready = path.registers.all_known(inst.address, dispatched + 1);
        let sources_ready = path.registers.all_known(inst.sources, 0);
        let mut starts = Starts::default();
        let mut loaded = address_ready;
        for number in 0..inst.loads {
            let joined = path.convergence.address(inst, next.index, Kind::Load);
            let Some(issued) = self.ports.book_before(self.request_floor(), address_ready, Port::Load, end) else {
                (starts.load, loaded) = (end, end);
                continue;
            };
            let load = SquashedReference { number: next.reference(number), joined, issued, end };
            starts.load = starts.load.max(issued);
            loaded = loaded.max(self.load_on_wrong_path(load, memory));
        }
        for number in 0..inst.stores {
            let joined = path.convergence.address(inst, next.index, Kind::Store);
            let Some(issued) = self.ports.book_before(self.request_floor(), address_ready, Port::Store, end) else {
                starts.store = end;
                continue;
            };
            let number = next.reference(inst.loads + number);
            starts.store = starts.store.max(issued);
            self.store_on_wrong_path(SquashedReference { number, joined, issued, end }, memory);
        }
        let ready = loaded.max(sources_ready);
        let result = match self.execution_latency(inst.class, inst.loads > 0 || inst.stores > 0) {
            0 => ready.min(end),
            latency => {
                let issued = self.ports.book_before(self.request_floor(), ready, Port::Any, end);
                starts.operation = issued.unwrap_or(end);
                (starts.operation + latency).min(end)
            }
        };
        starts.store = starts.store.max(result);
        path.schedulers.hold(inst, dispatched, starts);
        result
    }

    /// Returns the address of a reference, and remembers it. `None` if nothing tells it.
    fn squashed_address(&mut self, reference: &SquashedReference, memory: &impl WrongPathMemory) -> Option<u64> {
        match reference.joined {
            Some(at) => {
                self.history.expect_address(reference.number, at);
                Some(at)
            }
            None => self.history.predict_address(reference.number, |at| memory.is_mapped(at)),
        }
    }

    /// Executes a load. Returns the cycle in which its data is known, or the end of the path if that is earlier.
    fn load_on_wrong_path(&mut self, load: SquashedReference, memory: &mut impl WrongPathMemory) -> u64 {
        let SquashedReference { issued, end, .. } = load;
        let Some(at) = self.squashed_address(&load, memory) else { return end };
        self.statistics.squashed_loads += 1;
        let Some(translated) = self.translate_on_wrong_path(Kind::Load, at, issued, end, memory) else { return end };
        let floor = self.request_floor();
        if !memory.is_in_l1(at) && self.l1_mshrs.earliest_start(floor, translated, 1) >= end {
            return end;
        }
        let WrongPathLoad { line, l1_latency, latency } = memory.load(self, at, translated);
        let hit = translated + u64::from(l1_latency);
        if let Some(store) = self.store_queue.forward(ByteRange { start: at, end: at + 1 }, translated) {
            return hit.max(store.data_known + u64::from(l1_latency)).min(end);
        }
        let miss_latency = if latency > l1_latency { latency } else { 0 };
        hit.max(self.get_line(line, translated, miss_latency, false)).min(end)
    }

    /// Executes the address part of a store.
    fn store_on_wrong_path(&mut self, store: SquashedReference, memory: &mut impl WrongPathMemory) {
        let SquashedReference { issued, end, .. } = store;
        let Some(at) = self.squashed_address(&store, memory) else { return };
        self.statistics.squashed_stores += 1;
        self.translate_on_wrong_path(Kind::Store, at, issued, end, memory);
    }

    /// Translates `at` from cycle `issued` on. Returns the cycle in which it is translated. `None` if that is not
    /// before cycle `end`.
    fn translate_on_wrong_path(
        &mut self,
        kind: Kind,
        at: u64,
        issued: u64,
        end: u64,
        memory: &mut impl WrongPathMemory,
    ) -> Option<u64> {
        let page = memory.page(at);
        let slot = page as usize % PENDING_WALKS;
        let translated = match memory.look_up(kind, at, end - issued) {
            WrongPathLookup::Unusable => return None,
            WrongPathLookup::Miss(latency) => {
                let walked = self.walk_on_wrong_path(kind, at, issued + latency, end, memory)?;
                self.pending_walks[slot] = (page, walked);
                walked
            }
            WrongPathLookup::Hit(latency) if self.pending_walks[slot].0 == page => {
                (issued + latency).max(self.pending_walks[slot].1)
            }
            WrongPathLookup::Hit(latency) => issued + latency,
        };
        (translated < end).then_some(translated)
    }
}
