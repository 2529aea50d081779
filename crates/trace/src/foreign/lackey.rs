//! The text output of `valgrind --tool=lackey --trace-mem=yes`, plain or compressed (xz, gzip, zstd).
//!
//! Each line is an instruction or an access: `I  04001090,3`, ` L 1ffeffe7e0,8`, ` S 1ffeffe7d8,8`, and ` M` for a load and a
//! store of the same place. Addresses are hexadecimal, sizes decimal. Accesses follow their instruction. Of valgrind's own
//! messages (`==PID==`), the reader uses those at the beginning and end of a process, to tell whether the trace is whole, and
//! the one on a fatal signal. Lackey prints `Exit code: 0` whatever the program's exit status was.

use super::CHUNK_REFS;
use super::assembler::Assembler;
use super::input::Input;
use super::valgrind::Messages;
use crate::{Ending, Progress, Source, TraceError};
use reach_core::{BlockTable, Chunk, Kind};
use std::io::BufRead;
use std::path::Path;

/// The most bytes of a line. Lackey's lines are shorter.
const MAX_LINE_BYTES: usize = 4096;

/// Reads a lackey trace.
pub struct Lackey {
    input: Input,
    /// The place of the present line in the decompressed content, in bytes.
    at: u64,
    line: Vec<u8>,
    assembler: Assembler,
    messages: Messages,
    ended: bool,
}

impl Lackey {
    /// Opens the file `path`. Fails with [`TraceError::Io`] where it cannot be read.
    pub fn open(path: impl AsRef<Path>) -> Result<Lackey, TraceError> {
        Ok(Lackey::with_input(Input::open(path.as_ref())?))
    }

    /// Reads lines from `content`, which error messages call `path`.
    pub fn new(content: impl BufRead + Send + 'static, path: impl AsRef<Path>) -> Lackey {
        Lackey::with_input(Input::new(content, path.as_ref()))
    }

    fn with_input(input: Input) -> Lackey {
        Lackey {
            input,
            at: 0,
            line: Vec::new(),
            assembler: Assembler::default(),
            messages: Messages::default(),
            ended: false,
        }
    }

    /// Returns whether content that starts with `start` is a lackey trace.
    pub(crate) fn recognises(start: &[u8]) -> bool {
        start
            .split(|&b| b == b'\n')
            .take(200)
            .any(|line| matches!(parse(line), Some(Line::Instruction(..) | Line::Data(..))))
            && !start.contains(&0)
    }

    /// Reads the next line and appends what it says to `chunk`. Returns `false` at the end of the file.
    fn read_line(&mut self, chunk: &mut Chunk) -> Result<bool, TraceError> {
        if !self.next_line()? {
            return Ok(false);
        }
        match parse(&self.line) {
            Some(Line::Instruction(pc, len)) => self.assembler.instruction(pc, len, chunk),
            Some(Line::Data(kind, addr, size)) => {
                if kind != b'S' {
                    self.assembler.data(Kind::Load, addr, size);
                }
                if kind != b'L' {
                    self.assembler.data(Kind::Store, addr, size);
                }
            }
            Some(Line::Message) => self.messages.read(&self.line),
            None => return Err(self.damaged("a line that lackey does not write")),
        }
        self.at += self.line.len() as u64 + 1;
        Ok(true)
    }

    /// Verifies that the content so far is in proportion to the file.
    fn check(&self) -> Result<(), TraceError> {
        if self.messages.are_too_many() {
            return Err(self.damaged("more processes than a trace may have"));
        }
        self.input.check_blocks(self.assembler.table(), self.at)
    }

    fn damaged(&self, what: &str) -> TraceError {
        let todo = "keep lackey's output apart from the program's with valgrind's --log-file and trace again";
        self.input.damaged(what, self.at, todo)
    }

    /// Reads the next line into `self.line`, without the line feed. Returns `false` at the end of the file. Fails where the
    /// last line has no line feed: valgrind ends each line with one.
    fn next_line(&mut self) -> Result<bool, TraceError> {
        self.line.clear();
        loop {
            let buf = match self.input.content.fill_buf() {
                Ok([]) if self.line.is_empty() => return Ok(false),
                Ok([]) => return Err(self.input.damaged("the last line is cut short", self.at, "trace again")),
                Ok(buf) => buf,
                Err(source) => return Err(self.input.read_error(source, self.at + self.line.len() as u64)),
            };
            let end = memchr::memchr(b'\n', buf);
            let take = end.unwrap_or(buf.len());
            if self.line.len() + take > MAX_LINE_BYTES {
                return Err(self.damaged("a line that is too long for lackey"));
            }
            self.line.extend_from_slice(&buf[..take]);
            self.input.content.consume(take + end.is_some() as usize);
            if end.is_some() {
                return Ok(true);
            }
        }
    }
}

/// A line of the trace.
enum Line {
    /// The address and the length in bytes.
    Instruction(u64, u8),
    /// The letter of the kind, the address and the size in bytes.
    Data(u8, u64, u32),
    /// A message of valgrind, or an empty line.
    Message,
}

/// Returns `None` where the line is not lackey's.
fn parse(line: &[u8]) -> Option<Line> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    match line {
        [b'I', b' ', b' ', rest @ ..] => {
            let (addr, size) = parse_place(rest)?;
            (1..=64).contains(&size).then_some(Line::Instruction(addr, size as u8))
        }
        [b' ', kind @ (b'L' | b'S' | b'M'), b' ', rest @ ..] => {
            let (addr, size) = parse_place(rest)?;
            (1..=1 << 16).contains(&size).then_some(Line::Data(*kind, addr, size))
        }
        [] | [b'=', b'=', ..] | [b'-', b'-', ..] | [b'*', b'*', ..] => Some(Line::Message),
        _ => None,
    }
}

/// Parses `hexadecimal,decimal` as an address and a size. Returns `None` for other text.
fn parse_place(text: &[u8]) -> Option<(u64, u32)> {
    let comma = memchr::memchr(b',', text)?;
    let (addr, size) = (&text[..comma], &text[comma + 1..]);
    if addr.is_empty() || addr.len() > 16 || size.is_empty() || size.len() > 6 {
        return None;
    }
    let mut address = 0u64;
    for &b in addr {
        address = address << 4 | (b as char).to_digit(16)? as u64;
    }
    let mut bytes = 0u32;
    for &b in size {
        bytes = bytes * 10 + (b as char).to_digit(10)?;
    }
    Some((address, bytes))
}

impl Source for Lackey {
    fn fill(&mut self, chunk: &mut Chunk) -> Result<bool, TraceError> {
        chunk.clear();
        self.assembler.start(chunk);
        while !self.ended && chunk.refs.len() + self.assembler.pending() < CHUNK_REFS {
            match self.read_line(chunk).and_then(|more| self.check().map(|()| more)) {
                Ok(more) => self.ended = !more,
                Err(damage) => {
                    self.input.end_by(damage)?;
                    self.ended = true;
                }
            }
        }
        if self.ended {
            self.assembler.flush(chunk);
            if self.input.missing.is_none() && !self.messages.all_ended() {
                let what = "valgrind's closing lines are missing, so it was killed or the file was cut";
                self.input.end_by(self.input.damaged(what, self.at, "trace again"))?;
            }
        }
        self.input.give(chunk.refs.len())?;
        Ok(!chunk.is_empty())
    }

    fn blocks(&self) -> &BlockTable {
        self.assembler.table()
    }

    fn name(&self) -> &str {
        &self.input.name
    }

    fn progress(&self) -> Progress {
        self.input.progress()
    }

    fn ending(&mut self) -> Ending {
        let missing: Vec<_> = self.input.missing.clone().into_iter().collect();
        let unknown = "it lacks valgrind's opening lines, so nothing tells whether it has its end";
        let uncertain = missing.is_empty() && !self.messages.any_began();
        Ending {
            uncertain: uncertain.then(|| unknown.to_owned()),
            missing,
            exits: self.messages.exit().map(Into::into).into_iter().collect(),
            ..Ending::default()
        }
    }
}
