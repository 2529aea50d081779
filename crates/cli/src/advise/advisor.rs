//! The captures and simulations behind one advice.
//!
//! A program is captured once to be counted under all remedies that leave it as it is. That is fast, and shows which of them do
//! nothing, and which mappings pay most. The others are then simulated with times on the same run, and remedies that change what
//! the program does on runs of their own. How much time each part of the work takes is measured on this computer, if the
//! simulated machine is meant to be this one.

use super::native::Native;
use super::prediction::{Advice, Figures, OnBasePages, Plain, Prediction, Scale};
use super::{linux, regions};
use crate::args::advise::AdviseArgs;
use crate::captured::{self, Captured, Client, MEMORY};
use crate::experiment::threads;
use crate::failure::remark;
use crate::progress::Progress;
use crate::this_linux::CODE;
use reach_lab::machine::Resolved as Machine;
use reach_lab::{Attributed, Conditions, Experiment, Outcome, Report, Timing};
use reach_live::backed::Backing;
use reach_live::control_group::Limits;
use reach_live::huge_pages::HugePages;
use reach_live::remedy::Remedy;
use reach_live::settings::Setting;
use reach_live::trial::{Client as TrialClient, Trial};
use reach_systems::Resolved as System;
use reach_trace::live::Options;
use reach_trace::{Interruption, Sampling};
use std::cell::RefCell;
use std::ffi::OsString;
use std::path::Path;

/// The name of the advice for a single mapping; the mapping's follows.
const MADVISE: &str = "madvise";

/// The system under which mappings are compared: without huge pages.
const BASE: &str = "base";

/// What the captures of one advice have in common.
pub struct Advisor<'a> {
    pub args: &'a AdviseArgs,
    pub machine: Machine,
    /// Whether the machine stands for this computer.
    pub is_here: bool,
    pub linux: HugePages,
    pub limits: Limits,
    /// A folder for output.
    pub scratch: &'a Path,
    pub interruption: Interruption,
    pub quiet: bool,
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

/// What a simulation of the program is for.
struct Pass<'a> {
    /// What the user is told.
    what: &'a str,
    systems: Vec<String>,
    wants: Wants,
}

/// What a simulation gives.
enum Wants {
    /// Counts, and costs by mapping under the first system.
    Counts,
    /// Times. The first sample; `None`: all is simulated.
    Times(Option<Sampling>),
}

/// A remedy that leaves the program as it is, or the advice for a mapping.
struct Candidate {
    name: String,
    todo: String,
    /// The system under which the program has the remedy.
    system: String,
    /// The same without it.
    plain: String,
}

impl Candidate {
    /// Returns the outcomes with the remedy and without it.
    fn outcomes<'a>(&self, all: &'a [Outcome]) -> (&'a Outcome, &'a Outcome) {
        (outcome(all, &self.system), outcome(all, &self.plain))
    }
}

impl Advisor<'_> {
    /// Returns what the program does without a remedy, and the predictions.
    pub fn advise(&mut self, wanted: &[&'static Remedy]) -> Result<(Plain, Advice), String> {
        // Before this process has memory whose copies would be the program's to free.
        let native = if self.is_here { Some(self.measured()?) } else { None };
        let mut advice = Advice::default();
        let suitable = self.suitable(wanted, &mut advice);
        let here = linux::system(&self.linux);
        let candidates = self.candidates(&here, &suitable, &mut advice);
        let counted = [vec![BASE.to_owned()], systems(&here, &candidates)].concat();
        let first =
            self.capture(Change::default(), Pass { what: "as it is", systems: counted, wants: Wants::Counts })?;
        let changing = self.changing(&suitable, &first, &mut advice);
        let (mut effective, pointless) = effective(candidates, &first.report.outcomes[1..], &mut advice);
        if self.args.remedies.is_empty() && self.linux.enabled.as_deref() == Some("madvise") {
            effective.extend(regions(&here, &first.report.outcomes[0]));
        }
        // Runs that do something else are compared on base pages, if the program has others.
        let mut timed = systems(&here, &effective);
        let on_base = match Figures::of(&first.report.outcomes[1]).huge > 0 && !changing.is_empty() {
            true => BASE,
            false => here.as_str(),
        };
        timed.extend((on_base != here).then(|| on_base.to_owned()));
        let wants = Wants::Times(Some(Sampling::default()));
        let report = self.again(&first, Pass { what: "with times", systems: timed, wants })?;
        let unchanged = &report.outcomes[0];
        let scale = Scale { native, hertz: self.machine.hardware.core.hertz as f64 };
        let plain = Plain::of(unchanged, &scale);
        if plain.hopeless {
            return Ok((plain, Advice::default()));
        }
        for candidate in effective {
            let (with, plain) = candidate.outcomes(&report.outcomes);
            advice.predictions.push(scale.paired(candidate.name, candidate.todo, with, plain));
        }
        for Candidate { name, todo, .. } in pointless {
            advice.predictions.push(scale.paired(name, todo, unchanged, unchanged));
        }
        let base = outcome(&report.outcomes, on_base);
        for remedy in changing {
            self.other_run(remedy, &OnBasePages { base, with: unchanged }, &scale, &mut advice)?;
        }
        Ok((plain, advice))
    }

    /// Runs the program on this computer, as it is.
    fn measured(&mut self) -> Result<Native, String> {
        remark(self.quiet, "running the program without the emulator");
        let trial = Trial {
            program: self.args.command[0].clone().into(),
            args: self.args.command[1..].to_vec(),
            client: self.args.load.clone().map(|load| TrialClient {
                ready: self.args.ready.clone(),
                load,
                figure: None,
            }),
            reach: "/proc/self/exe".into(),
            scratch: self.scratch.to_owned(),
            backing: Backing::default(),
        };
        let interruption = RefCell::new(&mut self.interruption);
        let stop = || interruption.borrow_mut().came().is_some();
        Native::measure(&trial, &stop).map_err(|error| error.to_string())
    }

    /// Returns the remedies that are for this program.
    fn suitable(&self, wanted: &[&'static Remedy], advice: &mut Advice) -> Vec<&'static Remedy> {
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
        suitable
    }

    /// Returns the remedies that leave the program as it is.
    fn candidates(&self, here: &str, suitable: &[&'static Remedy], advice: &mut Advice) -> Vec<Candidate> {
        let mut candidates = Vec::new();
        for remedy in suitable.iter().filter(|remedy| !Change::is_any(remedy)) {
            let (system, plain) = match remedy.through.is_empty() {
                true => (linux::system(&linux::under(&self.linux, remedy)), here.to_owned()),
                false => (CODE[1].to_owned(), CODE[0].to_owned()),
            };
            if system == here {
                advice.leave(remedy.name, "it changes nothing: this Linux is set so already, or lacks it");
            } else {
                candidates.push(Candidate { name: remedy.name.into(), todo: remedy.keep.into(), system, plain });
            }
        }
        candidates
    }

    /// Returns the remedies that change what the program does, and that it can have.
    fn changing(&self, suitable: &[&'static Remedy], first: &Captured, advice: &mut Advice) -> Vec<&'static Remedy> {
        let mut changing = Vec::new();
        for remedy in suitable.iter().filter(|remedy| Change::is_any(remedy)) {
            match remedy.library.filter(|library| !first.maps(library)) {
                None => changing.push(*remedy),
                Some(library) => advice.leave(remedy.name, format!("the program does not map {library}")),
            }
        }
        changing
    }

    /// Predicts a remedy that changes what the program does, from a capture with it. `plain` is the program without it. The
    /// first sample is as dense as the one that gave `plain`, because the programs are much alike.
    fn other_run(
        &mut self,
        remedy: &Remedy,
        plain: &OnBasePages,
        scale: &Scale,
        advice: &mut Advice,
    ) -> Result<(), String> {
        let sample = plain.with.sample.as_ref().map(|sample| Sampling { every: sample.every, ..Sampling::default() });
        let system = linux::system(&linux::under(&self.linux, remedy));
        let systems = vec![BASE.to_owned(), system];
        let captured =
            match self.capture(Change::of(remedy), Pass { what: remedy.name, systems, wants: Wants::Times(sample) }) {
                Ok(captured) => captured,
                Err(why) if self.interruption.came().is_some() => return Err(why),
                // The program runs without the remedy, so the remedy is what fails.
                Err(why) => {
                    advice.leave(remedy.name, why);
                    return Ok(());
                }
            };
        let [base, with] = [0, 1].map(|at| &captured.report.outcomes[at]);
        let (without, figures) = (Figures::of(plain.with), Figures::of(with));
        if figures.huge <= without.huge {
            advice.leave(remedy.name, "the program got no more huge pages with it");
            return Ok(());
        }
        advice.predictions.push(Prediction {
            name: remedy.name.into(),
            todo: remedy.keep.into(),
            speedup: scale.other_run(&OnBasePages { base, with }, plain),
            figures,
            plain: without,
        });
        Ok(())
    }

    /// Captures the program and simulates it.
    fn capture(&mut self, change: Change, pass: Pass<'_>) -> Result<Captured, String> {
        remark(self.quiet, format!("capturing the program: {}", pass.what));
        let experiment = self.experiment(pass)?;
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
            output: self.scratch.join("client"),
        });
        let mut progress = Progress::new(true, self.quiet);
        let show = |status: reach_lab::Status| progress.show(status.references, status.progress);
        let captured = captured::simulate(options, client.as_ref(), &experiment, &mut self.interruption, show);
        progress.end();
        captured
    }

    /// Simulates the first run again. Captures the program anew if that run was too long to be kept.
    fn again(&mut self, first: &Captured, pass: Pass<'_>) -> Result<Report, String> {
        let Some(run) = &first.run else {
            return Ok(self.capture(Change::default(), pass)?.report);
        };
        remark(self.quiet, format!("simulating the program again: {}", pass.what));
        let experiment = self.experiment(pass)?;
        let mut progress = Progress::new(true, self.quiet);
        let show = |status: reach_lab::Status| progress.show(status.references, status.progress);
        let report = captured::again(run, &experiment, &mut self.interruption, show);
        progress.end();
        report
    }

    /// Returns the experiment of a pass.
    fn experiment(&self, pass: Pass<'_>) -> Result<Experiment, String> {
        let resolve = |name: &String| reach_systems::resolve(name).map_err(|error| error.to_string());
        let systems = pass.systems.iter().map(resolve).collect::<Result<Vec<System>, _>>()?;
        let (timing, attribute, sample) = match pass.wants {
            Wants::Counts => (Timing::Counts, Attributed::First, None),
            Wants::Times(sample) => (Timing::Ooo, Attributed::Nothing, sample),
        };
        let conditions = Conditions { timing, ..Conditions::new(MEMORY) };
        Ok(Experiment {
            threads: threads(self.args.threads),
            precision: sample.map(|_| self.args.precision),
            sample,
            attribute,
            ..Experiment::new(vec![self.machine.clone()], systems, conditions)
        })
    }
}

/// Returns the outcome of a system that was simulated.
fn outcome<'a>(all: &'a [Outcome], system: &str) -> &'a Outcome {
    all.iter().find(|outcome| outcome.system == system).expect("it was simulated")
}

/// Returns the candidates that change anything, as far as counts tell, and those that change nothing. Explains those that have
/// nothing to work on.
fn effective(candidates: Vec<Candidate>, counted: &[Outcome], advice: &mut Advice) -> (Vec<Candidate>, Vec<Candidate>) {
    let has_huge_pages = Figures::of(&counted[0]).huge > 0;
    let (mut effective, mut pointless) = (Vec::new(), Vec::new());
    for candidate in candidates {
        let (with, plain) = candidate.outcomes(counted);
        let takes_huge_pages = Remedy::named(&candidate.name).is_some_and(Remedy::takes_huge_pages);
        if candidate.system == CODE[1] && with.code_superpages.is_empty() {
            advice.leave(candidate.name, "no file of the program has 2 MB of code at an address that allows it");
        } else if takes_huge_pages && !has_huge_pages {
            advice.leave(candidate.name, "the program has no huge pages without it");
        } else if with.total == plain.total {
            pointless.push(candidate);
        } else {
            effective.push(candidate);
        }
    }
    (effective, pointless)
}

/// Returns the mappings that pay most for translation or for page faults, which MADV_HUGEPAGE may help.
fn regions(here: &str, base: &Outcome) -> Vec<Candidate> {
    let candidate = |region: regions::Region| Candidate {
        name: format!("{MADVISE} {}", region.name),
        todo: region.todo(),
        system: format!("{here},advised={}", region.spans),
        plain: here.to_owned(),
    };
    regions::dearest(base).into_iter().map(candidate).collect()
}

/// Returns `here` and the systems of all candidates, each once.
fn systems(here: &str, candidates: &[Candidate]) -> Vec<String> {
    let mut systems = vec![here.to_owned()];
    for system in candidates.iter().flat_map(|candidate| [&candidate.plain, &candidate.system]) {
        if !systems.contains(system) {
            systems.push(system.clone());
        }
    }
    systems
}

/// Returns whether a remedy puts memory on hugetlb pages.
fn needs_hugetlb(remedy: &Remedy) -> bool {
    remedy.settings.iter().any(|(setting, _)| *setting == Setting::HugetlbOvercommit)
}
