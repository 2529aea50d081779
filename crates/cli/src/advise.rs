//! `reach advise`: predicts by simulation what each remedy would gain on this computer.

mod advisor;
mod linux;
mod native;
mod prediction;
mod regions;
mod report;

use crate::args::advise::AdviseArgs;
use crate::args::results::Format;
use crate::captured;
use crate::experiment::nearest_machine;
use crate::failure::{Failure, VerbResult, print_error, remark};
use crate::history::{History, Line, command_line};
use crate::program::interrupted_status;
use crate::this_linux::wanted_remedies;
use crate::{output, tabulate};
use advisor::Advisor;
use prediction::{Advice, Figures, Plain, Prediction};
use reach_core::Shown;
use reach_live::control_group::Limits;
use reach_live::huge_pages::HugePages;
use reach_live::keep;
use reach_trace::Interruption;
use report::Answer;

/// Where all of translation and all of memory management take less of the time than this, nothing helps that is known here.
const LEAST: f64 = 0.01;

/// Predicts what the remedies gain. Returns 1 if there is no answer.
pub fn advise(args: &AdviseArgs, quiet: bool) -> VerbResult {
    let wanted = wanted_remedies(&args.remedies)?;
    let machine = match &args.machine {
        Some(machine) => machine.clone(),
        None => nearest_machine(quiet)?,
    };
    let machine = captured::with_frames(machine, captured::frames_here());
    let scratch = tempfile::tempdir().map_err(Failure::failed)?;
    let mut advisor = Advisor {
        args,
        machine,
        is_here: args.machine.is_none(),
        linux: HugePages::read(),
        limits: Limits::read(),
        scratch: scratch.path(),
        interruption: Interruption::default(),
        quiet,
    };
    let found = advisor.advise(&wanted);
    if let Some(signal) = advisor.interruption.came() {
        print_error("interrupted; there is no advice");
        return Ok(interrupted_status(signal));
    }
    let (plain, mut advice) = found.map_err(|why| Failure::Failed(why.shown().into_owned()))?;
    advice.predictions.sort_by(|a, b| b.speedup.value.total_cmp(&a.speedup.value));
    let program = command_line(&args.command);
    let mut history = if args.no_history { None } else { History::read() };
    let score = history.as_ref().map(History::score).filter(|(measured, _)| *measured > 0);
    let answer = Answer {
        program: &program,
        machine: &advisor.machine,
        linux: &advisor.linux,
        limits: advisor.limits,
        plain,
        advice: &advice,
        score,
    };
    output::print(&match args.format {
        Format::Table => tabulate::fitted(&answer.table()),
        Format::Jsonl => answer.rows().iter().map(|row| output::json(row) + "\n").collect(),
        Format::Csv => output::csv(&answer.rows()),
    })?;
    if let Some(history) = &mut history {
        let lines = advice.predictions.iter().map(|prediction| Line {
            program: program.clone(),
            remedy: prediction.name.clone(),
            predicted: report::interval(prediction),
            measured: None,
        });
        if let Err(error) = history.add(lines) {
            remark(quiet, format!("the predictions are not kept: {error}"));
        }
    }
    Ok(0)
}

/// Returns the memory that this computer has for more pages now, in bytes: 0 where the kernel does not say.
fn available() -> u64 {
    keep::available().unwrap_or(0)
}
