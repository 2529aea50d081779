//! Derived metrics: what follows from counts, and how well a sample knows it.

mod error;

pub use error::LEAST;
pub(crate) use error::{error, ratio_error};
