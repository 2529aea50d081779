//! `manocha-2023-pcc`: the processor counts walks of large extents, and the operating system makes huge pages of those with the
//! most.
//!
//! After: Manocha, Yan, Tureci, Aragón, Nellans and Martonosi, "Architectural Support for Optimizing Huge Page Selection Within
//! the OS", MICRO 2023. What is said of it here is from its abstract and from what is generally known of the design.
//!
//! | design | here |
//! |---|---|
//! | the promotion candidate cache (PCC) counts walks of each extent of 2 MB | [`Candidates::walked`] |
//! | an extent's first walk is left out, because memory that is touched once needs no huge page | [`Candidates::walked`] |
//! | the least frequent candidate makes room, and counts are halved when one saturates | [`Candidates::walked`] |
//! | at intervals the operating system reads the candidates and promotes the most frequent ones | [`Pcc::tick`] |
//!
//! Readings: 128 candidates, counted up to 255; among equals the one counted longest ago makes room. The bit in the entry above
//! the leaves that tells a first walk is modelled as a set of extents.
//!
//! Deviations: faults map base pages, so that huge pages are those that candidates earn. Candidates are read, and copies made, on the
//! program's processor, as `daemon`. The paper's second cache, for extents of 1 GB, is left out. Each core has a cache of its own.

use crate::collapse::{Census, Collapse, copy_into_block};
use crate::description::{self, Description};
use crate::error::SystemError;
use crate::evidence::{Criterion, Evidence};
use crate::settings::{Accepts, Setting, Settings, Unit};
use crate::superpage;
use crate::system::System;
use reach_core::{
    Asid, AssistAnswer, AssistPort, Cycles, FinishedWalk, Label, PageShift, PageTableKind, Pte, Role, TlbMiss,
    VirtAddr, Vpn, WalkAssist,
};
use reach_os::{OutOfMemory, Vm};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

/// The entry of the table of systems.
pub(crate) const DESCRIPTION: Description = Description {
    name: "manocha-2023-pcc",
    summary: "huge pages for the extents that the processor walks for most (promotion candidate cache)",
    role: description::Role::Design,
    compared: false,
    published: Some(
        "Manocha, Yan, Tureci, Aragón, Nellans and Martonosi: Architectural Support for Optimizing Huge Page Selection Within \
         the OS, MICRO 2023",
    ),
    criterion: Criterion::new(
        Evidence::Superpages,
        "never promoted: no extent was walked for twice before an interval's end",
    ),
    page_table: PageTableKind::Radix,
    settings: SETTINGS,
    build: |settings| Box::new(Pcc::new(settings)),
};

const SETTINGS: &[Setting] = &[
    Setting::new("candidates", Accepts::number(1, 1 << 12, Unit::Count), "128", "entries of the cache"),
    Setting::new(
        "interval_millisecs",
        Accepts::number(1, 600_000, Unit::Milliseconds),
        "10",
        "the time between two readings of the cache",
    ),
    Setting::new(
        "promotions",
        Accepts::number(1, 1 << 12, Unit::Count),
        "16",
        "the most frequent candidates that are promoted after each reading, at most",
    ),
];

/// An extent that is walked for.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    asid: Asid,
    number: u64,
    walks: u8,
}

/// The promotion candidate cache. Candidates are in the order of their last walks, the latest last.
#[derive(Debug)]
struct Candidates {
    capacity: usize,
    /// Base pages of an extent.
    pages: u64,
    base: PageShift,
    entries: Vec<Candidate>,
    /// Extents that were walked for before.
    seen: BTreeSet<(Asid, u64)>,
}

impl Candidates {
    fn walked(&mut self, asid: Asid, vpn: Vpn, shift: PageShift) {
        let number = vpn.0 / self.pages;
        if shift != self.base || self.seen.insert((asid, number)) {
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

/// The caches of all cores, which the operating system reads.
type Shared = Arc<Mutex<Candidates>>;

/// A core's cache.
#[derive(Clone, Debug)]
struct CorePcc {
    candidates: Shared,
}

fn locked(candidates: &Shared) -> std::sync::MutexGuard<'_, Candidates> {
    candidates.lock().unwrap_or_else(PoisonError::into_inner)
}

impl WalkAssist for CorePcc {
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

/// Huge pages by walks.
pub(crate) struct Pcc {
    capacity: usize,
    interval_millisecs: u64,
    promotions: u64,
    huge: PageShift,
    candidates: Shared,
    next: Cycles,
}

impl Pcc {
    pub(crate) fn new(settings: &Settings) -> Pcc {
        let candidates =
            Candidates { capacity: 1, pages: 1, base: PageShift(12), entries: Vec::new(), seen: BTreeSet::new() };
        Pcc {
            capacity: settings.number("candidates") as usize,
            interval_millisecs: settings.number("interval_millisecs"),
            promotions: settings.number("promotions"),
            huge: PageShift(21),
            candidates: Arc::new(Mutex::new(candidates)),
            next: Cycles(0),
        }
    }

    /// Makes a huge page of an extent, if it can be one. Returns false where memory has none.
    fn promote(&self, asid: Asid, number: u64, vm: &mut Vm) -> Result<bool, OutOfMemory> {
        let first = Vpn(number * self.huge.base_pages(vm.base()));
        let start = first.addr(vm.base()).0;
        let region = vm.process(asid).and_then(|process| process.space().find(VirtAddr(start))).copied();
        let fits = region.filter(|region| {
            let may = region.anonymous() && region.role != Role::Stack && region.huge != Some(false);
            may && start + self.huge.bytes() <= region.end
        });
        let Some(region) = fits else { return Ok(true) };
        let census = Census::of(asid, first, self.huge, vm);
        let huge = census.pages.iter().any(|page| page.pte.shift() >= self.huge);
        if census.present == 0 || census.shared > 0 || huge {
            return Ok(true);
        }
        Ok(copy_into_block(asid, first, self.huge, &region, Label::Daemon, vm)? == Collapse::Done)
    }
}

impl System for Pcc {
    fn name(&self) -> &str {
        DESCRIPTION.name
    }

    fn boot(&mut self, vm: &mut Vm) -> Result<(), SystemError> {
        self.huge = superpage::nearest(DESCRIPTION.name, PageShift(21), vm)?;
        let (base, pages) = (vm.base(), self.huge.base_pages(vm.base()));
        let candidates =
            Candidates { capacity: self.capacity, pages, base, entries: Vec::new(), seen: BTreeSet::new() };
        self.candidates = Arc::new(Mutex::new(candidates));
        self.next = Cycles(superpage::cycles_in(self.interval_millisecs, vm));
        Ok(())
    }

    fn walk_assist(&self, _: &Vm) -> Option<Box<dyn WalkAssist>> {
        Some(Box::new(CorePcc { candidates: self.candidates.clone() }))
    }

    fn tick(&mut self, now: Cycles, vm: &mut Vm) -> Result<(), OutOfMemory> {
        if now < self.next {
            return Ok(());
        }
        self.next = now + superpage::cycles_in(self.interval_millisecs, vm);
        let mut ranked = locked(&self.candidates).entries.clone();
        vm.charge(Label::Daemon, ranked.len() as u64 * vm.options().costs.scan_per_page);
        // Among equals, the one that was walked for last comes first.
        ranked.reverse();
        ranked.sort_by_key(|entry| u8::MAX - entry.walks);
        for entry in ranked.into_iter().take(self.promotions as usize) {
            if !self.promote(entry.asid, entry.number, vm)? {
                break;
            }
            locked(&self.candidates).forget(entry.asid, Some(entry.number));
        }
        Ok(())
    }

    fn next_tick(&self) -> Option<Cycles> {
        Some(self.next)
    }
}
