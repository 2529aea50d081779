//! Part of systems that zero free memory ahead of its use, in the background, so that faults need not.

use crate::settings::{Accepts, Setting, Unit};
use reach_core::Cycles;
use reach_os::Vm;

/// How fast free memory is zeroed.
pub(crate) const RATE: Setting = Setting::new(
    "prezero_mb_per_second",
    Accepts::number(0, 1 << 20, Unit::Megabytes),
    "40",
    "free memory that the kernel zeroes ahead of its use each second, on time of which the program sees nothing",
);

/// Zeroes free memory at a steady rate. All memory that is free at boot is zeroed already.
pub(crate) struct Prezero {
    bytes_per_second: u64,
    last: Cycles,
}

impl Prezero {
    pub(crate) fn new(bytes_per_second: u64) -> Prezero {
        Prezero { bytes_per_second, last: Cycles(0) }
    }

    /// Call at boot.
    pub(crate) fn boot(&self, vm: &mut Vm) {
        let free = vm.frames().buddy().free_frames();
        vm.zero_ahead(if self.bytes_per_second > 0 { free << vm.base().0 } else { 0 });
    }

    /// Zeroes what can be zeroed until `now`.
    pub(crate) fn tick(&mut self, now: Cycles, vm: &mut Vm) {
        let passed = u128::from(now.0.saturating_sub(self.last.0));
        let bytes = passed * u128::from(self.bytes_per_second) / u128::from(vm.options().hertz.max(1));
        self.last = now;
        vm.zero_ahead(u64::try_from(bytes).unwrap_or(u64::MAX));
    }
}
