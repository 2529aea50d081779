//! Functional warming of the branch predictor.
//!
//! A predictor learns from the branches of the program alone, in the program's order: the operating system, TLBs and caches
//! change when a branch is resolved, and not what is learned. So between measured intervals one predictor learns for all
//! systems, and the core of each takes a copy where simulation in detail begins.

use super::code::Code;
use super::instruction::BranchKind;
use super::predictor::Predictor;
use super::{OooCore, config};
use reach_core::{BlockId, Kind, Ref};

/// Trains a predictor with the program's branches.
#[derive(Clone, Debug)]
pub struct BranchTrainer {
    config: config::Predictor,
    predictor: Predictor,
    /// The branch at the end of the last block, with the first byte of that block and the byte after it.
    branch: Option<(BranchKind, u64, u64)>,
}

impl BranchTrainer {
    /// Creates a trainer of an untrained predictor.
    pub fn new(config: config::Predictor) -> BranchTrainer {
        BranchTrainer { predictor: Predictor::new(&config), config, branch: None }
    }

    /// Trains with a run of the program: all its fetches, and their `blocks`.
    ///
    /// # Panics
    /// When there are fewer blocks than fetches, or a block has not been decoded.
    pub fn run(&mut self, code: &Code, refs: &[Ref], mut blocks: &[BlockId]) {
        for &fetch in refs.iter().filter(|r| r.kind() == Kind::Fetch) {
            let (block, rest) = blocks.split_first().expect("a block for each fetch");
            blocks = rest;
            self.fetch(code, *block, fetch);
        }
    }

    /// The program fetches `block` by `fetch`, after the branch that ends the block before it.
    #[inline(always)]
    fn fetch(&mut self, code: &Code, block: BlockId, fetch: Ref) {
        let (start, end) = (fetch.addr().0, fetch.addr().0 + fetch.len().max(1));
        if let Some((branch, from, end)) = self.branch {
            self.predictor.learn(branch, from, end, start);
        }
        self.branch = Some((code.last_branch(block), start, end));
    }

    /// Notes that the operating system interrupts the program: it does not continue where the last branch led.
    pub fn interrupt(&mut self) {
        self.branch = None;
    }

    /// Returns the predictor as it is now.
    pub fn trained(&self) -> TrainedPredictor {
        TrainedPredictor { config: self.config, predictor: self.predictor.clone() }
    }
}

/// A trained predictor, for all cores with predictors of its kind.
#[derive(Clone, Debug)]
pub struct TrainedPredictor {
    config: config::Predictor,
    predictor: Predictor,
}

impl TrainedPredictor {
    /// Returns whether `core` has a predictor of this kind.
    pub fn suits(&self, core: &OooCore) -> bool {
        self.config == core.config.predictor
    }
}

impl OooCore {
    /// Returns the kind of predictor that this core has.
    pub fn predictor_config(&self) -> config::Predictor {
        self.config.predictor
    }

    /// Replaces what the predictor has learned.
    ///
    /// # Panics
    /// When the predictor is of another kind.
    pub fn adopt(&mut self, trained: &TrainedPredictor) {
        assert!(trained.suits(self), "a trained predictor of another kind");
        self.predictor.copy_from(&trained.predictor);
    }

    /// Goes on with another predictor, and puts the present one in its place.
    pub fn exchange_predictor(&mut self, other: &mut Predictor) {
        std::mem::swap(&mut self.predictor, other);
    }
}

#[cfg(test)]
mod tests {
    use super::super::reference::ByteRange;
    use super::*;
    use reach_core::{Block, BlockTable, Random, VirtAddr};

    fn core() -> OooCore {
        let latencies = config::Latencies { multiply: 3, divide: 26, float: 4, float_divide: 11 };
        let predictor = config::Predictor { entries: 4096, history: 100, return_stack: 16 };
        let prefetch = config::Prefetch {
            streams: 0,
            distance: 0,
            degree: 0,
            adjacent_line: false,
            page_end: config::PageEnd::Stop,
            max_in_flight: 0,
        };
        let config = config::OooCore {
            rob: 64,
            width: 4,
            load_ports: 2,
            store_ports: 1,
            load_queue: 32,
            store_queue: 32,
            schedulers: config::Schedulers::unified(1),
            registers: config::RegisterFiles { integer: 3, vector: 3, flags_in_integer: false },
            l1_mshrs: 8,
            l1_fill: 0,
            memory: 200,
            line_interval: 0,
            front_end_depth: 10,
            fetch_queue: 64,
            itlb_inclusion: false,
            itlb_replay: 0,
            wrong_path: false,
            latencies,
            predictor,
            prefetch,
        };
        OooCore::new(config, 1)
    }

    /// Executes `blocks` of two bytes, which follow each other in memory, and returns the mispredictions.
    fn execute(core: &mut OooCore, code: &Code, blocks: &[u32]) -> u64 {
        for &block in blocks {
            let start = u64::from(block) * 2;
            core.end_block(core.instructions(code));
            core.resolve_branch(code, start);
            core.start_block(code, BlockId(block), ByteRange { start, end: start + 2 });
        }
        core.take_statistics().mispredictions
    }

    #[test]
    fn a_warmed_predictor_predicts_as_one_that_has_executed_the_program() {
        // jnz: whether it is taken follows a pattern for most blocks, and chance for one in eight.
        let (mut table, mut code) = (BlockTable::default(), Code::default());
        for block in 0..64u64 {
            table.push(Block { pc: VirtAddr(2 * block), len: 2, instructions: 1, bytes: [0x75, 0x20].into() });
        }
        code.learn(&table);
        let (mut random, mut at) = (Random::new(3), 0u32);
        let program: Vec<u32> = (0..20_000u32)
            .map(|n| {
                let skip = if at % 8 == 0 { random.below(2) as u32 } else { u32::from((n + at) % 5 == 0) };
                at = (at + 1 + 2 * skip) % 64;
                at
            })
            .collect();
        let (first, second) = program.split_at(program.len() / 2);
        let mut whole = core();
        execute(&mut whole, &code, first);
        let expected = execute(&mut whole, &code, second);

        let mut warmed = core();
        let mut trainer = BranchTrainer::new(warmed.predictor_config());
        let fetches: Vec<Ref> = first.iter().map(|&block| Ref::fetch(VirtAddr(u64::from(block) * 2), 2)).collect();
        let blocks: Vec<BlockId> = first.iter().copied().map(BlockId).collect();
        trainer.run(&code, &fetches, &blocks);
        warmed.adopt(&trainer.trained());
        let after_warming = execute(&mut warmed, &code, second);
        // The first branch after warming is not resolved, so histories differ for a while.
        assert!(after_warming.abs_diff(expected) <= expected / 64, "{after_warming} for {expected}");
        let cold = execute(&mut core(), &code, second);
        assert!(cold > expected + 20, "{cold} for {expected}");
    }
}
