//! How long memory is booked: Algorithm 1 of Jia et al. 2023.
//!
//! A period with the present time is followed by one with a time that is a tenth longer, and later by one that is a tenth shorter. The
//! other time stays if TLB misses have become fewer and free memory is not more fragmented.

use crate::superpage;
use reach_core::Cycles;
use reach_os::Vm;

/// What the period that runs is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trial {
    /// To compare with the next, of this kind.
    Before(Change),
    /// The time is changed.
    Of(Change),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Longer,
    Shorter,
}

/// The time that memory is booked, in thousandths of a millisecond.
#[derive(Clone, Debug)]
pub(super) struct Timeout {
    desired: u64,
    /// Milliseconds of a period; 0: the time never changes.
    period: u64,
    trial: Trial,
    /// TLB misses and fragmentation of the period before.
    before: (u64, u64),
    /// All TLB misses when the period began.
    walks: u64,
    /// The end of the period; `None` before the first.
    end: Option<Cycles>,
}

impl Timeout {
    /// Creates a timeout of `initial` milliseconds, to be adjusted in periods of `period` milliseconds.
    pub fn new(initial: u64, period: u64) -> Timeout {
        let trial = Trial::Before(Change::Longer);
        Timeout { desired: initial * 1000, period, trial, before: (0, 0), walks: 0, end: None }
    }

    /// Returns whether the time may change.
    pub fn adjusts(&self) -> bool {
        self.period > 0 && self.desired > 0
    }

    /// Returns the time in force, in cycles.
    pub fn cycles(&self, vm: &Vm) -> u64 {
        (u128::from(superpage::cycles_in(1, vm)) * u128::from(self.effective()) / 1000) as u64
    }

    fn effective(&self) -> u64 {
        match self.trial {
            Trial::Before(_) => self.desired,
            Trial::Of(change) => changed(self.desired, change),
        }
    }

    /// Takes note of the time, of all TLB misses so far, and of the share of free memory that is fragmented.
    pub fn pass(&mut self, now: Cycles, walks: u64, fragmented: u64, vm: &Vm) {
        if !self.adjusts() || self.end.is_some_and(|end| now < end) {
            return;
        }
        let misses = walks.saturating_sub(self.walks);
        if self.end.replace(now + superpage::cycles_in(self.period, vm)).is_some() {
            self.end_period(misses, fragmented);
        }
        self.walks = walks;
    }

    /// Ends a period in which there were `misses`.
    fn end_period(&mut self, misses: u64, fragmented: u64) {
        self.trial = match self.trial {
            Trial::Before(change) => Trial::Of(change),
            Trial::Of(change) => {
                let better = misses < self.before.0 && fragmented <= self.before.1;
                if better {
                    self.desired = changed(self.desired, change);
                }
                let again = better || change == Change::Shorter;
                Trial::Before(if again { Change::Longer } else { Change::Shorter })
            }
        };
        self.before = (misses, fragmented);
    }
}

/// Returns `time` with a tenth more or less.
fn changed(time: u64, change: Change) -> u64 {
    match change {
        Change::Longer => (time * 11 / 10).max(time + 1),
        Change::Shorter => (time * 9 / 10).max(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_that_has_fewer_misses_stays_unless_memory_is_more_fragmented() {
        let mut timeout = Timeout::new(10, 1);
        let mut after = |misses, fragmented| {
            timeout.end_period(misses, fragmented);
            timeout.effective()
        };
        assert_eq!(after(100, 30), 11_000, "the trial of a longer time");
        assert_eq!(after(90, 30), 11_000, "it stays");
        assert_eq!(after(90, 30), 12_100);
        assert_eq!(after(80, 31), 11_000, "fewer misses, but more fragmented");
        assert_eq!(after(80, 31), 9_900, "then a shorter time");
        assert_eq!(after(80, 20), 11_000, "not fewer misses");
        assert_eq!(after(80, 20), 12_100, "and from the beginning");
        assert_eq!(after(81, 20), 11_000);
        assert_eq!(after(80, 20), 9_900);
        assert_eq!(after(70, 20), 9_900, "the shorter one stays");
    }

    #[test]
    fn nothing_changes_without_periods_or_bookings() {
        assert!(!Timeout::new(10, 0).adjusts() && !Timeout::new(0, 10).adjusts() && Timeout::new(10, 10).adjusts());
    }
}
