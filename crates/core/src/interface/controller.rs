//! A memory controller with a translation of its own, between the caches and memory (Impulse; Fang §3.2).
//!
//! Caches see *shadow* addresses, to which no memory answers; the controller translates them to real frames. So pages
//! become contiguous for the TLB without being copied.

use crate::{Pfn, PhysAddr};

/// A command of the operating system to the memory controller (Fang §3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ControllerCommand {
    /// Flushes every cache line of these bytes, because their bus address changes.
    Flush {
        /// First byte, in bus addresses.
        at: PhysAddr,
        /// Number of bytes.
        bytes: u64,
    },
    /// Sets the real frame of a shadow frame.
    MapShadow {
        /// The frame in shadow space.
        shadow: Pfn,
        /// The frame in memory; `None` removes the translation.
        real: Option<Pfn>,
    },
}

/// Options of a memory controller that translates shadow addresses (Impulse; Fang §3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ControllerOptions {
    /// First address of shadow space, which has no end.
    pub base: PhysAddr,
    /// Entries of the controller's translation cache (MTLB): a multiple of `ways`, with a power of two as quotient.
    pub entries: u32,
    /// Ways of the translation cache.
    pub ways: u32,
    /// Processor cycles that a shadow address takes longer than a real one when the translation cache hits.
    pub hit: u32,
    /// Further processor cycles when it misses, and the controller reads its table in memory.
    pub miss: u32,
    /// Entries that one such read brings, a power of two: those of an aligned group of shadow frames.
    pub group: u32,
}
