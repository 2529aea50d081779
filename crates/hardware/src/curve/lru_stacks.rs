//! The LRU stacks for all geometries, with the counts of uses at each depth.
//!
//! Most uses are of a page that was used shortly before. Where that pays, the most recent pages are kept apart
//! (`recent_pages.rs`), and the stacks see a page only when it joins or leaves them.

use super::Geometry;
use super::full_stack::FullStack;
use super::recent_pages::{MAX_COUNTS, MAX_PAGES, RecentPages, WORDS};
use super::set_stacks::SetStacks;
use crate::tlb::number_of;
use std::collections::BTreeSet;

/// With recent pages kept apart, a fully associative array of up to this many entries counts as one set.
const NARROW: u32 = 64;

/// The contents of arrays of all geometries.
#[derive(Clone, Debug)]
pub(super) struct LruStacks {
    /// The most recent pages; the stacks have not seen their latest uses. Unused if the stacks see every use.
    recent: RecentPages,
    /// One stack of all pages, for the fully associative geometries.
    full: FullStack,
    /// Uses at each depth of `full`: by the number of capacities that are too small.
    at_depth: Vec<u64>,
    /// The capacities of the fully associative geometries, ascending.
    capacities: Vec<u32>,
    /// For each number of sets, ascending: the stacks of its sets, and the uses at each depth.
    sets: Vec<(SetStacks, Vec<u64>)>,
    /// Uses of recent pages, which every array of `full` holds.
    recent_uses: u64,
    /// Uses of recent pages that some arrays lack, by number of sets and by the number of pages above in the set.
    recent_missed: Box<[[u64; WORDS]; MAX_COUNTS]>,
}

impl LruStacks {
    /// Creates empty stacks for `geometries`, which have been checked. `keep_recent` if most uses are of a page that was used
    /// shortly before.
    pub fn new(geometries: &[Geometry], keep_recent: bool) -> LruStacks {
        let narrow = if keep_recent { NARROW } else { 0 };
        let is_stacked = |g: &&Geometry| g.ways == g.entries && g.ways > narrow;
        let capacities: Vec<u32> = geometries.iter().filter(is_stacked).map(|g| g.entries).collect();
        let in_sets = || geometries.iter().filter(|g| !is_stacked(g));
        let counts: BTreeSet<u32> = in_sets().filter_map(|geometry| geometry.sets()).collect();
        let ways_of = |count| in_sets().filter(move |g| g.sets() == Some(count)).map(|g| g.ways);
        let sets = counts.iter().map(|&count| {
            let ways = ways_of(count).max().unwrap_or(1) as usize;
            (SetStacks::new(count as usize, ways), vec![0; ways + 1])
        });
        let least: Vec<_> = counts.iter().map(|&count| (count, ways_of(count).min().unwrap_or(1))).collect();
        // The recent pages and the one that leaves them must fit into the least capacity.
        let room = capacities.first().map_or(MAX_PAGES, |&least| MAX_PAGES.min(least.saturating_sub(2) as usize));
        LruStacks {
            recent: RecentPages::new(if keep_recent { room } else { 0 }, &least),
            full: FullStack::new(&capacities),
            at_depth: vec![0; capacities.len() + 1],
            sets: sets.collect(),
            capacities,
            recent_uses: 0,
            recent_missed: Box::new([[0; WORDS]; MAX_COUNTS]),
        }
    }

    /// Records a use of `tag` if it is a recent page. Returns whether it is.
    #[inline(always)]
    pub fn use_recent(&mut self, tag: u64) -> bool {
        if !self.recent.is_enabled() {
            let first = self.full.is_first(tag);
            self.recent_uses += u64::from(first);
            return first;
        }
        if !self.recent.is_first(tag) {
            let Some(depth) = self.recent.find(tag) else { return false };
            // Most are near the top; a short search is enough for those.
            match depth {
                0..4 => self.use_at::<4>(depth, tag),
                4..16 => self.use_at::<16>(depth, tag),
                _ => self.use_at::<WORDS>(depth, tag),
            }
        }
        self.recent_uses += 1;
        true
    }

    /// Records a use of `tag`, which is the recent page at `depth`, less than `WITHIN`.
    #[inline(always)]
    fn use_at<const WITHIN: usize>(&mut self, depth: usize, tag: u64) {
        let above = self.recent.above_in_set::<WITHIN>(tag, depth);
        // Depths at which no array misses are not counted.
        let mut missed = self.recent.missed(&above);
        while missed != 0 {
            let at = missed.trailing_zeros() as usize & (MAX_COUNTS - 1);
            self.recent_missed[at][usize::from(above[at]) % WORDS] += 1;
            missed &= missed - 1;
        }
        self.recent.move_to_front::<WITHIN>(depth, tag);
    }

    /// Records a use of `tag`, of page `number`, which is not a recent page.
    pub fn use_other(&mut self, number: u64, tag: u64) {
        let depth = self.full.use_tag(tag);
        self.at_depth[depth] += 1;
        if self.recent.is_enabled() {
            return self.join_recent(number, tag);
        }
        for (sets, at_depth) in &mut self.sets {
            let depth = sets.use_tag(number, tag);
            if depth == 0 {
                // Finer sets hold subsets of this one: the page is at the top there too.
                return;
            }
            at_depth[depth] += 1;
        }
    }

    /// Moves `tag` from the stacks to the recent pages, which may return another page to the stacks. Counts the use in the
    /// stacks of sets.
    fn join_recent(&mut self, number: u64, tag: u64) {
        let above = self.recent.above_in_set::<WORDS>(tag, self.recent.len());
        let leaves = self.recent.insert(tag);
        if let Some(leaves) = leaves {
            self.full.sink(leaves);
        }
        let mut below = [0; MAX_COUNTS];
        for ((sets, _), below) in self.sets.iter_mut().zip(&mut below) {
            *below = sets.take(number, tag);
            if let Some(leaves) = leaves {
                sets.push(number_of(leaves), leaves);
            }
        }
        for ((_, at_depth), (above, below)) in self.sets.iter_mut().zip(above.iter().zip(below)) {
            let ways = at_depth.len() - 1;
            at_depth[ways.min(usize::from(*above) + below)] += 1;
        }
    }

    /// Returns all recent pages to the stacks.
    fn flush_recent(&mut self) {
        self.full.settle_all(self.recent.tags().iter().rev().copied());
        while let Some(tag) = self.recent.take_last() {
            self.sets.iter_mut().for_each(|(sets, _)| sets.push(number_of(tag), tag));
        }
    }

    /// Counts a use of `tag`, of page `number`, without a change of any order.
    pub fn count_only(&mut self, number: u64, tag: u64) {
        self.flush_recent();
        self.at_depth[self.full.depth(tag)] += 1;
        for (sets, at_depth) in &mut self.sets {
            at_depth[sets.depth(number, tag)] += 1;
        }
    }

    /// Returns whether an array of some geometry holds `tag`, of page `number`.
    pub fn contains(&mut self, number: u64, tag: u64) -> bool {
        self.flush_recent();
        self.full.depth(tag) < self.capacities.len()
            || self.sets.iter().any(|(sets, at)| sets.depth(number, tag) < at.len() - 1)
    }

    /// Removes `tag`, of page `number`.
    pub fn remove(&mut self, number: u64, tag: u64) {
        if self.recent.find(tag).is_some() {
            self.flush_recent();
        }
        self.full.remove(tag);
        self.sets.iter_mut().for_each(|(sets, _)| sets.remove(number, tag));
    }

    /// Removes every tag that satisfies `doomed`.
    pub fn remove_if(&mut self, doomed: impl Fn(u64) -> bool) {
        self.flush_recent();
        self.full.remove_if(&doomed);
        self.sets.iter_mut().for_each(|(sets, _)| sets.remove_if(&doomed));
    }

    /// Resets the counts.
    pub fn reset_counts(&mut self) {
        self.at_depth.fill(0);
        self.recent_uses = 0;
        self.recent_missed.as_flattened_mut().fill(0);
        self.sets.iter_mut().for_each(|(_, at_depth)| at_depth.fill(0));
    }

    /// Returns the number of uses counted.
    pub fn uses(&self) -> u64 {
        self.recent_uses + self.at_depth.iter().sum::<u64>()
    }

    /// Returns how many uses missed in an array of `geometry`, which is one of those given to [`LruStacks::new`].
    pub fn misses(&self, geometry: Geometry) -> u64 {
        if let Ok(at) = self.capacities.binary_search(&geometry.entries)
            && geometry.ways == geometry.entries
        {
            return self.at_depth[at + 1..].iter().sum();
        }
        let count = u64::from(geometry.entries / geometry.ways);
        let at = self.sets.partition_point(|(sets, _)| sets.count() < count);
        let ways = geometry.ways as usize;
        let recent = self.recent_missed.get(at).map_or(0, |missed| missed[ways.min(WORDS)..].iter().sum());
        recent + self.sets[at].1[ways..].iter().sum::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::Array;
    use crate::config::Replacement;
    use reach_core::Random;

    /// Pages near one another and far apart, used again soon and late, removed one by one and many at a time.
    #[test]
    fn every_geometry_counts_the_misses_of_an_array_of_that_geometry() {
        let forms =
            [(1, 1), (16, 16), (17, 17), (65, 65), (80, 80), (200, 200), (2, 1), (24, 12), (12, 3), (64, 4), (256, 1)];
        for (seed, leave_out) in (0..12).map(|seed| (seed, seed as usize % 4)) {
            let mut geometries: Vec<_> =
                forms[leave_out..].iter().map(|&(entries, ways)| Geometry { entries, ways }).collect();
            geometries.sort_unstable();
            let mut arrays: Vec<_> = geometries
                .iter()
                .map(|g| (Array::<bool>::new(g.entries as usize, g.ways as usize, Replacement::Lru, 0), 0))
                .collect();
            let (mut stacks, mut random) = (LruStacks::new(&geometries, seed % 3 != 0), Random::new(seed));
            for step in 0..30_000 {
                let span = [5, 40, 90, 400][random.below(4) as usize];
                let number = random.below(span) * [1, 1, 3, 64][random.below(4) as usize];
                let tag = 1 << 63 | number;
                match random.below(200) {
                    0 => {
                        arrays.iter_mut().for_each(|(array, _)| _ = array.remove(number as usize % array.sets(), tag));
                        stacks.remove(number, tag);
                    }
                    1 if step % 8 == 0 => {
                        let doomed = |other: u64| other % 3 == tag % 3;
                        arrays.iter_mut().for_each(|(array, _)| array.remove_if(doomed));
                        stacks.remove_if(doomed);
                    }
                    2 => {
                        let held = arrays.iter().any(|(array, _)| array.contains(number as usize % array.sets(), tag));
                        assert_eq!(stacks.contains(number, tag), held, "seed {seed}, step {step}");
                    }
                    _ => {
                        for (array, misses) in &mut arrays {
                            let set = number as usize % array.sets();
                            if array.lookup(set, tag).is_none() {
                                array.insert(set, tag, false);
                                *misses += 1;
                            }
                        }
                        if !stacks.use_recent(tag) {
                            stacks.use_other(number, tag);
                        }
                    }
                }
            }
            for (&geometry, (_, misses)) in geometries.iter().zip(&arrays) {
                assert_eq!(stacks.misses(geometry), *misses, "seed {seed}, {geometry:?}");
            }
        }
    }
}
