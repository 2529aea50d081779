//! Traces of older versions of the format. The files in `data` of version 2 were recorded by the last release that wrote it,
//! from a program that increments 256 words of 128 KB three times. Those of versions 3 and 4 are the synthetic program
//! `gups:bytes=128K,updates=256`.

use reach_core::{Chunk, Event, Mark};
use reach_trace::file::{Reader, Recording, VERSION};
use reach_trace::verbs::{Target, check, convert, info};
use reach_trace::{Ending, Limited, Part, Progress, Source, synthetic};
use std::io::Cursor;
use std::path::{Path, PathBuf};

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

fn unwatched(_: u64, _: Progress) {}

fn read_all(source: &mut dyn Source) -> Chunk {
    let (mut chunk, mut all) = (Chunk::default(), Chunk::default());
    while source.fill(&mut chunk).unwrap() {
        all.append(&chunk);
    }
    all
}

fn marks(chunk: &Chunk) -> Vec<(u32, Mark)> {
    let mark = |(at, event): &(u32, Event)| if let Event::Mark(mark) = event { Some((*at, *mark)) } else { None };
    chunk.events.iter().filter_map(mark).collect()
}

#[test]
fn a_fast_forwarded_recording_of_version_2_has_marks() {
    let path = data("version-2-fast-forward.reach");
    let mut reader = Reader::open(&path).unwrap();
    assert_eq!(reader.version(), 2);
    let all = read_all(&mut reader);
    assert_eq!(marks(&all), [(0, Mark::FastForward), (63, Mark::Measure)]);
    assert!(!all.events.iter().any(|(_, event)| matches!(event, Event::Phase(_))));
    let limited = read_all(&mut Limited::new(Reader::open(&path).unwrap(), Some(100)));
    assert_eq!(limited.refs.len(), 163, "the limit does not count the beginning");
}

#[test]
fn a_sample_of_version_2_has_marks() {
    let all = read_all(&mut Reader::open(data("version-2-sample.reach")).unwrap());
    let marks = marks(&all);
    let head = [Mark::Sample { every: 400 }, Mark::FastForward, Mark::WarmTlbs, Mark::FastForward];
    assert_eq!(marks[..4], head.map(|mark| (0, mark)));
    let period = [Mark::Detailed, Mark::IntervalBegin, Mark::IntervalEnd, Mark::WarmTlbs, Mark::FastForward];
    let periods = marks[4..].chunks(5);
    assert_eq!(periods.len(), 5);
    for marks in periods {
        assert!(marks.iter().map(|(_, mark)| mark).eq(&period), "{marks:?}");
    }
}

#[test]
fn converting_writes_the_present_version_with_the_same_contents() {
    let folder = tempfile::TempDir::new().unwrap();
    for name in ["version-2-fast-forward.reach", "version-2-sample.reach", "version-3.reach", "version-4.reach"] {
        let (from, to) = (data(name), folder.path().join(name));
        check(&from, &mut unwatched).unwrap();
        convert(&from, &to, Target::Reach, &mut unwatched).unwrap();
        check(&to, &mut unwatched).unwrap();
        let (mut old, mut new) = (Reader::open(&from).unwrap(), Reader::open(&to).unwrap());
        assert_eq!(new.version(), VERSION);
        let (old, new) = (read_all(&mut old), read_all(&mut new));
        assert!(old.refs == new.refs && old.fetched == new.fetched && old.events == new.events, "{name}");
        let events = |path: &Path| info(path, &mut unwatched).unwrap().events;
        assert_eq!(events(&from).contains_key("mark"), name.starts_with("version-2"), "{name}");
        assert_eq!(events(&from), events(&to), "{name}");
    }
}

#[test]
fn a_trace_of_version_4_is_that_of_version_3_with_its_end() {
    let mut readers = ["version-3.reach", "version-4.reach"].map(|name| Reader::open(data(name)).unwrap());
    assert_eq!(readers.each_ref().map(|reader| reader.version()), [3, 4]);
    let [old, new] = readers.each_mut().map(|reader| read_all(reader));
    assert!(old.refs == new.refs && old.events == new.events);
    assert_eq!(readers[1].recording(), Recording::Finished);
}

#[test]
fn a_trace_of_version_3_is_read_and_tells_whether_it_has_its_end() {
    let path = data("version-3.reach");
    let mut reader = Reader::open(&path).unwrap();
    assert_eq!((reader.version(), reader.recording()), (3, Recording::Finished));
    let whole = read_all(&mut reader);
    let generated = read_all(&mut *synthetic::parse("gups:bytes=128K,updates=256").unwrap());
    assert!(whole.refs == generated.refs && whole.events == generated.events);
    assert_eq!(reader.ending(), Ending::default());
    let bytes = std::fs::read(&path).unwrap();
    for lost in [1, 30, 80] {
        let part = bytes[..bytes.len() - lost].to_vec();
        let mut reader = Reader::new(Cursor::new(part), "cut.reach").unwrap();
        assert_eq!(reader.recording(), Recording::Unknown);
        let read = if reader.refs() > 0 { read_all(&mut reader).refs.len() as u64 } else { 0 };
        assert_eq!(reader.ending().missing[0].part, Part::Rest { read, whole: None }, "{lost}");
    }
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        let Ok(mut reader) = Reader::new(Cursor::new(damaged), "damaged.reach") else { continue };
        let mut chunk = Chunk::default();
        let failed = loop {
            match reader.fill(&mut chunk) {
                Ok(true) => {}
                Ok(false) => break false,
                Err(_) => break true,
            }
        };
        assert!(failed || !reader.ending().missing.is_empty(), "byte {at}");
    }
}
