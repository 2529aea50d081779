//! Incomplete traces: every verb that reads one says what is missing, in every format, and exits with 1.

use crate::common::{failure, folder, path, raw, reach, stderr, stdout};
use reach_core::{Chunk, Random};
use reach_trace::file::{Metadata, Reader, Writer};
use reach_trace::{Ending, Limited, Source, synthetic};
use std::io::Read;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// The command that reads a trace, but for its format and the trace.
const READ: [&str; 6] = ["compare", "-q", "-m", "zen4", "-s", "base"];
/// References in the traces of these tests.
const REFS: u64 = 400_000;

/// Writes a trace of several segments, and returns its path and the ends of its segments.
fn recorded(folder: &TempDir) -> (String, Vec<usize>) {
    let trace = path(folder, "whole.reach");
    let metadata = Metadata { program: "gups".into(), tool: "reach 1.0".into(), ..Metadata::default() };
    let mut writer = Writer::create(&trace, &metadata).unwrap();
    let mut source = Limited::new(synthetic::parse("gups:bytes=1M,updates=300000").unwrap(), Some(REFS));
    let mut chunk = Chunk::default();
    while source.fill(&mut chunk).unwrap() {
        writer.write(&chunk, source.blocks()).unwrap();
        writer.flush().unwrap();
    }
    writer.finish(&Ending::default()).unwrap();
    let mut reader = Reader::open(&trace).unwrap();
    let ends = (0..reader.segments()).map(|i| reader.segment(i).map(|s| (s.at + s.bytes) as usize).unwrap()).collect();
    (trace, ends)
}

/// Writes the first `len` bytes of the file `whole` to a file of this name.
fn cut(folder: &TempDir, whole: &str, name: &str, len: usize) -> String {
    let cut = path(folder, name);
    std::fs::write(&cut, &std::fs::read(whole).unwrap()[..len]).unwrap();
    cut
}

/// The exit status, standard output and standard error of a command that must not panic.
struct Done {
    status: ExitStatus,
    out: String,
    err: String,
}

fn run(args: &[&str]) -> Done {
    let output = reach(args).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout).into_owned(), stderr(&output));
    assert!(!err.contains("panicked"), "{args:?}: {err}");
    Done { status: output.status, out, err }
}

#[test]
fn a_cut_trace_gives_results_a_warning_and_exit_status_1_in_every_format() {
    let folder = folder();
    let (whole, ends) = recorded(&folder);
    let part = cut(&folder, &whole, "cut.reach", ends[1] + 1000);
    let warning = "of 400 K references can be read: the file was cut after it was finished";
    for verb in [&READ[..], &["run", "-q", "-m", "zen4"]] {
        let table = run(&[verb, &["-t", &part]].concat());
        assert_eq!(table.status.code(), Some(1), "{}", table.err);
        assert!(table.err.contains(warning) && table.err.contains(&part), "{}", table.err);
        let words = table.out.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains(warning), "{}", table.out);

        let jsonl = run(&[verb, &["-f", "jsonl", "-t", &part]].concat());
        assert_eq!(jsonl.status.code(), Some(1));
        let header = jsonl.out.lines().next().unwrap();
        assert!(header.contains("\"incomplete\":\"") && header.contains(warning), "{header}");
        let csv = run(&[verb, &["-f", "csv", "-t", &part]].concat());
        assert_eq!(csv.status.code(), Some(1));
        assert!(csv.out.contains(",finding.incomplete,"), "{}", csv.out);
        assert!(csv.out.contains(",loads,") && csv.err.contains(warning), "{}", csv.err);

        let complete = run(&[verb, &["-f", "jsonl", "-t", &whole]].concat());
        assert!(complete.status.success() && complete.out.contains("\"incomplete\":null"), "{}", complete.err);
    }
}

#[test]
fn a_trace_of_which_nothing_can_be_read_gives_an_error_and_no_rows_of_zeroes() {
    let folder = folder();
    let (whole, ends) = recorded(&folder);
    for len in [ends[0] / 2, ends[0] - 1] {
        let part = cut(&folder, &whole, "cut.reach", len);
        for verb in [&READ[..], &["run", "-m", "zen4"], &["trace", "dump"], &["trace", "check"]] {
            let args = if verb[0] == "trace" { [verb, &[&part]].concat() } else { [verb, &["-t", &part]].concat() };
            let done = run(&args);
            assert_eq!((done.status.code(), done.out.as_str()), (Some(1), ""), "{args:?}: {}", done.err);
            assert!(done.err.contains("0 of 400 K references can be read"), "{args:?}: {}", done.err);
        }
    }
}

#[test]
fn the_verbs_of_trace_tell_what_a_cut_trace_lacks() {
    let folder = folder();
    let (whole, ends) = recorded(&folder);
    let part = cut(&folder, &whole, "cut.reach", ends[1]);
    let rest = path(&folder, "rest.reach");
    for args in [
        &["trace", "info", &part][..],
        &["trace", "check", &part],
        &["trace", "dump", &part, "--from", "100", "--count", "3"],
        &["trace", "convert", &part, "-o", &rest],
        // What was converted from a part is a part.
        &["trace", "info", &rest],
        &["trace", "check", &rest],
        &[&READ[..], &["-t", &rest]].concat(),
    ] {
        let done = run(args);
        assert_eq!(done.status.code(), Some(1), "{args:?}: {}", done.err);
        assert!(done.err.contains("of 400 K references can be read"), "{args:?}: {}", done.err);
    }
    let info = run(&["trace", "info", &part]).out;
    assert!(info.contains("recording      finished by reach 1.0\ncomplete       no\n"), "{info}");
    assert_eq!(run(&["trace", "dump", &part, "--from", "100", "--count", "3"]).out.lines().count(), 3);
    let info = stdout(&["trace", "info", &whole]);
    assert!(info.contains("complete       yes\nended          unknown\n"), "{info}");
    // Results of the converted part are those of the part.
    let rows = |trace: &str| run(&[&READ[..], &["-f", "csv", "-t", trace]].concat()).out;
    assert_eq!(rows(&rest), rows(&part));
}

#[test]
fn programs_that_run_together_name_the_incomplete_one() {
    let folder = folder();
    let (whole, ends) = recorded(&folder);
    let part = cut(&folder, &whole, "cut.reach", ends[1]);
    let scenario = path(&folder, "s.toml");
    std::fs::write(&scenario, "quantum = 10000\n[[program]]\nrun = 'touch'\n[[program]]\ntrace = 'cut.reach'\n")
        .unwrap();
    for args in [&["--scenario", &scenario][..], &["-t", &whole, "-t", &part], &["-p", "touch", "-t", &part]] {
        let done = run(&[&READ[..], &["-f", "csv"], args].concat());
        assert_eq!(done.status.code(), Some(1), "{args:?}: {}", done.err);
        assert!(done.out.contains(",finding.incomplete,") && done.err.contains(&format!("{part}: ")), "{}", done.err);
    }
}

#[test]
fn a_paper_gives_no_verdict_on_an_incomplete_program() {
    let folder = folder();
    let (whole, ends) = recorded(&folder);
    cut(&folder, &whole, "cut.reach", ends[1]);
    let paper = "citation = 'c'\n[base]\nmachine = 'zen4'\nmemory_mb = 64\ntiming = 'counts'\nseed = 1\nwarm = true\n\
                 systems = { base = 'base' }\n[[experiment]]\nname = 'e'\nabout = 'x'\nscenario = 's.toml'\n\
                 [[experiment.item]]\nitem = 'i'\nsection = '1'\npublished = 1.0\nunit = 'x'\n\
                 tolerance = { above = 0.0 }\nreason = 'claim: r'\nnull = 0.0\nours = { metric = 'stores', system = 'base' }\n";
    std::fs::write(folder.path().join("paper.toml"), paper).unwrap();
    let rows = path(&folder, "rows.jsonl");
    let run_with = |trace: &str| {
        std::fs::write(folder.path().join("s.toml"), format!("[[program]]\ntrace = '{trace}'\n")).unwrap();
        run(&["paper", "run", folder.path().to_str().unwrap(), "-o", &rows, "--force", "-f", "jsonl"])
    };
    let done = run_with("cut.reach");
    assert_eq!(done.status.code(), Some(1), "{}", done.err);
    assert!(done.out.contains("\"not measurable\"") && done.out.contains("can be read"), "{}", done.out);
    assert!(done.err.contains("of 400 K references can be read"), "{}", done.err);
    let done = run_with("whole.reach");
    assert!(done.status.success() && done.out.contains("\"met\""), "{} {}", done.out, done.err);
}

#[test]
fn a_limit_within_what_a_cut_trace_has_asks_for_nothing_that_is_missing() {
    let folder = folder();
    let (whole, ends) = recorded(&folder);
    let part = cut(&folder, &whole, "cut.reach", ends[1]);
    let rows = |trace: &str| stdout(&[&READ[..], &["-f", "csv", "--limit", "100k", "-t", trace]].concat());
    assert_eq!(rows(&part), rows(&whole));
    assert_eq!(run(&[&READ[..], &["--limit", "350k", "-t", &part]].concat()).status.code(), Some(1));
}

#[test]
fn an_older_trace_without_its_end_is_incomplete_too() {
    let folder = folder();
    let old = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../trace/tests/data/version-2-fast-forward.reach");
    let bytes = std::fs::read(&old).unwrap();
    let part = cut(&folder, old.to_str().unwrap(), "old.reach", bytes.len() - 40);
    assert!(stdout(&["trace", "info", old.to_str().unwrap()]).contains("complete       yes"));
    let (status, text) = failure(&[&READ[..], &["-t", &part]].concat());
    assert!(status == 1 && text.contains("which version 2 does not tell"), "{status} {text}");
}

#[test]
fn foreign_traces_without_their_ends_are_incomplete_too() {
    let folder = folder();
    let accesses: String = (0..5000).map(|i| format!("I  04001090,3\n L {:x},8\n", 0x100_0000 + i * 64)).collect();
    let opening = "==1== Lackey, an example Valgrind tool\n";
    let whole = path(&folder, "whole.lackey");
    std::fs::write(&whole, format!("{opening}{accesses}==1== Exit code:       0\n")).unwrap();
    assert!(run(&[&READ[..], &["-t", &whole]].concat()).status.success());
    let died = path(&folder, "died.lackey");
    let signal = "==1== Process terminating with default action of signal 11 (SIGSEGV)\n==1== Exit code:       0\n";
    std::fs::write(&died, format!("{opening}{accesses}{signal}")).unwrap();
    let killed = path(&folder, "killed.lackey");
    std::fs::write(&killed, format!("{opening}{accesses}")).unwrap();
    let record: Vec<u8> = (0..64u8).map(|i| if i == 0 { 16 } else { u8::from(i == 32) * 9 }).collect();
    let champsim = path(&folder, "cut.champsim");
    std::fs::write(&champsim, &record.repeat(100)[..6390]).unwrap();
    for (trace, status, part) in [
        (&died, 128 + 11, "the program ended by signal 11 (SIGSEGV)"),
        (&killed, 1, "closing lines are missing"),
        (&champsim, 1, "the last record is cut short at byte 6336"),
    ] {
        let done = run(&[&["compare", "-m", "zen4", "-s", "base", "-f", "csv", "-t"][..], &[trace]].concat());
        assert_eq!(done.status.code(), Some(status), "{}", done.err);
        assert!(done.err.contains(part) && done.out.contains(",finding."), "{}", done.err);
    }
}

/// How a test harms a recording.
#[derive(Debug)]
enum Harm {
    Cut(usize),
    Flip(usize, u8),
    /// The signal, and the time in microseconds after which the recorder gets it.
    Kill(i32, u64),
}

/// Cuts, damages and kills recordings at random. No verb ever exits with 0 unless it gives the results of the whole.
#[test]
fn no_harm_to_a_recording_passes_for_a_whole_one() {
    let seed = 0x21;
    let folder = folder();
    let (whole, _) = recorded(&folder);
    let bytes = std::fs::read(&whole).unwrap();
    let csv = |trace: &str| run(&[&READ[..], &["-f", "csv", "-t", trace]].concat());
    let expected = csv(&whole);
    assert!(expected.status.success());
    let mut random = Random::new(seed);
    let signals =
        [libc::SIGKILL, libc::SIGTERM, libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGSEGV, libc::SIGUSR1];
    // What the recorders print that no signal ends.
    let (status, unharmed) = kill_recorder(&path(&folder, "unharmed.reach"), 0, Duration::ZERO);
    assert!(status.success());
    let mut killed = [0; 3];
    for case in 0..100 {
        let harm = match case % 4 {
            0 | 1 => Harm::Cut(random.below(bytes.len() as u64) as usize),
            2 => Harm::Flip(random.below(bytes.len() as u64) as usize, 1 << random.below(8)),
            _ => Harm::Kill(signals[case / 4 % signals.len()], random.below(60_000)),
        };
        let trace = path(&folder, "harmed.reach");
        let context = format!("seed {seed}, case {case}, {harm:?}");
        match harm {
            Harm::Cut(len) => {
                std::fs::write(&trace, &bytes[..len]).unwrap();
                assert_eq!(csv(&trace).status.code(), Some(1), "{context}");
                assert_eq!(run(&["trace", "info", &trace]).status.code(), Some(1), "{context}");
            }
            Harm::Flip(at, bit) => {
                let mut damaged = bytes.clone();
                damaged[at] ^= bit;
                std::fs::write(&trace, damaged).unwrap();
                let done = csv(&trace);
                assert!(done.status.code() == Some(1) || done.out == expected.out, "{context}");
                assert_eq!(run(&["trace", "check", &trace]).status.code(), Some(1), "{context}");
            }
            Harm::Kill(signal, after) => {
                let _ = std::fs::remove_file(&trace);
                let (status, rows) = kill_recorder(&trace, signal, Duration::from_micros(after));
                let kind = match status.code() {
                    // Killed: the file is absent or unfinished, unless the signal came after its end.
                    None => {
                        let done = csv(&trace);
                        assert!(done.status.code() == Some(1) || done.out == unharmed, "{context}: {}", done.err);
                        0
                    }
                    // Interrupted, or at its end before the signal: the replay equals what the recorder printed.
                    Some(code) => {
                        assert!(code == 0 || code == 128 + signal, "{context}: {code}");
                        let replayed = csv(&trace);
                        assert!(replayed.status.success() && replayed.out == rows, "{context}: {}", replayed.err);
                        1 + usize::from(code == 0)
                    }
                };
                killed[kind] += 1;
            }
        }
    }
    // Some recorders are killed, and some are interrupted.
    assert!(killed[0] >= 10 && killed[1] >= 3, "seed {seed}: {killed:?}");
}

/// Starts a recorder, sends it `signal` (0 for none) after the time `after`, and returns its exit status and rows.
fn kill_recorder(trace: &str, signal: i32, after: Duration) -> (ExitStatus, String) {
    let program = ["-f", "csv", "-p", "gups:bytes=1M,updates=400000", "--record", trace];
    let mut recorder =
        raw(&[&READ[..], &program].concat()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    std::thread::sleep(after);
    // SAFETY: the recorder has not been waited for, so its number is its own.
    unsafe { libc::kill(recorder.id() as i32, signal) };
    let mut rows = String::new();
    recorder.stdout.take().unwrap().read_to_string(&mut rows).unwrap();
    (recorder.wait().unwrap(), rows)
}
