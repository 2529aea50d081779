use super::super::testing::{OLD_MARKS, marks, program_with_phases, read_all};
use super::*;
use crate::file::{Metadata, Reader, Writer};
use crate::{FastForward, FastForwarded, Sampled, synthetic};

const PROGRAM: &str = "gups:bytes=16M,init=yes,updates=20K";

fn program() -> Box<dyn Source> {
    synthetic::parse(PROGRAM).unwrap()
}

fn to_updates() -> FastForward {
    FastForward::Phase("updates".into())
}

/// Returns the places of one mark.
fn places(chunk: &Chunk, wanted: Mark) -> Vec<usize> {
    marks(chunk).into_iter().filter(|&(_, mark)| mark == wanted).map(|(at, _)| at).collect()
}

#[test]
fn a_limit_is_exact_wherever_chunks_end() {
    let all = read_all(&mut *program());
    for limit in [1, 100, 30_001, all.refs.len() as u64, u64::MAX] {
        let mut limited = Limited::new(program(), Some(limit));
        let kept = read_all(&mut limited);
        let end = all.refs.len().min(usize::try_from(limit).unwrap());
        assert!(kept.refs == all.refs[..end] && limited.counted() == end as u64, "{limit}");
        let fetches = kept.refs.iter().filter(|r| r.kind() == Kind::Fetch).count();
        assert!(kept.fetched == all.fetched[..fetches], "{limit}");
    }
}

#[test]
fn an_outline_counts_as_many_references_as_its_program() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let (mut source, mut chunk) = (FastForwarded::new(program(), to_updates()), Chunk::default());
    let mut writer = Writer::create(file.path(), &Metadata::default()).unwrap();
    while source.fill(&mut chunk).unwrap() {
        writer.write(&chunk, source.blocks()).unwrap();
    }
    writer.finish(&Ending::default()).unwrap();
    let counted = |outline: bool| {
        let mut reader = Reader::open(file.path()).unwrap();
        assert!(reader.outline(outline).unwrap(), "a file can be read from its start again");
        let (mut limited, mut chunk) = (Limited::new(reader, None), Chunk::default());
        while limited.fill(&mut chunk).unwrap() {}
        limited.counted()
    };
    assert!(counted(true) > 10_000 && counted(true) == counted(false), "{} {}", counted(true), counted(false));
}

#[test]
fn fast_forwarded_references_do_not_count() {
    let limited = |limit| read_all(&mut Limited::new(FastForwarded::new(program(), to_updates()), Some(limit)));
    let (short, long) = (limited(1), limited(5000));
    assert_eq!(places(&long, Mark::FastForward), [0]);
    let [from] = places(&long, Mark::Measure)[..] else { panic!("measurement begins once") };
    assert!(from > 1000, "the beginning stores to each page of 16 MB");
    assert_eq!((short.refs.len(), long.refs.len()), (from + 1, from + 5000));
}

#[test]
fn references_of_a_sample_count_unless_fast_forwarded() {
    let sample = |between: &str, limit| {
        let sampling = format!("every=4k,measure=100,warm=100,between={between}").parse().unwrap();
        let sampled = Sampled::new(program(), sampling, to_updates(), 1);
        match between {
            "fast-forward" => read_all(&mut Limited::new(FastForwarded::between_intervals(sampled), limit)),
            _ => read_all(&mut Limited::new(sampled, limit)),
        }
    };
    // Two and a half intervals with their warm-up: of 200 to 210 references, because blocks are not cut.
    let kept = sample("fast-forward", Some(500));
    let (begins, ends) = (places(&kept, Mark::Detailed), places(&kept, Mark::WarmTlbs));
    let detailed: usize = begins.iter().zip(&ends[1..]).map(|(from, to)| to - from).sum();
    assert_eq!((begins.len(), ends.len()), (3, 3));
    assert_eq!(detailed + kept.refs.len() - begins[2], 500);
    let (all, kept) = (sample("tlbs", None), sample("tlbs", Some(500)));
    let from = places(&all, Mark::Measure)[0];
    assert_eq!(kept.refs.len(), from + 500, "functional warming counts, except in the beginning");
}

#[test]
fn phases_are_not_marks_whatever_their_names() {
    let all = read_all(&mut program_with_phases(&OLD_MARKS));
    let mut limited = Limited::new(program_with_phases(&OLD_MARKS), None);
    assert!(read_all(&mut limited).events == all.events && limited.counted() == all.refs.len() as u64);
}
