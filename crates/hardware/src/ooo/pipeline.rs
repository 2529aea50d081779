//! An instruction's way through the pipeline: fetch, dispatch, execution, retirement.

use super::OooCore;
use super::attribution::RetirementGap;
use super::code::Code;
use super::in_flight::{CurrentBlock, DataTimes, DynInst, PendingBranch};
use super::instruction::{BranchKind, Inst, OpClass};
use super::ports::Port;
use super::schedulers::Starts;
use crate::config;

impl OooCore {
    /// Executes the instructions of the current block before number `index`, and dispatches that one.
    ///
    /// `insts` are the block's instructions ([`OooCore::instructions`]). An `index` beyond the last means the last.
    /// Without a block, an [unknown](Inst::UNKNOWN) instruction is dispatched.
    #[inline]
    pub fn advance_to(&mut self, insts: &[Inst], index: u32) {
        let Some(block) = self.block else {
            if self.inst.is_none() {
                self.open(Inst::UNKNOWN);
            }
            return;
        };
        let index = index.min(insts.len() as u32 - 1);
        // The dispatched instruction is number `next - 1`.
        if self.inst.is_some() && block.next > index {
            return;
        }
        self.close();
        // `next` is beyond `index` if something between the references ended the instruction.
        let next = block.next;
        if next <= index {
            self.execute_all(&insts[next as usize..index as usize]);
            self.open(insts[index as usize]);
        } else {
            self.open(Inst::UNKNOWN);
        }
        if let Some(block) = &mut self.block {
            block.next = next.max(index + 1);
        }
    }

    /// Returns the instructions of the current block. Empty without a block.
    pub fn instructions<'a>(&self, code: &'a Code) -> &'a [Inst] {
        self.block.as_ref().map_or(&[], |current| code.of(current.block))
    }

    /// Executes the rest of the current block, whose instructions are `insts`. Its branch stays unresolved.
    #[inline]
    pub fn end_block(&mut self, insts: &[Inst]) {
        self.close();
        let Some(current) = self.block.take() else { return };
        self.execute_all(&insts[current.next as usize..]);
        let branch = insts.last().map_or(BranchKind::None, |last| last.branch);
        let CurrentBlock { block, start, end, .. } = current;
        self.branch = Some(PendingBranch { branch, block, start, end, resolved: self.completed });
    }

    /// Executes instructions that make no references, from fetch to retirement.
    #[inline(always)]
    fn execute_all(&mut self, insts: &[Inst]) {
        // Of every two references that follow one another, one has no instruction in between.
        if !insts.is_empty() {
            self.execute_some(insts);
        }
    }

    fn execute_some(&mut self, insts: &[Inst]) {
        for &inst in insts {
            let inst = self.dispatch(inst);
            self.retire(&inst);
        }
    }

    /// Dispatches an instruction whose references come next.
    #[inline]
    fn open(&mut self, inst: Inst) {
        let inst = self.dispatch(inst);
        self.inst = Some(match self.spare.take() {
            Some(mut place) => {
                *place = inst;
                place
            }
            None => Box::new(inst),
        });
    }

    /// Retires the instruction whose references have come, if there is one.
    #[inline]
    pub(super) fn close(&mut self) {
        if let Some(inst) = self.inst.take() {
            self.retire(&inst);
            self.spare = Some(inst);
        }
    }

    /// Fetches and dispatches an instruction.
    #[inline(always)]
    fn dispatch(&mut self, inst: Inst) -> DynInst {
        let width = self.config.width;
        let fetched = self.fetch_stage.pass(self.fetch_queue.next_free(), width);
        if self.fetch_stalls.is_some() || self.inst_stalls.is_some() {
            self.inst_stalls = self.fetch_stalls.take();
        }
        let ready = self.entries_free(&inst, fetched + u64::from(self.config.front_end_depth));
        let dispatched = self.dispatch_stage.pass(ready, width);
        self.fetch_queue.push(dispatched);
        DynInst {
            inst,
            fetched,
            dispatchable: dispatched,
            dispatched,
            address_ready: self.registers.all_known(inst.address, dispatched + 1),
            loaded: 0,
            loads: 0,
            stores: 0,
            recorded: [0; 2],
            starts: Starts::default(),
            critical: DataTimes::default(),
        }
    }

    /// Returns the first cycle, at or after `decoded`, in which all is free that `inst` takes at dispatch, whatever references
    /// it makes.
    #[inline(always)]
    pub(super) fn entries_free(&mut self, inst: &Inst, decoded: u64) -> u64 {
        let earliest = decoded
            .max(self.dispatch_stage.cycle)
            .max(self.rob.next_free())
            .max(self.registers_in_flight.free_for(inst));
        self.schedulers.free_for(inst, earliest)
    }

    /// Executes and retires an instruction whose references are done.
    #[inline(always)]
    fn retire(&mut self, dispatched: &DynInst) {
        let inst = dispatched.inst;
        let ready = self.registers.all_known(inst.sources, dispatched.loaded.max(dispatched.address_ready));
        let mut starts = dispatched.starts;
        let result = match self.execution_latency(inst.class, dispatched.loads + dispatched.stores > 0) {
            0 => ready,
            latency => {
                starts.operation = self.ports.book(self.request_floor(), ready, Port::Any);
                starts.operation + latency
            }
        };
        if dispatched.stores > 0 {
            starts.store = starts.store.max(result);
        }
        self.schedulers.hold(&inst, dispatched.dispatched, starts);
        self.registers.set(inst.targets, result);
        let mut completed = result;
        if dispatched.stores > 0 {
            completed = self.pending_stores.iter().fold(result, |latest, store| latest.max(store.translated));
        }
        self.completed = completed;
        let executed = completed;
        // Instructions retire in order, so an earlier verification delays no later one for longer.
        let completed = executed.max(self.verified);
        let previous = self.retire_stage.cycle;
        let retired = self.retire_stage.pass(completed + 1, self.config.width);
        if retired > previous {
            let stalls = self.inst_stalls.as_ref();
            let verifies = (completed > executed).then_some(executed + 1);
            let gap = RetirementGap { inst: dispatched, stalls, completed: result, verifies, config: &self.config };
            gap.charge(previous, retired, &mut self.ledger);
        }
        self.rob.push(retired);
        self.registers_in_flight.take(&inst, retired);
        for _ in 0..dispatched.loads {
            self.load_queue.push(retired);
        }
        if dispatched.stores > 0 {
            self.write_stores(retired, result);
        }
    }

    /// Returns the cycles that an instruction of `class` takes besides its references. 0 means that it needs no port:
    /// it only moves between memory and registers.
    #[inline(always)]
    pub(super) fn execution_latency(&self, class: OpClass, has_references: bool) -> u64 {
        if class == OpClass::Move && has_references { 0 } else { self.latencies[class as usize] }
    }
}

/// Returns the cycles that an instruction of each class takes on a port.
pub(super) fn latencies(config: &config::Latencies) -> [u64; OpClass::ALL] {
    use OpClass::*;
    [Move, Simple, Multiply, Divide, Float, FloatDivide].map(|class| {
        u64::from(match class {
            Move | Simple => 1,
            Multiply => config.multiply,
            Divide => config.divide,
            Float => config.float,
            FloatDivide => config.float_divide,
        })
    })
}
