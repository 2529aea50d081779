//! The processor's part of address translation: TLBs, walk caches, walkers, caches, cores. It knows page tables only
//! through [`reach_core::PageTable`] and the operating system not at all.

pub mod config;
