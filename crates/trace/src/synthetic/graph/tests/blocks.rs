//! Checks the machine code of blocks: execution follows the branches, and references match the operands.

use super::*;
use crate::Source;
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, OpAccess, Register};
use reach_core::Block;

fn instructions(block: &Block) -> Vec<Instruction> {
    Decoder::with_ip(64, &block.bytes, block.pc.0, DecoderOptions::NONE).into_iter().collect()
}

/// Returns the memory operands of a block: kind, size in bytes, index of the instruction, and the address if it is
/// constant.
fn operands(block: &Block) -> Vec<(Kind, u64, u16, Option<u64>)> {
    let (mut all, mut factory) = (Vec::new(), InstructionInfoFactory::new());
    for (index, instruction) in (0..).zip(instructions(block)) {
        for memory in factory.info(&instruction).used_memory() {
            let (bytes, constant) = (memory.memory_size().size() as u64, memory.base() == Register::RIP);
            let constant = (constant || memory.base() == Register::None && memory.index() == Register::None)
                .then(|| memory.displacement());
            use OpAccess as A;
            if matches!(memory.access(), A::Read | A::CondRead | A::ReadWrite | A::ReadCondWrite) {
                all.push((Kind::Load, bytes, index, constant));
            }
            if matches!(memory.access(), A::Write | A::CondWrite | A::ReadWrite | A::ReadCondWrite) {
                all.push((Kind::Store, bytes, index, constant));
            }
        }
    }
    all
}

/// Returns whether the block at `next` may follow `block`. After a loop, the next one may begin anywhere.
fn leads_to(block: &Block, next: u64) -> bool {
    let last = instructions(block).pop().unwrap();
    let target = last.near_branch_target();
    match last.flow_control() {
        FlowControl::UnconditionalBranch => next == target,
        FlowControl::ConditionalBranch => {
            let jump = target..last.next_ip();
            next == target || !jump.contains(&next) && (next == jump.end || target <= block.pc.0)
        }
        _ => next == last.next_ip(),
    }
}

#[test]
fn references_and_successors_match_the_machine_code() {
    let specs = ["bc:bytes=300K,degree=8", "bc:bytes=1M,init=no", "bfs:bytes=1M", "pr:bytes=300K", "tc:bytes=300K"];
    for spec in specs {
        let mut source = super::super::super::generator(spec, 1 << 30).unwrap();
        let mut chunk = Chunk::default();
        source.fill(&mut chunk).unwrap();
        let (mut fetched, mut refs) = (chunk.fetched.iter().peekable(), chunk.refs.iter().peekable());
        while let Some(block) = fetched.next().map(|id| source.blocks().get(*id)) {
            refs.next();
            for (kind, bytes, index, constant) in operands(block) {
                let r = refs.next().unwrap();
                assert_eq!((r.kind(), r.size(), r.index()), (kind, bytes, index), "{spec}: {block:?}");
                assert!(constant.is_none_or(|at| at == r.addr().0), "{spec}: {r:?} of {block:?}");
            }
            let next = fetched.peek().map(|id| source.blocks().get(**id).pc.0);
            assert!(next.is_none_or(|next| leads_to(block, next)), "{spec}: from {block:?} to {next:x?}");
        }
        assert!(refs.next().is_none(), "{spec}");
    }
}
