//! A unit as one of several hardware threads of a core.

use super::Mmu;
use reach_core::Asid;
use std::mem::swap;

impl Mmu {
    /// Makes this the unit of hardware thread `thread` of `threads`. Call before the first reference.
    pub(crate) fn set_thread(&mut self, thread: usize, threads: usize) {
        self.spaces.set_thread(thread, threads);
    }

    /// Takes from the sibling that ran last what the threads of a core share: the `shared` arrays, the walk caches, the
    /// auxiliary TLB and the walk assist.
    pub(crate) fn take_shared(&mut self, sibling: &mut Mmu, shared: &[bool]) {
        self.tlbs.take_shared(&mut sibling.tlbs, shared);
        swap(&mut self.filler, &mut sibling.filler);
        swap(&mut self.aux_tlb, &mut sibling.aux_tlb);
        swap(&mut self.assist, &mut sibling.assist);
    }

    /// Prepares for a run after other threads, or after references in another timing: the page that a side is on may have
    /// left the arrays.
    pub fn resume(&mut self) {
        self.same_page.set_stale();
    }

    /// Returns whether this unit may hold translations of `asid`.
    pub(crate) fn may_hold(&self, asid: Asid) -> bool {
        self.spaces.context_of(asid).is_some()
    }

    /// Returns whether `asid` is the current address space.
    pub fn runs_in(&self, asid: Asid) -> bool {
        self.spaces.asid == asid
    }
}
