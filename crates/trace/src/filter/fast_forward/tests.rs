use super::super::testing::{events, marks, read_all};
use super::*;
use crate::synthetic;

/// Programs that map and unmap files, allocate and free memory, and switch between processes.
const PROGRAMS: [&str; 4] =
    ["web:requests=50", "cmp:bytes=2M", "tree:nodes=3000,operations=1K", "phases:sizes=64K/2M,dwell=1K,rounds=3"];

#[test]
fn fast_forward_to_a_phase_equals_fast_forward_by_its_references() {
    const PROGRAM: &str = "gups:bytes=16M,init=yes,updates=1000";
    let all = read_all(&mut *synthetic::parse(PROGRAM).unwrap());
    let kept = |fast_forward| read_all(&mut FastForwarded::new(synthetic::parse(PROGRAM).unwrap(), fast_forward));
    let phase = kept(FastForward::Phase("updates".into()));
    let (updates, _) = all.events.iter().find(|(_, event)| *event == Event::Phase("updates".into())).unwrap();
    let counted = kept(FastForward::References(u64::from(*updates)));
    assert!(phase.refs == counted.refs && phase.events == counted.events && phase.fetched == counted.fetched);
    // Initialisation stores to each of a page's 512 words; one store stays.
    assert!(phase.refs.len() < all.refs.len() / 8, "{} of {}", phase.refs.len(), all.refs.len());
}

#[test]
fn a_phase_that_never_comes_is_an_error_that_lists_the_phases() {
    let source = synthetic::parse("gups:bytes=1M,init=yes,updates=1000").unwrap();
    let mut never = FastForwarded::new(source, FastForward::Phase("update".into()));
    let mut chunk = Chunk::default();
    let error = std::iter::repeat_with(|| never.fill(&mut chunk)).find_map(Result::err).unwrap();
    assert!(error.to_string().contains("no phase \"update\"; fast-forward to one of init, updates"), "{error}");
}

#[test]
fn all_events_and_all_references_after_the_beginning_stay() {
    for spec in PROGRAMS {
        let all = read_all(&mut *synthetic::parse(spec).unwrap());
        let fast_forward = FastForward::References(all.refs.len() as u64 / 2);
        let kept = read_all(&mut FastForwarded::new(synthetic::parse(spec).unwrap(), fast_forward));
        let after = &all.refs[all.refs.len() / 2..];
        assert!(kept.refs.ends_with(after), "{spec}: references after the beginning have changed");
        let [(0, Mark::FastForward), (measured_from, Mark::Measure)] = marks(&kept)[..] else {
            panic!("{spec}: {:?}", marks(&kept));
        };
        // The fetch of the first measured reference's block may come between the mark and the reference.
        let extra = kept.refs.len() - measured_from - after.len();
        assert!(extra <= usize::from(after[0].kind() != Kind::Fetch), "{spec}: the mark is where the beginning ends");
        let without_places = |chunk: &Chunk| events(chunk).into_iter().map(|(_, event)| event).collect::<Vec<_>>();
        assert!(without_places(&kept) == without_places(&all), "{spec}: an event is lost");
        assert!(kept.refs.len() < all.refs.len(), "{spec}: nothing was fast-forwarded");
    }
}
