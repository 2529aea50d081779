//! Twins of TLB prefetchers, which remember every miss.

use reach_core::{Asid, AssistAnswer, AssistPort, FinishedWalk, PageShift, Pte, TlbMiss, Vpn, WalkAssist};
use std::collections::BTreeMap;

/// The rule of a [`NaivePrefetcher`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The next page.
    Sequential,
    /// The stride of an instruction, once it repeats.
    Stride,
    /// The two distances that followed this one last.
    Distance,
}

/// Returns the pages from `from` to `to`.
fn pages(from: Vpn, to: Vpn) -> i64 {
    to.0 as i64 - from.0 as i64
}

/// Returns the page at `distance` from `vpn`, if there is one.
fn at(vpn: Vpn, distance: i64) -> Option<Vpn> {
    u64::try_from(vpn.0 as i64 + distance).ok().map(Vpn)
}

/// A buffer of prefetched translations, the oldest first, each with the distance if it was free.
#[derive(Clone, Debug)]
struct Buffer {
    base: PageShift,
    most: usize,
    held: Vec<(Asid, Vpn, Pte, Option<i64>)>,
}

impl Buffer {
    fn position(&self, asid: Asid, vpn: Vpn) -> Option<usize> {
        let first = |vpn: Vpn, pte: Pte| vpn.0 / pte.shift().base_pages(self.base);
        self.held.iter().position(|entry| entry.0 == asid && first(entry.1, entry.2) == first(vpn, entry.2))
    }

    fn add(&mut self, asid: Asid, vpn: Vpn, pte: Pte, free: Option<i64>) {
        self.held.push((asid, vpn, pte, free));
        if self.held.len() > self.most {
            self.held.remove(0);
        }
    }

    fn invalidate(&mut self, asid: Asid, vpn: Vpn, pages: u64) {
        let (base, end) = (self.base, u128::from(vpn.0) + u128::from(pages));
        self.held.retain(|&(of, at, pte, _)| {
            let size = u128::from(pte.shift().base_pages(base));
            let first = u128::from(at.0) / size * size;
            of != asid || first >= end || first + size <= u128::from(vpn.0)
        });
    }

    fn translations(&self, asid: Asid) -> Vec<(Vpn, Pte)> {
        self.held.iter().filter(|entry| entry.0 == asid).map(|entry| (entry.1, entry.2)).collect()
    }
}

/// The last misses of an instruction, as a table of `rows` rows that its number selects remembers them.
fn strides(misses: &[TlbMiss], rows: u64) -> (Option<i64>, Option<i64>) {
    let Some((now, earlier)) = misses.split_last() else { return (None, None) };
    let is_same = |miss: &TlbMiss| (miss.asid, miss.instruction) == (now.asid, now.instruction);
    // Another instruction in the row forgets it.
    let row = |miss: &&TlbMiss| miss.instruction % rows == now.instruction % rows;
    let own: Vec<&TlbMiss> = earlier.iter().rev().filter(row).take_while(|miss| is_same(miss)).take(2).collect();
    let new = own.first().map(|last| pages(last.vpn, now.vpn));
    let old = own.get(1).map(|before| pages(before.vpn, own[0].vpn));
    (old, new)
}

/// A prefetcher with a buffer.
#[derive(Clone, Debug)]
pub struct NaivePrefetcher {
    rule: Rule,
    rows: u64,
    buffer: Buffer,
    /// All misses, the first first.
    misses: Vec<TlbMiss>,
}

impl NaivePrefetcher {
    /// Creates one with `rows` rows of its table and a buffer of `buffer` entries.
    pub fn new(rule: Rule, rows: u64, buffer: usize, base: PageShift) -> NaivePrefetcher {
        NaivePrefetcher { rule, rows, buffer: Buffer { base, most: buffer, held: Vec::new() }, misses: Vec::new() }
    }

    /// Returns the distances that followed the last one, as the table of distances remembers them.
    fn after_last_distance(&self) -> [Option<i64>; 2] {
        // The distances between neighbouring misses of one address space; none where the space changed.
        let pairs = self.misses.windows(2);
        let distances: Vec<Option<i64>> =
            pairs.map(|pair| (pair[0].asid == pair[1].asid).then(|| pages(pair[0].vpn, pair[1].vpn))).collect();
        let Some(&Some(last)) = distances.last() else { return [None, None] };
        let row = |distance: i64| distance.rem_euclid(self.rows as i64);
        let (mut owner, mut next): (Option<i64>, Vec<i64>) = (None, Vec::new());
        for pair in distances.windows(2) {
            let [Some(before), Some(after)] = *pair else { continue };
            if row(before) != row(last) {
                continue;
            }
            if owner != Some(before) {
                (owner, next) = (Some(before), Vec::new());
            }
            if next.first() != Some(&after) {
                next.insert(0, after);
            }
        }
        if owner != Some(last) {
            return [None, None];
        }
        [next.first().copied(), next.get(1).copied()]
    }

    fn learn(&mut self, miss: TlbMiss, port: &mut dyn AssistPort) {
        self.misses.push(miss);
        let wanted = match self.rule {
            Rule::Sequential => [Some(1), None],
            Rule::Distance => self.after_last_distance(),
            Rule::Stride => match strides(&self.misses, self.rows) {
                (Some(old), Some(new)) if old == new && old != 0 => [Some(old), None],
                _ => [None, None],
            },
        };
        for distance in wanted.into_iter().flatten() {
            let Some(page) = at(miss.vpn, distance) else { continue };
            if self.buffer.position(miss.asid, page).is_none()
                && let Some(walk) = port.walk(page)
            {
                self.buffer.add(miss.asid, page, walk.pte, None);
            }
        }
    }
}

impl WalkAssist for NaivePrefetcher {
    fn search(&mut self, miss: TlbMiss, port: &mut dyn AssistPort) -> AssistAnswer {
        let Some(at) = self.buffer.position(miss.asid, miss.vpn) else { return AssistAnswer::Walk };
        let (_, _, pte, _) = self.buffer.held.remove(at);
        port.wait(2);
        self.learn(miss, port);
        AssistAnswer::Hit(pte)
    }

    fn walked(&mut self, miss: TlbMiss, _: FinishedWalk, port: &mut dyn AssistPort) {
        self.learn(miss, port);
    }

    fn invalidate(&mut self, asid: Asid, vpn: Vpn, pages: u64) {
        self.buffer.invalidate(asid, vpn, pages);
    }

    fn translations(&self, asid: Asid) -> Vec<(Vpn, Pte)> {
        self.buffer.translations(asid)
    }

    fn clone_box(&self) -> Box<dyn WalkAssist> {
        Box::new(self.clone())
    }
}

/// Three prefetchers, of which counters choose one, and free prefetching.
#[derive(Clone, Debug)]
pub struct NaiveAtp {
    prefetches: bool,
    free: bool,
    buffer: Buffer,
    misses: Vec<TlbMiss>,
    /// What each prefetcher would have prefetched, the oldest first.
    fake: [Vec<(Asid, Vpn)>; 3],
    /// Whether to prefetch, H2P against the others, MASP against STP.
    counters: [u32; 3],
    /// By distance within a line.
    useful: BTreeMap<i64, u32>,
    /// Free translations that were not prefetched, the oldest first.
    sampled: Vec<(Asid, Vpn, i64)>,
}

impl NaiveAtp {
    /// Creates one that prefetches by walks, prefetches free neighbours, or both.
    pub fn new(prefetches: bool, free: bool, base: PageShift) -> NaiveAtp {
        NaiveAtp {
            prefetches,
            free,
            buffer: Buffer { base, most: 64, held: Vec::new() },
            misses: Vec::new(),
            fake: Default::default(),
            counters: [128, 32, 2],
            useful: BTreeMap::new(),
            sampled: Vec::new(),
        }
    }

    fn count(&mut self, counter: usize, up: bool) {
        let most = [255, 63, 3][counter];
        let value = self.counters[counter];
        self.counters[counter] = if up { most.min(value + 1) } else { value.saturating_sub(1) };
    }

    /// Returns the pages that H2P, MASP and STP want after the last miss.
    fn wanted(&self) -> [Vec<Vpn>; 3] {
        let now = self.misses[self.misses.len() - 1];
        let between = |back: usize| {
            let (later, earlier) = (self.misses.len().checked_sub(back)?, self.misses.len().checked_sub(back + 1)?);
            let (later, earlier) = (self.misses.get(later)?, self.misses.get(earlier)?);
            (earlier.asid == later.asid).then(|| pages(earlier.vpn, later.vpn))
        };
        // A change of the address space forgets the distance before it.
        let last = between(1);
        let before = last.and_then(|_| between(2));
        let (old, new) = strides(&self.misses, 64);
        let distances: [Vec<i64>; 3] = [
            [last, before].into_iter().flatten().collect(),
            [old, new].into_iter().flatten().collect(),
            vec![1, 2, -1, -2],
        ];
        distances.map(|distances| {
            let mut all: Vec<Vpn> = Vec::new();
            for page in distances.into_iter().filter_map(|distance| at(now.vpn, distance)) {
                if page != now.vpn && !all.contains(&page) {
                    all.push(page);
                }
            }
            all
        })
    }

    fn learn(&mut self, miss: TlbMiss, port: &mut dyn AssistPort) {
        if !self.prefetches {
            return;
        }
        self.misses.push(miss);
        let wanted = self.wanted();
        let hits: Vec<bool> = self.fake.iter().map(|fake| fake.contains(&(miss.asid, miss.vpn))).collect();
        for fake in &mut self.fake {
            fake.retain(|page| *page != (miss.asid, miss.vpn));
        }
        self.count(0, hits.iter().any(|hit| *hit));
        if hits[0] != (hits[1] || hits[2]) {
            self.count(1, hits[0]);
        }
        if hits[1] != hits[2] {
            self.count(2, hits[1]);
        }
        for (fake, wanted) in self.fake.iter_mut().zip(&wanted) {
            for &page in wanted {
                if !fake.contains(&(miss.asid, page)) {
                    fake.push((miss.asid, page));
                }
                if fake.len() > 16 {
                    fake.remove(0);
                }
            }
        }
        if self.counters[0] < 128 {
            return;
        }
        let chosen = if self.counters[1] >= 32 { 0 } else { if self.counters[2] >= 2 { 1 } else { 2 } };
        for &page in &wanted[chosen] {
            if self.buffer.position(miss.asid, page).is_some() {
                continue;
            }
            if let Some(walk) = port.walk(page) {
                self.buffer.add(miss.asid, page, walk.pte, None);
                self.neighbours(miss.asid, page, walk.pte, port);
            }
        }
    }

    fn neighbours(&mut self, asid: Asid, vpn: Vpn, pte: Pte, port: &mut dyn AssistPort) {
        let base = self.buffer.base;
        if !self.free || pte.shift() != base {
            return;
        }
        for other in port.line_of_entries(vpn).map(Vpn) {
            let Some(entry) = port.entry(other) else { continue };
            if other == vpn || entry.shift() != base || !entry.accessed() || self.buffer.position(asid, other).is_some()
            {
                continue;
            }
            let distance = pages(vpn, other);
            if self.useful.get(&distance).is_some_and(|count| *count > 100) {
                self.buffer.add(asid, other, entry, Some(distance));
            } else {
                self.sampled.push((asid, other, distance));
                if self.sampled.len() > 64 {
                    self.sampled.remove(0);
                }
            }
        }
    }

    fn used(&mut self, distance: i64) {
        let count = self.useful.entry(distance).or_default();
        *count += 1;
        if *count == 1023 {
            self.useful.values_mut().for_each(|count| *count /= 2);
        }
    }
}

impl WalkAssist for NaiveAtp {
    fn search(&mut self, miss: TlbMiss, port: &mut dyn AssistPort) -> AssistAnswer {
        if let Some(at) = self.buffer.position(miss.asid, miss.vpn) {
            let (_, _, pte, free) = self.buffer.held.remove(at);
            port.wait(2);
            if let Some(distance) = free {
                self.used(distance);
            }
            self.learn(miss, port);
            return AssistAnswer::Hit(pte);
        }
        let sampled = self.sampled.iter().position(|sample| (sample.0, sample.1) == (miss.asid, miss.vpn));
        if let Some(at) = sampled {
            let (_, _, distance) = self.sampled.remove(at);
            self.used(distance);
        }
        AssistAnswer::Walk
    }

    fn walked(&mut self, miss: TlbMiss, walk: FinishedWalk, port: &mut dyn AssistPort) {
        self.neighbours(miss.asid, miss.vpn, walk.pte, port);
        self.learn(miss, port);
    }

    fn invalidate(&mut self, asid: Asid, vpn: Vpn, pages: u64) {
        self.buffer.invalidate(asid, vpn, pages);
    }

    fn translations(&self, asid: Asid) -> Vec<(Vpn, Pte)> {
        self.buffer.translations(asid)
    }

    fn clone_box(&self) -> Box<dyn WalkAssist> {
        Box::new(self.clone())
    }
}
