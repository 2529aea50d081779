//! The processor's part of address translation: TLBs, walk caches, walkers, caches, cores. It knows page tables only
//! through [`reach_core::PageTable`] and the operating system not at all.

mod array;
mod beside;
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
mod placed;
mod processor;
mod range_tlb;
mod tlb;
mod walk;
pub mod window;

pub use beside::fit;
pub use cache::{Access, Beyond, CacheCounters, Caches};
pub use controller::{Controller, ControllerCounters};
pub use counters::Counters;
pub use curve::{CurveCounts, Geometry};
pub use mmu::{Cursor, Mmu, Segment};
pub use processor::{Processor, Shape};
