//! StepCutter: a program between two moments at which something else than its references happens.

use crate::{BlockId, BlockTable, Event, Kind, Ref};
use std::ops::Range;

/// Daemons get a chance to run whenever this many instructions have passed.
pub const TICK_INSTRUCTIONS: u64 = 1 << 20;

/// Instructions and references.
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
    /// All references.
    pub fn references(&self) -> u64 {
        self.fetches + self.loads + self.stores
    }

    /// What was counted since `earlier`.
    pub fn since(&self, earlier: &Counts) -> Counts {
        Counts {
            instructions: self.instructions - earlier.instructions,
            fetches: self.fetches - earlier.fetches,
            loads: self.loads - earlier.loads,
            stores: self.stores - earlier.stores,
        }
    }

    /// Adds `other`.
    pub fn absorb(&mut self, other: &Counts) {
        self.instructions += other.instructions;
        self.fetches += other.fetches;
        self.loads += other.loads;
        self.stores += other.stores;
    }
}

/// Events, then references with none between them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// The daemons' chance comes first.
    pub tick: bool,
    /// A slice begins: where there are several hardware threads, another may be due.
    pub slice: bool,
    /// What happens before the references: which of the chunk's events.
    pub events: Range<usize>,
    /// Which of the chunk's references; none in an outline.
    pub refs: Range<usize>,
    /// Which of the chunk's fetched blocks; none in an outline.
    pub fetched: Range<usize>,
    /// Which of the chunk's entries.
    pub page_refs: Range<usize>,
    /// What the references add up to.
    pub counts: Counts,
}

/// Divides a program into steps, one piece of it after another. Where the pieces are cut leaves no trace in what
/// simulations see, except for cuts between steps, which mean nothing.
#[derive(Clone, Debug)]
pub struct StepCutter {
    /// Instructions of every block, in two bytes each: all that counting needs of them.
    lengths: Vec<u16>,
    instructions: u64,
    next_tick: u64,
    /// Instructions of a slice, where there are slices.
    slice: Option<u64>,
    next_slice: u64,
}

impl Default for StepCutter {
    /// At the start of a program.
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
    /// At the start of a program that is cut into slices of `instructions` (> 0) too, at the first fetch behind each
    /// multiple of it.
    pub fn sliced(instructions: u64) -> StepCutter {
        StepCutter { slice: Some(instructions), next_slice: instructions, ..StepCutter::default() }
    }

    /// Learns the blocks of `blocks` that it did not have before.
    pub fn learn(&mut self, blocks: &BlockTable) {
        let known = self.lengths.len();
        self.lengths.extend(blocks.iter().skip(known).map(|b| b.instructions));
    }

    /// The steps of the next piece: `refs`, the blocks that its fetches fetch, which are known, and the events, each
    /// before the reference with that number. Their entries are for the caller to say.
    pub fn cut(&mut self, refs: &[Ref], mut fetched: &[BlockId], events: &[(u32, Event)]) -> Vec<Step> {
        let mut steps = Vec::new();
        let (mut from, mut past, mut due_now) = (0, 0, Due::default());
        let mut block = 0;
        while from < refs.len() || past < events.len() {
            let due = past + events[past..].partition_point(|(at, _)| *at as usize <= from);
            let until = events.get(due).map_or(refs.len(), |(at, _)| (*at as usize).min(refs.len()));
            let (counts, due_next) = self.count(&refs[from..until], &mut fetched);
            let end = from + counts.references() as usize;
            let blocks = block..block + counts.fetches as usize;
            block = blocks.end;
            let Due { tick, slice } = due_now;
            let (events, refs) = (past..due, from..end);
            steps.push(Step { tick, slice, events, refs, fetched: blocks, page_refs: 0..0, counts });
            (from, past, due_now) = (end, due, due_next);
        }
        steps
    }

    /// Counts `refs`, of which `fetched` begins with the blocks, up to the first fetch at which something is due. Takes
    /// their blocks off `fetched`; returns what is.
    fn count(&mut self, refs: &[Ref], fetched: &mut &[BlockId]) -> (Counts, Due) {
        if self.slice.is_some() {
            return self.count_one_by_one(refs, fetched);
        }
        let mut kinds = count_kinds(refs);
        let mut blocks = kinds[0] as usize;
        let length = |id: &BlockId| u64::from(self.lengths[id.0 as usize]);
        let mut instructions: u64 = fetched[..blocks].iter().map(length).sum();
        let mut found = Due::default();
        if self.instructions + instructions >= self.next_tick {
            let mut due = self.instructions;
            blocks = fetched[..blocks]
                .iter()
                .take_while(|id| {
                    let before = due < self.next_tick;
                    due += if before { length(id) } else { 0 };
                    before
                })
                .count();
            instructions = due - self.instructions;
            if blocks < kinds[0] as usize {
                let fetches = refs.iter().enumerate().filter(|(_, r)| r.kind() == Kind::Fetch);
                let end = fetches.map(|(at, _)| at).nth(blocks).expect("there are more fetches than that");
                kinds = count_kinds(&refs[..end]);
                found.tick = true;
                self.next_tick = (due / TICK_INSTRUCTIONS + 1) * TICK_INSTRUCTIONS;
            }
        }
        *fetched = &fetched[blocks..];
        self.instructions += instructions;
        (Counts { instructions, fetches: kinds[0], loads: kinds[1], stores: kinds[2] }, found)
    }
}

impl StepCutter {
    /// [`StepCutter::count`] where something is due after few references.
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

/// What comes before the next step.
#[derive(Clone, Copy, Debug, Default)]
struct Due {
    tick: bool,
    slice: bool,
}

/// How many fetches, loads and stores.
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

    /// The stream that a simulation sees: cuts between steps left out.
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
    fn cuts_leave_no_trace() {
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
