//! Writes typical passages as a trace: each is announced by a phase of its kind's name.

use crate::code::without_constants;
use crate::passages::{Entry, Passage, compact, typical};
use crate::recorder::{Block, Recorder};
use reach_core::{Asid, BlockId, BlockTable, Chunk, Event, Kind, Ref, ThreadId, VirtAddr};
use reach_trace::file::{Metadata, Writer};
use reach_trace::{Ending, TraceError};
use std::collections::HashMap;
use std::fmt::Write as _;

/// The 48 bits of an address that traces hold. The kernel lies in their upper half.
fn lower(address: u64) -> VirtAddr {
    VirtAddr(address & ((1 << 48) - 1))
}

/// Writes the trace and returns a table of what it holds.
pub fn write(recorder: Recorder) -> Result<String, TraceError> {
    let metadata = Metadata {
        program: "kernel".into(),
        tool: concat!("reach-kernel-recorder ", env!("CARGO_PKG_VERSION")).into(),
        ..Metadata::default()
    };
    let mut trace = Trace::default();
    trace.chunk.push_event(Event::Switch { asid: Asid(0), thread: ThreadId(0) });
    let mut report = String::from("kind: passages, kept, instructions and references of the last kept\n");
    for (number, name) in (1..).zip(&recorder.names) {
        let of_kind: Vec<&Passage> =
            recorder.passages.iter().filter(|(kind, _)| *kind == number).map(|(_, passage)| passage).collect();
        let kept = typical(&of_kind);
        let mut last = (0, 0);
        for &at in &kept {
            trace.chunk.push_event(Event::Phase(name.clone()));
            let is_string = |block: usize| recorder.blocks[block].is_string();
            let entries = compact(of_kind[at], is_string, name.starts_with("fault"));
            last = trace.add(&entries, &recorder.blocks);
        }
        let _ = writeln!(report, "{name}: {}, {}, {}, {}", of_kind.len(), kept.len(), last.0, last.1);
    }
    let mut writer = Writer::create(&recorder.out, &metadata)?;
    writer.write(&trace.chunk, &trace.table)?;
    writer.finish(&Ending::default())?;
    Ok(report)
}

#[derive(Default)]
struct Trace {
    chunk: Chunk,
    table: BlockTable,
    /// The number in the table of each of the recorder's blocks.
    numbers: HashMap<usize, BlockId>,
}

impl Trace {
    /// Appends a passage. Returns its instructions and references.
    fn add(&mut self, entries: &[Entry], blocks: &[Block]) -> (u64, usize) {
        let (mut instructions, before) = (0, self.chunk.refs.len());
        for entry in entries {
            match *entry {
                Entry::Block(number) => {
                    let Some(id) = self.number(number, blocks) else { continue };
                    let block = self.table.get(id);
                    instructions += u64::from(block.instructions);
                    self.chunk.push_fetch(id, block);
                }
                Entry::Access { address, size_log2, store, index } => {
                    let kind = if store { Kind::Store } else { Kind::Load };
                    self.chunk.refs.push(Ref::data(kind, lower(address), size_log2, index));
                }
            }
        }
        (instructions, self.chunk.refs.len() - before)
    }

    fn number(&mut self, number: usize, blocks: &[Block]) -> Option<BlockId> {
        if let Some(&id) = self.numbers.get(&number) {
            return Some(id);
        }
        let Block::Kernel { pc, instructions } = &blocks[number] else { return None };
        let mut bytes = Vec::new();
        for instruction in instructions {
            bytes.extend(without_constants(pc + bytes.len() as u64, instruction));
        }
        let id = self.table.push(reach_core::Block {
            pc: lower(*pc),
            len: bytes.len() as u16,
            instructions: instructions.len() as u16,
            bytes: bytes.into(),
        });
        self.numbers.insert(number, id);
        Some(id)
    }
}
