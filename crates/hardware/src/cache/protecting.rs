//! xPTP: sets that keep lines with page-table entries of data longer than others (Chasapis et al., ASPLOS 2025).
//!
//! Ways are in order of recency. The victim is the least recently used line, unless that has such entries and one of the few lines above
//! has none.

use super::lines::Sets;

/// The lines from the least recently used on among which one without entries is sought (the paper's K).
const SOUGHT: usize = 8;

const DIRTY: u64 = 1;
const ENTRIES: u64 = 2;
/// The word of a free way.
const FREE: u64 = 0;

/// Sets of any width. A word is the number of a line plus 1, and two flags.
#[derive(Clone, Debug)]
pub(crate) struct ProtectingLines {
    ways: usize,
    words: Vec<u64>,
}

impl ProtectingLines {
    pub fn new(sets: usize, ways: usize) -> ProtectingLines {
        ProtectingLines { ways, words: vec![FREE; sets * ways] }
    }

    fn set(&mut self, set: usize) -> &mut [u64] {
        &mut self.words[set * self.ways..(set + 1) * self.ways]
    }

    fn find(&self, set: usize, line: u64) -> Option<usize> {
        let words = &self.words[set * self.ways..(set + 1) * self.ways];
        words.iter().position(|word| word >> 2 == line + 1)
    }
}

impl Sets for ProtectingLines {
    fn touch(&mut self, set: usize, line: u64, written: bool) -> bool {
        let Some(way) = self.find(set, line) else { return false };
        let words = self.set(set);
        words[..=way].rotate_right(1);
        words[0] |= if written { DIRTY } else { 0 };
        true
    }

    fn insert(&mut self, set: usize, line: u64, dirty: bool, entries: bool) -> Option<u64> {
        let words = self.set(set);
        let last = words.len() - 1;
        // A free way has no entries.
        let sought = words.iter().rposition(|word| word & ENTRIES == 0).filter(|way| last - way < SOUGHT);
        let victim = sought.unwrap_or(last);
        let old = words[victim];
        words[..=victim].rotate_right(1);
        words[0] = (line + 1) << 2 | if dirty { DIRTY } else { 0 } | if entries { ENTRIES } else { 0 };
        (old & DIRTY != 0).then(|| (old >> 2) - 1)
    }

    fn contains(&self, set: usize, line: u64) -> bool {
        self.find(set, line).is_some()
    }

    fn prefetch(&self, _set: usize) {}

    fn remove(&mut self, set: usize, line: u64) -> bool {
        let Some(way) = self.find(set, line) else { return false };
        let words = self.set(set);
        let word = words[way];
        words[way..].rotate_left(1);
        words[words.len() - 1] = FREE;
        word & DIRTY != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_with_entries_stay_while_others_are_among_the_oldest() {
        let mut lines = ProtectingLines::new(1, 16);
        (0..4).for_each(|line| assert_eq!(lines.insert(0, line, false, true), None));
        (4..16).for_each(|line| assert_eq!(lines.insert(0, line, true, false), None));
        // Lines 0 to 3 are the oldest; 4 to 7 are sought, too.
        for line in 16..100 {
            assert_eq!(lines.insert(0, line, true, false), Some(line - 12), "{line}");
        }
        assert!((0..4).all(|line| lines.find(0, line).is_some()));
    }

    #[test]
    fn the_oldest_goes_where_all_that_are_sought_have_entries() {
        let mut lines = ProtectingLines::new(1, 16);
        (0..16).for_each(|line| _ = lines.insert(0, line, line == 0, line < 8));
        assert_eq!(lines.insert(0, 20, false, false), Some(0), "lines 0 to 7 are the eight oldest");
        assert!(lines.touch(0, 1, false) && !lines.remove(0, 8));
        assert!(lines.find(0, 8).is_none() && lines.find(0, 2).is_some());
    }
}
