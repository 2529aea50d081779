//! Keeps the beginning of a program in memory, so that a short program can be read twice.

use crate::file::{Metadata, Reader, Writer};
use crate::{Ending, Progress, Source, TraceError};
use reach_core::{BlockTable, Chunk};
use std::io::Cursor;
use std::sync::Arc;
use std::time::Duration;

/// A program that is kept in memory, as a trace, unless it turns out to be long.
pub struct Kept<S> {
    source: S,
    most: KeptSize,
    /// `None` once the program is longer than that.
    writer: Option<Writer<Vec<u8>>>,
}

/// The size of the longest program that is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptSize {
    /// In references.
    pub references: u64,
    /// In bytes of a trace.
    pub bytes: u64,
}

/// A program in memory, which can be read any number of times.
#[derive(Clone, Debug)]
pub struct InMemory {
    trace: Arc<[u8]>,
    name: String,
}

impl InMemory {
    /// Returns the program, at its start.
    ///
    /// # Errors
    /// None, unless memory was corrupted.
    pub fn read(&self) -> Result<Reader, TraceError> {
        Reader::new(Cursor::new(self.trace.clone()), &self.name)
    }
}

impl<S: Source> Kept<S> {
    /// Reads `source`, which must be at its start, and keeps it unless it is longer than `most`.
    pub fn new(source: S, most: KeptSize) -> Result<Kept<S>, TraceError> {
        let metadata = Metadata { program: source.name().to_owned(), ..Metadata::default() };
        // Samples read all references.
        let writer = Some(Writer::new(Vec::new(), &metadata)?.without_outlines());
        Ok(Kept { source, most, writer })
    }

    /// Returns all of the program that was read. `None` if that was more than is kept.
    pub fn into_program(mut self) -> Result<Option<InMemory>, TraceError> {
        let Some(writer) = self.writer else { return Ok(None) };
        let trace = writer.finish(&self.source.ending())?.into();
        Ok(Some(InMemory { trace, name: self.source.name().to_owned() }))
    }
}

impl<S: Source> Source for Kept<S> {
    fn fill(&mut self, chunk: &mut Chunk) -> Result<bool, TraceError> {
        let more = self.source.fill(chunk)?;
        if let Some(writer) = &mut self.writer {
            let references = writer.refs() + chunk.refs.len() as u64;
            if references > self.most.references || writer.bytes() > self.most.bytes {
                self.writer = None;
            } else {
                writer.write(chunk, self.source.blocks())?;
            }
        }
        Ok(more)
    }

    fn blocks(&self) -> &BlockTable {
        self.source.blocks()
    }

    fn name(&self) -> &str {
        self.source.name()
    }

    fn progress(&self) -> Progress {
        self.source.progress()
    }

    fn waited(&self) -> Duration {
        self.source.waited()
    }

    fn ending(&mut self) -> Ending {
        self.source.ending()
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::read_all;
    use super::*;
    use crate::synthetic;

    const PROGRAM: &str = "web:requests=50";

    #[test]
    fn a_short_program_is_read_again_as_it_was() {
        let all = read_all(&mut *synthetic::parse(PROGRAM).unwrap());
        let references = all.refs.len() as u64;
        for (references, is_kept) in [(references - 1, false), (references, true)] {
            let most = KeptSize { references, bytes: u64::MAX };
            let mut kept = Kept::new(synthetic::parse(PROGRAM).unwrap(), most).unwrap();
            let name = kept.name().to_owned();
            assert!(read_all(&mut kept).refs == all.refs);
            let program = kept.into_program().unwrap();
            assert_eq!(program.is_some(), is_kept);
            for _ in 0..2 {
                let Some(mut again) = program.as_ref().map(|program| program.read().unwrap()) else { continue };
                assert_eq!(again.name(), name);
                let again = read_all(&mut again);
                assert!(again.refs == all.refs && again.events == all.events);
            }
        }
    }
}
