//! What the trace keeps of the kernel's code: of each instruction its operation and registers, and where branches go.
//! Constants and displacements become 0, because no timing depends on them. So the trace describes code without holding a
//! part of the kernel that could run.

use iced_x86::{Decoder, DecoderOptions};

/// Returns the bytes of the instruction at `pc` without its constants.
pub fn without_constants(pc: u64, bytes: &[u8]) -> Vec<u8> {
    let mut decoder = Decoder::with_ip(64, bytes, pc, DecoderOptions::NONE);
    let instruction = decoder.decode();
    let mut blank = bytes.to_vec();
    if instruction.is_invalid() || instruction.near_branch_target() != 0 {
        return blank;
    }
    let at = decoder.get_constant_offsets(&instruction);
    for (from, len) in [
        (at.displacement_offset(), at.displacement_size()),
        (at.immediate_offset(), at.immediate_size()),
        (at.immediate_offset2(), at.immediate_size2()),
    ] {
        blank[from..from + len].fill(0);
    }
    blank
}
