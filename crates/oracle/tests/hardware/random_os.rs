//! A random operating system. It decides on edits, and each side of a comparison applies them to page tables of its
//! own, which therefore must stay equal.

use reach_core::{
    Asid, EditablePageTable, Fault, FaultCause, FrameSource, Kind, Layout, MappedPage, PageShift, PageTable, Pfn,
    PhysAddr, Pte, Random, RangeTable, RangeTranslation, Shootdown, StopReason, Vpn,
};
use std::collections::BTreeMap;

/// A change of page tables or translations.
#[derive(Clone, Copy, Debug)]
pub enum Edit {
    /// Maps a page, in place of all that it overlaps.
    Set(Asid, Vpn, Pte),
    /// Unmaps a page.
    Clear(Asid, Vpn),
    /// Clears bits of a page's entry, then sets others.
    Change {
        asid: Asid,
        vpn: Vpn,
        clear: u64,
        set: u64,
    },
    Shootdown(Shootdown),
    /// Loads or stores on the operating system's own behalf.
    Access {
        at: PhysAddr,
        is_store: bool,
    },
    /// Maps a range of base pages that are unmapped.
    Range(Asid, RangeTranslation),
    /// Ends an interval of the monitor that shadows the tables.
    EndInterval,
}

/// Memory for page-table nodes. Freed nodes are reused, the latest first.
#[derive(Clone, Debug, Default)]
struct Frames {
    allocated: u64,
    /// By size in bytes.
    free: BTreeMap<u64, Vec<PhysAddr>>,
}

impl FrameSource for Frames {
    fn allocate_table(&mut self, bytes: u64) -> Option<PhysAddr> {
        if let Some(at) = self.free.entry(bytes).or_default().pop() {
            return Some(at);
        }
        // Aligned to the base page of any machine.
        self.allocated = self.allocated.next_multiple_of(bytes.max(1 << 16)) + bytes;
        Some(PhysAddr((1 << 40) + self.allocated - bytes))
    }

    fn free_table(&mut self, at: PhysAddr, bytes: u64) {
        self.free.entry(bytes).or_default().push(at);
    }
}

/// Returns the number of a space's table: that of the kernel comes first.
fn number(asid: Asid) -> usize {
    if asid == Asid::KERNEL { 0 } else { 1 + asid.0 as usize }
}

/// The page tables of the kernel and of all processes.
#[derive(Clone, Debug)]
pub struct Memory {
    pub tables: Vec<EditablePageTable>,
    frames: Frames,
}

impl Memory {
    /// Returns the empty tables of `processes` processes, and of the kernel.
    pub fn new(layout: &Layout, processes: u32) -> Memory {
        let mut frames = Frames::default();
        let mut table = || {
            let mut table = EditablePageTable::new(layout.clone(), &mut frames).expect("memory does not end");
            *table.ranges_mut() = RangeTable::new(layout.base.bytes(), &mut frames).map(Box::new);
            table
        };
        Memory { tables: (0..=processes).map(|_| table()).collect(), frames }
    }

    /// Returns [`Memory::new`], shadowed by a monitor if there is one, which may be agile.
    pub fn shadowed(layout: &Layout, processes: u32, monitor: Option<bool>) -> Memory {
        let mut memory = Memory::new(layout, processes);
        monitor.into_iter().for_each(|agile| memory.tables.iter_mut().for_each(|table| table.shadow(agile)));
        memory
    }

    pub fn table(&mut self, asid: Asid) -> &mut PageTable {
        self.tables[number(asid)].hardware_view()
    }

    /// Dissolves the ranges and segments that overlap these pages, since an edit is about to change them.
    fn dissolve_ranges(&mut self, asid: Asid, vpn: Vpn, pages: u64) {
        let table = &mut self.tables[number(asid)];
        table.segments_mut().retain(|segment| segment.end() <= vpn || vpn + pages <= segment.vpn);
        let Some(mut ranges) = table.ranges_mut().take() else { return };
        for range in ranges.overlapping(vpn, pages) {
            ranges.remove(range.vpn, &mut self.frames);
            for page in range.vpn.0..range.end().0 {
                table.update(Vpn(page), |pte| pte.with_range(false));
            }
        }
        *table.ranges_mut() = Some(ranges);
    }

    /// Applies an edit.
    pub fn edit(&mut self, edit: Edit) {
        let base = self.tables[0].layout().base;
        match edit {
            Edit::Set(asid, vpn, pte) => self.dissolve_ranges(asid, vpn, pte.shift().base_pages(base)),
            Edit::Clear(asid, vpn) | Edit::Change { asid, vpn, .. } => {
                let page = page(&self.tables[number(asid)], vpn);
                self.dissolve_ranges(asid, page.vpn, page.pte.shift().base_pages(base));
            }
            Edit::Shootdown(_) | Edit::Access { .. } | Edit::Range(..) | Edit::EndInterval => {}
        }
        let Memory { tables, frames } = self;
        match edit {
            Edit::Set(asid, vpn, pte) => {
                tables[number(asid)].set(vpn, pte, frames).expect("memory does not end");
            }
            Edit::Clear(asid, vpn) => {
                tables[number(asid)].clear(vpn, frames).expect("the page is mapped");
            }
            Edit::Change { asid, vpn, clear, set } => {
                tables[number(asid)].update(vpn, |pte| Pte(pte.0 & !clear | set)).expect("the page is mapped");
            }
            Edit::Range(asid, range) => {
                let table = &mut tables[number(asid)];
                for vpn in (range.vpn.0..range.end().0).map(Vpn) {
                    table.set(vpn, range.pte_at(vpn), frames).expect("memory does not end");
                }
                let mut ranges = table.ranges_mut().take().expect("every table has one");
                assert!(ranges.insert(range, frames));
                *table.ranges_mut() = Some(ranges);
                // Every other range is also a segment.
                if range.pte.pfn().0 % 2 == 0 {
                    let at = table.segments().partition_point(|other| other.vpn < range.vpn);
                    table.segments_mut().insert(at, range);
                }
            }
            Edit::EndInterval => tables.iter_mut().for_each(|table| _ = table.end_shadow_interval()),
            Edit::Shootdown(_) | Edit::Access { .. } => {}
        }
    }
}

/// The operating system: decides on edits at random.
#[derive(Clone, Debug)]
pub struct RandomOs {
    random: Random,
    layout: Layout,
    sizes: Vec<PageShift>,
    /// Whether it maps ranges.
    maps_ranges: bool,
    /// How many more times it may interfere. The bound ends runs, since some interference undoes the answer to a fault.
    interferences_left: u32,
}

impl RandomOs {
    pub fn new(layout: &Layout, sizes: &[PageShift], maps_ranges: bool, seed: u64) -> RandomOs {
        let (layout, sizes) = (layout.clone(), sizes.to_vec());
        RandomOs { random: Random::new(seed), layout, sizes, maps_ranges, interferences_left: 500 }
    }

    /// Returns the edits that handle a stop.
    pub fn handle_stop(&mut self, stop: StopReason, asid: Asid, memory: &Memory) -> Vec<Edit> {
        let table = &memory.tables[number(asid)];
        let mut edits = Vec::new();
        match stop {
            StopReason::End | StopReason::PolicyCallback | StopReason::NeedsReferences | StopReason::HostFault(_) => {}
            StopReason::Fault(Fault { vpn, kind, cause: FaultCause::NotPresent }) => {
                self.map(asid, vpn, kind, table, &mut edits)
            }
            StopReason::Fault(Fault { vpn, kind, cause: FaultCause::Protection }) => {
                let bit = if kind == Kind::Fetch { Pte::EXECUTABLE } else { Pte::WRITABLE };
                self.change(asid, page(table, vpn), 0, bit, &mut edits);
            }
            StopReason::FirstWrite(vpn) => {
                let (clear, set) = if self.one_in(2) { (0, Pte::DIRTY) } else { (Pte::WATCHED, 0) };
                self.change(asid, page(table, vpn), clear, set, &mut edits);
            }
        }
        edits
    }

    /// Draws whether to interfere after a stop.
    pub fn interferes(&mut self) -> bool {
        self.one_in(4)
    }

    /// Returns edits of any process for which there is no reason.
    pub fn interfere(&mut self, memory: &Memory) -> Vec<Edit> {
        let mut edits = Vec::new();
        if self.interferences_left == 0 {
            return edits;
        }
        self.interferences_left -= 1;
        let processes = memory.tables.len() as u64 - 1;
        let process = self.random.below(processes + 1);
        let asid = if process == processes { Asid::KERNEL } else { Asid(process as u32) };
        let table = &memory.tables[number(asid)];
        let pages = table.pages(Vpn(0), 1 << (self.layout.address_bits() - self.layout.base.0));
        let Some(&entry) = pages.get(self.random.below(pages.len().max(1) as u64) as usize) else {
            return edits;
        };
        match self.random.below(10) {
            0 => {
                edits.push(Edit::Clear(asid, entry.vpn));
                self.shoot_down(asid, entry.vpn, entry.pte.shift(), &mut edits);
            }
            1 => self.change(asid, entry, Pte::WRITABLE | Pte::EXECUTABLE, 0, &mut edits),
            2 => self.change(asid, entry, 0, Pte::WRITABLE | Pte::EXECUTABLE, &mut edits),
            3 => self.change(asid, entry, Pte::DIRTY, Pte::WATCHED, &mut edits),
            // Clearing the accessed bit needs no shootdown, except where it ends a range.
            4 => {
                edits.push(Edit::Change { asid, vpn: entry.vpn, clear: Pte::ACCESSED, set: 0 });
                if entry.pte.range() {
                    self.shoot_down(asid, entry.vpn, entry.pte.shift(), &mut edits);
                }
            }
            5 => self.promote(asid, entry, &mut edits),
            6 => self.demote(asid, entry, &mut edits),
            7 => edits.push(Edit::EndInterval),
            8 => {
                let vpn = Vpn(entry.vpn.0 ^ 1 << self.random.below(4));
                if vpn.0 < self.base_pages() && table.lookup(vpn).is_none() {
                    self.map(asid, vpn, Kind::Load, table, &mut edits);
                }
            }
            _ => {
                // A needless shootdown, perhaps of a process that never ran.
                let asid = Asid(self.random.below(memory.tables.len() as u64 + 1) as u32);
                let pages = [1, 3, 8, 9, 1000, u64::MAX][self.random.below(6) as usize];
                edits.push(Edit::Shootdown(Shootdown { asid, vpn: entry.vpn, pages }));
            }
        }
        for _ in 0..self.random.below(3) {
            let at = PhysAddr(self.random.below(1 << 16));
            edits.push(Edit::Access { at, is_store: self.one_in(2) });
        }
        edits
    }

    fn base_pages(&self) -> u64 {
        1 << (self.layout.address_bits() - self.layout.base.0)
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.random.below(n) == 0
    }

    /// Maps a page of any size around `vpn`, mostly so that a reference of `kind` is permitted.
    fn map(&mut self, asid: Asid, vpn: Vpn, kind: Kind, table: &PageTable, edits: &mut Vec<Edit>) {
        if self.maps_ranges && self.one_in(2) {
            return self.map_range(asid, vpn, kind, table, edits);
        }
        if self.one_in(4) {
            return self.map_neighbours(asid, vpn, kind, table, edits);
        }
        let size = self.sizes[self.random.below(self.sizes.len() as u64) as usize];
        let start = vpn.align_down(size, self.layout.base);
        let bit = if kind == Kind::Fetch { Pte::EXECUTABLE } else { Pte::WRITABLE };
        let wanted = if self.one_in(4) { 0 } else { bit };
        let any = self.random.next_u64() & (Pte::WRITABLE | Pte::EXECUTABLE | Pte::WATCHED | Pte::ACCESSED);
        let any = if self.one_in(2) { any } else { any & !Pte::WATCHED };
        let replaces = !table.pages(start, size.base_pages(self.layout.base)).is_empty();
        edits.push(Edit::Set(asid, start, Pte(self.frame(size).0 | wanted | any)));
        if replaces {
            self.shoot_down(asid, start, size, edits);
        }
    }

    /// Maps a range of a few base pages around `vpn`, up to the nearest mapped pages.
    fn map_range(&mut self, asid: Asid, vpn: Vpn, kind: Kind, table: &PageTable, edits: &mut Vec<Edit>) {
        let free = |vpn: &u64| *vpn < self.base_pages() && table.lookup(Vpn(*vpn)).is_none();
        let first = (vpn.0.saturating_sub(3)..=vpn.0).rev().take_while(free).last().unwrap_or(vpn.0);
        let pages = (first..first + 8).take_while(free).count() as u64;
        let bit = if kind == Kind::Fetch { Pte::EXECUTABLE } else { Pte::WRITABLE };
        let wanted = if self.one_in(4) { 0 } else { bit };
        let any = self.random.next_u64() & (Pte::WRITABLE | Pte::EXECUTABLE);
        let bits = Pte::RANGE | Pte::ACCESSED | Pte::DIRTY | wanted | any;
        let pte = Pte(Pte::new(Pfn(self.random.below(64)), self.layout.base).0 | bits);
        edits.push(Edit::Range(asid, RangeTranslation { vpn: Vpn(first), pages, pte }));
    }

    /// Maps the unmapped ones of a few base pages around `vpn` to neighbouring frames, so that they may be coalesced.
    fn map_neighbours(&mut self, asid: Asid, vpn: Vpn, kind: Kind, table: &PageTable, edits: &mut Vec<Edit>) {
        let order = self.layout.bits[0].min(3);
        let start = vpn.0 >> order << order;
        let bit = if kind == Kind::Fetch { Pte::EXECUTABLE } else { Pte::WRITABLE };
        let marks = Pte::ACCESSED | if self.one_in(4) { 0 } else { Pte::DIRTY };
        let frame = (self.random.below(4) << 3) + if self.one_in(4) { 1 } else { 0 };
        for page in (0..1 << order).filter(|page| table.lookup(Vpn(start + page)).is_none()) {
            let pte = Pte::new(Pfn(frame + page), self.layout.base).0 | bit | marks;
            edits.push(Edit::Set(asid, Vpn(start + page), Pte(pte)));
        }
    }

    /// Draws an entry. Frames are few, so that pages share cache sets and frames.
    fn frame(&mut self, size: PageShift) -> Pte {
        let order = size.order(self.layout.base);
        Pte::new(Pfn(self.random.below(16) << order), size)
    }

    /// Replaces a page, and what is around it, by one of the next larger size.
    fn promote(&mut self, asid: Asid, entry: MappedPage, edits: &mut Vec<Edit>) {
        let Some(&size) = self.sizes.iter().find(|&&s| s > entry.pte.shift()) else { return };
        let start = entry.vpn.align_down(size, self.layout.base);
        let rights = entry.pte.0 & (Pte::WRITABLE | Pte::EXECUTABLE | Pte::DIRTY);
        edits.push(Edit::Set(asid, start, Pte(self.frame(size).0 | rights)));
        self.shoot_down(asid, start, size, edits);
    }

    /// Breaks a page into pages of the next smaller size, and keeps the first eight of them.
    fn demote(&mut self, asid: Asid, entry: MappedPage, edits: &mut Vec<Edit>) {
        let Some(&size) = self.sizes.iter().rfind(|&&s| s < entry.pte.shift()) else { return };
        edits.push(Edit::Clear(asid, entry.vpn));
        let pieces = 1 << (entry.pte.shift().0 - size.0);
        for piece in (0..pieces).take(8) {
            let offset = piece * size.base_pages(self.layout.base);
            let pte = entry.pte.with_pfn(entry.pte.pfn() + offset).with_shift(size);
            edits.push(Edit::Set(asid, entry.vpn + offset, pte));
        }
        self.shoot_down(asid, entry.vpn, entry.pte.shift(), edits);
    }

    fn change(&mut self, asid: Asid, entry: MappedPage, clear: u64, set: u64, edits: &mut Vec<Edit>) {
        edits.push(Edit::Change { asid, vpn: entry.vpn, clear, set });
        self.shoot_down(asid, entry.vpn, entry.pte.shift(), edits);
    }

    /// Shoots down all translations of a page, and sometimes more.
    fn shoot_down(&mut self, asid: Asid, vpn: Vpn, size: PageShift, edits: &mut Vec<Edit>) {
        let pages = size.base_pages(self.layout.base);
        let shootdown = match self.random.below(8) {
            0 => Shootdown { asid, vpn: Vpn(0), pages: u64::MAX },
            1 => Shootdown { asid, vpn: Vpn(vpn.0.saturating_sub(2)), pages: pages + 4 },
            _ => Shootdown { asid, vpn, pages },
        };
        edits.push(Edit::Shootdown(shootdown));
    }
}

fn page(table: &PageTable, vpn: Vpn) -> MappedPage {
    table.page(vpn).expect("only a mapped page can forbid a reference or be watched")
}
