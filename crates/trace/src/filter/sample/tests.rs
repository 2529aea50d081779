use super::super::testing::{OLD_MARKS, OneChunk, events, marks, program_with_phases, read_all};
use super::first_run::{IN_FULL, SEGMENT};
use super::*;
use crate::{FastForwarded, synthetic};
use reach_core::{Block, Ref, VirtAddr};

/// Touches all of its memory in its first references.
const PROGRAM: &str = "gups:bytes=64K,updates=100K";

/// Samples [`PROGRAM`] from its start. Checks and removes the first mark.
fn sampled(options: &str) -> Chunk {
    let source = synthetic::parse(PROGRAM).unwrap();
    let sampling: Sampling = options.parse().unwrap();
    let mut sample = read_all(&mut Sampled::new(source, sampling, FastForward::default(), 1));
    assert_eq!(sample.events.remove(0), (0, Event::Mark(Mark::Sample { every: sampling.every })));
    sample
}

/// The intervals of a sample: the first reference, the one that ends it, and whether it is code that runs for the first time.
fn intervals(sample: &Chunk) -> Vec<(usize, usize, bool)> {
    let marks = marks(sample);
    let begins = marks.iter().filter(|(_, mark)| [Mark::IntervalBegin, Mark::FirstRunBegin].contains(mark));
    let ends = marks.iter().filter(|(_, mark)| *mark == Mark::IntervalEnd).map(|(at, _)| *at);
    let ends = ends.chain([sample.refs.len()]);
    begins.zip(ends).map(|((begin, mark), end)| (*begin, end, *mark == Mark::FirstRunBegin)).collect()
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
    let between =
        |(_, mark): &&(usize, Mark)| ![Mark::IntervalBegin, Mark::FirstRunBegin, Mark::IntervalEnd].contains(mark);
    assert_eq!(marks(&sample).iter().find(between), None);
    let intervals = intervals(&sample);
    assert!(intervals.windows(2).all(|pair| pair[0].1 == pair[1].0));
    let first_run = intervals.iter().filter(|interval| interval.2).count();
    let periods = sample.refs.len() / 5000;
    // A first run divides an interval into two.
    let sampled = intervals.len() - 2 * first_run;
    assert!((periods..=periods + 1).contains(&sampled), "{sampled} for {periods}");
}

#[test]
fn every_period_has_one_interval_of_its_length_somewhere() {
    let sample = sampled("every=2k,measure=200,warm=300");
    let marks = marks(&sample);
    let places = |wanted| marks.iter().filter(move |(_, mark)| *mark == wanted).map(|(at, _)| *at);
    let all = intervals(&sample);
    let known_from = all.iter().filter(|interval| interval.2).map(|interval| interval.1).max().unwrap();
    let intervals: Vec<_> = all.iter().filter(|interval| interval.0 > known_from).collect();
    let periods = (sample.refs.len() - known_from) / 2000;
    assert!(periods > 50 && intervals.len().abs_diff(periods) <= 1, "{} of {periods}", intervals.len());
    for &&(begin, end, _) in &intervals[1..] {
        // Blocks are not cut, so lengths vary by a block.
        assert!((150..300).contains(&(end - begin)) && sample.refs[begin].kind() == Kind::Fetch, "{begin} to {end}");
        let detailed = places(Mark::Detailed).take_while(|at| *at <= begin).last().unwrap();
        let between = places(Mark::WarmCaches).take_while(|at| *at <= begin).last().unwrap();
        assert!(between < detailed && begin - detailed >= 250, "{between}, {detailed}, {begin}");
    }
    let distances: Vec<_> = intervals.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
    assert!(distances.iter().all(|distance| (200..4000).contains(distance)));
    let (least, most) = (distances.iter().min().unwrap(), distances.iter().max().unwrap());
    assert!(*least < 1200 && *most > 2800, "distances vary: {least} to {most}");
}

#[test]
fn every_reference_outside_first_runs_is_measured_equally_often() {
    const BUCKETS: usize = 20;
    let program = read_all(&mut *synthetic::parse("gups:bytes=64K,updates=8K").unwrap());
    let (mut measured, mut expected) = ([0.0; BUCKETS], [0.0; BUCKETS]);
    for seed in 0..1000 {
        let sampling = "every=1k,measure=100,warm=50".parse().unwrap();
        let source = synthetic::parse("gups:bytes=64K,updates=8K").unwrap();
        let sample = read_all(&mut Sampled::new(source, sampling, FastForward::default(), seed));
        let mut in_full = vec![false; sample.refs.len()];
        for (begin, end, first_run) in intervals(&sample) {
            for at in begin..end {
                in_full[at] = first_run;
                measured[at * BUCKETS / program.refs.len()] += f64::from(!first_run);
            }
        }
        for at in (0..sample.refs.len()).filter(|&at| !in_full[at]) {
            expected[at * BUCKETS / program.refs.len()] += 0.1;
        }
    }
    for (bucket, (measured, expected)) in measured.iter().zip(expected).enumerate() {
        let share = measured / expected;
        assert!((0.9..1.1).contains(&share), "part {bucket} of {BUCKETS}: {share} of its share");
    }
}

#[test]
fn dense_samples_measure_code_that_runs_for_the_first_time_in_full() {
    let sample = sampled("every=10k,measure=200,warm=300");
    let in_full =
        |at: usize| intervals(&sample).iter().any(|&(begin, end, first_run)| first_run && (begin..end).contains(&at));
    let mut new_code = FirstRun::new(1, 1_000_000, 1);
    new_code.start();
    new_code.look(&sample, 0);
    let fetches = sample.refs.iter().enumerate().filter(|(_, r)| r.kind() == Kind::Fetch);
    let codes: Vec<_> = fetches.map(|(at, _)| (at, new_code.fetch(at as u64))).collect();
    assert!(
        codes.iter().any(|(_, code)| matches!(code, Code::New(_)))
            && codes.iter().any(|(_, code)| *code == Code::Known)
    );
    assert!(codes.iter().all(|&(at, code)| in_full(at) == matches!(code, Code::New(_))));
}

/// A program of one long stretch of new code.
fn new_code(blocks: u32) -> OneChunk {
    let (mut chunk, mut table) = (Chunk::default(), BlockTable::default());
    chunk.push_event(Event::Switch { asid: Default::default(), thread: Default::default() });
    for number in 0..blocks {
        let block =
            Block { pc: VirtAddr(0x1000 + 8 * u64::from(number)), len: 8, instructions: 2, bytes: Box::new([]) };
        let id = table.push(block.clone());
        chunk.push_fetch(id, &block);
        (0..9).for_each(|page| chunk.refs.push(Ref::load(VirtAddr(page << 12))));
    }
    OneChunk::new(chunk, table)
}

/// Marks tell which new code is measured, segment by segment, and where the rest lies.
#[test]
fn sparse_samples_measure_segments_of_new_code_and_mark_the_others() {
    let sampling: Sampling = "every=100k,measure=200,warm=300".parse().unwrap();
    let sample = read_all(&mut Sampled::new(new_code(50_000), sampling, FastForward::default(), 1));
    let (mut part, mut lengths) = (None, [Vec::new(), Vec::new()]);
    for (at, mark) in marks(&sample).into_iter().chain([(sample.refs.len(), Mark::IntervalEnd)]) {
        match mark {
            Mark::FirstRunBegin => part = Some((0, at)),
            Mark::FirstRunUnmeasured => part = Some((1, at)),
            Mark::IntervalEnd => {
                part.take().into_iter().for_each(|(kind, begin): (usize, _)| lengths[kind].push(at - begin))
            }
            _ => {}
        }
    }
    let [measured, others] = lengths;
    let segment = SEGMENT as usize;
    let (in_full, drawn) = measured.split_at(IN_FULL as usize);
    assert!(in_full.iter().all(|length| *length == segment), "{in_full:?}");
    assert!(drawn[..drawn.len() - 1].iter().all(|length| *length == segment), "{drawn:?}");
    assert!(others.iter().all(|length| length % segment == 0 || *length == others[others.len() - 1]), "{others:?}");
    assert!((2 * drawn.len()..=4 * drawn.len()).contains(&(others.iter().sum::<usize>() / segment)));
    let new = measured.iter().chain(&others).sum::<usize>();
    assert_eq!(new, sample.refs.len(), "all is new code");
}

#[test]
fn measuring_starts_at_the_phase() {
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
