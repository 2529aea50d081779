//! `reach try`: measures remedies on this computer.

mod measurement;
mod report;

use crate::args::results::Format;
use crate::args::trial::TryArgs;
use crate::failure::{Failure, VerbResult, print_error, remark};
use crate::{output, tabulate, units};
use measurement::{Measurement, Score};
use reach_core::Shown;
use reach_live::keep::EndSignals;
use reach_live::remedy::{REMEDIES, Remedy};
use reach_live::settings::{self, Guarded};
use reach_live::trial::{Client, Figure, Outcome, Trial, TrialError};
use reach_live::watch::Watched;
use std::process::Command;
use std::time::{Duration, Instant};

/// Rounds between two looks at the intervals.
const ROUNDS: usize = 9;

/// A remedy, or none: the program as it is.
type Side = Option<&'static Remedy>;

/// A remedy that is not measured, and why.
struct Left {
    remedy: &'static Remedy,
    why: String,
}

/// What is known before the rounds.
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
    let wanted = wanted(args)?;
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
    let result = plan(&trial, &wanted, args.change_system, guarded.as_mut(), &stop).and_then(|plan| {
        let runs = rounds(&trial, &plan, args, guarded.as_mut(), &stop, quiet)?;
        Ok((plan, runs))
    });
    drop(guarded);
    let (plan, runs) = match result {
        Ok(measured) => measured,
        Err(TrialError::Failed(name, status)) => {
            print_error(format!("{}: {status}", name.shown()));
            return Ok(status.code().and_then(|code| u8::try_from(code).ok()).filter(|&code| code != 0).unwrap_or(1));
        }
        Err(error) => return Err(Failure::Failed(error.to_string().shown().into_owned())),
    };
    let score = Score::of(&trial);
    let all: Vec<_> =
        plan.sides.iter().zip(&runs).map(|((side, seen), runs)| Measurement::new(*side, seen, runs)).collect();
    let results = measurement::results(&all, &score, args.precision / 100.0);
    output::print(&match args.format {
        Format::Table => tabulate::fitted(&report::table(args, &score, &results, &plan.left)),
        Format::Jsonl => report::rows(&results, &plan.left).iter().map(|row| output::json(row) + "\n").collect(),
        Format::Csv => output::csv(&report::rows(&results, &plan.left)),
    })?;
    Ok(u8::from(results.iter().any(|result| result.is_open())))
}

/// Returns the remedies to try.
fn wanted(args: &TryArgs) -> Result<Vec<&'static Remedy>, Failure> {
    if args.remedies.is_empty() {
        return Ok(REMEDIES.iter().collect());
    }
    let named = |name: &String| {
        let known = || REMEDIES.iter().map(|remedy| remedy.name).collect::<Vec<_>>().join(", ");
        let remedy = Remedy::named(name);
        remedy.ok_or_else(|| Failure::Usage(format!("there is no remedy {name:?}; there are {}", known())))
    };
    let mut remedies: Vec<&Remedy> = Vec::new();
    for remedy in args.remedies.iter().map(named) {
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
            true => remedy.is_pointless(&plain),
            false => Some("it changes settings of the kernel for all programs; --change-system allows that".into()),
        };
        if let Some(why) = pointless {
            plan.left.push(Left { remedy, why });
            continue;
        }
        match trial.run(Some(remedy), true, guarded.as_deref_mut(), stop) {
            Ok((_, seen)) => match remedy.had_no_effect(&plain, &seen) {
                Some(why) => plan.left.push(Left { remedy, why: why.into() }),
                None => plan.sides.push((Some(remedy), seen)),
            },
            Err(TrialError::Interrupted) => return Err(TrialError::Interrupted),
            // The program runs as it is, so the remedy is what fails.
            Err(error) => plan.left.push(Left { remedy, why: error.to_string() }),
        }
    }
    Ok(plan)
}

/// Measures all sides in rounds, until every interval is narrow enough. Returns the runs of each side.
fn rounds(
    trial: &Trial,
    plan: &Plan,
    args: &TryArgs,
    mut guarded: Option<&mut Guarded>,
    stop: &dyn Fn() -> bool,
    quiet: bool,
) -> Result<Vec<Vec<Outcome>>, TrialError> {
    let mut runs: Vec<Vec<Outcome>> = vec![Vec::new(); plan.sides.len()];
    if plan.sides.iter().all(|(side, _)| side.is_none()) {
        return Ok(runs);
    }
    let begun = Instant::now();
    let score = Score::of(trial);
    let mut order: Vec<usize> = (0..plan.sides.len()).collect();
    let mut random = Shuffle(0x9e37_79b9_7f4a_7c15);
    for round in 1..=args.rounds as usize {
        random.shuffle(&mut order);
        for &side in &order {
            let (outcome, _) = trial.run(plan.sides[side].0, false, guarded.as_deref_mut(), stop)?;
            runs[side].push(outcome);
        }
        if !round.is_multiple_of(ROUNDS) && begun.elapsed().as_secs() < args.seconds {
            continue;
        }
        let measured: Vec<_> =
            plan.sides.iter().zip(&runs).map(|((side, seen), runs)| Measurement::new(*side, seen, runs)).collect();
        let results = measurement::results(&measured, &score, args.precision / 100.0);
        let width = results.iter().filter_map(|result| result.half_width()).fold(0.0, f64::max);
        let known = results.iter().any(|result| result.half_width().is_some());
        remark(quiet, format!("round {round} of at most {}; intervals within ±{}", args.rounds, units::percent(width)));
        if known && (width <= args.precision / 100.0 || begun.elapsed().as_secs() >= args.seconds) {
            break;
        }
    }
    Ok(runs)
}

/// A generator of random orders (xorshift): which run is first must not depend on anything else.
struct Shuffle(u64);

impl Shuffle {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn shuffle(&mut self, items: &mut [usize]) {
        for at in (1..items.len()).rev() {
            items.swap(at, (self.next() % (at as u64 + 1)) as usize);
        }
    }
}
