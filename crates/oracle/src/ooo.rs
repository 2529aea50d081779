//! A plain twin of the window's scheduling: every instruction's times from a list of all instructions before it, by the
//! rules that `reach_hardware::ooo` states. Nothing is forgotten, and everything is found by looking at everything.

use reach_core::Kind;
use reach_hardware::config;
use reach_hardware::ooo::{Branch, Class, Found, Inst, Place, Predictor, Translation, Walk};
use std::collections::HashMap;

mod wrong_path;

/// How many cycles ahead ports are booked.
const HORIZON: u64 = 1 << 10;

/// What an instruction does to memory: bytes from and to before, line, base page, what its translation takes, and the
/// cycles of a hit in the nearest cache and of this access.
#[derive(Clone, Copy, Debug)]
pub struct Touch {
    /// It stores.
    pub store: bool,
    /// The bytes.
    pub bytes: (u64, u64),
    /// The line in physical memory.
    pub line: u64,
    /// The base page.
    pub page: u64,
    /// What the translation takes.
    pub translation: Translation,
    /// A hit in the nearest cache.
    pub near: u32,
    /// This access.
    pub latency: u32,
}

/// What instructions that do not retire find; as in `reach_hardware::ooo::Memory`.
#[expect(missing_docs, reason = "see there")]
pub trait Beyond {
    fn page(&self, at: u64) -> u64;
    fn maps(&self, at: u64) -> bool;
    fn look_up(&self, kind: Kind, at: u64, within: u64) -> Found;
    fn walk(&self, kind: Kind, at: u64, within: u64) -> Walk;
    fn is_near(&self, at: u64) -> bool;
    fn load(&self, at: u64) -> (u64, u32, u32);
    fn fetch(&self, from: u64, to: u64) -> u64;
}

/// Which instruction: its block, and its number in that.
pub type Which = (usize, usize);
/// Which of an instruction's loads or stores.
type Reference = (Which, bool, usize);

#[derive(Clone, Copy, Debug, Default)]
struct Times {
    fetched: u64,
    entered: u64,
    retired: u64,
}

#[derive(Clone, Copy, Debug)]
struct Store {
    bytes: (u64, u64),
    known: u64,
    ready: u64,
    written: u64,
}

/// A core of which everything is remembered.
pub struct PlainOoo {
    config: config::OooCore,
    walkers: usize,
    /// Nothing is fetched before this.
    floor: u64,
    /// When the last instruction was complete.
    complete: u64,
    all: Vec<Times>,
    /// When each load's instruction retired.
    loads: Vec<u64>,
    stores: Vec<Store>,
    /// Port of each start, and its cycle: 0 operations, 1 loads, 2 stores.
    starts: Vec<(usize, u64)>,
    walks: Vec<(u64, u64)>,
    misses: Vec<(u64, u64)>,
    /// When lines were on their way from memory.
    sent: Vec<(u64, u64)>,
    pages: Vec<Option<(u64, u64)>>,
    lines: Vec<Option<(u64, u64)>>,
    registers: [u64; 64],
    program: Vec<(Place, Vec<Inst>)>,
    predictor: Predictor,
    /// What each reference referred to, and whether the last was far.
    past: HashMap<Reference, (Vec<u64>, bool)>,
    /// How often in a row each load would not have had to wait.
    trust: HashMap<Reference, u32>,
    /// Blocks that were executed.
    executed: Vec<usize>,
    /// Instructions that entered and did not retire, and loads that were repeated.
    pub squashed: [u64; 2],
}

impl PlainOoo {
    /// An empty core with so many walkers, to execute these blocks.
    pub fn new(config: config::OooCore, walkers: u32, program: Vec<(Place, Vec<Inst>)>) -> PlainOoo {
        PlainOoo {
            config,
            walkers: walkers as usize,
            floor: 0,
            complete: 0,
            all: Vec::new(),
            loads: Vec::new(),
            stores: Vec::new(),
            starts: Vec::new(),
            walks: Vec::new(),
            misses: Vec::new(),
            sent: Vec::new(),
            pages: vec![None; 64],
            lines: vec![None; 256],
            registers: [0; 64],
            program,
            predictor: Predictor::new(&config.predictor),
            past: HashMap::new(),
            trust: HashMap::new(),
            executed: Vec::new(),
            squashed: [0; 2],
        }
    }

    /// When the last instruction retired.
    pub fn now(&self) -> u64 {
        self.all.last().map_or(0, |last| last.retired)
    }

    fn last_fetch(&self) -> u64 {
        self.floor.max(self.all.last().map_or(0, |last| last.fetched))
    }

    /// Block number `block` has ended, and the program goes on at `next`.
    pub fn redirect(&mut self, block: usize, next: u64, beyond: &impl Beyond) {
        let (place, insts) = &self.program[block];
        let place = *place;
        let branch = insts[insts.len() - 1].branch;
        let guess = self.predictor.learn(branch, place.start, place.end, next);
        if guess.right {
            if next != place.end {
                self.floor = self.last_fetch() + 1;
            }
            return;
        }
        let target = match branch {
            Branch::Conditional if next == place.end => place.target,
            Branch::Conditional => Some(place.end),
            _ => guess.target,
        };
        let until = self.complete + 1;
        if let Some(target) = target.filter(|_| self.config.wrong_path) {
            self.predictor.run_wrong_path(Some((branch, place.end, target)));
            self.go_to(target, until, beyond);
            self.predictor.come_back();
        }
        self.floor = self.last_fetch().max(until);
    }

    /// Block number `block` has been fetched.
    pub fn start_block(&mut self, block: usize) {
        self.executed.push(block);
    }

    /// Fetching waits for a translation, then for lines.
    pub fn fetch(&mut self, translation: Translation, cycles: u32) {
        let mut at = self.last_fetch() + u64::from(translation.tlb);
        let walk = u64::from(translation.walk) + self.wait(at, translation.entries);
        if walk > 0 {
            at = first_free(&self.walks, self.walkers, at, walk) + walk;
            self.walks.push((at - walk, at));
        }
        if translation.tlb > 0 || walk > 0 {
            at += u64::from(self.config.itlb_replay);
        }
        self.floor = at + u64::from(cycles);
    }

    /// The operating system acts.
    pub fn serialise(&mut self) {
        self.floor = self.last_fetch().max(self.now());
    }

    /// The retirement of the instruction so many before the next; 0 where there was none.
    fn before(&self, many: u32) -> Times {
        self.all.len().checked_sub(many as usize).map_or(Times::default(), |at| self.all[at])
    }

    /// The first cycle from `at` on, not before that of the last, in which fewer than `issue` have `what`.
    fn in_order(&self, at: u64, what: impl Fn(&Times) -> u64) -> u64 {
        let mut at = at.max(self.all.last().map_or(0, &what));
        while self.all.iter().filter(|times| what(times) == at).count() >= self.config.width as usize {
            at += 1;
        }
        at
    }

    fn port(&mut self, base: u64, from: u64, port: usize, until: u64) -> Option<u64> {
        let limits = [self.config.width, self.config.load_ports, self.config.store_ports];
        let mut at = from;
        while at < base + HORIZON && at < until {
            let starts = self.starts.iter().filter(|(_, start)| *start == at).count();
            let same = self.starts.iter().filter(|start| **start == (port, at)).count();
            if starts < limits[0] as usize && (port == 0 || same < limits[port] as usize) {
                self.starts.push((port, at));
                return Some(at);
            }
            at += 1;
        }
        (at < until).then_some(at)
    }

    /// When so many lines set out.
    fn send(&mut self, from: u64, miss: u32, lines: u32) -> u64 {
        let cycles = u64::from(lines * self.config.line_interval);
        if cycles == 0 || miss < self.config.memory {
            return from;
        }
        let start = first_free(&self.sent, 1, from, cycles);
        self.sent.push((start, start + cycles));
        start
    }

    /// What a walk waits that reads so many entries from memory.
    fn wait(&mut self, from: u64, entries: u32) -> u64 {
        let memory = self.config.memory;
        let end = (0..entries).fold(from, |at, _| self.send(at, memory, 1) + u64::from(memory));
        end - from - u64::from(entries * memory)
    }

    fn line(&mut self, line: u64, from: u64, miss: u32, lines: u32) -> u64 {
        let place = (line.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as usize;
        let under_way = self.lines[place].filter(|(known, _)| *known == line).map_or(0, |(_, there)| there);
        if miss == 0 || under_way > from {
            return under_way.max(from);
        }
        let sent = self.send(from, miss, lines);
        let miss = u64::from(miss);
        let start = first_free(&self.misses, self.config.l1_mshrs as usize, sent, miss);
        self.misses.push((start, start + miss));
        self.lines[place] = Some((line, start + miss));
        start + miss
    }

    fn translated(&mut self, from: u64, touch: &Touch) -> u64 {
        let found = from + u64::from(touch.translation.tlb);
        let place = touch.page as usize % 64;
        let walk = u64::from(touch.translation.walk);
        if walk > 0 {
            let walk = walk + self.wait(found, touch.translation.entries);
            let start = first_free(&self.walks, self.walkers, found, walk);
            self.walks.push((start, start + walk));
            self.pages[place] = Some((touch.page, start + walk));
            return start + walk;
        }
        self.pages[place].filter(|(page, _)| *page == touch.page).map_or(found, |(_, there)| there.max(found))
    }

    /// The youngest store in flight at `at` of some of the bytes from `from` to before `to`.
    fn in_flight(&self, from: u64, to: u64, at: u64) -> Option<Store> {
        let queue = self.stores.iter().rev().take(self.config.store_queue as usize);
        let mut in_flight = queue.filter(|store| store.written > at);
        in_flight.find(|store| store.bytes.0 < to && from < store.bytes.1).copied()
    }

    fn takes(&self, class: Class) -> u64 {
        let latencies = self.config.latencies;
        u64::from(match class {
            Class::Move | Class::Simple => 1,
            Class::Multiply => latencies.multiply,
            Class::Divide => latencies.divide,
            Class::Float => latencies.float,
            Class::FloatDivide => latencies.float_divide,
        })
    }

    /// The next instruction, number `which` of the program, with what it does to memory.
    pub fn take(&mut self, which: Which, touches: &[Touch], beyond: &impl Beyond) {
        let inst = self.program[which.0].1[which.1];
        let front_end = u64::from(self.config.front_end_depth);
        let mut fetched = self.in_order(self.floor.max(self.before(self.config.fetch_queue).entered), |t| t.fetched);
        let could = self.before(self.config.rob).retired.max(fetched + front_end);
        let mut entered = self.in_order(could, |t| t.entered);
        // Nothing to come asks for anything before this.
        let base = |entered: u64, fetched: u64| entered.min(fetched);
        let address = inst.address.map(|register| self.registers[register as usize]);
        let address = address[0].max(address[1]);
        let (mut loaded, mut known, mut loads, mut pending) = (0, 0, 0, Vec::new());
        let mut noted = [0; 2];
        for touch in touches {
            let queue = if touch.store { self.config.store_queue } else { self.config.load_queue } as usize;
            let oldest = match touch.store {
                true => self.stores.len().checked_sub(queue).map_or(0, |at| self.stores[at].written),
                false => self.loads.len().checked_sub(queue).map_or(0, |at| self.loads[at]),
            };
            entered = entered.max(oldest);
            let own = &mut noted[usize::from(touch.store)];
            let most = if touch.store { inst.stores } else { inst.loads };
            let reference = (*own < usize::from(most)).then_some((which, touch.store, *own));
            *own += usize::from(reference.is_some());
            let (from, to) = touch.bytes;
            let ready = address.max(entered + 1);
            let port = if touch.store { 2 } else { 1 };
            let start = self.port(base(entered, fetched), ready, port, u64::MAX).unwrap();
            let translated = self.translated(start, touch);
            if touch.store {
                pending.push((*touch, translated));
                known = known.max(translated);
            } else {
                let near = u64::from(touch.near);
                let store = self.in_flight(from, to, translated);
                let conflict = store.is_some_and(|store| store.known > translated);
                let (mut reads, mut again) = (translated, None);
                if let Some(reference) = reference {
                    let trust = self.trust.entry(reference).or_default();
                    if *trust < 15 {
                        reads = self.stores.iter().map(|store| store.known).fold(reads, u64::max);
                    } else if conflict {
                        again = store.map(|store| store.known + 1);
                    }
                    *trust = if conflict { 0 } else { *trust + 1 };
                }
                let done = match store {
                    Some(store) if again.is_none() => reads.max(store.ready) + near,
                    _ => {
                        let miss = if touch.latency > touch.near { touch.latency } else { 0 };
                        self.line(touch.line, reads, miss, 1).max(reads + near)
                    }
                };
                loaded = loaded.max(done);
                loads += 1;
                if let Some(again) = again {
                    self.squashed[1] += 1;
                    if self.config.wrong_path {
                        let sources = inst.sources.map(|register| self.registers[register as usize]);
                        let ready = sources.into_iter().fold(loaded.max(address.max(entered + 1)), u64::max);
                        let result = ready + if inst.class == Class::Move { 0 } else { self.takes(inst.class) };
                        self.predictor.run_wrong_path(None);
                        self.go_behind(which, (fetched, entered), (loads, pending.len()), result, again, beyond);
                        self.predictor.come_back();
                    }
                    fetched = again;
                    entered = self.before(self.config.rob).retired.max(fetched + front_end);
                    let ready = address.max(entered + 1);
                    let start = self.port(base(entered, fetched), ready, 1, u64::MAX).unwrap();
                    loaded = self.in_flight(from, to, start).map_or(start, |store| store.ready.max(start)) + near;
                }
            }
            if let Some(reference) = reference {
                let (past, far) = self.past.entry(reference).or_default();
                past.push(from);
                *far = touch.translation != Translation::default();
            }
        }
        let sources = inst.sources.map(|register| self.registers[register as usize]);
        let ready = sources.into_iter().fold(loaded.max(address).max(entered + 1), u64::max);
        let result = match inst.class {
            Class::Move if !touches.is_empty() => ready,
            class => self.port(base(entered, fetched), ready, 0, u64::MAX).unwrap() + self.takes(class),
        };
        for register in inst.targets {
            self.registers[register as usize] = result;
        }
        self.complete = result.max(known);
        let retired = self.in_order(self.complete + 1, |t| t.retired);
        self.all.push(Times { fetched, entered, retired });
        self.loads.extend((0..loads).map(|_| retired));
        for (touch, translated) in pending {
            let there = self.line(touch.line, retired, touch.latency, 2);
            let last = self.stores.last().map_or(0, |store| store.written);
            let written = there.max(retired).max(last + 1);
            self.stores.push(Store { bytes: touch.bytes, known: translated, ready: result.max(translated), written });
        }
    }
}

/// The first moment from `from` on at which something that takes `cycles` may start: fewer than `most` of `all` overlap it.
fn first_free(all: &[(u64, u64)], most: usize, from: u64, cycles: u64) -> u64 {
    let overlap = |at: u64| all.iter().filter(|(start, end)| *start < at + cycles && *end > at).count();
    let mut moments: Vec<u64> = all.iter().map(|(_, end)| *end).filter(|end| *end > from).collect();
    moments.push(from);
    moments.sort_unstable();
    moments.into_iter().find(|at| overlap(*at) < most).expect("behind the last end there is room")
}
