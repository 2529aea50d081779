//! The array that holds the nodes of a page table. It only grows, and uses superpages of the host where they are
//! available.
//!
//! A program of a terabyte has two gigabytes of entries, which walks read at random. In pages of 4 KB each read would
//! be a TLB miss of the host. A large table therefore reserves, once, the address space of the largest possible table.
//! It never moves, and takes memory only as it grows.

use crate::zeroed::Mapping;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// The most words of a table on the heap (1 MB). Larger tables get a mapping.
const MAX_HEAP_WORDS: usize = if cfg!(miri) { 1 << 10 } else { 1 << 17 };
/// The most words of a table: offsets have 32 bits.
const MAX_WORDS: usize = 1 << 32;

/// An array of words that grows by zeroes.
#[derive(Debug)]
pub(super) struct Words {
    first: NonNull<u64>,
    len: usize,
    store: Store,
}

#[derive(Debug)]
enum Store {
    Heap(Vec<u64>),
    /// The mapping in which `first` lies.
    Mapping {
        _mapping: Mapping,
    },
}

// SAFETY: the words are owned, and reached only through `&self` and `&mut self`, like those of a vector.
unsafe impl Send for Words {}
// SAFETY: as above.
unsafe impl Sync for Words {}

impl Default for Words {
    fn default() -> Words {
        Words { first: NonNull::dangling(), len: 0, store: Store::Heap(Vec::new()) }
    }
}

impl Words {
    /// Appends `more` zeroes.
    ///
    /// # Panics
    /// When the table would exceed 32 GB.
    pub(super) fn grow(&mut self, more: usize) {
        let len = self.len + more;
        assert!(len <= MAX_WORDS, "a page table of {len} words; 2^32 (32 GB) are the most");
        if let Store::Heap(heap) = &mut self.store {
            match (len > MAX_HEAP_WORDS).then(reserve).flatten() {
                None => {
                    heap.resize(len, 0);
                    self.first = NonNull::from(heap.as_mut_slice()).cast();
                }
                Some((store, first)) => {
                    // SAFETY: the new mapping is longer than the heap's words, and nothing else refers to it.
                    unsafe { first.copy_from_nonoverlapping(self.first, self.len) };
                    (self.store, self.first) = (store, first);
                }
            }
        }
        self.len = len;
    }
}

/// Reserves address space for a table of any size. Returns `None` when the host does not overcommit that much; the
/// table then stays on the heap.
fn reserve() -> Option<(Store, NonNull<u64>)> {
    let (mapping, first) = Mapping::new(MAX_WORDS * size_of::<u64>())?;
    Some((Store::Mapping { _mapping: mapping }, first.cast()))
}

impl Deref for Words {
    type Target = [u64];

    #[inline(always)]
    fn deref(&self) -> &[u64] {
        // SAFETY: `first` points to the `len` words of `store`, all written or mapped as zeroes.
        unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.len) }
    }
}

impl DerefMut for Words {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [u64] {
        // SAFETY: as above, and `self` is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.first.as_ptr(), self.len) }
    }
}

impl Clone for Words {
    fn clone(&self) -> Words {
        let mut copy = Words::default();
        copy.grow(self.len);
        copy.copy_from_slice(self);
        copy
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_keep_their_values_when_the_array_moves_to_a_mapping() {
        let mut words = Words::default();
        assert!(words.is_empty());
        let mut expected = Vec::new();
        // Steps that end before, at, and after the largest array on the heap.
        for step in [1, 514, MAX_HEAP_WORDS - 515, 1, 514, 3 * MAX_HEAP_WORDS] {
            words.grow(step);
            expected.resize(expected.len() + step, 0);
            let (first, last) = (expected.len() - step, expected.len() - 1);
            assert!(words[first..].iter().all(|&word| word == 0));
            for at in [first, last] {
                words[at] = at as u64 + 1;
                expected[at] = at as u64 + 1;
            }
            assert!(*words == *expected, "after {} words", expected.len());
        }
        assert!(matches!(words.store, Store::Mapping { .. }) || cfg!(miri));
        let copy = words.clone();
        words[0] = 9;
        assert!(*copy == *expected && words[1] == copy[1] && words[0] != copy[0]);
    }
}
