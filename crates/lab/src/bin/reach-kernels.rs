//! Small kernels on this computer and in simulation: how much longer they take on pages of 4 KB than on pages of 2 MB.
//!
//! `reach-kernels` runs each natively, with `MADV_NOHUGEPAGE` and with `MADV_HUGEPAGE`, and captures it once for timing
//! `window` on the preset nearest to this computer, under `base` and `linux-thp`. Both times are those of one round more, so
//! that start and page faults are left out. `reach-kernels NAME ROUNDS base|huge` runs one and prints nanoseconds; names
//! alone choose among the kernels. Not a test: the numbers are read by people, and dated records are in `benches/`.

use anyhow::{Context, Result, bail, ensure};
use reach_core::Label;
use reach_lab::{Conditions, Experiment, Outcome, Timing, machine};
use reach_trace::live::{Live, Options};
use std::process::Command;

/// A kernel: its name, how many bytes it works on, and one round over them.
struct Kernel {
    name: &'static str,
    bytes: usize,
    init: fn(&mut [u64]),
    round: fn(&[u64], u64) -> u64,
}

/// How often the natives are run; the least time counts.
const TRIES: usize = 5;
/// Accesses of a round where it does not go over everything.
const STEPS: usize = 1 << 20;
/// Words in a line of 64 bytes.
const LINE: usize = 8;

const KERNELS: [Kernel; 8] = [
    Kernel { name: "sum", bytes: 64 << 20, init: count, round: sum },
    Kernel { name: "stride-4160", bytes: 64 << 20, init: count, round: stride },
    Kernel { name: "columns", bytes: 32 << 20, init: count, round: columns },
    Kernel { name: "chase-1M", bytes: 1 << 20, init: list, round: chase },
    Kernel { name: "chase-4M", bytes: 4 << 20, init: list, round: chase },
    Kernel { name: "chase-64M", bytes: 64 << 20, init: list, round: chase },
    Kernel { name: "random-4M", bytes: 4 << 20, init: count, round: random },
    Kernel { name: "random-64M", bytes: 64 << 20, init: count, round: random },
];

fn count(words: &mut [u64]) {
    words.iter_mut().zip(0..).for_each(|(word, i)| *word = i);
}

/// The next number of a generator (xorshift).
fn next(x: u64) -> u64 {
    let x = x ^ x << 13;
    let x = x ^ x >> 7;
    x ^ x << 17
}

/// A cycle through all lines in random order (Sattolo): each first word is the number of the next.
fn list(words: &mut [u64]) {
    let lines = words.len() / LINE;
    (0..lines).for_each(|i| words[i * LINE] = i as u64);
    let mut x = 88_172_645_463_325_252;
    for i in (1..lines).rev() {
        x = next(x);
        words.swap(i * LINE, (x % i as u64) as usize * LINE);
    }
}

fn sum(words: &[u64], start: u64) -> u64 {
    words.iter().fold(start, |sum, word| sum.wrapping_add(*word))
}

/// A word of each page and of the next line in the next, eight times over.
fn stride(words: &[u64], start: u64) -> u64 {
    let once = |sum: u64, from: usize| {
        words[from..].iter().step_by((4096 + 64) / 8).fold(sum, |sum, word| sum.wrapping_add(*word))
    };
    (0..16).fold(start, |sum, i| once(sum, i * LINE))
}

/// A square matrix, column by column.
fn columns(words: &[u64], start: u64) -> u64 {
    let n = words.len().isqrt();
    (0..n / 4).fold(start, |sum, column| (0..n).fold(sum, |sum, row| sum.wrapping_add(words[row * n + column])))
}

fn chase(words: &[u64], start: u64) -> u64 {
    (0..STEPS).fold(start % LINE as u64, |at, _| words[at as usize * LINE])
}

fn random(words: &[u64], start: u64) -> u64 {
    let mask = words.len() - 1;
    let step = |(x, sum): (u64, u64), _| (next(x), sum.wrapping_add(words[x as usize & mask]));
    (0..STEPS).fold((start | 1, 0), step).1
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [name, rounds, pages] = &arguments[..]
        && let Ok(rounds) = rounds.parse()
    {
        println!("{}", run(find(name)?, rounds, pages == "huge")?);
        return Ok(());
    }
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

/// Runs rounds of a kernel and returns nanoseconds.
fn run(kernel: &Kernel, rounds: u32, huge: bool) -> Result<u128> {
    const ALIGN: usize = 2 << 20;
    // SAFETY: a private anonymous mapping at an address of the kernel's choice.
    let at = unsafe {
        let (rights, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        libc::mmap(std::ptr::null_mut(), kernel.bytes + ALIGN, rights, flags, -1, 0)
    };
    ensure!(at != libc::MAP_FAILED, "no memory for {} bytes", kernel.bytes);
    let start = at as usize;
    let at = at.wrapping_byte_add(start.next_multiple_of(ALIGN) - start);
    let advice = if huge { libc::MADV_HUGEPAGE } else { libc::MADV_NOHUGEPAGE };
    // SAFETY: the range lies in the mapping.
    ensure!(unsafe { libc::madvise(at, kernel.bytes, advice) } == 0, "this kernel refuses the advice on page sizes");
    // SAFETY: mapped above, zeroed, aligned, and nobody else knows it.
    let words = unsafe { std::slice::from_raw_parts_mut(at.cast::<u64>(), kernel.bytes / 8) };
    (kernel.init)(words);
    let words = std::hint::black_box(&*words);
    let started = std::time::Instant::now();
    let result = (0..rounds).fold(0, |start, _| (kernel.round)(words, std::hint::black_box(start)));
    std::hint::black_box(result);
    Ok(started.elapsed().as_nanos())
}

/// Nanoseconds of a round on this computer.
fn native(kernel: &Kernel, pages: &str) -> Result<f64> {
    let own = std::env::current_exe()?;
    let once = |rounds: &str| -> Result<f64> {
        let output = Command::new(&own).args([kernel.name, rounds, pages]).output()?;
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
    let conditions = Conditions { timing: Timing::Window, memory: 4 << 30, seed: 1, fragmentation: None, warm: true };
    let experiment =
        Experiment { machines: vec![machine], systems: systems.into(), conditions, threads: 1, limit: None };
    let cycles = |rounds: &str| -> Result<[f64; 2]> {
        let args = [kernel.name, rounds, "huge"].map(Into::into).into();
        let options = Options { program: std::env::current_exe()?.into(), args, ..Options::default() };
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
