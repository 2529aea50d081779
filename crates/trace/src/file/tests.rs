//! Tests of the format with arbitrary chunks, cuts and damage.

use super::forge::forge;
use super::layout::SEGMENT_HEADER;
use super::stream::{STREAMS, StreamLength};
use super::{Metadata, Reader, Writer};
use crate::{Ending, Exit, Missing, Part, Source, Stop, TraceError};
use proptest::collection::vec;
use proptest::prelude::*;
use reach_core::{
    Advice, Asid, Backing, Block, BlockId, BlockTable, Chunk, Event, FileId, Kind, Map, Mark, Protection, Random, Ref,
    Remap, Role, Span, ThreadId, VirtAddr,
};
use std::io::{Cursor, Write};
use std::sync::{Arc, Mutex};

mod outline;
mod whole;

/// A whole program in one chunk, with its blocks.
type Program = (Chunk, BlockTable);

fn span() -> impl Strategy<Value = Span> {
    (any::<u64>(), any::<u64>())
        .prop_map(|(start, len)| Span { start: VirtAddr(start), len: len.min(u64::MAX - start) })
}

fn protection() -> impl Strategy<Value = Protection> {
    any::<(bool, bool, bool)>().prop_map(|(read, write, execute)| Protection { read, write, execute })
}

fn event() -> impl Strategy<Value = Event> {
    let map = (span(), protection(), any::<Option<(u32, u64)>>(), any::<(bool, bool, bool, u8)>(), 0..4usize);
    let map = map.prop_map(|(span, protection, file, (shared, populate, no_reserve, huge_shift), role)| {
        let backing = file.map_or(Backing::Anonymous, |(f, offset)| Backing::File { file: FileId(f), offset });
        let role = [Role::Mmap, Role::Heap, Role::Stack, Role::Image][role];
        Event::Map(Map { span, protection, backing, shared, role, populate, no_reserve, huge_shift })
    });
    let advice = prop::sample::select(vec![Advice::Huge, Advice::Free, Advice::WillNeed, Advice::DontFork]);
    prop_oneof![
        (any::<u32>(), ".{0,9}", any::<u64>(), any::<bool>()).prop_map(|(f, path, len, in_memory)| Event::File {
            file: FileId(f),
            path,
            len,
            in_memory
        }),
        map,
        span().prop_map(Event::Unmap),
        (span(), protection()).prop_map(|(s, p)| Event::Protect(s, p)),
        (span(), span(), any::<bool>()).prop_map(|(from, to, keep)| Event::Remap(Remap { from, to, keep })),
        (span(), advice).prop_map(|(s, a)| Event::Advise(s, a)),
        any::<(u32, bool)>().prop_map(|(c, shares_memory)| Event::Fork { child: Asid(c), shares_memory }),
        ".{0,9}".prop_map(|path| Event::Exec { path }),
        Just(Event::Exit),
        any::<(u32, u32)>().prop_map(|(a, t)| Event::Switch { asid: Asid(a), thread: ThreadId(t) }),
        prop_oneof![".{0,9}", Just("measured".into()), Just("sampled every 5".into())].prop_map(Event::Phase),
        mark().prop_map(Event::Mark),
        any::<u32>().prop_map(Event::SystemCall),
    ]
}

fn mark() -> impl Strategy<Value = Mark> {
    prop_oneof![
        Just(Mark::FastForward),
        Just(Mark::Measure),
        any::<u64>().prop_map(|every| Mark::Sample { every }),
        Just(Mark::IntervalBegin),
        Just(Mark::FirstRunBegin),
        Just(Mark::FirstRunUnmeasured),
        Just(Mark::IntervalEnd),
        Just(Mark::WarmTlbs),
        Just(Mark::WarmCaches),
        Just(Mark::Detailed),
        any::<u32>().prop_map(|number| Mark::Guest { number }),
    ]
}

fn block() -> impl Strategy<Value = Block> {
    (any::<u64>(), 1..40u16, 1..u16::MAX, any::<bool>()).prop_map(|(pc, len, instructions, code)| {
        let bytes = if code { (0..len).map(|i| i as u8).collect() } else { Box::default() };
        Block { pc: VirtAddr(pc), len, instructions, bytes }
    })
}

/// Returns a data reference (whether it stores, address, log2 of its size, instruction index), or `None` for a fetch.
fn step() -> impl Strategy<Value = Option<(bool, u64, u8, u16)>> {
    let addr = prop_oneof![any::<u64>(), 0x1000..0x1100u64, (0..64u64).prop_map(|i| 0x7fff_0000_0000 + i * 4096)];
    prop_oneof![1 => Just(None), 3 => (any::<bool>(), addr, 0..8u8, 0..600u16).prop_map(Some)]
}

fn program() -> impl Strategy<Value = Program> {
    let parts = (vec(block(), 1..9), vec((step(), any::<u8>()), 0..400), vec((any::<u16>(), event()), 0..20));
    parts.prop_map(|(blocks, steps, mut events)| {
        let mut table = BlockTable::default();
        blocks.into_iter().for_each(|b| {
            table.push(b);
        });
        let mut chunk = Chunk::default();
        for (step, choice) in steps {
            match step {
                Some((store, addr, size, index)) => {
                    let kind = if store { Kind::Store } else { Kind::Load };
                    chunk.refs.push(Ref::data(kind, VirtAddr(addr), size, index));
                }
                None => {
                    let id = BlockId(choice as u32 % table.len() as u32);
                    chunk.push_fetch(id, table.get(id));
                }
            }
        }
        events.iter_mut().for_each(|(at, _)| *at %= chunk.refs.len() as u16 + 1);
        events.sort_by_key(|(at, _)| *at);
        chunk.events = events.into_iter().map(|(at, event)| (at as u32, event)).collect();
        (chunk, table)
    })
}

/// Cuts a program into chunks before the references with these numbers.
fn cut(program: &Chunk, cuts: &[usize]) -> Vec<Chunk> {
    let mut bounds: Vec<usize> = cuts.iter().map(|c| c % (program.refs.len() + 1)).collect();
    bounds.extend([0, program.refs.len()]);
    bounds.sort_unstable();
    let mut events = program.events.iter().peekable();
    let mut fetched = program.fetched.iter();
    let mut chunks = Vec::new();
    for (i, pair) in bounds.windows(2).enumerate() {
        let refs = program.refs[pair[0]..pair[1]].to_vec();
        let fetches = refs.iter().filter(|r| r.kind() == Kind::Fetch).count();
        let fetched = fetched.by_ref().take(fetches).copied().collect();
        let last = i + 2 == bounds.len();
        let mut piece_events = Vec::new();
        while let Some((at, event)) = events.next_if(|(at, _)| last || (*at as usize) < pair[1]) {
            piece_events.push((at - pair[0] as u32, event.clone()));
        }
        chunks.push(Chunk { refs, fetched, events: piece_events, ..Chunk::default() });
    }
    chunks
}

/// Writes chunks. A segment ends after each chunk whose number is in `flushes`.
fn write(chunks: &[Chunk], table: &BlockTable, flushes: &[usize]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), &Metadata::default()).unwrap();
    for (i, chunk) in chunks.iter().enumerate() {
        writer.write(chunk, table).unwrap();
        if flushes.contains(&i) {
            writer.flush().unwrap();
        }
    }
    writer.finish(&Ending::default()).unwrap()
}

fn open(bytes: &[u8]) -> Result<Reader, TraceError> {
    Reader::new(Cursor::new(bytes.to_vec()), "test.reach")
}

/// Reads the rest of a file into one chunk. Returns it with the error that ended it, or with what is missing after its end.
/// Checks that the folding of the reader equals that of `core::fold`.
fn drain(reader: &mut Reader) -> (Chunk, Option<TraceError>) {
    let (mut all, mut chunk) = (Chunk::default(), Chunk::default());
    loop {
        match reader.fill(&mut chunk) {
            Ok(true) => {
                assert_eq!(chunk.folded, chunk.refs.len());
                assert_eq!(chunk.page_refs, Chunk::from(chunk.refs.clone()).page_refs);
                all.append(&chunk);
            }
            Ok(false) => return (all, reader.ending().missing.pop().map(TraceError::Incomplete)),
            Err(e) => return (all, Some(e)),
        }
    }
}

fn same(a: &Chunk, b: &Chunk) -> bool {
    a.refs == b.refs && a.fetched == b.fetched && a.events == b.events
}

fn starts_with(whole: &Chunk, part: &Chunk) -> bool {
    whole.refs.starts_with(&part.refs)
        && whole.fetched.starts_with(&part.fetched)
        && whole.events.starts_with(&part.events)
}

/// Returns a program with loops and straight code, of about `refs` references.
fn loops(refs: usize, seed: u64) -> Program {
    let mut random = Random::new(seed);
    let mut table = BlockTable::default();
    for i in 0..50 {
        table.push(Block { pc: VirtAddr(0x40_0000 + i * 32), len: 20, instructions: 5, bytes: Box::default() });
    }
    let mut chunk = Chunk::default();
    chunk.push_event(Event::Switch { asid: Asid(0), thread: ThreadId(0) });
    let mut id = BlockId(0);
    while chunk.refs.len() < refs {
        // Most executions continue to the end of a piece of ten blocks, so that there are paths.
        let leaves = id.0 % 10 == 9 || random.below(30) == 0;
        id = BlockId(if leaves { random.below(5) as u32 * 10 } else { id.0 + 1 });
        chunk.push_fetch(id, table.get(id));
        for i in 0..id.0 % 5 {
            let addr = 0x7000_0000 + random.below(1 << (8 + i * 5));
            chunk.refs.push(Ref::data(if i == 2 { Kind::Store } else { Kind::Load }, VirtAddr(addr), 3, i as u16));
        }
        if random.below(100) == 0 {
            chunk.push_event(Event::Map(Map::anonymous(VirtAddr(random.below(1 << 47)), 4096)));
        }
    }
    (chunk, table)
}

proptest! {
    #[test]
    fn reading_returns_what_was_written((program, table) in program(), cuts in vec(any::<usize>(), 0..6), flushes in vec(0..6usize, 0..4)) {
        let file = write(&cut(&program, &cuts), &table, &flushes);
        let mut reader = open(&file).unwrap();
        let (read, error) = drain(&mut reader);
        prop_assert!(error.is_none(), "{error:?}");
        prop_assert!(same(&read, &program));
        prop_assert!(reader.blocks().iter().eq(table.iter()));
        prop_assert_eq!(reader.refs(), program.refs.len() as u64);
        prop_assert_eq!(reader.ending(), Ending::default());
    }

    #[test]
    fn reading_after_a_seek_equals_reading_from_the_start((program, table) in program(), cuts in vec(any::<usize>(), 3..8), to in any::<usize>()) {
        let file = write(&cut(&program, &cuts), &table, &[0, 1, 2, 3, 4, 5, 6, 7]);
        let mut reader = open(&file).unwrap();
        let to = to % (program.refs.len() + 1);
        let start = reader.seek(to as u64).unwrap() as usize;
        prop_assert!(start <= to);
        let (read, error) = drain(&mut reader);
        prop_assert!(error.is_none());
        prop_assert_eq!(&read.refs[..], &program.refs[start..]);
        prop_assert!(program.fetched.ends_with(&read.fetched));
        // A seek may skip events up to its reference, but not later ones.
        let later = program.events.iter().filter(|(at, _)| *at as usize > to).count();
        prop_assert!(read.events.len() >= later);
        prop_assert!(read.events.iter().rev().zip(program.events.iter().rev()).all(|(a, b)| a.1 == b.1));
    }

    #[test]
    fn arbitrary_streams_never_panic(streams in vec(vec(any::<u8>(), 0..80), STREAMS), counts in any::<[u8; 7]>()) {
        let streams: Vec<&[u8]> = streams.iter().map(Vec::as_slice).collect();
        if let Ok(mut reader) = open(&forge(streams.try_into().unwrap(), counts.map(|c| (c % 8) as u32))) {
            drain(&mut reader);
        }
    }
}

#[test]
fn chunk_boundaries_do_not_change_the_file() {
    let (program, table) = loops(300_000, 1);
    let whole = write(std::slice::from_ref(&program), &table, &[]);
    let pieces = write(&cut(&program, &[1, 2, 3, 5000, 70_000, 131_072, 200_001]), &table, &[]);
    assert!(whole == pieces);
    let (read, error) = drain(&mut open(&pieces).unwrap());
    assert!(error.is_none() && same(&read, &program));
}

#[test]
fn programs_with_more_forms_than_numbers_take_several_segments() {
    let (mut program, table) = loops(2_300_000, 2);
    // More forms than a segment has numbers for, and a run without a fetch.
    let mut random = Random::new(3);
    for i in 0..70_000u32 {
        program.push_fetch(BlockId(i % 50), table.get(BlockId(i % 50)));
        for bit in 0..4 {
            let index = (i >> (bit * 5) & 31) as u16;
            program.refs.push(Ref::data(Kind::Load, VirtAddr(random.next_u64()), bit as u8, index));
        }
    }
    for i in 0..5000 {
        program.refs.push(Ref::store(VirtAddr(i * 64)));
    }
    let file = write(std::slice::from_ref(&program), &table, &[]);
    let mut reader = open(&file).unwrap();
    assert!(reader.segments() >= 3);
    let (read, error) = drain(&mut reader);
    assert!(error.is_none() && same(&read, &program));
}

#[test]
fn a_cut_file_is_read_up_to_its_last_whole_segment() {
    let (program, table) = loops(600, 4);
    let file = write(&cut(&program, &[100, 200, 300, 400, 500]), &table, &[0, 1, 2, 3, 4, 5]);
    let mut whole = open(&file).unwrap();
    let ends: Vec<u64> = (0..whole.segments()).map(|i| whole.segment(i).map(|s| s.at + s.bytes).unwrap()).collect();
    for len in 0..file.len() {
        let Ok(mut reader) = open(&file[..len]) else {
            assert!(len < ends[0] as usize, "{len}");
            continue;
        };
        assert_eq!(reader.segments(), ends.iter().filter(|&&end| end <= len as u64).count());
        let (read, error) = drain(&mut reader);
        assert!(starts_with(&program, &read));
        assert_eq!(read.refs.len() as u64, reader.refs());
        let part = Part::Rest { read: reader.refs(), whole: None };
        assert!(matches!(error, Some(TraceError::Incomplete(missing)) if missing.part == part), "{len}");
    }
}

#[test]
fn flipped_bits_never_change_references() {
    let (program, table) = loops(3000, 5);
    let file = write(&cut(&program, &[1000, 2000]), &table, &[0, 1]);
    let mut random = Random::new(6);
    for _ in 0..3000 {
        let mut damaged = file.clone();
        let at = random.below(file.len() as u64) as usize;
        damaged[at] ^= 1 << random.below(8);
        let Ok(mut reader) = open(&damaged) else { continue };
        let (read, error) = drain(&mut reader);
        assert!(starts_with(&program, &read), "byte {at}");
        assert!(matches!(error, Some(TraceError::Incomplete(_))), "byte {at}: {error:?}");
        reader.seek_segment(0).ok();
        let mut chunk = Chunk::default();
        let damage = std::iter::repeat_with(|| reader.read(&mut chunk)).find(|read| !matches!(read, Ok(true)));
        if let Some(Err(TraceError::Damaged { at: reported, .. })) = damage {
            let segment = reported as usize..reported as usize + SEGMENT_HEADER + file.len() / 2;
            assert!(segment.contains(&at), "{reported} {at}");
        }
    }
}

/// Returns the streams of a file's first segment, and its counts, as [`forge`] takes them.
fn disassemble(file: &[u8]) -> (Vec<Vec<u8>>, [u32; 7]) {
    let s = open(file).unwrap().segment(0).unwrap();
    let mut at = s.at as usize + SEGMENT_HEADER;
    let mut stream = |&StreamLength { raw, stored }: &StreamLength| {
        let bytes = &file[at..at + stored as usize];
        at += stored as usize;
        if raw == 0 { Vec::new() } else { zstd::bulk::decompress(bytes, raw as usize).unwrap() }
    };
    let streams = s.streams.iter().map(&mut stream).collect();
    (streams, [s.blocks, s.events, s.forms, s.paths, s.fetches, s.stores, s.instructions as u32])
}

/// Mutates the streams of a good file. Checksums are good, so that the decoders see the damage.
#[test]
fn mutated_streams_never_panic() {
    let (program, table) = loops(2000, 7);
    let file = write(&[program], &table, &[]);
    let (streams, counts) = disassemble(&file);
    assert!(counts[3] > 0, "no paths");
    let mut random = Random::new(8);
    let (mut good, mut refused) = (0, 0);
    for _ in 0..4000 {
        let mut streams = streams.clone();
        for _ in 0..=random.below(3) {
            let stream = &mut streams[random.below(STREAMS as u64) as usize];
            let at = random.below(stream.len() as u64 + 1) as usize;
            match random.below(4) {
                0 => stream.truncate(at),
                1 => stream.insert(at, random.next_u64() as u8),
                _ if at < stream.len() => stream[at] = random.next_u64() as u8,
                _ => {}
            }
        }
        let parts: Vec<&[u8]> = streams.iter().map(Vec::as_slice).collect();
        match open(&forge(parts.try_into().unwrap(), counts)).map(|mut reader| drain(&mut reader)) {
            Ok((_, None)) => good += 1,
            Ok((_, Some(_))) | Err(_) => refused += 1,
        }
    }
    assert!(good > 100 && refused > 100, "{good} {refused}");
}

#[test]
fn chunks_that_break_the_laws_are_refused() {
    let (_, table) = loops(10, 9);
    let fetch = table.get(BlockId(0)).fetch();
    let span = Span { start: VirtAddr(u64::MAX), len: 2 };
    let chunk = |refs: Vec<Ref>, fetched: Vec<BlockId>, events| Chunk { refs, fetched, events, ..Chunk::default() };
    let wrong = [
        chunk(vec![fetch], vec![], vec![]),
        chunk(vec![], vec![BlockId(0)], vec![]),
        chunk(vec![fetch], vec![BlockId(50)], vec![]),
        chunk(vec![fetch], vec![BlockId(1)], vec![]),
        chunk(vec![Ref(3 << 48)], vec![], vec![]),
        chunk(vec![Ref(1 << 63 | 1 << 48)], vec![], vec![]),
        chunk(vec![], vec![], vec![(1, Event::Exit)]),
        chunk(vec![Ref::load(VirtAddr(0))], vec![], vec![(1, Event::Exit), (0, Event::Exit)]),
        chunk(vec![], vec![], vec![(0, Event::Unmap(span))]),
    ];
    let mut writer = Writer::new(Vec::new(), &Metadata::default()).unwrap();
    for chunk in &wrong {
        let error = writer.write(chunk, &table).unwrap_err().to_string();
        assert!(error.contains("no trace can hold"), "{error}");
    }
    let file = writer.finish(&Ending::default()).unwrap();
    assert_eq!(open(&file).unwrap().refs(), 0);
}

/// An output of limited size.
#[derive(Clone)]
struct Disk {
    bytes: Arc<Mutex<Vec<u8>>>,
    room: usize,
}

impl Write for Disk {
    fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
        let mut bytes = self.bytes.lock().unwrap();
        let take = buf.len().min(self.room - bytes.len());
        if take == 0 && !buf.is_empty() {
            return Err(std::io::ErrorKind::StorageFull.into());
        }
        bytes.extend_from_slice(&buf[..take]);
        Ok(take)
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_leaves_a_readable_file() {
    let (program, table) = loops(3000, 10);
    let disk = Disk { bytes: Arc::default(), room: 4000 };
    let mut writer = Writer::new(disk.clone(), &Metadata::default()).unwrap();
    let chunks = cut(&program, &[500, 1000, 1500, 2000, 2500]);
    let failure = chunks.iter().find_map(|chunk| writer.write(chunk, &table).and_then(|()| writer.flush()).err());
    assert!(
        matches!(&failure, Some(TraceError::Io { source, .. }) if source.kind() == std::io::ErrorKind::StorageFull)
    );
    assert!(writer.write(&chunks[0], &table).is_err() && writer.finish(&Ending::default()).is_err());
    let bytes = disk.bytes.lock().unwrap().clone();
    let mut reader = open(&bytes).unwrap();
    let (read, error) = drain(&mut reader);
    assert!(error.is_some() && starts_with(&program, &read) && read.refs.len() >= 500, "{}", read.refs.len());
}

#[test]
fn metadata_is_read_as_written() {
    let metadata = Metadata {
        program: "gcc".into(),
        command: vec!["gcc".into(), "-O2".into()],
        host: "here".into(),
        tool: "reach".into(),
        other: [("seed".to_owned(), "1".to_owned())].into(),
    };
    let file = Writer::new(Vec::new(), &metadata).unwrap().finish(&Ending::default()).unwrap();
    let mut reader = open(&file).unwrap();
    assert_eq!((reader.metadata(), reader.name()), (&metadata, "gcc"));
    assert!(!reader.fill(&mut Chunk::default()).unwrap());
}

#[test]
fn references_across_the_highest_address_are_folded_like_others() {
    let mut table = BlockTable::default();
    let id = table.push(Block { pc: VirtAddr((1 << 48) - 8), len: 16, instructions: 4, bytes: Box::default() });
    let mut chunk = Chunk::default();
    chunk.push_event(Event::Switch { asid: Asid(0), thread: ThreadId(0) });
    chunk.push_fetch(id, table.get(id));
    chunk.refs.push(Ref::load(VirtAddr((1 << 48) - 4)));
    let file = write(&[chunk.clone()], &table, &[]);
    // `drain` compares the folding.
    assert!(same(&drain(&mut open(&file).unwrap()).0, &chunk));
}

/// All addresses are far from what was predicted, and yet compress to nothing: a reader would refuse the segment, so it is
/// padded.
#[test]
fn a_segment_that_compresses_too_well_is_padded() {
    let mut random = Random::new(3);
    let places: Vec<u64> = (0..67).map(|_| random.next_u64() >> 16).collect();
    let refs = (0..1 << 20).map(|i| Ref::load(VirtAddr(places[i % places.len()]))).collect();
    let program = Chunk { refs, ..Chunk::default() };
    let file = write(std::slice::from_ref(&program), &BlockTable::default(), &[]);
    let mut reader = open(&file).unwrap();
    let segment = reader.segment(0).unwrap();
    let raw: u64 = segment.streams.iter().map(|stream| u64::from(stream.raw)).sum();
    assert!(raw > 4 << 20, "{raw}");
    assert!(segment.streams.iter().any(|stream| stream.stored > stream.raw.min(1000)), "{segment:?}");
    let (read, error) = drain(&mut reader);
    assert!(error.is_none() && same(&read, &program), "{error:?}");
}
