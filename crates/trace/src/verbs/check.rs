//! Reads all of a trace and verifies that it obeys the format.

use super::Watch;
use crate::file::{OutlineEncoder, OutlineStream, Reader, Segment};
use crate::{Ending, Format, Progress, Source, TraceError, open, recognise};
use reach_core::{Backing, Chunk, Event, Kind};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The contents of a good trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Checked {
    /// References.
    pub refs: u64,
    /// Events.
    pub events: u64,
    /// Segments of a `.reach` file; 0 for other formats.
    pub segments: u64,
}

/// Reads all of the trace `path` and verifies it.
///
/// Fails with the first damage: [`TraceError::Damaged`] says what and at which byte. Fails with [`TraceError::Incomplete`]
/// where a part of the program is missing, even if everything else is good.
pub fn check(path: impl AsRef<Path>, watch: Watch) -> Result<Checked, TraceError> {
    let path = path.as_ref();
    if recognise(path)? == Format::Reach {
        return check_reach(Reader::open(path)?, path, watch);
    }
    let mut source = open(path)?;
    let (mut chunk, mut checked) = (Chunk::default(), Checked::default());
    while source.fill(&mut chunk)? {
        checked.refs += chunk.refs.len() as u64;
        checked.events += chunk.events.len() as u64;
        watch(checked.refs, source.progress());
    }
    complete(source.ending())?;
    Ok(checked)
}

/// Fails with the first part that is missing.
fn complete(ending: Ending) -> Result<(), TraceError> {
    ending.missing.into_iter().next().map_or(Ok(()), |missing| Err(TraceError::Incomplete(missing)))
}

fn check_reach(mut reader: Reader, path: &Path, watch: Watch) -> Result<Checked, TraceError> {
    let mut events = EventOrder { path: path.to_owned(), files: BTreeSet::new(), started: false };
    let (mut chunk, mut checked, mut outline) = (Chunk::default(), Checked::default(), OutlineEncoder::default());
    for i in 0..reader.segments() {
        let segment = reader.segment(i)?;
        let mut counts = Counts::default();
        let end = segment.first_ref + segment.refs as u64;
        let mut position = segment.first_ref;
        let mut events_read = 0;
        reader.seek_segment(i)?;
        let mut contents = OutlineStream::new(&mut outline, segment.outline_bytes());
        let mut outlined = true;
        while position < end || events_read < segment.events {
            if !reader.read(&mut chunk)? {
                break;
            }
            events.check(&chunk, &segment)?;
            counts.add(&chunk, &reader);
            outlined = outlined && contents.add(&chunk, reader.blocks());
            position += chunk.refs.len() as u64;
            events_read += chunk.events.len() as u32;
            watch(position, Progress { done: position, total: Some(reader.refs()) });
        }
        contents.finish();
        // The loop above does not read a segment that has only blocks.
        reader.verify_segment(i)?;
        reader.seek_segment(i + 1)?;
        let announced = Counts {
            fetches: segment.fetches,
            loads: segment.loads,
            stores: segment.stores,
            instructions: segment.instructions,
        };
        if counts != announced {
            return Err(damaged(path, "a segment header whose counts differ from the segment", segment.at));
        }
        // An outline that is too long was given up.
        if !outlined {
            return Err(damaged(path, "an outline that does not match its segment's references", segment.at));
        }
        reader.verify_outline(i, &outline)?;
        checked.refs += segment.refs as u64;
        checked.events += segment.events as u64;
        checked.segments += 1;
    }
    complete(reader.ending())?;
    Ok(checked)
}

fn damaged(path: &Path, what: &str, at: u64) -> TraceError {
    TraceError::Damaged {
        path: path.to_owned(),
        what: format!("damaged: {what}"),
        at,
        todo: "record again, and report the program that wrote this".to_owned(),
    }
}

/// The counts of a segment.
#[derive(Default, PartialEq)]
struct Counts {
    fetches: u32,
    loads: u32,
    stores: u32,
    instructions: u64,
}

impl Counts {
    fn add(&mut self, chunk: &Chunk, reader: &Reader) {
        for r in &chunk.refs {
            match r.kind() {
                Kind::Fetch => self.fetches += 1,
                Kind::Load => self.loads += 1,
                Kind::Store => self.stores += 1,
            }
        }
        let blocks = reader.blocks();
        self.instructions += chunk.fetched.iter().map(|&id| blocks.get(id).instructions as u64).sum::<u64>();
    }
}

/// Checks the order of events across segments.
struct EventOrder {
    path: PathBuf,
    /// The numbers of the files that were named.
    files: BTreeSet<u32>,
    /// Whether the program has begun.
    started: bool,
}

impl EventOrder {
    fn check(&mut self, chunk: &Chunk, segment: &Segment) -> Result<(), TraceError> {
        let damaged = |what| Err(damaged(&self.path, what, segment.at));
        if !self.started {
            let first = chunk.events.iter().find(|(_, event)| !matches!(event, Event::Mark(_)));
            if !matches!(first, Some((0, Event::Switch { .. }))) {
                return damaged("a program that does not begin with a switch to an address space");
            }
            self.started = true;
        }
        for (_, event) in &chunk.events {
            match event {
                Event::File { file, .. } if !self.files.insert(file.0) => {
                    return damaged("a file number that two files have");
                }
                Event::Map(map) => match map.backing {
                    Backing::File { file, .. } if !self.files.contains(&file.0) => {
                        return damaged("a mapping of a file that was not named");
                    }
                    _ => {}
                },
                _ => {}
            }
        }
        Ok(())
    }
}
