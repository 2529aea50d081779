//! The front end: resolves branches, and stalls fetching for translations, instruction caches and mispredictions.

use super::OooCore;
use super::code::Code;
use super::in_flight::{FetchedPage, PendingBranch};
use super::instruction::BranchKind;
use super::reference::TranslationCost;
use super::statistics::FetchStalls;

/// A branch that was mispredicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Misprediction {
    pub(super) branch: BranchKind,
    /// The byte after its block.
    pub(super) end: u64,
    /// The start of the wrong path. `None` if the core has no prediction of where to fetch, and waits.
    pub target: Option<u64>,
    /// The first cycle in which the right path can be fetched.
    pub until: u64,
}

/// The base page numbers from `first` to before `end` that an evicted ITLB entry translated.
#[derive(Clone, Copy, Debug)]
pub struct EvictedPages {
    /// The first base page.
    pub first: u64,
    /// The base page after the last.
    pub end: u64,
}

impl OooCore {
    /// Resolves the branch at the end of the last block: the program continues at `next`.
    ///
    /// Call it after [`OooCore::end_block`] and before fetching the next block. Returns a misprediction, if there is
    /// one. The caller then runs the wrong path ([`OooCore::run_wrong_path`]) and calls [`OooCore::resume_fetch`].
    pub fn resolve_branch(&mut self, code: &Code, next: u64) -> Option<Misprediction> {
        let PendingBranch { branch, block, start, end, resolved } = self.branch.take()?;
        if branch != BranchKind::None {
            self.statistics.branches += 1;
        }
        let prediction = self.predictor.learn(branch, start, end, next);
        if prediction.correct {
            if next != end {
                // A taken branch ends its fetch cycle.
                self.fetch_stage.end_cycle();
            }
            return None;
        }
        self.statistics.mispredictions += 1;
        let target = match branch {
            BranchKind::Conditional if next == end => code.span(block).target,
            BranchKind::Conditional => Some(end),
            _ => prediction.target,
        };
        Some(Misprediction { branch, end, target, until: resolved + 1 })
    }

    /// Stalls fetching until the mispredicted branch is resolved.
    pub fn resume_fetch(&mut self, misprediction: &Misprediction) {
        self.stall_fetch(misprediction.until, |stalls| &mut stalls.branch);
    }

    /// Fetches nothing before cycle `until`, for the reason that `cause` selects.
    #[inline]
    fn stall_fetch(&mut self, until: u64, cause: impl Fn(&mut FetchStalls) -> &mut u64) {
        let stall = self.fetch_stage.stall_until(until);
        if stall > 0 {
            *cause(self.fetch_stalls.get_or_insert_default()) += stall;
            *cause(&mut self.statistics.fetch_stalls) += stall;
        }
    }

    /// Fetches from base page number `page`, and stalls fetching for its translation.
    ///
    /// `evicted` has the pages of the first-level ITLB entry that was replaced. `None` if no entry was replaced, and
    /// where the machine does not model pipeline inclusion.
    pub fn fetch_page(&mut self, page: u64, translation: TranslationCost, evicted: Option<EvictedPages>) {
        if self.config.itlb_inclusion && page != self.fetched_page {
            self.record_fetched_page();
            self.fetched_page = page;
        }
        if translation == TranslationCost::default() && evicted.is_none() {
            return;
        }
        self.stall_fetch(self.fetch_stage.cycle + u64::from(translation.tlb), |stalls| &mut stalls.tlb);
        if translation.walk > 0 {
            let floor = self.request_floor();
            let at = self.fetch_stage.cycle;
            let delay = self.memory_channel.delay_walk(floor, at, translation.memory_reads);
            let walk = u64::from(translation.walk) + delay;
            let start = self.walkers.occupy(floor, at, walk);
            self.stall_fetch(start + walk, |stalls| &mut stalls.walk);
        }
        if translation.hidden_walk > 0 {
            self.verify(self.fetch_stage.cycle, translation);
        }
        if translation.handler > 0 {
            self.run_handler(translation.handler);
        }
        if let Some(EvictedPages { first, end }) = evicted {
            let last_use = self.fetched_pages.iter().rev().find(|fetched| (first..end).contains(&fetched.page));
            if let Some(retired) = last_use.map(|fetched| fetched.retired) {
                self.stall_fetch(retired, |stalls| &mut stalls.inclusion);
            }
        }
        if translation.tlb > 0 || translation.walk > 0 {
            let replay = u64::from(self.config.itlb_replay);
            self.stall_fetch(self.fetch_stage.cycle + replay, |stalls| &mut stalls.replay);
        }
    }

    /// Records when the last instruction of the page that fetching leaves retires. Forgets pages whose instructions
    /// have all retired.
    fn record_fetched_page(&mut self) {
        if self.fetched_page != u64::MAX {
            self.fetched_pages.push_back(FetchedPage { page: self.fetched_page, retired: self.retire_stage.cycle });
        }
        while self.fetched_pages.front().is_some_and(|fetched| fetched.retired <= self.fetch_stage.cycle) {
            self.fetched_pages.pop_front();
        }
    }

    /// Stalls fetching for the lines of the block: the slowest takes `delay` cycles more than a hit.
    pub fn fetch_lines(&mut self, delay: u32) {
        self.stall_fetch(self.fetch_stage.cycle + u64::from(delay), |stalls| &mut stalls.cache);
    }
}
