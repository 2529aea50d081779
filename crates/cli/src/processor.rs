//! Checks that this processor has the instruction-set extensions that the build uses: x86-64-v3 by default.
//!
//! `is_x86_feature_detected!` returns true, without testing, for every feature that the build enables, so this module
//! executes CPUID itself. The compiler may use vector instructions here too: the module avoids code that it would turn
//! into them (copies of structures, loops over data, formatting).

#![cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]

/// Exits with status 1 and a message on standard error if the processor lacks a feature. Call before anything else.
#[cfg(target_arch = "x86_64")]
#[inline(never)]
pub fn check() {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    use std::hint::black_box;

    /// Exits if the build uses `$feature` and bit `$bit` of `$register` is clear.
    macro_rules! need {
        ($feature:literal, $register:expr, $bit:literal) => {
            if cfg!(target_feature = $feature) && black_box($register) >> $bit & 1 == 0 {
                refuse($feature)
            }
        };
    }

    // The largest valid leaves: CPUID of a larger leaf returns undefined data.
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
    // OSXSAVE and AVX: the operating system saves the wide registers.
    need!("avx", first.ecx, 27);
    need!("avx", first.ecx, 28);
    need!("f16c", first.ecx, 29);
    let seventh = if black_box(basic) >= 7 { __cpuid_count(7, 0).ebx } else { 0 };
    need!("bmi1", seventh, 3);
    need!("avx2", seventh, 5);
    need!("bmi2", seventh, 8);
    let extended_features = if black_box(extended) >= 0x8000_0001 { __cpuid(0x8000_0001).ecx } else { 0 };
    need!("lzcnt", extended_features, 5);
}

#[cfg(not(target_arch = "x86_64"))]
pub fn check() {}

#[cold]
#[inline(never)]
fn refuse(feature: &'static str) -> ! {
    let parts = [
        "reach: this processor has no ",
        feature,
        ", which this build of reach uses; build for older processors with RUSTFLAGS=\"\" make build\n",
    ];
    // SAFETY: each length is that of its part; write and _exit touch no other memory of the process.
    unsafe {
        libc::write(libc::STDERR_FILENO, parts[0].as_ptr().cast(), parts[0].len());
        libc::write(libc::STDERR_FILENO, parts[1].as_ptr().cast(), parts[1].len());
        libc::write(libc::STDERR_FILENO, parts[2].as_ptr().cast(), parts[2].len());
        libc::_exit(1)
    }
}
