//! Where the nodes of a page table stand: words that only grow, in superpages of this computer where it gives them.
//!
//! A program of a terabyte has two gigabytes of entries, of which walks read one here and one there. In pages of 4 KB each of
//! these would be a TLB miss of this computer's own. Large tables so get a stretch of addresses that holds the largest
//! table there may be, once: they never move, and take memory as they grow.

use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// Tables of more words than these (1 MB) get a stretch of their own.
const SMALL: usize = 1 << 17;
/// The most words of a table: nodes are named by 32 bits.
const MOST: usize = 1 << 32;
const HUGE: usize = 2 << 20;

/// Zeroed words.
#[derive(Debug)]
pub(super) struct Words {
    first: NonNull<u64>,
    len: usize,
    store: Store,
}

#[derive(Debug)]
enum Store {
    Heap(Vec<u64>),
    /// A mapping of so many bytes at this address. `first` lies in it, at a multiple of [`HUGE`].
    Stretch(NonNull<libc::c_void>, usize),
}

// SAFETY: the words are owned and reached through `&self` and `&mut self` only, as those of a vector are.
unsafe impl Send for Words {}
// SAFETY: as above.
unsafe impl Sync for Words {}

impl Default for Words {
    fn default() -> Words {
        Words { first: NonNull::dangling(), len: 0, store: Store::Heap(Vec::new()) }
    }
}

impl Words {
    /// `more` zeroes at the end.
    pub(super) fn grow(&mut self, more: usize) {
        let len = self.len + more;
        assert!(len <= MOST, "page tables of less than 32 GB");
        if let Store::Heap(heap) = &mut self.store {
            match (len > SMALL).then(stretch).flatten() {
                None => {
                    heap.resize(len, 0);
                    self.first = NonNull::from(heap.as_mut_slice()).cast();
                }
                Some((store, first)) => {
                    // SAFETY: the new stretch has room for more words than the heap has, and is nobody else's.
                    unsafe { first.copy_from_nonoverlapping(self.first, self.len) };
                    (self.store, self.first) = (store, first);
                }
            }
        }
        self.len = len;
    }
}

/// Addresses for a table of any size; none where this computer does not give them away before they are used.
fn stretch() -> Option<(Store, NonNull<u64>)> {
    let bytes = MOST * size_of::<u64>() + HUGE;
    let (access, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE);
    // SAFETY: a new mapping at a place of the kernel's choice.
    let at = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, flags, -1, 0) };
    if at == libc::MAP_FAILED {
        return None;
    }
    let skip = at.align_offset(HUGE);
    // SAFETY: advice on the mapping just made, which is as long; where it is not taken nothing is lost but time.
    unsafe { libc::madvise(at.byte_add(skip), bytes - HUGE, libc::MADV_HUGEPAGE) };
    // SAFETY: `skip` is less than the mapping's length.
    let first = unsafe { at.byte_add(skip) };
    Some((Store::Stretch(NonNull::new(at)?, bytes), NonNull::new(first.cast())?))
}

impl Deref for Words {
    type Target = [u64];

    #[inline(always)]
    fn deref(&self) -> &[u64] {
        // SAFETY: `first` is where `len` words of `store` begin, all of which have been written or mapped as zeroes.
        unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.len) }
    }
}

impl DerefMut for Words {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [u64] {
        // SAFETY: as above, and `self` is borrowed for changes.
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

impl Drop for Words {
    fn drop(&mut self) {
        if let Store::Stretch(at, bytes) = self.store {
            // SAFETY: the mapping that `stretch` made, to which nobody refers any more.
            unsafe { libc::munmap(at.as_ptr(), bytes) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stay_when_their_place_changes() {
        let mut words = Words::default();
        assert!(words.is_empty());
        let mut expected = Vec::new();
        // Through the heap and beyond, in steps that hit the bound and miss it.
        for step in [1, 514, SMALL - 515, 1, 514, 3 * SMALL] {
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
        assert!(matches!(words.store, Store::Stretch(..)) && words.first.as_ptr().addr().is_multiple_of(HUGE));
        let copy = words.clone();
        words[0] = 9;
        assert!(*copy == *expected && words[1] == copy[1] && words[0] != copy[0]);
    }
}
