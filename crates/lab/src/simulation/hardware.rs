//! The machine side: the processor, the instructions that it executes, and what the kernel's work does to it.

use reach_core::{AuxTlbOptions, ControllerCommand, PageTable, PerformanceCounters, StopReason, Traffic};
use reach_hardware::ooo::{Aside, Code, LineStream, OooRun, Predictor, TrainedPredictor};
use reach_hardware::{Access, CacheCounters, Caches, Cursor, MemoryAccesses, Processor, StepRefs};
use reach_os::{OutOfMemory, Vm};

/// How much of the machine simulates references.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Detail {
    /// Everything.
    #[default]
    All,
    /// Functional warming of TLBs, caches, prefetchers, the branch predictor and the operating system.
    Caches,
    /// Functional warming of TLBs and the operating system; caches see nothing, not even the operating system's traffic.
    Translation,
}

/// The processor, and what it needs to execute a program.
pub(super) struct Hardware {
    /// The processor.
    pub processor: Processor,
    /// The instructions of all blocks so far; empty unless the core executes out of order, or a system reads branches.
    pub code: Code,
    /// Whether the core executes out of order.
    pub out_of_order: bool,
    /// Thousandths of a cycle per instruction, unless the core executes out of order.
    pub millicycles_per_instruction: u64,
    /// Cycles of one invalidation.
    pub invalidate: u64,
    /// Cycles that a hardware thread spends on a shootdown that another sends.
    pub interrupt: u64,
    /// The auxiliary TLB, fitted to the machine.
    pub aux_tlb: Option<AuxTlbOptions>,
    /// Whether there is a walk assist.
    pub assisted: bool,
    /// The time until which others have brought lines into the last cache.
    pub passed: u64,
    /// Whether fetches, and loads and stores, have a second level of TLB arrays.
    pub second_level: [bool; 2],
}

impl Hardware {
    /// Takes over the decoded instructions of a batch, if they are more than those known.
    pub fn learn(&mut self, code: &Code) {
        if self.code.blocks() < code.blocks() {
            self.code.clone_from(code);
        }
    }

    /// Takes over what the predictor of this kind has learned, of those in `trained`.
    pub fn adopt(&mut self, trained: &[TrainedPredictor]) {
        if let (_, Some(ooo), _) = self.processor.running()
            && let Some(predictor) = trained.iter().find(|predictor| predictor.suits(ooo))
        {
            ooo.adopt(predictor);
        }
    }

    /// Runs references of `segment` from `cursor` on, in this detail, until the kernel is needed or all are done.
    pub fn run(&mut self, segment: StepRefs, cursor: &mut Cursor, table: &mut PageTable, detail: Detail) -> StopReason {
        match self.processor.running() {
            (mmu, Some(ooo), Some(caches)) if detail != Detail::Translation => {
                let run = OooRun { core: ooo, code: &self.code, caches };
                match detail {
                    Detail::All => mmu.run_ooo(segment, cursor, table, run),
                    _ => mmu.run_warming_ooo(segment, cursor, table, run),
                }
            }
            (mmu, _, caches) if detail != Detail::All => {
                mmu.run_warming(segment, cursor, table, caches.filter(|_| detail == Detail::Caches))
            }
            (mmu, _, caches) => mmu.run(segment, cursor, table, caches),
        }
    }

    /// Lets the out-of-order core finish all instructions in flight. `ends_block`: the current block does not continue.
    pub fn serialise(&mut self, ends_block: bool) {
        if let (mmu, Some(ooo), _) = self.processor.running() {
            mmu.serialise_ooo(ooo, &self.code, ends_block);
        }
    }

    /// Lets the kernel's own code run in place of the program, with a predictor of its own if one is given. [`Hardware::resume`]
    /// takes what this returns.
    pub fn interrupt(&mut self, predictor: Option<&mut Predictor>) -> Option<Aside> {
        self.serialise(false);
        let core = self.processor.running().1?;
        predictor.into_iter().for_each(|predictor| core.exchange_predictor(predictor));
        Some(core.put_aside())
    }

    /// Lets the program go on. `predictor` is as in the call of [`Hardware::interrupt`].
    pub fn resume(&mut self, aside: Option<Aside>, predictor: Option<&mut Predictor>) {
        self.serialise(true);
        if let (Some(core), Some(aside)) = (self.processor.running().1, aside) {
            core.take_up(aside);
            predictor.into_iter().for_each(|predictor| core.exchange_predictor(predictor));
        }
    }

    /// Applies what the kernel has queued: shootdowns, commands of the memory controller, memory traffic and TLB preloads.
    /// Without `traffic_in_caches`, traffic takes its minimum time and caches do not see it.
    pub fn apply(&mut self, vm: &mut Vm, traffic_in_caches: bool) -> Result<(), OutOfMemory> {
        for shootdown in vm.drain_shootdowns() {
            self.processor.invalidate(&shootdown, self.invalidate, self.interrupt);
        }
        vm.take_commands().iter().for_each(|command| self.command(command));
        let stream = self.processor.line_stream();
        if let (mmu, _, Some(caches)) = self.processor.running() {
            for traffic in vm.drain_traffic() {
                let cycles = match stream {
                    _ if !traffic_in_caches => issue_cycles(&traffic),
                    Some(stream) => send_stream(caches, stream, &traffic),
                    None => send(caches, &traffic),
                };
                mmu.ledger.charge(traffic.label, cycles);
            }
        }
        let preloads = vm.take_preloads();
        if !preloads.is_empty() {
            let running = vm.running()?;
            let mmu = self.processor.mmu();
            preloads.iter().for_each(|&preload| mmu.preload(preload, running.table));
        }
        Ok(())
    }

    /// Executes a command of the memory controller. The kernel has charged its cycles; write-backs are buffered, as all are.
    fn command(&mut self, command: &ControllerCommand) {
        match *command {
            ControllerCommand::Flush { at, bytes } => self.processor.flush(at, bytes),
            ControllerCommand::MapShadow { shadow, real } => {
                if let Some(controller) = self.processor.caches().and_then(|caches| caches.controller.as_mut()) {
                    controller.set(shadow, real);
                }
            }
        }
    }

    /// Returns the performance counters of all hardware threads together, with `cycles` as the time.
    pub fn performance(&self, cycles: u64) -> PerformanceCounters {
        let mut all = PerformanceCounters { cycles, walks: 0, walk_cycles: 0, avoided_walks: 0 };
        for hw in 0..self.processor.hardware_threads() {
            let c = &self.processor.mmu_of(hw).counters;
            all.walks += c.walks();
            all.walk_cycles += c.walk_cycles;
            all.avoided_walks += c.aux_tlb_walks_avoided;
        }
        all
    }
}

/// Returns the least cycles that traffic of the kernel takes: one for each eight bytes.
fn issue_cycles(traffic: &Traffic) -> u64 {
    traffic.bytes.div_ceil(8)
}

/// Sends traffic of the kernel through the caches and returns its cycles on a core that executes in order: one for each eight
/// bytes, and for loads the latency of each line beyond that of the nearest cache. Stores retire into a buffer, as the
/// program's do.
fn send(caches: &mut Caches, traffic: &Traffic) -> u64 {
    let access = data_access(traffic);
    let near = caches.near_latency(access);
    let mut stalls = 0;
    caches.access_lines(access, traffic.at, traffic.bytes, |latency| {
        stalls += if traffic.write { 0 } else { u64::from(latency.saturating_sub(near)) };
    });
    issue_cycles(traffic) + stalls
}

/// Sends traffic of the kernel through the caches and returns its cycles on a core that executes out of order: one for each
/// eight bytes, or more where lines arrive more slowly. Stores wait for their lines too, because no buffer holds a whole
/// page. Loads also wait for the first line.
fn send_stream(caches: &mut Caches, stream: LineStream, traffic: &Traffic) -> u64 {
    let access = data_access(traffic);
    let near = caches.near_latency(access);
    let (mut first, mut arrivals) = (None, 0);
    caches.access_lines(access, traffic.at, traffic.bytes, |latency| {
        first = first.or(Some(u64::from(latency.saturating_sub(near))));
        if latency > near {
            arrivals += stream.interval(latency, traffic.write);
        }
    });
    let start = first.filter(|_| !traffic.write).unwrap_or(0);
    start + issue_cycles(traffic).max(arrivals)
}

/// Returns the kind of access that `traffic` makes.
fn data_access(traffic: &Traffic) -> Access {
    if traffic.write { Access::Store } else { Access::Load }
}

/// Counts of all caches and of memory, at one time or over an interval.
#[derive(Clone, Debug, Default)]
pub(super) struct MemoryCounts {
    /// Each cache of each core, those of the first core first.
    pub caches: Vec<CacheCounters>,
    /// Accesses of each core that no cache answered, by kind.
    pub accesses: Vec<[MemoryAccesses; Access::KINDS]>,
}

impl MemoryCounts {
    /// Returns the counts until now.
    pub fn of(processor: &Processor) -> MemoryCounts {
        let caches = processor.all_caches();
        MemoryCounts {
            caches: caches.iter().flat_map(|caches| caches.counters().map(|(_, counters)| counters)).collect(),
            accesses: caches.iter().map(|caches| caches.memory_accesses).collect(),
        }
    }

    /// Returns what was counted since `earlier`; all of it if `earlier` is empty.
    pub fn since(mut self, earlier: &MemoryCounts) -> MemoryCounts {
        self.caches.iter_mut().zip(&earlier.caches).for_each(|(now, earlier)| *now = now.since(earlier));
        let accesses = self.accesses.iter_mut().flatten().zip(earlier.accesses.iter().flatten());
        accesses.for_each(|(now, earlier)| *now = now.since(earlier));
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::resolve;
    use reach_core::{Label, PhysAddr};

    /// Returns the cycles of zeroing, or reading, one page of Zen 4: first from memory, then from the nearest cache.
    fn cycles(write: bool, in_order: bool) -> [u64; 2] {
        let machine = resolve("zen4").unwrap();
        let stream = LineStream::of(&machine.ooo.unwrap().core);
        let mut caches = Caches::new(&machine.hardware, 0);
        let traffic = Traffic { at: PhysAddr(0x10000), bytes: 4096, write, label: Label::Fault };
        [(); 2]
            .map(|()| if in_order { send(&mut caches, &traffic) } else { send_stream(&mut caches, stream, &traffic) })
    }

    #[test]
    fn pages_stream_from_memory_as_fast_as_misses_overlap() {
        // 50 cycles and 65 ns at 4.5 GHz are 343 cycles; 24 lines are in flight, so one arrives each 15 cycles.
        assert_eq!(cycles(true, false), [64 * 15, 512]);
        assert_eq!(cycles(false, false), [339 + 64 * 15, 512]);
        // In order, a load waits for each line, and a store for none.
        assert_eq!(cycles(true, true), [512, 512]);
        assert_eq!(cycles(false, true), [512 + 64 * 339, 512]);
    }
}
