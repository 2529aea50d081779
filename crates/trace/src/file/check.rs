//! Checks a chunk before it is written.

use super::forms::is_fetch;
use reach_core::{Block, BlockId, Chunk, Event, Ref, Remap, Span};

/// The most bytes of a text in an event.
pub(super) const MAX_TEXT: usize = 1 << 20;
/// An estimate of the most bytes that an event takes, without its text.
pub(super) const EVENT_BYTES: usize = 64;

/// Checks that chunks are consistent with themselves and with the block table.
#[derive(Default)]
pub(super) struct ChunkChecker {
    /// The fetch of each block.
    fetches: Vec<Ref>,
    /// Instructions in each block.
    instructions: Vec<u16>,
    /// Scratch buffer for the fetches of a chunk, reused between calls.
    found: Vec<Ref>,
}

impl ChunkChecker {
    /// Returns the number of blocks that were added.
    pub fn blocks(&self) -> usize {
        self.fetches.len()
    }

    /// Adds the next block of the table.
    pub fn add(&mut self, block: &Block) {
        self.fetches.push(block.fetch());
        self.instructions.push(block.instructions);
    }

    /// Returns the number of instructions in these blocks, which must have been added.
    pub fn instructions(&self, fetched: &[BlockId]) -> u64 {
        fetched.iter().map(|id| self.instructions[id.0 as usize] as u64).sum()
    }

    /// Checks a chunk. Fails with the law that the chunk breaks.
    pub fn check(&mut self, chunk: &Chunk) -> Result<(), &'static str> {
        self.check_refs(chunk)?;
        check_events(chunk)
    }

    /// Checks references. The loops visit every reference, so they have no branches that depend on one.
    fn check_refs(&mut self, chunk: &Chunk) -> Result<(), &'static str> {
        let unknown_bits = |r: &Ref| r.0 >> 62 | (r.0 >> 48 & r.0 >> 49 & 1);
        if chunk.refs.iter().fold(0, |bits, r| bits | unknown_bits(r)) != 0 {
            return Err("a reference of unknown kind");
        }
        let fetches = chunk.refs.iter().map(|r| is_fetch(*r) as usize).sum::<usize>();
        if fetches != chunk.fetched.len() {
            return Err("another number of fetched blocks than of fetches");
        }
        self.found.resize(fetches + 1, Ref(0));
        let mut at = 0;
        for r in &chunk.refs {
            self.found[at] = *r;
            at += is_fetch(*r) as usize;
        }
        for (id, found) in chunk.fetched.iter().zip(&self.found) {
            match self.fetches.get(id.0 as usize) {
                Some(fetch) if fetch == found => {}
                Some(_) => return Err("a fetch that differs from its block"),
                None => return Err("a fetch of a block that is not in the table"),
            }
        }
        Ok(())
    }
}

fn check_events(chunk: &Chunk) -> Result<(), &'static str> {
    let overflows = |span: &Span| span.start.0.checked_add(span.len).is_none();
    let mut last = 0;
    for (before, event) in &chunk.events {
        if *before < last || *before as usize > chunk.refs.len() {
            return Err("events out of order");
        }
        last = *before;
        let out_of_range = match event {
            Event::Map(map) => overflows(&map.span),
            Event::Unmap(span) | Event::Protect(span, _) | Event::Advise(span, _) => overflows(span),
            Event::Remap(Remap { from, to, .. }) => overflows(from) || overflows(to),
            _ => false,
        };
        if out_of_range {
            return Err("an event beyond the address space");
        }
        if text_of(event).len() > MAX_TEXT {
            return Err("an event with a text of more than a megabyte");
        }
    }
    Ok(())
}

/// Returns the text in an event; an empty one where the event has none.
pub(super) fn text_of(event: &Event) -> &str {
    match event {
        Event::File { path, .. } | Event::Exec { path } => path,
        Event::Phase(name) => name,
        _ => "",
    }
}
