//! A simple allocator on the brk heap: the addresses that it returns, and the memory that it touches.
//!
//! Like many real allocators it keeps a last-in first-out list of free chunks for each size. The links lie in the
//! chunks themselves. New chunks come from the top of the heap. A chunk has a header of 8 bytes, and its data begins at
//! a multiple of 16.

use super::process::heap_growth;
use reach_core::{Map, VirtAddr};
use std::collections::BTreeMap;

const HEADER: u64 = 8;
const ALIGN: u64 = 16;
/// The least growth of the heap, as in glibc.
const GROWTH: u64 = 128 << 10;

/// The origin of an allocation, which determines the memory that the allocator touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// A free chunk. The allocator loads its first word, the link.
    Free,
    /// The top of the heap. The allocator stores the header, before the data.
    Top,
}

#[derive(Clone, Debug)]
pub(super) struct Malloc {
    top: u64,
    end: u64,
    free: BTreeMap<u64, Vec<u64>>,
}

impl Malloc {
    /// Makes an allocator for an empty heap at `start`.
    pub fn new(start: VirtAddr) -> Malloc {
        Malloc { top: start.0, end: start.0, free: BTreeMap::new() }
    }

    fn chunk_bytes(bytes: u64) -> u64 {
        (bytes + HEADER).next_multiple_of(ALIGN)
    }

    /// Allocates `bytes` bytes. Returns their address and origin, and the mapping by which the heap grew, or `None`
    /// when it did not. That mapping precedes the first use of the memory.
    pub fn allocate(&mut self, bytes: u64) -> (u64, Origin, Option<Map>) {
        let chunk = Self::chunk_bytes(bytes);
        if let Some(addr) = self.free.get_mut(&chunk).and_then(Vec::pop) {
            return (addr, Origin::Free, None);
        }
        let mut growth = None;
        if self.end - self.top < chunk + ALIGN {
            let grown = (chunk + ALIGN).next_multiple_of(GROWTH);
            growth = Some(heap_growth(VirtAddr(self.end), grown));
            self.end += grown;
        }
        let addr = self.top + ALIGN;
        self.top += chunk;
        (addr, Origin::Top, growth)
    }

    /// Frees an allocation of `bytes` bytes. The caller stores the link in its first word.
    pub fn release(&mut self, addr: u64, bytes: u64) {
        let list = self.free.entry(Self::chunk_bytes(bytes)).or_default();
        debug_assert!(!list.contains(&addr), "freed twice");
        list.push(addr);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_chunk_freed_last_is_reused_first() {
        let mut malloc = Malloc::new(VirtAddr(0x1000));
        let (a, origin, growth) = malloc.allocate(48);
        assert_eq!((a, origin, growth.map(|m| m.span.len)), (0x1010, Origin::Top, Some(128 << 10)));
        let (b, _, growth) = malloc.allocate(48);
        assert_eq!((b, growth), (0x1050, None));
        malloc.release(a, 48);
        malloc.release(b, 48);
        assert_eq!(malloc.allocate(128).1, Origin::Top);
        assert_eq!(malloc.allocate(56), (b, Origin::Free, None));
        assert_eq!(malloc.allocate(48), (a, Origin::Free, None));
    }

    proptest! {
        #[test]
        fn allocations_with_headers_never_overlap(sizes in proptest::collection::vec((1u64..5000, any::<bool>()), 1..200)) {
            let mut malloc = Malloc::new(VirtAddr(0x10_0000));
            let mut mapped = 0x10_0000;
            let mut live: Vec<(u64, u64)> = Vec::new();
            for (bytes, release) in sizes {
                let (addr, _, growth) = malloc.allocate(bytes);
                if let Some(map) = growth {
                    prop_assert_eq!(map.span.start.0, mapped);
                    mapped = map.span.end().0;
                }
                prop_assert!(addr % 16 == 0 && addr >= 0x10_0010 && addr + bytes <= mapped);
                // The eight bytes before each allocation are its header.
                prop_assert!(live.iter().all(|&(a, n)| addr + bytes + 8 <= a || a + n + 8 <= addr));
                live.push((addr, bytes));
                if release {
                    let (addr, bytes) = live.swap_remove(live.len() / 2);
                    malloc.release(addr, bytes);
                }
            }
        }
    }
}
