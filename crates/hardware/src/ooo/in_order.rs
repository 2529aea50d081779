//! Resources that instructions use in program order: pipeline stages of bounded width, queues of bounded size.

/// A queue whose entries are allocated and freed in program order, such as the reorder buffer.
///
/// It stores for each entry the cycle in which its last occupant frees it. All entries are free from cycle 0.
#[derive(Clone, Debug)]
pub(super) struct EntryQueue {
    freed: Box<[u64]>,
    /// The entry to allocate next, which has been occupied longest.
    next: usize,
}

impl EntryQueue {
    pub fn new(entries: u32) -> EntryQueue {
        EntryQueue { freed: vec![0; entries as usize].into(), next: 0 }
    }

    /// Returns the number of entries.
    pub fn capacity(&self) -> usize {
        self.freed.len()
    }

    /// Returns the cycle in which the next entry is free.
    #[inline(always)]
    pub fn next_free(&self) -> u64 {
        self.freed[self.next]
    }

    /// Returns the cycle in which the entry behind the next `earlier` ones is free. `earlier` is below the capacity.
    #[inline(always)]
    pub fn free_after(&self, earlier: usize) -> u64 {
        let at = self.next + earlier;
        self.freed[if at < self.freed.len() { at } else { at - self.freed.len() }]
    }

    /// Allocates the next entry to an instruction that frees it in cycle `freed`.
    #[inline(always)]
    pub fn push(&mut self, freed: u64) {
        self.freed[self.next] = freed;
        self.next = if self.next + 1 == self.freed.len() { 0 } else { self.next + 1 };
    }

    /// Changes the cycle in which the youngest occupant frees its entry.
    pub fn correct_last(&mut self, freed: u64) {
        let last = self.next.checked_sub(1).unwrap_or(self.freed.len() - 1);
        self.freed[last] = freed;
    }
}

/// A pipeline stage that passes instructions in program order, a bounded number in a cycle.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct InOrderStage {
    /// The cycle of the youngest instruction, or the first cycle open to the next one.
    pub cycle: u64,
    /// How many instructions have passed in that cycle.
    pub used: u32,
}

impl InOrderStage {
    /// Passes the next instruction in cycle `earliest` or later, at most `width` in a cycle. Returns its cycle.
    #[inline(always)]
    pub fn pass(&mut self, earliest: u64, width: u32) -> u64 {
        // No branches: the host could not predict them.
        let cycle = earliest.max(self.cycle + u64::from(self.used == width));
        let used = if cycle == self.cycle { self.used + 1 } else { 1 };
        *self = InOrderStage { cycle, used };
        cycle
    }

    /// Passes nothing before cycle `until`. Returns the number of cycles by which that stalls the stage.
    #[inline(always)]
    pub fn stall_until(&mut self, until: u64) -> u64 {
        let stall = until.saturating_sub(self.cycle);
        if stall > 0 {
            *self = InOrderStage { cycle: until, used: 0 };
        }
        stall
    }

    /// Passes nothing more in the current cycle.
    #[inline(always)]
    pub fn end_cycle(&mut self) {
        *self = InOrderStage { cycle: self.cycle + 1, used: 0 };
    }

    /// Moves the youngest instruction from cycle `at` to `until` if that is later. Returns its cycle.
    #[inline(always)]
    pub fn delay_last(&mut self, at: u64, until: u64) -> u64 {
        if until > at {
            *self = InOrderStage { cycle: until, used: 1 };
        }
        at.max(until)
    }
}
