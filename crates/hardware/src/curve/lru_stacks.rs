//! The orders of last uses for all geometries, and how often a page was found too deep in them.

use super::Geometry;
use super::full_stack::Stack;
use super::recent_pages::{self as recent, Recent};
use super::set_stacks::Sets;
use crate::tlb::number_of;
use std::collections::BTreeSet;

/// Where the pages used last are kept apart, fully associative arrays of up to so many entries count as one set.
const NARROW: u32 = 64;

/// What all geometries hold.
#[derive(Clone, Debug)]
pub(super) struct Orders {
    /// The pages used last, of which what follows lacks the latest uses; none where it is told of every use.
    recent: Recent,
    /// The order in which all pages were used last, and how often something was found at each depth.
    stack: Stack,
    at_depth: Vec<u64>,
    capacities: Vec<u32>,
    /// The same set by set, for each number of sets, ascending.
    sets: Vec<(Sets, Vec<u64>)>,
    /// Uses of pages that every array of the stack holds; those of them that some sets lack, by the number of sets and how
    /// many pages stood above.
    near: u64,
    near_missed: Box<[[u64; recent::WORDS]; recent::COUNTS]>,
}

impl Orders {
    /// For geometries that have been checked. `often`: most uses are of a page that was used shortly before.
    pub fn new(wanted: &[Geometry], often: bool) -> Orders {
        let narrow = if often { NARROW } else { 0 };
        let is_stacked = |g: &&Geometry| g.ways == g.entries && g.ways > narrow;
        let capacities: Vec<u32> = wanted.iter().filter(is_stacked).map(|g| g.entries).collect();
        let in_sets = || wanted.iter().filter(|g| !is_stacked(g));
        let counts: BTreeSet<u32> = in_sets().filter_map(|geometry| geometry.sets()).collect();
        let ways_of = |count| in_sets().filter(move |g| g.sets() == Some(count)).map(|g| g.ways);
        let sets = counts.iter().map(|&count| {
            let ways = ways_of(count).max().unwrap_or(1) as usize;
            (Sets::new(count as usize, ways), vec![0; ways + 1])
        });
        let least: Vec<_> = counts.iter().map(|&count| (count, ways_of(count).min().unwrap_or(1))).collect();
        // With the one that sinks out of it they are fewer than any array of the stack holds.
        let room = capacities.first().map_or(recent::MOST, |&least| recent::MOST.min(least.saturating_sub(2) as usize));
        Orders {
            recent: Recent::new(if often { room } else { 0 }, &least),
            stack: Stack::new(&capacities),
            at_depth: vec![0; capacities.len() + 1],
            sets: sets.collect(),
            capacities,
            near: 0,
            near_missed: Box::new([[0; recent::WORDS]; recent::COUNTS]),
        }
    }

    /// Uses `tag` if it is one of the pages used last, and says whether it is.
    #[inline(always)]
    pub fn use_near(&mut self, tag: u64) -> bool {
        if !self.recent.is_used() {
            let first = self.stack.is_first(tag);
            self.near += u64::from(first);
            return first;
        }
        if !self.recent.is_first(tag) {
            let Some(depth) = self.recent.find(tag) else { return false };
            // Most stand near the top, and the search there is short.
            match depth {
                0..4 => self.use_at::<4>(depth, tag),
                4..16 => self.use_at::<16>(depth, tag),
                _ => self.use_at::<{ recent::WORDS }>(depth, tag),
            }
        }
        self.near += 1;
        true
    }

    /// Uses `tag`, which stands among those used last at `depth`, less than `WITHIN`.
    #[inline(always)]
    fn use_at<const WITHIN: usize>(&mut self, depth: usize, tag: u64) {
        let above = self.recent.above::<WITHIN>(tag, depth);
        // At lesser depths no array misses, and nobody asks.
        let mut missed = self.recent.missed(&above);
        while missed != 0 {
            let at = missed.trailing_zeros() as usize & (recent::COUNTS - 1);
            self.near_missed[at][usize::from(above[at]) % recent::WORDS] += 1;
            missed &= missed - 1;
        }
        self.recent.raise::<WITHIN>(depth, tag);
    }

    /// Uses `tag`, of page `number`, which is not one of them.
    pub fn use_far(&mut self, number: u64, tag: u64) {
        let depth = self.stack.use_tag(tag);
        self.at_depth[depth] += 1;
        if self.recent.is_used() {
            return self.use_below(number, tag);
        }
        for (sets, at_depth) in &mut self.sets {
            let depth = sets.use_tag(number, tag);
            if depth == 0 {
                // More sets have fewer pages in each: it stands at the top there too.
                return;
            }
            at_depth[depth] += 1;
        }
    }

    /// The sets' part of that: the page joins those used last, and another may sink.
    fn use_below(&mut self, number: u64, tag: u64) {
        let above = self.recent.above::<{ recent::WORDS }>(tag, self.recent.len());
        let sinks = self.recent.join(tag);
        if let Some(sinks) = sinks {
            self.stack.sink(sinks);
        }
        let mut below = [0; recent::COUNTS];
        for ((sets, _), below) in self.sets.iter_mut().zip(&mut below) {
            *below = sets.leave(number, tag);
            if let Some(sinks) = sinks {
                sets.push(number_of(sinks), sinks);
            }
        }
        for ((_, at_depth), (above, below)) in self.sets.iter_mut().zip(above.iter().zip(below)) {
            let ways = at_depth.len() - 1;
            at_depth[ways.min(usize::from(*above) + below)] += 1;
        }
    }

    /// Stack and sets learn of all uses.
    fn settle(&mut self) {
        self.stack.settle_all(self.recent.tags().iter().rev().copied());
        while let Some(tag) = self.recent.take_last() {
            self.sets.iter_mut().for_each(|(sets, _)| sets.push(number_of(tag), tag));
        }
    }

    /// Counts a use of `tag`, of page `number`, which changes no order.
    pub fn ask(&mut self, number: u64, tag: u64) {
        self.settle();
        self.at_depth[self.stack.depth(tag)] += 1;
        for (sets, at_depth) in &mut self.sets {
            at_depth[sets.depth(number, tag)] += 1;
        }
    }

    /// Whether some array holds `tag`, of page `number`.
    pub fn hold(&mut self, number: u64, tag: u64) -> bool {
        self.settle();
        self.stack.depth(tag) < self.capacities.len()
            || self.sets.iter().any(|(sets, at)| sets.depth(number, tag) < at.len() - 1)
    }

    /// Forgets `tag`, of page `number`.
    pub fn remove(&mut self, number: u64, tag: u64) {
        if self.recent.find(tag).is_some() {
            self.settle();
        }
        self.stack.remove(tag);
        self.sets.iter_mut().for_each(|(sets, _)| sets.remove(number, tag));
    }

    /// Forgets every tag for which `doomed` says so.
    pub fn remove_all(&mut self, doomed: impl Fn(u64) -> bool) {
        self.settle();
        self.stack.remove_all(&doomed);
        self.sets.iter_mut().for_each(|(sets, _)| sets.remove_all(&doomed));
    }

    /// Counts from now on.
    pub fn restart(&mut self) {
        self.at_depth.fill(0);
        self.near = 0;
        self.near_missed.as_flattened_mut().fill(0);
        self.sets.iter_mut().for_each(|(_, at_depth)| at_depth.fill(0));
    }

    /// How many uses were counted.
    pub fn uses(&self) -> u64 {
        self.near + self.at_depth.iter().sum::<u64>()
    }

    /// How many of them missed in an array of this geometry, which is one of those wanted.
    pub fn misses(&self, geometry: Geometry) -> u64 {
        if let Ok(at) = self.capacities.binary_search(&geometry.entries)
            && geometry.ways == geometry.entries
        {
            return self.at_depth[at + 1..].iter().sum();
        }
        let count = u64::from(geometry.entries / geometry.ways);
        let at = self.sets.partition_point(|(sets, _)| sets.count() < count);
        let ways = geometry.ways as usize;
        let near = self.near_missed.get(at).map_or(0, |missed| missed[ways.min(recent::WORDS)..].iter().sum());
        near + self.sets[at].1[ways..].iter().sum::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::Array;
    use crate::config::Replacement;
    use reach_core::Random;

    /// Pages near one another and far apart, used again soon and late, forgotten one by one and many at a time.
    #[test]
    fn every_geometry_misses_as_an_array_of_that_form() {
        let forms =
            [(1, 1), (16, 16), (17, 17), (65, 65), (80, 80), (200, 200), (2, 1), (24, 12), (12, 3), (64, 4), (256, 1)];
        for (seed, leave_out) in (0..12).map(|seed| (seed, seed as usize % 4)) {
            let mut wanted: Vec<_> =
                forms[leave_out..].iter().map(|&(entries, ways)| Geometry { entries, ways }).collect();
            wanted.sort_unstable();
            let mut arrays: Vec<_> = wanted
                .iter()
                .map(|g| (Array::<bool>::new(g.entries as usize, g.ways as usize, Replacement::Lru, 0), 0))
                .collect();
            let (mut orders, mut random) = (Orders::new(&wanted, seed % 3 != 0), Random::new(seed));
            for step in 0..30_000 {
                let span = [5, 40, 90, 400][random.below(4) as usize];
                let number = random.below(span) * [1, 1, 3, 64][random.below(4) as usize];
                let tag = 1 << 63 | number;
                match random.below(200) {
                    0 => {
                        arrays.iter_mut().for_each(|(array, _)| _ = array.remove(number as usize % array.sets(), tag));
                        orders.remove(number, tag);
                    }
                    1 if step % 8 == 0 => {
                        let doomed = |other: u64| other % 3 == tag % 3;
                        arrays.iter_mut().for_each(|(array, _)| array.remove_all(doomed));
                        orders.remove_all(doomed);
                    }
                    2 => {
                        let held = arrays.iter().any(|(array, _)| array.holds(number as usize % array.sets(), tag));
                        assert_eq!(orders.hold(number, tag), held, "seed {seed}, step {step}");
                    }
                    _ => {
                        for (array, misses) in &mut arrays {
                            let set = number as usize % array.sets();
                            if array.lookup(set, tag).is_none() {
                                array.insert(set, tag, false);
                                *misses += 1;
                            }
                        }
                        if !orders.use_near(tag) {
                            orders.use_far(number, tag);
                        }
                    }
                }
            }
            for (&geometry, (_, misses)) in wanted.iter().zip(&arrays) {
                assert_eq!(orders.misses(geometry), *misses, "seed {seed}, {geometry:?}");
            }
        }
    }
}
