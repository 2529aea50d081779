//! Loads and stores of the instruction under way.

use super::slots::Port;
use super::{Critical, InOrder, PAGES, Pending, Translation, Window};

/// Where the last miss of a line is noted.
#[inline(always)]
fn line_place(line: u64) -> usize {
    (line.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as usize
}

impl Window {
    /// The instruction under way waits until `time` to enter the window: a queue is full.
    #[inline]
    pub(super) fn enter_later(&mut self, time: u64) {
        let Some(flight) = &mut self.flight else { return };
        if time > flight.entered {
            flight.entered = time;
            flight.address = flight.address.max(time + 1);
            self.entry = InOrder { cycle: time, used: 1 };
            self.queue.correct(time);
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
            let walking = u64::from(translation.walk);
            translated = self.walkers.start(base, found, walking) + walking;
            self.pages[slot] = (page, translated);
        } else if self.pages[slot].0 == page {
            translated = translated.max(self.pages[slot].1);
        }
        Critical { start, found, translated, near: translated, done: translated }
    }

    /// When `line` is there for who asks at `from`, where getting it takes `miss` cycles.
    #[inline]
    pub(super) fn get_line(&mut self, line: u64, from: u64, miss: u32) -> u64 {
        let slot = &mut self.lines[line_place(line)];
        if miss == 0 {
            return if slot.0 == line { slot.1.max(from) } else { from };
        }
        if slot.0 == line && slot.1 > from {
            return slot.1;
        }
        let base = self.entry.cycle.min(self.fetch.cycle);
        let there = self.misses.start(base, from, miss.into()) + u64::from(miss);
        *slot = (line, there);
        there
    }

    /// `line` will be there at `there`, though nothing has asked for it yet.
    pub(super) fn expect_line(&mut self, line: u64, there: u64) {
        self.lines[line_place(line)] = (line, there);
    }

    /// The instruction under way loads the bytes from `from` to before `to`, which lie in line number `line` of physical
    /// memory, on base page number `page`. A hit in the nearest cache takes `near` cycles, this load `latency`. Returns when
    /// the address is translated.
    #[inline]
    pub fn load(
        &mut self,
        (from, to): (u64, u64),
        line: u64,
        page: u64,
        translation: Translation,
        near: u32,
        latency: u32,
    ) -> u64 {
        let oldest = self.loads.oldest();
        self.enter_later(oldest);
        let Some(flight) = self.flight else { return 0 };
        let start = self.calendar.take(self.base(), flight.address, Port::Load);
        let mut times = self.translate(start, page, translation);
        times.done = times.translated + u64::from(near);
        if let Some(ready) = self.stores.forward(from, to, times.translated) {
            times.done = times.done.max(ready + u64::from(near));
        } else {
            let miss = if latency > near { latency } else { 0 };
            times.done = times.done.max(self.get_line(line, times.translated, miss));
        }
        times.near = times.done - u64::from(near);
        let Some(flight) = &mut self.flight else { return 0 };
        flight.loads += 1;
        flight.loaded = flight.loaded.max(times.done);
        if times.done > flight.critical.done {
            flight.critical = times;
        }
        times.translated
    }

    /// The instruction under way stores the bytes from `from` to before `to`. `miss`: the cycles that getting their line
    /// takes, 0 where the cache has it. Returns when the address is translated.
    #[inline]
    pub fn store(&mut self, (from, to): (u64, u64), line: u64, page: u64, translation: Translation, miss: u32) -> u64 {
        let free = self.stores.free();
        self.enter_later(free);
        let Some(flight) = self.flight else { return 0 };
        let start = self.calendar.take(self.base(), flight.address, Port::Store);
        let times = self.translate(start, page, translation);
        self.pending.push(Pending { from, to, line, translated: times.translated, miss });
        let Some(flight) = &mut self.flight else { return 0 };
        if times.done > flight.critical.done {
            flight.critical = times;
        }
        times.translated
    }

    /// Hands the stores of an instruction that has retired to the queue.
    pub(super) fn write(&mut self, retired: u64, data: u64) {
        for at in 0..self.pending.len() {
            let store = self.pending[at];
            let there = self.get_line(store.line, retired, store.miss);
            self.stores.push(store.from, store.to, data.max(store.translated), retired, there);
        }
        self.pending.clear();
    }
}
