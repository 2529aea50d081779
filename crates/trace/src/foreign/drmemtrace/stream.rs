//! One file of a drmemtrace trace: what its records mean.

use super::record::{self, MAX_INSTRUCTION_BYTES, Record, file_type, kind, marker};
use crate::TraceError;
use crate::foreign::input::Input;
use crate::foreign::threads::MAX_THREADS;
use reach_core::Kind;
use std::collections::HashMap;
use std::io::ErrorKind;

/// What to do about damage.
const FETCH_AGAIN: &str = "fetch the trace again, or trace again";

/// What a file says next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item {
    /// An instruction was fetched. [`Stream::code`] is its code.
    Instruction {
        /// The address.
        pc: u64,
        /// The length in bytes.
        len: u8,
        /// Whether it is a branch.
        is_branch: bool,
    },
    /// The last instruction accesses memory.
    Data {
        /// A load or a store.
        kind: Kind,
        /// The address.
        addr: u64,
        /// The size in bytes; may be 0.
        size: u16,
    },
    /// What follows happened at this time, in microseconds.
    Time(u64),
    /// The last instruction called the system, by this number.
    SystemCall(u64),
    /// What follows is that of [`Stream::thread`] and [`Stream::process`].
    Thread,
    /// The file ends.
    End,
}

/// The code of an instruction.
#[derive(Clone, Copy, Default)]
struct Code {
    bytes: [u8; MAX_INSTRUCTION_BYTES],
    len: u8,
}

/// Instructions whose length alone is given, by their bundle.
#[derive(Clone, Copy, Default)]
struct Bundle {
    lengths: [u8; 8],
    next: usize,
    end: usize,
}

/// A file that is being read.
pub struct Stream {
    pub(super) input: Input,
    /// The place of the next record in the decompressed content, in bytes.
    at: u64,
    /// What was read before its turn.
    held: Option<Item>,
    /// The thread, by the number that Linux gave it.
    pub thread: u64,
    /// The process, by the number that Linux gave it.
    pub process: u64,
    /// The processes of the threads so far: a thread has its process named the first time only.
    processes: HashMap<u64, u64>,
    file_type: u64,
    /// The code of the instructions so far, by address.
    encodings: HashMap<u64, Code>,
    /// The code of the next instruction, as far as it was read.
    upcoming: Code,
    /// The code of the last instruction.
    present: Code,
    bundle: Bundle,
    /// The address of the last instruction, fetched or not.
    last: Option<u64>,
    /// The address after the last instruction.
    after: u64,
    /// The number of the present chunk.
    chunk: u64,
    /// The number of the present window, once a marker gave one.
    window: Option<u64>,
    /// Whether the last record was the one that ends files.
    footer: bool,
    /// Why references between those of the file are missing; `None` where none are.
    pub gap: Option<&'static str>,
}

impl Stream {
    /// Reads the first record and verifies that it is that of a version that Reach reads.
    pub fn new(input: Input) -> Result<Stream, TraceError> {
        let mut stream = Stream {
            input,
            at: 0,
            held: None,
            thread: 0,
            process: 0,
            processes: HashMap::new(),
            file_type: 0,
            encodings: HashMap::new(),
            upcoming: Code::default(),
            present: Code::default(),
            bundle: Bundle::default(),
            last: None,
            after: 0,
            chunk: 0,
            window: None,
            footer: false,
            gap: None,
        };
        match stream.record()? {
            Some(header) if header.kind == kind::HEADER => stream.check_version(header.value)?,
            _ => return Err(stream.damaged("no header of drmemtrace", FETCH_AGAIN)),
        }
        Ok(stream)
    }

    fn check_version(&self, version: u64) -> Result<(), TraceError> {
        let newest = record::NEWEST;
        if (1..=newest).contains(&version) {
            return Ok(());
        }
        let what = if version >> 32 != 0 && version as u32 as u64 <= newest {
            "the records of a 32-bit program; expected those of 64 bits".to_owned()
        } else {
            format!("version {version} of drmemtrace; expected 1 to {newest}")
        };
        let todo = "trace again with a DynamoRIO that writes one of these";
        Err(self.input.damaged(&what, self.at - record::BYTES as u64, todo))
    }

    /// Reads up to the first time or reference. Returns the time, 0 without one: when the turn of the file comes first.
    pub fn first_time(&mut self, budget: &mut usize) -> Result<u64, TraceError> {
        loop {
            match self.next(budget)? {
                Item::Thread => {}
                Item::Time(time) => return Ok(time),
                item => {
                    self.held = Some(item);
                    return Ok(0);
                }
            }
        }
    }

    /// Returns the code of the last instruction; empty where it is unknown.
    pub fn code(&self) -> &[u8] {
        &self.present.bytes[..self.present.len as usize]
    }

    /// Returns the next item. `budget` is the number of instructions whose code may still be kept.
    pub fn next(&mut self, budget: &mut usize) -> Result<Item, TraceError> {
        if let Some(item) = self.held.take() {
            return Ok(item);
        }
        loop {
            if self.bundle.next < self.bundle.end {
                let len = self.bundle.lengths[self.bundle.next];
                self.bundle.next += 1;
                return self.instruction(self.after, len.into(), false, budget);
            }
            let Some(record) = self.record()? else { return self.end() };
            self.footer = record.kind == kind::FOOTER;
            match record.kind {
                _ if record.is_fetched() && record.size > 0 => {
                    return self.instruction(record.value, record.size, record.is_branch(), budget);
                }
                // Filtered traces name the instruction of an access without its being fetched.
                _ if record.is_fetched() => self.last = Some(record.value),
                kind::MAYBE_FETCHED if self.last != Some(record.value) && record.size > 0 => {
                    return self.instruction(record.value, record.size, false, budget);
                }
                // A repeated string instruction is fetched once, and is one instruction.
                kind::MAYBE_FETCHED | kind::NOT_FETCHED => {
                    self.last = Some(record.value);
                    self.upcoming.len = 0;
                }
                kind::READ => return Ok(Item::Data { kind: Kind::Load, addr: record.value, size: record.size }),
                kind::WRITE => return Ok(Item::Data { kind: Kind::Store, addr: record.value, size: record.size }),
                kind::ENCODING => self.encoding(record)?,
                kind::BUNDLE if (1..=8).contains(&record.size) => {
                    self.bundle = Bundle { lengths: record.value.to_le_bytes(), next: 0, end: record.size.into() };
                }
                kind::BUNDLE => return Err(self.bad("a bundle of instructions that are not 1 to 8")),
                kind::THREAD => {
                    self.thread = record.value;
                    self.process = self.processes.get(&record.value).copied().unwrap_or(0);
                    return Ok(Item::Thread);
                }
                kind::PROCESS => {
                    self.process = record.value;
                    self.processes.insert(self.thread, record.value);
                    if self.processes.len() > MAX_THREADS {
                        return Err(self.bad("more threads than a trace may have"));
                    }
                    return Ok(Item::Thread);
                }
                kind::HEADER => {
                    self.check_version(record.value)?;
                    self.chunk = 0;
                }
                kind::MARKER => {
                    if let Some(item) = self.marker(record)? {
                        return Ok(item);
                    }
                }
                kind::END.. => return Err(self.bad(&format!("a record of type {}, which does not exist", record.kind))),
                // Prefetches and flushes by instructions, which are no references, and ends of threads.
                _ => {}
            }
        }
    }

    /// Returns the item of a marker; `None` where it changes nothing for a simulation.
    fn marker(&mut self, record: Record) -> Result<Option<Item>, TraceError> {
        let value = record.value;
        match record.size {
            marker::TIMESTAMP => return Ok(Some(Item::Time(value))),
            marker::SYSTEM_CALL if self.calls_system() => return Ok(Some(Item::SystemCall(value))),
            marker::FILE_TYPE => {
                self.file_type = value;
                if value & file_type::FILTERED != 0 {
                    self.gap = Some("its tracer left out what small caches of its own held (a filtered trace)");
                } else if value & file_type::NO_DATA != 0 {
                    self.gap = Some("its tracer recorded instructions only, without loads and stores");
                }
            }
            marker::VERSION => self.check_version(value)?,
            marker::WINDOW => {
                if self.window.is_some_and(|window| window != value) {
                    self.gap = Some("its tracer recorded windows of the program, with nothing between them");
                }
                self.window = Some(value);
            }
            marker::CHUNK_FOOTER => {
                if value != self.chunk {
                    let what = format!("the end of chunk {value} where that of chunk {} was expected", self.chunk);
                    return Err(self.bad(&what));
                }
                self.chunk += 1;
            }
            _ => {}
        }
        Ok(None)
    }

    /// Returns whether markers of system calls have Linux's numbers on x86-64, and the kernel's own instructions do not
    /// follow.
    fn calls_system(&self) -> bool {
        self.file_type & file_type::X86_64 != 0 && self.file_type & file_type::KERNEL == 0
    }

    /// Takes a piece of the next instruction's code.
    fn encoding(&mut self, record: Record) -> Result<(), TraceError> {
        let (have, more) = (self.upcoming.len as usize, record.size as usize);
        if more > 8 || have + more > MAX_INSTRUCTION_BYTES {
            return Err(self.bad("the code of an instruction that is longer than 15 bytes"));
        }
        self.upcoming.bytes[have..have + more].copy_from_slice(&record.value.to_le_bytes()[..more]);
        self.upcoming.len += more as u8;
        Ok(())
    }

    fn instruction(&mut self, pc: u64, size: u16, is_branch: bool, budget: &mut usize) -> Result<Item, TraceError> {
        let len = size as u8;
        if size == 0 || size as usize > MAX_INSTRUCTION_BYTES {
            return Err(self.bad(&format!("an instruction of {size} bytes; expected 1 to {MAX_INSTRUCTION_BYTES}")));
        }
        let code = std::mem::take(&mut self.upcoming);
        if self.file_type & (file_type::X86_64 | file_type::REGISTERS_ONLY) != file_type::X86_64 {
            self.present.len = 0;
        } else if code.len == 0 {
            self.present = self.encodings.get(&pc).copied().filter(|known| known.len == len).unwrap_or_default();
        } else if code.len != len {
            return Err(self.bad(&format!("{} bytes of code for an instruction of {len}", code.len)));
        } else {
            if self.encodings.insert(pc, code).is_none() {
                *budget = budget
                    .checked_sub(1)
                    .ok_or_else(|| self.bad("more distinct instructions than a trace of this length has"))?;
            }
            self.present = code;
        }
        (self.last, self.after) = (Some(pc), pc.wrapping_add(len.into()));
        Ok(Item::Instruction { pc, len, is_branch })
    }

    /// Ends the file. Fails where the record is missing that ends files.
    fn end(&mut self) -> Result<Item, TraceError> {
        if self.footer {
            return Ok(Item::End);
        }
        let what = "the last record does not end the file, so the tracer was killed or the file was cut,";
        Err(self.damaged(what, FETCH_AGAIN))
    }

    /// Returns the number of instructions whose code is kept, and forgets it.
    pub fn release(&mut self) -> usize {
        std::mem::take(&mut self.encodings).len()
    }

    /// Reads the next record; `None` at the end of the content.
    fn record(&mut self) -> Result<Option<Record>, TraceError> {
        let ready = match self.input.content.fill_buf() {
            Ok(buf) => buf.first_chunk().map(Record::parse),
            Err(error) if error.kind() == ErrorKind::Interrupted => None,
            Err(error) => return Err(self.input.read_error(error, self.at)),
        };
        if let Some(record) = ready {
            self.input.content.consume(record::BYTES);
            self.at += record::BYTES as u64;
            return Ok(Some(record));
        }
        // The record lies across the end of a buffer.
        let (mut bytes, mut got) = ([0; record::BYTES], 0);
        while got < bytes.len() {
            match self.input.content.read(&mut bytes[got..]) {
                Ok(0) if got == 0 => return Ok(None),
                Ok(0) => return Err(self.damaged("the last record is cut short", FETCH_AGAIN)),
                Ok(n) => got += n,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(self.input.read_error(error, self.at + got as u64)),
            }
        }
        self.at += record::BYTES as u64;
        Ok(Some(Record::parse(&bytes)))
    }

    /// Returns the error for damage in the last record.
    pub fn bad(&self, what: &str) -> TraceError {
        self.input.damaged(what, self.at - record::BYTES as u64, FETCH_AGAIN)
    }

    /// Returns the error for damage after the last record.
    fn damaged(&self, what: &str, todo: &str) -> TraceError {
        self.input.damaged(what, self.at, todo)
    }
}
