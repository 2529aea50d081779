//! How long the program stands still at page faults: what a request notices of them, which totals hide.

use hdrhistogram::Histogram;

/// The lengths of stops, in cycles.
#[derive(Clone, Debug)]
pub struct Stops {
    /// Each bucket is at most 1 % wide.
    lengths: Histogram<u64>,
    longest: u64,
}

impl Default for Stops {
    fn default() -> Stops {
        let lengths = Histogram::new(2).expect("two digits are allowed");
        Stops { lengths, longest: 0 }
    }
}

impl Stops {
    /// Adds a stop of this length, in cycles.
    pub(super) fn add(&mut self, cycles: u64) {
        self.longest = self.longest.max(cycles);
        self.lengths.record(cycles).expect("the histogram grows");
    }

    /// Returns the number of stops.
    pub fn count(&self) -> u64 {
        self.lengths.len()
    }

    /// Returns the length of the longest, in cycles.
    pub fn longest(&self) -> u64 {
        self.longest
    }

    /// Returns the length that `share` of the stops do not exceed, in cycles, within 1 %; 0 if there are none.
    pub fn quantile(&self, share: f64) -> u64 {
        if self.count() == 0 { 0 } else { self.lengths.value_at_quantile(share).min(self.longest) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rare_long_stop_is_the_longest_and_not_the_99th_percentile() {
        let mut stops = Stops::default();
        assert_eq!((stops.count(), stops.longest(), stops.quantile(0.99)), (0, 0, 0));
        (0..999).for_each(|at| stops.add(1000 + at % 7));
        stops.add(1_234_567);
        assert_eq!((stops.count(), stops.longest()), (1000, 1_234_567));
        assert!((1000..=1016).contains(&stops.quantile(0.99)), "{}", stops.quantile(0.99));
        assert_eq!(stops.quantile(1.0), 1_234_567);
    }
}
