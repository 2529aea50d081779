//! `reach text bench`: measures the speedup of code superpages.

mod measurement;
mod report;

use crate::args::results::Format;
use crate::args::this_linux::BenchArgs;
use crate::failure::{Failure, VerbResult, print_error};
use crate::{output, tabulate};
use reach_core::Shown;
use reach_live::bench::{Bench, CODE_STATES, Unfit};
use reach_live::keep::EndSignals;
use reach_live::stage::Run;
use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

/// Measures the program and prints the results. Returns 1 if they leave open whether superpages have an effect.
pub fn bench(args: &BenchArgs, quiet: bool) -> VerbResult {
    // Signals are held back, so that the copies are removed before the end.
    let signals = EndSignals::block().map_err(Failure::failed)?;
    let bench = match Bench::new(&args.command, args.libraries, &args.scratch) {
        Ok(bench) => bench,
        Err(Unfit::Nothing(why)) => return Err(Failure::Failed(format!("nothing to measure: {why}"))),
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
                let message = format!("{}: failed with exit status {status}", args.command[0].shown());
                print_error(message);
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
    let results = measurement::all(&runs);
    let least = args.within / 100.0;
    output::print(&match args.format {
        Format::Table => tabulate::fitted(&report::table(args, &bench, &results, least)),
        Format::Jsonl => report::rows(&results, least).iter().map(|row| output::json(row) + "\n").collect(),
        Format::Csv => output::csv(&report::rows(&results, least)),
    })?;
    let [_, again, _, superpages] = &results;
    Ok(match measurement::open_question(superpages, again, least) {
        None => 0,
        Some(why) => {
            print_error(format!("cannot tell whether superpages help: {why}"));
            1
        }
    })
}
