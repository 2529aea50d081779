//! Other users of a cache, such as the other guests of a computer. They bring lines of their own into it all the time, so that
//! a line of ours leaves it sooner the longer it is not used.

use reach_core::{PhysAddr, Random};

/// Beyond all memory of ours, so that no line is both theirs and ours.
const THEIRS: u64 = 1 << 50;

/// What others bring into one cache.
#[derive(Clone, Debug)]
pub(super) struct Others {
    /// Bytes in 1,024 cycles.
    rate: u64,
    /// The part of a line that is due, in bytes times 1,024.
    due: u64,
    random: Random,
}

impl Others {
    pub fn new(rate: u32, seed: u64) -> Others {
        Others { rate: rate.into(), due: 0, random: Random::new(seed) }
    }

    /// Returns how many lines of `line` bytes come in the next `cycles` cycles, at most `most`.
    pub fn lines_in(&mut self, cycles: u64, line: u64, most: u64) -> u64 {
        self.due = self.due.saturating_add(cycles.saturating_mul(self.rate));
        let lines = self.due / (line << 10);
        self.due %= line << 10;
        lines.min(most)
    }

    /// Returns the address of one.
    pub fn next_line(&mut self) -> PhysAddr {
        PhysAddr(THEIRS | self.random.below(THEIRS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_at_the_rate() {
        let mut others = Others::new(512, 1);
        let lines: u64 = (0..1000).map(|_| others.lines_in(100, 64, 10)).sum();
        assert_eq!(lines, 100_000 / 128);
        assert_eq!(others.lines_in(u64::MAX, 64, 1000), 1000, "no more than replace all");
    }
}
