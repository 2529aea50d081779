//! Large arrays in the memory of the host computer, at the addresses where it reads them fastest.
//!
//! A simulation reads its larger arrays at random, so that most reads are misses of the host's caches and TLBs. An array that
//! begins at a line of the cache keeps what is read together in as few lines as possible, and superpages spare the TLB misses.

use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// Bytes of a superpage of the host.
const HUGE: usize = 2 << 20;

/// Bytes of a line of the host's cache.
const LINE: usize = 64;

/// An anonymous mapping of zeroes. The kernel is asked for superpages, and gives memory as it is touched.
#[derive(Debug)]
pub(crate) struct Mapping {
    at: NonNull<libc::c_void>,
    bytes: usize,
}

// SAFETY: the mapping is owned, and this type reads and writes nothing of it.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `bytes` bytes. Returns the mapping and its first byte, at a multiple of 2 MB; `None` if the host refuses.
    pub fn new(bytes: usize) -> Option<(Mapping, NonNull<u8>)> {
        // Miri has no memory that is reserved only.
        if cfg!(miri) {
            return None;
        }
        let all = bytes + HUGE;
        let (access, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE);
        // SAFETY: a new anonymous mapping at an address that the kernel chooses replaces no other mapping.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), all, access, flags, -1, 0) };
        if at == libc::MAP_FAILED {
            return None;
        }
        let skip = at.align_offset(HUGE);
        // SAFETY: `skip` is less than `HUGE`, so that `bytes` bytes of the mapping follow. If the advice fails, that costs
        // only time.
        let first = unsafe {
            libc::madvise(at.byte_add(skip), bytes, libc::MADV_HUGEPAGE);
            at.byte_add(skip)
        };
        Some((Mapping { at: NonNull::new(at)?, bytes: all }, NonNull::new(first.cast())?))
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: `new` made this mapping; its owner is gone, and with it every reference to it.
        unsafe { libc::munmap(self.at.as_ptr(), self.bytes) };
    }
}

/// A type all of whose bytes may be zero.
///
/// # Safety
/// A value whose bytes are all zero is valid, and the type needs an alignment of at most 64 bytes.
pub unsafe trait Zero: Copy {}

// SAFETY: zero is a number.
unsafe impl Zero for u64 {}
// SAFETY: an array has no bytes but those of its elements.
unsafe impl<T: Zero, const N: usize> Zero for [T; N] {}

/// An array of fixed length that is zero at first. It begins at a line of the host's cache; if it is large, at a superpage.
#[derive(Debug)]
pub struct Zeroed<T> {
    first: NonNull<T>,
    len: usize,
    _store: Store,
}

/// The memory that holds the elements.
#[derive(Debug)]
enum Store {
    Heap { _words: Vec<u64> },
    Mapping { _mapping: Mapping },
}

// SAFETY: the elements are owned, and reached only through `&self` and `&mut self`, like those of a vector.
unsafe impl<T: Send> Send for Zeroed<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Zeroed<T> {}

impl<T: Zero> Zeroed<T> {
    /// Creates an array of `len` zeroes.
    pub fn new(len: usize) -> Zeroed<T> {
        let bytes = len * size_of::<T>();
        if bytes >= HUGE
            && let Some((mapping, first)) = Mapping::new(bytes)
        {
            return Zeroed { first: first.cast(), len, _store: Store::Mapping { _mapping: mapping } };
        }
        let mut words = vec![0u64; (bytes + LINE).div_ceil(size_of::<u64>())];
        let skip = words.as_ptr().align_offset(LINE);
        // Miri may decline to align.
        let first = NonNull::from(&mut words[if skip == usize::MAX { 0 } else { skip }..]).cast();
        Zeroed { first, len, _store: Store::Heap { _words: words } }
    }
}

impl<T> Deref for Zeroed<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY: `first` points to `len` elements of the store, which lives as long as this, written or zero.
        unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.len) }
    }
}

impl<T> DerefMut for Zeroed<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above, and `self` is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.first.as_ptr(), self.len) }
    }
}

impl<T: Zero> Clone for Zeroed<T> {
    fn clone(&self) -> Zeroed<T> {
        let mut copy = Zeroed::new(self.len);
        copy.copy_from_slice(self);
        copy
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_are_zero_at_a_line_and_their_own() {
        // The largest array of the heap and the smallest mapping are among them.
        for sets in [0, 1, 64, HUGE / 128 - 1, HUGE / 128, HUGE / 128 + 1] {
            let mut all = Zeroed::<[[u64; 4]; 4]>::new(sets);
            assert_eq!(all.len(), sets);
            assert!(all.as_flattened().as_flattened().iter().all(|&word| word == 0));
            let boundary = if sets * 128 >= HUGE { HUGE } else { LINE };
            assert!(all.as_ptr().addr().is_multiple_of(boundary) || cfg!(miri));
            let Some(last) = all.last_mut() else { continue };
            last[3][3] = 7;
            let copy = all.clone();
            all[sets - 1][3][3] = 8;
            assert_eq!((copy[sets - 1][3][3], all[sets - 1][3][3]), (7, 8));
        }
    }
}
