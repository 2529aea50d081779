//! `reach text bench`: measures the speedup of code superpages.

use crate::args::results::Format;
use crate::args::this_linux::BenchArgs;
use crate::failure::{Failure, VerbResult};
use crate::units::{grouped, memory, time};
use crate::{output, tabulate};
use reach_live::bench::{Bench, CODE_STATES, CodeState, Unfit};
use reach_live::keep::EndSignals;
use reach_live::stage::Run;
use reach_live::statistics::Median;
use serde::Serialize;
use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

/// Measures the program and prints the results.
pub fn bench(args: &BenchArgs, quiet: bool) -> VerbResult {
    // Signals are held back, so that the copies are removed before the end.
    let signals = EndSignals::block().map_err(Failure::failed)?;
    let bench = match Bench::new(&args.command, args.libraries, &args.scratch) {
        Ok(bench) => bench,
        Err(Unfit::NoEffect(why)) => {
            output::print(&format!("no effect: {why}\n"))?;
            return Ok(0);
        }
        Err(Unfit::Failed(error)) => return Err(error.into()),
    };
    let mut runs: [Vec<Run>; CODE_STATES.len()] = Default::default();
    // Round 0 warms up and is not measured.
    for round in 0..=args.rounds as usize {
        for turn in 0..CODE_STATES.len() {
            // The order rotates, so that each state runs in each position equally often.
            let i = (round + turn) % CODE_STATES.len();
            let run = bench.run(CODE_STATES[i])?;
            if signals.wait(Duration::ZERO) {
                return Err(Failure::Failed("interrupted before the last round; there are no results".into()));
            }
            if !run.status.success() {
                let status = run.status.code().unwrap_or_else(|| 128 + run.status.signal().unwrap_or(0));
                let message = format!("{}: failed with exit status {status}", args.command[0].display());
                crate::failure::print_error(message);
                return Ok(status as u8);
            }
            if round > 0 {
                runs[i].push(run);
            }
        }
        if !quiet && round > 0 && round.is_multiple_of(5) {
            eprintln!("reach: round {round} of {}", args.rounds);
        }
    }
    let results: Vec<Measurement> =
        CODE_STATES.iter().zip(&runs).map(|(&state, own)| Measurement::of(state, &runs[0], own)).collect();
    output::print(&match args.format {
        Format::Table => table(args, &bench, &results),
        Format::Jsonl => rows(&results).iter().map(|row| output::json(row) + "\n").collect(),
        Format::Csv => output::csv(&rows(&results)),
    })?;
    Ok(0)
}

/// The measurements with the code in one state.
struct Measurement {
    state: CodeState,
    /// Median of each run.
    user: Duration,
    wall: Duration,
    faults: u64,
    /// Least bytes of code mapped with superpages in any run; `None` if not visible.
    superpages: Option<u64>,
    /// Times in base pages over times in this state; `None` if the runs are too short to compare.
    user_ratio: Option<Median>,
    wall_ratio: Option<Median>,
}

/// Least user time to compare: the kernel may count shorter times in whole ticks.
const SHORTEST: Duration = Duration::from_millis(20);

impl Measurement {
    fn of(state: CodeState, base: &[Run], own: &[Run]) -> Measurement {
        let median = |of: &dyn Fn(&Run) -> Duration| {
            let mut times: Vec<Duration> = own.iter().map(of).collect();
            times.sort();
            times[times.len() / 2]
        };
        let ratio = |of: &dyn Fn(&Run) -> Duration| {
            let ratios =
                base.iter().zip(own).map(|(base, own)| of(base).as_secs_f64() / of(own).as_secs_f64().max(1e-9));
            Median::of(&ratios.collect::<Vec<_>>())
        };
        let user_ratio = ratio(&|run| run.user).filter(|_| median(&|run| run.user) >= SHORTEST);
        let mut faults: Vec<u64> = own.iter().map(|run| run.faults).collect();
        faults.sort();
        Measurement {
            state,
            user: median(&|run| run.user),
            wall: median(&|run| run.wall),
            faults: faults[faults.len() / 2],
            superpages: own.iter().map(|run| run.superpages).min().flatten(),
            user_ratio,
            wall_ratio: ratio(&|run| run.wall),
        }
    }

    fn name(&self) -> &'static str {
        match self.state {
            CodeState::Base => "base pages",
            CodeState::BaseAgain => "base pages again",
            CodeState::Folios => "64 KB folios",
            CodeState::Superpages => "superpages",
        }
    }
}

fn table(args: &BenchArgs, bench: &Bench, results: &[Measurement]) -> String {
    let command: Vec<_> = args.command.iter().map(|word| word.to_string_lossy()).collect();
    let aligned = if bench.aligned { ", in an aligned copy" } else { "" };
    let heading = format!(
        "{}\n{} of code in regions of 2 MB{aligned}; {} rounds\n",
        tabulate::clipped(&command.join(" ")),
        memory(bench.code),
        args.rounds
    );
    let ratio = |ratio: &Option<Median>| match ratio {
        Some(ratio) => format!("{:.2} ({:.2}–{:.2})", ratio.value, ratio.low, ratio.high),
        None => "too short".into(),
    };
    let lines = results.iter().map(|result| {
        let first = result.state == CodeState::Base;
        [
            result.name().to_owned(),
            time(result.user),
            time(result.wall),
            grouped(result.faults),
            result.superpages.map_or("–".into(), |bytes| if bytes == 0 { "0".into() } else { memory(bytes) }),
            if first { "1".into() } else { ratio(&result.user_ratio) },
            if first { "1".into() } else { ratio(&result.wall_ratio) },
        ]
    });
    let header = [
        "code in",
        "user\ntime",
        "wall\ntime",
        "page\nfaults",
        "super-\npages",
        "user time\nspeedup",
        "wall time\nspeedup",
    ];
    let [_, again, folios, superpages] = results else { unreachable!("there is a result for each state") };
    heading + &tabulate::numbers(header, lines) + "\n" + &verdict(folios, again) + &verdict(superpages, again)
}

/// Returns a line with the effect of a state. `again` is the second run in base pages: its difference is the noise.
fn verdict(result: &Measurement, again: &Measurement) -> String {
    let noise = |again: &Option<Median>| again.map(|again| again.noise());
    let effect = |clock: &str, ratio: &Option<Median>, again: &Option<Median>| {
        let (ratio, noise) = (ratio.as_ref()?, noise(again)?);
        match ratio.differs(noise) {
            true if ratio.value > 1.0 => Some(format!("{:.2} times as fast in {clock} time", ratio.value)),
            true => Some(format!("{:.2} times as slow in {clock} time", 1.0 / ratio.value)),
            false => None,
        }
    };
    let effects: Vec<String> =
        [effect("user", &result.user_ratio, &again.user_ratio), effect("wall", &result.wall_ratio, &again.wall_ratio)]
            .into_iter()
            .flatten()
            .collect();
    let effects = if effects.is_empty() { "no effect".to_owned() } else { effects.join(", ") };
    let shown =
        |clock: &str, again: &Option<Median>| noise(again).map(|noise| format!("±{:.1} % {clock} time", 100.0 * noise));
    let noise: Vec<String> =
        [shown("user", &again.user_ratio), shown("wall", &again.wall_ratio)].into_iter().flatten().collect();
    format!("{}: {effects} (noise: {})\n", result.name(), noise.join(", "))
}

/// A row of the results: one metric of one state.
#[derive(Serialize)]
struct Row {
    code: &'static str,
    metric: String,
    unit: &'static str,
    value: f64,
}

fn rows(results: &[Measurement]) -> Vec<Row> {
    let mut rows = Vec::new();
    for result in results {
        let mut add = |metric: String, unit, value| rows.push(Row { code: result.name(), metric, unit, value });
        add("user_time".into(), "s", result.user.as_secs_f64());
        add("wall_time".into(), "s", result.wall.as_secs_f64());
        add("page_faults".into(), "faults", result.faults as f64);
        if let Some(bytes) = result.superpages {
            add("superpages.2M".into(), "bytes", bytes as f64);
        }
        for (name, ratio) in [("user", result.user_ratio), ("wall", result.wall_ratio)] {
            let Some(ratio) = ratio else { continue };
            for (end, value) in [("", ratio.value), ("_low", ratio.low), ("_high", ratio.high)] {
                add(format!("speedup_{name}{end}"), "ratio", value);
            }
        }
    }
    rows
}
