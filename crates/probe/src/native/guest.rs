//! Whether this computer is a guest, as it says itself.

/// Returns whether a hypervisor says that this is its guest. `None`: processors of this architecture have no sign of it.
#[cfg(target_arch = "x86_64")]
pub(super) fn is_guest() -> Option<bool> {
    // Leaf 1, bit 31 of ECX: 0 on every processor (Intel SDM 2A, CPUID), and set by hypervisors for their guests.
    Some(std::arch::x86_64::__cpuid(1).ecx >> 31 == 1)
}

/// Returns whether a hypervisor says that this is its guest. `None`: processors of this architecture have no sign of it.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn is_guest() -> Option<bool> {
    None
}
