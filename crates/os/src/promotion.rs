//! Incremental promotion and demotion (Navarro et al. §4.5 to 4.7): superpages where reservations are full.

mod demote;
mod populate;
mod promote;
mod relocate;

pub use relocate::{Mechanism, RemapCosts, Unbuilt};

use crate::{Ladder, OutOfMemory, PageView, Reserving, Vm};
use reach_core::{Fault, FaultCause, Kind, Label, PageShift};

/// How a system that makes reservations treats superpages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superpages {
    /// Page sizes in use, the base page first.
    pub sizes: Vec<PageShift>,
    /// A page that is freed renews its reservation, too (FreeBSD), not only one that is allocated.
    pub renewed_by_freeing: bool,
    /// Which reservations may reach beyond the end of their object.
    pub past_end: PastEnd,
    /// Cycles for each elementary step ([`Operation`](crate::Operation)) of population maps, lists and the allocator.
    pub step: u64,
    /// A superpage may be dirty in part: it is not demoted by its first write, and pages need not be equally dirty to
    /// become one (§4.7).
    pub partly_dirty: bool,
    /// Hash digests tell which pages of a dirty superpage need not be written (§4.7): thousandths of a cycle for each
    /// byte hashed, when it is read in and again before it would be written. Only with `partly_dirty`, and a page
    /// daemon.
    pub digest: Option<u64>,
    /// Superpages are really made. If not, all is done and charged as if they were (§6.6).
    pub promote: bool,
    /// Unmapping takes superpages apart size by size, where that rewrites replicated entries, as FreeBSD on Alpha did
    /// (§6.6: each entry is visited once for each size).
    pub demote_to_unmap: bool,
    /// The first write to any page is noticed, not only to superpages, so that an extent is promoted as soon as its
    /// last page is dirty.
    pub watch_all: bool,
    /// A fault on a page of a file maps the whole superpage at once where the file's reservation is full.
    pub map_full: bool,
    /// How much of a reservation of private memory must be populated, in percent, for the rest to be populated by the
    /// kernel: 100 leaves it to the program.
    pub threshold: u64,
}

/// Which reservations may reach beyond the end of their object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PastEnd {
    /// Those of heaps and stacks, when they are not larger than what is mapped of the object (Navarro §4.2).
    Growing,
    /// Those of private memory, upwards (FreeBSD's `OBJ_ANON`).
    Anonymous,
}

impl Vm {
    /// From now on frames are reserved and superpages made. At boot, before any process. Untouched memory is not shared
    /// then: a first load gets a frame, too, as in BSD.
    pub fn use_superpages(&mut self, how: Superpages) {
        let renewed_by_freeing = how.renewed_by_freeing;
        self.frames.make_reservations(Reserving { ladder: Ladder::new(&how.sizes), renewed_by_freeing });
        self.counters = crate::Counters::new(&how.sizes);
        self.counters.work = Some(Box::default());
        self.options.sizes = how.sizes.clone();
        self.options.zero_page = false;
        self.superpages = Some(how);
    }

    /// Whether first loads from untouched memory share a page of zeroes. At boot, before any process.
    pub fn share_zeroes(&mut self, on: bool) {
        self.options.zero_page = on;
    }

    pub(crate) fn partly_dirty(&self) -> bool {
        self.superpages.as_ref().is_some_and(|how| how.partly_dirty)
    }

    /// Answers a fault of the running process by reservation, and promotes what has become full (§4.1, 4.5).
    pub fn reserved_fault(&mut self, fault: Fault) -> Result<(), OutOfMemory> {
        self.keep_records()?;
        let view = self.fault_view(fault)?;
        self.reserved_fault_in(fault, view)
    }

    /// The same when the region has been looked up.
    pub(crate) fn reserved_fault_in(&mut self, fault: Fault, view: PageView) -> Result<(), OutOfMemory> {
        let asid = self.current;
        if fault.cause == FaultCause::Protection && fault.kind == Kind::Store && !self.partly_dirty() {
            let page = self.at(asid).table().page(fault.vpn);
            if page.is_some_and(|page| !page.pte.dirty()) {
                self.demote_for(asid, fault.vpn, Label::Remap)?;
            }
        }
        if fault.cause == FaultCause::NotPresent && self.map_full(asid, fault, &view)? {
            return Ok(());
        }
        self.demand_fault_in(fault, view)?;
        if view.region.anonymous() {
            self.fill_up(asid, fault, &view)?;
        }
        self.promote_around(asid, fault.vpn)
    }
}
