//! Where the instructions of a block are.

use iced_x86::{Decoder, DecoderOptions};
use reach_core::{Block, VirtAddr};

/// Stands for the last instruction of a block.
pub(super) const LAST: u16 = u16::MAX;

/// Returns the address of instruction number `index` of `block`, or of the last one before. That of the block itself where its code is
/// not known.
pub(super) fn address(block: &Block, index: u16) -> VirtAddr {
    let mut decoder = Decoder::with_ip(64, &block.bytes, block.pc.0, DecoderOptions::NONE);
    let mut last = block.pc.0;
    for _ in 0..=index {
        let at = decoder.ip();
        if !decoder.can_decode() || decoder.decode().is_invalid() {
            break;
        }
        last = at;
    }
    VirtAddr(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_are_found_by_their_lengths() {
        // mov eax, ebx; ret; and a block whose code is not known
        let block = |bytes: &[u8]| Block { pc: VirtAddr(0x1000), len: 3, instructions: 2, bytes: bytes.into() };
        let known = block(&[0x89, 0xd8, 0xc3]);
        assert_eq!([0, 1, 2, LAST].map(|index| address(&known, index).0), [0x1000, 0x1002, 0x1002, 0x1002]);
        assert_eq!(address(&block(&[]), 1).0, 0x1000);
    }
}
