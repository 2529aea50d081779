//! The instructions of one place of a pattern of fetches: a jump to the next place that no processor predicts, on x86-64.
//!
//! Where jumps are predicted, fetching runs ahead of them, and hides what it waits for: Zen 4 loses one cycle by a miss of the
//! first level of TLBs then, and six by one after a jump that it has not predicted. So a place calls its own next
//! instructions, overwrites the return address with the next place, and returns. The return-address stack predicts the
//! instruction behind the call. The next place is fetched when the return is executed, and its translation delays it in full
//! length. The predicted path waits in the same line, so that it fetches no other page. Compilers use the same sequence against
//! speculation (*retpoline*).

/// The call, and the wrong path behind it: a fence that nothing passes before the return is executed, and a jump back to it.
const CALL: [u8; 10] = [0xe8, 5, 0, 0, 0, 0x0f, 0xae, 0xe8, 0xeb, 0xfb];
/// Bytes of the call instruction alone.
const CALL_ALONE: usize = 5;
/// `mov rax, imm64`, without its eight bytes of constant.
const CONSTANT: [u8; 2] = [0x48, 0xb8];
/// `mov [rsp], rax` and `ret`.
const RETURN: [u8; 5] = [0x48, 0x89, 0x04, 0x24, 0xc3];
/// `dec rdi` and `jz` to the byte behind the instructions of a place.
const COUNT: [u8; 5] = [0x48, 0xff, 0xcf, 0x74, 25];
/// `ret`, to the caller of the pattern.
const END: u8 = 0xc3;

/// Instructions of [`call`] and of [`to`].
pub(crate) const CALL_INSTRUCTIONS: u16 = 1;
pub(crate) const TO_INSTRUCTIONS: u16 = 3;

/// Bytes from the start of a place to the instructions that the call goes to.
pub(crate) const CALLED: u64 = CALL.len() as u64;

/// Returns the call that a place begins with.
pub(crate) fn call() -> Vec<u8> {
    CALL[..CALL_ALONE].to_vec()
}

/// Returns what the call goes to: it continues at address `next`.
pub(crate) fn to(next: u64) -> Vec<u8> {
    [&CONSTANT[..], &next.to_le_bytes(), &RETURN].concat()
}

/// Returns all instructions of a place, which continue at address `next`.
///
/// Those of the `last` place of a chain decrement register `rdi` first, and return to the chain's caller when it is 0.
/// Others change `rax` and the stack below its pointer only.
pub(crate) fn place(next: u64, last: bool) -> Vec<u8> {
    let jump = [&CALL[..], &to(next)].concat();
    if last { [&COUNT[..], &jump, &[END]].concat() } else { jump }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pattern::LINE;

    #[test]
    fn a_place_fits_into_a_line_and_its_jumps_meet_their_targets() {
        let place = place(0x1234_5678_9abc, true);
        assert!(place.len() <= LINE as usize);
        let after_count = COUNT.len() + usize::from(COUNT[COUNT.len() - 1]);
        assert_eq!((after_count, place[after_count]), (place.len() - 1, END));
        assert_eq!(CALL_ALONE + usize::from(CALL[1]), CALL.len());
        assert_eq!(u64::from_le_bytes(place[17..25].try_into().unwrap()), 0x1234_5678_9abc);
    }
}
