//! Every organization against a map of the pages that are mapped.

use crate::{
    EditablePageTable, FrameSource, Layout, PageShift, PageTableKind, Pfn, PhysAddr, Pte, Random, Slot, Vpn, Walker,
};
use std::collections::{BTreeMap, BTreeSet};

/// Hands out addresses in sequence, and remembers what has not been freed. Every `fails`th request fails.
#[derive(Default)]
struct Memory {
    next: u64,
    requests: u64,
    fails: Option<u64>,
    /// The most bytes of a block.
    most: Option<u64>,
    out: BTreeMap<PhysAddr, u64>,
}

impl FrameSource for Memory {
    fn allocate_table(&mut self, bytes: u64) -> Option<PhysAddr> {
        self.requests += 1;
        if self.fails.is_some_and(|every| self.requests.is_multiple_of(every))
            || self.most.is_some_and(|most| bytes > most)
        {
            return None;
        }
        self.next = self.next.next_multiple_of(bytes.max(4096));
        let at = PhysAddr(self.next);
        self.next += bytes;
        self.out.insert(at, bytes);
        Some(at)
    }

    fn free_table(&mut self, at: PhysAddr, bytes: u64) {
        assert_eq!(self.out.remove(&at), Some(bytes));
    }
}

/// Remembers what a walk reads, and holds what walk caches hold.
#[derive(Default)]
struct Reads {
    groups: Vec<Vec<PhysAddr>>,
    aside: usize,
    /// The entry that ended the last group.
    found: Option<PhysAddr>,
    held: BTreeSet<(usize, u64)>,
}

impl Walker for Reads {
    fn read(&mut self, at: &[PhysAddr], found: Option<usize>) -> bool {
        self.found = found.map(|index| at[index]);
        self.groups.push(at.to_vec());
        true
    }

    fn read_aside(&mut self, at: &[PhysAddr]) {
        self.aside += at.len();
    }

    fn lookup(&mut self, cache: usize, number: u64) -> bool {
        self.held.contains(&(cache, number))
    }

    fn insert(&mut self, cache: usize, number: u64) {
        self.held.insert((cache, number));
    }
}

impl Reads {
    /// Walks to `vpn` and checks what the walk reads.
    fn walk(&mut self, table: &EditablePageTable, memory: &Memory, vpn: Vpn) -> &[Vec<PhysAddr>] {
        self.groups.clear();
        (self.aside, self.found) = (0, None);
        let organization = table.organization().expect("an organization");
        assert!(organization.walk(vpn, self));
        let read: Vec<_> = self.groups.concat();
        assert_eq!(read.iter().collect::<BTreeSet<_>>().len(), read.len(), "an entry is read twice");
        for at in &read {
            let (start, bytes) = memory.out.range(..=*at).next_back().expect("memory of the table");
            assert!(at.0 < start.0 + bytes, "{at:?} is not of the table");
        }
        if let Some((node, index)) = table.find(vpn) {
            let entry = table.entry_addr_of(vpn, node, index);
            assert!(
                self.groups.last().is_some_and(|last| last.contains(&entry)),
                "the walk to {vpn:?} does not end there"
            );
            assert!(self.found.is_none_or(|found| found == entry), "the walk to {vpn:?} waits for another entry");
        } else {
            assert_eq!(self.found, None, "nothing is mapped at {vpn:?}");
        }
        &self.groups
    }
}

const KINDS: [PageTableKind; 5] = [
    PageTableKind::Hashed,
    PageTableKind::Chained,
    PageTableKind::Cuckoo,
    PageTableKind::Flattened,
    PageTableKind::Learned,
];

fn table(kind: PageTableKind, layout: Layout, memory: &mut Memory) -> EditablePageTable {
    EditablePageTable::new(Layout { kind, ..layout }, memory).unwrap()
}

/// Maps, promotes, demotes and unmaps pages at random in a few regions.
fn random_changes(kind: PageTableKind, layout: &Layout, sizes: &[PageShift], fails: Option<u64>, seed: u64) {
    let mut memory = Memory { fails, ..Memory::default() };
    let mut table = table(kind, layout.clone(), &mut memory);
    let mut random = Random::new(seed);
    let mut reads = Reads::default();
    let mut pages: BTreeMap<u64, PageShift> = BTreeMap::new();
    let largest = sizes.last().unwrap().base_pages(layout.base);
    let within = |pages: &BTreeMap<u64, PageShift>, vpn: u64| {
        let (&start, &size) = pages.range(..=vpn).next_back()?;
        (vpn < start + size.base_pages(layout.base)).then_some((start, size))
    };
    for _ in 0..2000 {
        // Near pages and far ones.
        let span = if random.below(4) == 0 { 4 * largest } else { 64 };
        let vpn = random.below(3) * 7 * largest + random.below(span);
        match random.below(8) {
            0..5 => {
                let size = sizes[random.below(sizes.len() as u64) as usize];
                let vpn = Vpn(vpn).align_down(size, layout.base);
                if within(&pages, vpn.0).is_some_and(|(_, mapped)| mapped >= size) {
                    continue;
                }
                let pte = Pte::new(Pfn(vpn.0), size);
                if table.set(vpn, pte, &mut memory).is_some() {
                    let span = vpn.0..vpn.0 + size.base_pages(layout.base);
                    pages.retain(|page, _| !span.contains(page));
                    pages.insert(vpn.0, size);
                }
            }
            5 => {
                let smaller = |size: PageShift| sizes.iter().rev().copied().find(|&other| other < size);
                let Some((start, size)) = within(&pages, vpn) else { continue };
                let Some(to) = smaller(size).filter(|_| fails.is_none()) else { continue };
                if layout.placement(size).0 != layout.placement(to).0 {
                    table.clear_entries(Vpn(start)).unwrap();
                }
                pages.remove(&start);
                for at in (0..size.base_pages(layout.base)).step_by(to.base_pages(layout.base) as usize) {
                    table.set(Vpn(start + at), Pte::new(Pfn(start + at), to), &mut memory).unwrap();
                    pages.insert(start + at, to);
                }
            }
            _ => {
                let mapped = within(&pages, vpn);
                assert_eq!(table.clear(Vpn(vpn), &mut memory).is_some(), mapped.is_some());
                mapped.and_then(|(start, _)| pages.remove(&start));
            }
        }
        table.take_traffic();
        let any = vpn + random.below(16);
        reads.walk(&table, &memory, Vpn(any));
        assert_eq!(table.lookup(Vpn(any)).is_some(), within(&pages, any).is_some());
        assert_eq!(table.bytes(), memory.out.values().sum::<u64>());
        if random.below(64) == 0 {
            table.check();
            reads.held.clear();
        }
    }
    table.check();
    let found: BTreeMap<u64, PageShift> =
        table.iter_pages(Vpn(0), 64 * largest).map(|page| (page.vpn.0, page.pte.shift())).collect();
    assert_eq!(found, pages);
    let mut copy = table.clone();
    copy.check();
    assert_eq!(copy.bytes(), table.bytes());
    copy.take_traffic();
    table.release(&mut memory);
    assert!(memory.out.is_empty(), "all memory is freed");
}

#[test]
fn walks_end_at_the_entry_of_whatever_is_mapped() {
    let alpha = Layout::radix(PageShift(13), vec![10, 10, 15]);
    let small = Layout::radix(PageShift(12), vec![3, 3, 3, 3]);
    for kind in KINDS {
        for seed in 0..if cfg!(miri) { 1 } else { 8 } {
            random_changes(kind, &small, &[12, 15, 18].map(PageShift), None, seed);
            random_changes(kind, &Layout::x86_64(), &[12, 21].map(PageShift), None, seed);
            random_changes(kind, &alpha, &[13, 16, 19].map(PageShift), None, seed);
        }
    }
}

#[test]
fn exhausted_memory_changes_nothing() {
    let small = Layout::radix(PageShift(12), vec![3, 3, 3, 3]);
    for kind in KINDS {
        for every in 2..12 {
            random_changes(kind, &small, &[12, 15, 18].map(PageShift), Some(every), every);
        }
    }
}

/// Every sequence of five operations on four pages of two sizes.
#[test]
fn small_worlds() {
    let layout = Layout::radix(PageShift(12), vec![1, 1, 1]);
    let operations: Vec<(u64, Option<PageShift>)> =
        [(0, 12), (1, 12), (2, 12), (0, 13), (2, 13)].map(|(vpn, size)| (vpn, Some(PageShift(size)))).to_vec();
    let operations: Vec<_> = operations.into_iter().chain([(0, None), (1, None), (2, None)]).collect();
    let length = if cfg!(miri) { 2 } else { 5 };
    for kind in KINDS {
        for sequence in 0..operations.len().pow(length) {
            let mut memory = Memory::default();
            let mut table = table(kind, layout.clone(), &mut memory);
            let mut reads = Reads::default();
            let mut rest = sequence;
            for _ in 0..length {
                let (vpn, size) = operations[rest % operations.len()];
                rest /= operations.len();
                match size {
                    Some(size) if table.page(Vpn(vpn)).is_none_or(|page| page.pte.shift() < size) => {
                        table.set(Vpn(vpn), Pte::new(Pfn(vpn), size), &mut memory).unwrap();
                    }
                    Some(_) => {}
                    None => _ = table.clear(Vpn(vpn), &mut memory),
                }
                (0..4).for_each(|vpn| _ = reads.walk(&table, &memory, Vpn(vpn)));
            }
            table.check();
        }
    }
}

fn filled(kind: PageTableKind, pages: u64) -> (EditablePageTable, Memory) {
    let mut memory = Memory::default();
    let mut table = table(kind, Layout::x86_64(), &mut memory);
    for vpn in 0..pages {
        table.set(Vpn(vpn), Pte::new(Pfn(vpn), PageShift(12)), &mut memory).unwrap();
    }
    (table, memory)
}

/// Yaniv and Tsafrir: a walk reads little more than one line; neighbouring pages share it only in clusters.
#[test]
fn walks_of_hashed_tables_read_little_more_than_one_entry() {
    const PAGES: u64 = 40_000;
    let reads_and_lines = |kind| {
        let (table, memory) = filled(kind, PAGES);
        let mut reads = Reads::default();
        let mut all = Vec::new();
        for vpn in 0..PAGES {
            reads.walk(&table, &memory, Vpn(vpn));
            all.extend(reads.groups.concat());
        }
        let lines: BTreeSet<u64> = all.iter().map(|at| at.0 / 64).collect();
        (all.len() as f64 / PAGES as f64, lines.len() as u64)
    };
    let (hashed, chained) = (reads_and_lines(PageTableKind::Hashed), reads_and_lines(PageTableKind::Chained));
    assert!((1.0..1.3).contains(&hashed.0) && hashed.1 < PAGES / 8 * 3 / 2, "{hashed:?}");
    assert!((1.0..1.3).contains(&chained.0) && chained.1 > PAGES / 4, "{chained:?}");
}

/// Skarlatos et al. §5: complete, partial, size and direct walks.
#[test]
fn walk_tables_narrow_a_cuckoo_walk() {
    let (mut table, mut memory) = filled(PageTableKind::Cuckoo, 100);
    table.set(Vpn(512), Pte::new(Pfn(512), PageShift(21)), &mut memory).unwrap();
    let mut reads = Reads::default();
    let mut walk = |vpn| {
        reads.walk(&table, &memory, Vpn(vpn));
        (reads.groups.concat().len(), reads.aside)
    };
    assert_eq!(walk(7), (6, 6), "two tables of three ways, and both walk tables");
    assert_eq!(walk(8), (3, 0), "the section has base pages only");
    assert_eq!(walk(600), (1, 0), "the section is one page, whose way is known");
    assert_eq!(walk(2048), (0, 0), "nothing is mapped in the section");
    let other = reads.held.iter().find(|(cache, _)| *cache == 0).copied().unwrap();
    reads.held.remove(&other);
    reads.walk(&table, &memory, Vpn(7));
    assert_eq!((reads.groups.concat().len(), reads.aside), (6, 3), "both sizes are mapped in the 1 GB");
}

/// Park et al.: two levels are one node, so that a walk reads one entry below the walk cache and two without; huge pages are
/// replicated in it.
#[test]
fn flattened_walks_read_one_entry_or_two() {
    let (mut table, mut memory) = filled(PageTableKind::Flattened, 100);
    assert_eq!(table.bytes(), 2 * (2 << 20), "the root and one node");
    let mut reads = Reads::default();
    let mut walk = |table: &EditablePageTable, memory: &Memory, vpn| {
        reads.walk(table, memory, Vpn(vpn));
        reads.groups.len()
    };
    assert_eq!(walk(&table, &memory, 7), 2);
    assert_eq!(walk(&table, &memory, 8), 1);
    table.take_traffic();
    table.set(Vpn(512), Pte::new(Pfn(512), PageShift(21)), &mut memory).unwrap();
    let written: u64 = table.take_traffic().iter().map(|traffic| traffic.bytes).sum();
    assert_eq!(written, 511 * 8, "the entry is replicated");
    assert_eq!(walk(&table, &memory, 600), 1);
    // Without blocks of 2 MB the tree has all its levels.
    let mut small = Memory { most: Some(4096), ..Memory::default() };
    let mut table = self::table(PageTableKind::Flattened, Layout::x86_64(), &mut small);
    table.set(Vpn(7), Pte::new(Pfn(7), PageShift(12)), &mut small).unwrap();
    assert_eq!(table.bytes(), 4 * 4096);
    assert_eq!(Reads::default().walk(&table, &small, Vpn(7)).len(), 4);
}

fn map(table: &mut EditablePageTable, memory: &mut Memory, pages: impl IntoIterator<Item = u64>) {
    for vpn in pages {
        table.set(Vpn(vpn), Pte::new(Pfn(vpn), PageShift(12)), memory).unwrap();
    }
}

/// Returns how many entries and models a walk to each of `pages` reads.
fn reads_of(reads: &mut Reads, table: &EditablePageTable, memory: &Memory, pages: &[u64]) -> Vec<usize> {
    pages.iter().map(|&vpn| reads.walk(table, memory, Vpn(vpn)).concat().len()).collect()
}

/// Returns how many lines were copied since the last call.
fn copied(table: &mut EditablePageTable) -> usize {
    table.take_traffic().iter().filter(|traffic| !traffic.write).count()
}

/// Zhao et al.: a walk reads one entry where pages are contiguous, and the models of a range before only if they are not cached.
#[test]
fn learned_walks_of_contiguous_mappings_read_one_entry() {
    const PAGES: u64 = 40_000;
    let (mut table, mut memory) = filled(PageTableKind::Learned, PAGES);
    let pages: Vec<u64> = (0..PAGES).collect();
    let mut reads = Reads::default();
    assert_eq!(reads_of(&mut reads, &table, &memory, &pages), vec![1; PAGES as usize], "the root is the only model");
    assert_eq!(table.bytes(), 8192 * 64, "the next power of two of its 5000 lines");
    table.take_traffic();
    map(&mut table, &mut memory, 1 << 30..(1 << 30) + 100);
    assert_eq!(copied(&mut table), 0, "the first mapping keeps its array");
    assert_eq!(table.bytes(), 8192 * 64 + 4096 + 4096, "a frame of models, and an array");
    assert_eq!(reads_of(&mut reads, &table, &memory, &[7, 8, 1 << 30, (1 << 30) + 1]), [2, 1, 2, 1]);
    table.set(Vpn(512), Pte::new(Pfn(512), PageShift(21)), &mut memory).unwrap();
    assert_eq!(
        reads_of(&mut reads, &table, &memory, &[7, 1 << 30]),
        [2, 1],
        "the models of huge pages end before 4 TB"
    );
    table.check();
}

/// Blocks that lie at equal distances are in consecutive lines. One that comes between takes the next line; when that is taken,
/// the leaf is trained anew.
#[test]
fn leaves_without_a_place_are_trained_anew() {
    let mut memory = Memory::default();
    let mut table = table(PageTableKind::Learned, Layout::x86_64(), &mut memory);
    let apart: Vec<u64> = (0..1000).map(|page| page * 512).collect();
    map(&mut table, &mut memory, apart.iter().copied());
    assert_eq!(table.bytes(), 1024 * 64, "a line for each page");
    let mut reads = Reads::default();
    assert_eq!(reads_of(&mut reads, &table, &memory, &apart), vec![1; 1000]);
    table.take_traffic();
    // Behind the last, there is a gap.
    map(&mut table, &mut memory, [999 * 512 + 8]);
    assert_eq!(copied(&mut table), 0);
    assert_eq!(reads_of(&mut reads, &table, &memory, &[999 * 512, 999 * 512 + 8, 0]), [1, 2, 1]);
    assert_eq!(reads_of(&mut reads, &table, &memory, &[16]), [2], "it could be in the next line");
    map(&mut table, &mut memory, [8]);
    assert!(copied(&mut table) > 500, "lines are copied into other arrays");
    table.check();
    reads_of(&mut reads, &table, &memory, &apart);
    let again: usize = reads_of(&mut reads, &table, &memory, &apart).into_iter().sum();
    assert_eq!(again, 1000, "models have no error after training");
}

#[test]
fn growing_mappings_copy_each_line_a_few_times() {
    const PAGES: u64 = 100_000;
    for up in [true, false] {
        let mut memory = Memory::default();
        let mut table = table(PageTableKind::Learned, Layout::x86_64(), &mut memory);
        let pages = (0..PAGES).map(|page| (1 << 24) + if up { page } else { PAGES - page });
        map(&mut table, &mut memory, pages);
        table.check();
        let lines = PAGES as usize / 8;
        assert!(copied(&mut table) < 3 * lines);
        assert!(table.bytes() <= 4 * PAGES * 8, "{} bytes", table.bytes());
        assert_eq!(Reads::default().walk(&table, &memory, Vpn((1 << 24) + 77)).len(), 1);
    }
}

/// An array of the largest chunks grows by further chunks at either end, so that no page fault copies much.
#[test]
fn large_arrays_grow_without_copies() {
    const CHUNK: u64 = 2 << 20;
    const START: u64 = 1 << 24;
    for most in [None, Some(64 << 10)] {
        let chunk = most.unwrap_or(CHUNK);
        for up in [true, false] {
            let mut memory = Memory { most, ..Memory::default() };
            let mut table = table(PageTableKind::Learned, Layout::x86_64(), &mut memory);
            map(&mut table, &mut memory, (START..).take(8 * 32_768));
            assert_eq!(table.bytes(), CHUNK);
            assert!(copied(&mut table) < 32_768, "it was copied whenever it doubled");
            let more = (0..8 * 40_000).map(|page| if up { START + 8 * 32_768 + page } else { START - 1 - page });
            map(&mut table, &mut memory, more);
            assert_eq!(copied(&mut table), 0);
            assert_eq!(table.bytes(), (72_768 * 64_u64).next_multiple_of(chunk));
            table.check();
            // Half a gigabyte further: the array spans the gap.
            let far = if up { START + 8 * 140_000 } else { START - 8 * 107_232 };
            map(&mut table, &mut memory, [far]);
            assert_eq!(copied(&mut table), 0);
            table.check();
            for vpn in [START, START + 8 * 32_767, far] {
                assert_eq!(Reads::default().walk(&table, &memory, Vpn(vpn)).len(), 1);
            }
            // Much further, it would be sparse: models divide the range instead.
            map(&mut table, &mut memory, [START + (1 << 30)]);
            assert_eq!(copied(&mut table), 0, "the array is kept");
            assert_eq!(Reads::default().walk(&table, &memory, Vpn(START)).len(), 2);
        }
    }
}

/// A region that is touched at random ends as one that is touched in order: one array, and no more memory.
#[test]
fn learned_indexes_become_simple_as_memory_fills() {
    const PAGES: u64 = 100_000;
    let mut memory = Memory::default();
    let mut table = table(PageTableKind::Learned, Layout::x86_64(), &mut memory);
    let mut order: Vec<u64> = (0..PAGES).collect();
    let mut random = Random::new(3);
    (1..PAGES).rev().for_each(|at| order.swap(at as usize, random.below(at + 1) as usize));
    map(&mut table, &mut memory, order.iter().copied());
    table.check();
    assert!(copied(&mut table) < 4 * PAGES as usize / 8);
    assert!(table.bytes() <= 4 * PAGES * 8, "{} bytes", table.bytes());
    let mut reads = Reads::default();
    reads_of(&mut reads, &table, &memory, &order);
    assert!(reads.held.len() <= 2, "{} models", reads.held.len());
    for vpn in order {
        table.clear(Vpn(vpn), &mut memory).unwrap();
    }
    map(&mut table, &mut memory, [1 << 30]);
    assert_eq!(table.bytes(), 4096, "arrays without blocks are freed when the next page comes");
}

#[test]
fn growing_moves_lines_a_few_at_a_time() {
    let mut memory = Memory::default();
    let mut table = table(PageTableKind::Cuckoo, Layout::x86_64(), &mut memory);
    let mut most = 0;
    for vpn in 0..50_000 {
        table.set(Vpn(8 * vpn), Pte::new(Pfn(vpn), PageShift(12)), &mut memory).unwrap();
        most = most.max(table.take_traffic().len());
    }
    table.check();
    assert!(most < 100, "{most} lines were read or written for one page");
    assert!(table.bytes() < 50_000 * 64 * 5, "{} bytes", table.bytes());
    let (node, index) = table.find(Vpn(8)).unwrap();
    assert!(matches!(table.slot(node, index), Slot::Leaf(_)));
}

#[test]
fn names_are_read_back() {
    for kind in PageTableKind::ALL {
        assert_eq!(kind.name().parse(), Ok(kind));
    }
    let error = "tree".parse::<PageTableKind>().unwrap_err();
    assert_eq!(error, "page table \"tree\": expected one of radix, hashed, chained, cuckoo, flattened, learned");
}
