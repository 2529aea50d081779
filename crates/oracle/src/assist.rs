//! Twins of walk assists, and a bench on which an assist and its twin see the same misses.
//!
//! Each restates its design with lists: no sets in order of use, no predictors packed in tables, one step at a time.

mod bench;
mod morrigan;
mod pom_tlb;
mod prefetch;
mod victima;

pub use bench::{Asked, Bench};
pub use morrigan::NaiveMorrigan;
pub use pom_tlb::NaivePomTlb;
pub use prefetch::{NaiveAtp, NaivePrefetcher, Rule};
pub use victima::NaiveVictima;
