//! Writes drmemtrace's records, into one file. Several threads take turns in it, as they do on one core.
//!
//! With the code of all instructions, the trace has encodings, kinds of branches and their targets (version 5). Without, all
//! instructions but jumps are plain (version 4). Reach's traces have no clock: time goes by one microsecond every
//! 1,000 instructions. A trace of which a part is missing gets no footer, so that it does not pass for whole.

use super::instructions::{Flow, Instruction};
use super::unroll::{Executed, Sink, signed};
use crate::foreign::drmemtrace::record::{Record, file_type, kind, marker};
use reach_core::{Asid, Kind, ThreadId};
use std::collections::{BTreeSet, HashMap};
use std::io::{self, Write};

/// The line size and the page size that the trace states, in bytes.
const LINE: u64 = 64;
const PAGE: u64 = 4096;

/// Instructions per microsecond.
const SPEED: u64 = 1000;

/// What the header of a trace says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features {
    /// Whether the code of all instructions is known.
    pub has_code: bool,
    /// Whether it has several threads.
    pub has_threads: bool,
}

/// Writes records to `out`.
pub struct DrMemtraceWriter<W> {
    pub out: W,
    features: Features,
    /// The code that was written last, by address: it is written again only where it changes.
    code: HashMap<u64, Box<[u8]>>,
    threads: BTreeSet<u32>,
    instructions: u64,
}

impl<W: Write> DrMemtraceWriter<W> {
    /// Writes the header.
    pub fn new(out: W, features: Features) -> io::Result<DrMemtraceWriter<W>> {
        let threads = BTreeSet::new();
        let mut writer = DrMemtraceWriter { out, features, code: HashMap::new(), threads, instructions: 0 };
        let version = if features.has_code { 5 } else { 4 };
        let mut file_type = file_type::X86_64 | file_type::SYSTEM_CALL_NUMBERS;
        if features.has_code {
            file_type |= file_type::ENCODINGS;
        }
        if features.has_threads {
            file_type |= file_type::CORES;
        }
        writer.record(kind::HEADER, 0, version)?;
        writer.marker(marker::VERSION, version)?;
        writer.marker(marker::FILE_TYPE, file_type)?;
        Ok(writer)
    }

    /// Writes the end of the trace, which is not that of the program if `is_whole` is false. Returns the output.
    pub fn finish(mut self, is_whole: bool) -> io::Result<W> {
        if is_whole {
            for thread in std::mem::take(&mut self.threads) {
                self.record(kind::THREAD_EXIT, 4, linuxs(thread))?;
            }
            self.record(kind::FOOTER, 0, 0)?;
        }
        Ok(self.out)
    }

    fn record(&mut self, kind: u16, size: u16, value: u64) -> io::Result<()> {
        self.out.write_all(&Record { kind, size, value }.bytes())
    }

    fn marker(&mut self, marker: u16, value: u64) -> io::Result<()> {
        self.record(kind::MARKER, marker, value)
    }

    /// Writes the code of an instruction if the trace does not have it.
    fn encoding(&mut self, pc: u64, code: &[u8]) -> io::Result<()> {
        if !self.features.has_code || self.code.get(&pc).is_some_and(|known| **known == *code) {
            return Ok(());
        }
        self.code.insert(pc, code.into());
        for piece in code.chunks(8) {
            let mut value = [0; 8];
            value[..piece.len()].copy_from_slice(piece);
            self.record(kind::ENCODING, piece.len() as u16, u64::from_le_bytes(value))?;
        }
        Ok(())
    }

    /// Writes the instruction as one that was fetched.
    fn fetched(&mut self, instruction: &Instruction, executed: &Executed) -> io::Result<()> {
        let (pc, len) = (signed(instruction.pc), u16::from(instruction.len));
        let is_next = executed.next == instruction.pc + u64::from(instruction.len);
        self.encoding(pc, executed.code)?;
        if self.features.has_code && instruction.flow.is_indirect() {
            self.marker(marker::BRANCH_TARGET, signed(executed.next))?;
        }
        let kind = match instruction.flow {
            Flow::Next => kind::INSTRUCTION,
            Flow::Unknown if is_next => kind::INSTRUCTION,
            Flow::Jump | Flow::Unknown => kind::DIRECT_JUMP,
            Flow::IndirectJump => kind::INDIRECT_JUMP,
            Flow::Conditional if !self.features.has_code => kind::CONDITIONAL_JUMP,
            Flow::Conditional if is_next => kind::UNTAKEN_JUMP,
            Flow::Conditional => kind::TAKEN_JUMP,
            Flow::Call => kind::DIRECT_CALL,
            Flow::IndirectCall => kind::INDIRECT_CALL,
            Flow::Return => kind::RETURN,
        };
        self.instructions += 1;
        self.record(kind, len, pc)
    }
}

impl<W: Write> Sink for DrMemtraceWriter<W> {
    fn thread(&mut self, asid: Asid, thread: ThreadId) -> io::Result<()> {
        self.record(kind::THREAD, 4, linuxs(thread.0))?;
        self.record(kind::PROCESS, 4, linuxs(asid.0))?;
        if self.threads.is_empty() {
            self.marker(marker::CACHE_LINE, LINE)?;
            self.marker(marker::PAGE_SIZE, PAGE)?;
        }
        self.threads.insert(thread.0);
        self.marker(marker::TIMESTAMP, 1 + self.instructions / SPEED)?;
        self.marker(marker::CPU, 0)
    }

    fn system_call(&mut self, number: u32) -> io::Result<()> {
        self.marker(marker::SYSTEM_CALL, number.into())
    }

    fn instruction(&mut self, executed: &Executed) -> io::Result<()> {
        let repeats = match executed.instruction {
            Some(instruction) => {
                if !executed.again {
                    self.fetched(instruction, executed)?;
                }
                instruction.repeats
            }
            None => 0,
        };
        for (i, access) in executed.accesses.iter().enumerate() {
            // Each repetition has a record of its own, which is no fetch.
            if let Some(instruction) = executed.instruction
                && repeats > 0
                && i > 0
                && i % usize::from(repeats) == 0
            {
                self.record(kind::NOT_FETCHED, instruction.len.into(), signed(instruction.pc))?;
            }
            let kind = if access.kind() == Kind::Load { kind::READ } else { kind::WRITE };
            self.record(kind, access.size() as u16, signed(access.addr().0))?;
        }
        Ok(())
    }
}

/// Returns the number of a thread or process as Linux may give it: not 0.
fn linuxs(number: u32) -> u64 {
    u64::from(number) + 1
}
