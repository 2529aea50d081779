//! Miss curves: counting what a TLB array would have missed at other geometries, during an ordinary simulation.

use super::{Simulation, SimulationError};
use crate::curve::{Curve, Misses};
use crate::machine;
use reach_hardware::CurveCounts;

impl Simulation {
    /// Also counts the miss curve `curve` from the start on. Call before the first step, with the machine and seed of
    /// [`Simulation::new`].
    ///
    /// # Errors
    /// When the machine has no such array, or the curve would change what it measures.
    pub fn observe(&mut self, machine: &machine::Resolved, curve: &Curve, seed: u64) -> Result<(), SimulationError> {
        let array = curve.array(&machine.hardware).map_err(|what| self.names.refusal(what))?;
        let tlb = &machine.hardware.tlbs[array];
        let independent = if self.hardware.processor.hardware_threads() > 1 {
            Err("misses decide which hardware thread runs next; use one core with one hardware thread".into())
        } else if self.hardware.out_of_order {
            Err("misses decide what an out-of-order core fetches ahead; use --timing counts or inorder".into())
        } else if self.kernel.reads_counters {
            Err("misses decide what the system does, because it reads performance counters; use another system".into())
        } else if self.passages.is_some() {
            Err("misses decide when the timer interrupts, and the kernel's own code uses the array, too; leave out --kernel".into())
        } else {
            Ok(())
        };
        let geometries = curve.geometries(tlb).map_err(|what| self.names.refusal(what))?;
        let mmu = self.hardware.processor.mmu();
        let begun = independent.and_then(|()| mmu.enable_curve(&machine.hardware, array, &geometries, seed));
        begun.map_err(|why| self.names.refusal(format!("no curve of {}: {why}", tlb.name)))?;
        self.observed = Some(tlb.clone());
        Ok(())
    }

    /// Fails if something has happened that the curve does not count exactly.
    ///
    /// # Errors
    /// [`SimulationError::Boot`] says what happened.
    pub fn check_curve(&self) -> Result<(), SimulationError> {
        match (self.curve_counts(), &self.observed) {
            (Some(Err(why)), Some(tlb)) => Err(self.names.refusal(format!("no curve of {}: {why}", tlb.name))),
            _ => Ok(()),
        }
    }

    fn curve_counts(&self) -> Option<Result<CurveCounts, String>> {
        self.hardware.processor.mmu_of(0).curve_counts()
    }

    /// Returns the miss curve, if one was requested and is exact. `references` are the program's fetches, loads and stores.
    pub(super) fn misses(&self, references: [u64; 3]) -> Option<Misses> {
        let tlb = self.observed.as_ref()?;
        let counts = self.curve_counts()?.ok()?;
        let serves = [tlb.serves.fetch, tlb.serves.load, tlb.serves.store];
        let asking = references.iter().zip(serves).filter(|(_, serves)| *serves).map(|(count, _)| count).sum();
        let wakes = self.kernels().map(|kernel| kernel.wakes).sum();
        Some(Misses::new(tlb, counts, asking, wakes))
    }
}
