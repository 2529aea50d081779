//! The page sizes that reservations may have.

use reach_core::PageShift;

/// A ladder of page sizes as buddy orders: level 0 is the base page, the last level the largest superpage in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ladder {
    orders: Vec<u8>,
}

impl Ladder {
    /// The ladder of `sizes`, ascending from the base page.
    ///
    /// # Panics
    /// When there are fewer than two sizes or they do not ascend.
    pub fn new(sizes: &[PageShift]) -> Ladder {
        assert!(sizes.len() > 1 && sizes.is_sorted_by(|a, b| a < b), "{sizes:?} is no ladder of page sizes");
        Ladder { orders: sizes.iter().map(|size| size.order(sizes[0])).collect() }
    }

    /// The level of the largest size.
    #[inline]
    pub fn top(&self) -> u8 {
        self.orders.len() as u8 - 1
    }

    /// How many doublings lie between a base page and a page of `level`.
    #[inline]
    pub fn order(&self, level: u8) -> u8 {
        self.orders[level as usize]
    }

    /// Base pages of a page of `level`.
    #[inline]
    pub fn pages(&self, level: u8) -> u64 {
        1 << self.order(level)
    }

    /// How many pages of the next smaller size make one of `level`, which is not the lowest.
    #[inline]
    pub fn fan(&self, level: u8) -> u32 {
        1 << (self.order(level) - self.order(level - 1))
    }

    /// Which child of its node at `level` holds `place`.
    #[inline]
    pub fn slot(&self, level: u8, place: u64) -> usize {
        (place >> self.order(level - 1) & (self.fan(level) as u64 - 1)) as usize
    }

    /// The first place of the extent of `level` that holds `place`.
    #[inline]
    pub fn start(&self, level: u8, place: u64) -> u64 {
        place & !(self.pages(level) - 1)
    }

    /// The lowest level whose pages are at least `2^order` base pages; `None` when even the largest are smaller.
    pub fn holding(&self, order: u8) -> Option<u8> {
        self.orders.iter().position(|&have| have >= order).map(|level| level as u8)
    }
}
