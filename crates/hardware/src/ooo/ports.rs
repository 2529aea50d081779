//! Issue ports: how many operations, loads and stores can start in a cycle.

/// How many cycles beyond an instruction's dispatch its ports are booked.
///
/// An operation that starts later has waited for memory far longer than operations wait for ports. It finds a port
/// free.
pub const HORIZON: u64 = 1 << 10;

/// A kind of port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Port {
    /// Any port: an operation that is neither a load nor a store.
    Any = 0,
    /// A load port.
    Load = 1,
    /// A store-address port.
    Store = 2,
}

/// The cycles that are stored: those that may be booked, and as many more, so that past cycles can be cleared a word of
/// [`IssuePorts::full`] at a time.
const CYCLES: usize = 2 * HORIZON as usize;
const WORD: u64 = u64::BITS as u64;
const WORDS: usize = CYCLES / WORD as usize;

/// The bookings of all ports by cycle.
#[derive(Clone, Debug)]
pub struct IssuePorts {
    /// Starts in each cycle: one byte counts all, one loads, one stores.
    starts: Box<[u32; CYCLES]>,
    /// By kind of port, a bit for each cycle in which none is free.
    full: Box<[[u64; WORDS]; 3]>,
    /// Earlier words are cleared.
    first_word: u64,
    /// How many can start in a cycle, by kind of port; the first bounds all together.
    limits: [u32; 3],
}

impl IssuePorts {
    /// Creates idle ports: at most `issue` starts in a cycle, of which at most `loads` and `stores`. Each is 1 to 255;
    /// larger numbers count as 255.
    pub fn new(issue: u32, loads: u32, stores: u32) -> IssuePorts {
        let limits = [issue, loads, stores].map(|limit| limit.min(255));
        IssuePorts { starts: Box::new([0; CYCLES]), full: Box::new([[0; WORDS]; 3]), first_word: 0, limits }
    }

    /// Books a port in the first cycle in which one is free, at or after `earliest`. Returns that cycle.
    ///
    /// `floor` must not decrease from call to call, and is at most `earliest`.
    #[inline]
    pub fn book(&mut self, floor: u64, earliest: u64, port: Port) -> u64 {
        self.book_before(floor, earliest, port, u64::MAX).expect("some cycle is free")
    }

    /// Does what [`IssuePorts::book`] does, but only before `deadline`. `None` if no port is free before then.
    #[inline(always)]
    pub fn book_before(&mut self, floor: u64, earliest: u64, port: Port, deadline: u64) -> Option<u64> {
        if floor / WORD > self.first_word {
            self.clear_before(floor / WORD);
        }
        let booked = deadline.min(floor + HORIZON);
        let mut at = earliest;
        while at < booked {
            // The free cycles from this one to the end of its word.
            let free = !self.full[port as usize][(at / WORD) as usize % WORDS] >> (at % WORD);
            if free == 0 {
                at = (at / WORD + 1) * WORD;
                continue;
            }
            at += u64::from(free.trailing_zeros());
            if at < booked {
                self.record(at, port);
                return Some(at);
            }
        }
        let at = earliest.max(booked);
        (at < deadline).then_some(at)
    }

    #[inline(always)]
    fn record(&mut self, at: u64, port: Port) {
        let starts = &mut self.starts[at as usize % CYCLES];
        let shift = port as u32 * 8;
        *starts += 1 | 1 << shift;
        let (word, bit) = ((at / WORD) as usize % WORDS, at % WORD);
        let full = u64::from(*starts & 255 == self.limits[0]) << bit;
        self.full.iter_mut().for_each(|words| words[word] |= full);
        if port != Port::Any {
            let full = u64::from(*starts >> shift & 255 == self.limits[port as usize]) << bit;
            self.full[port as usize][word] |= full;
        }
    }

    /// Clears the words before word number `first`, so that their places serve later cycles.
    fn clear_before(&mut self, first: u64) {
        for word in self.first_word..first.min(self.first_word + WORDS as u64) {
            let word = word as usize % WORDS;
            self.full.iter_mut().for_each(|words| words[word] = 0);
            self.starts[word * WORD as usize..][..WORD as usize].fill(0);
        }
        self.first_word = first;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_fill_cycle_by_cycle_and_earlier_gaps_stay_usable() {
        let mut ports = IssuePorts::new(4, 2, 1);
        let loads: Vec<u64> = (0..5).map(|_| ports.book(10, 12, Port::Load)).collect();
        assert_eq!(loads, [12, 12, 13, 13, 14]);
        assert_eq!(ports.book(10, 12, Port::Store), 12);
        assert_eq!(ports.book(10, 12, Port::Store), 13);
        assert_eq!(ports.book(10, 12, Port::Any), 12);
        assert_eq!(ports.book(10, 12, Port::Any), 13, "four have started in cycle 12");
        assert_eq!(ports.book(10, 11, Port::Load), 11);
        let far = 10 + HORIZON;
        assert!((0..9).all(|_| ports.book(10, far, Port::Load) == far));
        assert_eq!(ports.book(far, far, Port::Load), far, "beyond the horizon nothing was booked");
    }

    #[test]
    fn a_deadline_refuses_cycles_at_or_after_it() {
        let mut ports = IssuePorts::new(1, 1, 1);
        assert_eq!(ports.book_before(0, 5, Port::Load, 5), None);
        assert_eq!(ports.book_before(0, 5, Port::Load, 7), Some(5));
        assert_eq!(ports.book_before(0, 5, Port::Any, 7), Some(6));
        assert_eq!(ports.book_before(0, 5, Port::Any, 7), None);
        assert_eq!(ports.book(0, 5, Port::Any), 7);
    }

    #[test]
    fn bookings_equal_those_of_counting_starts_by_cycle() {
        let mut random = reach_core::Random::new(11);
        let limits = [3, 2, 1];
        let mut ports = IssuePorts::new(limits[0], limits[1], limits[2]);
        let mut counts = std::collections::HashMap::<u64, [u32; 3]>::new();
        let mut floor = 0;
        for step in 0..30_000 {
            floor += match random.below(100) {
                0 => random.below(5000),
                _ => random.below(2),
            };
            let earliest = floor + if random.below(20) == 0 { random.below(1100) } else { random.below(30) };
            let deadline = if random.below(4) == 0 { earliest + random.below(9) } else { u64::MAX };
            let port = [Port::Any, Port::Load, Port::Store][random.below(3) as usize];
            let is_free = |at: &u64| {
                let starts = counts.get(at).copied().unwrap_or_default();
                *at >= floor + HORIZON || starts[0] < limits[0] && starts[port as usize] < limits[port as usize]
            };
            let expected = (earliest..).find(is_free).filter(|&at| at < deadline);
            assert_eq!(ports.book_before(floor, earliest, port, deadline), expected, "step {step}");
            if let Some(at) = expected.filter(|&at| at < floor + HORIZON) {
                let starts = counts.entry(at).or_default();
                starts[0] += 1;
                if port != Port::Any {
                    starts[port as usize] += 1;
                }
            }
        }
    }
}
