//! Steps: a program between two moments at which something else than its references happens.

use crate::{BlockId, BlockTable, Event, Kind, Ref};
use std::ops::Range;

/// Daemons get a chance to run whenever this many instructions have passed.
pub const TICK: u64 = 1 << 20;

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
    /// What happens before the references: which of the chunk's events.
    pub events: Range<usize>,
    /// Which of the chunk's references; none in an outline.
    pub refs: Range<usize>,
    /// Which of the chunk's fetched blocks; none in an outline.
    pub fetched: Range<usize>,
    /// Which of the chunk's entries.
    pub entries: Range<usize>,
    /// What the references add up to.
    pub counts: Counts,
}

/// Divides a program into steps, one piece of it after another. Where the pieces are cut leaves no trace in what
/// simulations see, except for cuts between steps, which mean nothing.
#[derive(Clone, Debug)]
pub struct Steps {
    /// Instructions of every block, in two bytes each: all that counting needs of them.
    lengths: Vec<u16>,
    instructions: u64,
    next_tick: u64,
}

impl Default for Steps {
    /// At the start of a program.
    fn default() -> Steps {
        Steps { lengths: Vec::new(), instructions: 0, next_tick: TICK }
    }
}

impl Steps {
    /// Learns the blocks of `blocks` that it did not have before.
    pub fn learn(&mut self, blocks: &BlockTable) {
        let known = self.lengths.len();
        self.lengths.extend(blocks.iter().skip(known).map(|b| b.instructions));
    }

    /// The steps of the next piece: `refs`, the blocks that its fetches fetch, which are known, and the events, each
    /// before the reference with that number. Their entries are for the caller to say.
    pub fn cut(&mut self, refs: &[Ref], mut fetched: &[BlockId], events: &[(u32, Event)]) -> Vec<Step> {
        let mut steps = Vec::new();
        let (mut from, mut past, mut tick) = (0, 0, false);
        let mut block = 0;
        while from < refs.len() || past < events.len() {
            let due = past + events[past..].partition_point(|(at, _)| *at as usize <= from);
            let until = events.get(due).map_or(refs.len(), |(at, _)| (*at as usize).min(refs.len()));
            let (counts, next_tick) = self.count(&refs[from..until], &mut fetched);
            let end = from + counts.references() as usize;
            let blocks = block..block + counts.fetches as usize;
            block = blocks.end;
            steps.push(Step { tick, events: past..due, refs: from..end, fetched: blocks, entries: 0..0, counts });
            (from, past, tick) = (end, due, next_tick);
        }
        steps
    }

    /// Counts `refs`, of which `fetched` begins with the blocks, up to the first fetch at which a tick is due. Takes
    /// their blocks off `fetched`; returns whether there was a tick.
    fn count(&mut self, refs: &[Ref], fetched: &mut &[BlockId]) -> (Counts, bool) {
        let mut kinds = count_kinds(refs);
        let mut blocks = kinds[0] as usize;
        let length = |id: &BlockId| u64::from(self.lengths[id.0 as usize]);
        let mut instructions: u64 = fetched[..blocks].iter().map(length).sum();
        let mut tick = false;
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
            tick = blocks < kinds[0] as usize;
            if tick {
                let fetches = refs.iter().enumerate().filter(|(_, r)| r.kind() == Kind::Fetch);
                let end = fetches.map(|(at, _)| at).nth(blocks).expect("there are more fetches than that");
                kinds = count_kinds(&refs[..end]);
                self.next_tick = (due / TICK + 1) * TICK;
            }
        }
        *fetched = &fetched[blocks..];
        self.instructions += instructions;
        (Counts { instructions, fetches: kinds[0], loads: kinds[1], stores: kinds[2] }, tick)
    }
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
        Event(Event),
        Ref(Ref),
    }

    fn items(chunks: Vec<Chunk>, blocks: &BlockTable) -> (Vec<Item>, Counts) {
        let mut cutter = Steps::default();
        cutter.learn(blocks);
        let (mut items, mut counts) = (Vec::new(), Counts::default());
        for chunk in chunks {
            for step in cutter.cut(&chunk.refs, &chunk.fetched, &chunk.events) {
                items.extend(step.tick.then_some(Item::Tick));
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
        let whole = items(vec![chunk(0, 300)], &blocks);
        assert_eq!(whole.1.instructions, 100 * 50000);
        assert_eq!(whole.0.iter().filter(|i| **i == Item::Tick).count(), 4);
        for cut in 1..299 {
            assert_eq!(items(vec![chunk(0, cut), chunk(cut, 300)], &blocks), whole, "cut at {cut}");
        }
    }
}
