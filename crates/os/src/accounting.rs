//! What the operating system counts, and what its work costs.

mod census;
mod costs;
mod counters;
mod series;
mod work;

pub use census::Census;
pub use costs::Costs;
pub use counters::{Counters, FaultKind, Gauge};
pub use series::Sample;
pub use work::{Operation, Steps, Work};
