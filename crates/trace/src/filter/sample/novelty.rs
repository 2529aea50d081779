//! What a program does for the first time: fetches of new blocks, and loads and stores of new pages.

use reach_core::{BlockId, Chunk, Kind, Ref};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// The pages are of 4 KB, whatever the machine's are: what matters is that memory is new.
const PAGE_SHIFT: u32 = 12;

/// Pages that were touched lately; a power of two.
const RECENT: usize = 256;

/// Something new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Find {
    /// The reference that fetches the block which is new, or which touches the new page.
    pub at: u64,
    /// Whether it is a block; a page otherwise.
    pub is_block: bool,
}

/// What a program has done so far. One page number stands for all processes: what another process has touched at the same address
/// is not new.
#[derive(Clone, Debug)]
pub(super) struct Novelty {
    /// A bit for each block: whether it was fetched.
    fetched: Vec<u64>,
    /// A bit for each page that was touched, in groups of 64 pages.
    touched: FxHashMap<u64, u64>,
    /// The last touched page of each number modulo [`RECENT`]; `u64::MAX` where there is none.
    recent: Box<[u64; RECENT]>,
}

impl Novelty {
    pub fn new() -> Novelty {
        Novelty { fetched: Vec::new(), touched: FxHashMap::default(), recent: Box::new([u64::MAX; RECENT]) }
    }

    /// Adds what is new in `chunk`, whose first reference is number `start`, in its order. Pages only if `with_pages`; without
    /// them, later calls must be without them, too.
    pub fn find(&mut self, chunk: &Chunk, start: u64, with_pages: bool, finds: &mut VecDeque<Find>) {
        if !with_pages && chunk.fetched.iter().all(|&block| self.is_fetched(block)) {
            return;
        }
        let (mut fetch, mut fetched) = (start, chunk.fetched.iter());
        for (at, &r) in (start..).zip(&chunk.refs) {
            if r.kind() == Kind::Fetch {
                fetch = at;
                let is_new = fetched.next().is_some_and(|&block| self.fetch(block));
                finds.extend(is_new.then_some(Find { at, is_block: true }));
            } else if with_pages && self.touch(r) {
                finds.push_back(Find { at: fetch, is_block: false });
            }
        }
    }

    /// Notes the fetch of a block. Returns whether it is new.
    fn fetch(&mut self, block: BlockId) -> bool {
        let is_new = !self.is_fetched(block);
        if is_new {
            let block = block.0 as usize;
            self.fetched.resize(self.fetched.len().max(block / 64 + 1), 0);
            self.fetched[block / 64] |= 1 << (block % 64);
        }
        is_new
    }

    #[inline(always)]
    fn is_fetched(&self, block: BlockId) -> bool {
        let block = block.0 as usize;
        self.fetched.get(block / 64).is_some_and(|bits| bits >> (block % 64) & 1 == 1)
    }

    /// Notes a load or a store. Returns whether it is the first to its page.
    #[inline(always)]
    fn touch(&mut self, r: Ref) -> bool {
        let page = r.addr().0 >> PAGE_SHIFT;
        let recent = &mut self.recent[page as usize % RECENT];
        if *recent == page {
            return false;
        }
        *recent = page;
        let (group, bit) = (self.touched.entry(page / 64).or_default(), 1 << (page % 64));
        let is_new = *group & bit == 0;
        *group |= bit;
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reach_core::VirtAddr;

    fn load(page: u64) -> Ref {
        Ref::load(VirtAddr(page << PAGE_SHIFT | page))
    }

    #[test]
    fn each_page_is_new_once() {
        let mut novelty = Novelty::new();
        let pages = [5, 5 + RECENT as u64, 5, 69, 68, 5 + RECENT as u64];
        assert_eq!(pages.map(|page| novelty.touch(load(page))), [true, true, false, true, true, false]);
    }

    #[test]
    fn new_pages_and_blocks_are_found_at_their_fetch() {
        let fetch = Ref::fetch(VirtAddr(7 << 12), 4);
        let refs = vec![load(1), fetch, load(1), load(2), fetch, fetch, load(3)];
        let fetched = [4, 4, 9].map(BlockId).to_vec();
        let chunk = Chunk { refs, fetched, ..Chunk::default() };
        let finds = |novelty: &mut Novelty, with_pages| {
            let mut finds = VecDeque::new();
            novelty.find(&chunk, 100, with_pages, &mut finds);
            finds.into_iter().map(|find| (find.at, find.is_block)).collect::<Vec<_>>()
        };
        let mut novelty = Novelty::new();
        let expected = [(100, false), (101, true), (101, false), (105, true), (105, false)];
        assert_eq!(finds(&mut novelty, true), expected);
        assert_eq!(finds(&mut novelty, true), []);
        assert_eq!(finds(&mut Novelty::new(), false), [(101, true), (105, true)]);
    }
}
