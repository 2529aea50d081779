//! Traces of DynamoRIO's tracer (drmemtrace), versions 1 to 7, as its documentation describes them. Google publishes traces of its
//! data centres in this format.
//!
//! A trace is a file, or a folder with a file for each thread or core. A file is a zip archive, or plain, or compressed by gzip,
//! snappy, xz or zstd. Its [records](record) are instructions, accesses and markers.
//!
//! 1. *Instructions* are those that were fetched. A repeated string instruction has a record for each repetition; only the first is
//!    an instruction, and the accesses of all are its own.
//! 2. *Accesses* are loads and stores. Prefetches by instructions and cache flushes are none, because their translations may fail
//!    without consequence.
//! 3. *Code* of instructions precedes their first execution in each chunk, if the trace has it. It is kept for x86-64.
//! 4. *Threads and processes* become those of Reach, in the order of their first references. A folder's files take turns by their
//!    time markers: the next is always the file whose next marker is the oldest. A turn goes up to the next marker.
//! 5. *System calls* become events if the trace is of x86-64, and the kernel's instructions are not in it.
//! 6. *Mappings* are none in the format, so the operating system gives each page memory at its first access. Processes do not fork
//!    or end.
//!
//! Not read: raw files, which DynamoRIO's `drraw2trace` makes into traces; 32-bit programs; lz4.

mod folder;
pub(super) mod record;
mod stream;
mod v2p;

pub use v2p::Physical;

use super::assembler::Assembler;
use super::compressed::SMALL;
use super::input::Input;
use super::limits::Limits;
use super::threads::Threads;
use super::{CHUNK_EVENTS, CHUNK_REFS};
use crate::{Ending, Missing, Part, Progress, Source, TraceError};
use folder::Folder;
use reach_core::{BlockTable, Chunk, Event, Shown};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::BufRead;
use std::path::Path;
use stream::{Item, Stream};

/// Reads a trace of drmemtrace.
pub struct DrMemtrace {
    name: String,
    /// The files that have not ended; `None` for the others.
    streams: Vec<Option<Stream>>,
    /// The files that wait for their turn, by the times at which their turns begin.
    waiting: BinaryHeap<Reverse<(u64, usize)>>,
    /// The file whose turn it is.
    active: Option<usize>,
    assembler: Assembler,
    threads: Threads,
    /// The instructions whose code may still be kept.
    budget: usize,
    /// The most distinct blocks.
    blocks: usize,
    /// References that were given.
    given: u64,
    missing: Vec<Missing>,
    /// The progress of the files that have ended.
    ended: u64,
    /// Bytes of all files; 0 if unknown.
    len: u64,
}

impl DrMemtrace {
    /// Opens a file, or a folder with the files of a trace. Fails with [`TraceError::Io`] where one cannot be read, and as damage
    /// where one has no header.
    pub fn open(path: impl AsRef<Path>) -> Result<DrMemtrace, TraceError> {
        let path = path.as_ref();
        if !path.is_dir() {
            return DrMemtrace::with_inputs(vec![Input::open(path)?], crate::name_of(path));
        }
        let folder = Folder::find(path)?;
        let open = |file| {
            Input::open_with(file, SMALL).map_err(|error| match error {
                TraceError::Io { source, .. } if source.raw_os_error() == Some(libc::EMFILE) => {
                    let (path, n) = (path.shown(), folder.files.len());
                    let what = "all are read at once, which is more than a process may have open";
                    TraceError::Invalid(format!("{path}: {n} files of threads: {what}; raise `ulimit -n`"))
                }
                other => other,
            })
        };
        let inputs = folder.files.iter().map(|file| open(file)).collect::<Result<_, _>>()?;
        DrMemtrace::with_inputs(inputs, folder.name)
    }

    /// Returns what the file of physical addresses beside the trace `path` says; `None` without one. Fails where it cannot be read.
    pub fn physical(path: impl AsRef<Path>) -> Result<Option<Physical>, TraceError> {
        v2p::find(path.as_ref()).map(|file| v2p::read(&file)).transpose()
    }

    /// Reads records from `content`, which error messages call `path`.
    pub fn new(content: impl BufRead + Send + 'static, path: impl AsRef<Path>) -> Result<DrMemtrace, TraceError> {
        let path = path.as_ref();
        DrMemtrace::with_inputs(vec![Input::new(content, path)], crate::name_of(path))
    }

    /// Returns whether content that starts with `start` has a header of drmemtrace.
    pub(crate) fn recognises(start: &[u8]) -> bool {
        // The version of a 32-bit trace is half as long, and the type of its second record follows.
        matches!(start, [25, 0, 0, 0, 1..=99, 0, 0, 0, ..]) && start.len() >= record::BYTES
    }

    fn with_inputs(inputs: Vec<Input>, name: String) -> Result<DrMemtrace, TraceError> {
        let len = inputs.iter().map(|input| input.progress().total.unwrap_or(0)).sum();
        let limits = Limits::of(len);
        let mut trace = DrMemtrace {
            name,
            streams: Vec::new(),
            waiting: BinaryHeap::new(),
            active: None,
            assembler: Assembler::default(),
            threads: Threads::default(),
            budget: limits.blocks,
            blocks: limits.blocks,
            given: 0,
            missing: Vec::new(),
            ended: 0,
            len,
        };
        let is_alone = inputs.len() == 1;
        for input in inputs {
            let mut stream = Stream::new(input)?;
            // A file alone need not wait for a turn, and its first reference may be damaged.
            let time = if is_alone { Ok(0) } else { stream.first_time(&mut trace.budget) };
            trace.streams.push(Some(stream));
            let number = trace.streams.len() - 1;
            match time {
                Ok(time) => trace.waiting.push(Reverse((time, number))),
                Err(damage) => trace.lose(number, damage)?,
            }
        }
        trace.take_turn();
        Ok(trace)
    }

    /// Gives the turn to the file whose turn begins first.
    fn take_turn(&mut self) {
        self.active = self.waiting.pop().map(|Reverse((_, number))| number);
    }

    /// Notes that damage ends a file. Fails with errors that are no damage.
    fn lose(&mut self, number: usize, damage: TraceError) -> Result<(), TraceError> {
        let mut missing = damage.into_missing(0, None)?;
        if self.streams.len() > 1 {
            missing.part = Part::Gaps;
        }
        self.missing.push(missing);
        self.end(number);
        Ok(())
    }

    /// Closes a file.
    fn end(&mut self, number: usize) {
        let Some(mut stream) = self.streams[number].take() else { return };
        if let Some(why) = stream.gap {
            self.note_gap(why);
        }
        self.budget += stream.release();
        self.ended += stream.input.progress().done;
    }

    /// Notes that those who traced left references out, and why.
    fn note_gap(&mut self, why: &str) {
        let todo = "trace all of the program for results that hold".to_owned();
        let missing = Missing { of: self.name.clone(), why: why.to_owned(), todo, part: Part::Gaps };
        if !self.missing.contains(&missing) {
            self.missing.push(missing);
        }
    }

    /// Appends the next item of the file whose turn it is, number `number`.
    fn append(&mut self, number: usize, chunk: &mut Chunk) -> Result<(), TraceError> {
        let DrMemtrace { streams, threads, assembler, budget, blocks, .. } = self;
        let Some(stream) = &mut streams[number] else { return Ok(()) };
        let item = stream.next(budget)?;
        if let Item::Instruction { .. } | Item::Data { .. } | Item::SystemCall(_) = item {
            let Some((asid, thread)) = threads.of(stream.process, stream.thread) else {
                return Err(stream.bad("more threads than a trace may have"));
            };
            assembler.switch(asid, thread, chunk);
        }
        match item {
            Item::Instruction { pc, len, is_branch } => {
                assembler.coded_instruction(pc, len, stream.code(), chunk);
                if is_branch {
                    assembler.end_block();
                }
                if assembler.table().len() > *blocks {
                    return Err(stream.bad("more distinct blocks of code than a trace of this length has"));
                }
            }
            Item::Data { kind, addr, size } => assembler.data(kind, addr, size.into(), chunk),
            Item::SystemCall(number) => assembler.event(Event::SystemCall(number as u32), chunk),
            Item::Time(time) => {
                if self.waiting.peek().is_some_and(|Reverse((first, _))| *first < time) {
                    self.waiting.push(Reverse((time, number)));
                    self.take_turn();
                }
            }
            Item::Thread => {}
            Item::End => {
                self.end(number);
                self.take_turn();
            }
        }
        Ok(())
    }
}

impl Source for DrMemtrace {
    fn fill(&mut self, chunk: &mut Chunk) -> Result<bool, TraceError> {
        chunk.clear();
        while let Some(number) = self.active
            && chunk.refs.len() + self.assembler.pending() < CHUNK_REFS
            && chunk.events.len() < CHUNK_EVENTS
        {
            if let Err(damage) = self.append(number, chunk) {
                self.lose(number, damage)?;
                self.take_turn();
            }
        }
        if self.active.is_none() {
            self.assembler.flush(chunk);
        }
        self.given += chunk.refs.len() as u64;
        for missing in &mut self.missing {
            if let Part::Rest { read, .. } = &mut missing.part {
                *read = self.given;
            }
        }
        match &self.missing[..] {
            [missing, ..] if self.given == 0 && self.active.is_none() => Err(TraceError::Incomplete(missing.clone())),
            _ => Ok(!chunk.is_empty()),
        }
    }

    fn blocks(&self) -> &BlockTable {
        self.assembler.table()
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn progress(&self) -> Progress {
        let open: u64 = self.streams.iter().flatten().map(|stream| stream.input.progress().done).sum();
        Progress { done: self.ended + open, total: (self.len > 0).then_some(self.len) }
    }

    fn ending(&mut self) -> Ending {
        let gaps: Vec<_> = self.streams.iter().flatten().filter_map(|stream| stream.gap).collect();
        gaps.into_iter().for_each(|why| self.note_gap(why));
        Ending { missing: self.missing.clone(), ..Ending::default() }
    }
}
