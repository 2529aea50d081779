//! The wrong path in the naive core.

use super::convergence::{Convergence, RightBlock};
use super::resources::{Port, first_free};
use super::{FixedMemory, InstId, InstTimes, NaiveOooCore, ReferenceId};
use reach_core::Kind;
use reach_hardware::config::Operation;
use reach_hardware::ooo::{ByteRange, Inst, OpClass, WrongPathLoad, WrongPathLookup};
use std::collections::HashMap;

/// The state of an instruction whose load violated memory order, when the wrong path behind it begins.
pub(super) struct Before {
    /// Its fetch and its dispatch.
    pub times: InstTimes,
    /// The loads and stores that it has executed.
    pub loads: usize,
    pub stores: usize,
    /// The cycle in which its result is known.
    pub result: u64,
    /// When its loads and stores started, by kind.
    pub starts: [u64; 4],
    /// When its operation can start.
    pub ready: u64,
}

/// A pipeline stage: fetch or dispatch.
type Stage = fn(&InstTimes) -> u64;

/// A wrong path.
struct WrongPath {
    /// The cycle in which everything on it is squashed.
    end: u64,
    /// The fetch and dispatch of its instructions.
    times: Vec<InstTimes>,
    /// Nothing is fetched before this cycle.
    fetch_floor: u64,
    /// The last fetch and dispatch before it.
    last: InstTimes,
    /// How many instructions were fetched and dispatched in these cycles.
    last_fetched: usize,
    last_dispatched: usize,
    /// 1 if an instruction that has not retired precedes it, else 0.
    preceding: usize,
    /// The queue entries that it and the preceding instruction have allocated.
    loads: usize,
    stores: usize,
    /// Until when instructions hold entries of schedulers, those before this path included.
    waits: Vec<(u8, u64)>,
    /// The registers that were taken, by those on this path until the cycle `u64::MAX`.
    taken: [Vec<u64>; 2],
    /// When the parts of the current instruction start, by kind.
    starts: [u64; 4],
    registers: [u64; 64],
    page: Option<u64>,
    /// The last address that was predicted for each reference.
    predicted: HashMap<ReferenceId, u64>,
    convergence: Convergence,
}

impl WrongPath {
    /// Returns the first cycle, at or after `earliest` and the last instruction's, in which the `stage` has room.
    /// `earlier` instructions passed it in the last cycle before this path.
    fn in_order(&self, earliest: u64, width: usize, stage: Stage, earlier: usize) -> u64 {
        let before = stage(&self.last);
        let mut at = earliest.max(before).max(self.times.last().map_or(0, stage));
        loop {
            let own = self.times.iter().filter(|times| stage(times) == at).count();
            if own + if before == at { earlier } else { 0 } < width {
                return at;
            }
            at += 1;
        }
    }

    fn last_fetch(&self) -> u64 {
        self.fetch_floor.max(self.last.fetched).max(self.times.last().map_or(0, |times| times.fetched))
    }
}

impl NaiveOooCore {
    fn wrong_path(&self, end: u64, last: InstTimes, preceding: usize, right: &[RightBlock]) -> WrongPath {
        let passed = |stage: Stage| {
            let at = stage(&last);
            preceding + self.retired.iter().filter(|times| stage(times) == at).count()
        };
        WrongPath {
            end,
            times: Vec::new(),
            fetch_floor: last.fetched,
            last,
            last_fetched: passed(|times| times.fetched),
            last_dispatched: passed(|times| times.dispatched),
            preceding,
            loads: 0,
            stores: 0,
            waits: self.waits.clone(),
            taken: self.taken.clone(),
            starts: [0; 4],
            registers: self.registers,
            page: None,
            predicted: HashMap::new(),
            convergence: Convergence::new(
                right,
                self.program.iter().map(|(_, insts)| insts.clone()).collect(),
                self.config.rob as usize,
            ),
        }
    }

    /// Runs the wrong path from `target` on beside `right`, until cycle `end`.
    pub(super) fn run_to(&mut self, target: u64, end: u64, right: &[RightBlock], memory: &impl FixedMemory) {
        let dispatched = self.retired.last().map_or(0, |times| times.dispatched);
        let last = InstTimes { fetched: self.last_fetch(), dispatched, retired: 0 };
        let mut path = self.wrong_path(end, last, 0, right);
        let block = self.fetch_block(&mut path, target, memory);
        self.run_wrong_path(path, block.map(|block| InstId { block, index: 0 }), memory);
    }

    /// Runs what follows instruction `id`, which is not among the retired, until cycle `end`.
    pub(super) fn run_behind(
        &mut self,
        id: InstId,
        before: Before,
        end: u64,
        right: &[RightBlock],
        memory: &impl FixedMemory,
    ) {
        let mut path = self.wrong_path(end, before.times, 1, right);
        path.convergence.stay_behind(&self.program[id.block].1[id.index]);
        (path.loads, path.stores) = (before.loads, before.stores);
        self.take(&mut path, &self.program[id.block].1[id.index]);
        let [_, _, load, store] = before.starts;
        let starts = [before.ready, 0, load, store.max(before.result)];
        path.waits.extend(self.holds(&self.program[id.block].1[id.index], starts));
        for register in self.program[id.block].1[id.index].targets {
            path.registers[register as usize] = before.result;
        }
        self.run_wrong_path(path, Some(InstId { index: id.index + 1, ..id }), memory);
    }

    /// Takes registers for an instruction that does not retire.
    fn take(&self, path: &mut WrongPath, inst: &Inst) {
        for (taken, number) in path.taken.iter_mut().zip(self.takes(inst)) {
            taken.extend(std::iter::repeat_n(u64::MAX, number));
        }
    }

    fn run_wrong_path(&mut self, mut path: WrongPath, mut next: Option<InstId>, memory: &impl FixedMemory) {
        let floor = path.last.fetched.min(path.last.dispatched);
        while let Some(InstId { block, index: first }) = next {
            let (span, insts) = self.program[block].clone();
            for (index, inst) in insts.iter().enumerate().skip(first) {
                if !self.dispatch_on(&mut path, InstId { block, index }, inst, floor, memory) {
                    return;
                }
            }
            let branch = insts[insts.len() - 1].branch;
            next = self.predictor.predict(branch, span.start, span.end, span.target).and_then(|to| {
                if to != span.end {
                    path.fetch_floor = path.last_fetch() + 1;
                }
                self.fetch_block(&mut path, to, memory).map(|block| InstId { block, index: 0 })
            });
        }
    }

    /// Fetches the block that starts at `at`. `None` if it was never executed, or is not translated in time.
    fn fetch_block(&mut self, path: &mut WrongPath, at: u64, memory: &impl FixedMemory) -> Option<usize> {
        let block = *self.executed.iter().find(|&&block| self.program[block].0.start == at)?;
        let span = self.program[block].0;
        let replay = u64::from(self.config.itlb_replay);
        let mut slowest = 0;
        let mut start = span.start;
        while start < span.end {
            let now = path.last_fetch();
            if now >= path.end {
                return None;
            }
            let page = memory.page(start);
            if path.page != Some(page) {
                match memory.look_up(Kind::Fetch, start, path.end - now) {
                    WrongPathLookup::Hit(0) => {}
                    WrongPathLookup::Hit(latency) => path.fetch_floor = now + latency + replay,
                    WrongPathLookup::Unusable => return None,
                    WrongPathLookup::Miss(latency) => {
                        let walked = self.walk_until(Kind::Fetch, start, now + latency, path.end, memory)?;
                        path.fetch_floor = walked + replay;
                    }
                }
                path.page = Some(page);
            }
            let end = (start..span.end).find(|at| memory.page(*at) != page).unwrap_or(span.end);
            slowest = slowest.max(memory.fetch(ByteRange { start, end }));
            start = end;
        }
        path.fetch_floor = path.last_fetch() + slowest;
        path.convergence.enter(block);
        Some(block)
    }

    /// Walks from cycle `from` on. Returns when there is a translation. `None` if there is none before `end`.
    fn walk_until(&mut self, kind: Kind, at: u64, from: u64, end: u64, memory: &impl FixedMemory) -> Option<u64> {
        let overlap = |at: u64| self.walks.iter().filter(|walk| walk.0 < end && walk.1 > at).count();
        let mut moments: Vec<u64> = self.walks.iter().map(|walk| walk.1).filter(|&other| other > from).collect();
        moments.push(from);
        moments.sort_unstable();
        let start = moments.into_iter().find(|at| *at < end && overlap(*at) < self.walkers)?;
        let walk = memory.walk(kind, at, end - start);
        self.walks.push((start, start + walk.cycles));
        walk.translated.then_some(start + walk.cycles)
    }

    /// Dispatches and executes the next instruction of the path. Returns whether another may follow.
    fn dispatch_on(
        &mut self,
        path: &mut WrongPath,
        id: InstId,
        inst: &Inst,
        floor: u64,
        memory: &impl FixedMemory,
    ) -> bool {
        let width = self.config.width as usize;
        let own = path.times.len();
        // The previous occupant of the fetch-queue entry: of this path, the preceding instruction, or a retired one.
        let freed = match (own + path.preceding).checked_sub(self.config.fetch_queue as usize) {
            Some(at) if at >= path.preceding => path.times[at - path.preceding].dispatched,
            Some(_) => path.last.dispatched,
            None => self.before(self.config.fetch_queue - (own + path.preceding) as u32).dispatched,
        };
        let fetched = path.in_order(freed.max(path.fetch_floor), width, |times| times.fetched, path.last_fetched);
        let rob = (self.config.rob as usize).checked_sub(own + path.preceding).filter(|left| *left > 0);
        let (true, Some(left)) = (fetched < path.end, rob) else { return false };
        let Some(registers_free) = self.registers_free(inst, &path.taken) else { return false };
        let entries_free = self.before(left as u32).retired.max(registers_free);
        let entries_free = entries_free.max(self.scheduler_entry(inst, &path.waits));
        let ready = entries_free.max(fetched + u64::from(self.config.front_end_depth));
        let mut dispatched = path.in_order(ready, width, |times| times.dispatched, path.last_dispatched);
        for _ in 0..inst.loads {
            let left = (self.config.load_queue as usize).checked_sub(path.loads).filter(|left| *left > 0);
            let Some(left) = left else { return false };
            dispatched = dispatched.max(self.loads.len().checked_sub(left).map_or(0, |at| self.loads[at]));
            path.loads += 1;
        }
        for _ in 0..inst.stores {
            let left = (self.config.store_queue as usize).checked_sub(path.stores).filter(|left| *left > 0);
            let Some(left) = left else { return false };
            dispatched = dispatched.max(self.stores.len().checked_sub(left).map_or(0, |at| self.stores[at].written));
            path.stores += 1;
        }
        path.times.push(InstTimes { fetched, dispatched, retired: 0 });
        self.take(path, inst);
        self.squashes.instructions += 1;
        let mut result = path.end;
        path.starts = [0; 4];
        if dispatched < path.end {
            let known = |register: u8| path.registers[register as usize];
            let address_ready = inst.address.into_iter().map(known).fold(dispatched + 1, u64::max);
            let sources = inst.sources.map(known);
            let mut ready = address_ready;
            for index in 0..usize::from(inst.loads) {
                let name = ReferenceId { inst: id, is_store: false, index };
                let joined = path.convergence.address(id, false);
                let done = self.load_on(path, (name, joined), address_ready, floor, memory);
                ready = ready.max(done.unwrap_or(path.end));
            }
            for index in 0..usize::from(inst.stores) {
                let name = ReferenceId { inst: id, is_store: true, index };
                let joined = path.convergence.address(id, true);
                self.translate_on(path, (name, joined), address_ready, floor, memory);
            }
            ready = sources.into_iter().fold(ready, u64::max);
            result = match inst.class {
                OpClass::Move if inst.loads > 0 || inst.stores > 0 => ready,
                class => {
                    let issued = self.book_port(floor, ready, Port::Any, path.end);
                    path.starts[Operation::Integer as usize] = issued.unwrap_or(path.end);
                    issued.map_or(path.end, |issued| issued + self.latency(class))
                }
            };
        }
        for register in inst.targets {
            path.registers[register as usize] = result.min(path.end);
        }
        let store = &mut path.starts[Operation::Store as usize];
        *store = result.min(path.end).max(*store);
        path.waits.extend(self.holds(inst, path.starts));
        path.convergence.execute(inst);
        true
    }

    /// Issues and translates a reference, whose address the right path may tell. Returns its address, and the cycle in which that is translated. `None` if it
    /// is not translated before the path ends.
    fn translate_on(
        &mut self,
        path: &mut WrongPath,
        (name, joined): (ReferenceId, Option<u64>),
        address_ready: u64,
        floor: u64,
        memory: &impl FixedMemory,
    ) -> Option<(u64, u64)> {
        let (kind, port) = if name.is_store { (Kind::Store, Port::Store) } else { (Kind::Load, Port::Load) };
        let issued = self.book_port(floor, address_ready, port, path.end);
        let part = if name.is_store { Operation::Store } else { Operation::Load };
        path.starts[part as usize] = issued.unwrap_or(path.end).max(path.starts[part as usize]);
        let issued = issued?;
        let at = match joined {
            Some(at) => {
                path.predicted.insert(name, at);
                at
            }
            None => self.predict_address(path, name, memory)?,
        };
        let page = memory.page(at);
        let slot = page as usize % 64;
        let translated = match memory.look_up(kind, at, path.end - issued) {
            WrongPathLookup::Unusable => return None,
            WrongPathLookup::Miss(latency) => {
                let walked = self.walk_until(kind, at, issued + latency, path.end, memory)?;
                self.pending_walks[slot] = Some((page, walked));
                walked
            }
            WrongPathLookup::Hit(latency) => {
                let pending =
                    self.pending_walks[slot].filter(|(pending, _)| *pending == page).map_or(0, |(_, end)| end);
                pending.max(issued + latency)
            }
        };
        (translated < path.end).then_some((at, translated))
    }

    /// Executes a load. Returns the cycle in which its data is known. `None` if the path ends before.
    fn load_on(
        &mut self,
        path: &mut WrongPath,
        reference: (ReferenceId, Option<u64>),
        address_ready: u64,
        floor: u64,
        memory: &impl FixedMemory,
    ) -> Option<u64> {
        let (at, translated) = self.translate_on(path, reference, address_ready, floor, memory)?;
        let mshrs = self.config.l1_mshrs as usize;
        if !memory.is_in_l1(at) && first_free(&self.misses, mshrs, translated, 1) >= path.end {
            return None;
        }
        let WrongPathLoad { line, l1_latency, latency } = memory.load(at);
        let hit = translated + u64::from(l1_latency);
        if let Some(store) = self.store_in_flight(ByteRange { start: at, end: at + 1 }, translated) {
            return Some(hit.max(store.data_known + u64::from(l1_latency)));
        }
        Some(hit.max(self.get_line(line, translated, if latency > l1_latency { latency } else { 0 }, 1)))
    }

    /// Predicts the next address of a reference: a run continues; another reference whose last address missed the
    /// first-level TLB repeats its last step, within the span that it has touched and that is mapped.
    fn predict_address(&self, path: &mut WrongPath, name: ReferenceId, memory: &impl FixedMemory) -> Option<u64> {
        let (addresses, missed) = self.addresses.get(&name)?;
        let last = *addresses.last()?;
        let from = path.predicted.get(&name).copied().unwrap_or(last);
        let step = |back: usize| {
            let newer = addresses.len().checked_sub(back)?;
            Some(i128::from(addresses[newer]) - i128::from(addresses[newer.checked_sub(1)?]))
        };
        let last_step = step(1).unwrap_or(0);
        let stepped = i128::from(from) + last_step;
        let is_run = step(2) == Some(last_step);
        let unit = |at: Option<&u64>| i128::from(at.copied().unwrap_or(0) >> 16);
        let (low, high) = (unit(addresses.iter().min()) << 16, (unit(addresses.iter().max()) + 1) << 16);
        let next = if is_run {
            stepped
        } else if !missed {
            i128::from(from)
        } else {
            let wrapped = [0, high - low, low - high].map(|by| stepped + by);
            wrapped.into_iter().find(|at| (low..high).contains(at)).unwrap_or(i128::from(from))
        };
        let next = next as u64;
        let next = if is_run || next == last || memory.is_mapped(next) { next } else { last };
        path.predicted.insert(name, next);
        Some(next)
    }
}
