//! Processes, and what events do to them.

mod exec;
mod fork;
mod remap;
mod space;
mod vfork;

pub use space::{PROGRAM_PAGE, PageView, Region, Space};

use crate::translation::Translations;
use crate::{Counters, FrameKind, ObjectId, ObjectKind, OutOfMemory, Vm, soft};
use reach_core::{Advice, Asid, Backing, Event, Label, Map, MappedPage, PageTable, Protection, Pte, Role, Span, Vpn};
use std::collections::BTreeSet;
use std::ops::Range;

/// A process: an address space with its page table.
pub struct Process {
    pub(crate) space: Space,
    pub(crate) translations: Translations,
    /// Private pages that are in swap.
    pub(crate) swapped: BTreeSet<u64>,
    /// The program has mapped something by an event, so its mappings are known.
    pub(crate) maps_seen: bool,
    /// It replaced its image and has not got its new stack yet.
    pub(crate) fresh: bool,
    /// What happened to it.
    pub counters: Counters,
}

impl Process {
    /// Its regions.
    pub fn space(&self) -> &Space {
        &self.space
    }

    /// Its page table.
    pub fn table(&self) -> &PageTable {
        self.translations.table()
    }
}

/// Pages that the kernel touches on the program's behalf, as [`Vm::apply`] hands them to the system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Populate {
    /// Base pages.
    pub pages: Range<u64>,
    /// By stores rather than loads.
    pub write: bool,
}

impl Region {
    /// A private, zero-filled region; its object is given when it enters a space.
    pub(crate) fn anonymous_at(start: u64, end: u64, protection: Protection) -> Region {
        Region {
            start,
            end,
            protection,
            object: ObjectId::NONE,
            offset: start,
            file: false,
            shared: false,
            role: Role::Mmap,
            huge: None,
            huge_shift: 0,
            no_reserve: false,
            dont_fork: false,
            private_pages: false,
        }
    }
}

impl Vm {
    /// Does what `event` says, as Linux does. Returns pages that the program wants populated; the system faults them
    /// in (see [`Vm::populating`]).
    pub fn apply(&mut self, event: &Event) -> Result<Option<Populate>, OutOfMemory> {
        self.keep_records()?;
        let asid = self.current;
        match event {
            Event::File { file, len, path } => {
                let object = self.objects.file(*file);
                let object = self.objects.get_mut(object);
                (object.len, object.path) = (Some(*len), Some(path.as_str().into()));
            }
            Event::Phase(_) | Event::Mark(_) => {}
            Event::Switch { asid, thread } => {
                self.thread = *thread;
                self.switch_to(*asid)?;
            }
            Event::Fork { child, shares_memory: false } => self.fork(*child)?,
            Event::Fork { child, shares_memory: true } => self.lend(*child)?,
            Event::Exec { .. } => {
                let asid = self.leave_shared();
                self.ensure(asid)?;
                self.note_census(asid);
                self.discard(asid)?;
                self.at_mut(asid).fresh = true;
            }
            Event::Exit => {
                let asid = self.leave_shared();
                self.exit(asid)?;
            }
            Event::Map(map) => {
                let populate = self.map_region(map)?;
                self.page_eagerly(map.span.start.0, map.span.end().0)?;
                self.code_mapped(map.span.start)?;
                return Ok(populate);
            }
            Event::Unmap(span) => {
                self.ensure(asid)?;
                self.unmap_regions(asid, span.start.0, page_end(*span))?;
            }
            Event::Protect(span, protection) => {
                self.ensure(asid)?;
                self.protect_regions(asid, *span, *protection)?;
            }
            Event::Remap(remap) => {
                self.ensure(asid)?;
                self.remap(remap)?;
                if remap.from.len > 0 {
                    self.page_eagerly(remap.to.start.0 + remap.from.len, remap.to.end().0)?;
                }
            }
            Event::Advise(span, advice) => {
                self.ensure(asid)?;
                return self.advise(asid, *span, *advice);
            }
        }
        Ok(None)
    }

    /// While `on`, faults are the kernel's own: nobody traps.
    pub fn populating(&mut self, on: bool) {
        self.from_kernel = on;
    }

    /// Makes the process if there is none.
    pub(crate) fn ensure(&mut self, asid: Asid) -> Result<(), OutOfMemory> {
        if self.processes.contains_key(&asid) {
            return Ok(());
        }
        let translations = self.new_translations()?;
        let mut counters = Counters::new(&self.options().sizes);
        counters.around[0] = self.pager.as_ref().map(|_| self.memory_now());
        self.processes.insert(
            asid,
            Process {
                space: Space::default(),
                translations,
                swapped: BTreeSet::new(),
                maps_seen: false,
                fresh: false,
                counters,
            },
        );
        self.forget_dropped();
        self.gauge_memory(asid);
        Ok(())
    }

    /// Empties an address space.
    pub(crate) fn discard(&mut self, asid: Asid) -> Result<(), OutOfMemory> {
        if !self.processes.contains_key(&asid) {
            return Ok(());
        }
        let layout = &self.options().layout;
        let all = 1 << (layout.address_bits() - layout.base.0);
        self.charge_teardown(asid, all);
        let removed = self.at_mut(asid).space.carve(0, u64::MAX);
        self.unmap(asid, Vpn(0), all, Label::Fault)?;
        self.release_regions(&removed);
        Ok(())
    }

    pub(crate) fn exit(&mut self, asid: Asid) -> Result<(), OutOfMemory> {
        self.note_census(asid);
        self.discard(asid)?;
        if let Some(mut process) = self.processes.remove(&asid) {
            self.release_translations(process.translations);
            process.counters.page_table_bytes.set(0);
            process.counters.around[1] = self.pager.as_ref().map(|_| self.memory_now());
            self.finished.insert(asid, process.counters);
            self.gauge_memory(asid);
        }
        Ok(())
    }

    /// Puts a region where none is, with an object if it has none yet.
    pub(crate) fn add_region(&mut self, asid: Asid, mut region: Region) {
        if region.object == ObjectId::NONE {
            match self.at(asid).space.neighbour(&region) {
                Some((object, offset)) => (region.object, region.offset) = (object, offset),
                None => region.object = self.objects.create(ObjectKind::Private(asid), None),
            }
        }
        self.objects.retain(region.object, region.len());
        self.at_mut(asid).space.insert(region);
    }

    /// Regions are gone, their translations too: objects that nobody maps any more end.
    pub(crate) fn release_regions(&mut self, removed: &[Region]) {
        for region in removed {
            for pfn in self.objects.release(region.object, region.len()) {
                self.frames.uncache(pfn);
            }
            if !self.objects.lives(region.object) {
                self.frames.end_object(region.object);
            } else {
                self.last_close(region.object);
            }
        }
    }

    fn map_region(&mut self, map: &Map) -> Result<Option<Populate>, OutOfMemory> {
        let asid = self.current;
        self.ensure(asid)?;
        self.at_mut(asid).maps_seen = true;
        let (start, end) = (map.span.start.0, page_end(map.span));
        if start >= end {
            return Ok(None);
        }
        let mut region = Region {
            shared: map.shared,
            role: map.role,
            huge_shift: map.huge_shift,
            no_reserve: map.no_reserve,
            ..Region::anonymous_at(start, end, map.protection)
        };
        if let Backing::File { file, offset } = map.backing {
            (region.file, region.object, region.offset) = (true, self.objects.file(file), offset);
        }
        if !region.anonymous() {
            self.split_whole(asid, start, end)?;
        }
        self.unmap_regions(asid, start, end)?;
        if region.shared && !region.file {
            (region.object, region.offset) = (self.objects.create(ObjectKind::Shared, None), 0);
        }
        self.add_region(asid, region);
        if region.role == Role::Stack && std::mem::take(&mut self.at_mut(asid).fresh) {
            return self.start_image(&region).map(Some);
        }
        let wanted = map.populate && map.protection != Protection::NONE;
        let write = map.protection.write && !map.shared;
        Ok(wanted.then(|| Populate { pages: region.pages(self.base()), write }))
    }

    /// Removes the regions in the bytes `start..end` and the translations of pages that no region overlaps then.
    pub(crate) fn unmap_regions(&mut self, asid: Asid, start: u64, end: u64) -> Result<(), OutOfMemory> {
        self.unshare_tables(asid, start, end)?;
        let removed = self.at_mut(asid).space.carve(start, end);
        if removed.is_empty() {
            return Ok(());
        }
        let mut pages = self.own_pages(asid, start, end);
        // A page that was made as one goes when its last region does.
        for vpn in [start >> self.base().0, (end - 1) >> self.base().0] {
            if let Some(entry) =
                self.at(asid).table().page(Vpn(vpn)).filter(|entry| entry.pte.soft() & soft::WHOLE != 0)
            {
                let (first, last) = self.extent(&entry);
                if !self.at(asid).space.any(first << self.base().0, last << self.base().0) {
                    pages = pages.start.min(first)..pages.end.max(last);
                }
            }
        }
        if pages.start < pages.end {
            self.unmap(asid, Vpn(pages.start), pages.end - pages.start, Label::Fault)?;
        }
        self.release_regions(&removed);
        Ok(())
    }

    /// The base pages that the bytes `start..end` touch, without those at the ends that some region shares with bytes
    /// outside.
    pub(crate) fn own_pages(&self, asid: Asid, start: u64, end: u64) -> Range<u64> {
        let base = self.base();
        let space = &self.at(asid).space;
        let (first, last) = (start >> base.0, end.div_ceil(base.bytes()));
        let first = first + u64::from(space.any(first << base.0, start));
        let last = last - u64::from(space.any(end, last << base.0));
        first..last.max(first)
    }

    /// The base pages of a mapped page.
    pub(crate) fn extent(&self, entry: &MappedPage) -> (u64, u64) {
        (entry.vpn.0, entry.vpn.0 + entry.pte.shift().base_pages(self.base()))
    }

    /// Pages made as one that reach across the ends of `start..end` become ordinary, so that they can be cut; what of
    /// them lies in no region goes.
    pub(crate) fn split_whole(&mut self, asid: Asid, start: u64, end: u64) -> Result<(), OutOfMemory> {
        let base = self.base();
        for byte in [start, end - 1] {
            let entry = self.at(asid).table().page(Vpn(byte >> base.0));
            let Some(entry) = entry.filter(|entry| entry.pte.soft() & soft::WHOLE != 0) else { continue };
            let (first, last) = self.extent(&entry);
            self.protect(asid, entry.vpn, last - first, Label::Fault, |_, entry| {
                entry.pte.with_soft(entry.pte.soft() & !soft::WHOLE)
            })?;
            let mut at = first;
            let space = &self.at(asid).space;
            let mut gaps = Vec::new();
            for region in space.overlapping(first << base.0, last << base.0) {
                gaps.push(at..region.pages(base).start);
                at = at.max(region.pages(base).end);
            }
            gaps.push(at..last);
            for gap in gaps.into_iter().filter(|gap| gap.start < gap.end) {
                self.unmap(asid, Vpn(gap.start), gap.end - gap.start, Label::Fault)?;
            }
        }
        Ok(())
    }

    fn protect_regions(&mut self, asid: Asid, span: Span, protection: Protection) -> Result<(), OutOfMemory> {
        let (start, end) = (span.start.0, page_end(span));
        self.unshare_tables(asid, start, end)?;
        let rounded = Span { start: span.start, len: end - start };
        self.at_mut(asid).space.change(rounded, |region| region.protection = protection);
        let base = self.base();
        let (first, last) = (start >> base.0, end.div_ceil(base.bytes()));
        self.protect(asid, Vpn(first), last - first, Label::Fault, |vm, entry| {
            let pages = entry.pte.shift().base_pages(base);
            match vm.at(asid).space.page(entry.vpn, pages, base) {
                Some(view) => vm.with_rights(entry.pte, &view.region, view.protection),
                None => entry.pte,
            }
        })
    }

    /// `pte` after its region's rights became `rights`: a write right comes at once only where no store has to be
    /// noticed any more (`can_change_pte_writable`).
    fn with_rights(&self, pte: Pte, region: &Region, rights: Protection) -> Pte {
        let frames = pte.shift().base_pages(self.base());
        let at_once = match region.shared {
            true => !region.file || pte.writable() || pte.dirty(),
            false => self.sole_owner(pte.pfn(), frames),
        };
        self.watch(pte.with_executable(rights.execute).with_writable(rights.write && at_once))
    }

    fn advise(&mut self, asid: Asid, span: Span, advice: Advice) -> Result<Option<Populate>, OutOfMemory> {
        let (start, end) = (span.start.0, page_end(span));
        if start >= end {
            return Ok(None);
        }
        let base = self.base();
        let rounded = Span { start: span.start, len: end - start };
        let populate = |write| Some(Populate { pages: start >> base.0..end.div_ceil(base.bytes()), write });
        let space = &mut self.at_mut(asid).space;
        match advice {
            Advice::Huge => space.change(rounded, |region| region.huge = Some(true)),
            Advice::NoHuge => space.change(rounded, |region| region.huge = Some(false)),
            Advice::DontFork => space.change(rounded, |region| region.dont_fork = true),
            Advice::DontNeed => {
                let pages = self.own_pages(asid, start, end);
                if pages.start < pages.end {
                    self.unmap(asid, Vpn(pages.start), pages.end - pages.start, Label::Fault)?;
                }
            }
            Advice::PopulateRead => return Ok(populate(false)),
            Advice::PopulateWrite => return Ok(populate(true)),
            Advice::WillNeed => self.read_ahead(asid, start, end)?,
            // Lazily freed pages go only under memory pressure; collapsing is the system's business.
            Advice::Free | Advice::Collapse => {}
        }
        Ok(None)
    }

    /// Brings the files behind these bytes into the page cache. The program does not wait.
    fn read_ahead(&mut self, asid: Asid, start: u64, end: u64) -> Result<(), OutOfMemory> {
        let base = self.base();
        let regions: Vec<Region> = self.at(asid).space.overlapping(start, end).filter(|r| r.file).copied().collect();
        for region in regions {
            let pages = region.pages(base);
            let limit = self.objects.get(region.object).len.map_or(u64::MAX, |len| len.div_ceil(base.bytes()));
            for vpn in pages.start.max(start >> base.0)..pages.end.min(end.div_ceil(base.bytes())) {
                let index = region.index(Vpn(vpn), base);
                if index < limit {
                    self.cache_page(&region, Vpn(vpn), Label::Fault)?;
                }
            }
        }
        self.pin(None);
        Ok(())
    }

    /// The kind of frame behind a translation; for reports.
    pub fn kind_of(&self, pte: Pte) -> FrameKind {
        self.frames.get(pte.pfn()).kind
    }
}

/// Where a span ends when its end is rounded up to the program's page, as kernels do.
pub(crate) fn page_end(span: Span) -> u64 {
    if span.len == 0 { span.start.0 } else { span.end().0.next_multiple_of(PROGRAM_PAGE) }
}
