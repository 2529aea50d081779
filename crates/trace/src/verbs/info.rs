//! Gathers facts about a trace.

use super::Watch;
use crate::file::{Metadata, Reader, Recording};
use crate::foreign::{DrMemtrace, Physical};
use crate::{Ending, Format, Progress, Source, TraceError, open, recognise};
use reach_core::{Chunk, Event, Kind};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;

/// Facts about a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Info {
    /// The format.
    pub format: Format,
    /// The version of the format; `None` for foreign formats.
    pub version: Option<u32>,
    /// The name of the program in results.
    pub name: String,
    /// The facts that the recorder stored; empty for foreign traces.
    pub metadata: Metadata,
    /// The size of the file in bytes.
    pub bytes: u64,
    /// Segments of a `.reach` file; 0 for foreign traces.
    pub segments: u64,
    /// Block fetches.
    pub fetches: u64,
    /// Loads.
    pub loads: u64,
    /// Stores.
    pub stores: u64,
    /// Instructions in the fetched blocks.
    pub instructions: u64,
    /// Distinct blocks.
    pub blocks: u64,
    /// Address spaces.
    pub processes: u64,
    /// Threads.
    pub threads: u64,
    /// Files that were mapped.
    pub files: u64,
    /// The number of events of each kind.
    pub events: BTreeMap<&'static str, u64>,
    /// The physical addresses that came beside a trace of drmemtrace; `None` without them.
    pub physical: Option<Physical>,
    /// How the recording ended; `None` for foreign formats.
    pub recording: Option<Recording>,
    /// How the program ended, and what is missing of it.
    pub ending: Ending,
}

impl Info {
    /// Returns the number of references.
    pub fn refs(&self) -> u64 {
        self.fetches + self.loads + self.stores
    }

    /// Returns the bytes of the file for each reference; `None` without references.
    pub fn bytes_per_ref(&self) -> Option<f64> {
        (self.refs() > 0).then(|| self.bytes as f64 / self.refs() as f64)
    }
}

/// Counts events by kind, and the processes, threads and files that they name.
#[derive(Default)]
struct Tally {
    events: BTreeMap<&'static str, u64>,
    processes: BTreeSet<u32>,
    threads: BTreeSet<u32>,
    files: BTreeSet<u32>,
}

impl Tally {
    fn add(&mut self, event: &Event) {
        *self.events.entry(kind_name(event)).or_default() += 1;
        match event {
            Event::Switch { asid, thread } => {
                self.processes.insert(asid.0);
                self.threads.insert(thread.0);
            }
            Event::Fork { child, .. } => {
                self.processes.insert(child.0);
            }
            Event::File { file, .. } => {
                self.files.insert(file.0);
            }
            _ => {}
        }
    }
}

fn kind_name(event: &Event) -> &'static str {
    match event {
        Event::File { .. } => "file",
        Event::Map(_) => "map",
        Event::Unmap(_) => "unmap",
        Event::Protect(..) => "protect",
        Event::Remap(_) => "remap",
        Event::Advise(..) => "advise",
        Event::Fork { shares_memory: false, .. } => "fork",
        Event::Fork { shares_memory: true, .. } => "vfork",
        Event::Exec { .. } => "exec",
        Event::Exit => "exit",
        Event::Switch { .. } => "switch",
        Event::Phase(_) => "phase",
        Event::Mark(_) => "mark",
        Event::SystemCall(_) => "system call",
    }
}

/// Gathers facts about the trace `path`. Reads the segment headers and events of a `.reach` file, and all of a foreign
/// trace. [`Info::ending`] says what is missing. Fails as [`open`] does, and with the first damage of what it reads.
pub fn info(path: impl AsRef<Path>, watch: Watch) -> Result<Info, TraceError> {
    let path = path.as_ref();
    let format = recognise(path)?;
    let bytes = std::fs::metadata(path).map_err(|source| TraceError::Io { path: path.to_owned(), source })?.len();
    let mut tally = Tally::default();
    let mut info = Info {
        format,
        version: None,
        name: String::new(),
        metadata: Metadata::default(),
        bytes,
        segments: 0,
        fetches: 0,
        loads: 0,
        stores: 0,
        instructions: 0,
        blocks: 0,
        processes: 0,
        threads: 0,
        files: 0,
        events: BTreeMap::new(),
        physical: None,
        recording: None,
        ending: Ending::default(),
    };
    if format == Format::Reach {
        let mut reader = Reader::open(path)?;
        for i in 0..reader.segments() {
            let segment = reader.segment(i)?;
            info.fetches += segment.fetches as u64;
            info.loads += segment.loads as u64;
            info.stores += segment.stores as u64;
            info.instructions += segment.instructions;
            info.blocks += segment.blocks as u64;
            reader.segment_events(i)?.iter().for_each(|(_, event)| tally.add(event));
            let segments = reader.segments() as u64;
            watch(info.refs(), Progress { done: i as u64 + 1, total: Some(segments) });
        }
        info.version = Some(reader.version());
        info.name = reader.name().to_owned();
        info.metadata = reader.metadata().clone();
        info.segments = reader.segments() as u64;
        info.recording = Some(reader.recording());
        info.ending = reader.ending();
    } else {
        let mut source = open(path)?;
        let mut chunk = Chunk::default();
        while source.fill(&mut chunk)? {
            let count = |kind| chunk.refs.iter().filter(|r| r.kind() == kind).count() as u64;
            info.fetches += chunk.fetched.len() as u64;
            info.loads += count(Kind::Load);
            info.stores += count(Kind::Store);
            let blocks = source.blocks();
            info.instructions += chunk.fetched.iter().map(|&id| blocks.get(id).instructions as u64).sum::<u64>();
            chunk.events.iter().for_each(|(_, event)| tally.add(event));
            watch(info.refs(), source.progress());
        }
        if format == Format::DrMemtrace {
            info.physical = DrMemtrace::physical(path)?;
        }
        // A folder has no length of its own.
        info.bytes = source.progress().total.unwrap_or(bytes);
        info.blocks = source.blocks().len() as u64;
        info.name = source.name().to_owned();
        info.ending = source.ending();
    }
    info.processes = tally.processes.len() as u64;
    info.threads = tally.threads.len() as u64;
    info.files = tally.files.len() as u64;
    info.events = tally.events;
    Ok(info)
}

impl fmt::Display for Info {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = |name: &str, value: &dyn fmt::Display| writeln!(f, "{name:<14} {value}");
        line("program", &self.name)?;
        let version = self.version.map_or(String::new(), |v| format!(" {v}"));
        line("format", &format_args!("{}{version}", self.format.name()))?;
        for (name, value) in [("host", &self.metadata.host), ("tool", &self.metadata.tool)] {
            if !value.is_empty() {
                line(name, value)?;
            }
        }
        if !self.metadata.command.is_empty() {
            line("command", &self.metadata.command.join(" "))?;
        }
        for (name, value) in &self.metadata.other {
            line(name, value)?;
        }
        line("bytes", &self.bytes)?;
        for (name, value) in [
            ("segments", self.segments),
            ("references", self.refs()),
            ("  fetches", self.fetches),
            ("  loads", self.loads),
            ("  stores", self.stores),
            ("instructions", self.instructions),
            ("blocks", self.blocks),
            ("processes", self.processes),
            ("threads", self.threads),
            ("files", self.files),
            ("events", self.events.values().sum()),
        ] {
            line(name, &value)?;
        }
        for (name, count) in &self.events {
            line(&format!("  {name}"), count)?;
        }
        if let Some(ratio) = self.bytes_per_ref() {
            line("bytes/ref", &format_args!("{ratio:.3}"))?;
        }
        if let Some(Physical { page_bytes, pages, runs }) = self.physical {
            let kb = page_bytes >> 10;
            line("physical", &format_args!("{pages} pages of {kb} KB in {runs} contiguous runs (not simulated)"))?;
        }
        if let Some(recording) = self.recording {
            let by = if self.metadata.tool.is_empty() { "" } else { " by " };
            line("recording", &format_args!("{recording}{by}{}", self.metadata.tool))?;
        }
        let Ending { missing, exits, stopped, uncertain, .. } = &self.ending;
        if let Some(stopped) = stopped {
            line("stopped", stopped)?;
        }
        match (missing.is_empty(), uncertain) {
            (false, _) => line("complete", &"no")?,
            (true, Some(why)) => line("complete", &format_args!("unknown: {why}"))?,
            (true, None) => line("complete", &"yes")?,
        }
        for missing in missing {
            line("  missing", missing)?;
        }
        for exit in exits {
            line("ended", exit)?;
        }
        if exits.is_empty() { line("ended", &"unknown") } else { Ok(()) }
    }
}
