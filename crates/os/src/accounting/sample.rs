//! The state of memory over time (Navarro et al. §6.5, Figure 5).

/// The state of memory at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Time in milliseconds since boot; 0 where it does not matter.
    pub millis: u64,
    /// Contiguity of free and cached memory, in millionths ([`contiguity`](crate::contiguity())).
    pub contiguity: u64,
    /// Bytes that are free or cached.
    pub free: u64,
    /// Bytes on the page daemon's active list.
    pub active: u64,
    /// Bytes on its inactive list.
    pub inactive: u64,
    /// Extents of the largest page size that hold pages of either list.
    pub in_use: u64,
    /// Extents of the largest page size that hold wired pages, page-table nodes included.
    pub wired: u64,
}
