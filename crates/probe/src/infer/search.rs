//! Searches for the number at which something no longer fits.

use super::Ways;
use crate::bench::BenchError;

/// Returns the largest number from `low` to `high` for which `fits` holds, given that it holds for all numbers up to some one;
/// `low - 1` if it holds for none.
pub(super) fn last_fit(
    low: u64,
    high: u64,
    mut fits: impl FnMut(u64) -> Result<bool, BenchError>,
) -> Result<u64, BenchError> {
    let (mut fit, mut too_many) = (low - 1, high + 1);
    while too_many - fit > 1 {
        let middle = fit + (too_many - fit) / 2;
        if fits(middle)? { fit = middle } else { too_many = middle }
    }
    Ok(fit)
}

/// Returns the capacity that most strides have, at least two, and the smallest of several such. It is the number of ways: at
/// all strides that leave the set unchanged, only the ways of one set are used. At others the capacity depends on the stride.
pub(super) fn ways(capacities: impl IntoIterator<Item = u64>) -> Option<u32> {
    let mut sorted: Vec<u64> = capacities.into_iter().collect();
    sorted.sort_unstable();
    let equal = sorted.chunk_by(|a, b| a == b).filter(|equal| equal.len() >= 2 && equal[0] > 0);
    let most = equal.max_by_key(|equal| (equal.len(), std::cmp::Reverse(equal[0])))?;
    u32::try_from(most[0]).ok()
}

/// Returns the entries of an array that holds about `reach` contiguous pages: ways times a power of two. `None` if no such
/// number is near.
///
/// Sets overflow one after another, so that the step is above the number of entries by up to one part in the number of ways.
pub(super) fn entries(reach: u64, ways: u32) -> Option<u64> {
    let sets = reach as f64 / f64::from(ways);
    let power = sets.log2().round();
    // Half of the way to the last set that overflows, and a quarter for noise.
    let above = (1.0 + 0.5 / f64::from(ways)).log2();
    ((sets.log2() - power - above / 2.0).abs() <= above / 2.0 + 0.25).then(|| u64::from(ways) << power as u32)
}

/// Returns `Full` if as many ways as entries were found.
pub(super) fn full_or(ways: u32, entries: u64) -> Ways {
    if u64::from(ways) == entries { Ways::Full } else { Ways::Of(ways) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_number_that_fits_is_found_from_any_range() {
        for capacity in 0..20 {
            let found = last_fit(1, 15, |n| Ok(n <= capacity)).unwrap();
            assert_eq!(found, capacity.min(15));
        }
    }

    #[test]
    fn one_disturbed_stride_does_not_decide_the_ways() {
        assert_eq!(ways([64, 32, 16, 3, 4, 4, 4]), Some(4));
        assert_eq!(ways([64, 32, 16, 3, 3, 4, 4, 4]), Some(4));
        assert_eq!(ways([64, 32, 16]), None);
        assert_eq!(ways([72, 72, 71, 72]), Some(72));
    }

    #[test]
    fn entries_are_ways_times_a_power_of_two_or_unknown() {
        assert_eq!(entries(67, 4), Some(64));
        assert_eq!(entries(3250, 24), Some(3072));
        assert_eq!(entries(1400, 5), Some(1280));
        assert_eq!(entries(72, 4), Some(64));
        assert_eq!(entries(96, 4), None);
    }
}
