//! What must hold of a chunk before it is written.

use super::forms::is_fetch;
use reach_core::{Block, BlockId, Chunk, Event, Ref, Remap, Span};

/// The longest text in an event.
pub(super) const MAX_TEXT: usize = 1 << 20;
/// About the most that an event takes, texts apart.
pub(super) const EVENT_BYTES: usize = 64;

/// Knows of every block as much as the laws need.
#[derive(Default)]
pub(super) struct Laws {
    /// The fetch of each block.
    fetches: Vec<Ref>,
    /// Instructions in each block.
    instructions: Vec<u16>,
    /// The fetches of the chunk in hand.
    found: Vec<Ref>,
}

impl Laws {
    /// How many blocks are known.
    pub fn blocks(&self) -> usize {
        self.fetches.len()
    }

    pub fn add(&mut self, block: &Block) {
        self.fetches.push(block.fetch());
        self.instructions.push(block.instructions);
    }

    /// Instructions in these blocks, which are known.
    pub fn instructions(&self, fetched: &[BlockId]) -> u64 {
        fetched.iter().map(|id| self.instructions[id.0 as usize] as u64).sum()
    }

    /// Says what is wrong with a chunk.
    pub fn check(&mut self, chunk: &Chunk) -> Result<(), &'static str> {
        self.check_refs(chunk)?;
        check_events(chunk)
    }

    /// Every reference is looked at, so there are no branches here that depend on it.
    fn check_refs(&mut self, chunk: &Chunk) -> Result<(), &'static str> {
        let unknown = |r: &Ref| r.0 >> 62 | (r.0 >> 48 & r.0 >> 49 & 1);
        if chunk.refs.iter().fold(0, |any, r| any | unknown(r)) != 0 {
            return Err("a reference of no known kind");
        }
        let fetches = chunk.refs.iter().map(|r| is_fetch(*r) as usize).sum::<usize>();
        if fetches != chunk.fetched.len() {
            return Err("not one block for each fetch");
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
                Some(_) => return Err("a fetch from elsewhere than its block"),
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
        let wrong = match event {
            Event::Map(map) => overflows(&map.span),
            Event::Unmap(span) | Event::Protect(span, _) | Event::Advise(span, _) => overflows(span),
            Event::Remap(Remap { from, to, .. }) => overflows(from) || overflows(to),
            _ => false,
        };
        if wrong {
            return Err("an event beyond the address space");
        }
        if text_of(event).len() > MAX_TEXT {
            return Err("an event with a text of more than a megabyte");
        }
    }
    Ok(())
}

/// The text in an event.
pub(super) fn text_of(event: &Event) -> &str {
    match event {
        Event::File { path, .. } | Event::Exec { path } => path,
        Event::Phase(name) => name,
        _ => "",
    }
}
