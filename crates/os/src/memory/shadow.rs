//! Shadow space: physical addresses that no memory answers to, which a memory controller takes for real ones (Impulse;
//! Fang et al. 1999, section 3.2). Translations may point there; what they stand for is looked up here.
//!
//! Shadow frames are given out in blocks of the largest page, one for each such extent of an address space, so that a
//! superpage that grows keeps its shadow addresses: only pages that join it move.

use reach_core::{Asid, ControllerCommand, PageShift, Pfn, Vpn};
use std::collections::{HashMap, HashSet, VecDeque};

/// The first frame of shadow space, above all memory and the data that handlers keep.
const FIRST: u64 = 1 << 34;

#[derive(Clone, Copy, Debug)]
struct Page {
    real: Pfn,
    /// Translations that point here.
    maps: u32,
}

/// Shadow space is as large as half of the addresses of 32 bits (figure 1 of the paper): so many blocks of 4 MB are
/// used before one is used again.
const FRESH: usize = 512;

#[derive(Clone, Debug)]
struct Block {
    owner: (Asid, u64),
    /// Shadow frames in use.
    used: u64,
}

/// Shadow frames in use, and what the memory controller is to be told.
#[derive(Clone, Debug)]
pub(crate) struct Shadow {
    base: PageShift,
    /// Binary logarithm of the frames in a block.
    order: u8,
    pages: HashMap<u64, Page>,
    blocks: Vec<Option<Block>>,
    /// Blocks to be used again, the first that became free first.
    free: VecDeque<usize>,
    /// Shadow frames of which lines may still be cached though they stand for nothing.
    stale: HashSet<u64>,
    of: HashMap<(Asid, u64), usize>,
    pub commands: Vec<ControllerCommand>,
}

/// Whether `pfn` lies in shadow space.
#[inline(always)]
pub(crate) fn is_shadow(pfn: Pfn) -> bool {
    pfn.0 >= FIRST
}

impl Shadow {
    /// An empty space for frames of size `base`, in blocks of `largest`.
    pub fn new(base: PageShift, largest: PageShift) -> Shadow {
        Shadow {
            base,
            order: largest.order(base),
            pages: HashMap::new(),
            blocks: Vec::new(),
            free: VecDeque::new(),
            stale: HashSet::new(),
            of: HashMap::new(),
            commands: Vec::new(),
        }
    }

    /// The first address.
    pub fn start(base: PageShift) -> reach_core::PhysAddr {
        Pfn(FIRST).addr(base)
    }

    /// What a shadow frame stands for.
    pub fn real(&self, shadow: Pfn) -> Pfn {
        self.pages.get(&shadow.0).expect("translations point to shadow frames in use").real
    }

    /// Where the page `vpn` of `asid` belongs in shadow space.
    pub fn place(&mut self, asid: Asid, vpn: Vpn) -> Pfn {
        let owner = (asid, vpn.0 >> self.order);
        let block = match self.of.get(&owner) {
            Some(&block) => block,
            None => {
                let again = if self.blocks.len() < FRESH { None } else { self.free.pop_front() };
                let block = again.unwrap_or_else(|| {
                    self.blocks.push(None);
                    self.blocks.len() - 1
                });
                self.blocks[block] = Some(Block { owner, used: 0 });
                self.of.insert(owner, block);
                block
            }
        };
        Pfn(FIRST + ((block as u64) << self.order) + (vpn.0 & ((1 << self.order) - 1)))
    }

    /// Whether `shadow` stands for another frame than `real` already.
    pub fn taken(&self, shadow: Pfn, real: Pfn) -> bool {
        self.pages.get(&shadow.0).is_some_and(|page| page.real != real)
    }

    /// `shadow` stands for `real`, whose lines are cached under the address `now`.
    pub fn enter(&mut self, shadow: Pfn, real: Pfn, now: Pfn) {
        self.flush(now);
        if self.stale.remove(&shadow.0) {
            self.flush(shadow);
        }
        self.commands.push(ControllerCommand::MapShadow { shadow, real: Some(real) });
        if self.pages.insert(shadow.0, Page { real, maps: 0 }).is_none()
            && let Some(block) = self.block_of(shadow)
        {
            block.used += 1;
        }
    }

    /// A translation points to `shadow`.
    pub fn add(&mut self, shadow: Pfn) {
        if let Some(page) = self.pages.get_mut(&shadow.0) {
            page.maps += 1;
        }
    }

    /// Such a translation is gone. Returns the real frame, and whether it was the last.
    pub fn drop(&mut self, shadow: Pfn) -> (Pfn, bool) {
        let page = self.pages.get_mut(&shadow.0).expect("translations point to shadow frames in use");
        page.maps -= 1;
        (page.real, page.maps == 0)
    }

    /// Nothing points to `shadow` any more. If what it stands for is still of use, its lines are written back; if not,
    /// they may go to an address that the controller drops, until the shadow frame is used again.
    pub fn release(&mut self, shadow: Pfn, of_use: bool) {
        self.pages.remove(&shadow.0);
        match of_use {
            true => self.flush(shadow),
            false => _ = self.stale.insert(shadow.0),
        }
        self.commands.push(ControllerCommand::MapShadow { shadow, real: None });
        let index = ((shadow.0 - FIRST) >> self.order) as usize;
        if let Some(block) = self.block_of(shadow) {
            block.used -= 1;
            if block.used == 0 {
                let owner = block.owner;
                self.blocks[index] = None;
                self.of.remove(&owner);
                self.free.push_back(index);
            }
        }
    }

    /// The lines of the frame that are cached under this address are written back.
    pub fn flush(&mut self, at: Pfn) {
        self.commands.push(ControllerCommand::Flush { at: at.addr(self.base), bytes: self.base.bytes() });
    }

    fn block_of(&mut self, shadow: Pfn) -> Option<&mut Block> {
        self.blocks.get_mut(((shadow.0 - FIRST) >> self.order) as usize)?.as_mut()
    }

    /// Every shadow frame in use, and how many translations point to it. For checks.
    pub fn in_use(&self) -> impl Iterator<Item = (Pfn, Pfn, u32)> {
        self.pages.iter().map(|(&shadow, page)| (Pfn(shadow), page.real, page.maps))
    }
}
