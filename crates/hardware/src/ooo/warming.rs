//! Functional warming of the branch predictor: trains it with the blocks of a program, in no time (Wunderlich et al. 2003,
//! SMARTS, §4.2).

use super::OooCore;
use super::code::Code;
use super::in_flight::PendingBranch;
use super::instruction::BranchKind;
use crate::mmu::StepRefs;
use reach_core::Kind;

impl OooCore {
    /// Trains the predictor with the branches that end the blocks of `step`. The last one waits for the next step.
    ///
    /// Call [`OooCore::serialise`] before the first step, and again before the core executes instructions.
    pub fn warm_predictor(&mut self, step: StepRefs, code: &Code) {
        let fetches = step.refs[step.begin().next_ref..].iter().filter(|r| r.kind() == Kind::Fetch);
        for (r, &block) in fetches.zip(step.fetched) {
            let start = r.addr().0;
            if let Some(PendingBranch { branch, start: from, end, .. }) = self.branch.take() {
                self.predictor.learn(branch, from, end, start);
            }
            let branch = code.of(block).last().map_or(BranchKind::None, |last| last.branch);
            let end = start + r.len().max(1);
            self.branch = Some(PendingBranch { branch, block, start, end, resolved: 0 });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::reference::ByteRange;
    use super::*;
    use crate::config;
    use reach_core::{Block, BlockId, BlockTable, Chunk, Event, Random, Ref, VirtAddr};

    fn core() -> OooCore {
        let latencies = config::Latencies { multiply: 3, divide: 26, float: 4, float_divide: 11 };
        let predictor = config::Predictor { entries: 4096, history: 100, return_stack: 16 };
        let prefetch = config::Prefetch {
            streams: 0,
            distance: 0,
            degree: 0,
            adjacent_line: false,
            next_page: false,
            max_in_flight: 0,
        };
        let config = config::OooCore {
            rob: 64,
            width: 4,
            load_ports: 2,
            store_ports: 1,
            load_queue: 32,
            store_queue: 32,
            l1_mshrs: 8,
            memory: 200,
            line_interval: 0,
            itlb_walkers: 1,
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

        let mut chunk = Chunk::default();
        chunk.push_event(Event::Switch { asid: Default::default(), thread: Default::default() });
        for &block in first {
            chunk.refs.push(Ref::fetch(VirtAddr(u64::from(block) * 2), 2));
            chunk.fetched.push(BlockId(block));
        }
        chunk.fold();
        let mut warmed = core();
        warmed.warm_predictor(StepRefs::whole(&chunk), &code);
        let after_warming = execute(&mut warmed, &code, second);
        assert!(after_warming.abs_diff(expected) <= 1, "{after_warming} for {expected}");
        let cold = execute(&mut core(), &code, second);
        assert!(cold > expected + 20, "{cold} for {expected}");
    }
}
