//! `vavouliotis-2021-morrigan`: a prefetcher of instruction translations, which remembers which page misses after which.
//!
//! After: Vavouliotis, Alvarez, Grot, Jiménez and Casas, "Morrigan: A Composite Instruction TLB Prefetcher", MICRO 2021. What is
//! said of it here is from its abstract and from what is generally known of the design.
//!
//! | design | here |
//! |---|---|
//! | an ensemble of Markov prefetchers, for pages that one, two, four or eight others follow | [`Chains`] |
//! | a page moves to the next table when it has more successors than its own holds | [`Chains::follows`] |
//! | the page that misses least often makes room, and the counts are forgotten after a phase | [`Chains::make_room`] |
//! | a sequential prefetcher where no chain is known | [`Morrigan::learn`] |
//! | neighbours in the line of entries that a prefetch has read | [`Morrigan::add`] |
//! | a buffer beside the last level of TLBs | `tlb_prefetch.rs` |
//!
//! Readings: tables of 128, 128, 128 and 64 pages, and a buffer of 64 translations; a page in the largest table that is full replaces
//! its oldest successor. Counts of misses are halved after 16,384 misses. Neighbours are taken only if their accessed bit is set.
//!
//! Deviations: loads and stores neither train it nor use it. A prefetched translation is there at the next miss.

use crate::assisted::{Assisted, POLICY};
use crate::description::{Description, Role};
use crate::evidence::{Criterion, Evidence};
use crate::settings::{Setting, Settings};
use crate::tlb_prefetch::{BUFFER_LATENCY, PrefetchBuffer};
use reach_core::{
    Asid, AssistAnswer, AssistPort, FinishedWalk, Kind, PageShift, PageTableKind, Pte, TlbMiss, Vpn, WalkAssist,
};
use std::collections::BTreeMap;

/// The entry of the table of systems.
pub(crate) const DESCRIPTION: Description = Description {
    name: "vavouliotis-2021-morrigan",
    summary: "prefetches instruction translations by the pages that missed next before (Morrigan)",
    role: Role::Design,
    compared: false,
    published: Some(
        "Vavouliotis, Alvarez, Grot, Jiménez and Casas: Morrigan: A Composite Instruction TLB Prefetcher, MICRO 2021",
    ),
    criterion: Criterion::new(Evidence::AssistedWalks, "prefetched no page of code that was used"),
    page_table: PageTableKind::Radix,
    settings: SETTINGS,
    build: |settings: &Settings| {
        Box::new(Assisted::new(DESCRIPTION.name, settings, |vm| Box::new(Morrigan::new(vm.base()))))
    },
};

const SETTINGS: &[Setting] = &[POLICY];

/// Slots for successors of a page in each table, and its pages.
const TABLES: [(usize, usize); 4] = [(1, 128), (2, 128), (4, 128), (8, 64)];
/// Entries of the buffer.
const BUFFER: usize = 64;
/// Misses after which counts are halved.
const PHASE: u64 = 1 << 14;

type Page = (Asid, Vpn);

/// The Markov prefetchers: which pages missed after which.
#[derive(Clone, Debug)]
struct Chains {
    /// By table: the successors of each page, the oldest first.
    tables: [BTreeMap<Page, Vec<Vpn>>; TABLES.len()],
    /// How often each page has missed.
    misses: BTreeMap<Page, u64>,
    all: u64,
}

impl Chains {
    fn new() -> Chains {
        Chains { tables: Default::default(), misses: BTreeMap::new(), all: 0 }
    }

    fn count(&mut self, page: Page) {
        *self.misses.entry(page).or_default() += 1;
        self.all += 1;
        if self.all.is_multiple_of(PHASE) {
            self.misses.values_mut().for_each(|misses| *misses /= 2);
            self.misses.retain(|_, misses| *misses > 0);
        }
    }

    fn table_of(&self, page: Page) -> Option<usize> {
        self.tables.iter().position(|table| table.contains_key(&page))
    }

    fn successors(&self, page: Page) -> Vec<Vpn> {
        self.table_of(page).map(|table| self.tables[table][&page].clone()).unwrap_or_default()
    }

    /// Drops the page that misses least often, if the table is full; among equals, the first.
    fn make_room(&mut self, table: usize) {
        if self.tables[table].len() < TABLES[table].1 {
            return;
        }
        let misses = |page: &Page| self.misses.get(page).copied().unwrap_or_default();
        let least = self.tables[table].keys().copied().min_by_key(|page| (misses(page), *page));
        least.into_iter().for_each(|page| _ = self.tables[table].remove(&page));
    }

    /// Learns that `next` missed after `page`.
    fn follows(&mut self, page: Page, next: Vpn) {
        let Some(table) = self.table_of(page) else {
            self.make_room(0);
            self.tables[0].insert(page, vec![next]);
            return;
        };
        let Some(successors) = self.tables[table].get_mut(&page).filter(|known| !known.contains(&next)) else { return };
        successors.push(next);
        if successors.len() <= TABLES[table].0 {
            return;
        }
        if table + 1 == TABLES.len() {
            successors.remove(0);
            return;
        }
        let successors = std::mem::take(successors);
        self.tables[table].remove(&page);
        self.make_room(table + 1);
        self.tables[table + 1].insert(page, successors);
    }

    fn forget(&mut self, asid: Asid) {
        self.tables.iter_mut().for_each(|table| table.retain(|(of, _), _| *of != asid));
        self.misses.retain(|(of, _), _| *of != asid);
    }
}

/// The prefetcher.
#[derive(Clone, Debug)]
struct Morrigan {
    base: PageShift,
    buffer: PrefetchBuffer<()>,
    chains: Chains,
    /// The last page that missed.
    last: Option<Page>,
}

impl Morrigan {
    fn new(base: PageShift) -> Morrigan {
        Morrigan { base, buffer: PrefetchBuffer::new(BUFFER, base), chains: Chains::new(), last: None }
    }

    /// Adds a page that was walked for, and its neighbours in the line of entries.
    fn add(&mut self, asid: Asid, vpn: Vpn, pte: Pte, port: &mut dyn AssistPort) {
        self.buffer.add(asid, vpn, pte, ());
        if pte.shift() != self.base {
            return;
        }
        for neighbour in port.line_of_entries(vpn).map(Vpn).filter(|&neighbour| neighbour != vpn) {
            let entry = port.entry(neighbour);
            let usable = entry.filter(|pte| pte.shift() == self.base && pte.accessed() && pte.executable());
            if let Some(pte) = usable.filter(|_| !self.buffer.holds(asid, neighbour)) {
                self.buffer.add(asid, neighbour, pte, ());
            }
        }
    }

    /// Learns a miss, and prefetches.
    fn learn(&mut self, miss: TlbMiss, port: &mut dyn AssistPort) {
        let page = (miss.asid, miss.vpn);
        self.chains.count(page);
        if let Some(last) = self.last.replace(page).filter(|&(asid, vpn)| asid == miss.asid && vpn != miss.vpn) {
            self.chains.follows(last, miss.vpn);
        }
        let mut next = self.chains.successors(page);
        if next.is_empty() {
            next.push(miss.vpn + 1);
        }
        for vpn in next {
            if !self.buffer.holds(miss.asid, vpn)
                && let Some(walk) = port.walk(vpn)
            {
                self.add(miss.asid, vpn, walk.pte, port);
            }
        }
    }
}

impl WalkAssist for Morrigan {
    fn search(&mut self, miss: TlbMiss, port: &mut dyn AssistPort) -> AssistAnswer {
        let found = (miss.kind == Kind::Fetch).then(|| self.buffer.take(miss.asid, miss.vpn)).flatten();
        let Some((pte, ())) = found else { return AssistAnswer::Walk };
        port.wait(BUFFER_LATENCY);
        self.learn(miss, port);
        AssistAnswer::Hit(pte)
    }

    fn walked(&mut self, miss: TlbMiss, _: FinishedWalk, port: &mut dyn AssistPort) {
        if miss.kind == Kind::Fetch {
            self.learn(miss, port);
        }
    }

    fn invalidate(&mut self, asid: Asid, vpn: Vpn, pages: u64) {
        self.buffer.invalidate(asid, vpn, pages);
        if pages == u64::MAX {
            self.chains.forget(asid);
        }
    }

    fn translations(&self, asid: Asid) -> Vec<(Vpn, Pte)> {
        self.buffer.translations(asid)
    }

    fn clone_box(&self) -> Box<dyn WalkAssist> {
        Box::new(self.clone())
    }
}
