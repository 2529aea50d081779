//! The channel to memory, which transfers one line at a time.
//!
//! - A load that misses all caches waits until the channel is free, then occupies it for one line.
//! - The line of a store that misses occupies it twice as long, for the fill and the later write-back.
//! - A walk waits for the channel at each entry that it reads from memory.
//! - The buddy line of a pair is prefetched only if the channel is idle at that moment.
//! - Instruction fetches and walks on the wrong path do not use it.

use super::occupancy::Occupancy;

/// The channel's occupancy, and how long a line occupies it.
#[derive(Clone, Debug)]
pub(super) struct MemoryChannel {
    occupancy: Occupancy,
    /// Cycles for one line. 0 means unbounded bandwidth.
    interval: u64,
    /// Cycles to memory: an access of at least this latency uses the channel.
    memory: u32,
}

impl MemoryChannel {
    pub fn new(interval: u32, memory: u32) -> MemoryChannel {
        MemoryChannel { occupancy: Occupancy::new(1), interval: interval.into(), memory }
    }

    /// Occupies the channel for `lines` lines of an access of `latency` cycles. Returns the cycle in which the access
    /// starts, at or after `earliest`; accesses that a cache answers start at once. For `floor` see [`Occupancy`].
    #[inline(always)]
    pub fn send(&mut self, floor: u64, earliest: u64, latency: u32, lines: u64) -> u64 {
        if self.interval == 0 || latency < self.memory {
            return earliest;
        }
        self.occupancy.occupy(floor, earliest, lines * self.interval)
    }

    /// Occupies the channel for the `reads` entries that a walk from cycle `start` reads from memory, one after the
    /// other. Returns by how many cycles that lengthens the walk.
    #[inline(always)]
    pub fn delay_walk(&mut self, floor: u64, start: u64, reads: u32) -> u64 {
        let (mut at, mut delay) = (start, 0);
        for _ in 0..reads {
            let sent = self.send(floor, at, self.memory, 1);
            delay += sent - at;
            at = sent + u64::from(self.memory);
        }
        delay
    }

    /// Returns whether the channel is idle in cycle `at`.
    #[inline(always)]
    pub fn is_idle(&mut self, floor: u64, at: u64) -> bool {
        self.interval == 0 || self.occupancy.earliest_start(floor, at, 1) == at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_from_memory_follow_one_another() {
        let mut channel = MemoryChannel::new(10, 100);
        assert_eq!([channel.send(0, 5, 100, 1), channel.send(0, 5, 100, 2), channel.send(0, 5, 100, 1)], [5, 15, 35]);
        assert_eq!(channel.send(0, 5, 99, 1), 5, "a cache answers");
        assert_eq!((channel.is_idle(0, 44), channel.is_idle(0, 45), channel.is_idle(0, 4)), (false, true, true));
        // The first entry waits from 40 to 45 and arrives at 145, when the channel is idle for the second.
        assert_eq!(channel.delay_walk(0, 40, 2), 5);
        assert_eq!((channel.is_idle(0, 150), channel.is_idle(0, 155)), (false, true));
        let mut unbounded = MemoryChannel::new(0, 100);
        assert_eq!((unbounded.send(0, 5, 100, 1), unbounded.send(0, 5, 100, 1)), (5, 5));
        assert!(unbounded.is_idle(0, 5));
    }
}
