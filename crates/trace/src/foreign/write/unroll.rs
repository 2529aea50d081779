//! Divides a program into the instructions that it executed, one after the other.

use super::instructions::{Instruction, decode, divide};
use reach_core::{Asid, BlockId, BlockTable, Chunk, Event, Kind, Ref, ThreadId};
use std::collections::HashMap;
use std::io;

/// The most accesses that wait for the end of their block. Repeated string instructions have millions.
const MAX_PENDING: usize = 1 << 12;

/// An instruction that was executed.
pub struct Executed<'a> {
    /// The instruction; `None` for accesses before the first one.
    pub instruction: Option<&'a Instruction>,
    /// Its code; empty where that is unknown.
    pub code: &'a [u8],
    /// Its accesses, in order.
    pub accesses: &'a [Ref],
    /// The address of the instruction that the thread executed next.
    pub next: u64,
    /// Whether the instruction came before, and this is the rest of its accesses.
    pub again: bool,
}

/// What takes the instructions.
pub trait Sink {
    /// What follows is of this thread.
    fn thread(&mut self, asid: Asid, thread: ThreadId) -> io::Result<()>;
    /// The last instruction called the system, by this number.
    fn system_call(&mut self, number: u32) -> io::Result<()>;
    /// An instruction was executed.
    fn instruction(&mut self, executed: &Executed) -> io::Result<()>;
}

/// Extends an address of 48 bits by its sign, as processors do.
pub fn signed(addr: u64) -> u64 {
    ((addr << 16) as i64 >> 16) as u64
}

/// Where threads go on after their turns, which a first pass over a program finds: the instruction that follows a branch at the end
/// of a turn comes much later.
#[derive(Default)]
pub struct Resumptions {
    /// The address at which the thread goes on, for the end of each turn; `None` where it does not.
    places: Vec<Option<u64>>,
    /// The last turn of each thread that has not gone on yet.
    waiting: HashMap<ThreadId, usize>,
    present: Option<ThreadId>,
}

impl Resumptions {
    /// Takes the next chunk of the program.
    pub fn add(&mut self, chunk: &Chunk) {
        let mut fetches = chunk.refs.iter().enumerate().filter(|(_, r)| r.kind() == Kind::Fetch).peekable();
        let switches = chunk.events.iter().filter_map(|(at, event)| match event {
            Event::Switch { thread, .. } => Some((*at as usize, Some(*thread))),
            _ => None,
        });
        for (at, thread) in switches.chain([(usize::MAX, None)]) {
            if let Some((_, fetch)) = fetches.next_if(|(place, _)| *place < at) {
                let turn = self.present.and_then(|present| self.waiting.remove(&present));
                if let Some(turn) = turn {
                    self.places[turn] = Some(fetch.addr().0);
                }
                while fetches.next_if(|(place, _)| *place < at).is_some() {}
            }
            let Some(thread) = thread else { break };
            if let Some(present) = self.present {
                // A turn without a fetch continues the one before.
                self.waiting.entry(present).or_insert(self.places.len());
            }
            self.places.push(None);
            self.present = Some(thread);
        }
    }

    /// Returns the address at which the thread goes on after a turn; `None` where it does not.
    pub fn place(&self, turn: usize) -> Option<u64> {
        self.places.get(turn).copied().flatten()
    }
}

/// Divides chunks into instructions.
pub struct Unroller {
    resumptions: Resumptions,
    /// Ends of turns so far.
    turns: usize,
    /// The instructions of the blocks so far, by the number of the block.
    blocks: Vec<Option<Box<[Instruction]>>>,
    /// The present block; `None` before the first.
    present: Option<BlockId>,
    /// The accesses of the present block.
    accesses: Vec<Ref>,
    /// Whether all instructions of the present block were given, because its accesses are so many.
    given: bool,
}

impl Unroller {
    /// Returns an unroller of the program in which threads go on as `resumptions` says.
    pub fn new(resumptions: Resumptions) -> Unroller {
        let (blocks, accesses) = (Vec::new(), Vec::new());
        Unroller { resumptions, turns: 0, blocks, present: None, accesses, given: false }
    }

    /// Gives the instructions of `chunk` to `sink`, but for the last block, whose successor is not known.
    pub fn chunk(&mut self, chunk: &Chunk, table: &BlockTable, sink: &mut dyn Sink) -> io::Result<()> {
        let mut events = chunk.events.iter().peekable();
        let mut fetched = chunk.fetched.iter();
        for at in 0..=chunk.refs.len() {
            while let Some((_, event)) = events.next_if(|(before, _)| *before as usize == at) {
                match event {
                    Event::Switch { asid, thread } => {
                        self.give(self.resumptions.place(self.turns), table, sink)?;
                        self.turns += 1;
                        sink.thread(*asid, *thread)?;
                    }
                    Event::SystemCall(number) => {
                        self.give(None, table, sink)?;
                        sink.system_call(*number)?;
                    }
                    _ => {}
                }
            }
            let Some(&reference) = chunk.refs.get(at) else { break };
            match (reference.kind(), fetched.as_slice()) {
                (Kind::Fetch, [id, rest @ ..]) => {
                    self.give(Some(table.get(*id).pc.0), table, sink)?;
                    (self.present, self.given) = (Some(*id), false);
                    fetched = rest.iter();
                }
                (Kind::Fetch, []) => {}
                _ => {
                    self.accesses.push(reference);
                    if self.accesses.len() > MAX_PENDING {
                        self.give(None, table, sink)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Gives the rest of the last block.
    pub fn end(&mut self, table: &BlockTable, sink: &mut dyn Sink) -> io::Result<()> {
        self.give(None, table, sink)
    }

    /// Gives what was not given of the present block. `next` is the address of the next one, if that is known.
    fn give(&mut self, next: Option<u64>, table: &BlockTable, sink: &mut dyn Sink) -> io::Result<()> {
        let Unroller { blocks, present, accesses, given, .. } = self;
        let Some(id) = *present else {
            let executed = Executed { instruction: None, code: &[], accesses, next: 0, again: false };
            if !executed.accesses.is_empty() {
                sink.instruction(&executed)?;
            }
            accesses.clear();
            return Ok(());
        };
        let (block, index) = (table.get(id), id.0 as usize);
        if blocks.len() <= index {
            blocks.resize(index + 1, None);
        }
        let instructions = blocks[index].get_or_insert_with(|| decode(block).unwrap_or_else(|| divide(block)).into());
        let last = instructions.len() - 1;
        accesses.sort_by_key(|access| access.index());
        let mut left = &accesses[..];
        for (i, instruction) in instructions.iter().enumerate() {
            // Indices end at 511, and what lies beyond is the last instruction's.
            let own = if i == last { left.len() } else { left.partition_point(|access| access.index() as usize <= i) };
            let (own, rest) = left.split_at(own);
            left = rest;
            let (after, start) = (instruction.pc + u64::from(instruction.len), instruction.pc - block.pc.0);
            let code = block.bytes.get(start as usize..start as usize + instruction.len as usize).unwrap_or_default();
            let next = if i == last { next.unwrap_or(after) } else { after };
            let executed = Executed { instruction: Some(instruction), code, accesses: own, next, again: *given };
            if !(*given && own.is_empty()) {
                sink.instruction(&executed)?;
            }
        }
        accesses.clear();
        *given = true;
        Ok(())
    }
}
