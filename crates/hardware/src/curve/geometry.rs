//! Geometries of TLB arrays, and the counts of a curve.

/// The geometry of a TLB array.
///
/// ```
/// use reach_hardware::Geometry;
///
/// assert_eq!(Geometry { entries: 1536, ways: 12 }.sets(), Some(128));
/// assert_eq!(Geometry { entries: 1536, ways: 4 }.sets(), None, "384 sets are not a power of two");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Geometry {
    /// Number of translations.
    pub entries: u32,
    /// Ways; equal to `entries` if fully associative. `entries / ways` is a power of two.
    pub ways: u32,
}

impl Geometry {
    /// Returns the number of sets; `None` unless it is a power of two.
    pub fn sets(self) -> Option<u32> {
        let whole = self.ways > 0 && self.entries.is_multiple_of(self.ways);
        whole.then(|| self.entries / self.ways).filter(|sets| sets.is_power_of_two())
    }
}

/// The counts of a curve, for all geometries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CurveCounts {
    /// Look-ups that reached the array's level, of the kinds of reference that it serves. `None` if all references do.
    pub lookups: Option<u64>,
    /// For each geometry, the look-ups that miss in all arrays of the level.
    pub misses: Vec<(Geometry, u64)>,
}
