//! Units that serve a bounded number of requests at once: page walkers, MSHRs, the memory channel.

/// The intervals during which identical units are busy. At most `units` intervals overlap at any time.
///
/// Every method that takes a `floor` forgets the intervals that end by then. No later call may ask about an earlier
/// cycle, so the `floor` must not decrease from call to call.
#[derive(Clone, Debug)]
pub(super) struct Occupancy {
    units: usize,
    /// The starts of all intervals in order, and apart from them their ends in order. The number of intervals that
    /// overlap a span is a difference of two counts.
    starts: Vec<u64>,
    ends: Vec<u64>,
}

impl Occupancy {
    /// Creates `units` idle units.
    pub fn new(units: u32) -> Occupancy {
        Occupancy { units: units as usize, starts: Vec::new(), ends: Vec::new() }
    }

    /// Returns how many units are busy in cycle `at`, which is not before the last `floor`.
    pub fn busy_at(&self, at: u64) -> usize {
        self.starts.partition_point(|&start| start <= at) - self.ends.partition_point(|&end| end <= at)
    }

    /// Occupies a unit for `cycles` from the first possible cycle, at or after `earliest`. Returns that cycle.
    ///
    /// A unit must be free throughout: intervals that were given a later start count too. `earliest` is not before
    /// `floor`.
    pub fn occupy(&mut self, floor: u64, earliest: u64, cycles: u64) -> u64 {
        let start = self.earliest_start(floor, earliest, cycles);
        self.record(start, start + cycles);
        start
    }

    /// Returns the cycle in which [`Occupancy::occupy`] would start, and occupies nothing.
    pub fn earliest_start(&mut self, floor: u64, earliest: u64, cycles: u64) -> u64 {
        self.forget_before(floor);
        let mut at = earliest;
        let mut ended = self.ends.partition_point(|&end| end <= at);
        let mut started = self.starts.partition_point(|&start| start < at + cycles);
        while started - ended >= self.units {
            // Wait until as many intervals end as there are too many.
            at = self.ends[started - self.units];
            ended += self.ends[ended..].iter().take_while(|&&end| end <= at).count();
            started += self.starts[started..].iter().take_while(|&&start| start < at + cycles).count();
        }
        at
    }

    /// Returns the first cycle, at or after `earliest`, from which a unit is free until `deadline`. `None` if there is
    /// no such cycle before `deadline`.
    pub fn free_until(&mut self, floor: u64, earliest: u64, deadline: u64) -> Option<u64> {
        self.forget_before(floor);
        let started = self.starts.partition_point(|&start| start < deadline);
        let ended = self.ends.partition_point(|&end| end <= earliest);
        let at = if started - ended < self.units { earliest } else { self.ends[started - self.units] };
        (at < deadline).then_some(at)
    }

    /// Records that a unit is busy from `start` to `end`. The caller has found it free.
    pub fn record(&mut self, start: u64, end: u64) {
        let last = self.ends.partition_point(|&other| other <= end);
        self.ends.insert(last, end);
        let first = self.starts.partition_point(|&other| other <= start);
        self.starts.insert(first, start);
    }

    fn forget_before(&mut self, floor: u64) {
        if self.ends.len() >= 2 * self.units + 16 {
            // At least as many starts as ends lie before `floor`. Dropping the earliest keeps all differences of
            // counts.
            let over = self.ends.partition_point(|&end| end <= floor);
            self.ends.drain(..over);
            self.starts.drain(..over);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_most_units_intervals_overlap() {
        let mut walkers = Occupancy::new(2);
        assert_eq!([walkers.occupy(0, 0, 10), walkers.occupy(0, 0, 10), walkers.occupy(0, 0, 10)], [0, 0, 10]);
        assert_eq!(walkers.occupy(0, 50, 10), 50);
        assert_eq!(walkers.occupy(0, 50, 10), 50);
        // Between 20 and 50 a short enough interval fits.
        assert_eq!(walkers.occupy(0, 11, 30), 11);
        assert_eq!(walkers.occupy(0, 11, 30), 20, "one interval ends at 20, and this one before two more begin");
        assert_eq!(walkers.occupy(0, 21, 30), 60, "two are busy at some time before");
        assert_eq!(walkers.occupy(0, 42, 5), 42);
    }

    #[test]
    fn free_until_finds_the_first_gap_that_lasts_to_the_deadline() {
        let mut walker = Occupancy::new(1);
        walker.occupy(0, 0, 10);
        walker.occupy(0, 40, 10);
        assert_eq!((walker.free_until(0, 3, 40), walker.free_until(0, 20, 40)), (Some(10), Some(20)));
        assert_eq!(
            (walker.free_until(0, 3, 10), walker.free_until(0, 3, 41), walker.free_until(0, 3, 60)),
            (None, None, Some(50))
        );
        walker.record(10, 40);
        assert_eq!((walker.earliest_start(0, 0, 1), walker.occupy(0, 0, 1)), (50, 50));
    }
}
