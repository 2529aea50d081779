//! Online promotion: a software miss handler counts misses and TLB entries, and decides when smaller pages become one (Romer et al.
//! 1995; Fang et al. 1999, section 3.1).
//!
//! The policies know neither memory nor page tables. They get the TLB event log, return candidates that are due, and learn what
//! became of them. `oracle` has their twin, which searches the whole TLB instead of counting.

mod blame;
mod candidates;
mod policy;

pub use candidates::{Candidate, Candidates, Visit};
pub use policy::{Online, Policy};

#[cfg(test)]
mod tests;
