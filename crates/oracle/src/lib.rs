//! Twins of the fast structures, so plain that they are obviously right: no packing, no folding, no short cuts, one
//! step at a time. Nobody runs them but tests, which hold the fast structures against them.

pub mod address_space;
mod array;
pub mod buddy;
mod cache;
mod cluster_tlb;
mod mmu;
mod nested;
pub mod online_promotion;
pub mod ooo;
mod processor;
mod range_tlb;
pub mod reservation;
mod tlb;
mod walk_caches;

pub use array::Array;
pub use cache::Caches;
pub use mmu::Machine;
pub use processor::Processor;
