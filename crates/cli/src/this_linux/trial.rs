//! `reach try`: measures remedies on this computer.

mod measurement;
mod report;

use crate::args::results::Format;
use crate::args::trial::TryArgs;
use crate::failure::{Failure, VerbResult, print_error, remark};
use crate::history::{History, command_line};
use crate::{output, tabulate, units};
use measurement::{Measurement, Score, SideResult};
use reach_core::{Random, Shown};
use reach_live::keep::EndSignals;
use reach_live::remedy::{REMEDIES, Remedy};
use reach_live::settings::{self, Guarded};
use reach_live::statistics::MIN_VALUES;
use reach_live::trial::{Client, Figure, Outcome, Trial, TrialError};
use reach_live::watch::Watched;
use std::io::ErrorKind;
use std::process::Command;
use std::time::{Duration, Instant};

/// Rounds between two looks at the intervals.
const ROUNDS: usize = 9;

/// The exit status after SIGINT or SIGTERM.
const INTERRUPTED: u8 = 130;

/// A remedy, or none: the program as it is.
type Side = Option<&'static Remedy>;

/// A remedy that is not measured, and why.
struct Left {
    remedy: &'static Remedy,
    why: String,
}

/// The sides that are measured, and the remedies that are not.
struct Plan {
    /// The program as it is, again, and with the remedies that took effect; with what the kernel showed of each.
    sides: Vec<(Side, Watched)>,
    left: Vec<Left>,
}

/// Tries the remedies. Returns 1 if this computer cannot tell what one of them does.
pub fn try_remedies(args: &TryArgs, quiet: bool) -> VerbResult {
    if args.list {
        output::print(&report::list())?;
        return Ok(0);
    }
    let wanted = wanted_remedies(&args.remedies)?;
    let signals = EndSignals::block().map_err(Failure::failed)?;
    let stop = || signals.wait(Duration::ZERO);
    let scratch = tempfile::tempdir().map_err(Failure::failed)?;
    let trial = Trial {
        program: args.command[0].clone().into(),
        args: args.command[1..].to_vec(),
        client: client(args),
        reach: "/proc/self/exe".into(),
        scratch: scratch.path().to_owned(),
    };
    let mut guarded = guarded(args, &wanted)?;
    let score = Score::of(&trial);
    let result = plan(&trial, &wanted, args.change_system, guarded.as_mut(), &stop).and_then(|plan| {
        let mut rounds = Rounds { plan, score: &score, precision: args.precision };
        let runs = rounds.run(&trial, args, guarded.as_mut(), &stop, quiet)?;
        Ok((rounds, runs))
    });
    drop(guarded);
    let (rounds, runs) = match result {
        Ok(measured) => measured,
        Err(TrialError::Interrupted) => {
            print_error("interrupted; there are no results");
            return Ok(INTERRUPTED);
        }
        Err(error) => {
            print_error(error.to_string().shown());
            let TrialError::Failed(_, status, _) = error else { return Ok(1) };
            return Ok(status.code().and_then(|code| u8::try_from(code).ok()).filter(|&code| code != 0).unwrap_or(1));
        }
    };
    let mut results = rounds.results(&runs);
    let left = &rounds.plan.left;
    let program = command_line(&args.command);
    let mut history = if args.no_history { None } else { History::read() };
    for result in &mut results {
        result.predicted =
            history.as_ref().zip(result.remedy).and_then(|(history, remedy)| history.predicted(&program, remedy.name));
    }
    output::print(&match args.format {
        Format::Table => tabulate::fitted(&report::table(args, &score, &results, left)),
        Format::Jsonl => report::rows(&results, left).iter().map(|row| output::json(row) + "\n").collect(),
        Format::Csv => output::csv(&report::rows(&results, left)),
    })?;
    if let Some(history) = &mut history
        && let Err(error) = history.add(results.iter().filter_map(|result| result.line(&program)))
    {
        remark(quiet, format!("what was measured is not kept: {error}"));
    }
    if stop() {
        print_error("interrupted; the results are those of the rounds before");
        return Ok(INTERRUPTED);
    }
    Ok(u8::from(results.iter().any(|result| result.is_open())))
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
    let mut command = Command::new("/proc/self/exe");
    command.args(["generate", "guardian"]);
    let guarded = Guarded::start(command);
    guarded.map(Some).map_err(|error| Failure::Failed(format!("the kernel's settings cannot be guarded: {error}")))
}

/// Runs the program as it is and with each remedy that may do something, and looks which of them the kernel shows to have
/// taken effect.
fn plan(
    trial: &Trial,
    wanted: &[&'static Remedy],
    change_system: bool,
    mut guarded: Option<&mut Guarded>,
    stop: &dyn Fn() -> bool,
) -> Result<Plan, TrialError> {
    let (_, plain) = trial.run(None, true, guarded.as_deref_mut(), stop)?;
    let mut plan = Plan { sides: vec![(None, plain.clone()), (None, plain.clone())], left: Vec::new() };
    for &remedy in wanted {
        let pointless = match remedy.settings.is_empty() || change_system {
            true => remedy.why_not_for(&trial.program).or_else(|| remedy.why_pointless(&plain)),
            false => Some("it changes settings of the kernel for all programs; --change-system allows that".into()),
        };
        if let Some(why) = pointless {
            plan.left.push(Left { remedy, why });
            continue;
        }
        match trial.run(Some(remedy), true, guarded.as_deref_mut(), stop) {
            Ok((_, seen)) => match remedy.why_no_effect(&plain, &seen) {
                Some(why) => plan.left.push(Left { remedy, why: why.into() }),
                None => plan.sides.push((Some(remedy), seen)),
            },
            Err(error @ (TrialError::Interrupted | TrialError::Settings(..))) => return Err(error),
            Err(TrialError::Io(name, why)) if why.kind() == ErrorKind::StorageFull => {
                return Err(TrialError::Io(name, why));
            }
            // The program runs without the remedy, so the remedy is what fails.
            Err(error) => plan.left.push(Left { remedy, why: error.to_string() }),
        }
    }
    Ok(plan)
}

/// The rounds that measure all sides.
struct Rounds<'a> {
    plan: Plan,
    score: &'a Score,
    /// Half the width of intervals that is narrow enough, and the least effect that matters, as a share.
    precision: f64,
}

impl Rounds<'_> {
    /// Runs rounds until every remedy is decided and every interval is narrow enough, or rounds or time are used up. Returns the
    /// runs of each side. After an interrupt, those so far, if they are enough for an interval. A remedy with which the program
    /// fails in some round is left out from then on; the program as it is must not fail.
    fn run(
        &mut self,
        trial: &Trial,
        args: &TryArgs,
        mut guarded: Option<&mut Guarded>,
        stop: &dyn Fn() -> bool,
        quiet: bool,
    ) -> Result<Vec<Vec<Outcome>>, TrialError> {
        let mut runs: Vec<Vec<Outcome>> = vec![Vec::new(); self.plan.sides.len()];
        let begun = Instant::now();
        // The order of the runs must not depend on anything that they could depend on, too.
        let mut random = Random::new(u64::from(std::process::id()));
        for round in 1..=args.rounds as usize {
            if self.plan.sides.iter().all(|(side, _)| side.is_none()) {
                break;
            }
            let mut order: Vec<usize> = (0..self.plan.sides.len()).collect();
            for at in (1..order.len()).rev() {
                order.swap(at, random.below(at as u64 + 1) as usize);
            }
            let mut failed = Vec::new();
            for side in order {
                let remedy = self.plan.sides[side].0;
                match (trial.run(remedy, false, guarded.as_deref_mut(), stop), remedy) {
                    (Ok((outcome, _)), _) => runs[side].push(outcome),
                    (Err(TrialError::Interrupted), _) if round > MIN_VALUES => return Ok(runs),
                    (Err(TrialError::Failed(program, status, lines)), Some(remedy)) => {
                        let why = TrialError::Failed(program, status, lines);
                        failed.push((side, Left { remedy, why: format!("in round {round}, {why}") }));
                    }
                    (Err(error), _) => return Err(error),
                }
            }
            // From the last, so that the numbers of the others stay.
            failed.sort_by_key(|(side, _)| std::cmp::Reverse(*side));
            for (side, left) in failed {
                self.plan.sides.remove(side);
                runs.remove(side);
                self.plan.left.push(left);
            }
            let late = round >= MIN_VALUES && begun.elapsed().as_secs() >= args.seconds;
            if !late && !round.is_multiple_of(ROUNDS) {
                continue;
            }
            let results = self.results(&runs);
            let width = results.iter().filter_map(|result| result.half_width()).fold(0.0, f64::max);
            remark(
                quiet,
                format!("round {round} of at most {}; intervals within ±{}", args.rounds, units::percent(width)),
            );
            // More rounds do not help where runs cannot be compared.
            let decided = results.iter().all(|result| !result.is_open() || result.speedup.is_none());
            if late || decided && width <= self.precision {
                break;
            }
        }
        Ok(runs)
    }

    /// Returns what the runs say.
    fn results(&self, runs: &[Vec<Outcome>]) -> Vec<SideResult> {
        let sides = self.plan.sides.iter().zip(runs);
        let sides: Vec<_> = sides.map(|((side, seen), runs)| Measurement::new(*side, seen, runs)).collect();
        measurement::results(&sides, self.score, self.precision)
    }
}
