//! The address spaces of one unit, and the hardware contexts (address-space numbers) assigned to them.
//!
//! The kernel's address space has a context of its own, which no flush of programs' contexts includes: its entries are
//! global, as those of kernels are.

use crate::tlb::{CONTEXTS, Context};
use reach_core::Asid;

/// The current address space, and the contexts assigned so far. Each context is assigned once until all are used.
#[derive(Clone, Debug)]
pub(super) struct AddressSpaces {
    pub asid: Asid,
    /// The context of `asid`.
    pub context: Context,
    /// By address space: its context; `None` if it has none.
    assigned: Vec<Option<Context>>,
    /// By address space: the number of the guest that it belongs to. Where there are no guests, all belong to number 0.
    guests: Vec<u32>,
    /// The guest that runs.
    guest: u32,
    /// Number of the unit's first context. Hardware threads that share arrays have different contexts.
    first: u64,
    used: u64,
    /// Number of contexts that the unit may assign. The one behind them is the kernel's.
    all: u64,
}

impl AddressSpaces {
    /// Creates the state of a unit with `asids` contexts (all but one of [`CONTEXTS`] at most), the first of them assigned to
    /// address space 0.
    pub fn new(asids: u32) -> AddressSpaces {
        let context = Context::new(0);
        let all = u64::from(asids).clamp(1, CONTEXTS - 1);
        AddressSpaces {
            asid: Asid(0),
            context,
            assigned: vec![Some(context)],
            guests: vec![0],
            guest: 0,
            first: 0,
            used: 1,
            all,
        }
    }

    /// Restricts the unit to the contexts of hardware thread `thread` of `threads`. Call before the first reference.
    pub fn set_thread(&mut self, thread: usize, threads: usize) {
        let share = CONTEXTS / threads as u64;
        self.first = thread as u64 * share;
        self.all = self.all.min(share - 1);
        self.context = Context::new(self.first);
        self.assigned = vec![Some(self.context)];
    }

    /// Returns the context of `asid`; `None` if it has none, so that the hardware holds nothing of it.
    pub fn context_of(&self, asid: Asid) -> Option<Context> {
        if asid == Asid::KERNEL {
            return Some(Context::new(self.first + self.all));
        }
        self.assigned.get(asid.0 as usize).copied().flatten()
    }

    /// Returns whether a switch to `asid` takes a new context, and all are used. Then everything has to be flushed first.
    pub fn needs_flush(&self, asid: Asid) -> bool {
        self.context_of(asid).is_none() && self.used == self.all
    }

    /// Returns all contexts of the unit, except for the kernel's.
    pub fn contexts(&self) -> impl Iterator<Item = Context> + use<> {
        (self.first..self.first + self.all).map(Context::new)
    }

    /// Returns every address space that has a context, except for the kernel's.
    pub fn programs(&self) -> Vec<Asid> {
        let assigned = self.assigned.iter().enumerate().filter(|(_, context)| context.is_some());
        assigned.map(|(asid, _)| Asid(asid as u32)).collect()
    }

    /// Returns those of them that belong to guest number `guest`.
    pub fn programs_of(&self, guest: u32) -> Vec<Asid> {
        let mut programs = self.programs();
        programs.retain(|asid| self.guests[asid.0 as usize] == guest);
        programs
    }

    /// Enters guest number `guest`: address spaces that run from here on belong to it.
    pub fn enter_guest(&mut self, guest: u32) {
        self.guest = guest;
    }

    /// Releases all contexts, after a flush.
    pub fn release_all(&mut self) {
        self.assigned.fill(None);
        self.used = 0;
    }

    /// Switches to `asid`. Returns whether it has been assigned a new context.
    pub fn switch(&mut self, asid: Asid) -> bool {
        self.asid = asid;
        let index = asid.0 as usize;
        if let Some(guest) = self.guests.get_mut(index) {
            *guest = self.guest;
        }
        if let Some(context) = self.context_of(asid) {
            self.context = context;
            return false;
        }
        self.context = Context::new(self.first + self.used);
        self.used += 1;
        if self.assigned.len() <= index {
            self.assigned.resize(index + 1, None);
            self.guests.resize(index + 1, self.guest);
        }
        self.assigned[index] = Some(self.context);
        true
    }

    /// Returns every address space that has a context, with the context.
    #[cfg(feature = "testing")]
    pub fn assigned(&self) -> impl Iterator<Item = (Asid, Context)> {
        let assigned = self.assigned.iter().enumerate();
        let programs = assigned.filter_map(|(asid, context)| Some((Asid(asid as u32), (*context)?)));
        programs.chain(self.context_of(Asid::KERNEL).map(|context| (Asid::KERNEL, context)))
    }
}
