//! Shadow space: physical addresses without memory, which a memory controller translates to real ones (Impulse; Fang et al.
//! 1999, section 3.2). Translations may point there; this table says which frames they mean.
//!
//! Shadow frames are given out in blocks of the largest page, one per such extent of an address space. A superpage that grows
//! thus keeps its shadow addresses: only the pages that join it move.

use reach_core::{Asid, ControllerCommand, PageShift, Pfn, Vpn};
use std::collections::{HashMap, HashSet, VecDeque};

/// The first frame of shadow space, above all memory and the data of miss handlers.
const FIRST: u64 = 1 << 34;

#[derive(Clone, Copy, Debug)]
struct Page {
    real: Pfn,
    /// Translations that point here.
    maps: u32,
}

/// Blocks that are used before one is used again: shadow space is half of a 32-bit address space (figure 1 of the paper), in
/// blocks of 4 MB.
const FRESH: usize = 512;

#[derive(Clone, Debug)]
struct Block {
    owner: (Asid, u64),
    /// Shadow frames in use.
    used: u64,
}

/// Cycles that remapping costs the processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemapCosts {
    /// Cycles per 32 bytes flushed from the caches.
    pub flush: u64,
    /// Cycles per entry written in the controller's table.
    pub entry: u64,
}

/// Shadow frames in use, and the commands that wait for the memory controller.
#[derive(Clone, Debug)]
pub(crate) struct Shadow {
    base: PageShift,
    costs: RemapCosts,
    /// Binary logarithm of the frames in a block.
    order: u8,
    pages: HashMap<u64, Page>,
    blocks: Vec<Option<Block>>,
    /// Blocks to be used again, in the order in which they became free.
    free: VecDeque<usize>,
    /// Shadow frames without a real frame, of which lines may still be cached.
    stale: HashSet<u64>,
    /// Blocks by owner.
    owned: HashMap<(Asid, u64), usize>,
    commands: Vec<ControllerCommand>,
}

/// Returns whether `pfn` lies in shadow space.
#[inline(always)]
pub(crate) fn is_shadow(pfn: Pfn) -> bool {
    pfn.0 >= FIRST
}

impl Shadow {
    /// Returns an empty space for frames of size `base`, in blocks of `largest`.
    pub fn new(base: PageShift, largest: PageShift, costs: RemapCosts) -> Shadow {
        Shadow {
            base,
            costs,
            order: largest.order(base),
            pages: HashMap::new(),
            blocks: Vec::new(),
            free: VecDeque::new(),
            stale: HashSet::new(),
            owned: HashMap::new(),
            commands: Vec::new(),
        }
    }

    /// Returns the first address of shadow space.
    pub fn start(base: PageShift) -> reach_core::PhysAddr {
        Pfn(FIRST).addr(base)
    }

    /// Returns the real frame of a shadow frame in use.
    pub fn real(&self, shadow: Pfn) -> Pfn {
        self.pages.get(&shadow.0).expect("translations point to shadow frames in use").real
    }

    /// Returns the shadow frame of page `vpn` of `asid`. Assigns a block to its extent if it has none.
    pub fn place(&mut self, asid: Asid, vpn: Vpn) -> Pfn {
        let owner = (asid, vpn.0 >> self.order);
        let block = match self.owned.get(&owner) {
            Some(&block) => block,
            None => {
                let again = if self.blocks.len() < FRESH { None } else { self.free.pop_front() };
                let block = again.unwrap_or_else(|| {
                    self.blocks.push(None);
                    self.blocks.len() - 1
                });
                self.blocks[block] = Some(Block { owner, used: 0 });
                self.owned.insert(owner, block);
                block
            }
        };
        Pfn(FIRST + ((block as u64) << self.order) + (vpn.0 & ((1 << self.order) - 1)))
    }

    /// Returns whether `shadow` already translates to another frame than `real`.
    pub fn in_use_for_another(&self, shadow: Pfn, real: Pfn) -> bool {
        self.pages.get(&shadow.0).is_some_and(|page| page.real != real)
    }

    /// Translates `shadow` to `real`, whose lines are cached under the address `now`.
    pub fn map(&mut self, shadow: Pfn, real: Pfn, now: Pfn) {
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

    /// Counts a translation that points to `shadow`.
    pub fn add_translation(&mut self, shadow: Pfn) {
        if let Some(page) = self.pages.get_mut(&shadow.0) {
            page.maps += 1;
        }
    }

    /// Removes a translation that pointed to `shadow` from its count. Returns the real frame, and whether it was the last.
    pub fn remove_translation(&mut self, shadow: Pfn) -> (Pfn, bool) {
        let page = self.pages.get_mut(&shadow.0).expect("translations point to shadow frames in use");
        page.maps -= 1;
        (page.real, page.maps == 0)
    }

    /// Frees `shadow`, to which nothing points any more. If its frame's contents are still needed, its lines are written back.
    /// If not, they may go to an address that the controller drops, until the shadow frame is used again.
    pub fn release(&mut self, shadow: Pfn, needed: bool) {
        self.pages.remove(&shadow.0);
        match needed {
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
                self.owned.remove(&owner);
                self.free.push_back(index);
            }
        }
    }

    /// Writes back the lines that are cached under the address of this frame.
    pub fn flush(&mut self, at: Pfn) {
        self.commands.push(ControllerCommand::Flush { at: at.addr(self.base), bytes: self.base.bytes() });
    }

    /// Removes the waiting commands. Returns them with the cycles that they cost the processor.
    pub fn take_commands(&mut self) -> (Vec<ControllerCommand>, u64) {
        let commands = std::mem::take(&mut self.commands);
        let cycles = commands.iter().map(|command| match command {
            ControllerCommand::Flush { bytes, .. } => bytes.div_ceil(32) * self.costs.flush,
            ControllerCommand::MapShadow { .. } => self.costs.entry,
        });
        let cycles = cycles.sum();
        (commands, cycles)
    }

    fn block_of(&mut self, shadow: Pfn) -> Option<&mut Block> {
        self.blocks.get_mut(((shadow.0 - FIRST) >> self.order) as usize)?.as_mut()
    }

    /// Returns every shadow frame in use, its real frame, and the number of translations that point to it. For checks.
    pub fn in_use(&self) -> impl Iterator<Item = (Pfn, Pfn, u32)> {
        self.pages.iter().map(|(&shadow, page)| (Pfn(shadow), page.real, page.maps))
    }
}
