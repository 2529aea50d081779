//! Memory and page sizes over time. Time is the program's instructions, so that a point means the same under every system.

use reach_core::TICK_INSTRUCTIONS;
use reach_os::Counters;

/// The most points that are kept.
const POINTS: usize = 128;

/// The state of memory after a number of instructions of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryPoint {
    /// Instructions since the program began, of those that were simulated.
    pub instructions: u64,
    /// Bytes of frames with at least one mapping.
    pub resident_bytes: u64,
    /// Bytes of page-table nodes.
    pub page_table_bytes: u64,
    /// Superpages mapped, by size: the machine's sizes above the base page, ascending.
    pub superpages: Vec<u64>,
}

/// Points at equal distances. As a program goes on, every other one goes.
#[derive(Clone, Debug, Default)]
pub(super) struct OverTime {
    ticks: u64,
    /// Ticks between two points, as a power of two.
    doublings: u32,
    points: Vec<MemoryPoint>,
}

impl OverTime {
    /// Notes a daemon tick: the program has executed another [`TICK_INSTRUCTIONS`] instructions, wherever chunks are cut.
    pub(super) fn tick(&mut self, os: &Counters) {
        self.ticks += 1;
        if self.ticks.trailing_zeros() < self.doublings {
            return;
        }
        if self.points.len() == POINTS {
            self.doublings += 1;
            let kept = TICK_INSTRUCTIONS << self.doublings;
            self.points.retain(|point| point.instructions.is_multiple_of(kept));
            if self.ticks.trailing_zeros() < self.doublings {
                return;
            }
        }
        self.points.push(MemoryPoint {
            instructions: self.ticks * TICK_INSTRUCTIONS,
            resident_bytes: os.resident_bytes.current,
            page_table_bytes: os.page_table_bytes.current,
            superpages: os.superpages.iter().map(|gauge| gauge.current).collect(),
        });
    }

    /// Returns the points.
    pub(super) fn into_points(self) -> Vec<MemoryPoint> {
        self.points
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_few_and_at_equal_distances() {
        for ticks in [1, 127, 128, 129, 1000, 4096] {
            let mut over_time = OverTime::default();
            (0..ticks).for_each(|_| over_time.tick(&Counters::default()));
            let points = over_time.into_points();
            assert!(points.len() <= POINTS && points.len() >= POINTS.min(ticks) / 2, "{ticks}: {}", points.len());
            let each = points[0].instructions;
            let expected = (1..).map(|at| at * each).take(points.len());
            assert!(points.iter().map(|point| point.instructions).eq(expected), "{ticks}: {points:?}");
        }
    }
}
