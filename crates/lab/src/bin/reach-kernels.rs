//! Small kernels natively and in simulation: how much longer they take on pages of 4 KB than on pages of 2 MB.
//!
//! `reach-kernels` compiles `examples/kernels.c`, runs each kernel natively with `MADV_NOHUGEPAGE` and with `MADV_HUGEPAGE`,
//! and captures it for out-of-order timing on the preset nearest to this computer, under `base` and `linux-thp`. All times
//! are those of a round: natively the shortest of many; in simulation the time of one more round, so that start and page
//! faults are left out.
//!
//! `--machine` selects another machine; `--here` takes the preset with clock and latencies as measured here; `--host 4K`
//! makes it the guest of a host with such pages. Other arguments select kernels. This is not a test: people read the
//! numbers, and `benches/` holds dated records.

use anyhow::{Context, Result, bail, ensure};
use reach_core::Label;
use reach_lab::{Conditions, Experiment, Outcome, Timing, machine};
use reach_os::{Fragmentation, FreeMemory};
use reach_trace::live::{Live, Options};
use std::path::Path;
use std::process::Command;

/// A kernel on an amount of memory.
struct Kernel {
    name: &'static str,
    /// Its name in `examples/kernels.c`.
    kind: &'static str,
    /// Bytes of data.
    bytes: usize,
}

/// Returns a kernel. `bytes` is at least one superpage, 2 MB.
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

/// Native runs; the shortest counts.
const TRIES: usize = 9;
/// The source of the kernels.
const SOURCE: &str = "examples/kernels.c";
/// The compiled kernels.
const PROGRAM: &str = "target/reach-kernels-c";

fn main() -> Result<()> {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let (mut machine, mut measured, mut host) = (machine::nearest_host().0.to_owned(), false, None);
    while arguments.first().is_some_and(|first| first.starts_with("--")) {
        match arguments.remove(0).as_str() {
            "--here" => measured = true,
            "--host" if !arguments.is_empty() => host = Some(arguments.remove(0)),
            "--machine" if !arguments.is_empty() => machine = arguments.remove(0),
            other => bail!("{other}: expected --machine MACHINE, --here or --host PAGE"),
        }
    }
    let chosen = arguments.iter().map(|name| find(name)).collect::<Result<Vec<_>>>()?;
    let all = if chosen.is_empty() { KERNELS.iter().collect() } else { chosen };
    ensure!(Path::new(SOURCE).exists(), "{SOURCE} does not exist here; run reach-kernels from the repository's root");
    // Baseline x86-64, which the emulator supports.
    let compiled = Command::new("cc").args(["-O2", "-fno-tree-vectorize", SOURCE, "-o", PROGRAM]).status();
    ensure!(compiled.context("there is no C compiler `cc`; install one")?.success(), "{SOURCE} cannot be compiled");
    let machine = if measured { here(&machine)? } else { machine };
    let preset = host.map_or(machine.clone(), |page| with_override(&machine, &format!("nested.host_page={page}")));
    println!("on {preset}");
    println!("{:12}{:>12}{:>12}{:>7}{:>14}{:>12}{:>7}", "kernel", "native 4K", "2M", "ratio", "sim. 4K", "2M", "ratio");
    for kernel in all {
        let native = native(kernel)?;
        let simulated = simulated(kernel, &preset)?;
        let (ours, theirs) = (simulated[0] / simulated[1], native[0] / native[1]);
        println!(
            "{:12}{:>12.0}{:>12.0}{theirs:>7.2}{:>14.0}{:>12.0}{ours:>7.2}{:>+8.1} %",
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

/// Returns `machine` with another override.
fn with_override(machine: &str, difference: &str) -> String {
    format!("{machine}{}{difference}", if machine.contains(':') { ',' } else { ':' })
}

/// Returns `machine` with the clock and the latencies of the last cache and of memory as measured here: on pages of 2 MB, by
/// other kernels than those that are compared.
fn here(machine: &str) -> Result<String> {
    let step = |kind, bytes| -> Result<f64> {
        let times = (0..TRIES).map(|_| once(kind, bytes, "5", "huge")).collect::<Result<Vec<f64>>>()?;
        Ok(times.into_iter().fold(f64::MAX, f64::min) / f64::from(1 << 20))
    };
    // A multiplication takes three cycles.
    let megahertz = 3000.0 / step("multiply", 2 << 20)?;
    // Eight lines of each page: 64 KB of lines; 4 MB, half of which fit into the second level; and 64 MB.
    let (second, last, memory) = (step("pages", 512 << 10)?, step("pages", 32 << 20)?, step("pages", 512 << 20)?);
    let last = 2.0 * last - second;
    Ok(with_override(
        machine,
        &format!(
            "core.mhz={megahertz:.0},caches.l3.latency={:.0},memory.latency={:.0} ns",
            last * megahertz / 1000.0,
            memory.max(last + 1.0)
        ),
    ))
}

/// Returns the kernel of this name.
fn find(name: &str) -> Result<&'static Kernel> {
    let names = KERNELS.map(|kernel| kernel.name).join(", ");
    KERNELS.iter().find(|kernel| kernel.name == name).with_context(|| format!("{name}: expected one of {names}"))
}

/// Returns the nanoseconds of the shortest of `rounds` rounds on this computer.
fn once(kind: &str, bytes: usize, rounds: &str, pages: &str) -> Result<f64> {
    let output = Command::new(PROGRAM).args([kind, &bytes.to_string(), rounds, pages]).output()?;
    ensure!(output.status.success(), "{kind} failed: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?.trim().parse()?)
}

/// Returns the nanoseconds of a native round on pages of 4 KB and of 2 MB; runs alternate.
fn native(kernel: &Kernel) -> Result<[f64; 2]> {
    let mut best = [f64::MAX; 2];
    for _ in 0..TRIES {
        for (best, pages) in best.iter_mut().zip(["base", "huge"]) {
            *best = best.min(once(kernel.kind, kernel.bytes, "8", pages)?);
        }
    }
    Ok(best)
}

/// Returns the nanoseconds of a simulated round on pages of 4 KB and with transparent huge pages.
fn simulated(kernel: &Kernel, preset: &str) -> Result<[f64; 2]> {
    let machine = machine::resolve(preset)?;
    let hertz = machine.hardware.core.hertz as f64;
    let systems = ["base", "linux-thp"].map(|name| reach_systems::resolve(name).expect("these are systems"));
    // As after a day of work: /proc/self/pagemap shows page-by-page allocations spread over thousands of regions of 2 MB.
    let fragmentation =
        Fragmentation { order: 9, scattered: 0.006, hold: 0.99, grain: 1, first: false, stay: None, seed: 1 };
    let fragmentation = Some(FreeMemory::Broken(fragmentation));
    let conditions = Conditions { timing: Timing::Ooo, fragmentation, ..Conditions::new(24 << 30) };
    let experiment = Experiment { threads: 1, ..Experiment::new(vec![machine], systems.into(), conditions) };
    let cycles = |rounds: &str| -> Result<[f64; 2]> {
        let args = [kernel.kind, &kernel.bytes.to_string(), rounds, "silent"].map(Into::into).into();
        let options = Options { program: PROGRAM.into(), args, ..Options::default() };
        let mut live = Live::launch(options)?;
        let report = experiment.run(&mut live, |_| true)?;
        let status = live.wait()?;
        if !status.success() {
            bail!("{} failed while it was captured", kernel.name);
        }
        Ok([user_cycles(&report.outcomes[0]), user_cycles(&report.outcomes[1])])
    };
    let (one, three) = (cycles("1")?, cycles("3")?);
    Ok([0, 1].map(|i| (three[i] - one[i]) / 2.0 / hertz * 1e9))
}

/// Returns the cycles of the program itself, without the operating system's.
fn user_cycles(outcome: &Outcome) -> f64 {
    let ledger = &outcome.total.ledger;
    let system = [Label::Fault, Label::Remap, Label::Copy, Label::Daemon].map(|label| ledger.charged(label).0);
    (ledger.total().0 - system.iter().sum::<u64>()) as f64
}
