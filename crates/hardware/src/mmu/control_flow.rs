//! The control flow of a hardware thread, for TLB arrays that predict reuse by it (`array/reuse_predicted.rs`).
//!
//! Branches are seen where the program fetches the block behind: a history gets bits 4 to 11 of the address of the last byte of the
//! block that ended. It is that of unconditional indirect branches for indirect jumps, indirect calls and returns; that of conditional
//! ones for conditional jumps, and for blocks whose instructions are not known. Direct jumps and calls enter neither.
//!
//! The histories depend on the program alone: every reference is seen once, in order, whether or not it is looked up.

use super::{Mmu, StepRefs};
use crate::array::ControlFlow;
use crate::ooo::BranchKind;
use reach_core::{Kind, Ref};

/// The block that was fetched last.
#[derive(Clone, Copy, Debug)]
struct Fetched {
    start: u64,
    last_byte: u64,
    branch: BranchKind,
}

/// How far a hardware thread has come in a program.
#[derive(Clone, Debug, Default)]
pub struct ProgramPosition {
    /// The index of the first reference of the step that was not seen; `None` between steps.
    next: Option<usize>,
    /// The number of the step's fetches that were seen.
    fetches: usize,
    block: Option<Fetched>,
}

/// The control flow that was seen.
#[derive(Clone, Debug, Default)]
pub(super) struct Tracker {
    position: ProgramPosition,
    conditional: u64,
    indirect: u64,
}

impl Tracker {
    /// Sees the references of `step` before number `end`.
    fn see_until(&mut self, step: &StepRefs, end: usize) {
        let next = self.position.next.unwrap_or(step.start);
        // A reference that is retried was seen.
        let new = step.refs.get(next..end).unwrap_or_default();
        self.position.next = Some(next.max(end));
        for &fetch in new.iter().filter(|r| r.kind() == Kind::Fetch) {
            self.fetch(step, fetch);
        }
    }

    /// Sees a fetch, and the branch that led to it.
    fn fetch(&mut self, step: &StepRefs, fetch: Ref) {
        let branch = step.branch_of_fetch(self.position.fetches);
        let (start, last_byte) = (fetch.addr().0, fetch.addr().0 + fetch.len().max(1) - 1);
        self.position.fetches += 1;
        let Some(ended) = self.position.block.replace(Fetched { start, last_byte, branch }) else { return };
        let history = match ended.branch {
            BranchKind::Conditional => &mut self.conditional,
            BranchKind::Indirect | BranchKind::IndirectCall | BranchKind::Return => &mut self.indirect,
            BranchKind::None | BranchKind::Jump | BranchKind::Call => return,
        };
        *history = *history << 8 | ended.last_byte >> 4 & 0xff;
    }

    /// Returns the control flow before reference number `at` of `step`.
    fn before(&mut self, step: &StepRefs, at: usize) -> ControlFlow {
        self.see_until(step, at + 1);
        let start = self.position.block.map_or(0, |block| block.start);
        let instruction = match step.refs.get(at) {
            Some(r) if r.kind() != Kind::Fetch => start + u64::from(r.index()),
            _ => start,
        };
        ControlFlow { instruction, conditional: self.conditional, indirect: self.indirect }
    }

    /// Sees the rest of `step`.
    fn end_step(&mut self, step: &StepRefs) {
        self.see_until(step, step.refs.len());
        (self.position.next, self.position.fetches) = (None, 0);
    }
}

impl Mmu {
    /// Returns whether TLB arrays predict reuse by the control flow of the program. Its steps should have the program's code then
    /// ([`StepRefs::with_code`]), without which indirect branches pass for conditional ones.
    pub fn reads_control_flow(&self) -> bool {
        self.control_flow.is_some()
    }

    /// Tells the arrays the control flow before reference number `at` of `step`.
    #[inline(never)]
    pub(super) fn note_control_flow(&mut self, step: &StepRefs, at: usize) {
        if let Some(tracker) = &mut self.control_flow {
            self.tlbs.set_control_flow(tracker.before(step, at));
        }
    }

    /// Ends a step of the program, or of other code that runs after [`Mmu::interrupt_program`].
    pub fn end_control_flow(&mut self, step: StepRefs) {
        if let Some(tracker) = &mut self.control_flow {
            tracker.end_step(&step);
        }
    }

    /// Lets other code run, such as the kernel's, whose branches enter the histories. Returns where the program was.
    pub fn interrupt_program(&mut self) -> Option<ProgramPosition> {
        self.control_flow.as_mut().map(|tracker| std::mem::take(&mut tracker.position))
    }

    /// Lets the program go on.
    pub fn resume_program(&mut self, position: Option<ProgramPosition>) {
        if let (Some(tracker), Some(position)) = (&mut self.control_flow, position) {
            tracker.position = position;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ooo::Code;
    use reach_core::{Block, BlockTable, Chunk, VirtAddr};

    /// A program of three blocks: `jnz` at 0x1230, `jmp rax` at 0x2340, `jmp` at 0x3450. Their order is `order`.
    fn program(order: &[usize]) -> (Code, Chunk) {
        let (mut blocks, mut chunk, mut code) = (BlockTable::default(), Chunk::default(), Code::default());
        let of = |pc, bytes: [u8; 2]| Block { pc: VirtAddr(pc), len: 2, instructions: 1, bytes: bytes.into() };
        let ids = [(0x1230, [0x75, 0x20]), (0x2340, [0xff, 0xe0]), (0x3450, [0xeb, 0x10])]
            .map(|(pc, bytes)| blocks.push(of(pc, bytes)));
        for &number in order {
            chunk.push_fetch(ids[number], blocks.get(ids[number]));
            chunk.refs.push(Ref::load(VirtAddr(0x9000)));
        }
        chunk.fold();
        code.learn(&blocks);
        (code, chunk)
    }

    #[test]
    fn branches_enter_the_history_of_their_kind_behind_their_block() {
        let (code, chunk) = program(&[0, 1, 2, 0]);
        let step = StepRefs::whole(&chunk).with_code(&code);
        let mut tracker = Tracker::default();
        let flow = |at: usize, tracker: &mut Tracker| {
            let ControlFlow { instruction, conditional, indirect } = tracker.before(&step, at);
            (instruction, conditional, indirect)
        };
        assert_eq!(flow(1, &mut tracker), (0x1230, 0, 0));
        assert_eq!(flow(2, &mut tracker), (0x2340, 0x23, 0), "the fetch comes after the branch");
        assert_eq!(flow(5, &mut tracker), (0x3450, 0x23, 0x34), "references in between need not be looked up");
        assert_eq!(flow(5, &mut tracker), (0x3450, 0x23, 0x34), "a retried reference is seen once");
        tracker.end_step(&step);
        assert_eq!(flow(0, &mut tracker), (0x1230, 0x2323, 0x34), "a direct jump enters none");
    }

    #[test]
    fn without_code_every_branch_passes_for_a_conditional_one() {
        let (_, chunk) = program(&[1, 1, 0]);
        let mut tracker = Tracker::default();
        assert_eq!(tracker.before(&StepRefs::whole(&chunk), 5).conditional, 0x3434);
        assert_eq!(tracker.indirect, 0);
    }
}
