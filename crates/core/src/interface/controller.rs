//! The memory controller that retranslates shadow addresses.

use crate::{Pfn, PhysAddr};

/// What the operating system does to memory that is remapped behind the caches (Fang §3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ControllerCommand {
    /// Every line of these bytes leaves the caches: their bus address changes.
    Flush {
        /// First byte, in bus addresses.
        at: PhysAddr,
        /// How many.
        bytes: u64,
    },
    /// The memory controller takes this shadow frame for that real one from now on, or for none.
    MapShadow {
        /// The frame in shadow space.
        shadow: Pfn,
        /// The frame in memory.
        real: Option<Pfn>,
    },
}

/// A memory controller that retranslates shadow addresses, which no memory answers to (Impulse; Fang §3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ControllerOptions {
    /// The first address of shadow space, which has no end.
    pub base: PhysAddr,
    /// Entries of its translation cache (MTLB), a multiple of `ways`; the quotient is a power of two.
    pub entries: u32,
    /// Ways of the cache.
    pub ways: u32,
    /// Processor cycles that a shadow address takes more than a real one where the cache holds its page.
    pub hit: u32,
    /// Processor cycles that it takes besides where the cache does not: a read of the table in memory.
    pub miss: u32,
    /// How many entries, a power of two, such a read brings: those of an aligned group of shadow frames.
    pub group: u32,
}
