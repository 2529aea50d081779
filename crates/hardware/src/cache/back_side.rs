//! Translation behind the last cache (Gupta et al., *Rebooting Virtual Memory with Midgard*, ISCA 2021).
//!
//! Caches hold lines by addresses of an intermediate space. What misses in the last cache is translated by a table whose levels
//! each lie in one piece, so that the address of any entry follows from the address that is translated. A walk begins at the
//! lowest level, where most entries are in the last cache. It goes up until one is, or to the root, and down again through memory.

use crate::array::Array;
use crate::config::Replacement;
use reach_core::{BackSideOptions, PageShift, PhysAddr};

/// The table of the intermediate space, outside of it: a region for each level.
const TABLE: u64 = 1 << 47;
/// Binary logarithm of the distance between two levels.
const LEVEL_AT: u32 = 41;
/// Binary logarithm of the entries that one of the next level covers.
const FANOUT: u32 = 9;
/// Levels below the root, which the translator knows.
const LEVELS: u32 = 4;

/// Counts of a translator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackSideCounters {
    /// Accesses that missed in the last cache, the kernel's zeroing of pages included; page walks left out.
    pub translations: u64,
    /// Of these, those that its cache of translations did not answer.
    pub misses: u64,
    /// Entries that were looked up in the last cache.
    pub accesses: u64,
    /// Of these, entries that were read from memory.
    pub memory_reads: u64,
    /// Cycles of all translations.
    pub cycles: u64,
}

/// The translator.
#[derive(Clone, Debug)]
pub struct BackSide {
    page: PageShift,
    latency: u32,
    /// Its cache of translations (the paper's MLB).
    held: Option<Array<u64>>,
    /// Counts since the start.
    pub counters: BackSideCounters,
}

/// The last cache and memory, as the translator sees them.
pub(super) trait LastCache {
    /// Looks up the line of an entry, and fills it. Returns whether it was there, and the cycles that reading it takes.
    fn read(&mut self, entry: PhysAddr) -> (bool, u32);
}

impl BackSide {
    /// Creates a translator for pages of size `page`.
    pub fn new(options: BackSideOptions, page: PageShift) -> BackSide {
        let entries = options.entries as usize;
        let held = (entries > 0).then(|| Array::new(entries, entries, Replacement::Lru, 0));
        BackSide { page, latency: options.latency, held, counters: BackSideCounters::default() }
    }

    /// Translates `at`. Returns the cycles.
    pub(super) fn translate(&mut self, at: PhysAddr, last: &mut dyn LastCache) -> u32 {
        let page = at.pfn(self.page).0;
        self.counters.translations += 1;
        let mut cycles = 0;
        if let Some(held) = &mut self.held {
            cycles += self.latency;
            if held.lookup(0, page + 1).is_some() {
                self.counters.cycles += u64::from(cycles);
                return cycles;
            }
            held.insert(0, page + 1, 0);
        }
        self.counters.misses += 1;
        // An entry that is not found is filled when the walk comes down to it again, by then with what the level above says.
        for level in 0..LEVELS {
            let (found, read) = last.read(entry(page, level));
            cycles += read;
            self.counters.accesses += 1;
            self.counters.memory_reads += u64::from(!found);
            if found {
                break;
            }
        }
        self.counters.cycles += u64::from(cycles);
        cycles
    }
}

/// Returns the address of the entry of `level` for a page; 0 is the level of pages.
fn entry(page: u64, level: u32) -> PhysAddr {
    PhysAddr(TABLE + (u64::from(level) << LEVEL_AT) + (page >> (FANOUT * level)) * 8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// A cache that keeps everything: 30 cycles, and 200 more from memory.
    #[derive(Default)]
    struct Everything(BTreeSet<u64>);

    impl LastCache for Everything {
        fn read(&mut self, entry: PhysAddr) -> (bool, u32) {
            let found = !self.0.insert(entry.0 >> 6);
            (found, if found { 30 } else { 230 })
        }
    }

    fn translator(entries: u32) -> BackSide {
        BackSide::new(BackSideOptions { entries, latency: 3 }, PageShift(12))
    }

    #[test]
    fn a_walk_goes_up_to_the_first_entry_in_the_cache() {
        let (mut translator, mut cache) = (translator(0), Everything::default());
        assert_eq!(translator.translate(PhysAddr(0x5000), &mut cache), 4 * 230, "nothing is cached");
        assert_eq!(translator.translate(PhysAddr(0x5040), &mut cache), 30, "the same page");
        assert_eq!(translator.translate(PhysAddr(0x7000), &mut cache), 30, "an entry in the same line");
        assert_eq!(
            translator.translate(PhysAddr(0x8000), &mut cache),
            230 + 30,
            "the next line, of the same upper entry"
        );
        assert_eq!(
            translator.translate(PhysAddr(1 << 30), &mut cache),
            2 * 230 + 30,
            "another upper entry, in the same line above"
        );
        let c = translator.counters;
        assert_eq!((c.translations, c.misses, c.accesses, c.memory_reads), (5, 5, 4 + 1 + 1 + 2 + 3, 4 + 1 + 2));
        assert_eq!(c.cycles, 4 * 230 + 30 + 30 + 260 + 490);
    }

    #[test]
    fn translations_that_it_holds_take_no_walk() {
        let (mut translator, mut cache) = (translator(2), Everything::default());
        let cycles = [1, 1, 2, 1, 3, 1, 2].map(|page| translator.translate(PhysAddr(page << 12), &mut cache));
        assert_eq!(cycles, [3 + 920, 3, 33, 3, 33, 3, 33], "of three pages, the one used longest ago has left");
        assert_eq!(translator.counters.misses, 4);
    }

    #[test]
    fn levels_do_not_overlap() {
        let last = entry((1 << (48 - 12)) - 1, 0);
        assert!(last < entry(0, 1));
    }
}
