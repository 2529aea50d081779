//! Sets of vertices.

/// A bit for each vertex.
#[derive(Clone)]
pub(super) struct Bits(Vec<u64>);

impl Bits {
    pub fn new(vertices: u64) -> Bits {
        Bits(vec![0; vertices.div_ceil(64) as usize])
    }

    #[inline(always)]
    pub fn has(&self, v: u64) -> bool {
        self.0[(v / 64) as usize] >> (v % 64) & 1 != 0
    }

    /// Returns whether it was not there.
    #[inline(always)]
    pub fn add(&mut self, v: u64) -> bool {
        let (word, bit) = (&mut self.0[(v / 64) as usize], 1 << (v % 64));
        let new = *word & bit == 0;
        *word |= bit;
        new
    }

    /// Says of `v` whether it is there. Returns whether that is new.
    #[inline(always)]
    pub fn put(&mut self, v: u64, there: bool) -> bool {
        let (word, at) = (&mut self.0[(v / 64) as usize], v % 64);
        let new = (*word >> at & 1 != 0) != there;
        *word ^= u64::from(new) << at;
        new
    }

    /// Asks this computer's caches for what will be needed of `list`.
    pub fn expect(&self, list: &[u64]) {
        for &v in list {
            reach_core::prefetch(&self.0, (v / 64) as usize);
        }
    }

    /// Nothing is there.
    pub fn clear(&mut self) {
        self.0.fill(0);
    }

    /// The same as `other`, which has as many.
    pub fn copy(&mut self, other: &Bits) {
        self.0.copy_from_slice(&other.0);
    }
}
