//! Small kernels on this computer and in simulation: how much longer they take on pages of 4 KB than on pages of 2 MB.
//!
//! `reach-kernels` compiles `examples/kernels.c`, runs each kernel natively with `MADV_NOHUGEPAGE` and with `MADV_HUGEPAGE`,
//! and captures it for timing `window` on the preset nearest to this computer, under `base` and `linux-thp`. Both times are
//! those of one round more, so that start and page faults are left out. Names as arguments choose among the kernels. Not
//! a test: the numbers are read by people, and dated records are in `benches/`.

use anyhow::{Context, Result, bail, ensure};
use reach_core::Label;
use reach_lab::{Conditions, Experiment, Outcome, Placement, Timing, machine};
use reach_trace::live::{Live, Options};
use std::process::Command;

/// A kernel on so much memory.
struct Kernel {
    name: &'static str,
    /// What it is called in `examples/kernels.c`.
    kind: &'static str,
    bytes: usize,
}

/// At least 2 MB: less is no superpage.
const fn kernel(name: &'static str, kind: &'static str, bytes: usize) -> Kernel {
    Kernel { name, kind, bytes }
}

const KERNELS: [Kernel; 8] = [
    kernel("sum", "sum", 32 << 20),
    kernel("stride", "stride", 64 << 20),
    kernel("columns", "columns", 32 << 20),
    kernel("chase-2M", "chase", 2 << 20),
    kernel("chase-4M", "chase", 4 << 20),
    kernel("chase-64M", "chase", 64 << 20),
    kernel("random-4M", "random", 4 << 20),
    kernel("random-64M", "random", 64 << 20),
];

/// How often the natives are run; the least time counts.
const TRIES: usize = 5;
/// Where the kernels are compiled to.
const PROGRAM: &str = "target/reach-kernels-c";

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // Plain x86-64, as the emulator knows it.
    let compiled =
        Command::new("cc").args(["-O2", "-fno-tree-vectorize", "examples/kernels.c", "-o", PROGRAM]).status();
    ensure!(compiled.context("there is no C compiler `cc`")?.success(), "examples/kernels.c cannot be compiled");
    let chosen = arguments.iter().map(|name| find(name)).collect::<Result<Vec<_>>>()?;
    let all = if chosen.is_empty() { KERNELS.iter().collect() } else { chosen };
    let (preset, _) = machine::nearest_host();
    println!(
        "{:14}{:>10}{:>10}{:>8}   {preset}{:>10}{:>8}{:>8}",
        "kernel", "4K ns", "2M ns", "ratio", "4K", "2M", "ratio"
    );
    for kernel in all {
        let native = [native(kernel, "base")?, native(kernel, "huge")?];
        let simulated = simulated(kernel, preset)?;
        let (ours, theirs) = (simulated[0] / simulated[1], native[0] / native[1]);
        println!(
            "{:14}{:>10.0}{:>10.0}{theirs:>8.2}   {:>20.0}{:>10.0}{ours:>8.2}{:>+8.1} %",
            kernel.name,
            native[0],
            native[1],
            simulated[0],
            simulated[1],
            100.0 * (ours / theirs - 1.0)
        );
    }
    Ok(())
}

fn find(name: &str) -> Result<&'static Kernel> {
    let names = KERNELS.map(|kernel| kernel.name).join(", ");
    KERNELS.iter().find(|kernel| kernel.name == name).with_context(|| format!("there is no {name}; there are {names}"))
}

/// Nanoseconds of a round on this computer.
fn native(kernel: &Kernel, pages: &str) -> Result<f64> {
    let once = |rounds: &str| -> Result<f64> {
        let output = Command::new(PROGRAM).args([kernel.kind, &kernel.bytes.to_string(), rounds, pages]).output()?;
        ensure!(output.status.success(), "{} failed: {}", kernel.name, String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8(output.stdout)?.trim().parse()?)
    };
    let mut best = [f64::MAX; 2];
    for _ in 0..TRIES {
        best = [best[0].min(once("1")?), best[1].min(once("9")?)];
    }
    Ok((best[1] - best[0]) / 8.0)
}

/// Nanoseconds of a round in simulation, on pages of 4 KB and with transparent huge pages.
fn simulated(kernel: &Kernel, preset: &str) -> Result<[f64; 2]> {
    let machine = machine::resolve(preset)?;
    let hertz = machine.hardware.core.hertz as f64;
    let systems = ["base", "linux-thp"].map(|name| reach_systems::resolve(name).expect("these are systems"));
    let conditions = Conditions {
        timing: Timing::Window,
        memory: 4 << 30,
        seed: 1,
        fragmentation: None,
        warm: true,
        placement: Placement::ONE,
    };
    let experiment =
        Experiment { machines: vec![machine], systems: systems.into(), conditions, threads: 1, skim: 0, limit: None };
    let cycles = |rounds: &str| -> Result<[f64; 2]> {
        let args = [kernel.kind, &kernel.bytes.to_string(), rounds, "huge"].map(Into::into).into();
        let options = Options { program: PROGRAM.into(), args, ..Options::default() };
        let mut live = Live::launch(options)?;
        let report = experiment.run(&mut live, |_| true)?;
        let status = live.wait()?;
        if !status.success() {
            bail!("{} failed where it was captured", kernel.name);
        }
        Ok([own_cycles(&report.outcomes[0]), own_cycles(&report.outcomes[1])])
    };
    let (one, three) = (cycles("1")?, cycles("3")?);
    Ok([0, 1].map(|i| (three[i] - one[i]) / 2.0 / hertz * 1e9))
}

/// Cycles that are not the operating system's.
fn own_cycles(outcome: &Outcome) -> f64 {
    let ledger = &outcome.total.ledger;
    let others = [Label::Fault, Label::Remap, Label::Copy, Label::Daemon].map(|label| ledger.of(label).0);
    (ledger.total().0 - others.iter().sum::<u64>()) as f64
}
