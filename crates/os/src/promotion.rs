//! Superpages: incremental promotion and demotion where reservations are full (Navarro et al. §4.5 to 4.7), and building
//! superpages from pages that lie apart (`relocate.rs`).

mod demote;
mod policy;
mod populate;
mod promote;
mod relocate;

pub use crate::memory::RemapCosts;
pub use policy::{PastEnd, Superpages};
pub use relocate::{Mechanism, Unbuilt};

use crate::{Ladder, OutOfMemory, PageView, Reserving, Vm};
use reach_core::{Fault, FaultCause, Kind, Label};

impl Vm {
    /// Makes reservations of frames, and superpages of them. Call at boot, before any process. A first load gets a frame
    /// then, as in BSD, not the shared page of zeroes.
    pub fn use_superpages(&mut self, policy: Superpages) {
        let renewed_by_freeing = policy.renewed_by_freeing;
        self.frames.make_reservations(Reserving { ladder: Ladder::new(&policy.sizes), renewed_by_freeing });
        self.accounting.use_sizes(&policy.sizes);
        self.options.sizes = policy.sizes.clone();
        self.options.zero_page = false;
        self.superpages = Some(policy);
    }

    /// Sets whether first loads from untouched memory share a page of zeroes. Call at boot, before any process.
    pub fn share_zeroes(&mut self, on: bool) {
        self.options.zero_page = on;
    }

    /// Returns whether a superpage may be dirty in part.
    pub(crate) fn partly_dirty(&self) -> bool {
        self.superpages.as_ref().is_some_and(|policy| policy.partly_dirty)
    }

    /// Answers a fault of the running process by reservation, and promotes what has become full (§4.1, 4.5).
    ///
    /// # Errors
    /// When memory is used up.
    pub fn reserved_fault(&mut self, fault: Fault) -> Result<(), OutOfMemory> {
        self.reserve_kernel_records()?;
        let view = self.fault_view(fault)?;
        self.reserved_fault_in(fault, view)
    }

    /// Does what [`Vm::reserved_fault`] does, for a page that [`Vm::fault_view`] has looked up.
    pub(crate) fn reserved_fault_in(&mut self, fault: Fault, view: PageView) -> Result<(), OutOfMemory> {
        let asid = self.current();
        if fault.cause == FaultCause::Protection && fault.kind == Kind::Store && !self.partly_dirty() {
            let page = self.at(asid).table().page(fault.vpn);
            if page.is_some_and(|page| !page.pte.dirty()) {
                self.demote_for(asid, fault.vpn, Label::Remap)?;
            }
        }
        if fault.cause == FaultCause::NotPresent && self.map_full_superpage(asid, fault, &view)? {
            return Ok(());
        }
        self.demand_fault_in(fault, view)?;
        if view.region.anonymous() {
            self.populate_rest(asid, fault, &view)?;
        }
        self.promote_around(asid, fault.vpn)
    }
}
