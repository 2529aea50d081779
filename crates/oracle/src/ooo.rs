//! The twin of [`reach_hardware::ooo::OooCore`]: the times of every instruction, computed from a list of all
//! instructions before it, by the rules at the head of that module. It forgets nothing, and finds everything by looking
//! at everything.
//!
//! It shares with its twin the decoded instructions, the costs of references and the branch predictor.

use reach_core::Kind;
use reach_hardware::config::{self, Operation};
use reach_hardware::ooo::{
    BlockSpan, BranchKind, ByteRange, Inst, MemoryReference, OpClass, Predictor, TranslationCost, WrongPathLoad,
    WrongPathLookup, WrongPathWalk, WrongTurn,
};
use std::collections::HashMap;

mod convergence;
mod resources;
mod wrong_path;

pub use convergence::RightBlock;

use resources::{Interval, Port, first_free, miss_latency};

/// How many times in a row a load must not have conflicted before it is trusted.
const TRUSTED: u32 = 15;

/// A load or store of an instruction.
#[derive(Clone, Copy, Debug)]
pub struct DataReference {
    /// Whether it stores.
    pub is_store: bool,
    /// Its bytes and costs.
    pub reference: MemoryReference,
}

/// The memory that the wrong path uses: [`reach_hardware::ooo::WrongPathMemory`] whose answers never change.
#[expect(missing_docs, reason = "documented there")]
pub trait FixedMemory {
    fn page(&self, at: u64) -> u64;
    fn is_mapped(&self, at: u64) -> bool;
    fn look_up(&self, kind: Kind, at: u64, within: u64) -> WrongPathLookup;
    fn walk(&self, kind: Kind, at: u64, within: u64) -> WrongPathWalk;
    fn is_in_l1(&self, at: u64) -> bool;
    fn load(&self, at: u64) -> WrongPathLoad;
    fn fetch(&self, bytes: ByteRange) -> u64;
}

/// An instruction of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct InstId {
    /// The index of its block.
    pub block: usize,
    /// Its index in the block.
    pub index: usize,
}

/// One of an instruction's loads or stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct ReferenceId {
    inst: InstId,
    is_store: bool,
    /// Its index among the instruction's loads, or among its stores.
    index: usize,
}

/// The cycles of an instruction that retired.
#[derive(Clone, Copy, Debug, Default)]
struct InstTimes {
    fetched: u64,
    dispatched: u64,
    retired: u64,
}

/// A store that retired.
#[derive(Clone, Copy, Debug)]
struct Store {
    bytes: ByteRange,
    address_known: u64,
    data_known: u64,
    written: u64,
}

/// Counts of work that did not retire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Squashes {
    /// Instructions that were dispatched and squashed.
    pub instructions: u64,
    /// Loads that were repeated after a machine clear.
    pub repeated_loads: u64,
}

/// A core that remembers everything.
pub struct NaiveOooCore {
    config: config::OooCore,
    walkers: usize,
    /// Nothing is fetched before this cycle.
    fetch_floor: u64,
    /// The cycle in which the last instruction was complete.
    completed: u64,
    /// The cycle in which all predicted translations are verified.
    verified: u64,
    /// All instructions that retired.
    retired: Vec<InstTimes>,
    /// The retirement of each load's instruction.
    loads: Vec<u64>,
    stores: Vec<Store>,
    /// The port and the cycle of each start.
    starts: Vec<(Port, u64)>,
    walks: Vec<Interval>,
    misses: Vec<Interval>,
    fills: Vec<Interval>,
    /// The scheduler and the last start of each instruction's parts that it serves.
    waits: Vec<(u8, u64)>,
    /// The retirements of the instructions that took integer and vector registers, once for each register.
    taken: [Vec<u64>; 2],
    /// When lines occupied the memory channel.
    transfers: Vec<Interval>,
    /// By hash, the page of the last walk and its end.
    pending_walks: Vec<Option<(u64, u64)>>,
    /// By hash, the line of the last miss and its end.
    pending_misses: Vec<Option<(u64, u64)>>,
    registers: [u64; 64],
    program: Vec<(BlockSpan, Vec<Inst>)>,
    predictor: Predictor,
    /// The addresses of each reference, and whether the last one missed the first-level TLB.
    addresses: HashMap<ReferenceId, (Vec<u64>, bool)>,
    /// How many times in a row each load did not conflict with a store of unknown address.
    trust: HashMap<ReferenceId, u32>,
    /// The blocks that were executed.
    executed: Vec<usize>,
    /// The work that did not retire so far.
    pub squashes: Squashes,
}

impl NaiveOooCore {
    /// Creates an idle core with `walkers` page walkers, to execute the blocks of `program`.
    pub fn new(config: config::OooCore, walkers: u32, program: Vec<(BlockSpan, Vec<Inst>)>) -> NaiveOooCore {
        NaiveOooCore {
            config,
            walkers: walkers as usize,
            fetch_floor: 0,
            completed: 0,
            verified: 0,
            retired: Vec::new(),
            loads: Vec::new(),
            stores: Vec::new(),
            starts: Vec::new(),
            walks: Vec::new(),
            misses: Vec::new(),
            fills: Vec::new(),
            waits: Vec::new(),
            taken: [Vec::new(), Vec::new()],
            transfers: Vec::new(),
            pending_walks: vec![None; 64],
            pending_misses: vec![None; 256],
            registers: [0; 64],
            program,
            predictor: Predictor::new(&config.predictor),
            addresses: HashMap::new(),
            trust: HashMap::new(),
            executed: Vec::new(),
            squashes: Squashes::default(),
        }
    }

    /// Returns the cycle in which the last instruction retired.
    pub fn now(&self) -> u64 {
        self.retired.last().map_or(0, |last| last.retired)
    }

    fn last_fetch(&self) -> u64 {
        self.fetch_floor.max(self.retired.last().map_or(0, |last| last.fetched))
    }

    /// Ends block number `block`: the program continues at address `next`, with the blocks `right`.
    pub fn resolve_branch(&mut self, block: usize, next: u64, right: &[RightBlock], memory: &impl FixedMemory) {
        let (span, insts) = &self.program[block];
        let span = *span;
        let branch = insts[insts.len() - 1].branch;
        let prediction = self.predictor.learn(branch, span.start, span.end, next);
        if prediction.correct {
            if next != span.end {
                self.fetch_floor = self.last_fetch() + 1;
            }
            return;
        }
        let target = match branch {
            BranchKind::Conditional if next == span.end => span.target,
            BranchKind::Conditional => Some(span.end),
            _ => prediction.target,
        };
        let resolved = self.completed + 1;
        if let Some(target) = target.filter(|_| self.config.wrong_path) {
            self.predictor.begin_wrong_path(Some(WrongTurn { branch, end: span.end, target }));
            self.run_to(target, resolved, right, memory);
            self.predictor.end_wrong_path();
        }
        self.fetch_floor = self.last_fetch().max(resolved);
    }

    /// Starts block number `block`, which has been fetched.
    pub fn start_block(&mut self, block: usize) {
        self.executed.push(block);
    }

    /// Stalls fetching for a translation, and then for the lines of a block by `line_delay` cycles.
    pub fn fetch(&mut self, translation: TranslationCost, line_delay: u32) {
        let mut at = self.last_fetch() + u64::from(translation.tlb);
        let mut walk = u64::from(translation.walk);
        if walk > 0 {
            walk += self.delay_walk(at, translation.memory_reads);
            at = first_free(&self.walks, self.walkers, at, walk) + walk;
            self.walks.push((at - walk, at));
        }
        if translation.hidden_walk > 0 {
            self.verify(at, translation);
        }
        if translation.tlb > 0 || walk > 0 {
            at += u64::from(self.config.itlb_replay);
        }
        self.fetch_floor = at + u64::from(line_delay);
    }

    /// Drains the pipeline for the operating system.
    pub fn serialise(&mut self) {
        self.fetch_floor = self.last_fetch().max(self.now());
    }

    /// Returns the times of the instruction `distance` before the next one; all 0 if there was none.
    fn before(&self, distance: u32) -> InstTimes {
        self.retired.len().checked_sub(distance as usize).map_or(InstTimes::default(), |at| self.retired[at])
    }

    /// Returns the first cycle, at or after `earliest` and the last instruction's, in which fewer than `width`
    /// instructions passed the `stage`.
    fn in_order(&self, earliest: u64, stage: impl Fn(&InstTimes) -> u64) -> u64 {
        let mut at = earliest.max(self.retired.last().map_or(0, &stage));
        while self.retired.iter().filter(|times| stage(times) == at).count() >= self.config.width as usize {
            at += 1;
        }
        at
    }

    /// Executes instruction `id`, the next of the program, with its references. `right` is the program behind each of
    /// these.
    pub fn execute(
        &mut self,
        id: InstId,
        references: &[DataReference],
        right: impl Fn(usize) -> Vec<RightBlock>,
        memory: &impl FixedMemory,
    ) {
        let inst = self.program[id.block].1[id.index];
        let front_end = u64::from(self.config.front_end_depth);
        let queued = self.before(self.config.fetch_queue).dispatched;
        let mut fetched = self.in_order(self.fetch_floor.max(queued), |times| times.fetched);
        let registers_free = self.registers_free(&inst, &self.taken).expect("registers for one instruction");
        let entries_free = self.before(self.config.rob).retired.max(registers_free);
        let entries_free = entries_free.max(self.scheduler_entry(&inst, &self.waits));
        let ready = entries_free.max(fetched + front_end);
        let mut dispatched = self.in_order(ready, |times| times.dispatched);
        // No later instruction requests anything before this.
        let floor = |dispatched: u64, fetched: u64| dispatched.min(fetched);
        let address = inst.address.map(|register| self.registers[register as usize]);
        let address = address[0].max(address[1]);
        let (mut loaded, mut addresses_known, mut loads) = (0, 0, 0);
        let mut starts = [0; 4];
        let mut pending_stores: Vec<(MemoryReference, u64)> = Vec::new();
        let mut recorded = [0; 2];
        for (number, &DataReference { is_store, reference }) in references.iter().enumerate() {
            let entry_free = if is_store {
                let writer = self.stores.len().checked_sub(self.config.store_queue as usize);
                writer.map_or(0, |at| self.stores[at].written)
            } else {
                self.loads.len().checked_sub(self.config.load_queue as usize).map_or(0, |at| self.loads[at])
            };
            dispatched = dispatched.max(entry_free);
            let own = &mut recorded[usize::from(is_store)];
            let limit = if is_store { inst.stores } else { inst.loads };
            let name = (*own < usize::from(limit)).then_some(ReferenceId { inst: id, is_store, index: *own });
            *own += usize::from(name.is_some());
            let address_ready = address.max(dispatched + 1);
            let port = if is_store { Port::Store } else { Port::Load };
            let issued = self.book_port(floor(dispatched, fetched), address_ready, port, u64::MAX).unwrap();
            let part = if is_store { Operation::Store } else { Operation::Load };
            starts[part as usize] = issued.max(starts[part as usize]);
            let translated = self.translate(issued, &reference);
            if is_store {
                pending_stores.push((reference, translated));
                addresses_known = addresses_known.max(translated);
            } else {
                let l1_latency = u64::from(reference.l1_latency);
                let store = self.store_in_flight(reference.bytes, translated);
                let conflict = store.is_some_and(|store| store.address_known > translated);
                let (mut reads, mut clear) = (translated, None);
                if let Some(name) = name {
                    let trust = self.trust.entry(name).or_default();
                    if *trust < TRUSTED {
                        reads = self.stores.iter().map(|store| store.address_known).fold(reads, u64::max);
                    } else if conflict {
                        clear = store.map(|store| store.address_known + 1);
                    }
                    *trust = if conflict { 0 } else { *trust + 1 };
                }
                let ahead = reference.translation.data_ahead;
                let requested = if ahead { issued + u64::from(reference.translation.tlb) } else { reads };
                let done = match store {
                    Some(store) if clear.is_none() => reads.max(store.data_known) + l1_latency,
                    _ => self.get_line(reference.line, requested, miss_latency(&reference), 1).max(reads + l1_latency),
                };
                loaded = loaded.max(done);
                loads += 1;
                if let Some(clear) = clear {
                    self.squashes.repeated_loads += 1;
                    if self.config.wrong_path {
                        let sources = inst.sources.map(|register| self.registers[register as usize]);
                        let ready = sources.into_iter().fold(loaded.max(address.max(dispatched + 1)), u64::max);
                        let latency = if inst.class == OpClass::Move { 0 } else { self.latency(inst.class) };
                        let before = wrong_path::Before {
                            times: InstTimes { fetched, dispatched, retired: 0 },
                            loads,
                            stores: pending_stores.len(),
                            result: ready + latency,
                            starts,
                            ready,
                        };
                        self.predictor.begin_wrong_path(None);
                        self.run_behind(id, before, clear, &right(number), memory);
                        self.predictor.end_wrong_path();
                    }
                    fetched = clear;
                    dispatched = entries_free.max(fetched + front_end);
                    let ready = address.max(dispatched + 1);
                    let issued = self.book_port(floor(dispatched, fetched), ready, Port::Load, u64::MAX).unwrap();
                    starts[Operation::Load as usize] = issued;
                    let store = self.store_in_flight(reference.bytes, issued);
                    loaded = store.map_or(issued, |store| store.data_known.max(issued)) + l1_latency;
                }
            }
            if let Some(name) = name {
                let (addresses, missed) = self.addresses.entry(name).or_default();
                addresses.push(reference.bytes.start);
                *missed = reference.translation != TranslationCost::default();
            }
        }
        let sources = inst.sources.map(|register| self.registers[register as usize]);
        let ready = sources.into_iter().fold(loaded.max(address).max(dispatched + 1), u64::max);
        let result = match inst.class {
            OpClass::Move if !references.is_empty() => ready,
            class => {
                let issued = self.book_port(floor(dispatched, fetched), ready, Port::Any, u64::MAX);
                starts[Operation::Integer as usize] = issued.unwrap();
                issued.unwrap() + self.latency(class)
            }
        };
        if references.iter().any(|reference| reference.is_store) {
            starts[Operation::Store as usize] = result.max(starts[Operation::Store as usize]);
        }
        self.waits.extend(self.holds(&inst, starts));
        for register in inst.targets {
            self.registers[register as usize] = result;
        }
        self.completed = result.max(addresses_known);
        let retired = self.in_order(self.completed.max(self.verified) + 1, |times| times.retired);
        self.retired.push(InstTimes { fetched, dispatched, retired });
        let numbers = self.takes(&inst);
        for (taken, number) in self.taken.iter_mut().zip(numbers) {
            taken.extend(std::iter::repeat_n(retired, number));
        }
        self.loads.extend((0..loads).map(|_| retired));
        for (reference, translated) in pending_stores {
            let line_ready = self.get_line(reference.line, retired, miss_latency(&reference), 2);
            let last = self.stores.last().map_or(0, |store| store.written);
            self.stores.push(Store {
                bytes: reference.bytes,
                address_known: translated,
                data_known: result.max(translated),
                written: line_ready.max(retired).max(last + 1),
            });
        }
    }
}
