//! Whether this processor can run what the compiler made: `reach` is built for x86-64-v3 unless asked otherwise.
//!
//! `is_x86_feature_detected!` answers yes without a look at the processor for everything that the build already relies
//! on, so the processor itself is asked here. This module is built for the same processor as all others; it stays away
//! from whatever a compiler turns into vector code (copies of structures, loops over data, formatting).

#![cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]

/// Says what is missing on standard error and ends with status 1, if anything is. To be called before all else.
#[cfg(target_arch = "x86_64")]
#[inline(never)]
pub fn check() {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    use std::hint::black_box;

    /// Gives up unless bit `$bit` of `$register` is set, where the build relies on `$feature`.
    macro_rules! need {
        ($feature:literal, $register:expr, $bit:literal) => {
            if cfg!(target_feature = $feature) && black_box($register) >> $bit & 1 == 0 {
                refuse($feature)
            }
        };
    }

    // Which leaves there are: asking for others gives anything.
    let (basic, extended) = (__cpuid(0).eax, __cpuid(0x8000_0000).eax);
    let first = __cpuid(1);
    need!("sse3", first.ecx, 0);
    need!("ssse3", first.ecx, 9);
    need!("fma", first.ecx, 12);
    need!("sse4.1", first.ecx, 19);
    need!("sse4.2", first.ecx, 20);
    need!("movbe", first.ecx, 22);
    need!("popcnt", first.ecx, 23);
    need!("xsave", first.ecx, 26);
    // The operating system saves the wide registers.
    need!("avx", first.ecx, 27);
    need!("avx", first.ecx, 28);
    need!("f16c", first.ecx, 29);
    let seventh = if black_box(basic) >= 7 { __cpuid_count(7, 0).ebx } else { 0 };
    need!("bmi1", seventh, 3);
    need!("avx2", seventh, 5);
    need!("bmi2", seventh, 8);
    let more = if black_box(extended) >= 0x8000_0001 { __cpuid(0x8000_0001).ecx } else { 0 };
    need!("lzcnt", more, 5);
}

#[cfg(not(target_arch = "x86_64"))]
pub fn check() {}

#[cold]
#[inline(never)]
fn refuse(feature: &'static str) -> ! {
    let parts = [
        "reach: this processor has no ",
        feature,
        ", for which this reach was built; build it for older processors with RUSTFLAGS=\"\" make build\n",
    ];
    // SAFETY: each part is as long as it says; writing and ending touch nothing else.
    unsafe {
        libc::write(libc::STDERR_FILENO, parts[0].as_ptr().cast(), parts[0].len());
        libc::write(libc::STDERR_FILENO, parts[1].as_ptr().cast(), parts[1].len());
        libc::write(libc::STDERR_FILENO, parts[2].as_ptr().cast(), parts[2].len());
        libc::_exit(1)
    }
}
