//! Part of systems that make larger pages of the extents that the processor walks for most: a cache of candidates, as Manocha et al.
//! (MICRO 2023) give it.
//!
//! Each walk counts for the extent of the size in question, unless it is the first, because memory that is touched once needs no large
//! page. The least frequent candidate makes room, and counts are halved when one saturates. At intervals the operating system reads
//! the candidates. Among equals, the one that was counted longest ago makes room, and the one that was counted last comes first.

use crate::collapse::{Census, Collapse, copy_into_block, may_be_huge};
use reach_core::{
    Asid, AssistAnswer, AssistPort, FinishedWalk, Label, PageShift, Pte, TlbMiss, VirtAddr, Vpn, WalkAssist,
};
use reach_os::{OutOfMemory, Vm};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// An extent that is walked for.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    asid: Asid,
    number: u64,
    walks: u8,
}

/// Candidates, in the order of their last walks, the latest last.
#[derive(Debug)]
struct Candidates {
    capacity: usize,
    /// The size of an extent.
    size: PageShift,
    base: PageShift,
    entries: Vec<Candidate>,
    /// Extents that were walked for before.
    seen: BTreeSet<(Asid, u64)>,
}

impl Candidates {
    fn walked(&mut self, asid: Asid, vpn: Vpn, shift: PageShift) {
        let number = vpn.0 / self.size.base_pages(self.base);
        if shift >= self.size || self.seen.insert((asid, number)) {
            return;
        }
        let at = self.entries.iter().position(|entry| (entry.asid, entry.number) == (asid, number));
        let mut entry = match at {
            Some(at) => self.entries.remove(at),
            None => {
                if self.entries.len() == self.capacity {
                    let least = self.entries.iter().map(|entry| entry.walks).min();
                    let at = self.entries.iter().position(|entry| Some(entry.walks) == least).unwrap_or(0);
                    self.entries.remove(at);
                }
                Candidate { asid, number, walks: 0 }
            }
        };
        if entry.walks == u8::MAX {
            entry.walks /= 2;
            self.entries.iter_mut().for_each(|entry| entry.walks /= 2);
        }
        entry.walks += 1;
        self.entries.push(entry);
    }

    /// Drops an extent that is being promoted, or all of a process.
    fn forget(&mut self, asid: Asid, number: Option<u64>) {
        self.entries.retain(|entry| entry.asid != asid || number.is_some_and(|number| entry.number != number));
        if number.is_none() {
            self.seen.retain(|(of, _)| *of != asid);
        }
    }
}

/// A core's cache. All cores have the same contents.
#[derive(Clone, Debug)]
struct CoreCache {
    candidates: Arc<Mutex<Candidates>>,
}

fn locked(candidates: &Mutex<Candidates>) -> MutexGuard<'_, Candidates> {
    candidates.lock().unwrap_or_else(PoisonError::into_inner)
}

impl WalkAssist for CoreCache {
    fn search(&mut self, _: TlbMiss, _: &mut dyn AssistPort) -> AssistAnswer {
        AssistAnswer::Walk
    }

    fn walked(&mut self, miss: TlbMiss, walk: FinishedWalk, _: &mut dyn AssistPort) {
        locked(&self.candidates).walked(miss.asid, miss.vpn, walk.pte.shift());
    }

    fn invalidate(&mut self, asid: Asid, _: Vpn, pages: u64) {
        if pages == u64::MAX {
            locked(&self.candidates).forget(asid, None);
        }
    }

    fn translations(&self, _: Asid) -> Vec<(Vpn, Pte)> {
        Vec::new()
    }

    fn clone_box(&self) -> Box<dyn WalkAssist> {
        Box::new(self.clone())
    }
}

/// How the pages of a candidate become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Making {
    /// They are copied into a block.
    Copy,
    /// They stay where they are, if their frames are one block.
    InPlace,
}

/// The cache, as the operating system sees it.
pub(crate) struct WalkCandidates {
    size: PageShift,
    candidates: Arc<Mutex<Candidates>>,
}

impl WalkCandidates {
    /// Creates an empty cache of `capacity` extents of `size`, on a machine with base pages of `base`.
    pub(crate) fn new(capacity: usize, size: PageShift, base: PageShift) -> WalkCandidates {
        let candidates = Candidates { capacity, size, base, entries: Vec::new(), seen: BTreeSet::new() };
        WalkCandidates { size, candidates: Arc::new(Mutex::new(candidates)) }
    }

    /// Returns the hardware that counts.
    pub(crate) fn hardware(&self) -> Box<dyn WalkAssist> {
        Box::new(CoreCache { candidates: self.candidates.clone() })
    }

    /// Reads the cache, and makes pages of the `most` most frequent candidates, until memory has no block.
    pub(crate) fn promote(&self, most: u64, making: Making, vm: &mut Vm) -> Result<(), OutOfMemory> {
        let mut ranked = locked(&self.candidates).entries.clone();
        vm.charge(Label::Daemon, ranked.len() as u64 * vm.options().costs.scan_per_page);
        ranked.reverse();
        ranked.sort_by_key(|entry| u8::MAX - entry.walks);
        for entry in ranked.into_iter().take(most as usize) {
            if !self.promote_one(entry.asid, entry.number, making, vm)? {
                break;
            }
            locked(&self.candidates).forget(entry.asid, Some(entry.number));
        }
        Ok(())
    }

    /// Makes one page of an extent, if it can be one. Returns false where memory has no block.
    fn promote_one(&self, asid: Asid, number: u64, making: Making, vm: &mut Vm) -> Result<bool, OutOfMemory> {
        let first = Vpn(number * self.size.base_pages(vm.base()));
        let start = first.addr(vm.base()).0;
        let region = vm.process(asid).and_then(|process| process.space().find(VirtAddr(start))).copied();
        let fits = region.filter(|region| may_be_huge(region) && start + self.size.bytes() <= region.end);
        let Some(region) = fits else { return Ok(true) };
        let census = Census::of(asid, first, self.size, vm);
        let large = census.pages.iter().any(|page| page.pte.shift() >= self.size);
        if census.present == 0 || census.shared > 0 || large {
            return Ok(true);
        }
        match making {
            Making::Copy => Ok(copy_into_block(asid, first, self.size, &region, Label::Daemon, vm)? == Collapse::Done),
            Making::InPlace => {
                // A refusal says what is known here: that it cannot be one page yet.
                _ = vm.promote(asid, first, self.size, Label::Daemon);
                Ok(true)
            }
        }
    }
}
