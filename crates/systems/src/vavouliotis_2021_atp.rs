//! `vavouliotis-2021-atp`: a TLB prefetcher that chooses among three (ATP), and free prefetching of the entries beside those
//! that walks read (SBFP).
//!
//! After: Vavouliotis, Alvarez, Karakostas, Nikas, Koziris, Jiménez and Casas, "Exploiting Page Table Locality for Agile TLB
//! Prefetching", ISCA 2021. The text was not at hand; what is said of it here is from its abstract, from later papers, and
//! from what is generally known of the design.
//!
//! | design | here |
//! |---|---|
//! | a prefetch queue beside the last level of TLBs; a hit moves into the TLBs | `tlb_prefetch.rs` |
//! | H2P: the last two distances between misses | [`Rules::learn`] |
//! | MASP: the last and the present stride of the instruction | [`Rules::learn`] |
//! | STP: the two pages before and the two pages behind | [`Rules::learn`] |
//! | fake prefetch queues, and the counters that choose a prefetcher or none | [`Choice`] |
//! | SBFP: a line of page-table entries has neighbours for free; the distances that were of use are prefetched | [`FreeDistances`] |
//!
//! Readings: the prefetch queue has 64 entries, fake queues have 16, the sampler 64. The counter that enables prefetching has 8
//! bits, that of H2P against the others 6, that of MASP against STP 2; a prefetcher is chosen by the highest bit. Counters of
//! distances have 10 bits; a distance is prefetched above 100, and all are halved when one saturates.
//!
//! Deviations: a prefetched translation is there at the next miss, whatever its walk took. Neighbours are free only if their
//! accessed bit is set: a processor must not hold others.

use crate::assisted::{Assisted, POLICY};
use crate::description::{Description, Role};
use crate::evidence::{Criterion, Evidence};
use crate::settings::{Accepts, Setting, Settings};
use crate::tlb_prefetch::{BUFFER_LATENCY, PrefetchBuffer, Strides, distance, page_at};
use reach_core::{
    Asid, AssistAnswer, AssistPort, FinishedWalk, PageShift, PageTableKind, Pte, TlbMiss, Vpn, WalkAssist,
};
use std::collections::VecDeque;

/// The entry of the table of systems.
pub(crate) const DESCRIPTION: Description = Description {
    name: "vavouliotis-2021-atp",
    summary: "prefetches translations by the best of three rules, and neighbours in lines that walks read (ATP+SBFP)",
    role: Role::Design,
    compared: false,
    published: Some(
        "Vavouliotis, Alvarez, Karakostas, Nikas, Koziris, Jiménez and Casas: Exploiting Page Table Locality for Agile TLB \
         Prefetching, ISCA 2021",
    ),
    criterion: Criterion::new(Evidence::AssistedWalks, "prefetched no page that was used"),
    page_table: PageTableKind::Radix,
    settings: SETTINGS,
    build: |settings: &Settings| {
        let (prefetches, free) = (settings.is_on("atp"), settings.is_on("sbfp"));
        Box::new(Assisted::new(DESCRIPTION.name, settings, move |vm| Box::new(Atp::new(prefetches, free, vm.base()))))
    },
};

const SETTINGS: &[Setting] = &[
    Setting::new("atp", Accepts::Switch, "on", "whether pages are prefetched by walks"),
    Setting::new("sbfp", Accepts::Switch, "on", "whether neighbours in lines that walks read are prefetched"),
    POLICY,
];

/// Entries of the prefetch queue.
const QUEUE: usize = 64;
/// Entries of a fake prefetch queue.
const FAKE_QUEUE: usize = 16;
/// Entries of the sampler of free prefetches.
const SAMPLER: usize = 64;
/// Rows of MASP's table.
const STRIDES: usize = 64;
/// The greatest value of a counter of distances, and the value above which the distance is prefetched.
const FREE_MOST: u16 = 1023;
const FREE_THRESHOLD: u16 = 100;
/// The greatest distance within a line of eight entries.
const FREE_REACH: i64 = 7;

/// A saturating counter, which starts in the middle.
#[derive(Clone, Copy, Debug)]
struct Counter {
    value: u8,
    most: u8,
}

impl Counter {
    fn of_bits(bits: u32) -> Counter {
        let most = ((1u16 << bits) - 1) as u8;
        Counter { value: most / 2 + 1, most }
    }

    fn up(&mut self) {
        self.value = self.value.saturating_add(1).min(self.most);
    }

    fn down(&mut self) {
        self.value = self.value.saturating_sub(1);
    }

    /// Returns the highest bit.
    fn is_high(self) -> bool {
        self.value > self.most / 2
    }
}

/// The rules of the three prefetchers: H2P, MASP and STP.
#[derive(Clone, Debug)]
struct Rules {
    /// The last miss, and the distance that led to it.
    last: Option<(Asid, Vpn, Option<i64>)>,
    strides: Strides,
}

/// Index of each prefetcher.
const H2P: usize = 0;
const MASP: usize = 1;
const STP: usize = 2;

impl Rules {
    /// Learns a miss. Returns, for each prefetcher, the pages that it would prefetch, each once.
    fn learn(&mut self, miss: TlbMiss) -> [Vec<Vpn>; 3] {
        let last = self.last.filter(|&(asid, ..)| asid == miss.asid);
        let now = last.map(|(_, vpn, _)| distance(vpn, miss.vpn));
        let before = last.and_then(|(.., before)| before);
        self.last = Some((miss.asid, miss.vpn, now));
        let (old, new) = self.strides.learn(miss);
        let pages = |distances: &[Option<i64>]| {
            let mut pages: Vec<Vpn> = Vec::new();
            for page in distances.iter().flatten().filter_map(|&distance| page_at(miss.vpn, distance)) {
                if page != miss.vpn && !pages.contains(&page) {
                    pages.push(page);
                }
            }
            pages
        };
        let mut of = [const { Vec::new() }; 3];
        of[H2P] = pages(&[now, before]);
        of[MASP] = pages(&[old, new]);
        of[STP] = pages(&[Some(1), Some(2), Some(-1), Some(-2)]);
        of
    }
}

/// Chooses a prefetcher by what each would have prefetched.
#[derive(Clone, Debug)]
struct Choice {
    /// The pages that each would have prefetched, the oldest first.
    fake: [VecDeque<(Asid, Vpn)>; 3],
    enabled: Counter,
    first: Counter,
    second: Counter,
}

impl Choice {
    fn new() -> Choice {
        Choice {
            fake: Default::default(),
            enabled: Counter::of_bits(8),
            first: Counter::of_bits(6),
            second: Counter::of_bits(2),
        }
    }

    /// Learns a miss, and what each prefetcher would prefetch now. Returns the one to use; `None` to prefetch nothing.
    fn choose(&mut self, miss: TlbMiss, pages: &[Vec<Vpn>; 3]) -> Option<usize> {
        let hits = [H2P, MASP, STP].map(|rule| {
            let at = self.fake[rule].iter().position(|&page| page == (miss.asid, miss.vpn));
            at.is_some_and(|at| self.fake[rule].remove(at).is_some())
        });
        match hits.contains(&true) {
            true => self.enabled.up(),
            false => self.enabled.down(),
        }
        match (hits[H2P], hits[MASP] || hits[STP]) {
            (true, false) => self.first.up(),
            (false, true) => self.first.down(),
            _ => {}
        }
        match (hits[MASP], hits[STP]) {
            (true, false) => self.second.up(),
            (false, true) => self.second.down(),
            _ => {}
        }
        for (fake, pages) in self.fake.iter_mut().zip(pages) {
            for &page in pages {
                if fake.contains(&(miss.asid, page)) {
                    continue;
                }
                if fake.len() == FAKE_QUEUE {
                    fake.pop_front();
                }
                fake.push_back((miss.asid, page));
            }
        }
        let chosen = match (self.first.is_high(), self.second.is_high()) {
            (true, _) => H2P,
            (false, true) => MASP,
            (false, false) => STP,
        };
        self.enabled.is_high().then_some(chosen)
    }
}

/// Counts which distances within a line were of use.
#[derive(Clone, Debug)]
struct FreeDistances {
    counts: [u16; 2 * FREE_REACH as usize + 1],
    /// Neighbours that were not prefetched, with their distances; the oldest first.
    sampler: VecDeque<(Asid, Vpn, i64)>,
}

impl FreeDistances {
    fn new() -> FreeDistances {
        FreeDistances { counts: [0; 2 * FREE_REACH as usize + 1], sampler: VecDeque::new() }
    }

    fn is_useful(&self, distance: i64) -> bool {
        self.counts[(distance + FREE_REACH) as usize] > FREE_THRESHOLD
    }

    /// Counts that a neighbour at `distance` was of use, or would have been.
    fn used(&mut self, distance: i64) {
        let count = &mut self.counts[(distance + FREE_REACH) as usize];
        *count += 1;
        if *count == FREE_MOST {
            self.counts.iter_mut().for_each(|count| *count /= 2);
        }
    }

    /// Learns a miss of a page that is in the sampler.
    fn missed(&mut self, asid: Asid, vpn: Vpn) {
        if let Some(at) = self.sampler.iter().position(|&(of, page, _)| (of, page) == (asid, vpn))
            && let Some((.., distance)) = self.sampler.remove(at)
        {
            self.used(distance);
        }
    }

    fn sample(&mut self, asid: Asid, vpn: Vpn, distance: i64) {
        if self.sampler.len() == SAMPLER {
            self.sampler.pop_front();
        }
        self.sampler.push_back((asid, vpn, distance));
    }
}

/// The prefetcher.
#[derive(Clone, Debug)]
struct Atp {
    prefetches: bool,
    free: bool,
    base: PageShift,
    /// A free prefetch has its distance.
    queue: PrefetchBuffer<Option<i64>>,
    rules: Rules,
    choice: Choice,
    distances: FreeDistances,
}

impl Atp {
    fn new(prefetches: bool, free: bool, base: PageShift) -> Atp {
        Atp {
            prefetches,
            free,
            base,
            queue: PrefetchBuffer::new(QUEUE, base),
            rules: Rules { last: None, strides: Strides::new(STRIDES) },
            choice: Choice::new(),
            distances: FreeDistances::new(),
        }
    }

    /// Learns a miss, and prefetches.
    fn learn(&mut self, miss: TlbMiss, port: &mut dyn AssistPort) {
        if !self.prefetches {
            return;
        }
        let pages = self.rules.learn(miss);
        let Some(chosen) = self.choice.choose(miss, &pages) else { return };
        for &page in &pages[chosen] {
            if self.queue.holds(miss.asid, page) {
                continue;
            }
            if let Some(walk) = port.walk(page) {
                self.queue.add(miss.asid, page, walk.pte, None);
                self.take_neighbours(miss.asid, page, walk.pte, port);
            }
        }
    }

    /// Prefetches or samples the neighbours of `vpn`, whose entry `pte` a walk has read.
    fn take_neighbours(&mut self, asid: Asid, vpn: Vpn, pte: Pte, port: &mut dyn AssistPort) {
        if !self.free || pte.shift() != self.base {
            return;
        }
        for neighbour in port.line_of_entries(vpn).map(Vpn).filter(|&neighbour| neighbour != vpn) {
            let entry = port.entry(neighbour).filter(|entry| entry.shift() == self.base && entry.accessed());
            let Some(entry) = entry.filter(|_| !self.queue.holds(asid, neighbour)) else { continue };
            let distance = distance(vpn, neighbour);
            match self.distances.is_useful(distance) {
                true => self.queue.add(asid, neighbour, entry, Some(distance)),
                false => self.distances.sample(asid, neighbour, distance),
            }
        }
    }
}

impl WalkAssist for Atp {
    fn search(&mut self, miss: TlbMiss, port: &mut dyn AssistPort) -> AssistAnswer {
        let Some((pte, free)) = self.queue.take(miss.asid, miss.vpn) else {
            self.distances.missed(miss.asid, miss.vpn);
            return AssistAnswer::Walk;
        };
        port.wait(BUFFER_LATENCY);
        free.into_iter().for_each(|distance| self.distances.used(distance));
        self.learn(miss, port);
        AssistAnswer::Hit(pte)
    }

    fn walked(&mut self, miss: TlbMiss, walk: FinishedWalk, port: &mut dyn AssistPort) {
        self.take_neighbours(miss.asid, miss.vpn, walk.pte, port);
        self.learn(miss, port);
    }

    fn invalidate(&mut self, asid: Asid, vpn: Vpn, pages: u64) {
        self.queue.invalidate(asid, vpn, pages);
    }

    fn translations(&self, asid: Asid) -> Vec<(Vpn, Pte)> {
        self.queue.translations(asid)
    }

    fn reads_instructions(&self) -> bool {
        self.prefetches
    }

    fn clone_box(&self) -> Box<dyn WalkAssist> {
        Box::new(self.clone())
    }
}
