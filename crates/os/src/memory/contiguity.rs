//! The contiguity of free memory as one number (Navarro et al. §6.5).

use crate::Buddy;
use reach_core::PageShift;

/// Returns the contiguity of free memory, from 0 (no superpage can be allocated) to 1 (all memory is free).
///
/// Every base page that lies in a wholly free, aligned extent of superpage size number k (1 for the smallest superpage)
/// counts k points, for the largest such k. The sum is divided by the sum for free memory. `sizes` are the machine's page
/// sizes, the base page first. Returns 0 if memory cannot hold a superpage.
pub fn contiguity(buddy: &Buddy, sizes: &[PageShift]) -> f64 {
    let orders: Vec<u8> = sizes.iter().skip(1).map(|size| size.order(sizes[0])).collect();
    // Free buddies are always joined, so an extent is wholly free exactly if one free block holds it. Sizes above the
    // allocator's largest order cannot be allocated.
    let attainable: Vec<u8> = orders.into_iter().filter(|&order| order <= buddy.max_order()).collect();
    let free = buddy.free_by_order();
    let points: u64 = free
        .iter()
        .enumerate()
        .map(|(order, blocks)| {
            let best = attainable.iter().filter(|&&wanted| wanted as usize <= order).count() as u64;
            best * (blocks << order)
        })
        .sum();
    let most: u64 = attainable.iter().map(|&order| buddy.frames() >> order << order).sum();
    if most == 0 { 0.0 } else { points as f64 / most as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ListOrder;
    use reach_core::Pfn;

    const ALPHA: [PageShift; 4] = [PageShift(13), PageShift(16), PageShift(19), PageShift(22)];

    #[test]
    fn a_page_counts_by_the_largest_free_extent_around_it() {
        let mut buddy = Buddy::new(1024, 18, ListOrder::Lifo);
        assert_eq!(contiguity(&buddy, &ALPHA), 1.0);
        // One page gone from the first 4 MB: 512 pages keep 3 points, 448 have 2, 56 have 1, 8 have none.
        buddy.allocate_at(Pfn(5), 0).unwrap();
        assert_eq!(contiguity(&buddy, &ALPHA), (512 * 3 + 448 * 2 + 56) as f64 / (1024 * 3) as f64);
    }

    #[test]
    fn full_memory_has_no_contiguity() {
        let mut buddy = Buddy::new(600, 18, ListOrder::Lifo);
        while buddy.allocate(0).is_some() {}
        assert_eq!(contiguity(&buddy, &ALPHA), 0.0);
    }
}
