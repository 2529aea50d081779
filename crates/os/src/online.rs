//! Online promotion: what a miss handler remembers of a TLB's entries, and when it wants smaller pages to become one
//! (Romer et al. 1995; Fang et al. 1999, section 3.1).
//!
//! The policies know no memory and no page table: they are told of misses and of entries that come and go, say which
//! candidates are due, and are told what came of it. `oracle` has their twin, which looks through the whole TLB instead
//! of counting.

mod blame;
mod candidates;
mod policy;

pub use candidates::{Candidate, Candidates, Visit};
pub use policy::{Online, Policy};

#[cfg(test)]
mod tests;
