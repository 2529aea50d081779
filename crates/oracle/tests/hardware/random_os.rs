//! A random operating system. It decides on edits; each side of a comparison carries them out on page tables of its
//! own, which therefore must stay equal.

use reach_core::{
    Asid, EditablePageTable, Fault, FaultCause, FrameSource, Kind, Layout, MappedPage, PageShift, PageTable, Pfn,
    PhysAddr, Pte, Random, RangeTable, RangeTranslation, Shootdown, StopReason, Vpn,
};
use std::collections::BTreeMap;

/// Something done to memory or to translations.
#[derive(Clone, Copy, Debug)]
pub enum Edit {
    Set(Asid, Vpn, Pte),
    Clear(Asid, Vpn),
    /// Bits to clear, then bits to set, in a page.
    Change(Asid, Vpn, u64, u64),
    Shoot(Shootdown),
    /// The operating system's own load or store.
    Access(PhysAddr, bool),
    /// So many base pages become a range, where nothing is mapped.
    Range(Asid, RangeTranslation),
}

/// Frames for page-table nodes: those given back are reused, latest first.
#[derive(Clone, Debug, Default)]
struct Frames {
    taken: u64,
    free: BTreeMap<u64, Vec<PhysAddr>>,
}

impl FrameSource for Frames {
    fn allocate_table(&mut self, bytes: u64) -> Option<PhysAddr> {
        if let Some(at) = self.free.entry(bytes).or_default().pop() {
            return Some(at);
        }
        // Aligned to a page of any machine.
        self.taken = self.taken.next_multiple_of(bytes.max(1 << 16)) + bytes;
        Some(PhysAddr((1 << 40) + self.taken - bytes))
    }

    fn free_table(&mut self, at: PhysAddr, bytes: u64) {
        self.free.entry(bytes).or_default().push(at);
    }
}

/// The page tables of all processes.
#[derive(Clone, Debug)]
pub struct Memory {
    pub tables: Vec<EditablePageTable>,
    frames: Frames,
}

impl Memory {
    pub fn new(layout: &Layout, processes: u32) -> Memory {
        let mut frames = Frames::default();
        let mut table = || {
            let mut table = EditablePageTable::new(layout.clone(), &mut frames).expect("frames are plenty");
            *table.ranges_mut() = RangeTable::new(layout.base.bytes(), &mut frames).map(Box::new);
            table
        };
        Memory { tables: (0..processes).map(|_| table()).collect(), frames }
    }

    pub fn table(&mut self, asid: Asid) -> &mut PageTable {
        self.tables[asid.0 as usize].hardware_view()
    }

    /// What is edited is in no range any more, nor is what was in one with it.
    fn dissolve(&mut self, asid: Asid, vpn: Vpn, pages: u64) {
        let table = &mut self.tables[asid.0 as usize];
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

    pub fn edit(&mut self, edit: Edit) {
        let base = self.tables[0].layout().base;
        match edit {
            Edit::Set(asid, vpn, pte) => self.dissolve(asid, vpn, pte.shift().base_pages(base)),
            Edit::Clear(asid, vpn) | Edit::Change(asid, vpn, ..) => {
                let page = page(&self.tables[asid.0 as usize], vpn);
                self.dissolve(asid, page.vpn, page.pte.shift().base_pages(base));
            }
            Edit::Shoot(_) | Edit::Access(..) | Edit::Range(..) => {}
        }
        let Memory { tables, frames } = self;
        match edit {
            Edit::Set(asid, vpn, pte) => {
                tables[asid.0 as usize].set(vpn, pte, frames).expect("frames are plenty");
            }
            Edit::Clear(asid, vpn) => {
                tables[asid.0 as usize].clear(vpn, frames).expect("it was there");
            }
            Edit::Change(asid, vpn, clear, set) => {
                tables[asid.0 as usize].update(vpn, |pte| Pte(pte.0 & !clear | set)).expect("it was there");
            }
            Edit::Range(asid, range) => {
                let table = &mut tables[asid.0 as usize];
                for vpn in (range.vpn.0..range.end().0).map(Vpn) {
                    table.set(vpn, range.pte_at(vpn), frames).expect("frames are plenty");
                }
                let mut ranges = table.ranges_mut().take().expect("every table has one");
                assert!(ranges.insert(range, frames));
                *table.ranges_mut() = Some(ranges);
                // Every other one is a segment as well.
                if range.pte.pfn().0 % 2 == 0 {
                    let at = table.segments().partition_point(|other| other.vpn < range.vpn);
                    table.segments_mut().insert(at, range);
                }
            }
            Edit::Shoot(_) | Edit::Access(..) => {}
        }
    }
}

/// Decides.
#[derive(Clone, Debug)]
pub struct System {
    random: Random,
    layout: Layout,
    sizes: Vec<PageShift>,
    /// Whether it makes ranges.
    ranges: bool,
    /// How many more times it may do what nobody asked for: some of it undoes what was just done.
    patience: u32,
}

impl System {
    pub fn new(layout: &Layout, sizes: &[PageShift], ranges: bool, seed: u64) -> System {
        System { random: Random::new(seed), layout: layout.clone(), sizes: sizes.to_vec(), ranges, patience: 500 }
    }

    /// What to do about a stop.
    pub fn answer(&mut self, why: StopReason, asid: Asid, memory: &Memory) -> Vec<Edit> {
        let table = &memory.tables[asid.0 as usize];
        let mut edits = Vec::new();
        match why {
            StopReason::End | StopReason::PolicyCallback | StopReason::NeedsReferences => {}
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

    /// Whether to do something else as well.
    pub fn also_meddles(&mut self) -> bool {
        self.one_in(4)
    }

    /// Something nobody asked for, in any process.
    pub fn meddle(&mut self, memory: &Memory) -> Vec<Edit> {
        let mut edits = Vec::new();
        if self.patience == 0 {
            return edits;
        }
        self.patience -= 1;
        let asid = Asid(self.random.below(memory.tables.len() as u64) as u32);
        let table = &memory.tables[asid.0 as usize];
        let pages = table.pages(Vpn(0), 1 << (self.layout.address_bits() - self.layout.base.0));
        let Some(&entry) = pages.get(self.random.below(pages.len().max(1) as u64) as usize) else {
            return edits;
        };
        match self.random.below(9) {
            0 => {
                edits.push(Edit::Clear(asid, entry.vpn));
                self.shoot(asid, entry.vpn, entry.pte.shift(), &mut edits);
            }
            1 => self.change(asid, entry, Pte::WRITABLE | Pte::EXECUTABLE, 0, &mut edits),
            2 => self.change(asid, entry, 0, Pte::WRITABLE | Pte::EXECUTABLE, &mut edits),
            3 => self.change(asid, entry, Pte::DIRTY, Pte::WATCHED, &mut edits),
            // Ageing, which needs no shootdown, but where it ends a range.
            4 => {
                edits.push(Edit::Change(asid, entry.vpn, Pte::ACCESSED, 0));
                if entry.pte.range() {
                    self.shoot(asid, entry.vpn, entry.pte.shift(), &mut edits);
                }
            }
            5 => self.promote(asid, entry, &mut edits),
            6 => self.demote(asid, entry, &mut edits),
            7 => {
                let vpn = Vpn(entry.vpn.0 ^ 1 << self.random.below(4));
                if vpn.0 < self.base_pages() && table.lookup(vpn).is_none() {
                    self.map(asid, vpn, Kind::Load, table, &mut edits);
                }
            }
            _ => {
                // Without need, and perhaps for a process that never ran.
                let asid = Asid(self.random.below(memory.tables.len() as u64 + 1) as u32);
                let pages = [1, 3, 8, 9, 1000, u64::MAX][self.random.below(6) as usize];
                edits.push(Edit::Shoot(Shootdown { asid, vpn: entry.vpn, pages }));
            }
        }
        for _ in 0..self.random.below(3) {
            let at = PhysAddr(self.random.below(1 << 16));
            edits.push(Edit::Access(at, self.one_in(2)));
        }
        edits
    }

    fn base_pages(&self) -> u64 {
        1 << (self.layout.address_bits() - self.layout.base.0)
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.random.below(n) == 0
    }

    /// Maps a page of any size around `vpn`, mostly so that `kind` is allowed.
    fn map(&mut self, asid: Asid, vpn: Vpn, kind: Kind, table: &PageTable, edits: &mut Vec<Edit>) {
        if self.ranges && self.one_in(2) {
            return self.map_range(asid, vpn, kind, table, edits);
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
            self.shoot(asid, start, size, edits);
        }
    }

    /// Maps a range of a few base pages around `vpn`, as far as nothing is mapped there.
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

    /// An entry for some frame. They are few, so that pages share cache sets and frames.
    fn frame(&mut self, size: PageShift) -> Pte {
        let order = size.order(self.layout.base);
        Pte::new(Pfn(self.random.below(16) << order), size)
    }

    fn promote(&mut self, asid: Asid, entry: MappedPage, edits: &mut Vec<Edit>) {
        let Some(&size) = self.sizes.iter().find(|&&s| s > entry.pte.shift()) else { return };
        let start = entry.vpn.align_down(size, self.layout.base);
        let rights = entry.pte.0 & (Pte::WRITABLE | Pte::EXECUTABLE | Pte::DIRTY);
        edits.push(Edit::Set(asid, start, Pte(self.frame(size).0 | rights)));
        self.shoot(asid, start, size, edits);
    }

    /// Cuts a page up and keeps some of the pieces.
    fn demote(&mut self, asid: Asid, entry: MappedPage, edits: &mut Vec<Edit>) {
        let Some(&size) = self.sizes.iter().rfind(|&&s| s < entry.pte.shift()) else { return };
        edits.push(Edit::Clear(asid, entry.vpn));
        let pieces = 1 << (entry.pte.shift().0 - size.0);
        for piece in (0..pieces).take(8) {
            let offset = piece * size.base_pages(self.layout.base);
            let pte = entry.pte.with_pfn(entry.pte.pfn() + offset).with_shift(size);
            edits.push(Edit::Set(asid, entry.vpn + offset, pte));
        }
        self.shoot(asid, entry.vpn, entry.pte.shift(), edits);
    }

    fn change(&mut self, asid: Asid, entry: MappedPage, clear: u64, set: u64, edits: &mut Vec<Edit>) {
        edits.push(Edit::Change(asid, entry.vpn, clear, set));
        self.shoot(asid, entry.vpn, entry.pte.shift(), edits);
    }

    /// All that a page's translations may be held as; sometimes more than that.
    fn shoot(&mut self, asid: Asid, vpn: Vpn, size: PageShift, edits: &mut Vec<Edit>) {
        let pages = size.base_pages(self.layout.base);
        let shootdown = match self.random.below(8) {
            0 => Shootdown { asid, vpn: Vpn(0), pages: u64::MAX },
            1 => Shootdown { asid, vpn: Vpn(vpn.0.saturating_sub(2)), pages: pages + 4 },
            _ => Shootdown { asid, vpn, pages },
        };
        edits.push(Edit::Shoot(shootdown));
    }
}

fn page(table: &PageTable, vpn: Vpn) -> MappedPage {
    table.page(vpn).expect("only a mapped page can be forbidden or watched")
}
