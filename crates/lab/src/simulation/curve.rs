//! Counting what a TLB array would have missed at other geometries, beside everything else.

use super::Simulation;
use crate::conditions::SimulationError;
use crate::curve::{Curve, Misses};
use crate::machine;
use reach_hardware::CurveCounts;

impl Simulation {
    /// From the start on, also counts what `curve` asks for. The simulation is one on `machine`, at its start, with this `seed`.
    pub fn observe(&mut self, machine: &machine::Resolved, curve: &Curve, seed: u64) -> Result<(), SimulationError> {
        let array = curve.array(&machine.hardware).map_err(|what| self.refusal(what))?;
        let tlb = &machine.hardware.tlbs[array];
        let refused = if self.processor.hardware_threads() > 1 {
            Err("which hardware thread goes on follows the clock, which depends on it; take one core with one".into())
        } else if self.out_of_order {
            Err("what the ooo fetches ahead depends on the time that it takes; take --timing counts or inorder".into())
        } else if self.reads_counters {
            Err("the system reads performance counters, which depend on it".into())
        } else {
            Ok(())
        };
        let geometries = curve.geometries(tlb).map_err(|what| self.refusal(what))?;
        let begun = refused.and_then(|()| self.processor.mmu().observe(&machine.hardware, array, &geometries, seed));
        begun.map_err(|why| self.refusal(format!("no curve of {}: {why}", tlb.name)))?;
        self.observed = Some(tlb.clone());
        Ok(())
    }

    pub(super) fn refusal(&self, what: String) -> SimulationError {
        SimulationError::Boot { machine: self.machine.clone(), system: self.system_name.clone(), what }
    }

    /// Whether something has happened by now that the curve does not count exactly.
    pub fn check_curve(&self) -> Result<(), SimulationError> {
        match (self.counted(), &self.observed) {
            (Some(Err(why)), Some(tlb)) => Err(self.refusal(format!("no curve of {}: {why}", tlb.name))),
            _ => Ok(()),
        }
    }

    fn counted(&self) -> Option<Result<CurveCounts, String>> {
        self.processor.mmu_of(0).curve_counts()
    }

    /// What was counted for the curve, where one was asked for and it is exact; `[fetches, loads, stores]` are the
    /// program's.
    pub(super) fn misses(&self, references: [u64; 3]) -> Option<Misses> {
        let tlb = self.observed.as_ref()?;
        let counts = self.counted()?.ok()?;
        let serves = [tlb.serves.fetch, tlb.serves.load, tlb.serves.store];
        let asking = references.iter().zip(serves).filter(|(_, serves)| *serves).map(|(count, _)| count).sum();
        Some(Misses::new(tlb, counts, asking, self.wakes))
    }
}
