//! Writes a trace as text.

use super::Watch;
use crate::file::Reader;
use crate::{Format, Progress, Source, TraceError, open, recognise};
use reach_core::{Chunk, Event, Kind};
use std::io::{self, Write};
use std::ops::Range;
use std::path::Path;

/// Writes the references of the trace `path` whose numbers are in `range`, and the events before each, one per line:
///
/// ```text
/// 0 event Switch { asid: Asid(0), thread: ThreadId(0) }
/// 0 event Mark(Measure)
/// 0 fetch 0x401000 block 0 bytes 7 instructions 2
/// 1 load 0x7ffe0010 size 8 instruction 1
/// ```
///
/// Numbers inside events are hexadecimal, except in marks. Events after the last reference are written if `range` goes
/// beyond it. Where a part of the trace is missing, fails with [`TraceError::Incomplete`] after everything that can be read.
/// An error of `out` is a [`TraceError::Io`] for the path `<output>`; see [`TraceError::is_broken_pipe`].
pub fn dump(path: impl AsRef<Path>, range: Range<u64>, out: &mut dyn Write, watch: Watch) -> Result<(), TraceError> {
    let path = path.as_ref();
    let mut number = 0;
    let format = recognise(path)?;
    let mut source: Box<dyn Source> = if format == Format::Reach {
        let mut reader = Reader::open(path)?;
        // Events before the first reference may be stored after the reference that precedes it.
        number = reader.seek(range.start.saturating_sub(1))?;
        Box::new(reader)
    } else {
        open(path)?
    };
    let first = number;
    let mut out = io::BufWriter::with_capacity(1 << 16, out);
    let mut chunk = Chunk::default();
    loop {
        // Everything before damage is written before the damage is reported.
        let more = if number < range.end { source.fill(&mut chunk) } else { Ok(false) };
        if !more.inspect_err(|_| drop(out.flush()))? {
            break;
        }
        let written = write_chunk(&chunk, source.as_ref(), number, &range, &mut out);
        written.map_err(output_error)?;
        number += chunk.refs.len() as u64;
        let progress = source.progress();
        let progress = match progress.total {
            // The progress of a `.reach` file counts references, as the range does.
            Some(end) if format == Format::Reach => {
                Progress { done: number - first, total: Some(end.min(range.end).saturating_sub(first)) }
            }
            _ => progress,
        };
        watch(number - first, progress);
    }
    out.flush().map_err(output_error)?;
    source.ending().missing.into_iter().next().map_or(Ok(()), |missing| Err(TraceError::Incomplete(missing)))
}

fn output_error(source: io::Error) -> TraceError {
    TraceError::Io { path: "<output>".into(), source }
}

fn write_chunk(
    chunk: &Chunk,
    source: &dyn Source,
    first: u64,
    range: &Range<u64>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut events = chunk.events.iter().peekable();
    let mut fetched = chunk.fetched.iter();
    for at in 0..=chunk.refs.len() {
        let number = first + at as u64;
        while let Some((_, event)) = events.next_if(|(before, _)| *before as usize == at) {
            if range.contains(&number) {
                match event {
                    Event::Mark(_) => writeln!(out, "{number} event {event:?}")?,
                    _ => writeln!(out, "{number} event {event:x?}")?,
                }
            }
        }
        let Some(r) = chunk.refs.get(at) else { break };
        let block = if r.kind() == Kind::Fetch { fetched.next() } else { None };
        if !range.contains(&number) {
            continue;
        }
        let addr = r.addr().0;
        match (r.kind(), block) {
            (Kind::Fetch, Some(&id)) => {
                let block = source.blocks().get(id);
                let (bytes, instructions) = (block.len, block.instructions);
                writeln!(out, "{number} fetch {addr:#x} block {} bytes {bytes} instructions {instructions}", id.0)?;
            }
            (Kind::Fetch, None) => writeln!(out, "{number} fetch {addr:#x}")?,
            (kind, _) => {
                let name = if kind == Kind::Load { "load" } else { "store" };
                writeln!(out, "{number} {name} {addr:#x} size {} instruction {}", r.size(), r.index())?;
            }
        }
    }
    Ok(())
}
