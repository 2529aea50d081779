//! When misses fall, and where: address × time.

use super::MappingId;
use rustc_hash::FxHashMap;

/// The most spans of time.
const SPANS: usize = 128;
/// References of a span at first.
const SHORTEST: u64 = 1024;

/// First-level TLB misses by extent of a mapping and by time. Time is the number of references since measuring began. Each span of it
/// has the same length; as a program goes on, two become one.
#[derive(Clone, Debug)]
pub struct Heat {
    /// References of each span.
    pub references: u64,
    /// The misses of each span, by mapping and extent, up to the last that has any.
    pub spans: Vec<FxHashMap<(MappingId, u64), u64>>,
    /// What was counted last, and is not in its span yet.
    recent: Option<(usize, (MappingId, u64), u64)>,
}

impl Default for Heat {
    fn default() -> Heat {
        Heat { references: SHORTEST, spans: Vec::new(), recent: None }
    }
}

impl Heat {
    /// Adds `misses` in an extent of a mapping at this time.
    pub(super) fn add(&mut self, time: u64, place: (MappingId, u64), misses: u64) {
        let span = (time / self.references) as usize;
        match &mut self.recent {
            Some((at, of, sum)) if *at == span && *of == place => *sum += misses,
            _ => {
                self.keep();
                while time / self.references >= SPANS as u64 {
                    self.join();
                }
                self.recent = Some(((time / self.references) as usize, place, misses));
            }
        }
    }

    /// Puts what was counted last into its span.
    pub(super) fn keep(&mut self) {
        if let Some((span, place, misses)) = self.recent.take() {
            if self.spans.len() <= span {
                self.spans.resize_with(span + 1, FxHashMap::default);
            }
            *self.spans[span].entry(place).or_default() += misses;
        }
    }

    /// Makes one span of each two.
    fn join(&mut self) {
        self.references *= 2;
        let mut spans = std::mem::take(&mut self.spans).into_iter();
        while let Some(mut first) = spans.next() {
            for (place, misses) in spans.next().into_iter().flatten() {
                *first.entry(place).or_default() += misses;
            }
            self.spans.push(first);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_become_longer_and_lose_nothing() {
        let mut heat = Heat::default();
        let places = [(MappingId(2), 7), (MappingId(3), 9)];
        for time in 0..1000 {
            heat.add(time * 1000, places[time as usize % 2], 3);
        }
        heat.keep();
        assert_eq!(heat.references, 8192);
        assert_eq!(heat.spans.len(), 999_000 / 8192 + 1);
        let sum = |place| heat.spans.iter().filter_map(|span| span.get(place)).sum::<u64>();
        assert_eq!(places.each_ref().map(sum), [1500, 1500]);
        // The first span has the times 0, 1000, …, 8000.
        assert_eq!(heat.spans[0][&places[0]], 15);
    }
}
