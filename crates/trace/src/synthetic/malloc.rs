//! A simple allocator on the brk heap, as seen from outside: which addresses it gives, and which memory it touches.
//!
//! Like many a real one it keeps a last-in first-out list of free chunks for each size, threaded through the chunks
//! themselves, and cuts new ones from the top of the heap. Every chunk has a header of eight bytes and begins at a
//! multiple of 16.

use super::process::heap_growth;
use reach_core::{Map, VirtAddr};
use std::collections::BTreeMap;

const HEADER: u64 = 8;
const ALIGN: u64 = 16;
/// The heap grows by at least this much, as glibc's does.
const GROWTH: u64 = 128 << 10;

/// Where an allocation came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// A free chunk: its first word, the link, was loaded.
    Free,
    /// The top of the heap: its header, in front of it, was stored.
    Top,
}

#[derive(Clone, Debug)]
pub(super) struct Malloc {
    top: u64,
    end: u64,
    free: BTreeMap<u64, Vec<u64>>,
}

impl Malloc {
    /// An allocator for a heap that begins at `start` and is empty.
    pub fn new(start: VirtAddr) -> Malloc {
        Malloc { top: start.0, end: start.0, free: BTreeMap::new() }
    }

    fn chunk_bytes(bytes: u64) -> u64 {
        (bytes + HEADER).next_multiple_of(ALIGN)
    }

    /// Gives `bytes` bytes. The growth of the heap, if there was any, comes before the first use of what was given.
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

    /// Takes back what [`Malloc::allocate`] gave for `bytes` bytes; its first word becomes the link.
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
    fn what_was_freed_last_is_given_first() {
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
        fn allocations_never_overlap(sizes in proptest::collection::vec((1u64..5000, any::<bool>()), 1..200)) {
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
                // Nor does any reach into the header of another.
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
