//! The twin of all set-associative arrays, with each replacement policy spelled out: time stamps for LRU, a tree of
//! flags for tree-PLRU (three trees where it rotates), reference bits for NRU, ages for quad-age LRU, a stack for iTP, time
//! stamps and a predictor for CHiRP.

use crate::reuse_predictor::{Prediction, ReusePredictor};
use reach_core::Random;
use reach_hardware::config::Replacement;
use std::collections::BTreeMap;

/// A valid way.
#[derive(Clone, Debug)]
struct Way<K, V> {
    key: K,
    value: V,
    last_use: u64,
    referenced: bool,
    /// From 0 to 3, for quad-age LRU.
    age: u8,
    /// A translation of instructions (iTP), or a line with page-table entries of data (xPTP).
    kept: bool,
    /// Uses since it came, for iTP.
    uses: u32,
    /// What CHiRP predicts.
    prediction: Prediction,
}

/// One set.
#[derive(Clone, Debug)]
struct Set<K, V> {
    ways: Vec<Option<Way<K, V>>>,
    /// For each range of ways that the tree divides, whether the victim is in its upper half.
    victim_in_upper: BTreeMap<(usize, usize), bool>,
    /// The way used last.
    last: usize,
    /// The valid ways from the top of iTP's stack down.
    stack: Vec<usize>,
}

/// A set-associative array. Its owner maps keys to sets.
#[derive(Clone, Debug)]
pub struct Array<K, V> {
    sets: Vec<Set<K, V>>,
    replacement: Replacement,
    random: Random,
    now: u64,
    /// CHiRP's predictor; other policies have none.
    pub reuse: Option<ReusePredictor>,
}

impl<K: PartialEq + Copy, V: Copy> Array<K, V> {
    /// Creates an empty array of `entries` entries in sets of `ways`. `seed` is for random replacement.
    pub fn new(entries: u32, ways: u32, replacement: Replacement, seed: u64) -> Array<K, V> {
        let set = || Set {
            ways: (0..ways).map(|_| None).collect(),
            victim_in_upper: BTreeMap::new(),
            last: 0,
            stack: Vec::new(),
        };
        let reuse = match replacement {
            Replacement::ReusePrediction(signature) => Some(ReusePredictor::new(signature)),
            _ => None,
        };
        Array {
            sets: (0..entries / ways).map(|_| set()).collect(),
            replacement,
            random: Random::new(seed),
            now: 0,
            reuse,
        }
    }

    /// Returns the number of sets.
    pub fn sets(&self) -> u64 {
        self.sets.len() as u64
    }

    /// Returns the value of `key`. Counts as a use.
    pub fn lookup(&mut self, set: u64, key: K) -> Option<&mut V> {
        let way = self.find(set, key)?;
        self.record_use(set, way);
        self.set_age(set, way, 0);
        self.climb(set, way);
        let used = self.sets[set as usize].ways[way].as_mut()?;
        if let Some(reuse) = &mut self.reuse {
            used.prediction = reuse.hit(set, used.prediction);
        }
        Some(&mut used.value)
    }

    /// Returns the value of `key`, to be changed. Counts as no use.
    pub fn value_mut(&mut self, set: u64, key: K) -> Option<&mut V> {
        let way = self.find(set, key)?;
        self.sets[set as usize].ways[way].as_mut().map(|w| &mut w.value)
    }

    /// Inserts `key`, or changes its value. Counts as a use. Returns the victim, if there was one.
    pub fn insert(&mut self, set: u64, key: K, value: V) -> Option<(K, V)> {
        self.insert_kept(set, key, value, false)
    }

    /// Inserts `key`, which iTP and xPTP keep longer than others if it is `kept`.
    pub fn insert_kept(&mut self, set: u64, key: K, value: V, kept: bool) -> Option<(K, V)> {
        let held = self.find(set, key);
        let way = held.or_else(|| self.free_way(set)).unwrap_or_else(|| self.victim(set));
        let evicted = self.sets[set as usize].ways[way].as_ref().map(|old| old.prediction);
        let predicted = self.reuse.as_mut().map(|reuse| {
            evicted.into_iter().for_each(|victim| reuse.evict(victim));
            reuse.insert(set)
        });
        let prediction = predicted.unwrap_or_default();
        let new = Way { key, value, last_use: 0, referenced: false, age: 0, kept, uses: 0, prediction };
        let old = self.sets[set as usize].ways[way].replace(new);
        self.record_use(set, way);
        self.set_age(set, way, if held.is_some() { 0 } else { 1 });
        let stack = &mut self.sets[set as usize].stack;
        stack.retain(|&other| other != way);
        stack.insert(if kept { stack.len().min(4) } else { stack.len() }, way);
        old.filter(|old| old.key != key).map(|old| (old.key, old.value))
    }

    /// Removes every key for which `is_removed` returns true.
    pub fn remove_if(&mut self, is_removed: impl Fn(K) -> bool) {
        for set in &mut self.sets {
            for way in &mut set.ways {
                if way.as_ref().is_some_and(|w| is_removed(w.key)) {
                    *way = None;
                }
            }
            set.stack.retain(|&way| set.ways[way].is_some());
        }
    }

    /// Returns all keys and values, set by set.
    pub fn entries(&self) -> impl Iterator<Item = (K, V)> {
        self.sets.iter().flat_map(|s| s.ways.iter().flatten()).map(|w| (w.key, w.value))
    }

    fn find(&self, set: u64, key: K) -> Option<usize> {
        self.sets[set as usize].ways.iter().position(|w| w.as_ref().is_some_and(|w| w.key == key))
    }

    fn free_way(&self, set: u64) -> Option<usize> {
        self.sets[set as usize].ways.iter().position(|w| w.is_none())
    }

    /// Returns the way to evict from a full set.
    fn victim(&mut self, set: u64) -> usize {
        let Set { ways, victim_in_upper, last, stack } = &self.sets[set as usize];
        let held = || ways.iter().flatten().enumerate();
        match self.replacement {
            Replacement::Lru => held().min_by_key(|(_, w)| w.last_use).expect("a set has ways").0,
            Replacement::TreePlru | Replacement::RotatingPlru => {
                let (mut from, mut to) = (0, ways.len());
                if self.replacement == Replacement::RotatingPlru {
                    let third = ways.len() / 3;
                    from = (last / third + 1) % 3 * third;
                    to = from + third;
                }
                while to - from > 1 {
                    let middle = (from + to) / 2;
                    if victim_in_upper.get(&(from, to)) == Some(&true) {
                        from = middle;
                    } else {
                        to = middle;
                    }
                }
                from
            }
            // Only in a set of one way are all referenced.
            Replacement::Nru => held().find(|(_, w)| !w.referenced).map_or(0, |(i, _)| i),
            // Only in a set of one way has none age 3.
            Replacement::QuadAgeLru => held().find(|(_, w)| w.age == 3).map_or(0, |(i, _)| i),
            Replacement::InstructionAware => stack[stack.len() - 1],
            Replacement::ReusePrediction(_) => {
                held().min_by_key(|(_, w)| (!w.prediction.dead, w.last_use)).expect("a set has ways").0
            }
            Replacement::PageTableAware => {
                let mut oldest: Vec<_> = held().map(|(i, w)| (w.last_use, w.kept, i)).collect();
                oldest.sort();
                let sought = oldest.iter().take(8).find(|(_, kept, _)| !kept);
                sought.unwrap_or(&oldest[0]).2
            }
            Replacement::Random => self.random.below(ways.len() as u64) as usize,
        }
    }

    /// Moves `way` up iTP's stack for a use: instructions to the fifth place, and to the top after seven uses; data to the ninth
    /// place from the end of a full set.
    fn climb(&mut self, set: u64, way: usize) {
        let Set { ways, stack, .. } = &mut self.sets[set as usize];
        let (all, Some(used)) = (ways.len(), &mut ways[way]) else { return };
        used.uses += 1;
        let to = match used.kept {
            true if used.uses > 7 => 0,
            true => 4,
            false => all.saturating_sub(9),
        };
        let from = stack.iter().position(|&other| other == way).expect("a valid way is in the stack");
        if to < from {
            stack.remove(from);
            stack.insert(to, way);
        }
    }

    /// Sets the age of `way`. While no other way is free or has age 3, all others grow older.
    fn set_age(&mut self, set: u64, way: usize, age: u8) {
        let ways = &mut self.sets[set as usize].ways;
        if let Some(used) = &mut ways[way] {
            used.age = age;
        }
        let mut others: Vec<_> =
            ways.iter_mut().enumerate().filter(|&(i, _)| i != way).map(|(_, other)| other).collect();
        while !others.is_empty() && others.iter().all(|other| other.as_ref().is_some_and(|other| other.age < 3)) {
            others.iter_mut().filter_map(|other| other.as_mut()).for_each(|other| other.age += 1);
        }
    }

    fn record_use(&mut self, set: u64, way: usize) {
        self.now += 1;
        let Set { ways, victim_in_upper, last, .. } = &mut self.sets[set as usize];
        *last = way;
        if let Some(used) = &mut ways[way] {
            used.last_use = self.now;
            used.referenced = true;
        }
        // A free way counts as not referenced.
        if ways.iter().all(|w| w.as_ref().is_some_and(|w| w.referenced)) {
            for (i, other) in ways.iter_mut().flatten().enumerate() {
                other.referenced = i == way;
            }
        }
        let (mut from, mut to) = (0, ways.len());
        if self.replacement == Replacement::RotatingPlru {
            from = way - way % (ways.len() / 3);
            to = from + ways.len() / 3;
        }
        while to - from > 1 {
            let middle = (from + to) / 2;
            let in_upper = way >= middle;
            victim_in_upper.insert((from, to), !in_upper);
            if in_upper {
                from = middle;
            } else {
                to = middle;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Inserts 1, 2, 3 and 4, uses 1, then inserts 5 and 6. Returns the victims.
    fn victims(replacement: Replacement) -> Vec<u32> {
        let mut array = Array::new(4, 4, replacement, 7);
        for key in 1..=4u32 {
            assert!(array.insert(0, key, ()).is_none());
        }
        assert!(array.lookup(0, 1).is_some());
        [5, 6].into_iter().filter_map(|key| array.insert(0, key, ())).map(|(key, ())| key).collect()
    }

    #[test]
    fn each_policy_evicts_as_it_is_defined() {
        assert_eq!(victims(Replacement::Lru), [2, 3]);
        // The tree points away from 1, to the upper half, and there away from 4. Then it points away from 5, in 3's
        // way.
        assert_eq!(victims(Replacement::TreePlru), [3, 2]);
        // Inserting 4 cleared the bits of 1, 2 and 3. Then 1 was used.
        assert_eq!(victims(Replacement::Nru), [2, 3]);
        // All were filled with age 1, and 1, 2 and 3 aged to 3 when no way was free. Then 1 was used.
        assert_eq!(victims(Replacement::QuadAgeLru), [2, 3]);
        assert_eq!(victims(Replacement::Random).len(), 2);
    }

    #[test]
    fn a_free_way_is_filled_before_any_is_evicted() {
        let mut array = Array::new(2, 2, Replacement::Lru, 0);
        array.insert(0, 1, 10);
        array.insert(0, 2, 20);
        array.remove_if(|key| key == 2);
        assert_eq!(array.insert(0, 3, 30), None);
        assert_eq!(array.insert(0, 3, 31), None);
        assert_eq!(array.entries().collect::<Vec<_>>(), [(1, 10), (3, 31)]);
    }
}
