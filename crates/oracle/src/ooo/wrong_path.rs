//! Instructions that do not retire, in the plain twin.

use super::{Beyond, PlainOoo, Reference, Which, first_free};
use reach_core::Kind;
use reach_hardware::ooo::{Class, Found, Inst};
use std::collections::HashMap;

/// A way that the program does not go.
struct Way {
    until: u64,
    /// When its instructions were fetched and entered.
    times: Vec<(u64, u64)>,
    /// Nothing is fetched before this.
    floor: u64,
    /// What was fetched and entered last before it, and how many in the same cycle.
    before: [(u64, usize); 2],
    /// Of the instruction under way, which comes before it.
    instructions: usize,
    loads: usize,
    stores: usize,
    registers: [u64; 64],
    page: Option<u64>,
    /// The last address that was guessed of each reference.
    guessed: HashMap<Reference, u64>,
}

impl Way {
    /// The first cycle from `at` on in which there is room for one more, in order.
    fn in_order(&self, at: u64, width: usize, what: usize) -> u64 {
        let of = |times: &(u64, u64)| if what == 0 { times.0 } else { times.1 };
        let (before, many) = self.before[what];
        let mut at = at.max(before).max(self.times.last().map_or(0, of));
        loop {
            let own = self.times.iter().filter(|times| of(times) == at).count();
            if own + if before == at { many } else { 0 } < width {
                return at;
            }
            at += 1;
        }
    }

    fn last_fetch(&self) -> u64 {
        self.floor.max(self.before[0].0).max(self.times.last().map_or(0, |times| times.0))
    }
}

impl PlainOoo {
    fn way(&self, until: u64, [fetched, entered]: [u64; 2], extra: usize) -> Way {
        let many = |what: fn(&super::Times) -> u64, at| self.all.iter().filter(|times| what(times) == at).count();
        Way {
            until,
            times: Vec::new(),
            floor: fetched,
            before: [
                (fetched, extra + many(|times| times.fetched, fetched)),
                (entered, extra + many(|times| times.entered, entered)),
            ],
            instructions: extra,
            loads: 0,
            stores: 0,
            registers: self.registers,
            page: None,
            guessed: HashMap::new(),
        }
    }

    /// From the end of the last block to `target`.
    pub(super) fn go_to(&mut self, target: u64, until: u64, beyond: &impl Beyond) {
        let entered = self.all.last().map_or(0, |times| times.entered);
        let mut way = self.way(until, [self.last_fetch(), entered], 0);
        let block = self.enter(&mut way, target, beyond);
        self.follow(way, block.map(|block| (block, 0)), beyond);
    }

    /// On behind an instruction, itself not among those taken, that was fetched and has entered at `times`.
    pub(super) fn go_behind(
        &mut self,
        which: Which,
        times: (u64, u64),
        (loads, stores): (usize, usize),
        result: u64,
        until: u64,
        beyond: &impl Beyond,
    ) {
        let mut way = self.way(until, [times.0, times.1], 1);
        (way.loads, way.stores) = (loads, stores);
        for register in self.program[which.0].1[which.1].targets {
            way.registers[register as usize] = result;
        }
        self.follow(way, Some((which.0, which.1 + 1)), beyond);
    }

    fn follow(&mut self, mut way: Way, mut next: Option<Which>, beyond: &impl Beyond) {
        let base = way.before[0].0.min(way.before[1].0);
        while let Some((block, at)) = next {
            let (place, insts) = self.program[block].clone();
            for (number, inst) in insts.iter().enumerate().skip(at) {
                if !self.follow_one(&mut way, (block, number), inst, base, beyond) {
                    return;
                }
            }
            let branch = insts[insts.len() - 1].branch;
            next = self.predictor.guess(branch, place.start, place.end, place.target).and_then(|to| {
                if to != place.end {
                    way.floor = way.last_fetch() + 1;
                }
                self.enter(&mut way, to, beyond).map(|block| (block, 0))
            });
        }
    }

    /// Fetches the block that stands at `at`, if it was executed.
    fn enter(&mut self, way: &mut Way, at: u64, beyond: &impl Beyond) -> Option<usize> {
        let block = *self.executed.iter().find(|&&block| self.program[block].0.start == at)?;
        let place = self.program[block].0;
        let replay = u64::from(self.config.itlb_replay);
        let mut slowest = 0;
        let mut from = place.start;
        while from < place.end {
            let now = way.last_fetch();
            if now >= way.until {
                return None;
            }
            let page = beyond.page(from);
            if way.page != Some(page) {
                match beyond.look_up(Kind::Fetch, from, way.until - now) {
                    Found::Known(0) => {}
                    Found::Known(later) => way.floor = now + later + replay,
                    Found::Nothing => return None,
                    Found::Missed(later) => {
                        way.floor = self.walk(Kind::Fetch, from, now + later, way.until, beyond)? + replay;
                    }
                }
                way.page = Some(page);
            }
            let to = (from..place.end).find(|at| beyond.page(*at) != page).unwrap_or(place.end);
            slowest = slowest.max(beyond.fetch(from, to));
            from = to;
        }
        way.floor = way.last_fetch() + slowest;
        Some(block)
    }

    fn walk(&mut self, kind: Kind, at: u64, from: u64, until: u64, beyond: &impl Beyond) -> Option<u64> {
        let overlap = |at: u64| self.walks.iter().filter(|(start, end)| *start < until && *end > at).count();
        let mut moments: Vec<u64> = self.walks.iter().map(|(_, end)| *end).filter(|end| *end > from).collect();
        moments.push(from);
        moments.sort_unstable();
        let start = moments.into_iter().find(|at| *at < until && overlap(*at) < self.walkers)?;
        let walk = beyond.walk(kind, at, until - start);
        self.walks.push((start, start + walk.cycles));
        walk.found.then_some(start + walk.cycles)
    }

    /// The next instruction of the way. Returns whether another may follow.
    fn follow_one(&mut self, way: &mut Way, which: Which, inst: &Inst, base: u64, beyond: &impl Beyond) -> bool {
        let width = self.config.width as usize;
        let own = way.times.len();
        // Who had the place in the fetch queue, the reorder buffer: one before the way, or of it.
        let queued = match (own + way.instructions).checked_sub(self.config.fetch_queue as usize) {
            Some(of_way) if of_way >= way.instructions => way.times[of_way - way.instructions].1,
            Some(_) => way.before[1].0,
            None => self.before(self.config.fetch_queue - (own + way.instructions) as u32).entered,
        };
        let fetched = way.in_order(queued.max(way.floor), width, 0);
        let rob = (self.config.rob as usize).checked_sub(own + way.instructions).filter(|left| *left > 0);
        let (true, Some(left)) = (fetched < way.until, rob) else { return false };
        let could = self.before(left as u32).retired.max(fetched + u64::from(self.config.front_end_depth));
        let mut entered = way.in_order(could, width, 1);
        for _ in 0..inst.loads {
            let left = (self.config.load_queue as usize).checked_sub(way.loads).filter(|left| *left > 0);
            let Some(left) = left else { return false };
            entered = entered.max(self.loads.len().checked_sub(left).map_or(0, |at| self.loads[at]));
            way.loads += 1;
        }
        for _ in 0..inst.stores {
            let left = (self.config.store_queue as usize).checked_sub(way.stores).filter(|left| *left > 0);
            let Some(left) = left else { return false };
            entered = entered.max(self.stores.len().checked_sub(left).map_or(0, |at| self.stores[at].written));
            way.stores += 1;
        }
        way.times.push((fetched, entered));
        self.squashed[0] += 1;
        let mut result = way.until;
        if entered < way.until {
            let known = |register: u8| way.registers[register as usize];
            let address = inst.address.into_iter().map(known).fold(entered + 1, u64::max);
            let sources = inst.sources.map(known);
            let mut ready = address;
            for load in 0..usize::from(inst.loads) {
                let done = self.follow_load(way, (which, false, load), address, base, beyond);
                ready = ready.max(done.unwrap_or(way.until));
            }
            for store in 0..usize::from(inst.stores) {
                self.find(way, (which, true, store), address, base, beyond);
            }
            ready = sources.into_iter().fold(ready, u64::max);
            result = match inst.class {
                Class::Move if inst.loads > 0 || inst.stores > 0 => ready,
                class => self.port(base, ready, 0, way.until).map_or(way.until, |start| start + self.takes(class)),
            };
        }
        for register in inst.targets {
            way.registers[register as usize] = result.min(way.until);
        }
        true
    }

    /// Address and time of a reference that is translated before the way ends.
    fn find(
        &mut self,
        way: &mut Way,
        reference: Reference,
        address: u64,
        base: u64,
        beyond: &impl Beyond,
    ) -> Option<(u64, u64)> {
        let (kind, port) = if reference.1 { (Kind::Store, 2) } else { (Kind::Load, 1) };
        let start = self.port(base, address, port, way.until)?;
        let at = self.guess(way, reference, beyond)?;
        let page = beyond.page(at);
        let place = page as usize % 64;
        let translated = match beyond.look_up(kind, at, way.until - start) {
            Found::Nothing => return None,
            Found::Missed(later) => {
                let end = self.walk(kind, at, start + later, way.until, beyond)?;
                self.pages[place] = Some((page, end));
                end
            }
            Found::Known(later) => {
                let under_way = self.pages[place].filter(|(known, _)| *known == page).map_or(0, |(_, there)| there);
                under_way.max(start + later)
            }
        };
        (translated < way.until).then_some((at, translated))
    }

    /// When the data of a load is known.
    fn follow_load(
        &mut self,
        way: &mut Way,
        reference: Reference,
        address: u64,
        base: u64,
        beyond: &impl Beyond,
    ) -> Option<u64> {
        let (at, translated) = self.find(way, reference, address, base, beyond)?;
        let mshrs = self.config.l1_mshrs as usize;
        if !beyond.is_near(at) && first_free(&self.misses, mshrs, translated, 1) >= way.until {
            return None;
        }
        let (line, near, latency) = beyond.load(at);
        let hit = translated + u64::from(near);
        if let Some(store) = self.in_flight(at, at + 1, translated) {
            return Some(hit.max(store.ready + u64::from(near)));
        }
        Some(hit.max(self.line(line, translated, if latency > near { latency } else { 0 }, 1)))
    }

    /// Where a reference goes next: a run goes on; what is none, but was far, goes on within what was touched and is mapped.
    fn guess(&self, way: &mut Way, reference: Reference, beyond: &impl Beyond) -> Option<u64> {
        let (past, far) = self.past.get(&reference)?;
        let last = *past.last()?;
        let from = way.guessed.get(&reference).copied().unwrap_or(last);
        let step = |back: usize| {
            let newer = past.len().checked_sub(back)?;
            Some(i128::from(past[newer]) - i128::from(past[newer.checked_sub(1)?]))
        };
        let by = step(1).unwrap_or(0);
        let wanted = i128::from(from) + by;
        let steady = step(2) == Some(by);
        let unit = |at: Option<&u64>| i128::from(at.copied().unwrap_or(0) >> 16);
        let (low, high) = (unit(past.iter().min()) << 16, (unit(past.iter().max()) + 1) << 16);
        let next = if steady {
            wanted
        } else if !far {
            i128::from(from)
        } else {
            let inside =
                [0, high - low, low - high].map(|by| wanted + by).into_iter().find(|at| (low..high).contains(at));
            inside.unwrap_or(i128::from(from))
        };
        let next = next as u64;
        let next = if steady || next == last || beyond.maps(next) { next } else { last };
        way.guessed.insert(reference, next);
        Some(next)
    }
}
