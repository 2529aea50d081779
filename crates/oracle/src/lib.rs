//! Twins of the fast structures, so plain that they are obviously right: no packing, no folding, no short cuts, one
//! step at a time. Nobody runs them but tests, which hold the fast structures against them.

mod array;
pub mod buddy;
mod cache;
mod cluster_tlb;
mod machine;
mod nested;
pub mod ooo;
pub mod os;
mod processor;
pub mod promotion;
mod range_tlb;
pub mod reservation;
mod tlb;
mod walk;

pub use array::Array;
pub use cache::Caches;
pub use machine::Machine;
pub use processor::Processor;
