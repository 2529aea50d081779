//! `reach text bench`.

use crate::args::results::Format;
use crate::args::this_linux::BenchArgs;
use crate::failure::{Done, Failure};
use crate::units::{grouped, memory, time};
use crate::{output, tabulate};
use reach_live::bench::{Bench, HOLDS, Hold, Unfit};
use reach_live::keep::Ending;
use reach_live::statistics::Median;
use reach_live::trace::Run;
use serde::Serialize;
use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

/// Measures a program.
pub fn bench(args: &BenchArgs, quiet: bool) -> Done {
    // Held back, so that the copies are removed when one comes.
    let ending = Ending::hold().map_err(Failure::failed)?;
    let bench = match Bench::new(&args.command, args.libraries, &args.scratch) {
        Ok(bench) => bench,
        Err(Unfit::NoEffect(why)) => {
            output::print(&format!("no effect: {why}\n"))?;
            return Ok(0);
        }
        Err(Unfit::Failed(error)) => return Err(error.into()),
    };
    let mut runs: [Vec<Run>; HOLDS.len()] = Default::default();
    // The first round warms up, and does not count.
    for round in 0..=args.rounds as usize {
        for turn in 0..HOLDS.len() {
            // Each comes first as often as last.
            let i = (round + turn) % HOLDS.len();
            let run = bench.run(HOLDS[i])?;
            if ending.wait(Duration::ZERO) {
                return Err(Failure::Failed("interrupted; nothing is known yet".into()));
            }
            if !run.status.success() {
                let status = run.status.code().unwrap_or_else(|| 128 + run.status.signal().unwrap_or(0));
                let what = format!("{}: failed with status {status}", args.command[0].display());
                crate::failure::complain(what);
                return Ok(status as u8);
            }
            if round > 0 {
                runs[i].push(run);
            }
        }
        if !quiet && round > 0 && round.is_multiple_of(5) {
            eprintln!("reach: {round} of {} rounds", args.rounds);
        }
    }
    let results: Vec<Result> = HOLDS.iter().zip(&runs).map(|(&hold, own)| Result::of(hold, &runs[0], own)).collect();
    output::print(&match args.format {
        Format::Table => table(args, &bench, &results),
        Format::Jsonl => rows(&results).iter().map(|row| output::json(row) + "\n").collect(),
        Format::Csv => output::csv(&rows(&results)),
    })?;
    Ok(0)
}

/// What one way of holding code gave.
struct Result {
    hold: Hold,
    user: Duration,
    wall: Duration,
    faults: u64,
    /// The least of all runs.
    superpages: Option<u64>,
    /// Times of base pages over times of this.
    user_ratio: Option<Median>,
    wall_ratio: Option<Median>,
}

/// Times below this are mostly the ticks with which the kernel counts them.
const SHORTEST: Duration = Duration::from_millis(20);

impl Result {
    fn of(hold: Hold, base: &[Run], own: &[Run]) -> Result {
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
        Result {
            hold,
            user: median(&|run| run.user),
            wall: median(&|run| run.wall),
            faults: faults[faults.len() / 2],
            superpages: own.iter().map(|run| run.superpages).min().flatten(),
            user_ratio,
            wall_ratio: ratio(&|run| run.wall),
        }
    }

    fn name(&self) -> &'static str {
        match self.hold {
            Hold::Base => "base pages",
            Hold::BaseAgain => "base pages again",
            Hold::Folios => "64 KB folios",
            Hold::Superpages => "superpages",
        }
    }
}

fn table(args: &BenchArgs, bench: &Bench, results: &[Result]) -> String {
    let command: Vec<_> = args.command.iter().map(|word| word.to_string_lossy()).collect();
    let aligned = if bench.aligned { ", in a copy that was aligned for it" } else { "" };
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
        let first = result.hold == Hold::Base;
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
    let header = ["code in", "user", "wall", "faults", "mapped\nhuge", "user time\nspeedup", "wall time\nspeedup"];
    let [_, again, folios, superpages] = results else { unreachable!("there is a result for each way") };
    heading + &tabulate::numbers(header, lines) + "\n" + &verdict(folios, again) + &verdict(superpages, again)
}

/// What is to be said of a way, beside what two equal ones differ by.
fn verdict(result: &Result, again: &Result) -> String {
    let noise = |again: &Option<Median>| again.map(|again| again.noise());
    let said = |what: &str, ratio: &Option<Median>, again: &Option<Median>| {
        let (ratio, noise) = (ratio.as_ref()?, noise(again)?);
        match ratio.differs(noise) {
            true if ratio.value > 1.0 => Some(format!("{:.2} times as fast in {what} time", ratio.value)),
            true => Some(format!("{:.2} times as slow in {what} time", 1.0 / ratio.value)),
            false => None,
        }
    };
    let effects: Vec<String> =
        [said("user", &result.user_ratio, &again.user_ratio), said("wall", &result.wall_ratio, &again.wall_ratio)]
            .into_iter()
            .flatten()
            .collect();
    let effects = if effects.is_empty() { "no effect".to_owned() } else { effects.join(", ") };
    let shown =
        |what: &str, again: &Option<Median>| noise(again).map(|noise| format!("±{:.1} % {what}", 100.0 * noise));
    let noise: Vec<String> =
        [shown("user", &again.user_ratio), shown("wall", &again.wall_ratio)].into_iter().flatten().collect();
    format!("{}: {effects} (noise: {})\n", result.name(), noise.join(", "))
}

/// A metric of one way.
#[derive(Serialize)]
struct Row {
    code: &'static str,
    metric: String,
    unit: &'static str,
    value: f64,
}

fn rows(results: &[Result]) -> Vec<Row> {
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
