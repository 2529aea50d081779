//! The front end: where the program goes on, and what fetching waits for.

use super::in_order::InOrder;
use super::{Branch, Code, Fetched, Left, OooCore, Translation};

/// A branch that was guessed wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wrong {
    pub(super) branch: Branch,
    /// Where its block ends.
    pub(super) end: u64,
    /// Where the core goes instead, if it goes anywhere.
    pub target: Option<u64>,
    /// When it is known to be wrong: the first cycle in which what is right is fetched.
    pub until: u64,
}

impl OooCore {
    /// The program goes on at `start`. Before this the last block must have ended ([`OooCore::end_block`]). Where its branch
    /// was guessed wrong, fetching waits for the branch's result ([`OooCore::resume`]); until then the core is on the wrong
    /// path.
    pub fn redirect(&mut self, code: &Code, start: u64) -> Option<Wrong> {
        let Left { branch, block, start: before, end, result } = self.branch.take()?;
        if branch != Branch::None {
            self.counted.branches += 1;
        }
        let guess = self.predictor.learn(branch, before, end, start);
        if guess.right {
            if start != end {
                self.end_fetch();
            }
            return None;
        }
        self.counted.mispredictions += 1;
        let target = match branch {
            Branch::Conditional if start == end => code.place(block).target,
            Branch::Conditional => Some(end),
            _ => guess.target,
        };
        Some(Wrong { branch, end, target, until: result + 1 })
    }

    /// What is fetched in one cycle ends where a branch leaves it.
    fn end_fetch(&mut self) {
        self.fetch = InOrder { cycle: self.fetch.cycle + 1, used: 0 };
    }

    /// The branch that was guessed wrong is known.
    pub fn resume(&mut self, wrong: &Wrong) {
        self.front.branch += self.wait_fetch(wrong.until);
    }

    /// Nothing is fetched before `until`. Returns by how many cycles that is later.
    pub(super) fn wait_fetch(&mut self, until: u64) -> u64 {
        self.fetch.wait(until)
    }

    /// The block under way is fetched through base page number `page`, translated as `translation` says. `victim`: the pages,
    /// from the first to before the last, of an entry of the first-level ITLB that had to go for it.
    pub fn fetch_page(&mut self, page: u64, translation: Translation, victim: Option<(u64, u64)>) {
        if self.config.itlb_inclusion && page != self.fetching {
            self.note_page();
            self.fetching = page;
        }
        if translation == Translation::default() && victim.is_none() {
            return;
        }
        let before = self.front;
        self.front.tlb += self.wait_fetch(self.fetch.cycle + u64::from(translation.tlb));
        if translation.walk > 0 {
            let base = self.base();
            let from = self.fetch.cycle;
            let walking = u64::from(translation.walk) + self.channel.wait(base, from, translation.entries);
            let start = self.walkers.start(base, from, walking);
            self.front.walk += self.wait_fetch(start + walking);
        }
        if translation.handler > 0 {
            self.handle(translation.handler);
        }
        if let Some((first, end)) = victim {
            let used = self.in_flight.iter().rev().find(|fetched| (first..end).contains(&fetched.page));
            if let Some(retired) = used.map(|fetched| fetched.retired) {
                self.front.inclusion += self.wait_fetch(retired);
            }
        }
        if translation.tlb > 0 || translation.walk > 0 {
            // Neither a hit's time nor a walk's: counters have it in the rest, as inclusion.
            self.front.inclusion += self.wait_fetch(self.fetch.cycle + u64::from(self.config.itlb_replay));
        }
        self.counted.front.tlb += self.front.tlb - before.tlb;
        self.counted.front.walk += self.front.walk - before.walk;
        self.counted.front.inclusion += self.front.inclusion - before.inclusion;
    }

    /// Notes when the last instruction of the page that is being left retires, and forgets what has retired.
    pub(super) fn note_page(&mut self) {
        if self.fetching != u64::MAX {
            self.in_flight.push_back(Fetched { page: self.fetching, retired: self.retire.cycle });
        }
        while self.in_flight.front().is_some_and(|fetched| fetched.retired <= self.fetch.cycle) {
            self.in_flight.pop_front();
        }
    }

    /// The lines of the block under way are there `cycles` later than a hit would have them.
    pub fn fetch_lines(&mut self, cycles: u32) {
        let waited = self.wait_fetch(self.fetch.cycle + u64::from(cycles));
        self.front.cache += waited;
        self.counted.front.cache += waited;
    }
}
