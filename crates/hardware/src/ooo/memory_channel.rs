//! The way to memory, over which lines come one behind the other.
//!
//! A load that misses all caches sets out when the way is free, and takes it for as long as a line does at the memory's
//! bandwidth. The line of a store that misses takes it twice, since it goes back some day. A walk waits so for each entry that
//! it reads from memory. The other line of a pair is fetched ahead only when the way is free just then. Code, and what walks on
//! wrong paths read, does not take it.

use super::ports::Busy;

#[derive(Clone, Debug)]
pub(super) struct Channel {
    busy: Busy,
    /// Cycles from one line to the next; 0 where nothing is said of it.
    interval: u64,
    /// What takes so many cycles comes from memory.
    memory: u32,
}

impl Channel {
    pub fn new(interval: u32, memory: u32) -> Channel {
        Channel { busy: Busy::new(1), interval: interval.into(), memory }
    }

    /// When so many lines set out, which are asked for at `from` and take `miss` cycles. `base`: see [`Busy::start`].
    #[inline(always)]
    pub fn send(&mut self, base: u64, from: u64, miss: u32, lines: u64) -> u64 {
        if self.interval == 0 || miss < self.memory {
            return from;
        }
        self.busy.start(base, from, lines * self.interval)
    }

    /// How much longer a walk from `from` on takes that reads so many entries from memory.
    #[inline(always)]
    pub fn wait(&mut self, base: u64, from: u64, entries: u32) -> u64 {
        let (mut at, mut waited) = (from, 0);
        for _ in 0..entries {
            let sent = self.send(base, at, self.memory, 1);
            waited += sent - at;
            at = sent + u64::from(self.memory);
        }
        waited
    }

    /// Whether nothing takes it at `from`.
    #[inline(always)]
    pub fn is_free(&mut self, base: u64, from: u64) -> bool {
        self.interval == 0 || self.busy.first(base, from, 1) == from
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_from_memory_come_one_behind_the_other() {
        let mut channel = Channel::new(10, 100);
        assert_eq!([channel.send(0, 5, 100, 1), channel.send(0, 5, 100, 2), channel.send(0, 5, 100, 1)], [5, 15, 35]);
        assert_eq!(channel.send(0, 5, 99, 1), 5, "a cache has it");
        assert_eq!((channel.is_free(0, 44), channel.is_free(0, 45), channel.is_free(0, 4)), (false, true, true));
        // The first entry waits from 40 to 45 and is there at 145, where the second finds the way free.
        assert_eq!(channel.wait(0, 40, 2), 5);
        assert_eq!((channel.is_free(0, 150), channel.is_free(0, 155)), (false, true));
        let mut unknown = Channel::new(0, 100);
        assert_eq!((unknown.send(0, 5, 100, 1), unknown.send(0, 5, 100, 1), unknown.is_free(0, 5)), (5, 5, true));
    }
}
