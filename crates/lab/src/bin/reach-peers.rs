//! Reach and other tools that see every memory reference, on the same programs, in turns: `make bench-peers`.
//!
//! Each program runs natively, under the bare emulator, under Reach, and under those peers that this computer has: valgrind's
//! lackey (which prints each reference), its cachegrind (which simulates two levels of caches, and no TLB), and DynamoRIO's TLB
//! simulator (`drrun` in `PATH`). What peers print is thrown away, which is in their favour. A round runs each tool once; times
//! are wall-clock times, medians with the shortest and the longest. A number as the argument is the number of rounds; other
//! arguments select programs. Nothing here passes or fails.

use anyhow::{Context, Result, bail, ensure};
use reach_core::Chunk;
use reach_lab::{Preparer, Timing};
use reach_trace::Source;
use reach_trace::file::Reader;
use reach_trace::live::emulator;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// Where the programs, and what they write, go.
const FOLDER: &str = "target/peers";

/// A program, which a shell executes in the repository's root.
struct Program {
    name: &'static str,
    /// The source that is compiled to `FOLDER/name` before.
    source: Option<&'static str>,
    command: &'static str,
}

/// A compiler, whose code mostly runs few times, and a loop.
const PROGRAMS: [Program; 2] = [
    Program { name: "gcc", source: None, command: "gcc -O2 -c examples/transpose.c -o target/peers/transpose.o" },
    Program { name: "transpose", source: Some("examples/transpose.c"), command: "target/peers/transpose" },
];

/// A tool and what comes before the program's command.
struct Tool {
    name: &'static str,
    prefix: String,
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("reach-peers: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let (mut rounds, mut chosen) = (3, Vec::new());
    for argument in std::env::args().skip(1) {
        match argument.parse() {
            Ok(number) => rounds = number,
            Err(_) => chosen.push(argument),
        }
    }
    ensure!(rounds > 0, "0 rounds: expected at least 1");
    let names = PROGRAMS.map(|program| program.name);
    if let Some(unknown) = chosen.iter().find(|name| !names.contains(&name.as_str())) {
        bail!("there is no program {unknown}; there are {}", names.join(", "));
    }
    std::fs::create_dir_all(FOLDER)
        .with_context(|| format!("{FOLDER} cannot be made; run this from the repository's root"))?;
    for program in PROGRAMS.iter().filter(|program| chosen.is_empty() || chosen.iter().any(|name| name == program.name))
    {
        compare(program, rounds)?;
    }
    Ok(())
}

/// Returns the tools that this computer has for `program`.
fn tools(program: &Program) -> Result<Vec<Tool>> {
    let emulator = emulator(None)?;
    let reach = "target/release/reach";
    ensure!(Path::new(reach).exists(), "{reach} does not exist; build it first: make build");
    let run = format!("{reach} run --quiet --machine skylake-e3-1240v5 --system base");
    let recording = format!("{FOLDER}/{}.reach", program.name);
    let mut tools = vec![
        Tool { name: "native", prefix: String::new() },
        Tool { name: "bare emulator", prefix: emulator.display().to_string() },
        Tool { name: "reach, counts", prefix: format!("{run} --timing counts --") },
        Tool { name: "reach, in order", prefix: format!("{run} --timing inorder --whole --") },
        Tool { name: "reach, default", prefix: format!("{run} --") },
        Tool { name: "reach record", prefix: format!("{reach} record --quiet --force -o {recording} --") },
    ];
    if program.source.is_none() {
        // The emulator alone does not follow a program into others.
        tools.retain(|tool| tool.name != "bare emulator");
    }
    if has("valgrind") {
        let valgrind = "valgrind -q --trace-children=yes";
        let lackey = format!("{valgrind} --tool=lackey --trace-mem=yes --log-file=/dev/null");
        let caches = "--cache-sim=yes --cachegrind-out-file=/dev/null --log-file=/dev/null";
        tools.push(Tool { name: "lackey", prefix: lackey });
        tools.push(Tool { name: "cachegrind", prefix: format!("{valgrind} --tool=cachegrind {caches}") });
    }
    if has("drrun") {
        tools.push(Tool { name: "DynamoRIO's TLBs", prefix: "drrun -t drcachesim -simulator_type TLB --".into() });
    }
    Ok(tools)
}

fn has(tool: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(tool).is_file())
}

/// Runs each tool in each round, and prints a line for each.
fn compare(program: &Program, rounds: usize) -> Result<()> {
    if let Some(source) = program.source {
        let compiled =
            Command::new("cc").args(["-O2", source, "-o"]).arg(format!("{FOLDER}/{}", program.name)).status();
        ensure!(compiled.context("there is no C compiler `cc`; install one")?.success(), "{source} cannot be compiled");
    }
    let tools = tools(program)?;
    let mut times = vec![Vec::new(); tools.len()];
    for _ in 0..rounds {
        for (tool, times) in tools.iter().zip(&mut times) {
            times.push(time(tool, program)?);
        }
    }
    let references = references(&format!("{FOLDER}/{}.reach", program.name))?;
    println!("{}: {} M references, {rounds} rounds", program.command, references / 1_000_000);
    println!("{:18}{:>24}{:>10}{:>16}", "", "seconds", "x native", "M references/s");
    times.iter_mut().for_each(|times| times.sort());
    let median = |times: &[Duration]| times[times.len() / 2].as_secs_f64();
    let native = median(&times[0]);
    for (tool, times) in tools.iter().zip(&times) {
        let [shortest, longest] = [times[0], times[times.len() - 1]].map(|time| time.as_secs_f64());
        let seconds = format!("{:.2} ({shortest:.2}–{longest:.2})", median(times));
        let rate = references as f64 / median(times) / 1e6;
        println!("{:18}{seconds:>24}{:>10.1}{rate:>16.1}", tool.name, median(times) / native);
    }
    for absent in [("valgrind", "lackey and cachegrind"), ("drrun", "DynamoRIO's TLB simulator")] {
        if !has(absent.0) {
            println!("not run: {} ({} is not in PATH)", absent.1, absent.0);
        }
    }
    println!();
    Ok(())
}

fn time(tool: &Tool, program: &Program) -> Result<Duration> {
    let command = format!("{} {}", tool.prefix, program.command);
    let started = Instant::now();
    let mut shell = Command::new("sh");
    let status = shell.args(["-c", &format!("exec {command}")]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    let elapsed = started.elapsed();
    ensure!(status.context("there is no shell `sh`")?.success(), "this failed, run it to see why: {command}");
    Ok(elapsed)
}

/// Returns the number of references of a recording.
fn references(path: &str) -> Result<u64> {
    let mut reader = Reader::open(Path::new(path))?;
    let (mut chunk, mut preparer) = (Chunk::default(), Preparer::new(Timing::Counts));
    let mut references = 0;
    while reader.fill(&mut chunk)? {
        let batch = preparer.prepare(chunk, reader.blocks());
        references += batch.steps.iter().map(|step| step.counts.references()).sum::<u64>();
        chunk = batch.chunk;
    }
    Ok(references)
}
