//! The loops that are timed.

use std::ptr;

/// Whether [`additions`] is a chain of single cycles here.
pub(super) const IS_CALIBRATED: bool = cfg!(any(target_arch = "x86_64", target_arch = "aarch64"));

/// Follows each of `starts` for `steps` steps, all of them side by side. Returns where they are then.
///
/// Each start, and whatever is found there, must be the address of a readable, aligned pointer: [`super::Area::write`] makes
/// such chains.
pub(super) fn chains(starts: &[*const u8], steps: u64) -> Vec<*const u8> {
    macro_rules! of {
        ($($n:literal)*) => {
            match starts.len() {
                $($n => follow::<$n>(starts.try_into().unwrap_or([ptr::null(); $n]), steps).to_vec(),)*
                n => panic!("{n} chains: expected 1 to 16"),
            }
        };
    }
    of!(1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16)
}

#[inline(never)]
fn follow<const N: usize>(mut at: [*const u8; N], steps: u64) -> [*const u8; N] {
    for _ in 0..steps {
        for at in &mut at {
            // SAFETY: the caller gives chains of pointers that are readable and aligned.
            *at = unsafe { ptr::read_volatile(at.cast::<*const u8>()) };
        }
    }
    at
}

/// Executes `count` additions, rounded up to a multiple of 16, each waiting for the one before.
#[inline(never)]
pub(super) fn additions(count: u64) {
    // Two registers: additions of constants are done without the execution units by some processors.
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    let (mut sum, one) = (0u64, 1u64);
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    for _ in 0..count.div_ceil(16) {
        macro_rules! sixteen {
            ($text:literal) => {
                // SAFETY: additions of registers touch nothing else.
                unsafe {
                    std::arch::asm!(
                        $text, $text, $text, $text, $text, $text, $text, $text,
                        $text, $text, $text, $text, $text, $text, $text, $text,
                        sum = inout(reg) sum, one = in(reg) one, options(nomem, nostack)
                    );
                }
            };
        }
        #[cfg(target_arch = "x86_64")]
        sixteen!("add {sum}, {one}");
        #[cfg(target_arch = "aarch64")]
        sixteen!("add {sum}, {sum}, {one}");
    }
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    std::hint::black_box(sum);
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = count;
}
