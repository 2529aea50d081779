//! Where a wrong path joins the right path, in the naive core: [`reach_hardware::ooo`] with everything computed anew from
//! the whole of both paths.

use super::InstId;
use reach_hardware::ooo::{FOLLOWING, Inst, NO_SOURCE, NO_TARGET};
use std::collections::BTreeSet;

/// A block of the right path with the references of its instructions: their index, whether they store, and the address.
#[derive(Clone, Debug, Default)]
pub struct RightBlock {
    /// The block's number. `None` for the rest of a block that began before.
    pub block: Option<usize>,
    /// The references in order.
    pub references: Vec<(usize, bool, u64)>,
}

type Registers = BTreeSet<u8>;

fn without_markers(registers: impl IntoIterator<Item = u8>) -> Registers {
    registers.into_iter().filter(|register| ![NO_SOURCE, NO_TARGET, 4].contains(register)).collect()
}

/// A place on the right path and the registers that differ there.
type Place = (usize, Registers);

/// The right path beside a wrong path.
pub(super) struct Convergence {
    /// The blocks that a wrong path may join.
    blocks: Vec<RightBlock>,
    program: Vec<Vec<Inst>>,
    next: Place,
    left_at: Option<Place>,
    /// The references of the block that both execute, of which those in front are used up.
    shared: Option<Vec<(usize, bool, u64)>>,
}

impl Convergence {
    /// Places a wrong path beside `right`, of which it may join as many blocks as begin within `instructions`.
    pub fn new(right: &[RightBlock], program: Vec<Vec<Inst>>, instructions: usize) -> Convergence {
        let (mut known, mut blocks) = (0, Vec::new());
        let mut before = 0;
        for block in right {
            let fetch = usize::from(block.block.is_some());
            if known + fetch > FOLLOWING || block.block.is_some() && before >= instructions {
                break;
            }
            let references = block.references.iter().take(FOLLOWING - known - fetch).copied().collect();
            known += fetch + block.references.len();
            before += block.block.map_or(0, |number| program[number].len());
            blocks.push(RightBlock { references, ..*block });
        }
        Convergence { blocks, program, next: (0, Registers::new()), left_at: None, shared: None }
    }

    /// Continues in the block that the right path begins within, behind an instruction with a wrong result.
    pub fn stay_behind(&mut self, inst: &Inst) {
        self.next = (0, without_markers(inst.targets));
        self.shared = Some(Vec::new());
        if self.blocks.first().is_some_and(|first| first.block.is_none()) {
            self.shared = Some(self.blocks.remove(0).references);
        }
    }

    fn find(&self, block: usize, (from, differing): &Place, end: usize) -> Option<Place> {
        let at = (*from..end.min(self.blocks.len())).find(|&at| self.blocks[at].block == Some(block))?;
        let passed = self.blocks[*from..at].iter().filter_map(|passed| passed.block);
        let written = passed.flat_map(|number| self.program[number].iter().flat_map(|inst| inst.targets));
        Some((at, differing.union(&without_markers(written)).copied().collect()))
    }

    /// Enters a block of the wrong path.
    pub fn enter(&mut self, block: usize) {
        let ahead = self.find(block, &self.next, usize::MAX);
        let back = self.left_at.as_ref().and_then(|left| self.find(block, left, self.next.0));
        let joined = match (ahead, back) {
            (Some(ahead), Some(back)) => Some(if back.1.len() < ahead.1.len() { back } else { ahead }),
            (ahead, back) => ahead.or(back),
        };
        let Some((at, differing)) = joined else {
            self.shared = None;
            return;
        };
        if at < self.next.0 {
            self.left_at = None;
        } else if at > self.next.0 && self.left_at.as_ref().is_none_or(|left| self.next.1.len() < left.1.len()) {
            self.left_at = Some(self.next.clone());
        }
        self.shared = Some(self.blocks[at].references.clone());
        self.next = (at + 1, differing);
    }

    /// Returns the address of the next load or store of this instruction of the wrong path, if it is known.
    pub fn address(&mut self, id: InstId, is_store: bool) -> Option<u64> {
        let inst = &self.program[id.block][id.index];
        let shared = self.shared.as_mut()?;
        if !without_markers(inst.address).is_disjoint(&self.next.1) {
            return None;
        }
        while shared.first().is_some_and(|&(index, stores, _)| (index, stores) < (id.index, is_store)) {
            shared.remove(0);
        }
        let &(index, stores, at) = shared.first()?;
        ((index, stores) == (id.index, is_store)).then(|| {
            shared.remove(0);
            at
        })
    }

    /// Executes an instruction of the wrong path.
    pub fn execute(&mut self, inst: &Inst) {
        let written = without_markers(inst.targets);
        let read = without_markers(inst.address.into_iter().chain(inst.sources));
        let differs = self.shared.is_none() || !read.is_disjoint(&self.next.1);
        for register in &written {
            if differs {
                self.next.1.insert(*register)
            } else {
                self.next.1.remove(register)
            };
        }
        if let Some((_, differing)) = &mut self.left_at {
            differing.extend(written);
        }
    }
}
