//! Keeps the beginning of a program in memory, so that a short program can be read twice.

use crate::file::{Metadata, Reader, Writer};
use crate::{Ending, Progress, Source, TraceError};
use reach_core::{BlockTable, Chunk};
use std::io::Cursor;

/// A program that is kept in memory, as a trace, unless it turns out to be long.
pub struct Kept<S> {
    source: S,
    limit: u64,
    /// `None` once the program has more references than the limit.
    writer: Option<Writer<Vec<u8>>>,
}

impl<S: Source> Kept<S> {
    /// Reads `source`, which must be at its start, and keeps it unless it has more than `limit` references.
    pub fn new(source: S, limit: u64) -> Result<Kept<S>, TraceError> {
        let metadata = Metadata { program: source.name().to_owned(), ..Metadata::default() };
        let writer = Some(Writer::new(Vec::new(), &metadata)?);
        Ok(Kept { source, limit, writer })
    }

    /// Returns all of the program that was read, from its start. `None` if that was more than the limit.
    pub fn into_program(mut self) -> Result<Option<Reader>, TraceError> {
        let Some(writer) = self.writer else { return Ok(None) };
        let trace = writer.finish(&self.source.ending())?;
        Reader::new(Cursor::new(trace), self.source.name()).map(Some)
    }
}

impl<S: Source> Source for Kept<S> {
    fn fill(&mut self, chunk: &mut Chunk) -> Result<bool, TraceError> {
        let more = self.source.fill(chunk)?;
        if let Some(writer) = &mut self.writer {
            if writer.refs() + chunk.refs.len() as u64 > self.limit {
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
        for limit in [references - 1, references] {
            let mut kept = Kept::new(synthetic::parse(PROGRAM).unwrap(), limit).unwrap();
            let name = kept.name().to_owned();
            assert!(read_all(&mut kept).refs == all.refs);
            let again = kept.into_program().unwrap();
            assert_eq!(again.is_some(), limit == references);
            if let Some(mut again) = again {
                assert_eq!(again.name(), name);
                let again = read_all(&mut again);
                assert!(again.refs == all.refs && again.events == all.events);
            }
        }
    }
}
