//! A bench that simulates a machine, with the out-of-order timing.
//!
//! The program stores to every place of the pattern, and then follows its chains by loads, each from the register that it
//! loads: `mov rax, [rax]`. The operating system is `base` for small pages and `hugetlb-2m` for huge ones.

use crate::bench::{Bench, BenchError};
use crate::pattern::{Page, Pattern};
use reach_core::{
    Asid, Backing, Block, BlockId, BlockTable, Chunk, Event, FileId, Kind, Label, Map, Mark, Protection, Ref, Role,
    ThreadId, VirtAddr,
};
use reach_lab::{Conditions, Preparer, Simulation, Timing, machine};
use std::sync::Arc;

const TEXT: u64 = 0x40_0000;
/// The area: its number of pages has no low bits, so that the page numbers of a pattern decide about sets.
const AREA: u64 = 0x2000_0000_0000;
const AREA_BYTES: u64 = 1 << 41;
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
const CHUNK_REFS: usize = 60_000;
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
        let mut run = Run::new(simulation, pattern.chains.len());
        // Zeroing huge pages through the caches would take nearly all of the time.
        run.mark(Mark::WarmTlbs);
        for offset in pattern.chains.iter().flatten() {
            run.step(false, std::iter::once(*offset))?;
        }
        let lap = |run: &mut Run| {
            (0..pattern.steps()).try_for_each(|i| run.step(true, pattern.chains.iter().map(|chain| chain[i])))
        };
        run.mark(Mark::Detailed);
        (0..if pattern.steps() < WARM_STEPS { 2 } else { 1 }).try_for_each(|_| lap(&mut run))?;
        run.mark(Mark::IntervalBegin);
        let laps = STEPS.div_ceil(pattern.steps());
        (0..laps).try_for_each(|_| lap(&mut run))?;
        run.mark(Mark::IntervalEnd);
        Ok(run.finish()? as f64 / (laps * pattern.steps()) as f64)
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
        AREA_BYTES
    }
}

/// Returns the machine code of `mov r, [r]` for register `r` below 16.
fn follow(r: u8) -> Vec<u8> {
    let (rex, both) = (if r < 8 { 0x48 } else { 0x4d }, (r & 7) << 3 | r & 7);
    match r & 7 {
        4 => vec![rex, 0x8b, both, 0x24], // A base of this number needs a scale and index byte.
        5 => vec![rex, 0x8b, both | 0x40, 0], // A base of this number needs a displacement.
        _ => vec![rex, 0x8b, both],
    }
}

/// A program that is being simulated.
struct Run {
    simulation: Simulation,
    preparer: Preparer,
    blocks: BlockTable,
    store: BlockId,
    loads: BlockId,
    chunk: Chunk,
}

impl Run {
    /// Starts the program on a new simulation.
    fn new(simulation: Simulation, chains: usize) -> Run {
        let mut blocks = BlockTable::default();
        let again = |bytes: &mut Vec<u8>| bytes.extend([0xeb, (-(bytes.len() as i8) - 2) as u8]); // jmp to the start
        let mut block = |pc, mut bytes: Vec<u8>, instructions| {
            again(&mut bytes);
            blocks.push(Block { pc: VirtAddr(pc), len: bytes.len() as u16, instructions, bytes: bytes.into() })
        };
        let store = block(TEXT, vec![0x48, 0x89, 0x00], 2); // mov [rax], rax
        let bytes = (0..chains as u8).flat_map(follow).collect();
        let loads = block(TEXT + 64, bytes, chains as u16 + 1);
        let file = FileId(0);
        let image = Map {
            protection: Protection::READ_EXECUTE,
            backing: Backing::File { file, offset: 0 },
            role: Role::Image,
            ..Map::anonymous(VirtAddr(TEXT), 4096)
        };
        let area = Map { no_reserve: true, ..Map::anonymous(VirtAddr(AREA), AREA_BYTES) };
        let mut chunk = Chunk::default();
        for event in [
            Event::Switch { asid: Asid(0), thread: ThreadId(0) },
            Event::File { file, path: "probe".into(), len: 4096, in_memory: false },
            Event::Map(image),
            Event::Map(area),
        ] {
            chunk.push_event(event);
        }
        Run { simulation, preparer: Preparer::new(Timing::Ooo), blocks, store, loads, chunk }
    }

    fn mark(&mut self, mark: Mark) {
        self.chunk.push_event(Event::Mark(mark));
    }

    /// Loads from these places of the area, or stores to the only one.
    fn step(&mut self, load: bool, offsets: impl Iterator<Item = u64>) -> Result<(), BenchError> {
        let (block, kind) = if load { (self.loads, Kind::Load) } else { (self.store, Kind::Store) };
        self.chunk.push_fetch(block, self.blocks.get(block));
        let place = |(i, offset)| Ref::data(kind, VirtAddr(AREA + offset), 3, i as u16);
        self.chunk.refs.extend(offsets.enumerate().map(place));
        if self.chunk.refs.len() >= CHUNK_REFS { self.take() } else { Ok(()) }
    }

    /// Simulates what was gathered.
    fn take(&mut self) -> Result<(), BenchError> {
        let batch = self.preparer.prepare(std::mem::take(&mut self.chunk), &self.blocks);
        self.simulation.take(&Arc::new(batch)).map_err(|error| BenchError::Failed(error.to_string()))
    }

    /// Ends the program, and returns its measured cycles.
    fn finish(mut self) -> Result<u64, BenchError> {
        self.take()?;
        let sample = self.simulation.finish().sample;
        let interval = sample.as_ref().and_then(|sample| sample.intervals.first());
        let interval = interval.ok_or_else(|| BenchError::Failed("nothing was measured".into()))?;
        let ledger = &interval.tally.ledger;
        Ok(ledger.total().0 - SYSTEM.iter().map(|&label| ledger.charged(label).0).sum::<u64>())
    }
}
