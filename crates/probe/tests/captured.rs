//! The loop that is timed on this computer, captured and simulated on a preset, shows that preset's first step.

use reach_core::Label;
use reach_lab::{Conditions, Experiment, Timing, machine};
use reach_trace::live::{Live, Options, emulator};
use std::path::Path;
use std::process::Command;

/// Laps of the longer capture beyond those of the shorter.
const LAPS: u64 = 40;

/// Returns the cycles of a step over `pages` pages on a simulated `preset`.
fn step(kernel: &Path, preset: &str, pages: u64) -> f64 {
    let machine = machine::resolve(preset).unwrap();
    let system = reach_systems::resolve("base").unwrap();
    let conditions = Conditions { timing: Timing::Ooo, ..Conditions::new(4 << 30) };
    let experiment = Experiment::new(vec![machine], vec![system], conditions);
    let cycles = |laps: u64| {
        let program = kernel.into();
        let args = [pages, laps].map(|number| number.to_string().into()).into();
        let mut live = Live::launch(Options { program, args, ..Options::default() }).unwrap();
        let report = experiment.run(&mut live, |_| true).unwrap();
        assert!(live.wait().unwrap().success());
        let ledger = &report.outcomes[0].total.ledger;
        let system = [Label::Fault, Label::Remap, Label::Copy, Label::Daemon].map(|label| ledger.charged(label).0);
        (ledger.total().0 - system.iter().sum::<u64>()) as f64
    };
    (cycles(2 + LAPS) - cycles(2)) / (LAPS * pages) as f64
}

#[test]
fn the_captured_loop_shows_the_first_step_of_the_preset() {
    if let Err(why) = emulator(None) {
        return eprintln!("skipped: {why}");
    }
    let folder = tempfile::tempdir().unwrap();
    let kernel = folder.path().join("kernel");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/captured/kernel.rs");
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let arguments = ["--edition", "2024", "-O", "-C", "target-cpu=x86-64", source, "-o"];
    assert!(Command::new(rustc).args(arguments).arg(&kernel).status().unwrap().success());
    // One set of 72 entries: with one page more than fits, each access misses. The program's other data are not
    // in use meanwhile.
    for (preset, fits, latency) in [("zen4", 72, 7.0), ("neoverse-n1", 48, 5.0)] {
        let (below, above) = (step(&kernel, preset, fits - 2), step(&kernel, preset, fits + 2));
        assert!((below - 4.0).abs() < 0.5, "{preset}: {below}");
        assert!((above - below - latency).abs() < 0.5, "{preset}: {below} {above}");
    }
}
