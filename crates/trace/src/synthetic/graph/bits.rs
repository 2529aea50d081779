//! Sets of vertices.

/// A set with one bit per vertex.
#[derive(Clone)]
pub(super) struct Bits(Vec<u64>);

impl Bits {
    /// Makes the empty set.
    pub fn new(vertices: u64) -> Bits {
        Bits(vec![0; vertices.div_ceil(64) as usize])
    }

    /// Returns whether `v` is in the set.
    #[inline(always)]
    pub fn has(&self, v: u64) -> bool {
        self.0[(v / 64) as usize] >> (v % 64) & 1 != 0
    }

    /// Adds `v`. Returns whether it is new.
    #[inline(always)]
    pub fn add(&mut self, v: u64) -> bool {
        let (word, bit) = (&mut self.0[(v / 64) as usize], 1 << (v % 64));
        let new = *word & bit == 0;
        *word |= bit;
        new
    }

    /// Adds `v` when `present`, else removes it. Returns whether that changed the set.
    #[inline(always)]
    pub fn set(&mut self, v: u64, present: bool) -> bool {
        let (word, at) = (&mut self.0[(v / 64) as usize], v % 64);
        let new = (*word >> at & 1 != 0) != present;
        *word ^= u64::from(new) << at;
        new
    }

    /// Prefetches the bits of `list` into the caches of the host.
    pub fn prefetch(&self, list: &[u64]) {
        for &v in list {
            reach_core::prefetch(&self.0, (v / 64) as usize);
        }
    }

    /// Removes all vertices.
    pub fn clear(&mut self) {
        self.0.fill(0);
    }

    /// Copies `other`, a set of as many vertices.
    pub fn copy(&mut self, other: &Bits) {
        self.0.copy_from_slice(&other.0);
    }
}
