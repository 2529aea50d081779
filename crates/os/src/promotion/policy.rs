//! How a system makes superpages by reservation: settings.

use reach_core::{Millicycles, PageShift};

/// How a system makes superpages by reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superpages {
    /// Page sizes in use, the base page first.
    pub sizes: Vec<PageShift>,
    /// Freeing a page renews its reservation's place in the list, too (FreeBSD), not only allocating one.
    pub renewed_by_freeing: bool,
    /// Reservations that may reach beyond the end of their object.
    pub past_end: PastEnd,
    /// Cycles per elementary step ([`Operation`](crate::Operation)) of population maps, lists and the buddy allocator.
    pub step: u64,
    /// A superpage may be dirty in part: its first write does not demote it, and pages need not be equally dirty to be
    /// promoted (§4.7).
    pub partly_dirty: bool,
    /// Cost of each byte hashed, where hash digests tell which pages of a dirty superpage need not be written
    /// (§4.7). A page is hashed when it is read in, and again before it would be written. `None`: no digests. Needs
    /// `partly_dirty` and a page daemon.
    pub digest: Option<Millicycles>,
    /// Superpages are made. If not, the work is done and charged as if they were (§6.6).
    pub promote: bool,
    /// Promotion is attempted only at the first full extent from the root of the population map (§4.9). If not, at the largest
    /// full extent whose pages are mapped alike.
    pub first_full: bool,
    /// Unmapping demotes superpages size by size, where that rewrites replicated entries, as FreeBSD on Alpha did (§6.6: each
    /// entry is visited once per size).
    pub demote_to_unmap: bool,
    /// The first write to every page faults, not only to superpages, so that an extent is promoted as soon as its last page
    /// is dirty.
    pub watch_all: bool,
    /// A fault on a page of a file maps a whole superpage where the file's reservation is full.
    pub map_full: bool,
    /// Percentage of a reservation of private memory that must be populated for the kernel to populate the rest; 100 leaves
    /// it to the program.
    pub threshold: u64,
}

/// Reservations that may reach beyond the end of their object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PastEnd {
    /// Reservations of heaps and stacks that are not larger than the mapped part of the object (Navarro §4.2).
    Growing,
    /// Reservations of private memory, upwards (FreeBSD's `OBJ_ANON`).
    Anonymous,
}
