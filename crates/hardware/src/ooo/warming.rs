//! Functional warming of an out-of-order core: TLBs, caches, prefetchers and the branch predictor see the program, in no
//! time (Wunderlich et al. 2003, SMARTS, §4.2).
//!
//! Only what depends on time is left out: the wrong path, prefetches that would be too late or too many, and the pipeline
//! itself. A detailed warm-up of some thousand references restores it.

use super::code::Code;
use super::in_flight::PendingBranch;
use super::instruction::BranchKind;
use super::prefetch::L1Miss;
use super::reference::ADDRESS_MASK;
use super::{CoreAndCaches, OooCore, OooRun};
use crate::cache::Access;
use crate::mmu::{Cursor, Mmu, StepRefs, physical};
use reach_core::{BlockId, Kind, PageTable, Ref, StopReason, VirtAddr};

impl Mmu {
    /// Warms the core of `run` with `step` from `cursor` on, until the step ends or the operating system is needed. Charges
    /// no cycles.
    ///
    /// Call [`OooCore::serialise`] before the first step, and again before the core executes instructions.
    pub fn run_warming_ooo(
        &mut self,
        step: StepRefs,
        cursor: &mut Cursor,
        table: &mut PageTable,
        run: OooRun,
    ) -> StopReason {
        self.begin_run();
        let ledger = std::mem::take(&mut self.ledger);
        let OooRun { core, code, caches } = run;
        let mut reason = StopReason::End;
        while let Some(&r) = step.refs.get(cursor.next_ref) {
            if let Err(stop) = self.warm(r, table, CoreAndCaches { core, caches }) {
                reason = stop;
                break;
            }
            if r.kind() == Kind::Fetch {
                core.warm_predictor(code, step.fetched[cursor.next_block], r);
                cursor.next_block += 1;
            }
            cursor.next_ref += 1;
        }
        self.ledger = ledger;
        // No core waits for them.
        self.entries_from_memory = 0;
        reason
    }

    /// Translates a reference, and sends it through the caches and prefetchers.
    #[inline(always)]
    fn warm(
        &mut self,
        r: Ref,
        table: &mut PageTable,
        CoreAndCaches { core, caches }: CoreAndCaches,
    ) -> Result<(), StopReason> {
        let kind = r.kind();
        let (access, length) = match kind {
            Kind::Fetch => (Access::Fetch, r.len().max(1)),
            Kind::Load => (Access::Load, r.size()),
            Kind::Store => (Access::Store, r.size()),
        };
        let shift = caches.line_shift(access);
        let (mut at, end) = (r.addr().0, r.addr().0 + length);
        while at < end {
            let vpn = VirtAddr(at & ADDRESS_MASK).vpn(self.base);
            let pte = match self.same_page.get(kind, vpn) {
                Some(pte) => pte,
                None => {
                    let pte = self.reference(kind, vpn, table, Some(caches))?;
                    self.same_page.set(kind, vpn, pte);
                    pte
                }
            };
            let page_end = end.min((vpn + 1).addr(self.base).0.max(at + 1));
            if kind == Kind::Fetch && !caches.models_fetches() {
                at = page_end;
            }
            while at < page_end {
                let address = physical(pte, at, self.base);
                let (_, depth) = caches.access(access, address);
                if kind != Kind::Fetch && depth > 0 && core.prefetches() {
                    let miss = L1Miss { page: vpn, at: address, from: None, missed_l2: depth > 1 };
                    self.prefetch_after_miss(miss, table, CoreAndCaches { core, caches });
                }
                at = page_end.min(((at >> shift) + 1) << shift);
            }
        }
        Ok(())
    }
}

impl OooCore {
    /// Trains the predictor: the program fetches `block` by `fetch`, after the branch that ends the block before it.
    #[inline(always)]
    fn warm_predictor(&mut self, code: &Code, block: BlockId, fetch: Ref) {
        let (start, end) = (fetch.addr().0, fetch.addr().0 + fetch.len().max(1));
        if let Some(PendingBranch { branch, start: from, end, .. }) = self.branch.take() {
            self.predictor.learn(branch, from, end, start);
        }
        let branch = code.of(block).last().map_or(BranchKind::None, |last| last.branch);
        self.branch = Some(PendingBranch { branch, block, start, end, resolved: 0 });
    }
}

#[cfg(test)]
mod tests {
    use super::super::reference::ByteRange;
    use super::*;
    use crate::config;
    use reach_core::{Block, BlockTable, Random};

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

        let mut warmed = core();
        for &block in first {
            warmed.warm_predictor(&code, BlockId(block), Ref::fetch(VirtAddr(u64::from(block) * 2), 2));
        }
        let after_warming = execute(&mut warmed, &code, second);
        assert!(after_warming.abs_diff(expected) <= 1, "{after_warming} for {expected}");
        let cold = execute(&mut core(), &code, second);
        assert!(cold > expected + 20, "{cold} for {expected}");
    }
}
