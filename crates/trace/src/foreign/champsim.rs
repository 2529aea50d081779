//! ChampSim's standard traces: records of 64 bytes, plain or compressed (xz, gzip, zstd).
//!
//! A record is, little-endian: `ip` u64, `is_branch` u8, `branch_taken` u8, two destination and four source register
//! numbers (u8 each), two destination and four source memory addresses (u64 each; 0 is none). It tells neither the
//! length of an instruction nor the size of an access: the length is the distance to the next `ip` where the branch was
//! not taken and that distance is below 16, and 4 bytes otherwise; the size is 8 bytes. Loads stand before stores.
//! Addresses keep their low 48 bits.

use super::CHUNK_REFS;
use super::assembler::Assembler;
use super::input::Input;
use crate::{Progress, Source, TraceError};
use reach_core::{BlockTable, Chunk, Kind};
use std::io::{BufRead, ErrorKind, Read};
use std::path::Path;

const RECORD: usize = 64;
/// The longest instruction on x86 is 15 bytes.
const LONGEST_INSTRUCTION: u64 = 15;
const DEFAULT_LENGTH: u8 = 4;
const ACCESS_SIZE: u32 = 8;

/// A ChampSim trace.
pub struct ChampSim {
    input: Input,
    at: u64,
    /// The record whose length is known only once its successor is.
    held: Option<Record>,
    ended: bool,
    assembler: Assembler,
}

struct Record {
    ip: u64,
    taken: bool,
    stores: [u64; 2],
    loads: [u64; 4],
}

impl Record {
    fn parse(b: &[u8; RECORD]) -> Record {
        let word = |i: usize| u64::from_le_bytes(b[i..i + 8].try_into().expect("eight bytes"));
        Record {
            ip: word(0),
            taken: b[8] != 0 && b[9] != 0,
            stores: [16, 24].map(word),
            loads: [32, 40, 48, 56].map(word),
        }
    }
}

fn is_canonical(addr: u64) -> bool {
    let top = (addr as i64) >> 47;
    top == 0 || top == -1
}

impl ChampSim {
    /// Opens a ChampSim trace.
    pub fn open(path: impl AsRef<Path>) -> Result<ChampSim, TraceError> {
        Ok(ChampSim::of(Input::open(path.as_ref())?))
    }

    /// Reads records from `content`, which messages call `path`.
    pub fn new(content: impl BufRead + Send + 'static, path: impl AsRef<Path>) -> ChampSim {
        ChampSim::of(Input::new(content, path.as_ref()))
    }

    fn of(input: Input) -> ChampSim {
        ChampSim { input, at: 0, held: None, ended: false, assembler: Assembler::default() }
    }

    /// Whether content that starts so may be ChampSim's. The format has no magic number, so the records themselves must
    /// make sense: flags are 0 or 1, only branches are taken, addresses are canonical and instructions are somewhere.
    pub(crate) fn recognises(start: &[u8]) -> bool {
        let mut records = start.chunks_exact(RECORD).take(64).peekable();
        records.peek().is_some()
            && records.all(|b| {
                let record = Record::parse(b.try_into().expect("a whole record"));
                let addresses = record.stores.iter().chain(&record.loads);
                b[8] <= 1
                    && b[9] <= b[8]
                    && record.ip != 0
                    && is_canonical(record.ip)
                    && addresses.copied().all(is_canonical)
            })
    }

    /// The next record; `None` at the end.
    fn next(&mut self) -> Result<Option<Record>, TraceError> {
        let mut bytes = [0; RECORD];
        let mut got = 0;
        while got < RECORD {
            match self.input.content.read(&mut bytes[got..]) {
                Ok(0) => break,
                Ok(n) => got += n,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(source) => return Err(self.input.refused(source)),
            }
        }
        let what = match got {
            0 => return Ok(None),
            RECORD if bytes[8] > 1 || bytes[9] > 1 => "a record whose branch flags are neither 0 nor 1",
            RECORD => {
                self.at += RECORD as u64;
                return Ok(Some(Record::parse(&bytes)));
            }
            _ => "the last record is cut short",
        };
        Err(self.input.damaged(what, self.at, "fetch the trace again, or convert what stands before it"))
    }

    fn put(&mut self, record: &Record, next: Option<u64>, chunk: &mut Chunk) {
        let len = match next.map(|next| next.wrapping_sub(record.ip)) {
            Some(distance @ 1..=LONGEST_INSTRUCTION) if !record.taken => distance as u8,
            _ => DEFAULT_LENGTH,
        };
        self.assembler.instruction(record.ip, len, chunk);
        for (kind, addresses) in [(Kind::Load, &record.loads[..]), (Kind::Store, &record.stores[..])] {
            for &addr in addresses.iter().filter(|&&a| a != 0) {
                self.assembler.data(kind, addr, ACCESS_SIZE);
            }
        }
    }
}

impl Source for ChampSim {
    fn fill(&mut self, chunk: &mut Chunk) -> Result<bool, TraceError> {
        chunk.clear();
        self.assembler.start(chunk);
        while !self.ended && chunk.refs.len() + self.assembler.waiting() < CHUNK_REFS {
            let next = self.next()?;
            if let Some(held) = self.held.take() {
                self.put(&held, next.as_ref().map(|n| n.ip), chunk);
            }
            match next {
                Some(record) => self.held = Some(record),
                None => {
                    self.assembler.flush(chunk);
                    self.ended = true;
                }
            }
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
