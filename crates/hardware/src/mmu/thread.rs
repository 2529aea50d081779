//! A unit as one of several hardware threads of a core.

use super::Mmu;
use crate::tlb::{CONTEXTS, Context};
use reach_core::Asid;
use std::mem::swap;

impl Mmu {
    /// This is the unit of thread number `thread` of `threads`. Call it before the first reference.
    pub(crate) fn be_thread(&mut self, thread: usize, threads: usize) {
        let most = CONTEXTS / threads as u64;
        self.first_context = thread as u64 * most;
        self.all_contexts = self.all_contexts.min(most);
        self.context = Context::new(self.first_context);
        self.contexts = vec![Some(self.context)];
    }

    /// Takes what threads share from the sibling that ran last.
    pub(crate) fn take_shared(&mut self, sibling: &mut Mmu, shared: &[bool]) {
        self.tlbs.take_shared(&mut sibling.tlbs, shared);
        swap(&mut self.filler, &mut sibling.filler);
        swap(&mut self.aux_tlb, &mut sibling.aux_tlb);
    }

    /// Others have run since, or references in another way: the page that a side is on may have left the arrays.
    pub fn resume(&mut self) {
        self.shot = true;
    }

    /// Whether it may hold anything of this address space.
    pub(crate) fn knows(&self, asid: Asid) -> bool {
        self.contexts.get(asid.0 as usize).is_some_and(|context| context.is_some())
    }

    /// Whether it runs in this address space.
    pub fn runs_in(&self, asid: Asid) -> bool {
        self.asid == asid
    }
}
