//! A plain twin of the window's scheduling: every instruction's times from a list of all instructions before it, by the
//! rules that `reach_hardware::window` states. Nothing is forgotten, and everything is found by looking at everything.

use reach_hardware::config;
use reach_hardware::window::{Class, Inst, Translation};

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

#[derive(Clone, Copy, Debug, Default)]
struct Times {
    fetched: u64,
    entered: u64,
    retired: u64,
}

#[derive(Clone, Copy, Debug)]
struct Store {
    bytes: (u64, u64),
    ready: u64,
    written: u64,
}

/// A core of which everything is remembered.
pub struct PlainWindow {
    config: config::Window,
    walkers: usize,
    /// Nothing is fetched before this.
    floor: u64,
    all: Vec<Times>,
    /// When each load's instruction retired.
    loads: Vec<u64>,
    stores: Vec<Store>,
    /// Port of each start, and its cycle: 0 operations, 1 loads, 2 stores.
    starts: Vec<(usize, u64)>,
    walks: Vec<(u64, u64)>,
    misses: Vec<(u64, u64)>,
    pages: Vec<Option<(u64, u64)>>,
    lines: Vec<Option<(u64, u64)>>,
    registers: [u64; 64],
}

impl PlainWindow {
    /// An empty core with so many walkers.
    pub fn new(config: config::Window, walkers: u32) -> PlainWindow {
        PlainWindow {
            config,
            walkers: walkers as usize,
            floor: 0,
            all: Vec::new(),
            loads: Vec::new(),
            stores: Vec::new(),
            starts: Vec::new(),
            walks: Vec::new(),
            misses: Vec::new(),
            pages: vec![None; 64],
            lines: vec![None; 256],
            registers: [0; 64],
        }
    }

    /// When the last instruction retired.
    pub fn now(&self) -> u64 {
        self.all.last().map_or(0, |last| last.retired)
    }

    fn last_fetch(&self) -> u64 {
        self.floor.max(self.all.last().map_or(0, |last| last.fetched))
    }

    /// A branch ends what is fetched in a cycle.
    pub fn end_fetch(&mut self) {
        self.floor = self.last_fetch() + 1;
    }

    /// Fetching waits for a translation, then for lines.
    pub fn fetch(&mut self, translation: Translation, cycles: u32) {
        let mut at = self.last_fetch() + u64::from(translation.tlb);
        let walk = u64::from(translation.walk);
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
        while self.all.iter().filter(|times| what(times) == at).count() >= self.config.issue as usize {
            at += 1;
        }
        at
    }

    fn port(&mut self, base: u64, from: u64, port: usize) -> u64 {
        let limits = [self.config.issue, self.config.load_ports, self.config.store_ports];
        let mut at = from;
        while at < base + HORIZON {
            let starts = self.starts.iter().filter(|(_, start)| *start == at).count();
            let same = self.starts.iter().filter(|start| **start == (port, at)).count();
            if starts < limits[0] as usize && (port == 0 || same < limits[port] as usize) {
                self.starts.push((port, at));
                break;
            }
            at += 1;
        }
        at
    }

    fn line(&mut self, line: u64, from: u64, miss: u32) -> u64 {
        let place = (line.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as usize;
        let under_way = self.lines[place].filter(|(known, _)| *known == line).map_or(0, |(_, there)| there);
        let miss = u64::from(miss);
        if miss == 0 || under_way > from {
            return under_way.max(from);
        }
        let start = first_free(&self.misses, self.config.l1_mshrs as usize, from, miss);
        self.misses.push((start, start + miss));
        self.lines[place] = Some((line, start + miss));
        start + miss
    }

    fn translated(&mut self, from: u64, touch: &Touch) -> u64 {
        let found = from + u64::from(touch.translation.tlb);
        let place = touch.page as usize % 64;
        let walk = u64::from(touch.translation.walk);
        if walk > 0 {
            let start = first_free(&self.walks, self.walkers, found, walk);
            self.walks.push((start, start + walk));
            self.pages[place] = Some((touch.page, start + walk));
            return start + walk;
        }
        self.pages[place].filter(|(page, _)| *page == touch.page).map_or(found, |(_, there)| there.max(found))
    }

    /// The next instruction, with what it does to memory.
    pub fn take(&mut self, inst: Inst, touches: &[Touch]) {
        let front_end = u64::from(self.config.front_end);
        let fetched = self.in_order(self.floor.max(self.before(self.config.fetch_queue).entered), |t| t.fetched);
        let could = self.before(self.config.rob).retired.max(fetched + front_end);
        let mut entered = self.in_order(could, |t| t.entered);
        // Nothing to come asks for anything before this.
        let base = |entered: u64| entered.min(fetched);
        let address = inst.address.map(|register| self.registers[register as usize]);
        let address = address[0].max(address[1]);
        let (mut loaded, mut known, mut loads, mut pending) = (0, 0, 0, Vec::new());
        for touch in touches {
            let queue = if touch.store { self.config.store_queue } else { self.config.load_queue } as usize;
            let oldest = match touch.store {
                true => self.stores.len().checked_sub(queue).map_or(0, |at| self.stores[at].written),
                false => self.loads.len().checked_sub(queue).map_or(0, |at| self.loads[at]),
            };
            entered = entered.max(oldest);
            let ready = address.max(entered + 1);
            let start = self.port(base(entered), ready, if touch.store { 2 } else { 1 });
            let translated = self.translated(start, touch);
            if touch.store {
                pending.push((*touch, translated));
                known = known.max(translated);
                continue;
            }
            let near = u64::from(touch.near);
            let (from, to) = touch.bytes;
            let in_flight = self.stores.iter().rev().take(self.config.store_queue as usize);
            let mut in_flight = in_flight.filter(|store| store.written > translated);
            let done = match in_flight.find(|store| store.bytes.0 < to && from < store.bytes.1) {
                Some(store) => (store.ready + near).max(translated + near),
                None => {
                    let miss = if touch.latency > touch.near { touch.latency } else { 0 };
                    self.line(touch.line, translated, miss).max(translated + near)
                }
            };
            loaded = loaded.max(done);
            loads += 1;
        }
        let sources = inst.sources.map(|register| self.registers[register as usize]);
        let ready = sources.into_iter().fold(loaded.max(address).max(entered + 1), u64::max);
        let latencies = self.config.latencies;
        let result = match inst.class {
            Class::Move if !touches.is_empty() => ready,
            class => {
                let takes = match class {
                    Class::Move | Class::Simple => 1,
                    Class::Multiply => latencies.multiply,
                    Class::Divide => latencies.divide,
                    Class::Float => latencies.float,
                    Class::FloatDivide => latencies.float_divide,
                };
                self.port(base(entered), ready, 0) + u64::from(takes)
            }
        };
        for register in inst.targets {
            self.registers[register as usize] = result;
        }
        let retired = self.in_order(result.max(known) + 1, |t| t.retired);
        self.all.push(Times { fetched, entered, retired });
        self.loads.extend((0..loads).map(|_| retired));
        for (touch, translated) in pending {
            let there = self.line(touch.line, retired, touch.latency);
            let last = self.stores.last().map_or(0, |store| store.written);
            let written = there.max(retired).max(last + 1);
            self.stores.push(Store { bytes: touch.bytes, ready: result.max(translated), written });
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
