//! The processor's part of address translation: TLBs, walk caches, walkers, caches, cores. It knows page tables only
//! through [`reach_core::PageTable`] and the operating system not at all.

mod array;
mod aux_tlb;
mod cache;
pub mod config;
mod counters;
mod curve;
mod mmu;
pub mod ooo;
mod processor;
mod tlb;
mod walk;

pub use aux_tlb::fit;
pub use cache::{Access, CacheCounters, Caches, Controller, ControllerCounters, MemoryAccesses};
pub use counters::Counters;
pub use curve::{CurveCounts, Geometry};
pub use mmu::{Cursor, Mmu, Segment};
pub use processor::{Processor, Shape};
