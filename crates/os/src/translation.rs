//! The translation API: `map`, `unmap`, `promote`, `demote`, `migrate` and `protect`.
//!
//! These six functions, with [`Vm::replace`] inside this crate, are the only ones that change a translation. Each edits the
//! page table, charges the ledger, and queues the shootdown and the memory traffic that it causes, so that no policy can
//! forget a cost. They keep in step what hangs on a page table: range tables and segments (`ranges.rs`, `segments.rs`), leaf
//! tables that processes share (`sharing.rs`), the reverse map, and the mapping-change log (`mapping_changes.rs`).
//!
//! The mutable page table of an address space is a private field (`tables.rs`): this module and its parts can name it, and
//! nothing else can.

mod entries;
mod lifecycle;
mod mapping_changes;
mod monitor;
mod ranges;
mod segments;
mod shared_tables;
mod sharing;
mod state;
mod tables;

pub use monitor::Monitor;
pub use state::MappingChange;
pub(crate) use state::TranslationState;
pub(crate) use tables::Translations;

use crate::{FrameKind, Operation, OutOfMemory, Vm, soft};
use reach_core::{Asid, Label, MappedPage, PageShift, Pfn, Pte, Vpn};

/// Why [`Vm::promote`] leaves pages as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Some base pages of the extent are not mapped.
    #[error("not all base pages of the extent are mapped")]
    Hole,
    /// The frames are not one aligned block in ascending order.
    #[error("the frames are not one aligned block")]
    Scattered,
    /// The pages differ in access rights or software bits.
    #[error("the pages differ in their access rights")]
    Mixed,
    /// The extent is mapped by one page of at least that size.
    #[error("the extent is mapped by a page of at least that size already")]
    Already,
}

/// Pages that `unmap` looks up at once.
const BATCH: usize = 4096;

impl Vm {
    /// Maps the page that starts at `vpn`, where nothing is mapped, by the entry `pte`.
    ///
    /// # Errors
    /// When there is no memory for a page-table node.
    pub fn map(&mut self, asid: Asid, vpn: Vpn, pte: Pte, label: Label) -> Result<(), OutOfMemory> {
        let pages = pte.shift().base_pages(self.base());
        debug_assert!(self.at(asid).table().pages(vpn, pages).is_empty(), "{vpn:?} is mapped already");
        self.hold(pte.pfn(), pages);
        let written = self.write_entry(asid, vpn, pte, label);
        self.release_held(1);
        written?;
        self.frames.add_map(asid, vpn, pte);
        self.forget_swapped(asid, vpn, pages);
        self.count_page(asid, pte, true);
        Ok(())
    }

    /// Unmaps every page in the `pages` base pages from `vpn` on. Superpages that reach beyond are demoted first; those
    /// that must stay whole ([`soft::WHOLE`]) are left alone.
    ///
    /// # Errors
    /// When there is no memory for the page-table nodes of a demotion.
    pub fn unmap(&mut self, asid: Asid, vpn: Vpn, pages: u64, label: Label) -> Result<(), OutOfMemory> {
        self.split_at(asid, vpn, label)?;
        self.split_at(asid, vpn + pages, label)?;
        self.charge_demotions_to_unmap(asid, vpn, pages, label);
        let (mut at, end, mut any) = (vpn, vpn + pages, false);
        loop {
            let entries: Vec<MappedPage> = self.at(asid).table().iter_pages(at, end - at).take(BATCH).collect();
            let Some(last) = entries.last() else { break };
            at = Vpn(self.extent(last).1.min(end.0));
            for entry in &entries {
                if entry.vpn < vpn || self.extent(entry).1 > end.0 {
                    continue;
                }
                any = true;
                self.clear_entry(asid, entry, label);
                if self.frames.drop_map(asid, entry.vpn, entry.pte) {
                    self.charge(label, self.options().costs.free_page);
                }
                self.log_mapping_change(asid, entry.vpn, entry.pte.shift().base_pages(self.base()), label);
            }
        }
        self.cut_ranges(asid, vpn, pages, label);
        self.forget_swapped(asid, vpn, pages);
        self.charge_frame_work(label);
        self.gauge_memory(asid);
        if any {
            self.shoot(asid, vpn, pages, label);
        }
        Ok(())
    }

    /// Promotes the aligned extent of size `shift` at `vpn` to one page, where its frames are. The page is accessed or
    /// dirty if any of the smaller pages was.
    ///
    /// # Errors
    /// When the pages cannot become one where they are ([`Refusal`]); then nothing has changed.
    pub fn promote(&mut self, asid: Asid, vpn: Vpn, shift: PageShift, label: Label) -> Result<(), Refusal> {
        let base = self.base();
        let pages = shift.base_pages(base);
        let entries = self.at(asid).table().pages(vpn, pages);
        let first = entries.first().ok_or(Refusal::Hole)?;
        if first.pte.shift() >= shift {
            return Err(Refusal::Already);
        }
        if entries.iter().map(|entry| entry.pte.shift().base_pages(base)).sum::<u64>() != pages {
            return Err(Refusal::Hole);
        }
        let marks = Pte::ACCESSED | Pte::DIRTY;
        let rights = |pte: Pte| Pte(pte.0 & !marks).with_range(false).with_pfn(Pfn(0)).with_shift(shift);
        if !first.pte.pfn().is_aligned(shift, base) {
            return Err(Refusal::Scattered);
        }
        for entry in &entries {
            if entry.pte.pfn() != first.pte.pfn() + (entry.vpn - vpn) {
                return Err(Refusal::Scattered);
            }
            if rights(entry.pte) != rights(first.pte) {
                return Err(Refusal::Mixed);
            }
        }
        let marked = entries.iter().fold(0, |bits, entry| bits | entry.pte.0 & marks);
        let pte = Pte(first.pte.with_shift(shift).with_range(false).0 | marked);
        self.cut_ranges(asid, vpn, pages, label);
        // Every node on the way exists, because base pages below it do.
        let written = self.set_entry(asid, vpn, pte).map_err(|_| Refusal::Hole)?;
        self.account_rewrite(asid, written, shift, Operation::Promote, label);
        for entry in &entries {
            self.count_page(asid, entry.pte, false);
        }
        self.count_page(asid, pte, true);
        self.tally(asid, |c| c.promotions += 1);
        self.shoot(asid, vpn, pages, label);
        Ok(())
    }

    /// Demotes the page that holds `vpn` to pages of size `to`, which is smaller, with the same rights and marks; unmaps it if
    /// it has [`soft::REFAULT`]. Does nothing when no page is mapped there or it is not larger than `to`.
    ///
    /// # Errors
    /// When there is no memory for page-table nodes.
    pub fn demote(&mut self, asid: Asid, vpn: Vpn, to: PageShift, label: Label) -> Result<(), OutOfMemory> {
        let Some(entry) = self.at(asid).table().page(vpn).filter(|entry| entry.pte.shift() > to) else {
            return Ok(());
        };
        let pages = entry.pte.shift().base_pages(self.base());
        if entry.pte.soft() & soft::REFAULT != 0 {
            self.tally(asid, |c| c.demotions += 1);
            return self.unmap(asid, entry.vpn, pages, label);
        }
        let layout = &self.options().layout;
        // Replicated entries are overwritten in place; an entry at a higher level makes way for a node.
        if layout.placement(entry.pte.shift()).0 != layout.placement(to).0
            && let Some((_, written)) = self.edit(asid).0.clear_entries(vpn)
        {
            self.account_write(asid, written, label);
        }
        self.count_page(asid, entry.pte, false);
        self.hold(entry.pte.pfn(), pages);
        let mut entries = 0;
        for at in (0..pages).step_by(to.base_pages(self.base()) as usize) {
            let pte = entry.pte.with_pfn(entry.pte.pfn() + at).with_shift(to);
            let written = self.set_entry(asid, entry.vpn + at, pte)?;
            self.account_read(&written, label);
            entries += written.entries;
            self.account_write(asid, written, label);
            self.count_page(asid, pte, true);
        }
        self.release_held(1);
        self.count_steps(Operation::Demote, entry.pte.shift(), entries);
        self.tally(asid, |c| c.demotions += 1);
        self.log_mapping_change(asid, entry.vpn, pages, label);
        self.shoot(asid, entry.vpn, pages, label);
        Ok(())
    }

    /// Copies what is mapped in the extent of `pte`'s size at `vpn` to the frames of `pte`, zeroes the rest of the frames,
    /// and maps the extent by `pte`. The new page is accessed or dirty if any old one was. Pages of zeroes are zeroed
    /// rather than copied. Superpages that reach beyond the extent are demoted first.
    ///
    /// # Errors
    /// When there is no memory for page-table nodes.
    pub fn migrate(&mut self, asid: Asid, vpn: Vpn, pte: Pte, label: Label) -> Result<(), OutOfMemory> {
        self.migrate_block(asid, vpn, pte, pte.shift(), label)
    }

    /// [`Vm::migrate`] of the extent of `size` at `vpn` into a block of frames, mapped by pages like `pte`, which is that of
    /// the first: a large folio of Linux. No page that is mapped there is larger than these.
    ///
    /// # Errors
    /// When there is no memory for page-table nodes.
    pub fn migrate_block(
        &mut self,
        asid: Asid,
        vpn: Vpn,
        pte: Pte,
        size: PageShift,
        label: Label,
    ) -> Result<(), OutOfMemory> {
        let base = self.base();
        let pages = size.base_pages(base);
        self.split_at(asid, vpn, label)?;
        self.split_at(asid, vpn + pages, label)?;
        let entries = self.at(asid).table().pages(vpn, pages);
        let mut filled = vpn;
        let mut marked = 0;
        for entry in &entries {
            let n = entry.pte.shift().base_pages(base);
            if self.frames.get(entry.pte.pfn()).kind != FrameKind::Zero {
                self.zero(pte.pfn() + (filled - vpn), entry.vpn - filled, label);
                self.copy(entry.pte.pfn(), pte.pfn() + (entry.vpn - vpn), n, label);
                filled = entry.vpn + n;
            }
            marked |= entry.pte.0 & (Pte::ACCESSED | Pte::DIRTY);
        }
        self.zero(pte.pfn() + (filled - vpn), vpn + pages - filled, label);
        self.replace_block(asid, vpn, Pte(pte.0 | marked), size, &entries, label)
    }

    /// Maps the extent of `pte`'s size at `vpn` by `pte` in place of `entries`, which are all that is mapped there. This is
    /// [`Vm::migrate`] without the copy, for frames that hold the contents already: pages that are remapped in shadow
    /// space, and files in the page cache.
    ///
    /// # Errors
    /// When there is no memory for page-table nodes.
    pub(crate) fn replace(
        &mut self,
        asid: Asid,
        vpn: Vpn,
        pte: Pte,
        entries: &[MappedPage],
        label: Label,
    ) -> Result<(), OutOfMemory> {
        self.replace_block(asid, vpn, pte, pte.shift(), entries, label)
    }

    /// [`Vm::replace`] of the extent of `size` at `vpn`, by pages like `pte`, which is that of the first.
    fn replace_block(
        &mut self,
        asid: Asid,
        vpn: Vpn,
        pte: Pte,
        size: PageShift,
        entries: &[MappedPage],
        label: Label,
    ) -> Result<(), OutOfMemory> {
        let base = self.base();
        let (pages, each) = (size.base_pages(base), pte.shift().base_pages(base));
        let new = (0..pages).step_by(each as usize).map(|at| (vpn + at, pte.with_pfn(pte.pfn() + at)));
        self.cut_ranges(asid, vpn, pages, label);
        for entry in entries {
            self.hold(entry.pte.pfn(), entry.pte.shift().base_pages(base));
        }
        // The new frames have no translation yet.
        self.hold(pte.pfn(), pages);
        let written = new.clone().try_for_each(|(vpn, pte)| self.write_entry(asid, vpn, pte, label));
        self.release_held(entries.len() + 1);
        written?;
        new.clone().for_each(|(vpn, pte)| self.frames.add_map(asid, vpn, pte));
        self.forget_swapped(asid, vpn, pages);
        for entry in entries {
            self.count_page(asid, entry.pte, false);
            self.frames.drop_map(asid, entry.vpn, entry.pte);
        }
        new.for_each(|(_, pte)| self.count_page(asid, pte, true));
        if !entries.is_empty() {
            if entries.iter().all(|entry| entry.pte.shift() < pte.shift()) {
                self.tally(asid, |c| c.promotions += 1);
            }
            self.shoot(asid, vpn, pages, label);
        }
        Ok(())
    }

    /// Changes access rights, accessed and dirty bits and software bits of every page in the `pages` base pages from `vpn`
    /// on to what `change` returns for it; frame and size must stay. Superpages that reach beyond are demoted first; those
    /// that must stay whole ([`soft::WHOLE`]) are changed as one.
    ///
    /// A shootdown is charged when a right was taken or a mark cleared. It is free when rights were only given: a
    /// processor that faults on a stale entry drops it by itself.
    ///
    /// # Errors
    /// When there is no memory for the page-table nodes of a demotion.
    pub fn protect(
        &mut self,
        asid: Asid,
        vpn: Vpn,
        pages: u64,
        label: Label,
        change: impl Fn(&Vm, &MappedPage) -> Pte,
    ) -> Result<(), OutOfMemory> {
        if self.protect_without_shootdown(asid, vpn, pages, label, change)? {
            self.shoot(asid, vpn, pages, label);
        }
        Ok(())
    }

    /// Does what [`Vm::protect`] does, but leaves the charged shootdown to the caller: returns whether it is due. Fork
    /// sends one for the whole address space.
    ///
    /// # Errors
    /// When there is no memory for the page-table nodes of a demotion.
    pub(crate) fn protect_without_shootdown(
        &mut self,
        asid: Asid,
        vpn: Vpn,
        pages: u64,
        label: Label,
        change: impl Fn(&Vm, &MappedPage) -> Pte,
    ) -> Result<bool, OutOfMemory> {
        self.split_at(asid, vpn, label)?;
        self.split_at(asid, vpn + pages, label)?;
        let (mut taken, mut changed, mut aged) = (false, false, false);
        for entry in self.at(asid).table().pages(vpn, pages) {
            let new = change(self, &entry);
            if new == entry.pte {
                continue;
            }
            debug_assert!(new.present() && new.pfn() == entry.pte.pfn() && new.shift() == entry.pte.shift());
            let written = self.edit(asid).0.update(entry.vpn, |_| new).expect("it was just found");
            self.account_rewrite(asid, written, entry.pte.shift(), Operation::Emulate, label);
            // Setting `WATCHED` takes away the right to write unnoticed: the first store faults.
            let lost = entry.pte.0 & !new.0 & !Pte::WATCHED | new.0 & !entry.pte.0 & Pte::WATCHED;
            let cached = Pte::WRITABLE | Pte::EXECUTABLE | Pte::ACCESSED | Pte::DIRTY | Pte::WATCHED;
            taken |= lost & cached != 0;
            aged |= lost & (Pte::ACCESSED | Pte::DIRTY) != 0;
            changed = true;
        }
        if changed {
            self.update_ranges(asid, vpn, pages, aged, label);
        }
        if changed && !taken {
            self.accounting.queue_shootdown(asid, vpn, pages);
        }
        Ok(taken)
    }

    /// Demotes the page that reaches across `vpn`, if there is one, a size at a time until none does. Pages that must stay
    /// whole are left alone; those that [`soft::REFAULT`] marks are unmapped.
    fn split_at(&mut self, asid: Asid, vpn: Vpn, label: Label) -> Result<(), OutOfMemory> {
        let layout = &self.options().layout;
        if vpn.0 >> (layout.address_bits() - layout.base.0) != 0 {
            return Ok(());
        }
        let divisible = |entry: &MappedPage| entry.vpn != vpn && entry.pte.soft() & soft::WHOLE == 0;
        while let Some(entry) = self.at(asid).table().page(vpn).filter(divisible) {
            let smaller = self.options().sizes.iter().rev().find(|&&size| size < entry.pte.shift());
            self.demote(asid, vpn, *smaller.expect("a base page cannot reach across"), label)?;
        }
        Ok(())
    }
}
