//! Markers: `nopl N(%rax,%rax,1)` with a displacement of four bytes, which compilers only use to align code, and then with
//! a displacement of 0.

/// The first bytes of a marker.
const OPCODE: [u8; 4] = [0x0f, 0x1f, 0x84, 0x00];

/// Returns the number that the marker `instruction` carries; `None` if it is none.
pub fn number(instruction: &[u8]) -> Option<usize> {
    let displacement = instruction.strip_prefix(&OPCODE)?.try_into().ok()?;
    Some(u32::from_le_bytes(displacement) as usize).filter(|&number| number > 0)
}
