//! `random-reads`: reads random bytes of a block. Each address depends on the byte read before, so that the time of a read
//! is its latency (the test of latency in tinymembench 0.4.10, restated from its description).

use super::parameter::{MAX_BYTES, MAX_COUNT, Parameter, SEED, ValueKind, Values};
use super::process::{Code, Process, bodies, room, store};
use super::program::{Description, Program};
use crate::Progress;
use reach_core::{Chunk, Event, Kind, Random, Ref, VirtAddr};

pub(super) const ABOUT: Description = Description {
    name: "random-reads",
    summary: "reads random bytes of a block; each address depends on the byte before, to expose latency",
    parameters: &[
        Parameter {
            name: "bytes",
            kind: ValueKind::Bytes(64, MAX_BYTES),
            default: "64M",
            summary: "size of the memory",
        },
        Parameter {
            name: "block",
            kind: ValueKind::Bytes(0, MAX_BYTES),
            default: "0",
            summary: "the part at its beginning that is read; 0 for all of it",
        },
        Parameter {
            name: "pair",
            kind: ValueKind::Word(&["no", "yes"]),
            default: "no",
            summary: "read two bytes at once; the next pair depends on both",
        },
        Parameter {
            name: "steps",
            kind: ValueKind::Count(1, MAX_COUNT),
            default: "4M",
            summary: "number of reads, or of pairs",
        },
        SEED,
    ],
    build,
};

/// imul eax, eax, a
const MULTIPLY: &[u8] = &[0x69, 0xc0, 0x6d, 0x4e, 0xc6, 0x41];
/// add eax, c
const INCREMENT: &[u8] = &[0x05, 0x39, 0x30, 0, 0];
/// mov r8d, eax
const TAKE_FIRST: &[u8] = &[0x41, 0x89, 0xc0];
/// mov r9d, eax
const TAKE_SECOND: &[u8] = &[0x41, 0x89, 0xc1];
/// mov r11d, eax
const TAKE: &[u8] = &[0x41, 0x89, 0xc3];
/// shr r8d, 16
const LOW_FIRST: &[u8] = &[0x41, 0xc1, 0xe8, 16];
/// shr r9d, 16
const LOW_SECOND: &[u8] = &[0x41, 0xc1, 0xe9, 16];
/// and r11d, 0x7fff0000
const HIGH: &[u8] = &[0x41, 0x81, 0xe3, 0, 0, 0xff, 0x7f];
/// or r8d, r11d
const JOIN_FIRST: &[u8] = &[0x45, 0x09, 0xd8];
/// or r9d, r11d
const JOIN_SECOND: &[u8] = &[0x45, 0x09, 0xd9];
/// and r8d, esi
const WITHIN_FIRST: &[u8] = &[0x41, 0x21, 0xf0];
/// and r9d, esi
const WITHIN_SECOND: &[u8] = &[0x41, 0x21, 0xf1];
/// movsx edx, byte [rdi+r8]
const READ_FIRST: &[u8] = &[0x42, 0x0f, 0xbe, 0x14, 0x07];
/// movsx r10d, byte [rdi+r9]
const READ_SECOND: &[u8] = &[0x46, 0x0f, 0xbe, 0x14, 0x0f];
/// or eax, edx
const MIX_FIRST: &[u8] = &[0x09, 0xd0];
/// add eax, r10d
const MIX_SECOND: &[u8] = &[0x44, 0x01, 0xd0];
/// sub ecx, 1
const COUNT: &[u8] = &[0x83, 0xe9, 1];
/// jnz backwards
const AGAIN: &[u8] = &[0x75, 0xc0];

/// One read: the generator moves three times.
const SINGLE: &[&[u8]] = &[
    MULTIPLY,
    INCREMENT,
    TAKE_FIRST,
    LOW_FIRST,
    MULTIPLY,
    INCREMENT,
    TAKE,
    HIGH,
    JOIN_FIRST,
    MULTIPLY,
    INCREMENT,
    WITHIN_FIRST,
    READ_FIRST,
    MIX_FIRST,
    COUNT,
    AGAIN,
];
/// The index of the instruction that reads.
const SINGLE_READ: u16 = 12;

/// Two reads: the generator moves five times.
const PAIR: &[&[u8]] = &[
    MULTIPLY,
    INCREMENT,
    TAKE_FIRST,
    LOW_FIRST,
    MULTIPLY,
    INCREMENT,
    TAKE_SECOND,
    LOW_SECOND,
    MULTIPLY,
    INCREMENT,
    TAKE,
    HIGH,
    JOIN_FIRST,
    MULTIPLY,
    INCREMENT,
    TAKE,
    HIGH,
    JOIN_SECOND,
    MULTIPLY,
    INCREMENT,
    WITHIN_FIRST,
    WITHIN_SECOND,
    READ_FIRST,
    READ_SECOND,
    MIX_FIRST,
    MIX_SECOND,
    COUNT,
    AGAIN,
];
/// The indices of the instructions that read.
const PAIR_READS: [u16; 2] = [22, 23];

/// The distance of the first writes: the smallest page.
const PAGE: u64 = 4 << 10;

struct RandomReads {
    init: Code,
    step: Code,
    pair: bool,
    base: u64,
    bytes: u64,
    block: u64,
    random: Random,
    /// First writes left before the reads.
    first_writes: u64,
    left: u64,
    total: u64,
    /// Whether the phase `reads` was announced.
    started: bool,
}

fn build(values: &Values, process: &mut Process) -> Result<Box<dyn Program>, String> {
    let (bytes, left, pair) = (values.number("bytes"), values.number("steps"), values.is("pair", "yes"));
    let block = match values.number("block") {
        0 => bytes,
        block if block <= bytes => block,
        block => {
            return Err(format!("a block of {block} bytes is larger than the memory of {bytes}; give a smaller one"));
        }
    };
    // mov [t+i], 0; add i, 4096; cmp i, n; jb
    let init = process.block(4);
    let [step] = process.assembled([if pair { PAIR } else { SINGLE }]);
    let base = process.mmap(bytes).0;
    let first_writes = bytes.div_ceil(PAGE);
    process.events.push(Event::Phase("init".into()));
    let random = Random::new(values.number("seed"));
    let total = left + first_writes;
    let started = false;
    Ok(Box::new(RandomReads { init, step, pair, base, bytes, block, random, first_writes, left, total, started }))
}

impl Program for RandomReads {
    fn run(&mut self, chunk: &mut Chunk, until: usize) {
        if self.first_writes > 0 {
            let n = room(chunk, until, 2, self.first_writes);
            let mut at = self.base + (self.bytes.div_ceil(PAGE) - self.first_writes) * PAGE;
            bodies(chunk, self.init, n, || {
                at += PAGE;
                [store(at - PAGE, 0)]
            });
            self.first_writes -= n;
            if self.first_writes > 0 {
                return;
            }
        }
        if !self.started && chunk.refs.len() < until {
            self.started = true;
            chunk.push_event(Event::Phase("reads".into()));
        }
        let (base, block, mut random) = (self.base, self.block, self.random.clone());
        let mut read = |index| Ref::data(Kind::Load, VirtAddr(base + random.below(block)), 0, index);
        let n = if self.pair {
            let n = room(chunk, until, 3, self.left);
            bodies(chunk, self.step, n, || PAIR_READS.map(&mut read));
            n
        } else {
            let n = room(chunk, until, 2, self.left);
            bodies(chunk, self.step, n, || [read(SINGLE_READ)]);
            n
        };
        self.random = random;
        self.left -= n;
    }

    fn progress(&self) -> Progress {
        Progress { done: self.total - self.left - self.first_writes, total: Some(self.total) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::data;
    use super::*;
    use iced_x86::{Decoder, DecoderOptions, Mnemonic, OpKind};

    #[test]
    fn reads_follow_one_write_of_each_page_and_stay_in_the_block() {
        for (pair, reads) in [("no", 1000), ("yes", 2000)] {
            let refs = data(&format!("random-reads:bytes=64K,block=32K,pair={pair},steps=1000,seed=3"));
            let (writes, loads) = refs.split_at(16);
            assert!(writes.iter().enumerate().all(|(i, w)| w.addr() - writes[0].addr() == i as u64 * PAGE));
            assert_eq!(loads.len(), reads);
            assert!(loads.iter().all(|r| r.kind() == Kind::Load && r.addr() - writes[0].addr() < 32 << 10));
            let pages: std::collections::BTreeSet<u64> = loads.iter().map(|r| r.addr().0 >> 12).collect();
            assert_eq!(pages.len(), 8);
        }
    }

    #[test]
    fn the_instructions_that_read_memory_are_the_ones_named() {
        for (block, reads) in [(SINGLE, &[SINGLE_READ][..]), (PAIR, &PAIR_READS[..])] {
            let bytes = block.concat();
            let decoded: Vec<_> = Decoder::new(64, &bytes, DecoderOptions::NONE).into_iter().collect();
            assert_eq!(decoded.len(), block.len());
            assert!(decoded.iter().zip(block).all(|(instruction, bytes)| instruction.len() == bytes.len()));
            let found = decoded.iter().enumerate().filter(|(_, i)| i.op_kinds().any(|kind| kind == OpKind::Memory));
            let found: Vec<u16> = found.map(|(at, _)| at as u16).collect();
            assert_eq!(found, reads);
            assert!(reads.iter().all(|&at| decoded[usize::from(at)].mnemonic() == Mnemonic::Movsx));
        }
    }
}
