//! Part of systems that place pages so that virtual and physical memory run in parallel: contiguity-aware (CA) paging, as Alverti
//! et al. (ISCA 2020) give it.
//!
//! A mapping's first fault takes free memory that is large enough for all of the mapping, from where the last one ended on (next
//! fit). Later faults take the frame at the same distance from their page. A page whose frame is taken gets one from the end of
//! memory, so that it takes no other page's. Once sixteen pages in a row have found their frames taken, the rest of the mapping gets
//! another place. A system that places pages so takes page tables from blocks of their own ([`Vm::cluster_kernel_pages`]): a table in the
//! middle of every 2 MB would take a frame of the run, and all tables would share few sets of the caches.

use crate::error::SystemError;
use crate::placed::placed_fault;
use crate::system::System;
use reach_core::{Asid, BackSideOptions, Event, Fault, Pfn, Vpn, WalkAssist};
use reach_os::{Buddy, FrameKind, OutOfMemory, Region, Vm};
use std::collections::BTreeMap;
use survey::Survey;

mod survey;

/// The places of mappings.
#[derive(Default)]
pub(crate) struct Placements {
    /// By address space and the first page that was placed: the distance from a page to its frame.
    placed: BTreeMap<(Asid, Vpn), i64>,
    /// Where the search for free memory goes on.
    next: u64,
    /// Pages in a row that have found their frames taken.
    failures: u32,
    /// Free memory; `None` until it is asked for, and after an event has freed memory.
    survey: Option<Survey>,
}

/// Failures in a row after which the rest of a mapping gets another place.
const MOST_FAILURES: u32 = 16;

/// Returns the frame at `distance` from `vpn`; `None` outside memory.
fn frame_at(vpn: Vpn, distance: i64, vm: &Vm) -> Option<Pfn> {
    let pfn = vpn.0.checked_add_signed(distance)?;
    (pfn < vm.frames().buddy().frames()).then_some(Pfn(pfn))
}

impl Placements {
    /// Allocates a frame for page `vpn` of `region`, where it continues the mapping if it can. Returns `None` when memory is
    /// used up.
    pub(crate) fn allocate(&mut self, asid: Asid, vpn: Vpn, region: &Region, vm: &mut Vm) -> Option<Pfn> {
        let index = region.index(vpn, vm.base());
        let first = Vpn(region.start >> vm.base().0);
        let placed = self.placed.range((asid, first)..=(asid, vpn)).next_back().map(|(_, &distance)| distance);
        if let Some(at) = placed.and_then(|distance| frame_at(vpn, distance, vm)) {
            if let Some(pfn) = vm.frames_mut().allocate_at(at, 0, FrameKind::Anonymous, region.object, index) {
                self.failures = 0;
                return Some(pfn);
            }
            self.failures += 1;
            if self.failures < MOST_FAILURES {
                let last = self.ask(vm, Survey::last)?;
                return vm.frames_mut().allocate_at(Pfn(last), 0, FrameKind::Anonymous, region.object, index);
            }
            self.failures = 0;
        }
        let pages = (region.end >> vm.base().0).saturating_sub(vpn.0).max(1);
        let place = self.find(pages, vm)?;
        self.placed.insert((asid, vpn), place.0.wrapping_sub(vpn.0) as i64);
        vm.frames_mut().allocate_at(place, 0, FrameKind::Anonymous, region.object, index)
    }

    /// Returns the start of free memory for `pages` pages: the next that is large enough, or else the largest.
    fn find(&mut self, pages: u64, vm: &Vm) -> Option<Pfn> {
        let next = self.next;
        let found = self.ask(vm, |survey, buddy| survey.find(pages, next, buddy))?;
        self.next = found.end;
        Some(Pfn(found.start))
    }

    /// Asks the survey, and a new one if that has nothing.
    fn ask<T>(&mut self, vm: &Vm, ask: impl Fn(&mut Survey, &Buddy) -> Option<T>) -> Option<T> {
        let buddy = vm.frames().buddy();
        let old = self.survey.as_mut().and_then(|survey| ask(survey, buddy));
        old.or_else(|| ask(self.survey.insert(Survey::new(buddy)), buddy))
    }

    /// Forgets a process.
    pub(crate) fn forget(&mut self, asid: Asid) {
        self.placed.retain(|(of, _), _| *of != asid);
    }
}

/// Contiguity-aware paging with base pages, and the hardware that makes use of it.
pub(crate) struct CaPaging {
    name: &'static str,
    assist: Box<dyn WalkAssist>,
    back_side: Option<BackSideOptions>,
    placements: Placements,
}

impl CaPaging {
    /// Creates the system called `name` with a walk assist.
    pub(crate) fn new(name: &'static str, assist: Box<dyn WalkAssist>) -> CaPaging {
        CaPaging { name, assist, back_side: None, placements: Placements::default() }
    }

    /// Returns the same system with a translator behind the last cache.
    pub(crate) fn with_back_side(self, options: BackSideOptions) -> CaPaging {
        CaPaging { back_side: Some(options), ..self }
    }
}

impl System for CaPaging {
    fn name(&self) -> &str {
        self.name
    }

    /// Keeps page tables out of the runs of pages, as Linux does: they come from blocks of their own.
    fn boot(&mut self, vm: &mut Vm) -> Result<(), SystemError> {
        vm.cluster_kernel_pages();
        Ok(())
    }

    fn event(&mut self, event: &Event, vm: &mut Vm) -> Result<(), OutOfMemory> {
        if let Event::Exit | Event::Exec { .. } = event {
            self.placements.forget(vm.current());
        }
        let free = vm.frames().buddy().free_frames();
        let populate = vm.apply(event)?;
        if vm.frames().buddy().free_frames() > free {
            self.placements.survey = None;
        }
        match populate {
            Some(populate) => self.populate(&populate, vm),
            None => Ok(()),
        }
    }

    fn fault(&mut self, fault: Fault, vm: &mut Vm) -> Result<(), OutOfMemory> {
        placed_fault(fault, vm, |asid, vpn, region, vm| self.placements.allocate(asid, vpn, region, vm))
    }

    fn walk_assist(&self, _: &Vm) -> Option<Box<dyn WalkAssist>> {
        Some(self.assist.clone_box())
    }

    fn back_side(&self, _: &Vm) -> Option<BackSideOptions> {
        self.back_side
    }
}
