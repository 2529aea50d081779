//! Reach's own text form of traces, for what other tools print: `docs/traces.md` shows how gem5's and Pin's output becomes it.
//!
//! A file begins with the line `# reach-text 1` and ends with the line `E`. Between them, each line is one of:
//!
//! ```text
//! T 1200 1201           what follows is of process 1200, thread 1201
//! I 401000 3 4889e5     an instruction at 0x401000, of 3 bytes; its code may follow
//! L 7ffe0010 8          a load of 8 bytes
//! S 7ffe0018 8          a store
//! # …                   a comment
//! ```
//!
//! Addresses and code are hexadecimal, all other numbers decimal. Accesses follow their instruction.

use super::CHUNK_REFS;
use super::assembler::Assembler;
use super::input::Input;
use super::lines::{Lines, decimal, hexadecimal};
use super::threads::Threads;
use crate::{Ending, Progress, Source, TraceError};
use reach_core::{Asid, BlockTable, Chunk, Kind, ThreadId};
use std::io::BufRead;
use std::path::Path;

/// The first line.
const FIRST: &[u8] = b"# reach-text 1\n";

/// The most bytes of an instruction. Those of x86 have up to 15.
const MAX_INSTRUCTION_BYTES: u64 = 64;

/// The most bytes of an access.
const MAX_ACCESS_BYTES: u64 = 1 << 16;

/// Reads a trace in text form.
pub struct Text {
    lines: Lines,
    assembler: Assembler,
    threads: Threads,
    /// The process and thread of what follows.
    current: (Asid, ThreadId),
    /// The code of the present instruction.
    code: Vec<u8>,
    /// Whether the line was read that ends a trace.
    closed: bool,
    ended: bool,
}

/// A line of the trace.
enum Line<'a> {
    Thread { process: u64, thread: u64 },
    Instruction { pc: u64, len: u8, code: &'a [u8] },
    Data { kind: Kind, addr: u64, size: u32 },
    Comment,
    End,
}

impl Text {
    /// Opens the file `path`. Fails with [`TraceError::Io`] where it cannot be read.
    pub fn open(path: impl AsRef<Path>) -> Result<Text, TraceError> {
        Ok(Text::with_input(Input::open(path.as_ref())?))
    }

    /// Reads lines from `content`, which error messages call `path`.
    pub fn new(content: impl BufRead + Send + 'static, path: impl AsRef<Path>) -> Text {
        Text::with_input(Input::new(content, path.as_ref()))
    }

    fn with_input(input: Input) -> Text {
        Text {
            lines: Lines::new(input, "write the line as docs/traces.md says"),
            assembler: Assembler::default(),
            threads: Threads::default(),
            current: (Asid(0), ThreadId(0)),
            code: Vec::new(),
            closed: false,
            ended: false,
        }
    }

    /// Returns whether content that starts with `start` is a trace in text form.
    pub(crate) fn recognises(start: &[u8]) -> bool {
        start.starts_with(FIRST)
    }

    /// Reads the next line and appends what it says to `chunk`. Returns `false` at the end of the trace.
    fn read_line(&mut self, chunk: &mut Chunk) -> Result<bool, TraceError> {
        if !self.lines.next()? {
            return match self.closed {
                true => Ok(false),
                false => Err(self.lines.damaged("the line E, which ends a trace, is missing")),
            };
        }
        let line = parse(&self.lines.line);
        match line {
            Some(_) if self.closed => return Err(self.lines.damaged("a line after E, which ends a trace")),
            Some(Line::Thread { process, thread }) => match self.threads.of(process, thread) {
                Some(current) => self.current = current,
                None => return Err(self.lines.damaged("more threads than a trace may have")),
            },
            Some(Line::Instruction { pc, len, code }) => {
                self.code.clear();
                for pair in code.chunks_exact(2) {
                    match hexadecimal(pair) {
                        Some(byte) => self.code.push(byte as u8),
                        None => return Err(self.lines.damaged("an instruction whose code is not hexadecimal")),
                    }
                }
                self.assembler.switch(self.current.0, self.current.1, chunk);
                self.assembler.coded_instruction(pc, len, &self.code, chunk);
                self.lines.input.check_blocks(self.assembler.table(), self.lines.at)?;
            }
            Some(Line::Data { kind, addr, size }) => {
                self.assembler.switch(self.current.0, self.current.1, chunk);
                self.assembler.data(kind, addr, size, chunk);
            }
            Some(Line::Comment) => {}
            Some(Line::End) => self.closed = true,
            None => return Err(self.lines.damaged("a line that is none of a trace in text form")),
        }
        Ok(true)
    }
}

/// Returns `None` where the line is none of a trace.
fn parse(line: &[u8]) -> Option<Line<'_>> {
    let line = line.trim_ascii();
    let mut words = line.split(|b| *b == b' ').filter(|word| !word.is_empty());
    let Some(first) = words.next() else { return Some(Line::Comment) };
    let mut next = || words.next();
    let address = |word: Option<&[u8]>| {
        let word = word?;
        hexadecimal(word.strip_prefix(b"0x").unwrap_or(word))
    };
    let parsed = match first {
        [b'#', ..] => return Some(Line::Comment),
        b"T" => Line::Thread { process: decimal(next()?, 18)?, thread: decimal(next()?, 18)? },
        b"I" => {
            let (pc, len) = (address(next())?, decimal(next()?, 6)?);
            let code = next().unwrap_or_default();
            let fits = code.is_empty() || code.len() as u64 == 2 * len;
            if !(1..=MAX_INSTRUCTION_BYTES).contains(&len) || !fits {
                return None;
            }
            Line::Instruction { pc, len: len as u8, code }
        }
        b"L" | b"S" => {
            let kind = if first == b"L" { Kind::Load } else { Kind::Store };
            let (addr, size) = (address(next())?, decimal(next()?, 6)?);
            if !(1..=MAX_ACCESS_BYTES).contains(&size) {
                return None;
            }
            Line::Data { kind, addr, size: size as u32 }
        }
        b"E" => Line::End,
        _ => return None,
    };
    next().is_none().then_some(parsed)
}

impl Source for Text {
    fn fill(&mut self, chunk: &mut Chunk) -> Result<bool, TraceError> {
        chunk.clear();
        while !self.ended
            && chunk.refs.len() + self.assembler.pending() < CHUNK_REFS
            && chunk.events.len() < super::CHUNK_EVENTS
        {
            match self.read_line(chunk) {
                Ok(more) => self.ended = !more,
                Err(damage) => {
                    self.lines.input.end_by(damage)?;
                    self.ended = true;
                }
            }
        }
        if self.ended {
            self.assembler.flush(chunk);
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
        Ending { missing: self.lines.input.missing.clone().into_iter().collect(), ..Ending::default() }
    }
}
