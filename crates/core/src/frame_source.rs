//! Physical memory for the tables that translate addresses.

use crate::PhysAddr;

/// Allocates and frees the physical memory in which nodes of page tables and range tables lie.
pub trait FrameSource {
    /// Allocates `bytes` (a power of two), aligned to that size or to a base page, whichever is larger. Returns `None`
    /// when memory is exhausted.
    fn allocate_table(&mut self, bytes: u64) -> Option<PhysAddr>;
    /// Frees `bytes` at `at`, as [`FrameSource::allocate_table`] returned them.
    fn free_table(&mut self, at: PhysAddr, bytes: u64);
}
