//! The twin of a prefetcher of instruction translations: one list of chains.

use reach_core::{Asid, AssistAnswer, AssistPort, FinishedWalk, Kind, PageShift, Pte, TlbMiss, Vpn, WalkAssist};

/// A page of code, the pages that missed after it (the oldest first), and the table that it is in.
#[derive(Clone, Debug)]
struct Chain {
    page: (Asid, Vpn),
    next: Vec<Vpn>,
    table: usize,
}

/// A prefetcher that remembers all misses of the phase.
#[derive(Clone, Debug)]
pub struct NaiveMorrigan {
    base: PageShift,
    buffer: Vec<(Asid, Vpn, Pte)>,
    chains: Vec<Chain>,
    /// Each page that has missed, with the count.
    misses: Vec<((Asid, Vpn), u64)>,
    all: u64,
    last: Option<(Asid, Vpn)>,
}

impl NaiveMorrigan {
    /// Creates one that knows nothing.
    pub fn new(base: PageShift) -> NaiveMorrigan {
        NaiveMorrigan { base, buffer: Vec::new(), chains: Vec::new(), misses: Vec::new(), all: 0, last: None }
    }

    fn held(&self, asid: Asid, vpn: Vpn) -> Option<usize> {
        let number = |vpn: Vpn, pte: Pte| vpn.0 / pte.shift().base_pages(self.base);
        self.buffer.iter().position(|&(of, at, pte)| of == asid && number(at, pte) == number(vpn, pte))
    }

    fn put(&mut self, asid: Asid, vpn: Vpn, pte: Pte) {
        self.buffer.push((asid, vpn, pte));
        if self.buffer.len() > 64 {
            self.buffer.remove(0);
        }
    }

    fn misses_of(&self, page: (Asid, Vpn)) -> u64 {
        self.misses.iter().find(|(of, _)| *of == page).map_or(0, |(_, count)| *count)
    }

    /// Puts a chain into a table, in place of that of the page that has missed least if the table is full.
    fn enter(&mut self, chain: Chain) {
        let most = [128, 128, 128, 64][chain.table];
        let mut of_table: Vec<(u64, (Asid, Vpn))> = self
            .chains
            .iter()
            .filter(|other| other.table == chain.table)
            .map(|other| (self.misses_of(other.page), other.page))
            .collect();
        of_table.sort();
        if of_table.len() == most {
            self.chains.retain(|other| other.page != of_table[0].1);
        }
        self.chains.push(chain);
    }

    fn learn(&mut self, miss: TlbMiss, port: &mut dyn AssistPort) {
        let page = (miss.asid, miss.vpn);
        match self.misses.iter_mut().find(|(of, _)| *of == page) {
            Some((_, count)) => *count += 1,
            None => self.misses.push((page, 1)),
        }
        self.all += 1;
        if self.all.is_multiple_of(1 << 14) {
            self.misses.iter_mut().for_each(|(_, count)| *count /= 2);
        }
        let last = self.last.replace(page);
        if let Some(last) = last
            && last.0 == miss.asid
            && last != page
        {
            let known = self.chains.iter().position(|chain| chain.page == last);
            let mut chain = known.map_or(Chain { page: last, next: Vec::new(), table: 0 }, |at| self.chains.remove(at));
            if known.is_none() {
                chain.next.push(miss.vpn);
                self.enter(chain);
            } else {
                if !chain.next.contains(&miss.vpn) {
                    chain.next.push(miss.vpn);
                }
                if chain.next.len() <= 1 << chain.table {
                    self.chains.push(chain);
                } else if chain.table == 3 {
                    chain.next.remove(0);
                    self.chains.push(chain);
                } else {
                    chain.table += 1;
                    self.enter(chain);
                }
            }
        }
        let known = self.chains.iter().find(|chain| chain.page == page);
        let wanted = known.map_or(vec![miss.vpn + 1], |chain| chain.next.clone());
        for vpn in wanted {
            if self.held(miss.asid, vpn).is_some() {
                continue;
            }
            let Some(walk) = port.walk(vpn) else { continue };
            self.put(miss.asid, vpn, walk.pte);
            if walk.pte.shift() != self.base {
                continue;
            }
            for other in port.line_of_entries(vpn).map(Vpn) {
                let Some(pte) = port.entry(other) else { continue };
                let usable = pte.shift() == self.base && pte.accessed() && pte.executable();
                if other != vpn && usable && self.held(miss.asid, other).is_none() {
                    self.put(miss.asid, other, pte);
                }
            }
        }
    }
}

impl WalkAssist for NaiveMorrigan {
    fn search(&mut self, miss: TlbMiss, port: &mut dyn AssistPort) -> AssistAnswer {
        let found = self.held(miss.asid, miss.vpn);
        let Some(at) = found.filter(|_| miss.kind == Kind::Fetch) else { return AssistAnswer::Walk };
        let (_, _, pte) = self.buffer.remove(at);
        port.wait(2);
        self.learn(miss, port);
        AssistAnswer::Hit(pte)
    }

    fn walked(&mut self, miss: TlbMiss, _: FinishedWalk, port: &mut dyn AssistPort) {
        if miss.kind == Kind::Fetch {
            self.learn(miss, port);
        }
    }

    fn invalidate(&mut self, asid: Asid, vpn: Vpn, pages: u64) {
        let (base, end) = (self.base, u128::from(vpn.0) + u128::from(pages));
        self.buffer.retain(|&(of, at, pte)| {
            let size = u128::from(pte.shift().base_pages(base));
            let first = u128::from(at.0) / size * size;
            of != asid || first >= end || first + size <= u128::from(vpn.0)
        });
        if pages == u64::MAX {
            self.chains.retain(|chain| chain.page.0 != asid);
            self.misses.retain(|(page, _)| page.0 != asid);
        }
    }

    fn translations(&self, asid: Asid) -> Vec<(Vpn, Pte)> {
        self.buffer.iter().filter(|entry| entry.0 == asid).map(|&(_, vpn, pte)| (vpn, pte)).collect()
    }

    fn clone_box(&self) -> Box<dyn WalkAssist> {
        Box::new(self.clone())
    }
}
