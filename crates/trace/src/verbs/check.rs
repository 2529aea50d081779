//! Reads all of a trace and verifies every law of it.

use super::Watch;
use crate::file::{OutlineEncoder, Reader, Segment};
use crate::{Format, Progress, Source, TraceError, open, recognise};
use reach_core::{Backing, Chunk, Event, Kind};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// What a check has read and found good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Checked {
    /// References.
    pub refs: u64,
    /// Events.
    pub events: u64,
    /// Segments of a `.reach` file.
    pub segments: u64,
}

/// Reads all of the trace `path`. The error tells the first damage: what and at which byte.
pub fn check(path: impl AsRef<Path>, watch: Watch) -> Result<Checked, TraceError> {
    let path = path.as_ref();
    if recognise(path)? == Format::Reach {
        return check_reader(Reader::open(path)?, path, watch);
    }
    let mut source = open(path)?;
    let (mut chunk, mut checked) = (Chunk::default(), Checked::default());
    while source.fill(&mut chunk)? {
        checked.refs += chunk.refs.len() as u64;
        checked.events += chunk.events.len() as u64;
        watch(checked.refs, source.progress());
    }
    Ok(checked)
}

fn check_reader(mut reader: Reader, path: &Path, watch: Watch) -> Result<Checked, TraceError> {
    let mut laws = Laws { path: path.to_owned(), files: BTreeSet::new(), started: false };
    let (mut chunk, mut checked, mut outline) = (Chunk::default(), Checked::default(), OutlineEncoder::default());
    for i in 0..reader.segments() {
        let segment = reader.segment(i)?;
        let mut counts = Counts::default();
        let end = segment.first_ref + segment.refs as u64;
        let mut first = segment.first_ref;
        let mut events = 0;
        let mut whole = Chunk::default();
        reader.seek_segment(i)?;
        while first < end || events < segment.events {
            if !reader.fill(&mut chunk)? {
                break;
            }
            laws.follow(&chunk, &segment)?;
            counts.add(&chunk, &reader);
            whole.append(&chunk);
            first += chunk.refs.len() as u64;
            events += chunk.events.len() as u32;
            watch(first, Progress { done: first, total: Some(reader.refs()) });
        }
        // A segment of blocks alone was not taken up above.
        reader.verify_segment(i)?;
        reader.seek_segment(i + 1)?;
        let told = (segment.fetches, segment.loads, segment.stores, segment.instructions);
        if (counts.fetches, counts.loads, counts.stores, counts.instructions) != told {
            return Err(laws.broken("a segment whose header counts wrongly", segment.at));
        }
        outline.learn(reader.blocks());
        outline.encode(&whole.refs, &whole.fetched, &whole.events);
        reader.verify_outline(i, &outline)?;
        checked.refs += segment.refs as u64;
        checked.events += segment.events as u64;
        checked.segments += 1;
    }
    if reader.index_was_rebuilt() {
        return Err(TraceError::Damaged {
            path: path.to_owned(),
            what: format!(
                "damaged: no good index, {} bytes behind the last whole segment are lost",
                reader.lost_bytes()
            ),
            at: reader.bytes() - reader.lost_bytes(),
            todo: "everything before is good; `reach trace convert` makes a whole file of it".to_owned(),
        });
    }
    Ok(checked)
}

#[derive(Default)]
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

/// What must hold from one segment to the next.
struct Laws {
    path: PathBuf,
    files: BTreeSet<u32>,
    started: bool,
}

impl Laws {
    fn follow(&mut self, chunk: &Chunk, segment: &Segment) -> Result<(), TraceError> {
        if !self.started && !matches!(chunk.events.first(), Some((0, Event::Switch { .. }))) {
            return Err(self.broken("a program that does not begin with a switch to an address space", segment.at));
        }
        self.started = true;
        for (_, event) in &chunk.events {
            match event {
                Event::File { file, .. } if !self.files.insert(file.0) => {
                    return Err(self.broken("a file number given out twice", segment.at));
                }
                Event::Map(map) => match map.backing {
                    Backing::File { file, .. } if !self.files.contains(&file.0) => {
                        return Err(self.broken("a mapping of a file that was not named", segment.at));
                    }
                    _ => {}
                },
                _ => {}
            }
        }
        Ok(())
    }

    fn broken(&self, what: &str, at: u64) -> TraceError {
        TraceError::Damaged {
            path: self.path.clone(),
            what: format!("damaged: {what}"),
            at,
            todo: "record again, and report the program that wrote this".to_owned(),
        }
    }
}
