//! What `reach try` runs: the program as it is, and with the remedies that take effect.

use super::{Left, Side};
use reach_live::fragmented::{Broken, Fragmented};
use reach_live::remedy::Remedy;
use reach_live::settings::Guarded;
use reach_live::trial::{Outcome, Trial, TrialError};
use reach_live::watch::Watched;
use std::io::ErrorKind;
use std::process::Command;

/// Returns the command that runs a helper process of this one.
pub fn helper(name: &str) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.args(["generate", name]);
    command
}

/// Runs a program, in the state of this computer that the run needs.
pub struct Runner<'a> {
    pub trial: &'a Trial,
    /// The kernel's settings, if they may be changed.
    pub guarded: Option<Guarded>,
    /// Memory that is broken up, if it is.
    pub fragmented: Option<Fragmented>,
    /// Whether the user wants the end.
    pub stop: &'a dyn Fn() -> bool,
}

impl Runner<'_> {
    /// Runs the program once. Memory that is to be broken up is made so again before; otherwise it is not waited for.
    fn run(&mut self, remedy: Side, watched: bool) -> Result<(Outcome, Watched), TrialError> {
        match &mut self.fragmented {
            Some(fragmented) => drop(renew(fragmented, self.stop)?),
            None => self.trial.backing.back(),
        }
        self.trial.run(remedy, watched, self.guarded.as_mut(), self.stop)
    }

    /// Runs the program once, for its numbers.
    pub fn measure(&mut self, remedy: Side) -> Result<Outcome, TrialError> {
        self.run(remedy, false).map(|(outcome, _)| outcome)
    }

    /// Runs the program once, for what the kernel shows of it.
    fn watch(&mut self, remedy: Side) -> Result<Watched, TrialError> {
        self.run(remedy, true).map(|(_, seen)| seen)
    }

    /// Breaks up the free memory, up to the end of this value.
    pub fn break_up(&mut self) -> Result<Broken, TrialError> {
        let started = Fragmented::start(helper("fragmenter")).map_err(TrialError::Memory)?;
        renew(self.fragmented.insert(started), self.stop)
    }
}

fn renew(fragmented: &mut Fragmented, stop: &dyn Fn() -> bool) -> Result<Broken, TrialError> {
    fragmented.renew(stop).map_err(TrialError::Memory)?.ok_or(TrialError::Interrupted)
}

/// The sides that are measured, and the remedies that are not.
pub struct Plan {
    /// The program as it is, again, and with the remedies that took effect; with what the kernel showed of each.
    pub sides: Vec<(Side, Watched)>,
    pub left: Vec<Left>,
}

impl Plan {
    /// Runs the program as it is and with each remedy that may do something, and looks which of them the kernel shows to have
    /// taken effect.
    pub fn new(wanted: &[&'static Remedy], change_system: bool, runner: &mut Runner) -> Result<Plan, TrialError> {
        let plain = runner.watch(None)?;
        let mut plan = Plan { sides: vec![(None, plain.clone()), (None, plain.clone())], left: Vec::new() };
        for &remedy in wanted {
            let pointless = match remedy.settings.is_empty() || change_system {
                true => remedy.why_not_for(&runner.trial.program).or_else(|| remedy.why_pointless(&plain)),
                false => Some("it changes settings of the kernel for all programs; --change-system allows that".into()),
            };
            if let Some(why) = pointless {
                plan.left.push(Left { remedy, why });
                continue;
            }
            let seen = plan.watch(remedy, runner)?;
            match seen.as_ref().and_then(|seen| remedy.why_no_effect(&plain, seen)) {
                Some(why) => plan.left.push(Left { remedy, why: why.into() }),
                None => plan.sides.extend(seen.map(|seen| (Some(remedy), seen))),
            }
        }
        Ok(plan)
    }

    /// Looks at the same sides again, in another state of memory. That a remedy has no effect there is a result.
    pub fn again(sides: &[(Side, Watched)], runner: &mut Runner) -> Result<Plan, TrialError> {
        let plain = runner.watch(None)?;
        let mut plan = Plan { sides: vec![(None, plain.clone()), (None, plain)], left: Vec::new() };
        for remedy in sides.iter().filter_map(|(side, _)| *side) {
            let seen = plan.watch(remedy, runner)?;
            plan.sides.extend(seen.map(|seen| (Some(remedy), seen)));
        }
        Ok(plan)
    }

    /// Runs the program with a remedy. If it fails, the remedy is left out: the program runs without it, so the remedy is what
    /// fails.
    fn watch(&mut self, remedy: &'static Remedy, runner: &mut Runner) -> Result<Option<Watched>, TrialError> {
        match runner.watch(Some(remedy)) {
            Ok(seen) => Ok(Some(seen)),
            Err(error @ (TrialError::Interrupted | TrialError::Settings(..) | TrialError::Memory(_))) => Err(error),
            Err(TrialError::Io(name, why)) if why.kind() == ErrorKind::StorageFull => Err(TrialError::Io(name, why)),
            Err(error) => {
                self.left.push(Left { remedy, why: error.to_string() });
                Ok(None)
            }
        }
    }
}
