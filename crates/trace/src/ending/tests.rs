//! Tests of endings and their sentences.

use super::*;
use std::time::{Duration, SystemTime};

fn rest(read: u64, whole: Option<u64>) -> Missing {
    let [of, why, todo] = ["t.reach", "the file is cut short", "record it again"].map(str::to_owned);
    Missing { of, why, todo, part: Part::Rest { read, whole } }
}

#[test]
fn missing_parts_are_told_with_their_amounts() {
    for (missing, text) in [
        (
            rest(81_600_000, Some(570_000_000)),
            "t.reach: 81.6 M of 570 M references can be read: the file is cut short; record it again",
        ),
        (
            rest(9_999, None),
            "t.reach: 9,999 references can be read, of an unknown number: the file is cut short; record it again",
        ),
        (
            Missing { part: Part::Gaps, ..rest(0, None) },
            "t.reach: references are missing: the file is cut short; record it again",
        ),
    ] {
        assert_eq!(missing.to_string(), text);
    }
    assert_eq!([0, 999_600, 12_345].map(short), ["0", "1.00 M", "12.3 K"]);
    assert_eq!([1, 63_123].map(Missing::bytes), ["1 byte", "63,123 bytes"]);
}

#[test]
fn ends_of_programs_are_told_and_give_the_status_of_a_shell() {
    for (exit, text, status) in [
        (Exit::Status(0), "the program ended with exit status 0", 0),
        (Exit::Status(3), "the program ended with exit status 3", 3),
        (Exit::Signal(11), "the program ended by signal 11 (SIGSEGV)", 139),
        (Exit::Signal(9), "the program was killed (signal 9, SIGKILL)", 137),
        (Exit::Signal(40), "the program ended by signal 40", 168),
    ] {
        let ending = Ending { exits: vec![exit.into()], ..Ending::default() };
        assert_eq!((ending.exits[0].to_string().as_str(), ending.exit_status()), (text, status));
        assert_eq!(ending.failures().count(), usize::from(status != 0));
    }
}

#[test]
fn an_intended_stop_excuses_a_missing_rest_but_no_gaps() {
    let gaps = Missing { part: Part::Gaps, ..rest(0, None) };
    let ending = Ending { missing: vec![rest(5, None), gaps.clone()], ..Ending::default() };
    let stopped = ending.stopped_by(Stop::Limit(1000));
    assert_eq!((stopped.missing, stopped.stopped), (vec![gaps], Some(Stop::Limit(1000))));
    assert_eq!(Stop::Limit(1000).to_string(), "after 1,000 references, as requested");
    assert_eq!(Stop::Signal(15).to_string(), "by SIGTERM, sent to the recorder");
}

#[test]
fn endings_of_several_programs_keep_their_names_and_each_fact_once() {
    let failed = Ending { exits: vec![Exit::Status(3).into()], missing: vec![rest(5, None)], ..Ending::default() };
    let mut all = Ending::default();
    all.absorb("web", failed.clone());
    all.absorb("web", failed.clone());
    all.absorb("db", failed.clone());
    let mut nested = Ending::default();
    nested.absorb("outer", all.clone());
    let texts = |ending: &Ending| ending.exits.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(texts(&all), ["web ended with exit status 3", "db ended with exit status 3"]);
    assert_eq!(texts(&nested), ["outer: web ended with exit status 3", "outer: db ended with exit status 3"]);
    assert_eq!(all.missing, failed.missing);
}

#[test]
fn the_endings_of_the_most_processes_fit_in_a_trace() {
    let pids = (0..Execution::MAX_PROCESSES as u32).map(|n| (n, u32::MAX - n)).collect();
    let execution = Some(Execution { from: u64::MAX, to: u64::MAX, pids });
    let ending = Ending { execution, ..Ending::default() };
    // Half of the room is left for what is missing and for ends of programs.
    assert!(serde_json::to_vec(&ending).unwrap().len() < 1 << 19);
}

#[test]
fn a_moment_belongs_to_an_execution_from_its_start_to_its_end() {
    let execution = Execution { from: 5, to: 9, ..Execution::default() };
    let at = |nanoseconds| SystemTime::UNIX_EPOCH + Duration::from_nanos(nanoseconds);
    assert_eq!([4, 5, 9, 10].map(|n| execution.contains(at(n))), [false, true, true, false]);
    assert!(!execution.contains(SystemTime::UNIX_EPOCH - Duration::from_secs(1)));
}

#[test]
fn an_ending_survives_its_encoding() {
    let cause = Some(Cause::LacksAvx { emulator: "QEMU 7.2".into(), newer_has: true });
    let ending = Ending {
        missing: vec![rest(1, Some(2)), Missing { part: Part::Gaps, ..rest(0, None) }],
        exits: vec![ProgramExit { program: "a".into(), exit: Exit::Signal(4), cause }, Exit::Status(0).into()],
        stopped: Some(Stop::Signal(15)),
        uncertain: Some("no end mark".into()),
        execution: Some(Execution { from: 5, to: 9, pids: [(0, 1234), (1, 1240)].into() }),
    };
    let text = serde_json::to_string(&ending).unwrap();
    assert_eq!(serde_json::from_str::<Ending>(&text).unwrap(), ending);
    assert_eq!(serde_json::to_string(&Ending::default()).unwrap(), "{}");
    assert_eq!(serde_json::from_str::<Ending>("{}").unwrap(), Ending::default());
}
