//! The page sizes that reservations may have.

use reach_core::PageShift;

/// The page sizes in use, as orders of the buddy allocator: level 0 is the base page, the last level the largest superpage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ladder {
    orders: Vec<u8>,
}

impl Ladder {
    /// Returns the ladder of `sizes`, which ascend from the base page.
    ///
    /// # Panics
    /// When there are fewer than two sizes or they do not ascend.
    pub fn new(sizes: &[PageShift]) -> Ladder {
        assert!(
            sizes.len() > 1 && sizes.is_sorted_by(|a, b| a < b),
            "{sizes:?}: expected at least two ascending page sizes"
        );
        Ladder { orders: sizes.iter().map(|size| size.order(sizes[0])).collect() }
    }

    /// Returns the level of the largest size.
    #[inline]
    pub fn top(&self) -> u8 {
        self.orders.len() as u8 - 1
    }

    /// Returns the binary logarithm of the base pages in a page of `level`.
    #[inline]
    pub fn order(&self, level: u8) -> u8 {
        self.orders[level as usize]
    }

    /// Returns the number of base pages in a page of `level`.
    #[inline]
    pub fn pages(&self, level: u8) -> u64 {
        1 << self.order(level)
    }

    /// Returns the number of pages of the next smaller size in a page of `level`, which is at least 1.
    #[inline]
    pub fn fan(&self, level: u8) -> u32 {
        1 << (self.order(level) - self.order(level - 1))
    }

    /// Returns the number of the child that holds `place` in its node of `level`.
    #[inline]
    pub fn slot(&self, level: u8, place: u64) -> usize {
        (place >> self.order(level - 1) & (self.fan(level) as u64 - 1)) as usize
    }

    /// Returns the first place of the extent of `level` that holds `place`.
    #[inline]
    pub fn start(&self, level: u8, place: u64) -> u64 {
        place & !(self.pages(level) - 1)
    }

    /// Returns the lowest level whose pages have at least `2^order` base pages. `None` when even the largest pages are smaller.
    pub fn holding(&self, order: u8) -> Option<u8> {
        self.orders.iter().position(|&have| have >= order).map(|level| level as u8)
    }
}
