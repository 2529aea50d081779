//! The processor's part of address translation: TLBs, walk caches, walkers, caches, cores. It knows page tables only
//! through [`reach_core::PageTable`] and the operating system not at all.

mod array;
mod aux_tlb;
mod cache;
mod cluster_tlb;
pub mod config;
mod controller;
mod counters;
mod curve;
mod full;
mod handler;
mod lines;
mod mmu;
mod nested;
pub mod ooo;
mod placed;
mod processor;
mod range_tlb;
mod tlb;
mod walk;

pub use aux_tlb::fit;
pub use cache::{Access, CacheCounters, Caches, MemoryAccesses};
pub use controller::{Controller, ControllerCounters};
pub use counters::Counters;
pub use curve::{CurveCounts, Geometry};
pub use mmu::{Cursor, Mmu, Segment};
pub use processor::{Processor, Shape};
