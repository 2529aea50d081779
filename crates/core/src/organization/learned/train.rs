//! Training: finding the models for a set of blocks, and building them.

use super::model::{
    Block, FEWEST, Inner, Leaf, Linear, MODEL, MOST_CHILDREN, Model, SPARSEST, child, frame_bytes, written,
};
use crate::organization::TableTraffic;
use crate::organization::memory::log_move;
use crate::{FrameSource, PhysAddr};
use std::collections::BTreeSet;
use std::ops::Range;

/// A model has as many models below it as put this share of its blocks into leaves.
const IN_LEAVES: (usize, usize) = (7, 8);

/// A model that is not built yet.
enum Plan {
    /// The model, and the lines of its array.
    Leaf(Linear, usize),
    /// The model, and what is below: the blocks by index, and their model.
    Inner(Linear, Vec<(Range<usize>, Option<Plan>)>),
}

/// Returns the steepest line that gives no two of `blocks` the same number, with the number of lines that it takes and the
/// least distance between two blocks; `None` if the lines are too many for the blocks.
fn fit(blocks: &[Block]) -> Option<(Linear, usize, u64)> {
    let (&(first, _), &(last, _)) = (blocks.first()?, blocks.last()?);
    let gap = blocks.windows(2).map(|pair| pair[1].0 - pair[0].0).min().unwrap_or(1);
    let linear = Linear::new(first, 1, gap);
    let lines = linear.at(last)?.checked_add(1)?;
    (lines <= FEWEST.max(SPARSEST * blocks.len())).then_some((linear, lines, gap))
}

/// Divides `blocks` into `children` ranges of the same length.
fn divide(blocks: &[Block], children: usize) -> (Linear, Vec<Range<usize>>) {
    let (first, last) = (blocks[0].0, blocks[blocks.len() - 1].0);
    let linear = Linear::new(first, children as u64, last - first + 1);
    let mut start = 0;
    let parts = (0..children).map(|part| {
        let within = blocks[start..].partition_point(|&(block, _)| child(linear, children, block) <= part);
        start += within;
        start - within..start
    });
    (linear, parts.collect())
}

/// Finds the models for `blocks`, which are ascending and not empty. Leaves room before `new` if it is the first of its leaf,
/// which then grows downward, and otherwise behind the last.
fn plan(blocks: &[Block], new: Option<u64>) -> Plan {
    if let Some((linear, lines, gap)) = fit(blocks) {
        let all = lines.max(FEWEST).next_power_of_two();
        let downward = blocks.len() > 1 && Some(blocks[0].0) == new;
        // Less one, because the slope is rounded up.
        let before = if downward { (all - lines).saturating_sub(1) as u64 * gap } else { 0 };
        return Plan::Leaf(Linear { first: linear.first.saturating_sub(before), ..linear }, all);
    }
    let mut children = 2;
    loop {
        let (linear, parts) = divide(blocks, children);
        let in_leaves = parts.iter().filter(|part| fit(&blocks[(*part).clone()]).is_some());
        let in_leaves: usize = in_leaves.map(|part| part.len()).sum();
        if children == MOST_CHILDREN || in_leaves * IN_LEAVES.1 >= blocks.len() * IN_LEAVES.0 {
            let below = |part: Range<usize>| {
                let plan = (!part.is_empty()).then(|| plan(&blocks[part.clone()], new));
                (part, plan)
            };
            return Plan::Inner(linear, parts.into_iter().map(below).collect());
        }
        children *= 2;
    }
}

/// Builds models.
pub(super) struct Trainer<'a> {
    pub memory: &'a mut dyn FrameSource,
    pub log: &'a mut Vec<TableTraffic>,
    /// Inner models made so far.
    pub made: &'a mut u64,
}

impl Trainer<'_> {
    /// Trains models for `blocks`, puts them in the place of `slot`, which holds all of them but `new`, and frees what was there.
    /// Returns `None`, and then nothing has changed, when memory is exhausted.
    pub fn replace(&mut self, slot: &mut Option<Model>, blocks: &[Block], new: Option<u64>) -> Option<()> {
        let logged = self.log.len();
        let mut kept = BTreeSet::new();
        let Some(model) = self.build(plan(blocks, new), blocks, slot.as_ref(), &mut kept) else {
            self.log.truncate(logged);
            return None;
        };
        if let Some(old) = slot.replace(model) {
            old.free(self.memory, &kept);
        }
        Some(())
    }

    /// Logs that `bytes` of the model at `at` were written; `None` is the root, which is in a register.
    pub fn log_model(&mut self, at: Option<PhysAddr>, bytes: u64) {
        self.log.extend(at.map(|at| written(at, bytes)));
    }

    /// Builds `plan`. Leaves of `old` that would not change are kept, and their arrays noted in `kept`. Returns `None`, and
    /// then no memory was taken, when memory is exhausted.
    fn build(
        &mut self,
        plan: Plan,
        blocks: &[Block],
        old: Option<&Model>,
        kept: &mut BTreeSet<PhysAddr>,
    ) -> Option<Model> {
        match plan {
            Plan::Leaf(linear, lines) => self.leaf(linear, lines, blocks, old, kept).map(Model::Leaf),
            Plan::Inner(linear, below) => {
                let frame = self.memory.allocate_table(frame_bytes())?;
                let mut inner = Inner { id: *self.made, linear, frame, children: Vec::with_capacity(below.len()) };
                *self.made += 1;
                for (part, plan) in below {
                    let child = match plan.map(|plan| self.build(plan, &blocks[part], old, kept)) {
                        Some(None) => {
                            Model::Inner(inner).free(self.memory, kept);
                            return None;
                        }
                        built => built.flatten(),
                    };
                    if child.is_some() {
                        self.log.push(written(inner.place(inner.children.len()), MODEL));
                    }
                    inner.children.push(child);
                }
                Some(Model::Inner(inner))
            }
        }
    }

    fn leaf(
        &mut self,
        linear: Linear,
        lines: usize,
        blocks: &[Block],
        old: Option<&Model>,
        kept: &mut BTreeSet<PhysAddr>,
    ) -> Option<Leaf> {
        let same = |leaf: &&Leaf| {
            leaf.linear.slope == linear.slope
                && leaf.error == 0
                && leaf.len() <= 2 * lines
                && leaf.blocks().eq(blocks.iter().copied())
        };
        if let Some(leaf) = old.and_then(|old| old.leaf(blocks[0].0)).filter(same) {
            kept.insert(leaf.start());
            return Some(leaf.clone());
        }
        let mut leaf = Leaf::new(linear, lines, self.memory)?;
        for &(block, present) in blocks {
            let placed = leaf.place(block, present);
            debug_assert!(placed && leaf.error == 0, "block {block} misses the line of its model");
            let from = old.and_then(|old| old.find(block));
            if let (Some((from, _)), Some((to, _))) = (from, leaf.find(block)) {
                log_move(from, to, self.log);
            }
        }
        Some(leaf)
    }
}
