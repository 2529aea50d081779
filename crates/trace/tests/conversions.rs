//! Programs that are written in several formats, and traces in text form.

use crate::records::Records;
use reach_core::{Chunk, Event};
use reach_trace::verbs::{Info, Target, convert, dump, info};
use reach_trace::{Format, Progress, open};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// The file type of x86-64.
const X86_64: u64 = 0x40;

fn put(folder: &TempDir, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

fn unwatched(_: u64, _: Progress) {}

fn told(path: &Path) -> Info {
    info(path, &mut unwatched).unwrap()
}

/// Instructions, loads and stores.
fn counts(path: &Path) -> (u64, u64, u64) {
    let info = told(path);
    (info.instructions, info.loads, info.stores)
}

fn text(path: &Path) -> String {
    let mut out = Vec::new();
    dump(path, 0..u64::MAX, &mut out, &mut unwatched).unwrap();
    String::from_utf8(out).unwrap()
}

/// Two threads that call a function in a loop, with code. A block of it stores and loads.
fn program() -> Vec<u8> {
    let mut records = Records::begin(7, X86_64, 1, 1);
    for i in 0..1000u64 {
        if i % 100 == 0 {
            records.typed(22, 4, 1 + i / 100 % 2).typed(24, 4, 1);
        }
        records.encoding(&[0xe8, 0xfb, 0, 0, 0]).typed(14, 5, 0x1000).store(0x7fff_0000, 8); // call 0x1100
        records.encoding(&[0x48, 0x8b, 0x07]).instruction(0x1100, 3).load(0x10_0000 + 8 * i, 8); // mov rax, [rdi]
        records.encoding(&[0x48, 0x01, 0x06]).instruction(0x1103, 3); // add [rsi], rax
        records.load(0x20_0000, 8).store(0x20_0000, 8);
        if i % 10 == 0 {
            records.marker(25, 39);
        }
        records.encoding(&[0xc3]).marker(29, 0x1005).typed(16, 1, 0x1106).load(0x7fff_0000, 8); // ret
        records.encoding(&[0x75, 0xf9]).typed(if i == 999 { 49 } else { 48 }, 2, 0x1005); // jne 0x1000
    }
    records.end()
}

#[test]
fn a_program_has_the_same_counts_in_all_formats() {
    let folder = TempDir::new().unwrap();
    let source = put(&folder, "program.trace", program());
    let expected = counts(&source);
    assert_eq!(expected, (5000, 3000, 2000));
    let mut from = source.clone();
    for (target, name, format) in [
        (Target::Reach, "a.reach", Format::Reach),
        (Target::DrMemtrace, "a.trace.gz", Format::DrMemtrace),
        (Target::Reach, "b.reach", Format::Reach),
        (Target::ChampSim, "a.champsimtrace.xz", Format::ChampSim),
        (Target::DrMemtrace, "b.trace", Format::DrMemtrace),
        (Target::ChampSim, "b.champsimtrace.zst", Format::ChampSim),
    ] {
        let to = folder.path().join(name);
        convert(&from, &to, target, &mut unwatched).unwrap();
        assert_eq!((told(&to).format, counts(&to)), (format, expected), "{name}");
        from = to;
    }
}

#[test]
fn drmemtrace_keeps_references_code_threads_and_calls() {
    let folder = TempDir::new().unwrap();
    let source = put(&folder, "program.trace", program());
    let to = folder.path().join("again.trace");
    convert(&source, &to, Target::DrMemtrace, &mut unwatched).unwrap();
    assert_eq!(text(&source), text(&to));
    let blocks = |path: &Path| {
        let (mut source, mut chunk) = (open(path).unwrap(), Chunk::default());
        while source.fill(&mut chunk).unwrap() {}
        source.blocks().iter().cloned().collect::<Vec<_>>()
    };
    assert_eq!(blocks(&source), blocks(&to));
    assert_eq!((told(&to).threads, told(&to).events["system call"]), (2, 100));
    // Kinds of branches, with their targets.
    let bytes = std::fs::read(&to).unwrap();
    let of = |kind: u16| bytes.chunks(12).filter(|record| record[..2] == kind.to_le_bytes()).count();
    // Each thread ends with a jump that has no successor.
    assert_eq!([10, 14, 16, 48, 49].map(of), [2000, 1000, 1000, 998, 2]);
}

#[test]
fn champsims_records_have_branches_registers_and_accesses() {
    let folder = TempDir::new().unwrap();
    let source = put(&folder, "program.trace", program());
    let to = folder.path().join("program.champsimtrace");
    convert(&source, &to, Target::ChampSim, &mut unwatched).unwrap();
    let bytes = std::fs::read(&to).unwrap();
    let record = |i: usize| {
        let b = &bytes[64 * i..][..64];
        let word = |at: usize| u64::from_le_bytes(b[at..at + 8].try_into().unwrap());
        (word(0), [b[8], b[9]], b[10..16].to_vec(), [16, 24, 32, 40].map(word))
    };
    // Targets and sources: the stack pointer is 6, the flags are 25, the instruction pointer is 26.
    assert_eq!(record(0), (0x1000, [1, 1], vec![6, 26, 6, 26, 0, 0], [0x7fff_0000, 0, 0, 0]));
    assert_eq!(record(1), (0x1100, [0, 0], vec![7, 0, 14, 0, 0, 0], [0, 0, 0x10_0000, 0]));
    assert_eq!(record(2), (0x1103, [0, 0], vec![25, 0, 13, 7, 0, 0], [0x20_0000, 0, 0x20_0000, 0]));
    assert_eq!(record(3), (0x1106, [1, 1], vec![6, 26, 6, 0, 0, 0], [0, 0, 0x7fff_0000, 0]));
    assert_eq!(record(4), (0x1005, [1, 1], vec![26, 0, 26, 25, 0, 0], [0; 4]));
    assert_eq!((record(4999).1, bytes.len()), ([1, 0], 5000 * 64));
}

#[test]
fn repeated_instructions_have_a_record_for_each_repetition() {
    let folder = TempDir::new().unwrap();
    let mut records = Records::begin(7, X86_64, 1, 1);
    records.encoding(&[0xf3, 0x48, 0xa5]).instruction(0x1000, 3); // rep movsq
    for i in 0..10_000u64 {
        if i > 0 {
            records.typed(29, 3, 0x1000);
        }
        records.load(0x10_0000 + 8 * i, 8).store(0x20_0000 + 8 * i, 8);
    }
    let source = put(&folder, "copy.trace", records.end());
    let [drmemtrace, champsim] = ["copy.trace.gz", "copy.champsimtrace"].map(|name| folder.path().join(name));
    convert(&source, &drmemtrace, Target::DrMemtrace, &mut unwatched).unwrap();
    convert(&source, &champsim, Target::ChampSim, &mut unwatched).unwrap();
    assert_eq!(text(&source), text(&drmemtrace));
    // Records have two stores at most.
    let (instructions, loads, stores) = counts(&champsim);
    assert_eq!((loads, stores), (10_000, 10_000));
    assert!((5000..5010).contains(&instructions), "{instructions}");
}

#[test]
fn incomplete_traces_stay_incomplete() {
    let folder = TempDir::new().unwrap();
    let mut bytes = program();
    bytes.truncate(12 * 1000);
    let source = put(&folder, "cut.trace", bytes);
    for (target, name) in [(Target::Reach, "cut.reach"), (Target::DrMemtrace, "cut.trace.gz")] {
        let to = folder.path().join(name);
        assert!(convert(&source, &to, target, &mut unwatched).is_err());
        assert_eq!((told(&to).ending.missing.len(), counts(&to)), (1, counts(&source)), "{name}");
    }
}

#[test]
fn text_is_read_line_by_line() {
    let folder = TempDir::new().unwrap();
    let lines = "# reach-text 1\nT 20 21\nI 401000 3 4889e5\nI 0x401003 1\r\nS 0x7ffe0018 8\n\n# more\nT 20 22\n L 7ffe0010 300\nE\n";
    let path = put(&folder, "t.txt", lines);
    assert_eq!(told(&path).format, Format::Text);
    assert_eq!(
        text(&path),
        "0 event Switch { asid: Asid(0), thread: ThreadId(0) }
0 fetch 0x401000 block 0 bytes 4 instructions 2
1 store 0x7ffe0018 size 8 instruction 1
2 event Switch { asid: Asid(0), thread: ThreadId(1) }
2 load 0x7ffe0010 size 128 instruction 0
3 load 0x7ffe0090 size 128 instruction 0
4 load 0x7ffe0110 size 64 instruction 0
"
    );
}

#[test]
fn bad_lines_of_text_are_told_with_their_place() {
    let folder = TempDir::new().unwrap();
    for (line, what) in [
        ("X 1 2", "a line that is none of a trace in text form at byte 26"),
        ("I 40100g 3", "a line that is none of a trace in text form at byte 26"),
        ("I 401003 3 4889", "a line that is none of a trace in text form at byte 26"),
        ("I 401003 1 zz", "an instruction whose code is not hexadecimal at byte 26"),
        ("I 401003 65", "a line that is none of a trace in text form at byte 26"),
        ("L 401003 0", "a line that is none of a trace in text form at byte 26"),
        ("L 401003 8 8", "a line that is none of a trace in text form at byte 26"),
        ("L 10000000000000000 8", "a line that is none of a trace in text form at byte 26"),
        ("# the end", "the line E, which ends a trace, is missing at byte 36"),
        ("E\nI 401003 3", "a line after E, which ends a trace at byte 28"),
    ] {
        let path = put(&folder, "t.txt", format!("# reach-text 1\nI 401000 3\n{line}\n"));
        let told = told(&path);
        let why = told.ending.missing.first().map(|missing| missing.why.clone()).unwrap_or_default();
        assert_eq!((why.as_str(), told.instructions), (what, 1), "{line}");
    }
}

#[test]
fn events_that_other_formats_lack_are_left_out() {
    let folder = TempDir::new().unwrap();
    let program = reach_trace::synthetic::parse("gups:bytes=1M,updates=1000").unwrap();
    let (mut program, mut chunk) = (program, Chunk::default());
    let path = folder.path().join("gups.reach");
    let mut writer = reach_trace::file::Writer::create(&path, &Default::default()).unwrap();
    let mut maps = 0;
    while program.fill(&mut chunk).unwrap() {
        maps += chunk.events.iter().filter(|(_, event)| matches!(event, Event::Map(_))).count();
        writer.write(&chunk, program.blocks()).unwrap();
    }
    writer.finish(&program.ending()).unwrap();
    let to = folder.path().join("gups.trace");
    convert(&path, &to, Target::DrMemtrace, &mut unwatched).unwrap();
    assert!(maps > 0 && !told(&to).events.contains_key("map"));
    assert_eq!(counts(&path), counts(&to));
}
