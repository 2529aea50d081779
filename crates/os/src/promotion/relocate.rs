//! Building a superpage from pages that lie apart: by copying them to a block of memory, or by remapping them in shadow space
//! (Fang et al. 1999, section 3).

use crate::memory::{RemapCosts, Shadow, is_shadow};
use crate::{FrameKind, ObjectId, OutOfMemory, Vm, soft};
use reach_core::{Asid, ControllerCommand, Label, MappedPage, PageShift, Pfn, Pte, Vpn};

/// How pages become physically contiguous.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mechanism {
    /// The pages are copied to a new block.
    Copy,
    /// The pages stay in their frames and get contiguous shadow addresses, which the memory controller translates.
    Remap,
}

/// Why a superpage was not built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unbuilt {
    /// Some of its pages are not mapped or are shared, or the pages differ in their rights.
    #[error("some of its pages are unmapped or shared, or they differ in their access rights")]
    Unfit,
    /// Memory has no free block of that size, or its place in shadow space is in use.
    #[error("memory or shadow space has no block for it")]
    NoBlock,
}

/// The mapped pages of an aligned extent that is to become one page.
struct Parts<'a> {
    asid: Asid,
    vpn: Vpn,
    /// The rights that they have in common, with the size of the whole and no frame.
    rights: Pte,
    entries: &'a [MappedPage],
}

impl Vm {
    /// Lets pages be remapped in shadow space, in blocks of size `largest`, at these costs. Call at boot, before any process.
    pub fn use_shadow(&mut self, largest: PageShift, costs: RemapCosts) {
        self.frames.shadow = Some(Shadow::new(self.base(), largest, costs));
    }

    /// Returns the first address of shadow space.
    pub fn shadow_start(&self) -> reach_core::PhysAddr {
        Shadow::start(self.base())
    }

    /// Returns the commands that the run loop sends to the memory controller before anything else, and charges for them.
    pub fn take_commands(&mut self) -> Vec<ControllerCommand> {
        let Some(shadow) = &mut self.frames.shadow else { return Vec::new() };
        let (commands, cycles) = shadow.take_commands();
        self.charge(Label::Remap, cycles);
        commands
    }

    /// Writes back the lines of `pfn`, a frame of memory, that are cached under shadow addresses. Call before a device reads
    /// the frame.
    pub(crate) fn flush_shadow(&mut self, pfn: Pfn) {
        if self.frames.shadow.is_none() {
            return;
        }
        for (asid, vpn) in self.frames.translations(pfn) {
            let Some(page) = self.at(asid).table().page(vpn) else { continue };
            let named = page.pte.pfn() + (vpn - page.vpn);
            if let Some(shadow) = self.frames.shadow.as_mut().filter(|_| is_shadow(named)) {
                shadow.flush(named);
            }
        }
    }

    /// Makes the aligned extent of size `shift` at `vpn` one page. All of its pages must be mapped with equal rights and by
    /// this address space only. The inner result says why the superpage was not built; that is counted.
    ///
    /// # Errors
    /// When memory is used up.
    pub fn build_superpage(
        &mut self,
        asid: Asid,
        vpn: Vpn,
        shift: PageShift,
        mechanism: Mechanism,
    ) -> Result<Result<(), Unbuilt>, OutOfMemory> {
        let pages = shift.base_pages(self.base());
        let Some(process) = self.process(asid) else { return Ok(Err(Unbuilt::Unfit)) };
        let entries = process.table().pages(vpn, pages);
        let Some(rights) = self.common_rights(asid, &entries, shift, mechanism) else { return Ok(Err(Unbuilt::Unfit)) };
        let parts = Parts { asid, vpn, rights, entries: &entries };
        let done = match mechanism {
            Mechanism::Copy => self.copy_together(&parts)?,
            Mechanism::Remap => self.remap_together(&parts)?,
        };
        if done.is_err() {
            self.tally(asid, |c| c.superpage_fallbacks += 1);
        }
        Ok(done)
    }

    /// Returns the rights that the pages of an extent of size `shift` have in common. `None` when they cannot become one
    /// page.
    fn common_rights(&self, asid: Asid, entries: &[MappedPage], shift: PageShift, mechanism: Mechanism) -> Option<Pte> {
        let base = self.base();
        let mapped: u64 = entries.iter().map(|entry| entry.pte.shift().base_pages(base)).sum();
        if mapped != shift.base_pages(base) {
            return None;
        }
        let rights = |pte: Pte| Pte(pte.0 & !(Pte::ACCESSED | Pte::DIRTY)).with_pfn(Pfn(0)).with_shift(shift);
        let mut common = None;
        for entry in entries {
            if entry.pte.shift() >= shift || entry.pte.soft() & soft::WHOLE != 0 {
                return None;
            }
            let mut mine = rights(entry.pte);
            for at in 0..entry.pte.shift().base_pages(base) {
                let frame = self.frames.get(entry.pte.pfn() + at);
                let own = frame.maps == 1
                    && match frame.kind {
                        FrameKind::Anonymous => !frame.cached,
                        // All mappings of a file's page must use one address; if it is only read, a second does no harm.
                        FrameKind::File => !entry.pte.writable() && !frame.dirty,
                        _ => false,
                    };
                let zeroes = frame.kind == FrameKind::Zero && mechanism == Mechanism::Copy;
                if zeroes {
                    let view = self.at(asid).space.page(entry.vpn, 1, base)?;
                    mine = rights(self.entry(Pfn(0), shift, view.protection, true));
                } else if !own {
                    return None;
                }
            }
            if *common.get_or_insert(mine) != mine {
                return None;
            }
        }
        common
    }

    /// Copies the parts to a new block and maps that.
    fn copy_together(&mut self, parts: &Parts) -> Result<Result<(), Unbuilt>, OutOfMemory> {
        let &Parts { asid, vpn, rights, entries } = parts;
        let (base, shift) = (self.base(), rights.shift());
        let Some(block) = self.frames.allocate(shift.order(base), FrameKind::Anonymous, ObjectId::NONE, 0) else {
            return Ok(Err(Unbuilt::NoBlock));
        };
        self.note_private_pages(asid, vpn, shift.base_pages(base));
        // A page written through a translation that is gone is dirty in its new frame, too.
        let dirty = |entry: &MappedPage| {
            (0..entry.pte.shift().base_pages(base)).any(|at| self.frames.get(entry.pte.pfn() + at).dirty)
        };
        let dirty = entries.iter().any(dirty);
        let pte = Pte(rights.with_pfn(block).0 | if dirty { Pte::DIRTY } else { 0 });
        self.migrate(asid, vpn, pte, Label::Copy)?;
        // The page cache follows the pages of files.
        for entry in entries {
            for at in 0..entry.pte.shift().base_pages(base) {
                let (old, new) = (entry.pte.pfn() + at, block + (entry.vpn - vpn) + at);
                let frame = self.frames.get(old);
                if frame.kind == FrameKind::File && frame.cached {
                    self.objects.get_mut(frame.object).pages.insert(frame.index, new);
                    self.frames.move_cached(old, new);
                }
            }
        }
        Ok(Ok(()))
    }

    /// Maps the parts by contiguous shadow frames.
    fn remap_together(&mut self, parts: &Parts) -> Result<Result<(), Unbuilt>, OutOfMemory> {
        let (&Parts { asid, vpn, rights, entries }, base) = (parts, self.base());
        let pages = entries.iter().flat_map(|entry| {
            let pages = entry.pte.shift().base_pages(base);
            (0..pages).map(|at| (entry.vpn - vpn + at, entry.pte.pfn() + at))
        });
        let Some(shadow) = self.frames.shadow.as_mut() else { return Ok(Err(Unbuilt::NoBlock)) };
        let block = shadow.place(asid, vpn);
        let real = |shadow: &Shadow, now: Pfn| if is_shadow(now) { shadow.real(now) } else { now };
        if pages.clone().any(|(at, now)| shadow.in_use_for_another(block + at, real(shadow, now))) {
            return Ok(Err(Unbuilt::NoBlock));
        }
        for (at, now) in pages.filter(|&(at, now)| now != block + at) {
            shadow.map(block + at, real(shadow, now), now);
        }
        let seen = entries.iter().fold(0, |bits, entry| bits | entry.pte.0 & (Pte::ACCESSED | Pte::DIRTY));
        self.replace(asid, vpn, Pte(rights.with_pfn(block).0 | seen), entries, Label::Remap)?;
        Ok(Ok(()))
    }
}
