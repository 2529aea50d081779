//! `reach try`: measures remedies on this computer.

mod measurement;
mod plan;
mod report;
mod rounds;

use crate::args::results::Format;
use crate::args::trial::TryArgs;
use crate::failure::{Failure, VerbResult, print_error, remark};
use crate::history::{History, command_line};
use crate::{output, tabulate};
use measurement::{Score, SideResult};
use plan::{Plan, Runner};
use reach_core::Shown;
use reach_live::backed::Backing;
use reach_live::fragmented::{self, Broken};
use reach_live::keep::EndSignals;
use reach_live::remedy::{REMEDIES, Remedy};
use reach_live::settings::{self, Guarded};
use reach_live::trial::{Client, Figure, Trial, TrialError};
use rounds::Rounds;
use std::time::Duration;

/// The exit status after SIGINT or SIGTERM.
const INTERRUPTED: u8 = 130;

/// A remedy, or none: the program as it is.
type Side = Option<&'static Remedy>;

/// A remedy that is not measured, and why.
struct Left {
    remedy: &'static Remedy,
    why: String,
}

/// The state of the free memory in which a phase has run.
struct Memory {
    /// Breaking it up came first: what was broken up, and the share in whole huge pages before. `None`: memory as it is.
    broken: Option<(Broken, Option<f64>)>,
    /// The share of free memory that is in whole huge pages. `None` where the kernel does not say.
    whole: Option<f64>,
}

/// What was measured in one state of memory.
struct Phase {
    memory: Memory,
    /// The program as it is, and with the remedies that took effect.
    results: Vec<SideResult>,
    left: Vec<Left>,
}

/// Tries the remedies. Returns 1 if this computer cannot tell what one of them does.
pub fn try_remedies(args: &TryArgs, quiet: bool) -> VerbResult {
    if args.list {
        output::print(&report::list())?;
        return Ok(0);
    }
    let wanted = wanted_remedies(&args.remedies)?;
    if let Some(why) = args.fragmented.then(fragmented::why_not).flatten() {
        return Err(Failure::Usage(format!("--fragmented is not possible: {why}")));
    }
    let signals = EndSignals::block().map_err(Failure::failed)?;
    let stop = || signals.wait(Duration::ZERO);
    let scratch = tempfile::tempdir().map_err(Failure::failed)?;
    let trial = Trial {
        program: args.command[0].clone().into(),
        args: args.command[1..].to_vec(),
        client: client(args),
        reach: "/proc/self/exe".into(),
        scratch: scratch.path().to_owned(),
        backing: Backing::default(),
    };
    let score = Score::of(&trial);
    let mut runner = Runner { trial: &trial, guarded: guarded(args, &wanted)?, fragmented: None, stop: &stop };
    let rounds = Rounds { score: &score, args, quiet };
    let mut phases = Vec::new();
    let end = measure(&mut runner, &rounds, &wanted, &mut phases);
    // What was changed is restored before anything is said of it.
    drop(runner);
    let program = command_line(&args.command);
    let mut history = if args.no_history { None } else { History::read() };
    if let Some(first) = phases.first_mut() {
        for result in &mut first.results {
            let named = history.as_ref().zip(result.remedy);
            result.predicted = named.and_then(|(history, remedy)| history.predicted(&program, remedy.name));
        }
        output::print(&match args.format {
            Format::Table => tabulate::fitted(&report::table(args, &score, &phases)),
            Format::Jsonl => report::rows(&phases).iter().map(|row| output::json(row) + "\n").collect(),
            Format::Csv => output::csv(&report::rows(&phases)),
        })?;
    }
    // Predictions are of memory as it is.
    if let (Some(history), Some(first)) = (&mut history, phases.first())
        && let Err(error) = history.add(first.results.iter().filter_map(|result| result.line(&program)))
    {
        remark(quiet, format!("what was measured is not kept: {error}"));
    }
    match end {
        Err(TrialError::Interrupted) => {
            print_error(match phases.len() {
                0 => "interrupted; there are no results",
                _ => "interrupted; there are no results in memory that is broken up",
            });
            Ok(INTERRUPTED)
        }
        Err(error) => {
            print_error(error.to_string().shown());
            let TrialError::Failed(_, status, _) = error else { return Ok(1) };
            Ok(status.code().and_then(|code| u8::try_from(code).ok()).filter(|&code| code != 0).unwrap_or(1))
        }
        Ok(()) if stop() => {
            print_error("interrupted; the results are those of the rounds before");
            Ok(INTERRUPTED)
        }
        Ok(()) => Ok(u8::from(phases.iter().flat_map(|phase| &phase.results).any(|result| result.is_open()))),
    }
}

/// Measures in memory as it is, and then, if asked to, in memory that is broken up. What is measured before an error stays.
fn measure(
    runner: &mut Runner,
    rounds: &Rounds,
    wanted: &[&'static Remedy],
    phases: &mut Vec<Phase>,
) -> Result<(), TrialError> {
    let whole = fragmented::whole_share();
    let mut plan = Plan::new(wanted, rounds.args.change_system, runner)?;
    let results = rounds.run(&mut plan, runner)?;
    let sides = plan.sides;
    phases.push(Phase { memory: Memory { broken: None, whole }, results, left: plan.left });
    if !rounds.args.fragmented || sides.iter().all(|(side, _)| side.is_none()) || (runner.stop)() {
        return Ok(());
    }
    remark(rounds.quiet, "now the free memory is broken up, which takes some seconds for each 16 GB");
    let whole = fragmented::whole_share();
    let broken = (runner.break_up()?, whole);
    let whole = fragmented::whole_share();
    let mut plan = Plan::again(&sides, runner)?;
    let results = rounds.run(&mut plan, runner)?;
    phases.push(Phase { memory: Memory { broken: Some(broken), whole }, results, left: plan.left });
    Ok(())
}

/// Returns the remedies of these names; all of them if there are no names.
pub fn wanted_remedies(names: &[String]) -> Result<Vec<&'static Remedy>, Failure> {
    if names.is_empty() {
        return Ok(REMEDIES.iter().collect());
    }
    let named = |name: &String| {
        let known = || REMEDIES.iter().map(|remedy| remedy.name).collect::<Vec<_>>().join(", ");
        let remedy = Remedy::named(name);
        remedy.ok_or_else(|| Failure::Usage(format!("there is no remedy {name:?}; there are {}", known())))
    };
    let mut remedies: Vec<&Remedy> = Vec::new();
    for remedy in names.iter().map(named) {
        let remedy = remedy?;
        if remedies.iter().all(|other| other.name != remedy.name) {
            remedies.push(remedy);
        }
    }
    Ok(remedies)
}

fn client(args: &TryArgs) -> Option<Client> {
    let load = args.load.clone()?;
    let figure = args.rate.clone().map(Figure::Rate).or(args.latency.clone().map(Figure::Latency));
    Some(Client { ready: args.ready.clone(), load, figure })
}

/// Starts the guardian of the kernel's settings, if they may be changed.
fn guarded(args: &TryArgs, wanted: &[&Remedy]) -> Result<Option<Guarded>, Failure> {
    if !args.change_system || wanted.iter().all(|remedy| remedy.settings.is_empty()) {
        return Ok(None);
    }
    if !settings::are_writable() {
        return Err(Failure::Usage("--change-system writes settings of the kernel, which needs root".into()));
    }
    let guarded = Guarded::start(plan::helper("guardian"));
    guarded.map(Some).map_err(|error| Failure::Failed(format!("the kernel's settings cannot be guarded: {error}")))
}
