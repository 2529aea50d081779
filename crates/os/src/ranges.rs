//! Ranges: eager paging, which makes them long, and whether a range TLB is worth its power (Karakostas et al. 2015).

mod eager;
mod enabling;

pub use crate::translation::{RangeCounts, Ranging, Translated};
pub use enabling::{Enabling, Worth};
