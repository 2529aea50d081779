//! Patterns of pages whose translations no TLB holds, so that each visit walks.
//!
//! A line of the page table holds eight entries. Of lines of entries and of data only the first of each pair is visited: whether or
//! not a processor fetches pairs together, they take the room of pairs. Each page has one visited line, at a random place.

use super::{PAIR, Page, Pattern, shuffled};
use reach_core::Random;

/// Pages whose entries share a line of the page table.
pub(crate) const ENTRIES: u64 = 8;
/// Pages whose entries share a pair of lines.
const SPACING: u64 = 16;
/// Pages whose entries share a table.
const TABLE: u64 = 512;

impl Pattern {
    /// Visits small pages by their `lines` lines of page-table entries, `group` lines at a time, in random order. A group is
    /// visited `visits` times, 1 to 8, each time at another page of each line. So a line of entries comes again after `group`
    /// visits, except the first time of a lap.
    pub fn walks(lines: u64, group: u64, visits: u64) -> Pattern {
        let mut random = Random::new(lines ^ group << 32);
        let mut chain = Vec::new();
        for first in (0..lines).step_by(group.max(1) as usize) {
            let group = shuffled((first..lines.min(first + group)).collect());
            let turns: Vec<u64> = group.iter().map(|_| random.below(ENTRIES)).collect();
            for visit in 0..visits.min(ENTRIES) {
                let page = |(line, turn): (&u64, &u64)| line * SPACING + (visit * 3 + turn) % ENTRIES;
                chain.extend(group.iter().zip(&turns).map(page).map(|page| place(page, &mut random)));
            }
        }
        Pattern::loads(Page::Small, chain)
    }

    /// Visits about `pages` small pages that lie in `regions` consecutive parts of 2 MB: one of each part in random order, then the
    /// next of each. So the entry above the leaf comes again after `regions` visits, a line of leaf entries after an eighth
    /// of `pages`, and a page after all, whatever `regions` is. A part has up to 512 pages, in lines of entries from another one on.
    pub fn regions(regions: u64, pages: u64) -> Pattern {
        let mut random = Random::new(regions ^ pages << 32);
        let each = (pages / regions).clamp(1, TABLE);
        let (order, lines) = (shuffled((0..regions).collect()), each.div_ceil(ENTRIES));
        let turns = shuffled((0..lines).collect());
        let starts: Vec<u64> = order.iter().map(|_| random.below(TABLE / ENTRIES)).collect();
        let mut chain = Vec::new();
        for i in 0..each {
            for (region, start) in order.iter().zip(&starts) {
                let line = (turns[(i % lines) as usize] + start) % (TABLE / ENTRIES);
                chain.push(place(region * TABLE + line * ENTRIES + i / lines, &mut random));
            }
        }
        Pattern::loads(Page::Small, chain)
    }

    /// Visits one small page, at a random place, of each of `tables` consecutive parts of 2 MB, in random order: each visit reads
    /// a page table of its own.
    pub fn tables(tables: u64) -> Pattern {
        let mut random = Random::new(tables);
        let visits = shuffled((0..tables).collect()).into_iter().map(|table| {
            let page = table * TABLE + random.below(TABLE);
            place(page, &mut random)
        });
        Pattern::loads(Page::Small, visits.collect())
    }
}

/// Returns the first line of a random pair of a small page.
fn place(page: u64, random: &mut Random) -> u64 {
    page * Page::Small.bytes() + random.below(Page::Small.bytes() / PAIR) * PAIR
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn pages(pattern: &Pattern) -> Vec<u64> {
        pattern.chains[0].iter().map(|at| at / Page::Small.bytes()).collect()
    }

    #[test]
    fn lines_of_entries_come_again_after_a_group_and_pages_after_a_lap() {
        let visited = pages(&Pattern::walks(64, 16, 8));
        assert_eq!(visited.iter().collect::<BTreeSet<_>>().len(), 64 * 8);
        for (i, page) in visited.iter().enumerate().filter(|(i, _)| i % 128 >= 16) {
            assert_eq!(page / 8, visited[i - 16] / 8, "the same line of entries");
        }
        assert_eq!(pages(&Pattern::walks(100, 32, 1)).iter().map(|page| page / 16).collect::<BTreeSet<_>>().len(), 100);
    }

    #[test]
    fn regions_come_again_after_all_of_them_and_lines_of_entries_after_an_eighth_of_the_pages() {
        for regions in [8, 32, 256] {
            let visited = pages(&Pattern::regions(regions, 4096));
            assert_eq!(visited.iter().collect::<BTreeSet<_>>().len(), 4096);
            assert!(visited.windows(regions as usize + 1).all(|w| w[0] / 512 == w[regions as usize] / 512));
            assert!(visited.windows(513).all(|w| w[0] / 8 == w[512] / 8));
        }
        assert_eq!(pages(&Pattern::tables(50)).iter().map(|page| page / 512).collect::<BTreeSet<_>>().len(), 50);
    }
}
