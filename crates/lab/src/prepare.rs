//! Decode once: what a program gives becomes steps that any number of simulations read at the same time.

use reach_core::{BlockId, BlockTable, Chunk, Event, Kind, Ref};
use reach_hardware::Segment;

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
#[derive(Clone, Debug, Default)]
pub struct Step {
    /// The daemons' chance comes first.
    pub tick: bool,
    /// What happens before the references.
    pub events: Vec<Event>,
    /// The references, with and without runs folded.
    pub segment: Segment,
    /// What they add up to.
    pub counts: Counts,
}

/// Turns chunks into steps. Where chunks are cut leaves no trace in what simulations see, except for cuts between
/// segments, which mean nothing.
#[derive(Debug)]
pub struct Preparer {
    /// Length and instructions of every block, in four bytes each: all that this loop needs of them.
    shapes: Vec<(u16, u16)>,
    instructions: u64,
    next_tick: u64,
}

impl Default for Preparer {
    fn default() -> Preparer {
        Preparer { shapes: Vec::new(), instructions: 0, next_tick: TICK }
    }
}

impl Preparer {
    /// Takes the contents of `chunk` and appends its steps to `steps`. `blocks` knows every block that it names.
    pub fn prepare(&mut self, chunk: &mut Chunk, blocks: &BlockTable, steps: &mut Vec<Step>) {
        let known = self.shapes.len();
        self.shapes.extend(blocks.iter().skip(known).map(|b| (b.len, b.instructions)));
        let mut events = chunk.events.drain(..).peekable();
        let mut fetched = chunk.fetched.iter();
        let refs = &chunk.refs;
        let mut from = 0;
        let mut tick = false;
        while from < refs.len() || events.peek().is_some() {
            let mut step = Step { tick, ..Step::default() };
            while let Some((_, event)) = events.next_if(|(at, _)| *at as usize <= from) {
                step.events.push(event);
            }
            let until = events.peek().map_or(refs.len(), |(at, _)| (*at as usize).min(refs.len()));
            let until = until.min(from + Segment::MAX);
            tick = self.take(&refs[from..until], &mut fetched, &mut step);
            from += step.segment.refs.len();
            step.segment.fold();
            steps.push(step);
        }
        drop(events);
        chunk.clear();
    }

    /// Moves references into `step` up to the first fetch at which a tick is due; returns whether there was one.
    fn take<'a>(&mut self, refs: &[Ref], fetched: &mut impl Iterator<Item = &'a BlockId>, step: &mut Step) -> bool {
        let out = &mut step.segment.refs;
        out.reserve_exact(refs.len());
        let counts = &mut step.counts;
        let mut tick = false;
        for r in refs {
            let mut r = *r;
            match r.kind() {
                Kind::Fetch => {
                    if self.instructions >= self.next_tick {
                        self.next_tick = (self.instructions / TICK + 1) * TICK;
                        tick = true;
                        break;
                    }
                    let block = fetched.next().expect("a chunk lists a block for every fetch");
                    let (len, instructions) = self.shapes[block.0 as usize];
                    r = r.with_len(len);
                    self.instructions += u64::from(instructions);
                    counts.instructions += u64::from(instructions);
                    counts.fetches += 1;
                }
                Kind::Load => counts.loads += 1,
                Kind::Store => counts.stores += 1,
            }
            out.push(r);
        }
        tick
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reach_core::{Asid, Block, Ref, ThreadId, VirtAddr};

    /// The stream that a simulation sees: cuts between segments left out.
    #[derive(Debug, PartialEq)]
    enum Item {
        Tick,
        Event(Event),
        Ref(Ref),
    }

    fn items(chunks: Vec<Chunk>, blocks: &BlockTable) -> (Vec<Item>, Counts) {
        let (mut preparer, mut steps) = (Preparer::default(), Vec::new());
        for mut chunk in chunks {
            preparer.prepare(&mut chunk, blocks, &mut steps);
        }
        let (mut items, mut counts) = (Vec::new(), Counts::default());
        for step in steps {
            items.extend(step.tick.then_some(Item::Tick));
            items.extend(step.events.into_iter().map(Item::Event));
            items.extend(step.segment.refs.into_iter().map(Item::Ref));
            counts.absorb(&step.counts);
        }
        (items, counts)
    }

    #[test]
    fn cuts_leave_no_trace() {
        let mut blocks = BlockTable::default();
        let (pc, len) = (VirtAddr(0x400000), 60000);
        let id = blocks.push(Block { pc, len, instructions: 50000, bytes: Box::default() });
        let chunk = |from: u32, to: u32| {
            let mut chunk = Chunk::default();
            for i in from..to {
                if i % 7 == 0 {
                    let (asid, thread) = (Asid(i), ThreadId(i));
                    chunk.push_event(Event::Switch { asid, thread });
                }
                if i % 3 == 0 { chunk.push_fetch(id, pc) } else { chunk.refs.push(Ref::load(VirtAddr(u64::from(i)))) }
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
