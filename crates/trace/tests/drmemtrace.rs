//! Traces of drmemtrace, from records that the tests assemble.

use crate::records::Records;
use reach_core::{Chunk, Event, Kind};
use reach_trace::foreign::DrMemtrace;
use reach_trace::verbs::{check, info};
use reach_trace::{Ending, Format, Part, Progress, Source, TraceError, open, recognise};
use std::io::{Cursor, Write};
use std::path::PathBuf;
use tempfile::TempDir;

/// Bits of the file type.
const X86_64: u64 = 0x40;
const FILTERED: u64 = 0x80;

fn put(folder: &TempDir, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.path().join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, bytes).unwrap();
    path
}

/// Returns a zip archive of these parts.
fn zip(parts: &[(&str, &[u8])]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut archive = rawzip::ZipArchiveWriter::new(&mut bytes);
    for (name, content) in parts {
        let part = archive.new_file(name).compression_method(rawzip::CompressionMethod::DEFLATE);
        let (mut entry, config) = part.start().unwrap();
        let encoder = flate2::write::DeflateEncoder::new(&mut entry, flate2::Compression::default());
        let mut writer = config.wrap(encoder);
        writer.write_all(content).unwrap();
        let (encoder, descriptor) = writer.finish().unwrap();
        encoder.finish().unwrap();
        entry.finish(descriptor).unwrap();
    }
    archive.finish().unwrap();
    bytes
}

/// What a program consists of.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counts {
    instructions: u64,
    loads: usize,
    stores: usize,
}

/// Reads all of `source` into one chunk.
fn read(source: &mut dyn Source) -> Result<(Chunk, Counts, Ending), TraceError> {
    let (mut chunk, mut all) = (Chunk::default(), Chunk::default());
    while source.fill(&mut chunk)? {
        all.append(&chunk);
    }
    let count = |kind| all.refs.iter().filter(|r| r.kind() == kind).count();
    let instructions = all.fetched.iter().map(|&id| u64::from(source.blocks().get(id).instructions)).sum();
    let counts = Counts { instructions, loads: count(Kind::Load), stores: count(Kind::Store) };
    Ok((all, counts, source.ending()))
}

fn read_bytes(bytes: Vec<u8>) -> Result<(Chunk, Counts, Ending), TraceError> {
    read(&mut DrMemtrace::new(Cursor::new(bytes), "t.trace")?)
}

/// The thread and process of each switch.
fn switches(chunk: &Chunk) -> Vec<(u32, u32, u32)> {
    let switch = |(at, event): &(u32, Event)| match event {
        Event::Switch { asid, thread } => Some((*at, asid.0, thread.0)),
        _ => None,
    };
    chunk.events.iter().filter_map(switch).collect()
}

/// A thread that runs a loop of four instructions `n` times: a load, a store, an addition, a jump. The code comes first.
fn program(version: u64, n: u64) -> Records {
    let mut records = Records::begin(version, X86_64, 7, 8);
    for i in 0..n {
        let code: [&[u8]; 4] = [&[0x48, 0x8b, 0x07], &[0x48, 0x89, 0x06], &[0x48, 0x01, 0xd8], &[0x75, 0xf5]];
        let mut pc = 0x40_1000;
        for (at, code) in code.into_iter().enumerate() {
            if i == 0 && version >= 4 {
                records.encoding(code);
            }
            match at {
                0 => records.instruction(pc, 3).load(0x7f00_0000 + 8 * i, 8),
                1 => records.instruction(pc, 3).store(0x7f10_0000 + 8 * i, 8),
                2 => records.instruction(pc, 3),
                // Newer versions say whether a conditional jump is taken.
                _ => records.typed(if version >= 5 { 48 } else { 13 }, 2, pc),
            };
            pc += code.len() as u64;
        }
    }
    records
}

#[test]
fn all_versions_give_the_same_references() {
    for version in 1..=7 {
        let (chunk, counts, ending) = read_bytes(program(version, 100).end()).unwrap();
        assert_eq!(counts, Counts { instructions: 400, loads: 100, stores: 100 }, "version {version}");
        assert_eq!((switches(&chunk), ending), (vec![(0, 0, 0)], Ending::default()));
        let indices: Vec<_> = chunk.refs[..3].iter().map(|r| (r.kind(), r.index())).collect();
        assert_eq!(indices[1..], [(Kind::Load, 0), (Kind::Store, 1)]);
    }
}

#[test]
fn code_is_kept_for_the_blocks_that_it_belongs_to() {
    let mut source = DrMemtrace::new(Cursor::new(program(7, 3).end()), "t").unwrap();
    read(&mut source).unwrap();
    let blocks: Vec<_> =
        source.blocks().iter().map(|block| (block.pc.0, block.instructions, block.bytes.len())).collect();
    assert_eq!(blocks, [(0x40_1000, 4, 11)]);
    // Other processors' code is not kept, because nothing here decodes it.
    let mut records = Records::begin(7, 8, 1, 1);
    records.encoding(&[0x1f, 0x20, 0x03, 0xd5]).instruction(0x1000, 4);
    let mut source = DrMemtrace::new(Cursor::new(records.end()), "t").unwrap();
    read(&mut source).unwrap();
    assert!(source.blocks().iter().all(|block| block.bytes.is_empty()));
}

#[test]
fn repetitions_prefetches_flushes_and_bundles_are_counted_as_the_format_defines_them() {
    let mut records = Records::begin(3, 0, 1, 1);
    // A string instruction of three repetitions, each with a load and a store.
    records.instruction(0x1000, 3).load(0x10, 8).store(0x20, 8);
    for i in 1..3 {
        records.typed(29, 3, 0x1000).load(0x10 + 8 * i, 8).store(0x20 + 8 * i, 8);
    }
    // Prefetches, a flush, and one of two records.
    records
        .typed(2, 8, 0x40)
        .typed(3, 8, 0x40)
        .typed(46, 8, 0x40)
        .typed(18, 64, 0x40)
        .typed(20, 0, 0x40)
        .typed(21, 0, 0x80);
    // An instruction of the same address is a repetition, another one is not.
    records.typed(30, 3, 0x1003).typed(30, 3, 0x1003);
    // Three more instructions, of which the lengths alone are given.
    records.typed(17, 3, u64::from_le_bytes([1, 2, 3, 0, 0, 0, 0, 0]));
    // Where references are filtered, the instruction of an access is named with a length of 0.
    records.typed(10, 0, 0x3000).load(0x50, 4).typed(31, 2, 0x100c);
    let (chunk, counts, _) = read_bytes(records.end()).unwrap();
    assert_eq!(counts, Counts { instructions: 1 + 1 + 3 + 1, loads: 3 + 1, stores: 3 });
    assert!(chunk.refs[1..7].iter().all(|r| r.kind() != Kind::Fetch && r.index() == 0));
}

#[test]
fn compressions_and_chunks_give_the_same_references() {
    let folder = TempDir::new().unwrap();
    let mut records = program(6, 1000);
    let first = records.marker(21, 0).take();
    let second = records.marker(2, 5).marker(3, 0).instruction(0x40_2000, 1).end();
    let whole = [&first[..], &second].concat();
    let expected = read_bytes(whole.clone()).unwrap();
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(&whole).unwrap();
    let mut snappy = snap::write::FrameEncoder::new(Vec::new());
    snappy.write_all(&whole).unwrap();
    for (name, bytes) in [
        ("t.trace", whole.clone()),
        ("t.trace.gz", gz.finish().unwrap()),
        ("t.memtrace.sz", snappy.into_inner().unwrap()),
        ("t.trace.zst", zstd::bulk::compress(&whole, 1).unwrap()),
        ("t.trace.zip", zip(&[("chunk.0000", &first), ("chunk.0001", &second)])),
    ] {
        let path = put(&folder, name, &bytes);
        assert_eq!(recognise(&path).unwrap(), Format::DrMemtrace, "{name}");
        let (chunk, counts, ending) = read(open(&path).unwrap().as_mut()).unwrap();
        assert_eq!((&chunk.refs, &counts, &ending), (&expected.0.refs, &expected.1, &expected.2), "{name}");
        let cut = put(&folder, "cut", &bytes[..bytes.len() - 20]);
        let missing = open(&cut).and_then(|mut source| read(source.as_mut())).map(|(.., ending)| ending.missing.len());
        assert_ne!(missing.unwrap_or(1), 0, "{name}");
    }
}

#[test]
fn damage_is_told_with_its_place_and_ends_the_trace() {
    let begun = |more: &dyn Fn(&mut Records) -> &mut Records| {
        let mut records = program(6, 2);
        more(&mut records);
        records.end()
    };
    let cases: [(&str, Vec<u8>); 8] = [
        ("a record of type 50, which does not exist", begun(&|r| r.typed(50, 0, 0))),
        ("an instruction of 16 bytes; expected 1 to 15", begun(&|r| r.typed(10, 16, 0))),
        ("a bundle of instructions that are not 1 to 8", begun(&|r| r.typed(17, 9, 0))),
        ("the code of an instruction that is longer than 15 bytes", begun(&|r| r.encoding(&[0x90; 16]))),
        ("2 bytes of code for an instruction of 1", begun(&|r| r.encoding(&[0x66, 0x90]).instruction(1, 1))),
        ("the end of chunk 1 where that of chunk 0 was expected", begun(&|r| r.marker(21, 1))),
        ("version 9 of drmemtrace; expected 1 to 7", begun(&|r| r.marker(12, 9))),
        ("the last record does not end the file", program(6, 2).take()),
    ];
    for (what, bytes) in cases {
        let (_, counts, ending) = read_bytes(bytes).unwrap();
        assert_eq!(counts, Counts { instructions: 8, loads: 2, stores: 2 }, "{what}");
        let [missing] = &ending.missing[..] else { panic!("{what}: {ending:?}") };
        assert!(missing.why.contains(what), "{}", missing.why);
        assert_eq!(missing.part, Part::Rest { read: 4 + 2, whole: None }, "{what}");
    }
}

#[test]
fn files_without_a_good_header_are_refused() {
    let folder = TempDir::new().unwrap();
    let error = |bytes: &[u8]| open(put(&folder, "t", bytes)).err().expect("an error").to_string();
    let of_32_bits = [25, 0, 0, 0, 3, 0, 0, 0, 22, 0, 4, 0, 1, 0, 0, 0];
    assert!(error(&of_32_bits).contains("the records of a 32-bit program; expected those of 64 bits at byte 0"));
    assert!(error(&Records::begin(8, 0, 1, 1).end()).contains("version 8 of drmemtrace; expected 1 to 7 at byte 0"));
    assert!(
        error(b"PK\x03\x04 and nothing else")
            .contains("the zip archive lacks the directory at its end, so it was cut short,")
    );
}

#[test]
fn traces_that_leave_references_out_say_so() {
    let mut filtered = Records::begin(6, X86_64 | FILTERED, 1, 1);
    let mut windows = Records::begin(6, X86_64, 1, 1);
    filtered.instruction(0x1000, 1);
    windows.marker(14, 0).instruction(0x1000, 1).marker(14, 1).instruction(0x1000, 1);
    let mut instructions = Records::begin(6, X86_64 | 4, 1, 1);
    instructions.instruction(0x1000, 1);
    for (mut records, why) in [(filtered, "filtered"), (windows, "windows"), (instructions, "instructions only")] {
        let (.., ending) = read_bytes(records.end()).unwrap();
        assert!(ending.missing[0].why.contains(why) && ending.missing[0].part == Part::Gaps, "{ending:?}");
    }
}

#[test]
fn files_of_a_folder_take_turns_by_their_time_markers() {
    let folder = TempDir::new().unwrap();
    for (name, thread, times) in [("a.1.trace.gz", 11, [10, 40, 50]), ("a.2.trace.gz", 12, [20, 30, 60])] {
        let mut records = Records::begin(7, X86_64, 10, thread);
        for time in times {
            records.marker(2, time).marker(3, 0).instruction(0x1000 * time, 4);
        }
        let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gz.write_all(&records.end()).unwrap();
        put(&folder, &format!("app/trace/{name}"), &gz.finish().unwrap());
    }
    put(&folder, "app/trace/cpu_schedule.bin.zip", b"no trace");
    let path = folder.path().join("app");
    let mut source = open(&path).unwrap();
    let (chunk, counts, ending) = read(source.as_mut()).unwrap();
    assert_eq!((source.name(), counts.instructions, ending), ("app", 6, Ending::default()));
    let times: Vec<_> = chunk.refs.iter().map(|r| r.addr().0 / 0x1000).collect();
    assert_eq!(times, [10, 20, 30, 40, 50, 60]);
    assert_eq!(switches(&chunk), [(0, 0, 0), (1, 0, 1), (3, 0, 0), (5, 0, 1)]);
    let told = info(&path, &mut |_, _: Progress| {}).unwrap();
    assert_eq!((told.threads, told.processes, told.instructions), (2, 1, 6));
    assert!(told.bytes > 100 && told.bytes_per_ref().is_some());
    assert_eq!(check(&path, &mut |_, _: Progress| {}).unwrap().refs, 6);
}

#[test]
fn a_cut_file_of_a_folder_leaves_a_gap_and_the_others_are_read() {
    let folder = TempDir::new().unwrap();
    put(&folder, "a.trace", &Records::begin(7, 0, 1, 1).marker(2, 1).instruction(0x1000, 4).take());
    put(&folder, "b.trace", &Records::begin(7, 0, 1, 2).marker(2, 2).instruction(0x2000, 4).end());
    let (_, counts, ending) = read(open(folder.path()).unwrap().as_mut()).unwrap();
    assert_eq!(counts.instructions, 2);
    let [missing] = &ending.missing[..] else { panic!("{ending:?}") };
    assert!(missing.of.ends_with("a.trace") && missing.part == Part::Gaps, "{missing:?}");
}

#[test]
fn threads_in_one_file_keep_their_processes_and_calls_of_the_system_become_events() {
    let mut records = Records::begin(6, X86_64, 10, 11);
    records.instruction(0x1000, 2).marker(25, 231).typed(22, 4, 21).typed(24, 4, 20).instruction(0x2000, 1);
    records.typed(22, 4, 11).instruction(0x3000, 1).typed(23, 4, 11);
    let (chunk, ..) = read_bytes(records.end()).unwrap();
    assert_eq!(switches(&chunk), [(0, 0, 0), (1, 1, 1), (2, 0, 0)]);
    assert!(chunk.events.contains(&(1, Event::SystemCall(231))));
}

#[test]
fn millions_of_accesses_of_one_instruction_and_of_events_pass_in_pieces() {
    let mut records = Records::begin(6, X86_64, 1, 1);
    records.instruction(0x1000, 2);
    for i in 0..300_000 {
        records.load(8 * i, 8);
    }
    for _ in 0..50_000 {
        records.marker(25, 1);
    }
    records.instruction(0x1000, 2);
    let (chunk, counts, ending) = read_bytes(records.end()).unwrap();
    assert_eq!((counts.instructions, counts.loads, chunk.events.len()), (2, 300_000, 50_001));
    assert_eq!(ending, Ending::default());
}
