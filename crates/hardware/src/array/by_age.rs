//! Finds what was not used for the longest time, without an order that each use would have to change.

/// A list of places by age. It lasts for many searches where most places are not used again soon.
#[derive(Clone, Debug, Default)]
pub(crate) struct ByAge {
    /// Places with their last uses when they were listed, the oldest last. A place that was used since is younger than all that
    /// were not.
    listed: Vec<(i64, u16)>,
}

impl ByAge {
    /// Returns the place of the least value of `used`, the times of last uses, and the first of several. Its time must be a new
    /// one when this is called again. Places must be few enough for 16 bits, and at least one.
    #[inline(always)]
    pub fn oldest(&mut self, used: &[i64]) -> usize {
        loop {
            match self.listed.pop() {
                Some((time, place)) if used[usize::from(place)] == time => return usize::from(place),
                Some(_) => {}
                None => self.list(used),
            }
        }
    }

    /// Must be called when a time becomes an earlier one.
    pub fn forget(&mut self) {
        self.listed.clear();
    }

    #[cold]
    #[inline(never)]
    fn list(&mut self, used: &[i64]) {
        self.listed.extend(used.iter().zip(0..).map(|(&time, place)| (time, place)));
        self.listed.sort_unstable_by(|a, b| b.cmp(a));
    }
}
