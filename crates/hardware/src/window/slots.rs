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

/// Who starts in which cycle. A cycle has its bits 0–39 here, above three bytes: starts, loads and stores.
#[derive(Clone, Debug)]
pub struct Calendar {
    cycles: Box<[u64]>,
    issue: u32,
    ports: [u32; 3],
}

/// Bits of the counts.
const COUNTS: u32 = 24;

impl Calendar {
    /// At most `issue` starts in a cycle, of which at most so many loads and stores; each at most 255.
    pub fn new(issue: u32, loads: u32, stores: u32) -> Calendar {
        let at_most = |n: u32| n.min(255);
        let ports = [at_most(issue), at_most(loads), at_most(stores)];
        Calendar { cycles: vec![0; HORIZON as usize].into(), issue: at_most(issue), ports }
    }

    /// The first cycle from `from` on that is free, which is taken. `base` never decreases from call to call, and is at
    /// most `from`.
    #[inline]
    pub fn take(&mut self, base: u64, from: u64, port: Port) -> u64 {
        let shift = port as u32 * 8;
        let mut at = from;
        while at - base < HORIZON {
            let slot = &mut self.cycles[(at % HORIZON) as usize];
            if *slot >> COUNTS != at {
                *slot = at << COUNTS;
            }
            let starts = (*slot & 255) as u32;
            let of_port = (*slot >> shift & 255) as u32;
            if starts < self.issue && of_port < self.ports[port as usize] {
                *slot += 1;
                if port != Port::Any {
                    *slot += 1 << shift;
                }
                return at;
            }
            at += 1;
        }
        at
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
        if self.ends.len() >= 2 * self.most + 16 {
            // As many starts lie before `base`: the first ones do for counting.
            let over = self.ends.partition_point(|&end| end <= base);
            self.ends.drain(..over);
            self.starts.drain(..over);
        }
        let mut at = from;
        let mut ended = self.ends.partition_point(|&end| end <= at);
        let mut started = self.starts.partition_point(|&start| start < at + cycles);
        while started - ended >= self.most {
            // As many must end as are too many.
            at = self.ends[started - self.most];
            ended += self.ends[ended..].iter().take_while(|&&end| end <= at).count();
            started += self.starts[started..].iter().take_while(|&&start| start < at + cycles).count();
        }
        let last = ended + self.ends[ended..].partition_point(|&end| end <= at + cycles);
        self.ends.insert(last, at + cycles);
        let first = self.starts.partition_point(|&start| start <= at);
        self.starts.insert(first, at);
        at
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
}
