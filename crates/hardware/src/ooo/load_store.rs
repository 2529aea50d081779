//! Loads and stores of the instruction under way.

use super::ports::Port;
use super::wrong_path::{From, Memory};
use super::{Code, Critical, Flight, Kind, OooCore, PAGES, Pending, Translation};

/// When a load or store was done, as far as others ask.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// Its address was translated.
    pub translated: u64,
    /// No TLB knew the page: it took a walk, or waited for one that was under way.
    pub missed: bool,
    /// It was executed too early, and is done again from this cycle on ([`OooCore::repeat`]).
    pub again: Option<u64>,
}

/// Where the last miss of a line is noted.
#[inline(always)]
fn line_place(line: u64) -> usize {
    (line.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as usize
}

impl OooCore {
    /// The instruction under way waits until `time` to enter the window: a queue is full.
    #[inline]
    pub(super) fn enter_later(&mut self, time: u64) {
        let Some(flight) = &mut self.flight else { return };
        if time > flight.entered {
            flight.entered = self.entry.put_off(flight.entered, time);
            flight.address = flight.address.max(time + 1);
            self.queue.correct(time);
        }
    }

    /// The instruction under way loads or stores next: its reference gets its number.
    #[inline]
    pub fn refer(&mut self, kind: Kind) {
        self.reference = None;
        let (Some(flight), Some(running)) = (&self.flight, &self.block) else { return };
        let inst = &flight.inst;
        let (own, most, before) = match kind {
            Kind::Store => (flight.noted[1], inst.stores, inst.loads),
            _ => (flight.noted[0], inst.loads, 0),
        };
        if own < most {
            self.reference = Some(running.first + u32::from(inst.slot) + u32::from(before + own));
        }
    }

    /// It has referred to `at`, `far` from the pages that the first-level TLB had.
    #[inline]
    pub fn note(&mut self, kind: Kind, at: u64, far: bool) {
        if let (Some(number), Some(flight)) = (self.reference, &mut self.flight) {
            self.history.note(number, at, far);
            flight.noted[usize::from(kind == Kind::Store)] += 1;
        }
    }

    /// Translates for the instruction under way, from `start` on. Returns its times, without the cache's.
    #[inline]
    pub(super) fn translate(&mut self, start: u64, page: u64, translation: Translation) -> Critical {
        let found = start + u64::from(translation.tlb);
        let mut translated = found;
        let slot = page as usize % PAGES;
        if translation.handler > 0 {
            self.handle(translation.handler);
            translated = translated.max(self.retire.cycle);
        }
        if translation.walk > 0 {
            let base = self.base();
            let walking = u64::from(translation.walk) + self.channel.wait(base, found, translation.entries);
            translated = self.walkers.start(base, found, walking) + walking;
            self.pages[slot] = (page, translated);
        } else if self.pages[slot].0 == page {
            translated = translated.max(self.pages[slot].1);
        }
        Critical { start, found, translated, near: translated, done: translated }
    }

    /// When `line` is there for who asks at `from`, where getting it takes `miss` cycles; `stored`: by a store.
    #[inline]
    pub(super) fn get_line(&mut self, line: u64, from: u64, miss: u32, stored: bool) -> u64 {
        let slot = &mut self.lines[line_place(line)];
        if miss == 0 {
            return if slot.0 == line { slot.1.max(from) } else { from };
        }
        if slot.0 == line && slot.1 > from {
            return slot.1;
        }
        let base = self.entry.cycle.min(self.fetch.cycle);
        let sent = self.channel.send(base, from, miss, 1 + u64::from(stored));
        let there = self.misses.start(base, sent, miss.into()) + u64::from(miss);
        *slot = (line, there);
        there
    }

    /// `line` will be there at `there`, though nothing has asked for it yet.
    pub(super) fn expect_line(&mut self, line: u64, there: u64) {
        self.lines[line_place(line)] = (line, there);
    }

    /// The instruction under way loads the bytes from `from` to before `to`, which lie in line number `line` of physical
    /// memory, on base page number `page`. A hit in the nearest cache takes `near` cycles, this load `latency`.
    #[inline]
    pub fn load(
        &mut self,
        (from, to): (u64, u64),
        line: u64,
        page: u64,
        translation: Translation,
        near: u32,
        latency: u32,
    ) -> Done {
        let oldest = self.loads.oldest();
        self.enter_later(oldest);
        let Some(Flight { address, .. }) = self.flight else { return Done::default() };
        let start = self.calendar.take(self.base(), address, Port::Load);
        let mut times = self.translate(start, page, translation);
        let mut done = Done { translated: times.translated, missed: times.translated > times.found, again: None };
        let forwarded = self.stores.forward(from, to, times.translated);
        let mut reads = times.translated;
        if let Some(number) = self.reference {
            let conflict = forwarded.is_some_and(|(_, known)| known > times.translated);
            if !self.history.trusts(number) {
                reads = reads.max(self.stores.all_known());
            } else if conflict {
                // It has read what the store will have changed.
                done.again = forwarded.map(|(_, known)| known + 1);
            }
            self.history.learn(number, conflict);
        }
        times.done = reads + u64::from(near);
        match forwarded {
            Some((ready, _)) if done.again.is_none() => times.done = times.done.max(ready + u64::from(near)),
            _ => {
                let miss = if latency > near { latency } else { 0 };
                times.done = times.done.max(self.get_line(line, reads, miss, false));
            }
        }
        times.near = times.done - u64::from(near);
        let Some(flight) = &mut self.flight else { return done };
        flight.loads += 1;
        flight.loaded = flight.loaded.max(times.done);
        if times.done > flight.critical.done {
            flight.critical = times;
        }
        done
    }

    /// The instruction under way has loaded too early, as is known before cycle `again`: what has been done behind it was
    /// done in vain. `memory` is where that is looked up.
    pub fn go_on_in_vain(&mut self, code: &Code, again: u64, memory: &mut impl Memory) {
        let Some(running) = self.block.filter(|_| self.config.wrong_path) else { return };
        self.predictor.run_wrong_path(None);
        self.stray(
            code,
            From::Behind { block: running.block, first: running.first, next: running.next },
            again,
            memory,
        );
        self.predictor.come_back();
    }

    /// The instruction under way is fetched once more at `again`, and loads once more the bytes from `from` to before `to`,
    /// with all that it takes but the translation and the cache, which it has found.
    pub fn repeat(&mut self, (from, to): (u64, u64), again: u64, near: u32) {
        self.counted.clears += 1;
        let waited = self.wait_fetch(again);
        let fetched = self.fetch.take(again, self.config.width);
        let could_enter = self.rob.oldest().max(fetched + u64::from(self.config.front_end_depth));
        let entered = self.entry.take(could_enter, self.config.width);
        self.queue.correct(entered);
        let Some(flight) = &mut self.flight else { return };
        flight.front.branch += waited;
        (flight.fetched, flight.could_enter, flight.entered) = (fetched, entered, entered);
        let [a, b] = flight.inst.address.map(|register| self.registers[usize::from(register)]);
        flight.address = a.max(b).max(entered + 1);
        let base = self.entry.cycle.min(self.fetch.cycle);
        let start = self.calendar.take(base, flight.address, Port::Load);
        let ready = self.stores.forward(from, to, start).map_or(start, |(ready, _)| ready.max(start));
        let done = ready + u64::from(near);
        flight.critical = Critical { start, found: start, translated: start, near: ready, done };
        flight.loaded = done;
    }

    /// The instruction under way stores the bytes from `from` to before `to`. `miss`: the cycles that getting their line
    /// takes, 0 where the cache has it.
    #[inline]
    pub fn store(&mut self, (from, to): (u64, u64), line: u64, page: u64, translation: Translation, miss: u32) -> Done {
        let free = self.stores.free();
        self.enter_later(free);
        let Some(Flight { address, .. }) = self.flight else { return Done::default() };
        let start = self.calendar.take(self.base(), address, Port::Store);
        let times = self.translate(start, page, translation);
        self.pending.push(Pending { from, to, line, translated: times.translated, miss });
        let done = Done { translated: times.translated, missed: times.translated > times.found, again: None };
        let Some(flight) = &mut self.flight else { return done };
        flight.stores += 1;
        if times.done > flight.critical.done {
            flight.critical = times;
        }
        done
    }

    /// Hands the stores of an instruction that has retired to the queue.
    pub(super) fn write(&mut self, retired: u64, data: u64) {
        for at in 0..self.pending.len() {
            let store = self.pending[at];
            let there = self.get_line(store.line, retired, store.miss, true);
            let known = [store.translated, data.max(store.translated)];
            self.stores.push((store.from, store.to), known, retired, there);
        }
        self.pending.clear();
    }
}
