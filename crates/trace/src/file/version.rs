//! The versions of the format.

/// The version of the format that is written. Readers take versions from 2 on.
pub const VERSION: u32 = Version::CURRENT as u32;

/// A version of the format that can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub(super) enum Version {
    /// Marks ([`reach_core::Mark`]) are phases with reserved names.
    V2 = 2,
    /// Marks are events of their own, so a phase may have any name.
    V3 = 3,
    /// The header has a state, and the trailer the ending of the program.
    V4 = 4,
    /// System calls are events.
    V5 = 5,
}

impl Version {
    pub const CURRENT: Version = Version::V5;

    /// Returns the version with this number; `None` where it cannot be read.
    pub fn of(number: u32) -> Option<Version> {
        [Version::V2, Version::V3, Version::V4, Version::V5].into_iter().find(|&version| version as u32 == number)
    }
}
