//! The text output of `valgrind --tool=lackey --trace-mem=yes`, plain or compressed (xz, gzip, zstd).
//!
//! Each line is an instruction or an access: `I  04001090,3`, ` L 1ffeffe7e0,8`, ` S 1ffeffe7d8,8`, and ` M` for a load and a
//! store of the same place. Addresses are hexadecimal, sizes decimal. Accesses follow their instruction. Of valgrind's own
//! messages (`==PID==`), the reader uses those at the beginning and end of a process, to tell whether the trace is whole, and
//! the one on a fatal signal. Lackey prints `Exit code: 0` whatever the program's exit status was.

use super::CHUNK_REFS;
use super::assembler::Assembler;
use super::input::Input;
use super::lines::{Lines, decimal, hexadecimal};
use super::valgrind::Messages;
use crate::{Ending, Progress, Source, TraceError};
use reach_core::{BlockTable, Chunk, Kind};
use std::io::BufRead;
use std::path::Path;

/// What to do about a line that lackey does not write.
const KEEP_APART: &str = "keep lackey's output apart from the program's with valgrind's --log-file and trace again";

/// Reads a lackey trace.
pub struct Lackey {
    lines: Lines,
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
            lines: Lines::new(input, KEEP_APART),
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
        if !self.lines.next()? {
            return Ok(false);
        }
        match parse(&self.lines.line) {
            Some(Line::Instruction(pc, len)) => self.assembler.instruction(pc, len, chunk),
            Some(Line::Data(kind, addr, size)) => {
                if kind != b'S' {
                    self.assembler.data(Kind::Load, addr, size, chunk);
                }
                if kind != b'L' {
                    self.assembler.data(Kind::Store, addr, size, chunk);
                }
            }
            Some(Line::Message) => self.messages.read(&self.lines.line),
            None => return Err(self.lines.damaged("a line that lackey does not write")),
        }
        Ok(true)
    }

    /// Verifies that the content so far is in proportion to the file.
    fn check(&self) -> Result<(), TraceError> {
        if self.messages.are_too_many() {
            return Err(self.lines.damaged("more processes than a trace may have"));
        }
        self.lines.input.check_blocks(self.assembler.table(), self.lines.at)
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
    Some((hexadecimal(addr)?, decimal(size, 6)? as u32))
}

impl Source for Lackey {
    fn fill(&mut self, chunk: &mut Chunk) -> Result<bool, TraceError> {
        chunk.clear();
        self.assembler.start(chunk);
        while !self.ended && chunk.refs.len() + self.assembler.pending() < CHUNK_REFS {
            match self.read_line(chunk).and_then(|more| self.check().map(|()| more)) {
                Ok(more) => self.ended = !more,
                Err(damage) => {
                    self.lines.input.end_by(damage)?;
                    self.ended = true;
                }
            }
        }
        if self.ended {
            self.assembler.flush(chunk);
            if self.lines.input.missing.is_none() && !self.messages.all_ended() {
                let what = "valgrind's closing lines are missing, so it was killed or the file was cut";
                self.lines.input.end_by(self.lines.input.damaged(what, self.lines.at, "trace again"))?;
            }
        }
        self.lines.input.give(chunk.refs.len())?;
        Ok(!chunk.is_empty())
    }

    fn blocks(&self) -> &BlockTable {
        self.assembler.table()
    }

    fn name(&self) -> &str {
        &self.lines.input.name
    }

    fn progress(&self) -> Progress {
        self.lines.input.progress()
    }

    fn ending(&mut self) -> Ending {
        let missing: Vec<_> = self.lines.input.missing.clone().into_iter().collect();
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
