//! An instruction's way through the core: its fetch, its entry into the window, its execution and its retirement.

use super::attribution::Gap;
use super::ports::Port;
use super::{Branch, Class, Code, Critical, Flight, Inst, Left, OooCore, Running};
use crate::config;

impl OooCore {
    /// Takes the instructions before number `index` of the block under way that have not been taken, and begins that one.
    /// Numbers beyond the last mean the last; without a block, something of which nothing is known. `insts`: those of the
    /// block ([`OooCore::instructions`]).
    #[inline]
    pub fn advance(&mut self, insts: &[Inst], index: u32) {
        let Some(running) = self.block else {
            if self.flight.is_none() {
                self.begin(Inst::UNKNOWN);
            }
            return;
        };
        let index = index.min(insts.len() as u32 - 1);
        // What is under way is number `next - 1`.
        if self.flight.is_some() && running.next > index {
            return;
        }
        self.end();
        // It is behind `index` where the one under way was ended by what came between.
        let next = running.next;
        if next <= index {
            self.pass(&insts[next as usize..index as usize]);
            self.begin(insts[index as usize]);
        } else {
            self.begin(Inst::UNKNOWN);
        }
        if let Some(running) = &mut self.block {
            running.next = next.max(index + 1);
        }
    }

    /// The instructions of the block under way; none without one.
    pub fn instructions<'a>(&self, code: &'a Code) -> &'a [Inst] {
        self.block.as_ref().map_or(&[], |running| code.of(running.block))
    }

    /// Takes what is left of the block under way, whose instructions are `insts`.
    #[inline]
    pub fn end_block(&mut self, insts: &[Inst]) {
        self.end();
        let Some(running) = self.block.take() else { return };
        self.pass(&insts[running.next as usize..]);
        let branch = insts.last().map_or(Branch::None, |last| last.branch);
        let Running { block, start, end, .. } = running;
        self.branch = Some(Left { branch, block, start, end, result: self.completed });
    }

    /// Takes instructions that refer to nothing, from their fetch to their retirement. They are never kept under way.
    fn pass(&mut self, insts: &[Inst]) {
        for &inst in insts {
            let flight = self.enter(inst);
            self.leave(flight);
        }
    }

    /// Begins an instruction: it is under way, for its references to come.
    #[inline]
    fn begin(&mut self, inst: Inst) {
        self.flight = Some(self.enter(inst));
    }

    /// Completes and retires the instruction under way, if there is one.
    #[inline]
    fn end(&mut self) {
        if let Some(flight) = self.flight.take() {
            self.leave(flight);
        }
    }

    /// Fetches an instruction and lets it enter the window.
    #[inline(always)]
    fn enter(&mut self, inst: Inst) -> Flight {
        let width = self.config.width;
        let fetched = self.fetch.take(self.queue.oldest(), width);
        let front = std::mem::take(&mut self.front);
        let could_enter = self.rob.oldest().max(fetched + u64::from(self.config.front_end_depth));
        let entered = self.entry.take(could_enter, width);
        self.queue.push(entered);
        let [a, b] = inst.address.map(|register| self.registers[usize::from(register)]);
        Flight {
            inst,
            fetched,
            could_enter: entered,
            entered,
            address: a.max(b).max(entered + 1),
            loaded: 0,
            loads: 0,
            stores: 0,
            noted: [0; 2],
            critical: Critical::default(),
            front,
        }
    }

    /// Completes and retires an instruction whose references are done.
    #[inline(always)]
    fn leave(&mut self, flight: Flight) {
        let inst = flight.inst;
        let sources = inst.sources.map(|register| self.registers[usize::from(register)]);
        let known = sources.into_iter().fold(flight.loaded.max(flight.address), u64::max);
        let result = match self.takes(inst.class, flight.loads + flight.stores > 0) {
            0 => known,
            takes => self.calendar.take(self.base(), known, Port::Any) + takes,
        };
        for target in inst.targets {
            self.registers[usize::from(target)] = result;
        }
        let mut complete = result;
        if flight.stores > 0 {
            complete = self.pending.iter().fold(result, |latest, store| latest.max(store.translated));
        }
        self.completed = complete;
        let before = self.retire.cycle;
        let retired = self.retire.take(complete + 1, self.config.width);
        if retired > before {
            Gap { flight: &flight, complete: result, config: &self.config }.charge(before, retired, &mut self.ledger);
        }
        self.rob.push(retired);
        for _ in 0..flight.loads {
            self.loads.push(retired);
        }
        if flight.stores > 0 {
            self.write(retired, result);
        }
    }

    /// Cycles that an instruction of `class` takes beside its loads; 0 where it needs no port: what only moves between memory
    /// and registers.
    #[inline(always)]
    pub(super) fn takes(&self, class: Class, touches_memory: bool) -> u64 {
        if class == Class::Move && touches_memory { 0 } else { self.latencies[class as usize] }
    }
}

/// What an instruction of each class takes that does not only move between memory and registers.
pub(super) fn latencies(of: &config::Latencies) -> [u64; Class::ALL] {
    [Class::Move, Class::Simple, Class::Multiply, Class::Divide, Class::Float, Class::FloatDivide].map(|class| {
        u64::from(match class {
            Class::Move | Class::Simple => 1,
            Class::Multiply => of.multiply,
            Class::Divide => of.divide,
            Class::Float => of.float,
            Class::FloatDivide => of.float_divide,
        })
    })
}
