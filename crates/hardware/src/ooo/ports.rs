//! What is limited: starts in a cycle, and how many things may be under way at once.

/// How many cycles beyond an instruction's entry into the window its ports are booked; what starts later (it has waited
/// longer for memory than others wait for ports) finds a port free.
pub const HORIZON: u64 = 1 << 10;

/// What starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Port {
    /// An operation.
    Any = 0,
    /// A load.
    Load = 1,
    /// A store.
    Store = 2,
}

/// Cycles whose starts are known: those that may be booked, and more behind them, so that what has gone by is forgotten
/// a word of [`Calendar::full`] at a time.
const CYCLES: usize = 2 * HORIZON as usize;
const WORD: u64 = u64::BITS as u64;
const WORDS: usize = CYCLES / WORD as usize;

/// Who starts in which cycle.
#[derive(Clone, Debug)]
pub struct Calendar {
    /// Starts in each cycle, a byte for all, one for loads and one for stores.
    starts: Box<[u32; CYCLES]>,
    /// A bit for each cycle in which no more can start, by port.
    full: Box<[[u64; WORDS]; 3]>,
    /// Words before this one are forgotten.
    first: u64,
    /// What can start in one cycle, by port: of all first.
    most: [u32; 3],
}

impl Calendar {
    /// At most `issue` starts in a cycle, of which at most so many loads and stores; each from 1 to 255.
    pub fn new(issue: u32, loads: u32, stores: u32) -> Calendar {
        let most = [issue, loads, stores].map(|most| most.min(255));
        Calendar { starts: Box::new([0; CYCLES]), full: Box::new([[0; WORDS]; 3]), first: 0, most }
    }

    /// The first cycle from `from` on that is free, which is taken. `base` never decreases from call to call, and is at
    /// most `from`.
    #[inline]
    pub fn take(&mut self, base: u64, from: u64, port: Port) -> u64 {
        self.take_before(base, from, port, u64::MAX).expect("some cycle is free")
    }

    /// The same, if there is one before `until`.
    #[inline(always)]
    pub fn take_before(&mut self, base: u64, from: u64, port: Port, until: u64) -> Option<u64> {
        if base / WORD > self.first {
            self.forget(base / WORD);
        }
        let booked = until.min(base + HORIZON);
        let mut at = from;
        while at < booked {
            // Of the cycles from this one to the last of its word, those that are free.
            let free = !self.full[port as usize][(at / WORD) as usize % WORDS] >> (at % WORD);
            if free == 0 {
                at = (at / WORD + 1) * WORD;
                continue;
            }
            at += u64::from(free.trailing_zeros());
            if at < booked {
                self.book(at, port);
                return Some(at);
            }
        }
        let at = from.max(booked);
        (at < until).then_some(at)
    }

    #[inline(always)]
    fn book(&mut self, at: u64, port: Port) {
        let starts = &mut self.starts[at as usize % CYCLES];
        let shift = port as u32 * 8;
        *starts += 1 | 1 << shift;
        let (word, bit) = ((at / WORD) as usize % WORDS, at % WORD);
        let full = u64::from(*starts & 255 == self.most[0]) << bit;
        self.full.iter_mut().for_each(|words| words[word] |= full);
        if port != Port::Any {
            let full = u64::from(*starts >> shift & 255 == self.most[port as usize]) << bit;
            self.full[port as usize][word] |= full;
        }
    }

    /// Nothing starts before word `first` any more.
    fn forget(&mut self, first: u64) {
        for word in self.first..first.min(self.first + WORDS as u64) {
            let word = word as usize % WORDS;
            self.full.iter_mut().for_each(|words| words[word] = 0);
            self.starts[word * WORD as usize..][..WORD as usize].fill(0);
        }
        self.first = first;
    }
}

/// Things under way: each from a start to an end, at most so many at once.
#[derive(Clone, Debug)]
pub struct Busy {
    most: usize,
    /// When they start and when they end, each in order: how many overlap a span is a difference of counts.
    starts: Vec<u64>,
    ends: Vec<u64>,
}

impl Busy {
    /// At most `most` at once.
    pub fn new(most: u32) -> Busy {
        Busy { most: most as usize, starts: Vec::new(), ends: Vec::new() }
    }

    /// How many are under way at `at`, which is not before the last `base` of [`Busy::start`].
    pub fn under_way(&self, at: u64) -> usize {
        self.starts.partition_point(|&start| start <= at) - self.ends.partition_point(|&end| end <= at)
    }

    /// Starts something that takes `cycles`, at the first moment from `from` on at which fewer than the most are under
    /// way at any time until its end, those that have been given a later start already included. Returns the start.
    /// `base` never decreases from call to call, and is at most `from`.
    pub fn start(&mut self, base: u64, from: u64, cycles: u64) -> u64 {
        let at = self.first(base, from, cycles);
        self.book(at, at + cycles);
        at
    }

    /// When [`Busy::start`] would start it.
    pub fn first(&mut self, base: u64, from: u64, cycles: u64) -> u64 {
        self.forget(base);
        let mut at = from;
        let mut ended = self.ends.partition_point(|&end| end <= at);
        let mut started = self.starts.partition_point(|&start| start < at + cycles);
        while started - ended >= self.most {
            // As many must end as are too many.
            at = self.ends[started - self.most];
            ended += self.ends[ended..].iter().take_while(|&&end| end <= at).count();
            started += self.starts[started..].iter().take_while(|&&start| start < at + cycles).count();
        }
        at
    }

    /// The first moment from `from` on at which fewer than the most are under way at any time until `until`, if it is
    /// before that. `base` is as above.
    pub fn room(&mut self, base: u64, from: u64, until: u64) -> Option<u64> {
        self.forget(base);
        let started = self.starts.partition_point(|&start| start < until);
        let ended = self.ends.partition_point(|&end| end <= from);
        let at = if started - ended < self.most { from } else { self.ends[started - self.most] };
        (at < until).then_some(at)
    }

    /// Something is under way from `start` to `end`, for which there is room.
    pub fn book(&mut self, start: u64, end: u64) {
        let last = self.ends.partition_point(|&other| other <= end);
        self.ends.insert(last, end);
        let first = self.starts.partition_point(|&other| other <= start);
        self.starts.insert(first, start);
    }

    fn forget(&mut self, base: u64) {
        if self.ends.len() >= 2 * self.most + 16 {
            // As many starts lie before `base`: the first ones do for counting.
            let over = self.ends.partition_point(|&end| end <= base);
            self.ends.drain(..over);
            self.starts.drain(..over);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_taken_one_cycle_after_another_and_gaps_are_filled() {
        let mut calendar = Calendar::new(4, 2, 1);
        let loads: Vec<u64> = (0..5).map(|_| calendar.take(10, 12, Port::Load)).collect();
        assert_eq!(loads, [12, 12, 13, 13, 14]);
        assert_eq!(calendar.take(10, 12, Port::Store), 12);
        assert_eq!(calendar.take(10, 12, Port::Store), 13);
        assert_eq!(calendar.take(10, 12, Port::Any), 12);
        assert_eq!(calendar.take(10, 12, Port::Any), 13, "four have started at 12");
        assert_eq!(calendar.take(10, 11, Port::Load), 11);
        let far = 10 + HORIZON;
        assert!((0..9).all(|_| calendar.take(10, far, Port::Load) == far));
        assert_eq!(calendar.take(far, far, Port::Load), far, "and what was not booked is free");
    }

    #[test]
    fn cycles_are_those_that_counting_gives() {
        let mut random = reach_core::Random::new(11);
        let most = [3, 2, 1];
        let mut calendar = Calendar::new(most[0], most[1], most[2]);
        let mut counts = std::collections::HashMap::<u64, [u32; 3]>::new();
        let mut base = 0;
        for step in 0..30_000 {
            base += match random.below(100) {
                0 => random.below(5000),
                _ => random.below(2),
            };
            let from = base + if random.below(20) == 0 { random.below(1100) } else { random.below(30) };
            let until = if random.below(4) == 0 { from + random.below(9) } else { u64::MAX };
            let port = [Port::Any, Port::Load, Port::Store][random.below(3) as usize];
            let free = |at: &u64| {
                let starts = counts.get(at).copied().unwrap_or_default();
                *at >= base + HORIZON || starts[0] < most[0] && starts[port as usize] < most[port as usize]
            };
            let expected = (from..).find(free).filter(|&at| at < until);
            assert_eq!(calendar.take_before(base, from, port, until), expected, "step {step}");
            if let Some(at) = expected.filter(|&at| at < base + HORIZON) {
                let starts = counts.entry(at).or_default();
                starts[0] += 1;
                if port != Port::Any {
                    starts[port as usize] += 1;
                }
            }
        }
    }

    #[test]
    fn no_more_are_under_way_than_may_be() {
        let mut busy = Busy::new(2);
        assert_eq!([busy.start(0, 0, 10), busy.start(0, 0, 10), busy.start(0, 0, 10)], [0, 0, 10]);
        assert_eq!(busy.start(0, 50, 10), 50);
        assert_eq!(busy.start(0, 50, 10), 50);
        // Between 20 and 50 there is room for what is short enough.
        assert_eq!(busy.start(0, 11, 30), 11);
        assert_eq!(busy.start(0, 11, 30), 20, "one ends, and it ends itself before two more begin");
        assert_eq!(busy.start(0, 21, 30), 60, "two are under way at some time before");
        assert_eq!(busy.start(0, 42, 5), 42);
    }

    #[test]
    fn what_ends_at_a_moment_takes_what_room_there_is_until_then() {
        let mut busy = Busy::new(1);
        busy.start(0, 0, 10);
        busy.start(0, 40, 10);
        assert_eq!((busy.room(0, 3, 40), busy.room(0, 20, 40)), (Some(10), Some(20)));
        assert_eq!((busy.room(0, 3, 10), busy.room(0, 3, 41), busy.room(0, 3, 60)), (None, None, Some(50)));
        busy.book(10, 40);
        assert_eq!((busy.first(0, 0, 1), busy.start(0, 0, 1)), (50, 50));
        let mut calendar = Calendar::new(1, 1, 1);
        assert_eq!(calendar.take_before(0, 5, Port::Load, 5), None);
        assert_eq!(calendar.take_before(0, 5, Port::Load, 7), Some(5));
        assert_eq!(calendar.take_before(0, 5, Port::Any, 7), Some(6));
        assert_eq!(calendar.take_before(0, 5, Port::Any, 7), None);
        assert_eq!(calendar.take(0, 5, Port::Any), 7);
    }
}
