use super::*;
use crate::{PageShift, Pfn, Random};
use std::collections::BTreeMap;

/// A memory of `left` free pages, which allocates the lowest.
struct Frames {
    left: u64,
    taken: BTreeMap<PhysAddr, u64>,
}

impl Frames {
    fn new(left: u64) -> Frames {
        Frames { left, taken: BTreeMap::new() }
    }
}

impl FrameSource for Frames {
    fn allocate_table(&mut self, bytes: u64) -> Option<PhysAddr> {
        self.left = self.left.checked_sub(1)?;
        let at = (1..).map(|page| PhysAddr(page * bytes)).find(|at| !self.taken.contains_key(at))?;
        self.taken.insert(at, bytes);
        Some(at)
    }

    fn free_table(&mut self, at: PhysAddr, bytes: u64) {
        assert_eq!(self.taken.remove(&at), Some(bytes));
        self.left += 1;
    }
}

fn range(vpn: u64, pages: u64) -> RangeTranslation {
    RangeTranslation { vpn: Vpn(vpn), pages, pte: Pte::new(Pfn(vpn + 1000), PageShift(12)).with_writable(true) }
}

/// §4.2: "each node accommodates four range translations and points to five children, e.g., up to 124 range
/// translations in three levels"; a page of 4 KB has room for 128.
#[test]
fn three_levels_hold_124_ranges_in_one_page_for_any_insertion_order() {
    for order in 0..4 {
        let mut numbers: Vec<u64> = (0..124).collect();
        match order {
            0 => {}
            1 => numbers.reverse(),
            _ => {
                let mut random = Random::new(order);
                (1..124).rev().for_each(|i| numbers.swap(i, random.below(i as u64 + 1) as usize));
            }
        }
        let mut frames = Frames::new(10);
        let mut table = RangeTable::new(4096, &mut frames).unwrap();
        for (n, &number) in numbers.iter().enumerate() {
            assert!(table.insert(range(number * 10, 8), &mut frames));
            table.check();
            let levels = (1..).find(|&levels| RangeTable::capacity(levels) > n).unwrap();
            assert_eq!(table.height(), levels, "{} ranges, order {order}", n + 1);
        }
        assert_eq!((table.height(), table.bytes()), (3, 4096));
        let mut read = Vec::new();
        for number in 0..124 {
            read.clear();
            let found = table.walk(Vpn(number * 10 + 7), |at| read.push(at));
            assert_eq!(found, Some(range(number * 10, 8)));
            assert!(read.len() <= 3 && read[0] == table.root(), "{read:?}");
            assert_eq!(table.walk(Vpn(number * 10 + 8), |_| {}), None);
        }
        assert!(table.insert(range(5000, 1), &mut frames));
        assert_eq!(table.height(), 4);
    }
}

#[test]
fn levels_hold_4_and_24_and_124_and_624() {
    assert_eq!([1, 2, 3, 4].map(RangeTable::capacity), [4, 24, 124, 624]);
}

/// Inserts, removes and replaces at random, compared with a sorted list. Some seeds run out of memory.
#[test]
fn a_range_table_behaves_like_a_sorted_list() {
    for seed in 0..12 {
        let mut random = Random::new(seed);
        let mut frames = Frames::new(if seed % 3 == 0 { 3 } else { 1000 });
        let page = if seed % 2 == 0 { 4096 } else { 16384 };
        let mut table = RangeTable::new(page, &mut frames).unwrap();
        let mut list: Vec<RangeTranslation> = Vec::new();
        let slots = [30, 300, 3000][seed as usize % 3];
        for step in 0..3000u64 {
            // Alternates between growing and shrinking.
            let grows = step / 500 % 2 == 0;
            let slot = random.below(slots) * 10;
            let known = list.iter().position(|range| range.vpn.0 / 10 == slot / 10);
            match (known, random.below(4) < if grows { 3 } else { 1 }) {
                (None, true) => {
                    let new = range(slot + random.below(3), 1 + random.below(7));
                    if table.insert(new, &mut frames) {
                        list.insert(list.partition_point(|range| range.vpn < new.vpn), new);
                    } else {
                        assert_eq!(frames.left, 0, "refused although memory was left");
                    }
                }
                (Some(at), true) => {
                    let with = range(slot + random.below(3), 1 + random.below(7));
                    table.replace(list[at].vpn, with);
                    list[at] = with;
                }
                (Some(at), false) => {
                    assert_eq!(table.remove(list[at].vpn, &mut frames), Some(list[at]));
                    list.remove(at);
                }
                (None, false) => assert_eq!(table.remove(Vpn(slot + 9), &mut frames), None),
            }
            table.check();
            assert_eq!(table.ranges(), list);
            let at = Vpn(random.below(slots * 10));
            assert_eq!(table.walk(at, |_| {}), list.iter().copied().find(|range| range.contains(at)));
            assert_eq!(table.first_ending_after(at), list.iter().copied().find(|range| range.end() > at));
            assert_eq!(table.last_starting_before(at), list.iter().copied().rfind(|range| range.vpn < at));
            let pages = random.below(50);
            let overlaps = |range: &&RangeTranslation| range.vpn.0 < at.0 + pages && range.end() > at;
            assert_eq!(table.overlapping(at, pages), list.iter().filter(overlaps).copied().collect::<Vec<_>>());
        }
        for range in list {
            table.remove(range.vpn, &mut frames);
        }
        table.check();
        assert!(table.is_empty() && table.height() == 1 && table.bytes() <= 2 * page);
        table.release(&mut frames);
        assert!(frames.taken.is_empty(), "frames were lost");
    }
}

#[test]
fn accesses_of_the_operating_system_are_recorded_and_walks_are_not() {
    let mut frames = Frames::new(1);
    let mut table = RangeTable::new(4096, &mut frames).unwrap();
    table.insert(range(0, 8), &mut frames);
    let root = table.root();
    assert_eq!(
        table.take_accesses(),
        [NodeAccess { at: root, written: false }, NodeAccess { at: root, written: true }]
    );
    table.walk(Vpn(0), |_| {});
    assert!(table.take_accesses().is_empty(), "a walk is not an access of the operating system");
}

#[test]
fn subranges_keep_their_frames_and_continue_one_another() {
    let whole = range(100, 20);
    let (left, right) = (whole.subrange(Vpn(100), 5), whole.subrange(Vpn(105), 15));
    assert!(left.is_continued_by(&right) && !right.is_continued_by(&left));
    assert_eq!(right.pte_at(Vpn(110)), whole.pte_at(Vpn(110)));
    assert!(!left.is_continued_by(&RangeTranslation { pte: right.pte.with_writable(false), ..right }));
}
