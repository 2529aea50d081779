//! A bench that simulates a machine, with the out-of-order timing.
//!
//! The program stores to every place of a pattern of loads, and then follows its chains by loads, each from the register that it
//! loads: `mov rax, [rax]`. It executes the instructions at the places of a pattern of fetches. The operating system is `base`
//! for small pages and `hugetlb-2m` for huge ones.

mod run;

use crate::bench::{Bench, BenchError};
use crate::pattern::{Page, Pattern};
use reach_core::{Label, Mark};
use reach_lab::{Conditions, Simulation, Timing, machine};
use run::Run;

/// Simulated memory. Frames cost nothing until they are used.
const MEMORY: u64 = 64 << 30;
/// The most pages of a pattern: beyond the reach of every TLB.
const MAX_PAGES: u64 = 8192;
/// The most pages of a pattern that measures walks.
const MOST_WALKED: u64 = 131_072;
/// Steps that are not measured, after the stores: two laps of most patterns, one of those that no TLB and no near cache holds.
const WARM_STEPS: usize = 40_000;
/// The least number of measured steps.
const STEPS: usize = 1024;
/// What the operating system does, which is no part of a step.
const SYSTEM: [Label; 4] = [Label::Fault, Label::Remap, Label::Copy, Label::Daemon];

/// A simulated machine.
pub struct Simulated {
    machine: machine::Resolved,
}

impl Simulated {
    /// Takes a machine.
    ///
    /// # Errors
    /// When it has no out-of-order core, or other base pages than of 4 KB.
    pub fn new(machine: machine::Resolved) -> Result<Simulated, BenchError> {
        if machine.ooo.is_none() {
            return Err(BenchError::Failed(format!("machine {} has no section [ooo]", machine.name)));
        }
        if u32::from(machine.hardware.layout.base.0) != Page::Small.shift() {
            return Err(BenchError::Failed(format!("machine {} has base pages of another size than 4K", machine.name)));
        }
        Ok(Simulated { machine })
    }

    fn has(&self, page: Page) -> bool {
        self.machine.hardware.sizes.iter().any(|size| u32::from(size.0) == page.shift())
    }
}

impl Bench for Simulated {
    fn cycles(&mut self, pattern: &Pattern) -> Result<f64, BenchError> {
        if !self.has(pattern.page) {
            return Err(BenchError::NoPages { page: pattern.page, why: "the machine has no such size".into() });
        }
        let failed = |error: &dyn std::fmt::Display| BenchError::Failed(error.to_string());
        let system = match pattern.page {
            Page::Small => "base",
            Page::Huge => "hugetlb-2m",
        };
        let system = reach_systems::resolve(system).map_err(|error| failed(&error))?;
        let conditions = Conditions { timing: Timing::Ooo, ..Conditions::new(MEMORY) };
        let mut simulation = Simulation::new(&self.machine, &system, &conditions).map_err(|error| failed(&error))?;
        simulation.sample().map_err(|error| failed(&error))?;
        let mut run = Run::new(simulation, pattern);
        // Zeroing huge pages through the caches would take nearly all of the time.
        run.mark(Mark::WarmTlbs);
        run.touch()?;
        run.mark(Mark::Detailed);
        (0..if pattern.steps() < WARM_STEPS { 2 } else { 1 }).try_for_each(|_| run.lap())?;
        run.mark(Mark::IntervalBegin);
        let laps = STEPS.div_ceil(pattern.steps());
        (0..laps).try_for_each(|_| run.lap())?;
        run.mark(Mark::IntervalEnd);
        let ledger = run.finish()?;
        let cycles = ledger.total().0 - SYSTEM.iter().map(|&label| ledger.charged(label).0).sum::<u64>();
        Ok(cycles as f64 / (laps * pattern.steps()) as f64)
    }

    fn max_pages(&self, page: Page) -> u64 {
        if self.has(page) { (MEMORY / page.bytes()).min(MAX_PAGES) } else { 0 }
    }

    fn megahertz(&self) -> f64 {
        self.machine.hardware.core.hertz as f64 / 1e6
    }

    fn most_walked(&self) -> u64 {
        MOST_WALKED
    }

    fn area(&self) -> u64 {
        run::AREA_BYTES
    }
}
