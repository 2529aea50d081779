//! How memory fares over time (Navarro et al. §6.5, Figure 5).

use crate::memory::Queue;
use crate::{FrameKind, Vm, contiguity};
use reach_core::{Cycles, Pfn};
use std::collections::BTreeSet;

/// The state of memory at some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// When, in milliseconds since boot; 0 where it does not matter.
    pub millis: u64,
    /// Contiguity of free and cached memory, in millionths ([`contiguity`]).
    pub contiguity: u64,
    /// Bytes that are free or cached.
    pub free: u64,
    /// Bytes of the page daemon's active list.
    pub active: u64,
    /// Bytes of its inactive list.
    pub inactive: u64,
    /// Extents of the largest page size that hold pages of either list.
    pub in_use: u64,
    /// Extents of the largest page size that hold wired pages, those of page tables included.
    pub wired: u64,
}

impl Vm {
    /// Adds the present state of memory to the series of [`Counters`](crate::Counters). Linear in memory.
    pub fn sample(&mut self, now: Cycles) {
        let sample = Sample { millis: now.0 / (self.options.hertz / 1000).max(1), ..self.memory_now() };
        self.counters.series.push(sample);
    }

    /// The state of memory. Linear in memory where there is a page daemon; without one, the lists are empty.
    pub(crate) fn memory_now(&self) -> Sample {
        let (base, buddy) = (self.base(), self.frames.buddy());
        let share = contiguity(buddy, &self.options.sizes);
        let mut sample = Sample {
            contiguity: (share * 1e6).round() as u64,
            free: buddy.free_frames() << base.0,
            ..Sample::default()
        };
        let Some(queues) = &self.frames.queues else { return sample };
        let top = self.options.sizes.last().map_or(0, |size| size.order(base));
        let chunks = |queue| queues.iter(queue).map(|at| at >> top);
        let in_use: BTreeSet<u64> = chunks(Queue::Active).chain(chunks(Queue::Inactive)).collect();
        let own = |at: &u64| matches!(self.frames.get(Pfn(*at)).kind, FrameKind::Wired | FrameKind::Table);
        let wired: BTreeSet<u64> = (0..buddy.frames()).filter(own).map(|at| at >> top).collect();
        sample.active = queues.len(Queue::Active) << base.0;
        sample.inactive = queues.len(Queue::Inactive) << base.0;
        (sample.in_use, sample.wired) = (in_use.len() as u64, wired.len() as u64);
        sample
    }
}
