//! Making pages that lie apart one page: by copying them to a block of memory, or by remapping them in shadow space
//! (Fang et al. 1999, section 3).

use crate::memory::{Shadow, is_shadow};
use crate::{FrameKind, ObjectId, OutOfMemory, Vm, soft};
use reach_core::{Asid, ControllerCommand, Kind, Label, MappedPage, PageShift, Pfn, Pte, TlbPreload, Vpn};

/// How pages become contiguous.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mechanism {
    /// A block is allocated and the pages are copied there, wherever they lie.
    Copy,
    /// The pages stay where they are, and get contiguous addresses that the memory controller takes for theirs.
    Remap,
}

/// What a memory controller's remapping costs the processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemapCosts {
    /// Cycles for each 32 bytes flushed from the caches.
    pub flush: u64,
    /// Cycles for each entry written in the controller's table.
    pub entry: u64,
}

/// Why a superpage was not built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unbuilt {
    /// Some of its pages are not mapped, shared, or differ in their rights.
    #[error("its pages are not all there, or not alike, or shared")]
    Unfit,
    /// There is no free block of that size, or its place in shadow space is taken.
    #[error("there is no block for it")]
    NoBlock,
}

/// What is to become one page: all that is mapped of an aligned extent.
struct Parts<'a> {
    asid: Asid,
    vpn: Vpn,
    /// The rights that they have in common, without place, in the size of the whole.
    rights: Pte,
    entries: &'a [MappedPage],
}

impl Vm {
    /// From now on pages may be remapped, at these costs. At boot, before any process.
    pub fn use_shadow(&mut self, largest: PageShift, costs: RemapCosts) {
        self.frames.shadow = Some(Shadow::new(self.base(), largest));
        self.remap_costs = costs;
    }

    /// Promotions are charged so many cycles for each KB that they copy, and disturb no cache.
    pub fn copy_at(&mut self, cycles_per_kb: u64) {
        self.flat_copies = Some(cycles_per_kb);
    }

    /// The first address of shadow space.
    pub fn shadow_start(&self) -> reach_core::PhysAddr {
        Shadow::start(self.base())
    }

    /// What the run loop is to carry out before anything else, charged here.
    pub fn take_commands(&mut self) -> Vec<ControllerCommand> {
        let Some(shadow) = &mut self.frames.shadow else { return Vec::new() };
        let commands = std::mem::take(&mut shadow.commands);
        let costs = self.remap_costs;
        let cycles = commands.iter().map(|command| match command {
            ControllerCommand::Flush { bytes, .. } => bytes.div_ceil(32) * costs.flush,
            ControllerCommand::MapShadow { .. } => costs.entry,
        });
        self.ledger.charge(Label::Remap, cycles.sum());
        commands
    }

    /// The page at `pfn`, a frame of memory, is about to be read by a device: lines of it that are cached under shadow
    /// addresses are written back.
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

    /// The operating system enters the translation of `vpn` into the TLB by itself.
    pub fn preload(&mut self, vpn: Vpn, kind: Kind) {
        self.preloads.push(TlbPreload { vpn, kind });
    }

    /// Makes the aligned extent of size `shift` at `vpn` one page. All of its pages must be mapped, with equal rights,
    /// and nobody else may use them; where a block is wanted and there is none, that is counted.
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
        let Some(rights) = self.alike(asid, &entries, shift, mechanism) else { return Ok(Err(Unbuilt::Unfit)) };
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

    /// The rights, without place and size, that the pages of an extent of size `shift` have in common, if they can
    /// become one.
    fn alike(&self, asid: Asid, entries: &[MappedPage], shift: PageShift, mechanism: Mechanism) -> Option<Pte> {
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
                        // A file's page has one address for all; where it is only read that does no harm.
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

    fn copy_together(&mut self, parts: &Parts) -> Result<Result<(), Unbuilt>, OutOfMemory> {
        let &Parts { asid, vpn, rights, entries } = parts;
        let (base, shift) = (self.base(), rights.shift());
        let Some(block) = self.frames.allocate(shift.order(base), FrameKind::Anonymous, ObjectId::NONE, 0) else {
            return Ok(Err(Unbuilt::NoBlock));
        };
        self.own(asid, vpn, shift.base_pages(base));
        // What was written through translations that are gone is dirty in its new place, too.
        let dirty = |entry: &MappedPage| {
            (0..entry.pte.shift().base_pages(base)).any(|at| self.frames.get(entry.pte.pfn() + at).dirty)
        };
        let dirty = entries.iter().any(dirty);
        let pte = Pte(rights.with_pfn(block).0 | if dirty { Pte::DIRTY } else { 0 });
        self.migrate(asid, vpn, pte, Label::Copy)?;
        // Pages of files go along with their objects.
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

    fn remap_together(&mut self, parts: &Parts) -> Result<Result<(), Unbuilt>, OutOfMemory> {
        let (&Parts { asid, vpn, rights, entries }, base) = (parts, self.base());
        let pages = entries.iter().flat_map(|entry| {
            let pages = entry.pte.shift().base_pages(base);
            (0..pages).map(|at| (entry.vpn - vpn + at, entry.pte.pfn() + at))
        });
        let Some(shadow) = self.frames.shadow.as_mut() else { return Ok(Err(Unbuilt::NoBlock)) };
        let block = shadow.place(asid, vpn);
        let real = |shadow: &Shadow, now: Pfn| if is_shadow(now) { shadow.real(now) } else { now };
        if pages.clone().any(|(at, now)| shadow.taken(block + at, real(shadow, now))) {
            return Ok(Err(Unbuilt::NoBlock));
        }
        for (at, now) in pages.filter(|&(at, now)| now != block + at) {
            shadow.enter(block + at, real(shadow, now), now);
        }
        let seen = entries.iter().fold(0, |bits, entry| bits | entry.pte.0 & (Pte::ACCESSED | Pte::DIRTY));
        self.replace(asid, vpn, Pte(rights.with_pfn(block).0 | seen), entries, Label::Remap)?;
        Ok(Ok(()))
    }
}
