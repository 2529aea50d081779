//! Traces of older versions of the format. The files in `data` were recorded by the last release that wrote version 2,
//! from a program that increments 256 words of 128 KB three times.

use reach_core::{Chunk, Event, Mark};
use reach_trace::file::{Reader, VERSION};
use reach_trace::verbs::{check, convert, info};
use reach_trace::{Limited, Progress, Source};
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
    for name in ["version-2-fast-forward.reach", "version-2-sample.reach"] {
        let (from, to) = (data(name), folder.path().join(name));
        check(&from, &mut unwatched).unwrap();
        convert(&from, &to, &mut unwatched).unwrap();
        check(&to, &mut unwatched).unwrap();
        let (mut old, mut new) = (Reader::open(&from).unwrap(), Reader::open(&to).unwrap());
        assert_eq!(new.version(), VERSION);
        let (old, new) = (read_all(&mut old), read_all(&mut new));
        assert!(old.refs == new.refs && old.fetched == new.fetched && old.events == new.events, "{name}");
        let events = |path: &Path| info(path, &mut unwatched).unwrap().events;
        assert!(events(&from).contains_key("mark") && events(&from) == events(&to), "{name}");
    }
}
