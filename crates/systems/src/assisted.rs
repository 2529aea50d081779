//! A policy with hardware that it knows nothing of: between the last level of TLBs and the page walker, or in place of replacement policies.

use crate::base::{self, Base};
use crate::error::SystemError;
use crate::linux_thp::{self, LinuxThp};
use crate::settings::{Setting, Settings, choice};
use crate::system::System;
use reach_core::{Cycles, Event, Fault, ReplacementOptions, Vpn, WalkAssist};
use reach_os::{OutOfMemory, Populate, Vm};

/// The policy of the operating system.
pub(crate) const POLICY: Setting =
    Setting::new("policy", Policy::ACCEPTS, "base", "the operating system: base pages only, or transparent huge pages");

choice! {
    /// The policy of the operating system.
    enum Policy {
        /// Base pages.
        Base = "base",
        /// Transparent huge pages.
        LinuxThp = "linux-thp",
    }
}

/// Makes the hardware for a machine that runs such an operating system.
type Make = Box<dyn Fn(&Vm) -> Box<dyn WalkAssist> + Send>;

/// A policy with added hardware.
pub(crate) struct Assisted {
    name: &'static str,
    policy: Box<dyn System>,
    make: Option<Make>,
    replacement: Option<ReplacementOptions>,
}

/// Returns the operating system that `settings` name.
fn policy(name: &'static str, settings: &Settings) -> Box<dyn System> {
    match settings.choice(POLICY.name) {
        Policy::Base => Box::new(Base::new(name, &Settings::defaults(base::SETTINGS))),
        Policy::LinuxThp => Box::new(LinuxThp::new(&Settings::defaults(linux_thp::SETTINGS))),
    }
}

impl Assisted {
    /// Creates the system called `name` with the [`POLICY`] of `settings`, with that system's default options.
    pub(crate) fn new(
        name: &'static str,
        settings: &Settings,
        make: impl Fn(&Vm) -> Box<dyn WalkAssist> + Send + 'static,
    ) -> Assisted {
        Assisted::over(policy(name, settings), name, make)
    }

    /// Creates the system called `name` with the [`POLICY`] of `settings`, with other replacement policies than the machine's.
    pub(crate) fn replacing(name: &'static str, settings: &Settings, replacement: ReplacementOptions) -> Assisted {
        Assisted { name, policy: policy(name, settings), make: None, replacement: Some(replacement) }
    }

    /// Creates the system called `name` with another policy.
    pub(crate) fn over(
        policy: Box<dyn System>,
        name: &'static str,
        make: impl Fn(&Vm) -> Box<dyn WalkAssist> + Send + 'static,
    ) -> Assisted {
        Assisted { name, policy, make: Some(Box::new(make)), replacement: None }
    }
}

impl System for Assisted {
    fn name(&self) -> &str {
        self.name
    }

    fn boot(&mut self, vm: &mut Vm) -> Result<(), SystemError> {
        self.policy.boot(vm)
    }

    fn event(&mut self, event: &Event, vm: &mut Vm) -> Result<(), OutOfMemory> {
        self.policy.event(event, vm)
    }

    fn fault(&mut self, fault: Fault, vm: &mut Vm) -> Result<(), OutOfMemory> {
        self.policy.fault(fault, vm)
    }

    fn first_write(&mut self, vpn: Vpn, vm: &mut Vm) -> Result<(), OutOfMemory> {
        self.policy.first_write(vpn, vm)
    }

    fn tick(&mut self, now: Cycles, vm: &mut Vm) -> Result<(), OutOfMemory> {
        self.policy.tick(now, vm)
    }

    fn next_tick(&self) -> Option<Cycles> {
        self.policy.next_tick()
    }

    fn populate(&mut self, populate: &Populate, vm: &mut Vm) -> Result<(), OutOfMemory> {
        self.policy.populate(populate, vm)
    }

    fn walk_assist(&self, vm: &Vm) -> Option<Box<dyn WalkAssist>> {
        self.make.as_ref().map(|make| make(vm))
    }

    fn replacement(&self) -> Option<ReplacementOptions> {
        self.replacement
    }
}
