//! The lines of text traces.

use super::input::Input;
use crate::TraceError;

/// The most bytes of a line. Lines of traces are shorter.
const MAX_BYTES: usize = 4096;

/// The lines of a text trace.
pub(super) struct Lines {
    pub input: Input,
    /// The place of the present line in the decompressed content, in bytes.
    pub at: u64,
    /// The present line, without its line feed.
    pub line: Vec<u8>,
    /// The bytes of the present line with its line feed; 0 before the first.
    len: u64,
    /// What to do about damage.
    todo: &'static str,
}

impl Lines {
    /// Reads lines from `input`. `todo` is what to do about lines that no tool writes.
    pub fn new(input: Input, todo: &'static str) -> Lines {
        Lines { input, at: 0, line: Vec::new(), len: 0, todo }
    }

    /// Reads the next line into [`Lines::line`]. Returns `false` at the end of the file. Fails where the last line has no line
    /// feed: the tools end each line with one.
    pub fn next(&mut self) -> Result<bool, TraceError> {
        self.at += self.len;
        self.len = 0;
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
            if self.line.len() + take > MAX_BYTES {
                return Err(self.damaged("a line that is too long for a trace"));
            }
            self.line.extend_from_slice(&buf[..take]);
            self.input.content.consume(take + end.is_some() as usize);
            if end.is_some() {
                self.len = self.line.len() as u64 + 1;
                return Ok(true);
            }
        }
    }

    /// Returns the error for damage in the present line.
    pub fn damaged(&self, what: &str) -> TraceError {
        self.input.damaged(what, self.at, self.todo)
    }
}

/// Parses up to 16 hexadecimal digits. Returns `None` for other text.
pub(super) fn hexadecimal(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 16 {
        return None;
    }
    text.iter().try_fold(0, |sum, &b| Some(sum << 4 | (b as char).to_digit(16)? as u64))
}

/// Parses a decimal number of up to `digits` digits (at most 18). Returns `None` for other text.
pub(super) fn decimal(text: &[u8], digits: usize) -> Option<u64> {
    if text.is_empty() || text.len() > digits {
        return None;
    }
    text.iter().try_fold(0, |sum, &b| Some(sum * 10 + (b as char).to_digit(10)? as u64))
}
