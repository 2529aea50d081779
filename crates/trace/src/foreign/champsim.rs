//! ChampSim's standard traces: records of 64 bytes, plain or compressed (xz, gzip, zstd).
//!
//! A record is, little-endian: `ip` u64, `is_branch` u8, `branch_taken` u8, two destination and four source register
//! numbers (u8 each), two destination and four source memory addresses (u64 each; 0 means no access).
//!
//! A record has neither the length of its instruction nor the sizes of its accesses. The reader takes the distance to the
//! next `ip` as the length if the instruction is no taken branch and the distance is below 16 bytes, else 4 bytes. It takes
//! 8 bytes as the size of each access. Loads come before stores. Addresses keep their low 48 bits.
//!
//! The format has no mark of its end: a file that was cut between two records passes for a whole one.

use super::CHUNK_REFS;
use super::assembler::Assembler;
use super::input::Input;
use crate::{Ending, Progress, Source, TraceError};
use reach_core::{BlockTable, Chunk, Kind};
use std::io::{BufRead, ErrorKind, Read};
use std::path::Path;

/// Bytes of a record.
const RECORD_BYTES: usize = 64;
/// The most bytes of an x86 instruction.
const MAX_INSTRUCTION_BYTES: u64 = 15;
/// The length in bytes of instructions whose successor does not give it.
const DEFAULT_LENGTH: u8 = 4;
/// The size in bytes of all accesses.
const ACCESS_SIZE: u32 = 8;

/// Reads a ChampSim trace.
pub struct ChampSim {
    input: Input,
    /// The place of the next record in the decompressed content, in bytes.
    at: u64,
    /// The last record. The length of its instruction is known once the next record is read.
    held: Option<ChampSimRecord>,
    ended: bool,
    assembler: Assembler,
}

struct ChampSimRecord {
    ip: u64,
    taken: bool,
    stores: [u64; 2],
    loads: [u64; 4],
}

impl ChampSimRecord {
    fn parse(b: &[u8; RECORD_BYTES]) -> ChampSimRecord {
        let word = |i: usize| u64::from_le_bytes(b[i..i + 8].try_into().expect("eight bytes"));
        ChampSimRecord {
            ip: word(0),
            taken: b[8] != 0 && b[9] != 0,
            stores: [16, 24].map(word),
            loads: [32, 40, 48, 56].map(word),
        }
    }
}

/// Returns whether an address has 48 bits, sign-extended.
fn is_canonical(addr: u64) -> bool {
    let top = (addr as i64) >> 47;
    top == 0 || top == -1
}

impl ChampSim {
    /// Opens the file `path`. Fails with [`TraceError::Io`] where it cannot be read.
    pub fn open(path: impl AsRef<Path>) -> Result<ChampSim, TraceError> {
        Ok(ChampSim::with_input(Input::open(path.as_ref())?))
    }

    /// Reads records from `content`, which error messages call `path`.
    pub fn new(content: impl BufRead + Send + 'static, path: impl AsRef<Path>) -> ChampSim {
        ChampSim::with_input(Input::new(content, path.as_ref()))
    }

    fn with_input(input: Input) -> ChampSim {
        ChampSim { input, at: 0, held: None, ended: false, assembler: Assembler::default() }
    }

    /// Returns whether content that starts with `start` may be a ChampSim trace. The format has no magic number, so this checks
    /// that records are plausible: flags are 0 or 1, only branches are taken, addresses are canonical, and `ip` is not 0.
    pub(crate) fn recognises(start: &[u8]) -> bool {
        let mut records = start.chunks_exact(RECORD_BYTES).take(64).peekable();
        records.peek().is_some()
            && records.all(|b| {
                let record = ChampSimRecord::parse(b.try_into().expect("a whole record"));
                let addresses = record.stores.iter().chain(&record.loads);
                b[8] <= 1
                    && b[9] <= b[8]
                    && record.ip != 0
                    && is_canonical(record.ip)
                    && addresses.copied().all(is_canonical)
            })
    }

    /// Reads the next record; `None` at the end.
    fn next_record(&mut self) -> Result<Option<ChampSimRecord>, TraceError> {
        let mut bytes = [0; RECORD_BYTES];
        let mut got = 0;
        while got < RECORD_BYTES {
            match self.input.content.read(&mut bytes[got..]) {
                Ok(0) => break,
                Ok(n) => got += n,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(source) => return Err(self.input.read_error(source, self.at + got as u64)),
            }
        }
        let what = match got {
            0 => return Ok(None),
            RECORD_BYTES if bytes[8] > 1 || bytes[9] > 1 => "a record whose branch flags are neither 0 nor 1",
            RECORD_BYTES => {
                self.at += RECORD_BYTES as u64;
                return Ok(Some(ChampSimRecord::parse(&bytes)));
            }
            _ => "the last record is cut short",
        };
        Err(self.input.damaged(what, self.at, "fetch the trace again, or convert the part before it"))
    }

    /// Appends a record. `next` is the `ip` of the next record; `None` at the end.
    fn append(&mut self, record: &ChampSimRecord, next: Option<u64>, chunk: &mut Chunk) {
        let len = match next.map(|next| next.wrapping_sub(record.ip)) {
            Some(distance @ 1..=MAX_INSTRUCTION_BYTES) if !record.taken => distance as u8,
            _ => DEFAULT_LENGTH,
        };
        self.assembler.instruction(record.ip, len, chunk);
        for (kind, addresses) in [(Kind::Load, &record.loads[..]), (Kind::Store, &record.stores[..])] {
            for &addr in addresses.iter().filter(|&&a| a != 0) {
                self.assembler.data(kind, addr, ACCESS_SIZE, chunk);
            }
        }
    }
}

impl Source for ChampSim {
    fn fill(&mut self, chunk: &mut Chunk) -> Result<bool, TraceError> {
        chunk.clear();
        self.assembler.start(chunk);
        while !self.ended && chunk.refs.len() + self.assembler.pending() < CHUNK_REFS {
            let next = match self.next_record().and_then(|next| {
                self.input.check_blocks(self.assembler.table(), self.at)?;
                Ok(next)
            }) {
                Ok(next) => next,
                Err(damage) => {
                    self.input.end_by(damage)?;
                    None
                }
            };
            if let Some(held) = self.held.take() {
                self.append(&held, next.as_ref().map(|n| n.ip), chunk);
            }
            match next {
                Some(record) => self.held = Some(record),
                None => {
                    self.assembler.flush(chunk);
                    self.ended = true;
                }
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
        let unknown = "ChampSim traces have no mark of their end, so one that was cut between two records looks whole";
        Ending { uncertain: missing.is_empty().then(|| unknown.to_owned()), missing, ..Ending::default() }
    }
}
