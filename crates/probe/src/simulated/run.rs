//! A program that visits the places of a pattern, while it is simulated.

use crate::bench::BenchError;
use crate::pattern::{Access, Pattern, jump};
use reach_core::{
    Asid, Backing, Block, BlockId, BlockTable, Chunk, Event, FileId, Kind, Ledger, Map, Mark, Protection, Ref, Role,
    ThreadId, VirtAddr,
};
use reach_lab::{Preparer, Simulation, Timing};
use std::sync::Arc;

const TEXT: u64 = 0x40_0000;
/// The word of the stack that holds return addresses.
const STACK: u64 = 0x7000_0000_0000;
/// The area: its number of pages has no low bits, so that the page numbers of a pattern decide about sets.
const AREA: u64 = 0x2000_0000_0000;
pub(super) const AREA_BYTES: u64 = 1 << 41;
const CHUNK_REFS: usize = 60_000;

/// What a visit executes.
enum Code {
    /// A store, and one load for each chain.
    Loads { store: BlockId, loads: BlockId },
    /// For each place of the chain, the call and what it goes to.
    Fetches(Vec<[BlockId; 2]>),
}

/// A program that is being simulated.
pub(super) struct Run<'p> {
    simulation: Simulation,
    pattern: &'p Pattern,
    preparer: Preparer,
    blocks: BlockTable,
    code: Code,
    chunk: Chunk,
}

impl Run<'_> {
    /// Starts the program for `pattern` on a new simulation.
    pub fn new(simulation: Simulation, pattern: &Pattern) -> Run<'_> {
        let mut blocks = BlockTable::default();
        let code = match pattern.access {
            Access::Load => loads(&mut blocks, pattern.chains.len()),
            Access::Fetch => Code::Fetches(fetches(&mut blocks, &pattern.chains[0])),
        };
        let mut chunk = Chunk::default();
        for event in start(pattern.access) {
            chunk.push_event(event);
        }
        Run { simulation, pattern, preparer: Preparer::new(Timing::Ooo), blocks, code, chunk }
    }

    pub fn mark(&mut self, mark: Mark) {
        self.chunk.push_event(Event::Mark(mark));
    }

    /// Visits every place once, so that its page is there: by a store, or by the fetch.
    pub fn touch(&mut self) -> Result<(), BenchError> {
        let Code::Loads { store, .. } = self.code else { return self.lap() };
        for &offset in self.pattern.chains.iter().flatten() {
            self.execute(store, [(Kind::Store, AREA + offset, 0)])?;
        }
        Ok(())
    }

    /// Visits every place once, in the order of the chains.
    pub fn lap(&mut self) -> Result<(), BenchError> {
        let pattern = self.pattern;
        for step in 0..pattern.steps() {
            match &self.code {
                &Code::Loads { loads, .. } => {
                    let places = pattern.chains.iter().map(|chain| AREA + chain[step]);
                    self.execute(loads, places.zip(0..).map(|(place, index)| (Kind::Load, place, index)))?;
                }
                Code::Fetches(places) => {
                    let [call, to] = places[step];
                    self.execute(call, [(Kind::Store, STACK, 0)])?;
                    // The constant is the first instruction.
                    self.execute(to, [(Kind::Store, STACK, 1), (Kind::Load, STACK, 2)])?;
                }
            }
        }
        Ok(())
    }

    /// Executes a block with these references, each with the number of its instruction.
    fn execute(
        &mut self,
        block: BlockId,
        references: impl IntoIterator<Item = (Kind, u64, u16)>,
    ) -> Result<(), BenchError> {
        self.chunk.push_fetch(block, self.blocks.get(block));
        let data = |(kind, place, index)| Ref::data(kind, VirtAddr(place), 3, index);
        self.chunk.refs.extend(references.into_iter().map(data));
        if self.chunk.refs.len() >= CHUNK_REFS { self.take() } else { Ok(()) }
    }

    /// Simulates what was gathered.
    fn take(&mut self) -> Result<(), BenchError> {
        let batch = self.preparer.prepare(std::mem::take(&mut self.chunk), &self.blocks);
        self.simulation.take(&Arc::new(batch)).map_err(|error| BenchError::Failed(error.to_string()))
    }

    /// Ends the program, and returns its measured cycles.
    pub fn finish(mut self) -> Result<Ledger, BenchError> {
        self.take()?;
        let sample = self.simulation.finish().sample;
        let interval = sample.as_ref().and_then(|sample| sample.intervals.first());
        let interval = interval.ok_or_else(|| BenchError::Failed("nothing was measured".into()))?;
        Ok(interval.tally.ledger.clone())
    }
}

/// Returns what the program begins with: its code, and the area with the rights that `access` needs.
fn start(access: Access) -> Vec<Event> {
    let file = FileId(0);
    let image = Map {
        protection: Protection::READ_EXECUTE,
        backing: Backing::File { file, offset: 0 },
        role: Role::Image,
        ..Map::anonymous(VirtAddr(TEXT), 4096)
    };
    let area = Map { no_reserve: true, ..Map::anonymous(VirtAddr(AREA), AREA_BYTES) };
    let area = match access {
        Access::Load => area,
        Access::Fetch => Map { protection: Protection::READ_EXECUTE, ..area },
    };
    vec![
        Event::Switch { asid: Asid(0), thread: ThreadId(0) },
        Event::File { file, path: "probe".into(), len: 4096, in_memory: false },
        Event::Map(image),
        Event::Map(Map::anonymous(VirtAddr(STACK), 4096)),
        Event::Map(area),
    ]
}

fn push(blocks: &mut BlockTable, pc: u64, bytes: Vec<u8>, instructions: u16) -> BlockId {
    blocks.push(Block { pc: VirtAddr(pc), len: bytes.len() as u16, instructions, bytes: bytes.into() })
}

/// Adds the blocks of loads: `mov [rax], rax`, and one load for each chain, both with a jump back to their start.
fn loads(blocks: &mut BlockTable, chains: usize) -> Code {
    let again = |mut bytes: Vec<u8>| {
        bytes.extend([0xeb, (-(bytes.len() as i8) - 2) as u8]);
        bytes
    };
    let store = push(blocks, TEXT, again(vec![0x48, 0x89, 0x00]), 2);
    let bytes = (0..chains as u8).flat_map(follow).collect();
    Code::Loads { store, loads: push(blocks, TEXT + 64, again(bytes), chains as u16 + 1) }
}

/// Adds the blocks of each place of a chain of fetches.
fn fetches(blocks: &mut BlockTable, chain: &[u64]) -> Vec<[BlockId; 2]> {
    let next = chain.iter().cycle().skip(1);
    let place = |(offset, next): (&u64, &u64)| {
        let call = push(blocks, AREA + offset, jump::call(), jump::CALL_INSTRUCTIONS);
        let called = AREA + offset + jump::CALLED;
        [call, push(blocks, called, jump::to(AREA + next), jump::TO_INSTRUCTIONS)]
    };
    chain.iter().zip(next).map(place).collect()
}

/// Returns the machine code of `mov r, [r]` for register `r` below 16.
fn follow(r: u8) -> Vec<u8> {
    let (rex, both) = (if r < 8 { 0x48 } else { 0x4d }, (r & 7) << 3 | r & 7);
    match r & 7 {
        4 => vec![rex, 0x8b, both, 0x24], // A base of this number needs a scale and index byte.
        5 => vec![rex, 0x8b, both | 0x40, 0], // A base of this number needs a displacement.
        _ => vec![rex, 0x8b, both],
    }
}
