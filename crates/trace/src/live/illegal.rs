//! Why a program died of an illegal instruction: the emulator may lack what its processor has.

use crate::{Cause, Exit};
use iced_x86::{Decoder, DecoderOptions};
use reach_core::Block;

/// The exit status that a shell gives after SIGILL.
const SHELL_STATUS: i32 = 128 + libc::SIGILL;

/// Explains `exit`, if it is that of a program that SIGILL ended, or of a shell that such a program was run by. `last` is the
/// last block of the process that died, `version` that of QEMU, and `has_avx` says whether this version has AVX and AVX2.
pub(super) fn explain(exit: Exit, last: Option<&Block>, version: &str, has_avx: bool) -> Option<Cause> {
    if exit != Exit::Signal(libc::SIGILL) && exit != Exit::Status(SHELL_STATUS) {
        return None;
    }
    let emulator = if version.is_empty() { "QEMU".to_owned() } else { format!("QEMU {version}") };
    Some(match encoding(last?)? {
        Encoding::Vex => Cause::LacksAvx { emulator, newer_has: !has_avx },
        Encoding::Evex => Cause::LacksAvx512 { emulator },
    })
}

/// The encodings of vector instructions that emulators may lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Encoding {
    /// AVX, AVX2, FMA, F16C, BMI.
    Vex,
    /// AVX-512.
    Evex,
}

/// Returns the encoding of the last instruction of `block`, which is the one that was illegal; `None` for other encodings and
/// where the block has no code. Its bytes may be cut, because the emulator stops to read where it gives up.
fn encoding(block: &Block) -> Option<Encoding> {
    let mut decoder = Decoder::with_ip(64, &block.bytes, block.pc.0, DecoderOptions::NONE);
    let mut last = 0;
    while decoder.can_decode() {
        last = decoder.position();
        if decoder.decode().is_invalid() {
            break;
        }
    }
    match block.bytes.get(last)? {
        0xc4 | 0xc5 => Some(Encoding::Vex),
        0x62 => Some(Encoding::Evex),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reach_core::VirtAddr;

    fn block(bytes: &[u8]) -> Block {
        Block { pc: VirtAddr(0x1000), len: bytes.len() as u16, instructions: 1, bytes: bytes.into() }
    }

    #[test]
    fn the_last_instruction_tells_avx2_from_avx512() {
        for (bytes, expected) in [
            // mov eax, ebx; vpaddd ymm0, ymm0, ymm1
            (&[0x89, 0xd8, 0xc5, 0xfd, 0xfe, 0xc1][..], Some(Encoding::Vex)),
            // The same, cut after its prefix.
            (&[0x89, 0xd8, 0xc5], Some(Encoding::Vex)),
            // vpaddd zmm0, zmm0, zmm1
            (&[0x62, 0xf1, 0x7d, 0x48, 0xfe, 0xc1], Some(Encoding::Evex)),
            // ud2; and a mov whose last byte looks like a prefix
            (&[0x0f, 0x0b], None),
            (&[0xb0, 0xc5], None),
            (&[], None),
        ] {
            assert_eq!(encoding(&block(bytes)), expected, "{bytes:x?}");
        }
    }

    #[test]
    fn only_illegal_instructions_are_explained() {
        let avx2 = block(&[0xc5, 0xfd, 0xfe, 0xc1]);
        let text = |block: &Block, version, has_avx| {
            explain(Exit::Signal(libc::SIGILL), Some(block), version, has_avx).map(|cause| cause.to_string())
        };
        let old = text(&avx2, "7.2.22", false).unwrap();
        assert!(old.contains("AVX2") && old.contains("QEMU 7.2.22 lacks; `make qemu`"), "{old}");
        let new = text(&avx2, "10.0.13", true).unwrap();
        assert!(new.contains("VEX") && !new.contains("make qemu"), "{new}");
        let avx512 = text(&block(&[0x62, 0xf1]), "", true).unwrap();
        assert!(avx512.contains("AVX-512") && !avx512.contains("make qemu"), "{avx512}");
        assert_eq!(text(&block(&[0x0f, 0x0b]), "7.2.22", false), None);
        for (exit, explained) in
            [(Exit::Status(132), true), (Exit::Signal(libc::SIGSEGV), false), (Exit::Status(0), false)]
        {
            assert_eq!(explain(exit, Some(&avx2), "7.2.22", false).is_some(), explained, "{exit:?}");
        }
        assert_eq!(explain(Exit::Signal(libc::SIGILL), None, "7.2.22", false), None);
    }
}
