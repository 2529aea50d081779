//! What comes in order: so many in a cycle, and so many at once.

/// A ring of times.
#[derive(Clone, Debug)]
pub(super) struct Ring {
    times: Box<[u64]>,
    next: usize,
}

impl Ring {
    pub fn new(most: u32) -> Ring {
        Ring { times: vec![0; most as usize].into(), next: 0 }
    }

    /// How many places there are.
    pub fn len(&self) -> usize {
        self.times.len()
    }

    /// The time of the one whose place is taken next.
    #[inline(always)]
    pub fn oldest(&self) -> u64 {
        self.times[self.next]
    }

    /// The time of the one whose place is taken after `number` others, fewer than there are places.
    #[inline(always)]
    pub fn at(&self, number: usize) -> u64 {
        let at = self.next + number;
        self.times[if at < self.times.len() { at } else { at - self.times.len() }]
    }

    #[inline(always)]
    pub fn push(&mut self, time: u64) {
        self.times[self.next] = time;
        self.next = if self.next + 1 == self.times.len() { 0 } else { self.next + 1 };
    }

    /// The one whose place was taken last has another time after all.
    pub fn correct(&mut self, time: u64) {
        let last = self.next.checked_sub(1).unwrap_or(self.times.len() - 1);
        self.times[last] = time;
    }
}

/// Something in order, so many in a cycle.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct InOrder {
    pub cycle: u64,
    pub used: u32,
}

impl InOrder {
    /// The next one's cycle, at `at` or later.
    #[inline(always)]
    pub fn take(&mut self, at: u64, width: u32) -> u64 {
        // Written without branches: nothing foretells which way they go.
        let cycle = at.max(self.cycle + u64::from(self.used == width));
        let used = if cycle == self.cycle { self.used + 1 } else { 1 };
        *self = InOrder { cycle, used };
        cycle
    }

    /// Nothing comes before `until`. Returns by how many cycles that is later.
    #[inline(always)]
    pub fn wait(&mut self, until: u64) -> u64 {
        let by = until.saturating_sub(self.cycle);
        if by > 0 {
            *self = InOrder { cycle: until, used: 0 };
        }
        by
    }

    /// The one that came last, at `at`, comes at `until` if that is later. Returns when it comes.
    #[inline(always)]
    pub fn put_off(&mut self, at: u64, until: u64) -> u64 {
        if until > at {
            *self = InOrder { cycle: until, used: 1 };
        }
        at.max(until)
    }
}
