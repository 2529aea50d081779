//! `reach advise`: predicts by simulation what each remedy would gain on this computer.

mod linux;
mod regions;
mod report;

use crate::args::advise::AdviseArgs;
use crate::args::results::Format;
use crate::captured::{self, Captured, Client, MEMORY};
use crate::experiment::{nearest_machine, threads};
use crate::failure::{Failure, VerbResult, print_error, remark};
use crate::history::{History, Line, command_line};
use crate::program::interrupted_status;
use crate::progress::Progress;
use crate::this_linux::{CODE, wanted_remedies};
use crate::{output, tabulate};
use reach_core::{Label, Shown};
use reach_lab::machine::Resolved as Machine;
use reach_lab::metrics::{self, Estimate};
use reach_lab::{Conditions, Experiment, Outcome, Report, Timing};
use reach_live::control_group::Limits;
use reach_live::huge_pages::HugePages;
use reach_live::keep;
use reach_live::remedy::Remedy;
use reach_live::settings::Setting;
use reach_systems::Resolved as System;
use reach_trace::live::Options;
use reach_trace::{Interruption, Sampling};
use report::Answer;
use std::ffi::OsString;
use std::path::Path;

/// Where all of translation and all of memory management take less of the time than this, nothing helps that is known here.
const LEAST: f64 = 0.01;

/// The name of the advice for a single mapping; the mapping's follows.
const MADVISE: &str = "madvise";

/// What a simulation says of a program under one remedy, or under none.
#[derive(Clone, Copy)]
struct Figures {
    /// Time, in cycles.
    cycles: Estimate,
    /// Peak of resident memory, in bytes.
    resident: u64,
    /// Memory in superpages when resident memory was at its peak, in bytes.
    huge: u64,
    /// Page faults.
    faults: u64,
    /// The length of a stop at a page fault that 99 % of them do not exceed, in cycles.
    p99: u64,
    /// The longest stop, in cycles.
    longest: u64,
}

impl Figures {
    fn of(outcome: &Outcome) -> Figures {
        let superpages = outcome.sizes.iter().skip(1).zip(&outcome.os.superpages_at_peak);
        Figures {
            cycles: outcome.cycles(),
            resident: outcome.os.resident_bytes.peak,
            huge: superpages.map(|(size, count)| size.bytes() * count).sum(),
            faults: outcome.os.page_faults,
            p99: outcome.stops.quantile(0.99),
            longest: outcome.stops.longest(),
        }
    }
}

/// What a remedy is predicted to do.
struct Prediction {
    /// The remedy, or `madvise` and a mapping.
    name: String,
    /// The exact thing to do.
    todo: String,
    speedup: Estimate,
    figures: Figures,
    /// The same program without the remedy, in the same terms.
    plain: Figures,
}

impl Prediction {
    /// Returns the ends of the 95 % confidence interval of the speedup.
    fn interval(&self) -> (f64, f64) {
        let error = self.speedup.error.unwrap_or(0.0);
        (self.speedup.value - error, self.speedup.value + error)
    }
}

/// A remedy without a prediction, and why.
struct Left {
    name: String,
    why: String,
}

/// The answer, before it is formatted.
#[derive(Default)]
struct Advice {
    predictions: Vec<Prediction>,
    left: Vec<Left>,
}

impl Advice {
    fn leave(&mut self, name: impl Into<String>, why: impl Into<String>) {
        self.left.push(Left { name: name.into(), why: why.into() });
    }
}

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

/// The program without any remedy.
struct Plain {
    figures: Figures,
    /// The share of the time that address translation takes.
    translation: Estimate,
    /// The share that the kernel's memory management takes: page faults, copies, daemons.
    kernel: f64,
    /// Nothing can be gained: both shares together are too small.
    hopeless: bool,
}

/// What the captures of one advice have in common.
struct Advisor<'a> {
    args: &'a AdviseArgs,
    machine: Machine,
    linux: HugePages,
    limits: Limits,
    scratch: &'a Path,
    interruption: Interruption,
    quiet: bool,
}

/// What a capture of the program changes.
#[derive(Default)]
struct Change {
    variables: Vec<(OsString, OsString)>,
    arguments: Vec<OsString>,
    grants_hugetlb: bool,
}

impl Change {
    fn of(remedy: &Remedy) -> Change {
        Change {
            variables: remedy.variables().into_iter().map(|(name, value)| (name.into(), value)).collect(),
            arguments: remedy.arguments.iter().map(OsString::from).collect(),
            grants_hugetlb: needs_hugetlb(remedy),
        }
    }

    /// Returns whether the program itself runs otherwise, so that it must be captured again.
    fn is_any(remedy: &Remedy) -> bool {
        !remedy.environment.is_empty() || !remedy.arguments.is_empty()
    }
}

impl Advisor<'_> {
    /// Returns what the program does without a remedy, and the predictions.
    fn advise(&mut self, wanted: &[&'static Remedy]) -> Result<(Plain, Advice), String> {
        let mut advice = Advice::default();
        let program = Path::new(&self.args.command[0]);
        let mut suitable = Vec::new();
        for remedy in wanted {
            match remedy.why_not_for(program) {
                Some(why) => advice.leave(remedy.name, why),
                None if needs_hugetlb(remedy) && self.limits.hugetlb.is_some_and(|bytes| bytes < 2 << 20) => {
                    advice.leave(remedy.name, "the control group of this process may have no hugetlb pages");
                }
                None => suitable.push(*remedy),
            }
        }
        let here = linux::system(&self.linux);
        let (captured, plain) = self.same_run(&here, &suitable, &mut advice)?;
        if plain.hopeless {
            return Ok((plain, Advice::default()));
        }
        self.other_runs(&here, &suitable, &captured, &mut advice)?;
        if self.args.remedies.is_empty() && self.linux.enabled.as_deref() == Some("madvise") {
            self.regions(&here, &captured, &mut advice)?;
        }
        Ok((plain, advice))
    }

    /// Predicts the remedies that leave the program as it is: all from one capture of it.
    fn same_run(
        &mut self,
        here: &str,
        suitable: &[&'static Remedy],
        advice: &mut Advice,
    ) -> Result<(Captured, Plain), String> {
        let mut systems = vec![here.to_owned()];
        let mut simulated: Vec<(&Remedy, String)> = Vec::new();
        for remedy in suitable.iter().filter(|remedy| !Change::is_any(remedy) && remedy.through.is_empty()) {
            let system = linux::system(&linux::under(&self.linux, remedy));
            if system == here {
                advice.leave(remedy.name, "it changes nothing: this Linux is set so already, or lacks it");
            } else {
                systems.push(system.clone());
                simulated.push((remedy, system));
            }
        }
        let code = suitable.iter().find(|remedy| !remedy.through.is_empty());
        systems.extend(code.iter().flat_map(|_| CODE.map(String::from)));
        systems.dedup();
        let captured = self.capture("as it is", Change::default(), &systems, Timing::Ooo)?;
        let outcomes = &captured.report.outcomes;
        let plain = Plain::of(&outcomes[0]);
        if plain.hopeless {
            return Ok((captured, plain));
        }
        let of = |system: &str| outcomes.iter().find(|outcome| outcome.system == system);
        for (remedy, system) in simulated {
            if remedy.takes_huge_pages() && plain.figures.huge == 0 {
                advice.leave(remedy.name, "the program has no huge pages without it");
            } else if let Some(outcome) = of(&system) {
                advice.predictions.push(paired(remedy.name, remedy.keep, outcome, &outcomes[0]));
            }
        }
        if let (Some(remedy), Some(none), Some(all)) = (code, of(CODE[0]), of(CODE[1])) {
            match all.code_superpages.is_empty() {
                true => {
                    advice.leave(remedy.name, "no file of the program has 2 MB of code at an address that allows it")
                }
                false => advice.predictions.push(paired(remedy.name, remedy.keep, all, none)),
            }
        }
        Ok((captured, plain))
    }

    /// Predicts the remedies that change what the program does, from a capture with each.
    fn other_runs(
        &mut self,
        here: &str,
        suitable: &[&'static Remedy],
        before: &Captured,
        advice: &mut Advice,
    ) -> Result<(), String> {
        let mut possible = Vec::new();
        for remedy in suitable.iter().filter(|remedy| Change::is_any(remedy)) {
            match remedy.library.filter(|library| !before.maps(library)) {
                None => possible.push(*remedy),
                Some(library) => advice.leave(remedy.name, format!("the program does not map {library}")),
            }
        }
        if possible.is_empty() {
            return Ok(());
        }
        let plain = self.again(before, "as it is, for its time", &[here.to_owned()], Timing::Ooo)?;
        let plain = Figures::of(&plain.outcomes[0]);
        for remedy in possible {
            let system = linux::system(&linux::under(&self.linux, remedy));
            let captured = match self.capture(remedy.name, Change::of(remedy), &[system], Timing::Ooo) {
                Ok(captured) => captured,
                Err(why) if self.interruption.came().is_some() => return Err(why),
                // The program runs without the remedy, so the remedy is what fails.
                Err(why) => {
                    advice.leave(remedy.name, why);
                    continue;
                }
            };
            let figures = Figures::of(&captured.report.outcomes[0]);
            if figures.huge <= plain.huge {
                advice.leave(remedy.name, "the program got no more huge pages with it");
                continue;
            }
            advice.predictions.push(Prediction {
                name: remedy.name.into(),
                todo: remedy.keep.into(),
                speedup: independent(&figures, &plain),
                figures,
                plain,
            });
        }
        Ok(())
    }

    /// Finds the mappings that pay most for translation or for page faults, and predicts what MADV_HUGEPAGE gains in each.
    fn regions(&mut self, here: &str, before: &Captured, advice: &mut Advice) -> Result<(), String> {
        let counted = self.again(before, "by mapping", &["base".into()], Timing::Counts)?;
        let regions = regions::dearest(&counted.outcomes[0]);
        let systems: Vec<_> = regions.iter().map(|region| format!("{here},advised={}", region.spans)).collect();
        if systems.is_empty() {
            return Ok(());
        }
        let systems: Vec<_> = [here.to_owned()].into_iter().chain(systems).collect();
        let report = self.again(before, "mapping by mapping", &systems, Timing::Ooo)?;
        let (plain, others) = report.outcomes.split_first().expect("one for each system");
        for (region, outcome) in regions.iter().zip(others) {
            advice.predictions.push(paired(&format!("{MADVISE} {}", region.name), &region.todo(), outcome, plain));
        }
        Ok(())
    }

    /// Captures the program and simulates it under `systems`.
    fn capture(&mut self, what: &str, change: Change, systems: &[String], timing: Timing) -> Result<Captured, String> {
        remark(self.quiet, format!("capturing the program: {what}"));
        let experiment = self.experiment(systems, timing)?;
        let options = Options {
            program: self.args.command[0].clone(),
            args: self.args.command[1..].iter().cloned().chain(change.arguments).collect(),
            environment: change.variables,
            grants_hugetlb: change.grants_hugetlb,
            aligns_shared: experiment.systems.iter().any(reach_systems::Resolved::aligns_shared_memory),
            output: Some(self.scratch.join("output")),
            own_group: true,
            ..Options::default()
        };
        let client = self.args.load.as_deref().map(|load| Client {
            ready: self.args.ready.as_deref(),
            load,
            scratch: self.scratch,
        });
        let mut progress = Progress::new(true, self.quiet);
        let show = |status: reach_lab::Status| progress.show(status.references, status.progress);
        let captured = captured::simulate(options, client.as_ref(), &experiment, &mut self.interruption, show);
        progress.end();
        captured
    }

    /// Simulates the run without a remedy under other systems. Captures the program again if that run was too long to be kept.
    fn again(&mut self, before: &Captured, what: &str, systems: &[String], timing: Timing) -> Result<Report, String> {
        let Some(run) = &before.run else {
            return Ok(self.capture(what, Change::default(), systems, timing)?.report);
        };
        remark(self.quiet, format!("simulating the program again: {what}"));
        let experiment = self.experiment(systems, timing)?;
        let mut progress = Progress::new(true, self.quiet);
        let show = |status: reach_lab::Status| progress.show(status.references, status.progress);
        let report = captured::again(run, &experiment, &mut self.interruption, show);
        progress.end();
        report
    }

    /// Returns the simulation of a program under `systems`. With `Timing::Counts`, costs are attributed.
    ///
    /// Under one system, samples are dense enough for its time, which is compared with that of another run. Under several, for
    /// their speedups, which takes fewer intervals.
    fn experiment(&self, systems: &[String], timing: Timing) -> Result<Experiment, String> {
        let precise_cycles = timing == Timing::Ooo && systems.len() == 1;
        let resolve = |name: &String| reach_systems::resolve(name).map_err(|error| error.to_string());
        let systems = systems.iter().map(resolve).collect::<Result<Vec<System>, _>>()?;
        let is_sampled = timing == Timing::Ooo;
        let conditions = Conditions { timing, ..Conditions::new(MEMORY) };
        Ok(Experiment {
            threads: threads(self.args.threads),
            sample: is_sampled.then(Sampling::default),
            precision: is_sampled.then_some(self.args.precision),
            precise_cycles,
            attribute: !is_sampled,
            ..Experiment::new(vec![self.machine.clone()], systems, conditions)
        })
    }
}

impl Plain {
    fn of(outcome: &Outcome) -> Plain {
        let figures = Figures::of(outcome);
        let total = &outcome.total;
        let cycles = total.cycles().max(1) as f64;
        let translation = outcome.rate(&metrics::SAMPLED[2]);
        let kernel = [Label::Fault, Label::Copy, Label::Remap, Label::Daemon];
        let kernel = kernel.into_iter().map(|label| total.ledger.charged(label).0).sum::<u64>() as f64 / cycles;
        let most = translation.value + translation.error.unwrap_or(0.0) + kernel;
        Plain { figures, translation, kernel, hopeless: most < LEAST }
    }
}

/// Returns the prediction from two simulations of the same run.
fn paired(name: &str, todo: &str, with: &Outcome, plain: &Outcome) -> Prediction {
    let speedup = metrics::speedup(with, plain);
    let (figures, plain) = (Figures::of(with), Figures::of(plain));
    Prediction { name: name.into(), todo: todo.into(), speedup, figures, plain }
}

/// Returns the speedup between two runs, whose errors are independent.
fn independent(with: &Figures, plain: &Figures) -> Estimate {
    let value = plain.cycles.value / with.cycles.value.max(1.0);
    let relative = |cycles: Estimate| cycles.error.unwrap_or(0.0) / cycles.value.max(1.0);
    let is_known = with.cycles.error.is_some() || plain.cycles.error.is_some();
    let error = relative(with.cycles).hypot(relative(plain.cycles));
    Estimate { value, error: is_known.then_some(value * error) }
}

/// Returns whether a remedy puts memory on hugetlb pages.
fn needs_hugetlb(remedy: &Remedy) -> bool {
    remedy.settings.iter().any(|(setting, _)| *setting == Setting::HugetlbOvercommit)
}

/// Returns the memory that this computer has for more pages now, in bytes: 0 where the kernel does not say.
fn available() -> u64 {
    keep::available().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_two_runs_add_in_quadrature() {
        let figures = |value: f64, error: Option<f64>| Figures {
            cycles: Estimate { value, error },
            resident: 0,
            huge: 0,
            faults: 0,
            p99: 0,
            longest: 0,
        };
        let both = independent(&figures(100.0, Some(3.0)), &figures(200.0, Some(8.0)));
        assert_eq!(both.value, 2.0);
        assert!((both.error.unwrap() - 0.1).abs() < 1e-12);
        assert_eq!(independent(&figures(100.0, None), &figures(150.0, None)), Estimate { value: 1.5, error: None });
    }
}
