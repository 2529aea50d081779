use super::super::testing::{OLD_MARKS, events, marks, program_with_phases, read_all};
use super::*;
use crate::{FastForwarded, synthetic};

const PROGRAM: &str = "web:requests=500";

/// Samples [`PROGRAM`] from its start. Checks and removes the first mark.
fn sampled(options: &str) -> Chunk {
    let source = synthetic::parse(PROGRAM).unwrap();
    let sampling: Sampling = options.parse().unwrap();
    let mut sample = read_all(&mut Sampled::new(source, sampling, FastForward::default(), 1));
    assert_eq!(sample.events.remove(0), (0, Event::Mark(Mark::Sample { every: sampling.every })));
    sample
}

#[test]
fn sampling_adds_marks_and_changes_nothing_else() {
    let all = read_all(&mut *synthetic::parse(PROGRAM).unwrap());
    for options in ["every=5k,measure=5k,warm=0", "every=2k,measure=200,warm=300"] {
        let sample = sampled(options);
        assert!(sample.refs == all.refs && sample.fetched == all.fetched, "{options}");
        assert!(sample.events.is_sorted_by_key(|(at, _)| *at), "{options}");
        assert!(events(&sample) == all.events, "{options}");
    }
}

#[test]
fn a_sample_of_all_references_has_nothing_between_intervals() {
    let sample = sampled("every=5k,measure=5k,warm=0");
    assert_eq!(sample.events[0].1, Event::Mark(Mark::IntervalBegin));
    let marks = marks(&sample);
    assert!(marks.iter().all(|(_, mark)| [Mark::IntervalBegin, Mark::IntervalEnd].contains(mark)));
    let (ends, begins) = (marks.iter().skip(1).step_by(2), marks.iter().skip(2).step_by(2));
    assert!(ends.clone().all(|(_, mark)| *mark == Mark::IntervalEnd));
    assert!(ends.zip(begins).all(|(end, begin)| end.0 == begin.0 && begin.1 == Mark::IntervalBegin));
    let intervals = sample.refs.len() / 5000;
    assert!((2 * intervals - 1..=2 * intervals + 1).contains(&marks.len()), "{} for {intervals}", marks.len());
}

#[test]
fn intervals_have_their_length_and_distance() {
    let sample = sampled("every=2k,measure=200,warm=300");
    let marks = marks(&sample);
    assert_eq!(marks[0], (0, Mark::WarmCaches));
    let periods = marks[1..].chunks_exact(4);
    assert!(periods.len() >= 10 && periods.len() + 1 >= sample.refs.len() / 2000, "{}", periods.len());
    let mut last = None;
    for period in periods {
        let [warm, begin, end, between] = [0, 1, 2, 3].map(|n| period[n]);
        assert_eq!(
            [warm.1, begin.1, end.1, between.1],
            [Mark::Detailed, Mark::IntervalBegin, Mark::IntervalEnd, Mark::WarmCaches]
        );
        // Blocks are not cut, so lengths vary by a block.
        assert!((250..400).contains(&(begin.0 - warm.0)) && (150..300).contains(&(end.0 - begin.0)), "{period:?}");
        assert_eq!(end.0, between.0);
        assert!(sample.refs[begin.0].kind() == Kind::Fetch);
        let distance = last.replace(begin.0).map_or(2000, |last| begin.0 - last);
        assert!((1900..2100).contains(&distance), "{period:?}");
    }
}

#[test]
fn the_first_period_starts_at_the_phase() {
    const PROGRAM: &str = "gups:bytes=1M,init=yes,updates=20K";
    let sampled = |phase: &str| {
        let sampling = "every=1k,measure=100,warm=100".parse().unwrap();
        Sampled::new(synthetic::parse(PROGRAM).unwrap(), sampling, FastForward::Phase(phase.into()), 1)
    };
    let sample = read_all(&mut sampled("updates"));
    let (updates, _) = sample.events.iter().find(|(_, event)| *event == Event::Phase("updates".into())).unwrap();
    let updates = *updates as usize;
    let &(detailed, _) = marks(&sample).iter().find(|(_, mark)| *mark == Mark::Detailed).unwrap();
    assert!((updates..updates + 1000).contains(&detailed), "{detailed} after {updates}");
    let (mut never, mut chunk) = (sampled("update"), Chunk::default());
    let error = std::iter::repeat_with(|| never.fill(&mut chunk)).find_map(Result::err).unwrap();
    assert!(error.to_string().contains("no phase"), "{error}");
}

#[test]
fn phases_are_not_marks_whatever_their_names() {
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let sample = |names: &[&str]| {
        let sampling = "every=40,measure=4,warm=4,between=fast-forward".parse().unwrap();
        let sampled = Sampled::new(program_with_phases(names), sampling, FastForward::default(), 1);
        read_all(&mut FastForwarded::between_intervals(sampled))
    };
    let (plain, misleading) = (sample(&names), sample(&OLD_MARKS));
    assert!(plain.refs == misleading.refs && marks(&plain) == marks(&misleading));
    let to_phase = FastForwarded::new(program_with_phases(&OLD_MARKS), FastForward::Phase("measured".into()));
    let by_count = FastForwarded::new(program_with_phases(&OLD_MARKS), FastForward::References(20));
    assert!(read_all(&mut { to_phase }).events == read_all(&mut { by_count }).events);
}
