//! `.reach` files that state more than their bytes can mean.

use super::cost::{Run, TIME, assert_within_budget, folder, path};
use super::forge::{self, Segment};
use reach_core::Chunk;
use reach_trace::file::Reader;
use std::fs::{self, File};
use std::io::{Cursor, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::Duration;

/// Reads a file of these bytes in each way: all of it, its events, its outlines. Returns the runs.
fn read(bytes: &[u8]) -> [Run; 3] {
    assert!(bytes.len() <= 1 << 20, "{} bytes", bytes.len());
    let folder = folder();
    let file = path(&folder, "bomb.reach");
    fs::write(&file, bytes).unwrap();
    read_file(&file)
}

fn read_file(file: &str) -> [Run; 3] {
    let run = ["run", "--quiet", "--machine", "skylake-e3-1240v5", "--system", "base", "--timing", "counts", "--trace"];
    let run: Vec<&str> = run.into_iter().chain([file]).collect();
    [&["trace", "check", file][..], &["trace", "info", file], &run]
        .map(|args| assert_within_budget(args, Path::new(file)))
}

/// Asserts that the first run failed, with these words in its message.
fn assert_refused(runs: &[Run], words: &str) {
    assert_eq!(runs[0].status, 1, "{:?}", runs[0]);
    assert!(runs[0].message.contains(words) && runs[0].message.lines().count() == 1, "{:?}", runs[0]);
}

fn varint(mut n: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while n >= 0x80 {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
    out
}

/// `n` blocks of one byte and one instruction, without code.
fn blocks(n: u32) -> Segment {
    Segment { blocks: n, ..Segment::default() }.stream("blocks", &[0, 2, 1].repeat(n as usize))
}

/// A segment of `n` loads that one form without a fetch executes 64 at a time, with this control byte for each.
fn loads(n: u32, control: u8) -> Segment {
    let mut forms = vec![0, 64];
    forms.extend([1, 0, 0].repeat(64));
    Segment { forms: 1, loads: n, ..Segment::default() }
        .stream("forms", &forms)
        .stream("sequence", &vec![0; n as usize / 64 * 2])
        .stream("control", &vec![control; n as usize])
}

/// The first event of a program.
const SWITCH: [u8; 4] = [0, 9, 0, 0];

#[test]
fn blocks_without_code_are_held_against_the_length_of_the_file() {
    assert_refused(&read(&forge::file(&vec![blocks(1 << 20); 64])), "too long for their stored bytes");
    assert_refused(
        &read(&forge::file(&vec![blocks(1 << 17).padded("blocks", 400); 64])),
        "bytes of blocks in a file of",
    );
}

#[test]
fn code_that_repeats_is_held_against_the_length_of_the_file() {
    let mut block = [vec![0], varint(65_535 << 1 | 1), vec![1]].concat();
    block.extend([0x90; 65_535]);
    let segment = Segment { blocks: 200, ..Segment::default() }.stream("blocks", &block.repeat(200));
    assert_refused(&read(&forge::file(&vec![segment.clone(); 64])), "too long for their stored bytes");
    assert_refused(&read(&forge::file(&vec![segment.padded("blocks", 13_000); 64])), "bytes of blocks in a file of");
}

#[test]
fn an_index_in_a_hole_takes_no_memory() {
    let folder = folder();
    let file = path(&folder, "hole.reach");
    let header = forge::header();
    let mut out = File::create(&file).unwrap();
    out.write_all(&header).unwrap();
    let index = 4 + 40 * 80_000_000;
    out.seek(SeekFrom::Start(header.len() as u64 + index)).unwrap();
    for n in [header.len() as u64, index, 0, 0] {
        out.write_all(&n.to_le_bytes()).unwrap();
    }
    out.write_all(b"ReachEnd").unwrap();
    drop(out);
    assert_refused(&read_file(&file), "no good index");
}

#[test]
fn stored_lengths_of_gigabytes_are_not_believed() {
    let folder = folder();
    let file = path(&folder, "hole.reach");
    let mut segment = loads(64, 0);
    for stream in segment.streams.iter_mut().filter(|stream| stream.raw > 0) {
        stream.stated = Some(u32::MAX);
    }
    let bytes = forge::file(&[segment]);
    fs::write(&file, &bytes).unwrap();
    File::options().write(true).open(&file).unwrap().set_len(50 << 30).unwrap();
    assert_refused(&read_file(&file), "no good index");
}

#[test]
fn forms_and_paths_are_held_against_their_stored_bytes() {
    let mut form = vec![0, 64];
    form.extend([1, 0, 0].repeat(64));
    let forms = Segment { forms: 65_536, ..loads(64, 0) }.stream("forms", &form.repeat(65_536));
    let forms = forms.padded("forms", 12 << 10);
    assert_refused(&read(&forge::file(&[forms])), "forms and paths that are too long");
    let mut form = vec![0, 32];
    form.extend([1, 0, 0].repeat(32));
    let paths = Segment { forms: 2, paths: 65_000, loads: 32, ..Segment::default() }
        .stream("forms", &[form.repeat(2), [2, 0, 0, 1, 0].repeat(65_000)].concat())
        .stream("sequence", &[0, 0])
        .stream("control", &[0; 32])
        .padded("forms", 4 << 10);
    assert_refused(&read(&forge::file(&[paths])), "forms and paths that are too long");
}

#[test]
fn events_are_held_against_the_length_of_the_file() {
    let exits = |n: u32| Segment { events: n, ..Segment::default() }.stream("events", &[0, 8].repeat(n as usize));
    assert_refused(&read(&forge::file(&[exits(1 << 20)])), "numbers contradict each other");
    assert_refused(&read(&forge::file(&vec![exits(1 << 16); 100])), "events in a file of");
    // Files are named once each, which `trace check` has to remember.
    let named = |from: u64| {
        let events = (from..from + (1 << 16)).flat_map(|n| [vec![0, 0], varint(n), vec![0, 0]].concat());
        Segment { events: 1 << 16, ..Segment::default() }.stream("events", &events.collect::<Vec<u8>>())
    };
    let start = Segment { events: 1, ..Segment::default() }.stream("events", &SWITCH);
    read(&forge::file(&std::iter::once(start).chain((0..4).map(|n| named(n << 16))).collect::<Vec<_>>()));
}

#[test]
fn a_text_of_many_megabytes_is_held_against_its_stored_bytes() {
    let text = 60 << 20;
    let events = [SWITCH.to_vec(), vec![0, 10], varint(text as u64), vec![b'a'; text]].concat();
    let segment = Segment { events: 2, ..Segment::default() }.stream("events", &events);
    drop(events);
    assert_refused(&read(&forge::file(&[segment])), "too long for their stored bytes");
}

/// Each reference is on a new page, so that the outline is as long as can be.
#[test]
fn a_segment_of_four_million_pages_is_read_piece_by_piece() {
    let n = 1 << 22;
    let segment =
        Segment { events: 1, ..loads(n, 0x81) }.stream("near", &[0xff, 0x7f].repeat(n as usize)).padded("near", 5000);
    let runs = read(&forge::file(&[segment.stream("events", &SWITCH)]));
    assert_refused(&runs, "an outline that does not match");
}

#[test]
fn steps_without_content_are_counted() {
    let steps = Segment { events: 1, ..loads(64, 0) }.stream("events", &SWITCH);
    let steps = steps.stream("steps", &vec![0; 15 << 20]);
    let runs = read(&forge::file(&vec![steps; 20]));
    assert_eq!(runs[2].status, 1, "{:?}", runs[2]);
}

/// Everything at its limit at once.
#[test]
fn a_file_at_all_limits_is_within_the_budget() {
    let (blocks, forms, paths, data) = (120_000, 1000, 13_000, 1 << 21);
    // Blocks of two bytes, each across the end of a page, so that a fetch is of two pages.
    let mut definitions = [[0xfe, 0x3f].as_slice(), &[4, 1]].concat();
    definitions.extend([[0xfc, 0x3f].as_slice(), &[4, 1]].concat().repeat(blocks - 1));
    let mut shapes: Vec<u8> = (1..=forms as u64).flat_map(|n| [varint(n), vec![0]].concat()).collect();
    shapes.extend([[0, 64].to_vec(), [1, 0, 0].repeat(64)].concat());
    let path: Vec<u8> = (0..32u16).flat_map(u16::to_le_bytes).collect();
    shapes.extend([vec![32], path].concat().repeat(paths));
    let events = [SWITCH.to_vec(), [0, 8].repeat((1 << 16) - 1)].concat();
    let segment = Segment {
        blocks: blocks as u32,
        events: 1 << 16,
        forms: forms as u32 + 1,
        paths: paths as u32,
        loads: data as u32,
        ..Segment::default()
    };
    let segment = segment
        .stream("blocks", &definitions)
        .stream("events", &events)
        .stream("forms", &shapes)
        .stream("sequence", &(forms as u16).to_le_bytes().repeat(data / 64))
        .stream("control", &vec![0x80; data])
        .stream("far", &vec![0; 6 * data])
        .padded("blocks", 1_030_000);
    let runs = read(&forge::file(&[segment]));
    // The only fault is the missing outline, which comes last.
    assert_refused(&runs, "an outline that does not match");
}

/// Returns the processor time of this thread.
fn thread_time() -> Duration {
    // SAFETY: all bytes of the structure may be zero, and the pointer is to a variable of that type.
    let time = unsafe {
        let mut time: libc::timespec = std::mem::zeroed();
        libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time);
        time
    };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// As dense as a file may be: 2^28 references in 200 KB. No run of the command reads references and does nothing with them.
#[test]
fn as_many_references_as_a_megabyte_may_hold_are_read_in_time() {
    let segment = loads(1 << 20, 0);
    let bytes = forge::file(&vec![segment.clone(); 256]);
    assert!(bytes.len() < 1 << 20, "{} bytes", bytes.len());
    let mut reader = Reader::new(Cursor::new(bytes), "dense").unwrap();
    let (mut chunk, mut refs, start) = (Chunk::default(), 0, thread_time());
    while reader.read(&mut chunk).unwrap() {
        refs += chunk.refs.len();
    }
    let time = thread_time() - start;
    assert_eq!(refs, 1 << 28);
    assert!(time <= TIME, "{time:?}");
    let one_more = forge::file(&vec![segment; 257]);
    assert_refused(&read(&one_more), "269484032 references in a file of");
}
