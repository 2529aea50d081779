//! What a core does that is not to be: on the wrong path of a branch, until the branch's result is known, and behind a load
//! that was executed too early, until that is found out.
//!
//! The core fetches the blocks that it would have come to, as far as it has executed them before, guessing their branches;
//! instructions enter the window and execute as any others do, among those that are in flight. Nothing of them retires. Loads
//! and stores refer to what the instruction may have come to next, by what it has referred to so far (`history.rs`). Stores
//! translate their addresses, as they do in cores whose store-address operations ask the TLB when they execute (Intel,
//! Optimization Reference Manual: STA), and write nothing. What is under way when the truth is known goes on where it is a
//! line on its way, and ends where it is a walk.

mod mmu;

use super::code::{Branch, Code, Inst};
use super::in_order::InOrder;
use super::ports::Port;
use super::{OooCore, PAGES, REGISTERS, Wrong};
use reach_core::{BlockId, Kind};

/// What a look-up in the TLB gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// The translation, after so many cycles.
    Known(u64),
    /// None that is of use, or too late.
    Nothing,
    /// It takes a walk, to begin after so many cycles.
    Missed(u64),
}

/// What became of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Walk {
    /// What it took, at most what it was given.
    pub cycles: u64,
    /// There is a translation now.
    pub found: bool,
}

/// Where instructions that will not retire find what they ask for.
pub trait Memory {
    /// The base page of `at`.
    fn page(&self, at: u64) -> u64;
    /// The first byte behind the base page of `at`.
    fn page_end(&self, at: u64) -> u64;
    /// Whether the page of `at` is mapped.
    fn maps(&self, at: u64) -> bool;
    /// Looks up the page of `at`. What comes later than after `within` cycles is not waited for.
    fn look_up(&mut self, kind: Kind, at: u64, within: u64) -> Found;
    /// Walks for the page of `at`, which was looked up last, for at most `within` cycles.
    fn walk(&mut self, kind: Kind, at: u64, within: u64) -> Walk;
    /// Whether the nearest cache has the line of `at`, whose page was found last.
    fn is_near(&self, at: u64) -> bool;
    /// Loads from `at`, whose page was found last, at cycle `from`. Returns the line's number, and what a hit in the nearest
    /// cache and this load take.
    fn load(&mut self, ooo: &mut OooCore, at: u64, from: u64) -> (u64, u32, u32);
    /// Fetches these bytes, on the page that was found last: by how many cycles that is later than a hit.
    fn fetch(&mut self, from: u64, to: u64) -> u64;
}

/// Where an wrong_path begins.
#[derive(Clone, Copy, Debug)]
pub(super) enum From {
    /// At a block that was executed before.
    Start(u64),
    /// Behind the instruction under way, of whose block this is the next.
    Behind { block: BlockId, first: u32, next: u32 },
}

/// What goes its own way: the rest is looked up in the window.
struct WrongPath {
    until: u64,
    fetch: InOrder,
    entry: InOrder,
    registers: [u64; REGISTERS],
    /// When its instructions entered.
    entered: Vec<u64>,
    /// Places of the reorder buffer, the load queue and the store queue that are taken.
    taken: usize,
    loads: usize,
    stores: usize,
    /// The page that is fetched from.
    page: Option<u64>,
}

impl OooCore {
    /// At the next branch, the core goes on at `target` instead, until cycle `until`.
    pub fn run_wrong_path(&mut self, code: &Code, wrong: &Wrong, memory: &mut impl Memory) {
        let Some(target) = wrong.target.filter(|_| self.config.wrong_path) else { return };
        self.predictor.run_wrong_path(Some((wrong.branch, wrong.end, target)));
        self.stray(code, From::Start(target), wrong.until, memory);
        self.predictor.come_back();
    }

    /// Follows a path that will not be, until cycle `until`.
    pub(super) fn stray(&mut self, code: &Code, from: From, until: u64, memory: &mut impl Memory) {
        let mut entered = std::mem::take(&mut self.scratch);
        entered.clear();
        let (fetch, entry, registers) = (self.fetch, self.entry, self.registers);
        let mut wrong_path =
            WrongPath { until, fetch, entry, registers, entered, taken: 0, loads: 0, stores: 0, page: None };
        self.history.set_out();
        let mut next = match from {
            From::Start(at) => {
                self.fetch_wrong_path(code, &mut wrong_path, at, memory).map(|(block, first)| (block, first, 0))
            }
            From::Behind { block, first, next } => {
                self.leave_flight(&mut wrong_path);
                Some((block, first, next))
            }
        };
        while let Some((block, first, at)) = next {
            let insts = code.of(block);
            for inst in insts.get(at as usize..).unwrap_or_default() {
                if !self.begin_wrong_path(&mut wrong_path, inst, first, memory) {
                    self.scratch = wrong_path.entered;
                    return;
                }
            }
            let place = *code.place(block);
            let branch = insts.last().map_or(Branch::None, |last| last.branch);
            next = self.predictor.guess(branch, place.start, place.end, place.target).and_then(|to| {
                if to != place.end {
                    wrong_path.fetch = InOrder { cycle: wrong_path.fetch.cycle + 1, used: 0 };
                }
                self.fetch_wrong_path(code, &mut wrong_path, to, memory).map(|(block, first)| (block, first, 0))
            });
        }
        self.scratch = wrong_path.entered;
    }

    /// The instruction under way has its places, and its results are known although they are not the ones.
    fn leave_flight(&self, e: &mut WrongPath) {
        let Some(flight) = &self.flight else { return };
        (e.taken, e.loads, e.stores) = (1, flight.loads as usize, self.pending.len());
        let known = flight.inst.sources.map(|register| self.registers[usize::from(register)]);
        let known = known.into_iter().fold(flight.loaded.max(flight.address), u64::max);
        let result = known + self.takes(flight.inst.class, true);
        flight.inst.targets.iter().for_each(|&target| e.registers[usize::from(target)] = result);
    }

    /// Fetches the block that stands at `at`.
    fn fetch_wrong_path(
        &mut self,
        code: &Code,
        e: &mut WrongPath,
        at: u64,
        memory: &mut impl Memory,
    ) -> Option<(BlockId, u32)> {
        let found = self.history.block_at(at)?;
        let place = code.place(found.0);
        let mut at = place.start;
        let mut slowest = 0;
        while at < place.end {
            if e.fetch.cycle >= e.until {
                return None;
            }
            let page = memory.page(at);
            if e.page != Some(page) {
                self.fetch_page_wrong_path(e, at, memory)?;
                e.page = Some(page);
            }
            let end = place.end.min(memory.page_end(at));
            slowest = slowest.max(memory.fetch(at, end));
            at = end;
        }
        e.fetch.wait(e.fetch.cycle + slowest);
        Some(found)
    }

    /// Translates for fetching.
    fn fetch_page_wrong_path(&mut self, e: &mut WrongPath, at: u64, memory: &mut impl Memory) -> Option<()> {
        let now = e.fetch.cycle;
        let replay = u64::from(self.config.itlb_replay);
        match memory.look_up(Kind::Fetch, at, e.until - now) {
            Found::Known(0) => {}
            Found::Known(later) => _ = e.fetch.wait(now + later + replay),
            Found::Nothing => return None,
            Found::Missed(later) => {
                let end = self.walk_wrong_path(Kind::Fetch, at, now + later, e.until, memory)?;
                e.fetch.wait(end + replay);
            }
        }
        Some(())
    }

    /// A walk that is wanted from `from` on and ends by `until`. Returns when there is a translation.
    fn walk_wrong_path(&mut self, kind: Kind, at: u64, from: u64, until: u64, memory: &mut impl Memory) -> Option<u64> {
        let start = self.walkers.room(self.base(), from, until)?;
        let walk = memory.walk(kind, at, until - start);
        let end = start + walk.cycles;
        self.walkers.book(start, end);
        walk.found.then_some(end)
    }

    /// The next instruction. Returns whether there may be another.
    fn begin_wrong_path(&mut self, e: &mut WrongPath, inst: &Inst, first: u32, memory: &mut impl Memory) -> bool {
        let width = self.config.width;
        let number = e.entered.len();
        let queued = match number.checked_sub(self.queue.len()) {
            Some(own) => e.entered[own],
            None => self.queue.at(number),
        };
        let fetched = e.fetch.take(queued, width);
        if fetched >= e.until || e.taken >= self.rob.len() {
            return false;
        }
        let could_enter = self.rob.at(e.taken).max(fetched + u64::from(self.config.front_end_depth));
        let mut entered = e.entry.take(could_enter, width);
        // Places in the queues of loads and stores.
        for _ in 0..inst.loads {
            if e.loads >= self.loads.len() {
                return false;
            }
            entered = e.entry.put_off(entered, self.loads.at(e.loads));
            e.loads += 1;
        }
        for _ in 0..inst.stores {
            let Some(free) = self.stores.free_after(e.stores) else { return false };
            entered = e.entry.put_off(entered, free);
            e.stores += 1;
        }
        e.entered.push(entered);
        e.taken += 1;
        self.counted.squashed += 1;
        let result = if entered < e.until { self.execute_wrong_path(e, inst, first, entered, memory) } else { e.until };
        for target in inst.targets {
            e.registers[usize::from(target)] = result;
        }
        true
    }

    /// Executes what has entered. Returns when its result is known; `until` means never.
    fn execute_wrong_path(
        &mut self,
        e: &WrongPath,
        inst: &Inst,
        first: u32,
        entered: u64,
        memory: &mut impl Memory,
    ) -> u64 {
        let known = |register: u8| e.registers[usize::from(register)];
        let address = inst.address.into_iter().map(known).fold(entered + 1, u64::max);
        let first = first + u32::from(inst.slot);
        let mut loaded = address;
        for load in 0..u32::from(inst.loads) {
            loaded = loaded.max(self.load_wrong_path(first + load, address, e.until, memory));
        }
        for store in 0..u32::from(inst.stores) {
            self.store_wrong_path(first + u32::from(inst.loads) + store, address, e.until, memory);
        }
        let ready = inst.sources.into_iter().map(known).fold(loaded, u64::max);
        match self.takes(inst.class, inst.loads > 0 || inst.stores > 0) {
            0 => ready.min(e.until),
            takes => {
                let start = self.calendar.take_before(self.base(), ready, Port::Any, e.until);
                start.map_or(e.until, |start| (start + takes).min(e.until))
            }
        }
    }

    /// Load number `number`, whose address is known at `address`. Returns when its data is.
    fn load_wrong_path(&mut self, number: u32, address: u64, until: u64, memory: &mut impl Memory) -> u64 {
        let Some(start) = self.calendar.take_before(self.base(), address, Port::Load, until) else { return until };
        let Some(at) = self.history.guess(number, |at| memory.maps(at)) else { return until };
        self.counted.squashed_loads += 1;
        let Some(translated) = self.translate_wrong_path(Kind::Load, at, start, until, memory) else { return until };
        let base = self.base();
        if !memory.is_near(at) && self.misses.first(base, translated, 1) >= until {
            return until;
        }
        let (line, near, latency) = memory.load(self, at, translated);
        let hit = translated + u64::from(near);
        if let Some((ready, _)) = self.stores.forward(at, at + 1, translated) {
            return hit.max(ready + u64::from(near)).min(until);
        }
        let miss = if latency > near { latency } else { 0 };
        hit.max(self.get_line(line, translated, miss, false)).min(until)
    }

    /// Store number `number`: only its address matters.
    fn store_wrong_path(&mut self, number: u32, address: u64, until: u64, memory: &mut impl Memory) {
        let Some(start) = self.calendar.take_before(self.base(), address, Port::Store, until) else { return };
        let Some(at) = self.history.guess(number, |at| memory.maps(at)) else { return };
        self.counted.squashed_stores += 1;
        self.translate_wrong_path(Kind::Store, at, start, until, memory);
    }

    /// Translates `at`, from `start` on. Returns when that is done, if it is before `until`.
    fn translate_wrong_path(
        &mut self,
        kind: Kind,
        at: u64,
        start: u64,
        until: u64,
        memory: &mut impl Memory,
    ) -> Option<u64> {
        let page = memory.page(at);
        let slot = page as usize % PAGES;
        let translated = match memory.look_up(kind, at, until - start) {
            Found::Nothing => return None,
            Found::Missed(later) => {
                let end = self.walk_wrong_path(kind, at, start + later, until, memory)?;
                self.pages[slot] = (page, end);
                end
            }
            Found::Known(later) if self.pages[slot].0 == page => (start + later).max(self.pages[slot].1),
            Found::Known(later) => start + later,
        };
        (translated < until).then_some(translated)
    }
}
