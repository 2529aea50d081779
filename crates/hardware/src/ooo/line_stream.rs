//! How fast lines arrive where a kernel zeroes or copies memory.

use crate::config;

/// The lines that a core gets one after the other, as many at once as it has MSHRs.
#[derive(Clone, Copy, Debug)]
pub struct LineStream {
    /// The whole core's: while one hardware thread streams, the other's idle MSHRs are its own.
    mshrs: u32,
    /// Cycles of a miss that goes to memory.
    memory: u32,
    /// Cycles between two lines on the hardware thread's part of the channel to memory.
    line_interval: u32,
}

impl LineStream {
    /// Returns the stream of a core with this configuration, which has the channel to memory to itself.
    pub fn of(core: &config::OooCore) -> LineStream {
        LineStream { mshrs: core.l1_mshrs, memory: core.memory, line_interval: core.line_interval }
    }

    /// Returns the cycles between two lines whose misses take `latency` each: one for each MSHR is in flight, and memory sends
    /// them one after the other. A store's line occupies the channel to memory twice.
    pub fn interval(&self, latency: u32, is_store: bool) -> u64 {
        let in_flight = u64::from(latency.div_ceil(self.mshrs));
        let channel = if latency < self.memory { 0 } else { u64::from(self.line_interval) };
        in_flight.max(channel * (1 + u64::from(is_store)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_follow_each_other_as_fast_as_mshrs_and_memory_allow() {
        let stream = LineStream { mshrs: 4, memory: 100, line_interval: 20 };
        let intervals = [14, 99, 100, 400].map(|latency| [false, true].map(|store| stream.interval(latency, store)));
        assert_eq!(intervals, [[4, 4], [25, 25], [25, 40], [100, 100]]);
    }
}
