//! Steps: the units in which simulations take a program.
//!
//! A step is a run of references without anything between them, and what happens before it: events, a daemon tick, the
//! start of a scheduling slice.

use crate::{BlockId, BlockTable, Event, Kind, Ref};
use std::ops::Range;

/// The period of daemon ticks, in instructions of the program.
pub const TICK_INSTRUCTIONS: u64 = 1 << 20;

/// Numbers of instructions and references.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Instructions.
    pub instructions: u64,
    /// Block fetches.
    pub fetches: u64,
    /// Loads.
    pub loads: u64,
    /// Stores.
    pub stores: u64,
}

impl Counts {
    /// Returns the number of references of all kinds.
    pub fn references(&self) -> u64 {
        self.fetches + self.loads + self.stores
    }

    /// Returns what was counted after `earlier`, an older copy of these counts.
    pub fn since(&self, earlier: &Counts) -> Counts {
        Counts {
            instructions: self.instructions - earlier.instructions,
            fetches: self.fetches - earlier.fetches,
            loads: self.loads - earlier.loads,
            stores: self.stores - earlier.stores,
        }
    }

    /// Adds the counts of `other`.
    pub fn absorb(&mut self, other: &Counts) {
        self.instructions += other.instructions;
        self.fetches += other.fetches;
        self.loads += other.loads;
        self.stores += other.stores;
    }

    /// Returns these counts with `change` applied to each.
    pub fn map(&self, change: impl Fn(u64) -> u64) -> Counts {
        Counts {
            instructions: change(self.instructions),
            fetches: change(self.fetches),
            loads: change(self.loads),
            stores: change(self.stores),
        }
    }
}

/// A run of references, and what happens before it. Ranges index the vectors of one [`crate::Chunk`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// A daemon tick precedes the step: system daemons may run.
    pub tick: bool,
    /// A slice begins: with several hardware threads, the scheduler may run another one.
    pub slice: bool,
    /// The events before the references.
    pub events: Range<usize>,
    /// The references; empty in an outline.
    pub refs: Range<usize>,
    /// The blocks of the fetches; empty in an outline.
    pub fetched: Range<usize>,
    /// The page references.
    pub page_refs: Range<usize>,
    /// The last uses of lines; empty where the caches must see all references.
    pub last_lines: Range<usize>,
    /// The first and last uses of pages; empty where the TLBs must see all.
    pub last_pages: Range<usize>,
    /// Instructions and references of the step.
    pub counts: Counts,
}

/// Divides the consecutive pieces of a program into steps.
///
/// Where the pieces are cut has no effect except an additional step boundary, at which nothing happens.
#[derive(Clone, Debug)]
pub struct StepCutter {
    /// Number of instructions of every block: all that counting needs, in two bytes a block.
    lengths: Vec<u16>,
    instructions: u64,
    next_tick: u64,
    /// Instructions of a slice; `None` without slices.
    slice: Option<u64>,
    next_slice: u64,
}

impl Default for StepCutter {
    /// Makes a cutter for a program without slices, at its start.
    fn default() -> StepCutter {
        StepCutter {
            lengths: Vec::new(),
            instructions: 0,
            next_tick: TICK_INSTRUCTIONS,
            slice: None,
            next_slice: u64::MAX,
        }
    }
}

impl StepCutter {
    /// Makes a cutter for a program with slices, at its start. A slice begins at the first fetch at or after each
    /// multiple of `instructions` (> 0).
    pub fn sliced(instructions: u64) -> StepCutter {
        StepCutter { slice: Some(instructions), next_slice: instructions, ..StepCutter::default() }
    }

    /// Adds the blocks of `blocks` that are new since the last call. Call it before [`StepCutter::cut`].
    pub fn learn(&mut self, blocks: &BlockTable) {
        let known = self.lengths.len();
        self.lengths.extend(blocks.iter().skip(known).map(|b| b.instructions));
    }

    /// Returns the steps of the program's next piece: its references, the blocks of their fetches, and its events, each
    /// with the index of the reference that follows it. [`Step::page_refs`] and the last uses are left empty for the
    /// caller to fill.
    ///
    /// # Panics
    /// When a block is unknown, or `fetched` is shorter than the number of fetches.
    pub fn cut(&mut self, refs: &[Ref], mut fetched: &[BlockId], events: &[(u32, Event)]) -> Vec<Step> {
        let mut steps = Vec::new();
        let (mut next_ref, mut next_event, mut due) = (0, 0, Due::default());
        let mut next_block = 0;
        while next_ref < refs.len() || next_event < events.len() {
            let events_end = next_event + events[next_event..].partition_point(|(at, _)| *at as usize <= next_ref);
            let limit = events.get(events_end).map_or(refs.len(), |(at, _)| (*at as usize).min(refs.len()));
            let (counts, due_next) = self.count(&refs[next_ref..limit], &mut fetched);
            let refs_end = next_ref + counts.references() as usize;
            let blocks_end = next_block + counts.fetches as usize;
            steps.push(Step {
                tick: due.tick,
                slice: due.slice,
                events: next_event..events_end,
                refs: next_ref..refs_end,
                fetched: next_block..blocks_end,
                page_refs: 0..0,
                last_lines: 0..0,
                last_pages: 0..0,
                counts,
            });
            (next_ref, next_event, next_block, due) = (refs_end, events_end, blocks_end, due_next);
        }
        steps
    }

    /// Counts `refs` up to the first fetch at which a tick or slice is due, and returns which is. `fetched` begins with
    /// their blocks, and loses those that were counted.
    fn count(&mut self, refs: &[Ref], fetched: &mut &[BlockId]) -> (Counts, Due) {
        if self.slice.is_some() {
            return self.count_one_by_one(refs, fetched);
        }
        let mut kinds = count_kinds(refs);
        let mut blocks = kinds[0] as usize;
        let length = |id: &BlockId| u64::from(self.lengths[id.0 as usize]);
        let mut instructions: u64 = fetched[..blocks].iter().map(length).sum();
        let mut due = Due::default();
        if self.instructions + instructions >= self.next_tick {
            let mut now = self.instructions;
            blocks = fetched[..blocks]
                .iter()
                .take_while(|id| {
                    let before = now < self.next_tick;
                    now += if before { length(id) } else { 0 };
                    before
                })
                .count();
            instructions = now - self.instructions;
            if blocks < kinds[0] as usize {
                let fetches = refs.iter().enumerate().filter(|(_, r)| r.kind() == Kind::Fetch);
                let end = fetches.map(|(at, _)| at).nth(blocks).expect("there are more fetches than that");
                kinds = count_kinds(&refs[..end]);
                due.tick = true;
                self.next_tick = (now / TICK_INSTRUCTIONS + 1) * TICK_INSTRUCTIONS;
            }
        }
        *fetched = &fetched[blocks..];
        self.instructions += instructions;
        (Counts { instructions, fetches: kinds[0], loads: kinds[1], stores: kinds[2] }, due)
    }

    /// Does the same as [`StepCutter::count`], reference by reference: slices are too short for its shortcuts to pay.
    fn count_one_by_one(&mut self, refs: &[Ref], fetched: &mut &[BlockId]) -> (Counts, Due) {
        let mut counts = Counts::default();
        for r in refs {
            match r.kind() {
                Kind::Fetch => {
                    let now = self.instructions + counts.instructions;
                    let due = Due { tick: now >= self.next_tick, slice: now >= self.next_slice };
                    if due.tick || due.slice {
                        if due.tick {
                            self.next_tick = (now / TICK_INSTRUCTIONS + 1) * TICK_INSTRUCTIONS;
                        }
                        if let Some(slice) = self.slice.filter(|_| due.slice) {
                            self.next_slice = (now / slice + 1) * slice;
                        }
                        self.instructions = now;
                        return (counts, due);
                    }
                    let (block, rest) = fetched.split_first().expect("a block for each fetch");
                    *fetched = rest;
                    counts.instructions += u64::from(self.lengths[block.0 as usize]);
                    counts.fetches += 1;
                }
                Kind::Load => counts.loads += 1,
                Kind::Store => counts.stores += 1,
            }
        }
        self.instructions += counts.instructions;
        (counts, Due::default())
    }
}

/// Which of tick and slice precede the next step.
#[derive(Clone, Copy, Debug, Default)]
struct Due {
    tick: bool,
    slice: bool,
}

/// Returns the numbers of fetches, loads and stores.
fn count_kinds(refs: &[Ref]) -> [u64; 3] {
    let (mut fetches, mut loads) = (0, 0);
    for r in refs {
        fetches += u64::from(r.kind() == Kind::Fetch);
        loads += u64::from(r.kind() == Kind::Load);
    }
    [fetches, loads, refs.len() as u64 - fetches - loads]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Asid, Block, Chunk, ThreadId, VirtAddr};

    /// What a simulation sees, without step boundaries.
    #[derive(Debug, PartialEq)]
    enum Item {
        Tick,
        Slice,
        Event(Event),
        Ref(Ref),
    }

    fn items(chunks: Vec<Chunk>, blocks: &BlockTable, slice: Option<u64>) -> (Vec<Item>, Counts) {
        let mut cutter = slice.map_or_else(StepCutter::default, StepCutter::sliced);
        cutter.learn(blocks);
        let (mut items, mut counts) = (Vec::new(), Counts::default());
        for chunk in chunks {
            for step in cutter.cut(&chunk.refs, &chunk.fetched, &chunk.events) {
                items.extend(step.tick.then_some(Item::Tick));
                items.extend(step.slice.then_some(Item::Slice));
                items.extend(chunk.events[step.events].iter().map(|(_, event)| Item::Event(event.clone())));
                items.extend(chunk.refs[step.refs].iter().copied().map(Item::Ref));
                counts.absorb(&step.counts);
            }
        }
        (items, counts)
    }

    #[test]
    fn cutting_a_program_anywhere_changes_no_step_content() {
        let mut blocks = BlockTable::default();
        let pc = VirtAddr(0x400000);
        let id = blocks.push(Block { pc, len: 4000, instructions: 50000, bytes: Box::default() });
        let chunk = |from: u32, to: u32| {
            let mut chunk = Chunk::default();
            for i in from..to {
                if i % 7 == 0 {
                    let (asid, thread) = (Asid(i), ThreadId(i));
                    chunk.push_event(Event::Switch { asid, thread });
                }
                if i % 3 == 0 {
                    chunk.push_fetch(id, blocks.get(id))
                } else {
                    chunk.refs.push(Ref::load(VirtAddr(u64::from(i))))
                }
            }
            chunk
        };
        for (slice, slices) in [(None, 0), (Some(30_000), 99), (Some(120_000), 41)] {
            let whole = items(vec![chunk(0, 300)], &blocks, slice);
            assert_eq!(whole.1.instructions, 100 * 50000);
            assert_eq!(whole.0.iter().filter(|i| **i == Item::Tick).count(), 4);
            assert_eq!(whole.0.iter().filter(|i| **i == Item::Slice).count(), slices);
            for cut in 1..299 {
                let parts = items(vec![chunk(0, cut), chunk(cut, 300)], &blocks, slice);
                assert!(parts == whole, "cut at {cut}");
            }
        }
    }
}
