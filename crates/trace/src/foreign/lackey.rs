//! Text that `valgrind --tool=lackey --trace-mem=yes` writes, plain or compressed (xz, gzip, zstd).
//!
//! One line an instruction or access: `I  04001090,3`, ` L 1ffeffe7e0,8`, ` S 1ffeffe7d8,8`, and ` M` for a load and a
//! store of the same place; addresses are hexadecimal, sizes decimal. Accesses follow their instruction. Valgrind's own
//! messages (`==PID==`) are passed over.

use super::CHUNK_REFS;
use super::assembler::Assembler;
use super::input::Input;
use crate::{Progress, Source, TraceError};
use reach_core::{BlockTable, Chunk, Kind};
use std::io::BufRead;
use std::path::Path;

/// A longer line is not lackey's.
const LONGEST_LINE: usize = 4096;

/// A lackey trace.
pub struct Lackey {
    input: Input,
    at: u64,
    line: Vec<u8>,
    assembler: Assembler,
}

impl Lackey {
    /// Opens a lackey trace.
    pub fn open(path: impl AsRef<Path>) -> Result<Lackey, TraceError> {
        Ok(Lackey::of(Input::open(path.as_ref())?))
    }

    /// Reads lines from `content`, which messages call `path`.
    pub fn new(content: impl BufRead + Send + 'static, path: impl AsRef<Path>) -> Lackey {
        Lackey::of(Input::new(content, path.as_ref()))
    }

    fn of(input: Input) -> Lackey {
        Lackey { input, at: 0, line: Vec::new(), assembler: Assembler::default() }
    }

    /// Whether text that starts so is lackey's.
    pub(crate) fn recognises(start: &[u8]) -> bool {
        start
            .split(|&b| b == b'\n')
            .take(200)
            .any(|line| matches!(parse(line), Some(Line::Instruction(..) | Line::Data(..))))
            && !start.contains(&0)
    }

    fn damaged(&self, what: &str) -> TraceError {
        let todo = "keep lackey's output apart from the program's with valgrind's --log-file and trace again";
        self.input.damaged(what, self.at, todo)
    }

    /// Reads the next line into `self.line`, without its end; `false` at the end of the file.
    fn next_line(&mut self) -> Result<bool, TraceError> {
        self.line.clear();
        loop {
            let buf = match self.input.content.fill_buf() {
                Ok([]) => return Ok(!self.line.is_empty()),
                Ok(buf) => buf,
                Err(source) => return Err(self.input.refused(source)),
            };
            let end = memchr::memchr(b'\n', buf);
            let take = end.unwrap_or(buf.len());
            if self.line.len() + take > LONGEST_LINE {
                return Err(self.damaged("a line that is far too long for lackey"));
            }
            self.line.extend_from_slice(&buf[..take]);
            self.input.content.consume(take + end.is_some() as usize);
            if end.is_some() {
                return Ok(true);
            }
        }
    }
}

enum Line {
    Instruction(u64, u8),
    Data(u8, u64, u32),
    Message,
}

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

/// `hexadecimal,decimal`
fn parse_place(text: &[u8]) -> Option<(u64, u32)> {
    let comma = memchr::memchr(b',', text)?;
    let (addr, size) = (&text[..comma], &text[comma + 1..]);
    if addr.is_empty() || addr.len() > 16 || size.is_empty() || size.len() > 6 {
        return None;
    }
    let mut a = 0u64;
    for &b in addr {
        a = a << 4 | (b as char).to_digit(16)? as u64;
    }
    let mut s = 0u32;
    for &b in size {
        s = s * 10 + (b as char).to_digit(10)?;
    }
    Some((a, s))
}

impl Source for Lackey {
    fn fill(&mut self, chunk: &mut Chunk) -> Result<bool, TraceError> {
        chunk.clear();
        self.assembler.start(chunk);
        while chunk.refs.len() + self.assembler.waiting() < CHUNK_REFS {
            if !self.next_line()? {
                self.assembler.flush(chunk);
                break;
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
                Some(Line::Message) => {}
                None => return Err(self.damaged("a line that lackey does not write")),
            }
            self.at += self.line.len() as u64 + 1;
        }
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
}
