//! Million references a second on named streams, one core: `make bench`. Prints a table and writes
//! `target/bench.jsonl`, one row a stream, machine and timing. Not a test: nothing here passes or fails.
//!
//! `gcc` is a compiler run, captured on the first use and then replayed: decoding counts. The synthetic streams are
//! generated beforehand and run once unmeasured, so that all pages have been touched: only folding and simulation count.
//! Time is the processor's, not the wall's, and the best of
//! several rounds is reported, since other work on the computer can only slow a round down.

use anyhow::{Context, Result};
use reach_core::Chunk;
use reach_lab::{Conditions, Preparer, Simulation, Step, Timing, machine};
use reach_trace::file::{Reader, Writer};
use reach_trace::live::{Live, Options};
use reach_trace::{Source, synthetic};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

const ROUNDS: usize = 5;
const MACHINES: [&str; 2] = ["skylake-e3-1240v5", "zenplus-2700x"];

/// A stream by name.
enum Stream {
    /// Read from this file in every round.
    Recorded(PathBuf),
    /// Generated once, from this specification, so many references.
    Generated(&'static str, u64),
}

fn main() -> Result<()> {
    let target = Path::new("target");
    std::fs::create_dir_all(target).context("target/ cannot be made; run this from the repository's root")?;
    let streams = [
        ("gcc", gcc(target)),
        ("same-page", Ok(Stream::Generated("mix:bytes=1G,new_pages=0%", 8 << 20))),
        ("new-pages-10%", Ok(Stream::Generated("mix:bytes=1G,new_pages=10%", 8 << 20))),
        ("uniform-random", Ok(Stream::Generated("gups:bytes=1G,updates=8M", 8 << 20))),
    ];
    let mut rows = std::fs::File::create(target.join("bench.jsonl")).context("target/bench.jsonl cannot be written")?;
    println!("{:16}{:22}{:10}{:>14}", "stream", "machine", "timing", "M references/s");
    for (name, stream) in streams {
        let stream = match stream {
            Ok(stream) => stream,
            Err(error) => {
                println!("{name:16}not run: {error:#}");
                continue;
            }
        };
        for machine in MACHINES {
            for timing in [Timing::Counts, Timing::InOrder] {
                let rate = measure(&stream, machine, timing)?;
                println!("{name:16}{machine:22}{:10}{rate:>14.1}", timing.name());
                let row = serde_json::json!({
                    "stream": name, "machine": machine, "timing": timing.name(), "mrefs_per_s": rate,
                });
                writeln!(rows, "{row}")?;
            }
        }
    }
    Ok(())
}

/// The recorded compiler run; captures it where there is none yet.
fn gcc(target: &Path) -> Result<Stream> {
    let path = target.join("bench-gcc.reach");
    if !path.exists() {
        let part = target.join("bench-gcc.reach.part");
        let arguments = ["-O2", "-c", "examples/lz.c", "-o", "target/bench-lz.o"].map(Into::into);
        let options = Options { program: "gcc".into(), args: arguments.into(), ..Options::default() };
        let mut live = Live::launch(options)?;
        let mut writer = Writer::create(&part, &Default::default())?;
        let mut chunk = Chunk::default();
        while live.fill(&mut chunk)? {
            writer.write(&chunk, live.blocks())?;
        }
        writer.finish()?;
        let status = live.wait()?;
        anyhow::ensure!(status.success(), "the compiler that was to be recorded ended with {status}");
        std::fs::rename(&part, &path).context("the recording cannot be renamed")?;
    }
    Ok(Stream::Recorded(path))
}

/// Million references a second, the best of several rounds.
fn measure(stream: &Stream, machine: &str, timing: Timing) -> Result<f64> {
    let machine = machine::resolve(machine)?;
    let system = reach_systems::resolve("base")?;
    let conditions = Conditions { timing, memory: 16 << 30, seed: 1, fragmentation: None, warm: true };
    let generated = match stream {
        Stream::Recorded(_) => Vec::new(),
        Stream::Generated(specification, references) => generate(specification, *references)?,
    };
    let mut simulation = Simulation::new(&machine, &system, &conditions)?;
    if !generated.is_empty() {
        run(generated.clone(), &mut simulation)?;
    }
    let mut best = f64::MIN;
    for _ in 0..ROUNDS {
        let (references, elapsed) = match stream {
            Stream::Recorded(path) => replay(path, &mut Simulation::new(&machine, &system, &conditions)?)?,
            Stream::Generated(..) => {
                // The same references again, without the mappings that precede them.
                let again = generated.iter().map(|step| Step { events: Vec::new(), ..step.clone() });
                run(again.collect(), &mut simulation)?
            }
        };
        best = best.max(references as f64 / elapsed.as_secs_f64() / 1e6);
    }
    Ok(best)
}

fn replay(path: &Path, simulation: &mut Simulation) -> Result<(u64, Duration)> {
    let started = processor_time();
    let mut reader = Reader::open(path)?;
    let (mut chunk, mut preparer, mut steps) = (Chunk::default(), Preparer::default(), Vec::new());
    let mut references = 0;
    while reader.fill(&mut chunk)? {
        preparer.prepare(&mut chunk, reader.blocks(), &mut steps);
        for step in steps.drain(..) {
            references += step.counts.references();
            simulation.step(&step)?;
        }
    }
    Ok((references, processor_time() - started))
}

/// Steps whose segments are still to be folded.
fn generate(specification: &str, references: u64) -> Result<Vec<Step>> {
    let mut source = synthetic::parse(specification)?;
    let (mut chunk, mut preparer, mut steps) = (Chunk::default(), Preparer::default(), Vec::new());
    let mut made = 0;
    while made < references && source.fill(&mut chunk)? {
        made += chunk.refs.len() as u64;
        preparer.prepare(&mut chunk, source.blocks(), &mut steps);
    }
    Ok(steps)
}

fn run(mut steps: Vec<Step>, simulation: &mut Simulation) -> Result<(u64, Duration)> {
    let started = processor_time();
    let mut references = 0;
    for step in &mut steps {
        step.segment.fold();
        references += step.counts.references();
        simulation.step(step)?;
    }
    Ok((references, processor_time() - started))
}

fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
