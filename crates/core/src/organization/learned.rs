//! `learned`: a learned index (LVM).
//!
//! After: Zhao, Chen, Xu, Schatzberg, Hajinazar, Vakharwala, Anderson and Skarlatos, "Learning to Walk: Architecting Learned
//! Virtual Memory Translation", MICRO 2025. The text was not at hand; what is said of it here is from its abstract.
//!
//! | design | here |
//! |---|---|
//! | a learned index that adapts to the address space | `learned/train.rs` |
//! | fixed-point arithmetic | `Linear` in `learned/model.rs` |
//! | single access: a model gives the line of the entry | `Leaf` in `learned/model.rs` |
//! | insertions, without much contiguous memory | [`Index::insert`], `Leaf::place` |
//! | models cached in the MMU | [`WALK_CACHES`] |
//! | multiple page sizes | [`Learned::indexes`] |
//!
//! Readings.
//!
//! - A line holds the entries of eight neighbouring pages and one tag, as in `hashed.rs`. A model maps the number of such a
//!   block to a line.
//! - An inner model divides the blocks below it into up to 128 ranges of the same length. Each range has a model of 32 bytes in
//!   one frame of 4 KB. The root model is in a register, as the address of a radix tree's root is.
//! - A leaf model has an array of lines, with gaps. Its slope is the inverse of the least distance between two of its blocks,
//!   so that no two share a line. A block that comes later may be in the next line, if its own is taken. The model says whether
//!   any is, and only then does a search read the next line.
//! - An array of 2 MB or more that grows is extended by chunks at either end, and nothing is copied. That is not in the abstract.
//! - Another leaf that has no place for a block is trained anew with it, and may become several. The whole index is trained
//!   anew when as many blocks came as it had. Leaves that would not change keep their arrays; the lines of others are copied.
//! - Each page size has an index of its own. A walk searches them at the same time, and does not read arrays whose models say
//!   that the address is outside.
//! - The MMU caches models of the lowest range, with the bounds of the range. Caches are coherent: they hold a model's
//!   present contents. Training and arithmetic take no time besides that of the memory they use.
//! - An array takes chunks of memory as the hash tables do (`memory.rs`).

use super::{BUCKET, ENTRY, Entries, Numbers, Organization, TableTraffic, Walker};
use crate::{FrameSource, Layout, PhysAddr, Vpn};
use model::{FEWEST, MODEL, Model};
use std::collections::BTreeSet;
use train::Trainer;

mod model;
mod train;

/// Entries of the cache of models.
pub(super) const WALK_CACHES: [u32; 1] = [16];

/// The index of one level.
#[derive(Clone, Debug, Default)]
struct Index {
    root: Option<Model>,
    /// Blocks when the whole index was last trained.
    trained: usize,
    /// Blocks that came since then.
    added: usize,
    /// Blocks that were the last of their leaf when they went.
    emptied: Vec<u64>,
}

impl Index {
    /// Adds `mask` to the entries of `block`. Returns `None`, and then no entry was added, when memory is exhausted.
    fn insert(&mut self, block: u64, mask: u8, trainer: &mut Trainer) -> Option<()> {
        for block in std::mem::take(&mut self.emptied) {
            prune(&mut self.root, None, block, trainer);
        }
        if self.added >= self.trained.max(FEWEST) {
            self.train(trainer);
        }
        let is_new = self.root.as_ref().is_none_or(|root| root.find(block).is_none());
        insert(&mut self.root, None, block, mask, trainer)?;
        self.added += usize::from(is_new);
        Some(())
    }

    /// Trains the whole index anew. Keeps it as it is when memory is exhausted.
    fn train(&mut self, trainer: &mut Trainer) {
        let mut blocks = Vec::new();
        if let Some(root) = &self.root {
            root.collect(&mut blocks);
        }
        if matches!(self.root, Some(Model::Inner(_))) {
            trainer.replace(&mut self.root, &blocks, None);
        }
        (self.trained, self.added) = (blocks.len(), 0);
    }

    /// Removes `mask` from the entries of `block`, which has them.
    fn subtract(&mut self, block: u64, mask: u8) {
        let mut model = self.root.as_mut();
        while let Some(Model::Inner(inner)) = model {
            let child = inner.child(block);
            model = inner.children[child].as_mut();
        }
        let Some(Model::Leaf(leaf)) = model else { unreachable!("block {block} is present") };
        leaf.subtract(block, mask);
        if leaf.used == 0 {
            self.emptied.push(block);
        }
    }
}

/// Adds `mask` to the entries of `block` below the model in `slot`, which is in memory at `at`.
fn insert(slot: &mut Option<Model>, at: Option<PhysAddr>, block: u64, mask: u8, trainer: &mut Trainer) -> Option<()> {
    match slot {
        Some(Model::Inner(inner)) => {
            let child = inner.child(block);
            let at = inner.place(child);
            return insert(&mut inner.children[child], Some(at), block, mask, trainer);
        }
        Some(Model::Leaf(leaf)) => {
            let (error, lines) = (leaf.error, leaf.len());
            if leaf.place(block, mask) || leaf.extend(block, trainer.memory) && leaf.place(block, mask) {
                if (leaf.error, leaf.len()) != (error, lines) {
                    trainer.log_model(at, ENTRY);
                }
                return Some(());
            }
        }
        None => {}
    }
    let mut blocks = Vec::new();
    if let Some(model) = slot {
        model.collect(&mut blocks);
    }
    blocks.insert(blocks.partition_point(|&(other, _)| other < block), (block, mask));
    trainer.replace(slot, &blocks, Some(block))?;
    trainer.log_model(at, MODEL);
    Some(())
}

/// Frees the leaf of `block` below `slot` if it is empty, and inner models that lead nowhere then.
fn prune(slot: &mut Option<Model>, at: Option<PhysAddr>, block: u64, trainer: &mut Trainer) {
    let is_empty = match slot {
        Some(Model::Inner(inner)) => {
            let child = inner.child(block);
            let place = inner.place(child);
            prune(&mut inner.children[child], Some(place), block, trainer);
            inner.children.iter().all(Option::is_none)
        }
        Some(Model::Leaf(leaf)) => leaf.used == 0,
        None => false,
    };
    if is_empty && let Some(model) = slot.take() {
        model.free(trainer.memory, &BTreeSet::new());
        trainer.log_model(at, MODEL);
    }
}

/// A learned index for each level.
#[derive(Clone, Debug)]
pub(super) struct Learned {
    numbers: Numbers,
    /// By level.
    indexes: Vec<Index>,
    /// Inner models made so far.
    made: u64,
}

impl Learned {
    pub fn new(layout: &Layout) -> Learned {
        let numbers = Numbers::new(layout);
        Learned { indexes: vec![Index::default(); numbers.levels()], numbers, made: 0 }
    }
}

impl Organization for Learned {
    fn bytes(&self) -> u64 {
        self.indexes.iter().filter_map(|index| index.root.as_ref()).map(Model::bytes).sum()
    }

    fn insert(&mut self, entries: Entries, memory: &mut dyn FrameSource, log: &mut Vec<TableTraffic>) -> Option<()> {
        let index = &mut self.indexes[entries.level];
        let mut trainer = Trainer { memory, log, made: &mut self.made };
        let mut added = Vec::new();
        for (block, mask) in entries.blocks() {
            if index.insert(block, mask, &mut trainer).is_none() {
                added.into_iter().for_each(|(block, mask)| index.subtract(block, mask));
                return None;
            }
            added.push((block, mask));
        }
        Some(())
    }

    fn remove(&mut self, entries: Entries, _: &mut Vec<TableTraffic>) {
        let index = &mut self.indexes[entries.level];
        entries.blocks().for_each(|(block, mask)| index.subtract(block, mask));
    }

    fn find(&self, level: usize, vpn: Vpn) -> Option<PhysAddr> {
        let number = self.numbers.of(level, vpn);
        let (line, present) = self.indexes[level].root.as_ref()?.find(number / BUCKET)?;
        (present >> (number % BUCKET) & 1 == 1).then(|| line + number % BUCKET * ENTRY)
    }

    fn walk(&self, vpn: Vpn, walker: &mut dyn Walker) -> bool {
        // Each search: what it reads, one after the other, and whether that is the entry.
        let mut searches: Vec<Vec<(PhysAddr, bool)>> = Vec::new();
        // Models that the cache lacked, and how many reads of its search each takes.
        let mut missed: Vec<(u64, usize)> = Vec::new();
        for (level, index) in self.indexes.iter().enumerate() {
            let Some(root) = &index.root else { continue };
            let number = self.numbers.of(level, vpn);
            let path = root.path(number / BUCKET);
            let mut reads = Vec::new();
            if let Some(lowest) = path.number
                && !walker.lookup(0, lowest)
            {
                missed.push((lowest, path.models.len()));
                reads.extend(path.models.iter().map(|&model| (model, false)));
            }
            if let Some(leaf) = path.leaf {
                let lines = leaf.search(number / BUCKET);
                reads
                    .extend(lines.map(|(line, present)| {
                        (line + number % BUCKET * ENTRY, present >> (number % BUCKET) & 1 == 1)
                    }));
            }
            searches.push(reads);
        }
        let mut steps = 0;
        loop {
            let group: Vec<_> = searches.iter().filter_map(|reads| reads.get(steps).copied()).collect();
            if group.is_empty() {
                break;
            }
            let at: Vec<_> = group.iter().map(|&(at, _)| at).collect();
            let found = group.iter().position(|&(_, found)| found);
            if !walker.read(&at, found) {
                return false;
            }
            steps += 1;
            if found.is_some() {
                break;
            }
        }
        let read = missed.into_iter().filter(|&(_, reads)| reads <= steps);
        read.for_each(|(number, _)| walker.insert(0, number));
        true
    }

    fn release(&mut self, memory: &mut dyn FrameSource) {
        for root in self.indexes.iter_mut().filter_map(|index| index.root.take()) {
            root.free(memory, &BTreeSet::new());
        }
    }

    fn check(&self) {
        for index in &self.indexes {
            let Some(root) = &index.root else { continue };
            let mut blocks = Vec::new();
            root.collect(&mut blocks);
            assert!(blocks.is_sorted_by(|one, other| one.0 < other.0), "leaves are not in the order of their blocks");
            for (block, present) in blocks {
                assert_eq!(root.find(block).map(|(_, found)| found), Some(present), "a search misses block {block}");
            }
            root.check();
        }
    }

    fn copied(&self) -> Box<dyn Organization> {
        Box::new(self.clone())
    }
}
