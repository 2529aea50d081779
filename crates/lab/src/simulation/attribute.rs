//! A part of the run loop: costs of translation on their way from the processor to the attributor.

use super::{Attributor, Simulation, SimulationError};
use reach_core::{Chunk, Event, Step};

impl Simulation {
    /// Attributes costs of translation to instructions and mappings. Call before the first step.
    ///
    /// # Errors
    /// On several hardware threads, of a sample, and where the kernel's own code is simulated.
    pub fn attribute(&mut self) -> Result<(), SimulationError> {
        let why = if self.hardware.processor.hardware_threads() > 1 {
            "costs are attributed on one core with one hardware thread; leave out --cores and --smt"
        } else if self.sampling.is_some() {
            "costs are attributed of whole programs, and this is a sample; leave out --sample"
        } else if self.passages.is_some() {
            "the kernel's own code has no owner among the program's mappings; leave out --kernel"
        } else {
            self.hardware.processor.mmu().enable_cost_log();
            let base = self.kernel.vm.options().sizes[0];
            self.attributor = Some(Box::new(Attributor::new(base)));
            return Ok(());
        };
        Err(self.names.refusal(why.into()))
    }

    /// Attributes the costs of `step`, which has run.
    pub(super) fn attribute_step(&mut self, chunk: &Chunk, step: &Step) {
        if let Some(attributor) = &mut self.attributor {
            self.hardware.processor.mmu().take_costs(attributor.entries());
            attributor.attribute(chunk, step);
        }
    }

    /// Attributes the costs of what was in flight, and tells the attributor of `event`, which comes now.
    pub(super) fn attribute_event(&mut self, event: &Event) {
        self.attribute_rest();
        self.attributor.iter_mut().for_each(|attributor| attributor.notice(event));
    }

    /// Attributes the costs of what was in flight.
    pub(super) fn attribute_rest(&mut self) {
        if let Some(attributor) = &mut self.attributor {
            self.hardware.processor.mmu().take_costs(attributor.entries());
            attributor.attribute_rest();
        }
    }
}
