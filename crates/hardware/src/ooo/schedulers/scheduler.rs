//! One scheduler.

/// How many cycles ahead starts are counted by cycle. Later ones are kept in a list.
const HORIZON: u64 = 1 << 10;
const WORD: u64 = u64::BITS as u64;
const WORDS: usize = (HORIZON / WORD) as usize;

/// A scheduler, whose entries are allocated in program order and freed in any.
///
/// It is full in a cycle if as many instructions as it has entries start later. So it counts the starts by cycle, and how
/// many come after a cycle that follows dispatch, but no faster than is needed.
#[derive(Debug)]
pub(super) struct Scheduler {
    entries: u32,
    /// Starts up to this cycle are forgotten. No later instruction is dispatched before it.
    now: u64,
    /// How many start later.
    waiting: u32,
    /// How many start in each of the next cycles.
    starts: Box<[u16; HORIZON as usize]>,
    /// A bit for each of these cycles in which any starts.
    used: [u64; WORDS],
    /// The starts that were further ahead when they came, and the first of them.
    later: Vec<u64>,
    first_later: u64,
}

impl Clone for Scheduler {
    fn clone(&self) -> Scheduler {
        Scheduler { starts: self.starts.clone(), later: self.later.clone(), ..*self }
    }

    fn clone_from(&mut self, other: &Scheduler) {
        let Scheduler { entries, now, waiting, ref starts, used, ref later, first_later } = *other;
        self.starts.copy_from_slice(&starts[..]);
        self.later.clone_from(later);
        (self.entries, self.now, self.waiting, self.used, self.first_later) =
            (entries, now, waiting, used, first_later);
    }
}

impl Scheduler {
    /// Creates a scheduler with at most 65,535 `entries`, all free.
    pub fn new(entries: u32) -> Scheduler {
        let starts = Box::new([0; HORIZON as usize]);
        Scheduler { entries, now: 0, waiting: 0, starts, used: [0; WORDS], later: Vec::new(), first_later: u64::MAX }
    }

    /// Returns the first cycle, at or after `earliest`, in which an entry is free.
    #[inline(always)]
    pub fn free_from(&mut self, earliest: u64) -> u64 {
        if self.waiting < self.entries {
            return earliest;
        }
        self.advance_to(earliest);
        while self.waiting >= self.entries {
            self.advance();
        }
        earliest.max(self.now)
    }

    /// Gives the next entry to an instruction that is `dispatched`, and `starts` later or at once. Returns whether all may be
    /// held after that.
    #[inline(always)]
    pub fn hold(&mut self, dispatched: u64, starts: u64) -> bool {
        if starts > self.now {
            self.waiting += 1;
            if starts - self.now >= HORIZON {
                self.hold_far(dispatched, starts);
            } else {
                self.count(starts);
            }
        }
        self.waiting >= self.entries
    }

    /// Does what is left of [`Scheduler::hold`] where the start is far ahead.
    #[cold]
    fn hold_far(&mut self, dispatched: u64, starts: u64) {
        self.advance_to(dispatched.min(starts - 1));
        if starts - self.now < HORIZON {
            self.count(starts);
        } else {
            self.later.push(starts);
            self.first_later = self.first_later.min(starts);
        }
    }

    #[inline(always)]
    fn count(&mut self, starts: u64) {
        let at = starts % HORIZON;
        self.starts[at as usize] += 1;
        self.used[(at / WORD) as usize] |= 1 << (at % WORD);
    }

    /// Forgets the starts up to cycle `until`.
    fn advance_to(&mut self, until: u64) {
        while self.next_start().is_some_and(|next| next <= until) {
            self.advance();
        }
        if until > self.now {
            self.now = until;
            self.count_later();
        }
    }

    /// Goes to the next cycle in which any starts.
    fn advance(&mut self) {
        match self.next_start() {
            Some(next) => {
                let at = next % HORIZON;
                self.waiting -= u32::from(std::mem::take(&mut self.starts[at as usize]));
                self.used[(at / WORD) as usize] &= !(1 << (at % WORD));
                self.now = next;
            }
            None => self.now = self.now.max(self.first_later - 1),
        }
        self.count_later();
    }

    /// Returns the next counted cycle in which any starts.
    fn next_start(&self) -> Option<u64> {
        let from = self.now + 1;
        let (first, shift) = ((from % HORIZON / WORD) as usize, from % WORD);
        let ahead = self.used[first] >> shift;
        if ahead != 0 {
            return Some(from + u64::from(ahead.trailing_zeros()));
        }
        // The last word to look at is the first again, for the cycles before the shift.
        (1..=WORDS).find_map(|step| {
            let word = self.used[(first + step) % WORDS];
            let start = from - shift + step as u64 * WORD;
            (word != 0).then(|| start + u64::from(word.trailing_zeros()))
        })
    }

    /// Counts by cycle those later starts that have come near.
    fn count_later(&mut self) {
        if self.first_later >= self.now + HORIZON {
            return;
        }
        let now = self.now;
        let mut later = std::mem::take(&mut self.later);
        later.retain(|&starts| {
            let is_near = starts < now + HORIZON;
            if is_near && starts > now {
                self.count(starts);
            } else if is_near {
                self.waiting -= 1;
            }
            !is_near
        });
        self.first_later = later.iter().copied().min().unwrap_or(u64::MAX);
        self.later = later;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_scheduler_waits_for_the_first_start() {
        let mut scheduler = Scheduler::new(2);
        scheduler.hold(0, 40);
        assert_eq!(scheduler.free_from(3), 3);
        scheduler.hold(3, 20);
        assert_eq!((scheduler.free_from(4), scheduler.free_from(25)), (20, 25));
        scheduler.hold(25, 5000);
        assert_eq!(scheduler.free_from(30), 40);
    }

    #[test]
    fn free_cycles_equal_those_of_all_starts_sorted() {
        let mut random = reach_core::Random::new(3);
        for entries in [1, 2, 7, 60] {
            let mut scheduler = Scheduler::new(entries);
            let (mut starts, mut dispatched) = (Vec::new(), 0);
            for step in 0..4_000 {
                let earliest = dispatched + [0, 0, 1, 3, 2000][random.below(5) as usize] * random.below(2);
                starts.sort_unstable();
                let full_until = starts.len().checked_sub(entries as usize).map_or(0, |at| starts[at]);
                dispatched = earliest.max(full_until);
                assert_eq!(scheduler.free_from(earliest), dispatched, "{entries} entries, step {step}");
                let ahead = [1, 5, 50, 1000, 1100, 9000][random.below(6) as usize];
                let start = dispatched + random.below(ahead + 1);
                starts.push(start);
                scheduler.hold(dispatched, start);
                if random.below(100) == 0 {
                    let mut copy = Scheduler::new(1);
                    copy.clone_from(&scheduler);
                    scheduler = copy;
                }
            }
        }
    }
}
