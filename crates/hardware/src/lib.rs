//! The processor's part of address translation: TLBs, walk caches, walkers, data caches and cores.
//!
//! It reads page tables through [`reach_core::PageTable`], and does not know the operating system. From bottom to top:
//!
//! | module | contents |
//! |---|---|
//! | `config` | descriptions of machines |
//! | `array` | set-associative arrays, under every replacement policy |
//! | `permission` | whether a page-table entry permits a reference, and what the reference changes in it |
//! | `tlb` | TLB arrays: look-up, fill, invalidation, and the interface of their observers |
//! | `walk` | page walks with walk caches, also in a guest |
//! | `cache` | data caches, the memory controller, translation behind the last cache |
//! | `aux_tlb` | range TLBs, cluster TLBs, direct segments |
//! | `curve` | miss curves |
//! | `mmu` | the memory-management unit, which combines these |
//! | `ooo` | out-of-order timing |
//! | `processor` | cores and hardware threads |

mod array;
mod aux_tlb;
mod cache;
pub mod config;
mod counters;
mod curve;
mod mmu;
pub mod ooo;
mod permission;
mod processor;
mod tlb;
mod walk;

pub use aux_tlb::{cannot_sweep, resolve_aux_tlb};
pub use cache::{
    Access, BackSide, BackSideCounters, CacheCounters, Caches, Controller, ControllerCounters, MemoryAccesses,
};
pub use counters::Counters;
pub use curve::{CurveCounts, Geometry};
pub use mmu::{CostEntry, Cursor, Mmu, ProgramPosition, StepRefs, TranslationSpent};
pub use processor::{Processor, Topology};
pub use walk::{GUEST_MEMORY, MOST_GUESTS};
