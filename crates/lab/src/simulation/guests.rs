//! Several guests on one host: each has an operating system of its own, and they take turns on the processor.
//!
//! A simulation's [`Kernel`] is that of the guest that runs; those of the others wait here. The clock is one for all, so the
//! operating system that goes on takes over the ledger of the one that stops. Programs say by [`Mark::Guest`](reach_core::Mark) which
//! guest they are in, and have address spaces of their own whatever the guest, as virtual and process tags give them.

use super::kernel::Kernel;
use super::{Simulation, SimulationError};
use crate::conditions::Conditions;
use crate::machine;
use reach_core::{Event, PageShift, Pfn};
use reach_os::{CodeCensus, Counters, OutOfMemory};
use std::collections::BTreeMap;

/// The guests that wait.
pub(super) struct Guests {
    /// The kernels by number of the guest; `None` for the guest that runs.
    waiting: Vec<Option<Kernel>>,
    /// The number of the guest that runs.
    pub current: u32,
}

impl Guests {
    /// Boots `system` in all guests but the first, which runs. Free memory is fragmented in each of them in its own way. The error
    /// says what does not fit.
    pub fn boot(
        machine: &machine::Resolved,
        system: &reach_systems::Resolved,
        conditions: &Conditions,
    ) -> Result<Guests, String> {
        let boot = |guest: u32| {
            // The host's is the next seed after the first guest's.
            let fragmentation = conditions.fragmentation.as_ref().map(|free| free.of_another(1 + u64::from(guest)));
            Kernel::boot(machine, system, &Conditions { fragmentation, ..conditions.clone() }).map(Some)
        };
        let others = (1..conditions.guests).map(boot);
        Ok(Guests { waiting: std::iter::once(Ok(None)).chain(others).collect::<Result<_, _>>()?, current: 0 })
    }

    /// Returns how many there are, with the one that runs.
    pub fn count(&self) -> u32 {
        self.waiting.len() as u32
    }

    /// Tells guest number `number`, which waits, of the host's superpages.
    pub fn tell(&mut self, number: u32, superpages: &[(Pfn, PageShift)]) -> Result<(), OutOfMemory> {
        let Some(Some(Kernel { system, vm, .. })) = self.waiting.get_mut(number as usize) else { return Ok(()) };
        system.host_superpages(superpages, vm)
    }

    /// Tells those that wait of a file. All of them read the same files, each into a page cache of its own.
    fn learn(&mut self, file: &Event) -> Result<(), OutOfMemory> {
        let mut waiting = self.waiting.iter_mut().flatten();
        waiting.try_for_each(|Kernel { system, vm, .. }| system.event(file, vm))
    }
}

/// Refuses hardware of a system that finds things by their places in memory, which several guests have in common.
pub(super) fn check(kernel: &Kernel) -> Result<(), String> {
    let Kernel { system, vm, .. } = kernel;
    if system.walk_assist(vm).is_some() || system.back_side(vm).is_some() || system.controller(vm).is_some() {
        return Err("its hardware is not modelled for several guests; leave out --guests".into());
    }
    Ok(())
}

impl Simulation {
    /// Returns the kernels of all guests by number; the only one outside guests.
    pub(super) fn kernels(&self) -> impl Iterator<Item = &Kernel> {
        let waiting = self.guests.as_ref().map_or(&[][..], |guests| &guests.waiting[..]);
        let alone = waiting.is_empty().then_some(&self.kernel);
        waiting.iter().map(move |kernel| kernel.as_ref().unwrap_or(&self.kernel)).chain(alone)
    }

    /// Lets guest number `number` go on, if there are several.
    pub(super) fn enter_guest(&mut self, number: u32) -> Result<(), SimulationError> {
        let Some(guests) = &mut self.guests else { return Ok(()) };
        if number == guests.current {
            return Ok(());
        }
        let count = guests.count();
        let Some(next) = guests.waiting.get_mut(number as usize) else {
            return Err(self.names.refusal(format!(
                "the program has a part in guest {}, and there are {count} guests; give --guests {} or more",
                number + 1,
                number + 1
            )));
        };
        let next = next.take().expect("the guest that runs is another");
        self.hardware.serialise(true);
        let mut last = std::mem::replace(&mut self.kernel, next);
        last.vm.hand_ledger_to(&mut self.kernel.vm);
        guests.waiting[guests.current as usize] = Some(last);
        guests.current = number;
        self.hardware.processor.enter_guest(number);
        self.hardware.processor.mmu().switch(self.kernel.vm.current());
        self.switch_host(number)
    }

    /// Tells the guests that wait of a file.
    pub(super) fn share_file(&mut self, event: &Event) -> Result<(), SimulationError> {
        let Some(guests) = self.guests.as_mut().filter(|_| matches!(event, Event::File { .. })) else { return Ok(()) };
        guests.learn(event).map_err(|source| self.names.out_of_memory(source))
    }

    /// Returns the operating system's counts, of all guests together.
    pub(super) fn os_counters(&self) -> Counters {
        let mut kernels = self.kernels();
        let mut all = kernels.next().expect("there is one kernel at least").vm.counters().clone();
        kernels.for_each(|kernel| all.absorb(kernel.vm.counters()));
        all
    }

    /// Notes the state of memory, that of all guests together.
    pub(super) fn note_memory(&mut self) {
        if self.guests.is_none() {
            self.over_time.tick(self.kernel.vm.counters());
        } else {
            let all = self.os_counters();
            self.over_time.tick(&all);
        }
    }

    /// Returns code superpages by file, of all guests together.
    pub(super) fn code_superpages(&self) -> Vec<(String, u64)> {
        if self.guests.is_none() {
            return self.kernel.vm.code_superpages();
        }
        let mut files: BTreeMap<String, u64> = BTreeMap::new();
        let all = self.kernels().flat_map(|kernel| kernel.vm.code_superpages());
        all.for_each(|(path, superpages)| *files.entry(path).or_default() += superpages);
        files.into_iter().collect()
    }

    /// Returns the code that was mapped, in all guests together, where the system has a rule for code.
    pub(super) fn code_census(&self) -> Option<CodeCensus> {
        let merge = |mut all: CodeCensus, other: CodeCensus| {
            all.executable = all.executable.max(other.executable);
            all.libraries.extend(other.libraries);
            all.libraries.sort_unstable();
            all.clusters.extend(other.clusters);
            all.clusters.sort_unstable();
            all.promoted += other.promoted;
            all.written = all.written.max(other.written);
            all
        };
        self.kernels().filter_map(|kernel| kernel.vm.code_census()).reduce(merge)
    }
}
