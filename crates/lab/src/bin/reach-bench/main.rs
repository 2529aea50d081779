//! Measures million references a second on named streams, on one core: `make bench`. Prints a table, with the ratio to the
//! rates that were kept for this computer ([`baseline`]), and writes `target/bench.jsonl`, one row for each stream, machine and
//! timing. Nothing here passes or fails.
//!
//! - `gcc` replays a compiler run, captured on first use; decoding counts. `gcc-curve-l1d` and `gcc-curve-l2` add a miss
//!   curve, `gcc-sample` sampling. The slower timings replay only the beginning ([`Budget`]).
//! - Synthetic streams are generated beforehand and run once unmeasured, so that all pages have been touched: folding and
//!   simulation count. `uniform-random` to `uniform-1T` are one program at three sizes; ideally their rates are equal.
//!
//! Time is processor time; the median of five rounds is reported, and the slowest and fastest of them. Arguments select streams,
//! machines and timings by name. `--keep` keeps the rates as this computer's baseline.

mod baseline;

use anyhow::{Context, Result, ensure};
use baseline::{Baselines, Rate};
use reach_core::Chunk;
use reach_lab::{Batch, Conditions, Experiment, Preparer, Simulation, Timing, machine};
use reach_trace::file::{Reader, Writer};
use reach_trace::live::{Live, Options};
use reach_trace::{Ending, Sampling, Source, synthetic};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// An odd number, so that there is a median.
const ROUNDS: usize = 5;
/// The argument that keeps the rates.
const KEEP: &str = "--keep";
/// Simulated memory in bytes.
const MEMORY: u64 = 2 << 40;
/// References of a synthetic stream.
const LENGTH: u64 = 4 << 20;

/// References that one round replays, so that all rounds together take at most four minutes.
struct Budget {
    /// Of a recording by itself.
    plain: u64,
    /// Of a recording with a miss curve or sampling.
    observed: u64,
    /// Of a synthetic stream.
    synthetic: u64,
}

impl Budget {
    fn of(timing: Timing) -> Budget {
        match timing {
            Timing::Counts => Budget { plain: u64::MAX, observed: 48_000_000, synthetic: LENGTH },
            Timing::InOrder => Budget { plain: 32_000_000, observed: 12_000_000, synthetic: LENGTH / 2 },
            Timing::Ooo => Budget { plain: 12_000_000, observed: 24_000_000, synthetic: LENGTH / 4 },
        }
    }
}

const MACHINES: [&str; 2] = ["skylake-e3-1240v5", "zenplus-2700x"];
/// What follows the first machine's name for miss curves: LRU without a hash, which stacks describe.
const STACKABLE: &str =
    ":tlb.l1i_4k.replacement=lru,tlb.l1d_4k.replacement=lru,tlb.l2.replacement=lru,tlb.l2.index=low";
const TIMINGS: [Timing; 3] = Timing::ALL;

/// The origin of a stream.
#[derive(Clone, Copy)]
enum Program {
    /// The recorded compiler.
    Recorded,
    /// The recorded compiler, with a miss curve of this array.
    Curve(&'static str),
    /// The recorded compiler, sampled.
    Sample,
    /// The synthetic program of this specification.
    Synthetic(&'static str),
}
use Program::*;
const STREAMS: [(&str, Program); 12] = [
    ("gcc", Recorded),
    ("gcc-curve-l1d", Curve("l1d_tlb")),
    ("gcc-curve-l2", Curve("l2_tlb")),
    ("gcc-sample", Sample),
    ("same-page", Synthetic("mix:bytes=1G,new_pages=0%")),
    ("new-pages-10%", Synthetic("mix:bytes=1G,new_pages=10%")),
    ("uniform-random", Synthetic("gups:bytes=1G,updates=8M")),
    ("uniform-32G", Synthetic("gups:bytes=32G,updates=8M")),
    ("uniform-1T", Synthetic("gups:bytes=1T,updates=8M")),
    ("uniform-256M", Synthetic("gups:bytes=256M,updates=8M")),
    ("uniform-4G", Synthetic("gups:bytes=4G,updates=8M")),
    ("uniform-256G", Synthetic("gups:bytes=256G,updates=8M")),
];
/// Streams that run only if they are named: more sizes, for the plot in docs/speed.md.
const ON_REQUEST: [&str; 3] = ["uniform-256M", "uniform-4G", "uniform-256G"];

/// A stream ready to be run.
enum Stream {
    /// A recording, read anew in every round.
    Recorded(PathBuf, Program),
    /// References in memory.
    Generated(Vec<Arc<Batch>>),
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("reach-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let target = Path::new("target");
    std::fs::create_dir_all(target).context("target/ cannot be made; run this from the repository's root")?;
    let chosen = Chosen::from_arguments()?;
    let path = Path::new("benches/baselines.jsonl");
    let mut baselines = Baselines::read(path)?;
    let (computer, commit) = (baseline::computer(), baseline::commit());
    let mut file = std::fs::File::create(target.join("bench.jsonl")).context("target/bench.jsonl cannot be written")?;
    println!("{computer}; million references/s, median of {ROUNDS} rounds (slowest–fastest)");
    println!("{:16}{:19}{:9}{:>22}  against the kept rate", "stream", "machine", "timing", "");
    let mut measured = Vec::new();
    for (name, program) in STREAMS.into_iter().filter(|(name, _)| chosen.has(name)) {
        let made = match program {
            Synthetic(specification) => generate(specification),
            _ => gcc(target).map(|path| Stream::Recorded(path, program)),
        };
        let stream = match made {
            Ok(stream) => stream,
            Err(error) => {
                println!("{name:16}not run: {error:#}");
                continue;
            }
        };
        for machine in MACHINES.into_iter().filter(|machine| chosen.has(machine)) {
            for timing in TIMINGS.into_iter().filter(|timing| chosen.has(timing.name())) {
                let [lowest, mrefs_per_s, highest] = match measure(&stream, machine, timing) {
                    Ok(rates) => rates,
                    Err(error) => {
                        println!("{name:16}{machine:19}{:9}not run: {error:#}", timing.name());
                        continue;
                    }
                };
                let (stream, machine, timing) = (name.to_owned(), machine.to_owned(), timing.name().to_owned());
                let (computer, commit) = (computer.clone(), commit.clone());
                let rate = Rate { computer, commit, stream, machine, timing, mrefs_per_s, lowest, highest };
                println!("{}", line(&rate, baselines.of(&rate)));
                writeln!(file, "{}", serde_json::to_string(&rate)?)?;
                measured.push(rate);
            }
        }
    }
    if chosen.keeps() {
        baselines.keep(&measured);
        baselines.write(path)?;
        println!("kept in {}", path.display());
    }
    Ok(())
}

/// Returns a line of the table.
fn line(rate: &Rate, kept: Option<&Rate>) -> String {
    let against = match kept {
        Some(kept) => format!("{:.2} ({})", rate.mrefs_per_s / kept.mrefs_per_s, kept.commit),
        None => "none kept".into(),
    };
    let Rate { stream, machine, timing, mrefs_per_s, lowest, highest, .. } = rate;
    let spread = format!("{mrefs_per_s:.1} ({lowest:.1}–{highest:.1})");
    format!("{stream:16}{machine:19}{timing:9}{spread:>22}  {against}")
}

/// The arguments. A group (streams, machines, timings) without a name means all of it.
struct Chosen(Vec<String>);

impl Chosen {
    fn groups() -> [Vec<&'static str>; 3] {
        [STREAMS.map(|s| s.0).into(), MACHINES.into(), TIMINGS.map(Timing::name).into()]
    }

    fn from_arguments() -> Result<Chosen> {
        let names: Vec<String> = std::env::args().skip(1).collect();
        let known = [Chosen::groups().concat(), vec![KEEP]].concat();
        for name in &names {
            ensure!(known.contains(&name.as_str()), "there is no {name}; there are {}", known.join(", "));
        }
        Ok(Chosen(names))
    }

    fn keeps(&self) -> bool {
        self.0.iter().any(|chosen| chosen == KEEP)
    }

    fn has(&self, name: &str) -> bool {
        let group = Chosen::groups().into_iter().find(|group| group.contains(&name)).unwrap_or_default();
        let mut of_group = self.0.iter().filter(|chosen| group.contains(&chosen.as_str())).peekable();
        of_group.peek().is_none() && !ON_REQUEST.contains(&name) || of_group.any(|chosen| chosen == name)
    }
}

/// Returns the recording of the compiler; captures it on first use.
fn gcc(target: &Path) -> Result<PathBuf> {
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
        writer.finish(&Ending::default())?;
        let status = live.wait()?;
        anyhow::ensure!(status.success(), "the compiler that was to be recorded ended with {status}");
        std::fs::rename(&part, &path).context("the recording cannot be renamed")?;
    }
    Ok(path)
}

/// Returns million references a second: of the slowest round, the median, and of the fastest.
fn measure(stream: &Stream, machine: &str, timing: Timing) -> Result<[f64; 3]> {
    let machine = match stream {
        Stream::Recorded(_, Curve(_)) if machine == MACHINES[0] => machine::resolve(&format!("{machine}{STACKABLE}"))?,
        _ => machine::resolve(machine)?,
    };
    let system = reach_systems::resolve("base")?;
    let conditions = Conditions { timing, ..Conditions::new(MEMORY) };
    let fresh = || Simulation::new(&machine, &system, &conditions);
    let budget = Budget::of(timing);
    let mut simulation = fresh()?;
    let mut again = Vec::new();
    if let Stream::Generated(batches) = stream {
        let batches = within(budget.synthetic, batches);
        batches.iter().try_for_each(|batch| simulation.take(batch))?;
        // The measured rounds repeat the references without their events.
        again.extend_from_slice(batches);
        again.iter_mut().flat_map(|batch| &mut own(batch).steps).for_each(|step| step.events = 0..0);
        run_again(&mut again, &mut simulation)?;
    }
    let mut rates = [0.0; ROUNDS];
    for rate in &mut rates {
        let (references, elapsed) = match stream {
            Stream::Recorded(path, Recorded) => replay(path, timing, budget.plain, &mut fresh()?)?,
            Stream::Recorded(path, program) => {
                let (machines, systems) = (vec![machine.clone()], vec![system.clone()]);
                run_experiment(path, *program, budget.observed, machines, systems, conditions.clone())?
            }
            Stream::Generated(_) => run_again(&mut again, &mut simulation)?,
        };
        *rate = references as f64 / elapsed.as_secs_f64() / 1e6;
    }
    rates.sort_by(f64::total_cmp);
    Ok([rates[0], rates[ROUNDS / 2], rates[ROUNDS - 1]])
}

/// Returns the first batches that have at least `references` together, or all.
fn within(references: u64, batches: &[Arc<Batch>]) -> &[Arc<Batch>] {
    let mut sum = 0;
    let beyond = |batch: &Arc<Batch>| {
        let reached = sum >= references;
        sum += batch.chunk.refs.len() as u64;
        reached
    };
    &batches[..batches.iter().position(beyond).unwrap_or(batches.len())]
}

/// Replays the first `most` references of a recording.
fn replay(path: &Path, timing: Timing, most: u64, simulation: &mut Simulation) -> Result<(u64, Duration)> {
    let started = processor_time();
    let mut reader = Reader::open(path)?;
    reader.outline(simulation.takes_outlines())?;
    let (mut chunk, mut preparer) = (Chunk::default(), Preparer::new(timing));
    let mut references = 0;
    while references < most && reader.fill(&mut chunk)? {
        let batch = Arc::new(preparer.prepare(chunk, reader.blocks()));
        references += batch.steps.iter().map(|step| step.counts.references()).sum::<u64>();
        simulation.take(&batch)?;
        chunk = Arc::try_unwrap(batch).map(|batch| batch.chunk).unwrap_or_default();
    }
    Ok((references, processor_time() - started))
}

/// Runs the first `most` references of a recording as an experiment.
fn run_experiment(
    path: &Path,
    program: Program,
    most: u64,
    machines: Vec<machine::Resolved>,
    systems: Vec<reach_systems::Resolved>,
    conditions: Conditions,
) -> Result<(u64, Duration)> {
    let curve = match program {
        Curve(array) => Some(array.parse().map_err(anyhow::Error::msg)?),
        _ => None,
    };
    let sample = matches!(program, Sample).then_some(Sampling::default());
    let limit = Some(most);
    let experiment = Experiment { threads: 1, limit, curve, sample, ..Experiment::new(machines, systems, conditions) };
    let started = processor_time();
    let report = experiment.run(&mut Reader::open(path)?, |_| true)?;
    Ok((report.counts.references(), processor_time() - started))
}

fn generate(specification: &str) -> Result<Stream> {
    let mut source = synthetic::parse(specification)?;
    let (mut chunk, mut preparer, mut batches) = (Chunk::default(), Preparer::new(Timing::Ooo), Vec::new());
    let mut made = 0;
    while made < LENGTH && source.fill(&mut chunk)? {
        made += chunk.refs.len() as u64;
        batches.push(Arc::new(preparer.prepare(std::mem::take(&mut chunk), source.blocks())));
    }
    Ok(Stream::Generated(batches))
}

/// Folds and simulates all batches once more.
fn run_again(batches: &mut [Arc<Batch>], simulation: &mut Simulation) -> Result<(u64, Duration)> {
    let started = processor_time();
    let mut references = 0;
    for batch in batches {
        let chunk = &mut own(batch).chunk;
        references += chunk.refs.len() as u64;
        chunk.page_refs.clear();
        chunk.folded = 0;
        chunk.fold();
        simulation.take(batch)?;
    }
    Ok((references, processor_time() - started))
}

/// Returns a batch of its own, copied if it is shared.
fn own(batch: &mut Arc<Batch>) -> &mut Batch {
    Arc::make_mut(batch)
}

fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
