//! Inference: from cycles of patterns to the sizes and latencies of what they run on.

mod cache;
mod search;
mod splinter;
mod tlb;
mod walk;
mod walker;

pub use cache::{Cache, Caches, caches, stream};
pub use splinter::{Splinter, splinter};
pub use tlb::{Level, Tlbs, fetch_tlbs, tlbs};
pub use walk::{Known, Walks, walks};
pub use walker::{WalkCache, Walkers, walk_cache, walkers};

/// The number of ways of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ways {
    /// As many as entries.
    Full,
    /// This number.
    Of(u32),
}

/// A point of a curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// The number of pages or lines.
    pub count: u64,
    /// Cycles of a step.
    pub cycles: f64,
}

/// Returns the numbers of pages or lines at which a curve is measured: powers of two from `from` to `to`, and three numbers
/// between each two of them.
fn grid(from: u64, to: u64) -> Vec<u64> {
    let between = |power: u64| [power, power * 19 / 16, power * 45 / 32, power * 27 / 16];
    let mut all: Vec<u64> = std::iter::successors(Some(from), |power| Some(power * 2))
        .take_while(|&power| power <= to)
        .flat_map(between)
        .filter(|&count| count <= to)
        .collect();
    all.dedup();
    all
}

/// Returns the median; NaN of nothing.
fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        n => (values[(n - 1) / 2] + values[n / 2]) / 2.0,
    }
}
