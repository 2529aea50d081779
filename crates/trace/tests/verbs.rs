//! Foreign traces and the subcommands of `reach trace`, on files on disk.

use reach_core::{Chunk, Event, Kind};
use reach_trace::file::{Metadata, Reader, Writer};
use reach_trace::foreign::{ChampSim, Lackey};
use reach_trace::verbs::{Target, check, convert, dump, info};
use reach_trace::{Ending, Exit, Format, Part, Progress, Source, TraceError, open, recognise};
use std::io::{Cursor, Write};
use std::path::PathBuf;
use tempfile::TempDir;

const LACKEY: &str = "==12== Lackey, an example Valgrind tool
==12== Command: true
I  04001090,3
I  04001093,5
 S 1ffeffe7d8,8
I  04001b20,4
 M 1ffeffe7d0,4
 L 04025000,10
I  04001b24,2
 S 04026000,300
I  04001090,3
I  04001093,5
 S 1ffeffe7d8,8
==12== Counted 0 calls to main()
==12== Exit code:       0
";

/// Returns records with these `ip`s, taken branches, loads and stores.
fn champsim(records: &[(u64, bool, &[u64], &[u64])]) -> Vec<u8> {
    let mut out = Vec::new();
    for &(ip, taken, loads, stores) in records {
        out.extend(ip.to_le_bytes());
        out.extend([taken as u8, taken as u8, 0, 0, 0, 0, 0, 0]);
        for (list, n) in [(stores, 2), (loads, 4)] {
            (0..n).for_each(|i| out.extend(list.get(i).copied().unwrap_or(0u64).to_le_bytes()));
        }
    }
    out
}

fn some_champsim() -> Vec<u8> {
    champsim(&[
        (0x401000, false, &[0x7ffe0000], &[]),
        (0x401003, true, &[], &[0x7ffe0008]),
        (0x402000, false, &[0x10, 0x20], &[0x30]),
        (0x40200f, false, &[], &[]),
        (0x40203f, false, &[], &[]),
    ])
}

fn put(dir: &TempDir, name: &str, bytes: &[u8]) -> PathBuf {
    let path = dir.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

fn all(source: &mut dyn Source) -> Result<Vec<Chunk>, TraceError> {
    let mut chunks = Vec::new();
    let mut chunk = Chunk::default();
    while source.fill(&mut chunk)? {
        chunks.push(chunk.clone());
    }
    Ok(chunks)
}

fn unwatched(_: u64, _: Progress) {}

fn text(path: &std::path::Path, range: std::ops::Range<u64>) -> String {
    let mut out = Vec::new();
    dump(path, range, &mut out, &mut unwatched).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn lackey_is_read_line_by_line() {
    let dir = TempDir::new().unwrap();
    let path = put(&dir, "true.lackey", LACKEY.as_bytes());
    assert_eq!(
        text(&path, 0..u64::MAX),
        "0 event Switch { asid: Asid(0), thread: ThreadId(0) }
0 fetch 0x4001090 block 0 bytes 8 instructions 2
1 store 0x1ffeffe7d8 size 8 instruction 1
2 fetch 0x4001b20 block 1 bytes 6 instructions 2
3 load 0x1ffeffe7d0 size 4 instruction 0
4 store 0x1ffeffe7d0 size 4 instruction 0
5 load 0x4025000 size 16 instruction 0
6 store 0x4026000 size 128 instruction 1
7 store 0x4026080 size 128 instruction 1
8 store 0x4026100 size 64 instruction 1
9 fetch 0x4001090 block 0 bytes 8 instructions 2
10 store 0x1ffeffe7d8 size 8 instruction 1
"
    );
}

#[test]
fn the_next_champsim_record_gives_the_instruction_length() {
    let mut source = ChampSim::new(Cursor::new(some_champsim()), "x.champsim");
    let chunks = all(&mut source).unwrap();
    let blocks: Vec<_> = source.blocks().iter().map(|b| (b.pc.0, b.len, b.instructions)).collect();
    // The length is 4 bytes for a taken branch, and where the next instruction is more than 15 bytes away.
    assert_eq!(blocks, [(0x401000, 3 + 4, 2), (0x402000, 15 + 4, 2), (0x40203f, 4, 1)]);
    let refs: Vec<_> = chunks[0].refs.iter().map(|r| (r.kind(), r.addr().0)).collect();
    use Kind::{Fetch, Load, Store};
    let expected = [
        (Fetch, 0x401000),
        (Load, 0x7ffe0000),
        (Store, 0x7ffe0008),
        (Fetch, 0x402000),
        (Load, 0x10),
        (Load, 0x20),
        (Store, 0x30),
        (Fetch, 0x40203f),
    ];
    assert_eq!(refs, expected);
    assert!(matches!(chunks[0].events[..], [(0, Event::Switch { .. })]));
}

#[test]
fn compressed_traces_equal_plain_ones() {
    let dir = TempDir::new().unwrap();
    let raw = some_champsim();
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(&raw).unwrap();
    let mut xz = liblzma::write::XzEncoder::new(Vec::new(), 1);
    xz.write_all(&raw).unwrap();
    let plain = text(&put(&dir, "raw", &raw), 0..u64::MAX);
    for (name, bytes) in
        [("gz", gz.finish().unwrap()), ("xz", xz.finish().unwrap()), ("zst", zstd::bulk::compress(&raw, 1).unwrap())]
    {
        let path = put(&dir, name, &bytes);
        assert_eq!(recognise(&path).unwrap(), Format::ChampSim);
        assert_eq!(text(&path, 0..u64::MAX), plain);
        let cut = put(&dir, "cut", &bytes[..bytes.len() - 9]);
        if let Ok(mut source) = open(&cut) {
            let read = all(source.as_mut());
            assert!(read.is_err() || !source.ending().missing.is_empty(), "{name}: {:?}", source.ending());
        }
    }
}

/// Reads `bytes` as a trace of another tool. Returns the number of references and the ending.
fn ending_of(bytes: &[u8]) -> (usize, Ending) {
    let dir = TempDir::new().unwrap();
    let mut source = open(put(&dir, "x", bytes)).unwrap();
    let refs = all(source.as_mut()).unwrap().iter().map(|chunk| chunk.refs.len()).sum();
    (refs, source.ending())
}

#[test]
fn a_lackey_trace_without_valgrinds_closing_lines_is_incomplete() {
    let whole = ending_of(LACKEY.as_bytes());
    assert_eq!(whole, (11, Ending::default()));
    let last_access = LACKEY.find(" S 04026000").unwrap();
    for (end, refs, part) in [
        (LACKEY.find("==12== Exit code").unwrap(), 11, "closing lines are missing"),
        (LACKEY.len() - 1, 11, "the last line is cut short"),
        (last_access, 6, "closing lines are missing"),
        (last_access + 9, 6, "the last line is cut short"),
    ] {
        let (read, ending) = ending_of(&LACKEY.as_bytes()[..end]);
        let [missing] = &ending.missing[..] else { panic!("{ending:?}") };
        assert_eq!((read, missing.part), (refs, Part::Rest { read: refs as u64, whole: None }), "{end}");
        assert!(missing.why.contains(part), "{end}: {missing}");
    }
    // Without the opening lines, as after a filter, nothing tells.
    let filtered: String =
        LACKEY.lines().filter(|line| !line.starts_with("==")).map(|line| line.to_owned() + "\n").collect();
    let (refs, ending) = ending_of(filtered.as_bytes());
    assert!(refs == 11 && ending.missing.is_empty() && ending.uncertain.is_some(), "{ending:?}");
    // The signal that ended the program.
    let died = "==12== Process terminating with default action of signal 11 (SIGSEGV)\n==12== Exit code:       0\n";
    let (_, ending) = ending_of(LACKEY.replace("==12== Exit code:       0\n", died).as_bytes());
    assert_eq!((ending.exits, ending.missing.len()), (vec![Exit::Signal(11).into()], 0));
}

#[test]
fn a_champsim_trace_tells_a_cut_record_but_not_a_cut_between_records() {
    let bytes = some_champsim();
    let (refs, ending) = ending_of(&bytes);
    assert!(ending.missing.is_empty() && ending.uncertain.as_ref().unwrap().contains("no mark of their end"));
    let (read, ending) = ending_of(&bytes[..bytes.len() - 7]);
    assert!(read < refs && ending.missing[0].why.contains("cut short at byte 256"), "{ending:?}");
    assert_eq!(ending.missing[0].part, Part::Rest { read: read as u64, whole: None });
    let (read, ending) = ending_of(&bytes[..256]);
    assert!(read < refs && ending.missing.is_empty() && ending.uncertain.is_some());
    let mut wrong = bytes.clone();
    wrong[256 + 8] = 7;
    let mut source = ChampSim::new(Cursor::new(wrong), "x");
    assert!(!all(&mut source).unwrap().is_empty());
    assert!(source.ending().missing[0].why.contains("branch flags"), "{:?}", source.ending());
    let dir = TempDir::new().unwrap();
    let facts = info(put(&dir, "x", &bytes), &mut unwatched).unwrap().to_string();
    assert!(facts.contains("complete       unknown: ChampSim traces have no mark of their end"), "{facts}");
}

#[test]
fn converting_keeps_every_reference() {
    let dir = TempDir::new().unwrap();
    for (name, bytes) in [("a", LACKEY.as_bytes().to_vec()), ("b", some_champsim())] {
        let from = put(&dir, name, &bytes);
        let to = dir.path().join("out.reach");
        let converted = convert(&from, &to, Target::Reach, &mut unwatched).unwrap();
        assert_eq!(converted.bytes, std::fs::metadata(&to).unwrap().len());
        assert_eq!(text(&to, 0..u64::MAX), text(&from, 0..u64::MAX));
        assert_eq!(text(&to, 2..4), text(&from, 2..4));
        let (a, b) = (info(&from, &mut unwatched).unwrap(), info(&to, &mut unwatched).unwrap());
        assert_eq!((a.refs(), a.instructions, a.blocks, &a.events), (b.refs(), b.instructions, b.blocks, &b.events));
        assert_eq!((b.format, b.name.as_str(), b.segments), (Format::Reach, name, 1));
        assert_eq!(check(&to, &mut unwatched).unwrap().refs, converted.refs);
        let again = dir.path().join("again.reach");
        convert(&to, &again, Target::Reach, &mut unwatched).unwrap();
        assert!(std::fs::read(&to).unwrap() == std::fs::read(&again).unwrap());
        assert!(convert(&to, &to, Target::Reach, &mut unwatched).unwrap_err().to_string().contains("onto itself"));
        assert_eq!(check(&to, &mut unwatched).unwrap().refs, converted.refs);
    }
}

#[test]
fn a_cut_trace_stays_incomplete_when_it_is_converted() {
    let dir = TempDir::new().unwrap();
    let from = put(&dir, "true.lackey", LACKEY.as_bytes());
    let to = dir.path().join("whole.reach");
    convert(&from, &to, Target::Reach, &mut unwatched).unwrap();
    let bytes = std::fs::read(&to).unwrap();
    let killed = put(&dir, "killed.reach", &bytes[..bytes.len() - 5]);
    let facts = info(&killed, &mut unwatched).unwrap();
    assert!(facts.refs() == 11 && facts.ending.missing.len() == 1);
    assert!(facts.to_string().contains("complete       no\n"), "{facts}");
    let error = check(&killed, &mut unwatched).unwrap_err();
    let part = Part::Rest { read: 11, whole: Some(11) };
    assert!(matches!(&error, TraceError::Incomplete(missing) if missing.part == part), "{error}");
    // What can be read is kept, and marked.
    let rest = dir.path().join("rest.reach");
    assert_eq!(convert(&killed, &rest, Target::Reach, &mut unwatched).unwrap_err().to_string(), error.to_string());
    let mut readable = Vec::new();
    assert!(dump(&rest, 0..u64::MAX, &mut readable, &mut unwatched).is_err());
    assert_eq!(String::from_utf8(readable).unwrap(), text(&to, 0..u64::MAX));
    assert_eq!(check(&rest, &mut unwatched).unwrap_err().to_string(), error.to_string());
    let again = dir.path().join("again.reach");
    assert_eq!(convert(&rest, &again, Target::Reach, &mut unwatched).unwrap_err().to_string(), error.to_string());
    assert!(std::fs::read(&rest).unwrap() == std::fs::read(&again).unwrap());
}

#[test]
fn check_finds_every_flipped_byte() {
    let dir = TempDir::new().unwrap();
    let from = put(&dir, "true.lackey", LACKEY.as_bytes());
    let to = dir.path().join("whole.reach");
    convert(&from, &to, Target::Reach, &mut unwatched).unwrap();
    let bytes = std::fs::read(&to).unwrap();
    check(&to, &mut unwatched).unwrap();
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        let path = put(&dir, "damaged.reach", &damaged);
        assert!(check(&path, &mut unwatched).is_err(), "byte {at}");
    }
}

#[test]
fn check_reports_a_program_without_a_first_switch() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("x.reach");
    let mut writer = Writer::create(&path, &Metadata::default()).unwrap();
    let mut chunk = Chunk::default();
    chunk.push_event(Event::Exit);
    writer.write(&chunk, &Default::default()).unwrap();
    writer.finish(&Ending::default()).unwrap();
    assert!(check(&path, &mut unwatched).unwrap_err().to_string().contains("begin with a switch"));
    assert_eq!(text(&path, 0..1), "0 event Exit\n");
}

#[test]
fn files_of_other_kinds_are_errors_with_advice() {
    let dir = TempDir::new().unwrap();
    let mut noise = vec![0u8; 5000];
    let mut random = reach_core::Random::new(1);
    noise.iter_mut().for_each(|b| *b = random.next_u64() as u8);
    let zeros = vec![0; 4096];
    for (name, bytes, part) in [
        ("empty", &b""[..], "empty"),
        ("short", b"ab", "no trace"),
        ("text", b"int main(void) { return 0; }\n", "no trace"),
        ("noise", &noise, "no trace"),
        ("zeros", &zeros, "no trace"),
        ("elf", b"\x7fELF\x02\x01\x01", "no trace"),
        ("cut", b"\x93Rea", "cut short"),
        ("later", b"\x93Reach\r\n\x09\0\0\0\0\0\0\0", "version 9"),
    ] {
        let path = put(&dir, name, bytes);
        let error = open(&path).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(part) && error.contains(path.to_str().unwrap()), "{name}: {error}");
    }
    assert!(matches!(open(dir.path().join("absent")), Err(TraceError::Io { .. })));
}

#[test]
fn a_closed_pipe_is_recognised() {
    struct Closed;
    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let dir = TempDir::new().unwrap();
    let path = put(&dir, "true.lackey", LACKEY.as_bytes());
    assert!(dump(&path, 0..9, &mut Closed, &mut unwatched).unwrap_err().is_broken_pipe());
}

/// Mutates foreign traces and `.reach` files. Reading must end or fail, and must not panic.
#[test]
fn mutated_files_never_panic() {
    let mut reach = Writer::new(Vec::new(), &Metadata::default()).unwrap();
    let mut source = Lackey::new(Cursor::new(LACKEY), "x");
    for chunk in all(&mut source).unwrap() {
        reach.write(&chunk, source.blocks()).unwrap();
    }
    let seeds = [LACKEY.as_bytes().to_vec(), some_champsim(), reach.finish(&Ending::default()).unwrap()];
    let mut random = reach_core::Random::new(2);
    let mut refused = [0; 3];
    for i in 0..6000 {
        let mut bytes = seeds[i % 3].clone();
        for _ in 0..=random.below(4) {
            let at = random.below(bytes.len() as u64 + 1) as usize;
            match random.below(4) {
                0 => bytes.truncate(at),
                1 => bytes.insert(at, random.next_u64() as u8),
                _ if at < bytes.len() => bytes[at] = random.next_u64() as u8,
                _ => {}
            }
        }
        let read = match i % 3 {
            0 => all(&mut Lackey::new(Cursor::new(bytes), "x")),
            1 => all(&mut ChampSim::new(Cursor::new(bytes), "x")),
            _ => Reader::new(Cursor::new(bytes), "x").and_then(|mut reader| all(&mut reader)),
        };
        refused[i % 3] += read.is_err() as u32;
    }
    assert!(refused.iter().all(|&n| n > 50), "{refused:?}");
}

#[test]
fn accesses_of_one_instruction_may_be_more_than_a_chunk_holds() {
    let lines = format!("I  04001090,3\n{}I  04001093,3\n", " L 04002000,8\n".repeat(300_000));
    let (refs, _) = ending_of(lines.as_bytes());
    assert_eq!(refs, 300_002);
}
