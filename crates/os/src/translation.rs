//! The one door: `map`, `unmap`, `promote`, `demote`, `migrate` and `protect` are the only functions that change
//! translations. Each edits the page table, charges the ledger, and queues the shootdown and the memory traffic that
//! it causes, so that no policy can forget a cost.

mod mapping_changes;
mod ranges;
mod sharing;
mod tables;

pub use mapping_changes::MappingChange;
pub use ranges::{RangeCounts, Ranging, Translated};
pub(crate) use sharing::SharedTables;
pub(crate) use tables::Translations;

use crate::{FrameKind, Operation, OutOfMemory, Vm, soft};
use reach_core::{Asid, Label, MappedPage, PageShift, Pfn, Pte, PteWrites, Shootdown, Traffic, Vpn};

/// Why pages cannot be promoted where they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Not all of them are mapped.
    #[error("not all base pages are mapped")]
    Hole,
    /// Their frames are not one aligned block in the right order.
    #[error("the frames are not one aligned block")]
    Scattered,
    /// Their access rights or software bits differ.
    #[error("the pages differ in their rights")]
    Mixed,
    /// It is one page of at least that size already.
    #[error("it is a page of at least that size already")]
    Already,
}

/// So many pages are found at once when many go.
const BATCH: usize = 4096;

impl Vm {
    /// Maps the page that starts at `vpn`, where nothing is mapped, as `pte` says.
    pub fn map(&mut self, asid: Asid, vpn: Vpn, pte: Pte, label: Label) -> Result<(), OutOfMemory> {
        debug_assert!(self.at(asid).table().pages(vpn, pte.shift().base_pages(self.base())).is_empty(), "{vpn:?}");
        let pages = pte.shift().base_pages(self.base());
        self.hold(pte.pfn(), pages);
        let written = self.write_entry(asid, vpn, pte, label);
        self.let_go(1);
        written?;
        self.frames.add_map(asid, vpn, pte);
        self.forget_swapped(asid, vpn, pages);
        self.count_page(asid, pte, true);
        Ok(())
    }

    /// Removes every page in the `pages` base pages from `vpn` on. Superpages that reach beyond are demoted first, but
    /// those made as one ([`soft::WHOLE`]) are left alone.
    pub fn unmap(&mut self, asid: Asid, vpn: Vpn, pages: u64, label: Label) -> Result<(), OutOfMemory> {
        self.cut(asid, vpn, label)?;
        self.cut(asid, vpn + pages, label)?;
        self.take_apart(asid, vpn, pages, label);
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
                self.frames.drop_map(asid, entry.vpn, entry.pte);
                self.log_mapping_change(asid, entry.vpn, entry.pte.shift().base_pages(self.base()), label);
            }
        }
        self.cut_ranges(asid, vpn, pages, label);
        self.forget_swapped(asid, vpn, pages);
        self.account(label);
        self.gauge_memory(asid);
        if any {
            self.shoot(asid, vpn, pages, label);
        }
        Ok(())
    }

    /// Makes the pages of the aligned extent of size `shift` at `vpn` one page where they are. The new page is
    /// accessed or dirty if any of them was.
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
        let seen = entries.iter().fold(0, |bits, entry| bits | entry.pte.0 & marks);
        let pte = Pte(first.pte.with_shift(shift).with_range(false).0 | seen);
        self.cut_ranges(asid, vpn, pages, label);
        // Every node on the way exists, because base pages below it do.
        let written = self.set_entry(asid, vpn, pte).map_err(|_| Refusal::Hole)?;
        self.rewrote(asid, written, shift, Operation::Promote, label);
        for entry in &entries {
            self.count_page(asid, entry.pte, false);
        }
        self.count_page(asid, pte, true);
        self.tally(asid, |c| c.promotions += 1);
        self.shoot(asid, vpn, pages, label);
        Ok(())
    }

    /// Breaks the page that holds `vpn` into pages of size `to`, which is smaller, with the same rights and marks.
    /// Nothing happens when there is no page or it is not larger.
    pub fn demote(&mut self, asid: Asid, vpn: Vpn, to: PageShift, label: Label) -> Result<(), OutOfMemory> {
        let Some(entry) = self.at(asid).table().page(vpn).filter(|entry| entry.pte.shift() > to) else { return Ok(()) };
        let pages = entry.pte.shift().base_pages(self.base());
        let layout = &self.options().layout;
        // Replicated entries are written over; an entry at a higher level makes room for a node.
        if layout.placement(entry.pte.shift()).0 != layout.placement(to).0
            && let Some((_, written)) = self.edit(asid).0.clear_entries(vpn)
        {
            self.wrote(asid, written, label);
        }
        self.count_page(asid, entry.pte, false);
        self.hold(entry.pte.pfn(), pages);
        let mut entries = 0;
        for at in (0..pages).step_by(to.base_pages(self.base()) as usize) {
            let pte = entry.pte.with_pfn(entry.pte.pfn() + at).with_shift(to);
            let written = self.set_entry(asid, entry.vpn + at, pte)?;
            self.revisit(&written, label);
            entries += written.entries;
            self.wrote(asid, written, label);
            self.count_page(asid, pte, true);
        }
        self.let_go(1);
        self.step(Operation::Demote, entry.pte.shift(), entries);
        self.tally(asid, |c| c.demotions += 1);
        self.log_mapping_change(asid, entry.vpn, pages, label);
        self.shoot(asid, entry.vpn, pages, label);
        Ok(())
    }

    /// Copies whatever is mapped in the extent of `pte`'s size at `vpn` into the frames of `pte`, zeroes what was not,
    /// and maps the extent by `pte`. The new page is accessed or dirty if any old one was. Pages of zeroes are zeroed
    /// rather than copied. Superpages that reach beyond the extent are demoted first.
    pub fn migrate(&mut self, asid: Asid, vpn: Vpn, pte: Pte, label: Label) -> Result<(), OutOfMemory> {
        let base = self.base();
        let pages = pte.shift().base_pages(base);
        self.cut(asid, vpn, label)?;
        self.cut(asid, vpn + pages, label)?;
        let entries = self.at(asid).table().pages(vpn, pages);
        let mut filled = vpn;
        let mut seen = 0;
        for entry in &entries {
            let n = entry.pte.shift().base_pages(base);
            if self.frames.get(entry.pte.pfn()).kind != FrameKind::Zero {
                self.zero(pte.pfn() + (filled - vpn), entry.vpn - filled, label);
                self.copy(entry.pte.pfn(), pte.pfn() + (entry.vpn - vpn), n, label);
                filled = entry.vpn + n;
            }
            seen |= entry.pte.0 & (Pte::ACCESSED | Pte::DIRTY);
        }
        self.zero(pte.pfn() + (filled - vpn), vpn + pages - filled, label);
        self.replace(asid, vpn, Pte(pte.0 | seen), &entries, label)
    }

    /// Writes `pte` over `entries`, all that is mapped in its extent at `vpn`; no node goes that would only come back.
    pub(crate) fn replace(
        &mut self,
        asid: Asid,
        vpn: Vpn,
        pte: Pte,
        entries: &[MappedPage],
        label: Label,
    ) -> Result<(), OutOfMemory> {
        let base = self.base();
        let pages = pte.shift().base_pages(base);
        self.cut_ranges(asid, vpn, pages, label);
        for entry in entries {
            self.hold(entry.pte.pfn(), entry.pte.shift().base_pages(base));
        }
        // The new frames have no translation yet.
        self.hold(pte.pfn(), pages);
        let written = self.write_entry(asid, vpn, pte, label);
        self.let_go(entries.len() + 1);
        written?;
        self.frames.add_map(asid, vpn, pte);
        self.forget_swapped(asid, vpn, pages);
        for entry in entries {
            self.count_page(asid, entry.pte, false);
            self.frames.drop_map(asid, entry.vpn, entry.pte);
        }
        self.count_page(asid, pte, true);
        if !entries.is_empty() {
            if entries.iter().all(|entry| entry.pte.shift() < pte.shift()) {
                self.tally(asid, |c| c.promotions += 1);
            }
            self.shoot(asid, vpn, pages, label);
        }
        Ok(())
    }

    /// Changes the rights, marks and software bits, but not the place, of every page in the `pages` base pages from
    /// `vpn` on, to what `change` returns for it. Superpages that reach beyond are demoted first, but those made as one
    /// ([`soft::WHOLE`]) are changed as one. Processors are told at a cost when a right was taken or a mark cleared,
    /// and for nothing when rights were only given: a processor that faults on a stale entry drops it by itself.
    pub fn protect(
        &mut self,
        asid: Asid,
        vpn: Vpn,
        pages: u64,
        label: Label,
        change: impl Fn(&Vm, &MappedPage) -> Pte,
    ) -> Result<(), OutOfMemory> {
        if self.protect_quietly(asid, vpn, pages, label, change)? {
            self.shoot(asid, vpn, pages, label);
        }
        Ok(())
    }

    /// [`Vm::protect`] without the shootdown that has to follow if this returns true. For fork, which sends one for
    /// the whole address space.
    pub(crate) fn protect_quietly(
        &mut self,
        asid: Asid,
        vpn: Vpn,
        pages: u64,
        label: Label,
        change: impl Fn(&Vm, &MappedPage) -> Pte,
    ) -> Result<bool, OutOfMemory> {
        self.cut(asid, vpn, label)?;
        self.cut(asid, vpn + pages, label)?;
        let (mut taken, mut given, mut aged) = (false, false, false);
        for entry in self.at(asid).table().pages(vpn, pages) {
            let new = change(self, &entry);
            if new == entry.pte {
                continue;
            }
            debug_assert!(new.present() && new.pfn() == entry.pte.pfn() && new.shift() == entry.pte.shift());
            let written = self.edit(asid).0.update(entry.vpn, |_| new).expect("it was just found");
            self.rewrote(asid, written, entry.pte.shift(), Operation::Emulate, label);
            // To be watched is to lose the right to write unseen.
            let lost = entry.pte.0 & !new.0 & !Pte::WATCHED | new.0 & !entry.pte.0 & Pte::WATCHED;
            let told = Pte::WRITABLE | Pte::EXECUTABLE | Pte::ACCESSED | Pte::DIRTY | Pte::WATCHED;
            taken |= lost & told != 0;
            aged |= lost & (Pte::ACCESSED | Pte::DIRTY) != 0;
            given = true;
        }
        self.follow_rights(asid, vpn, pages, given, aged, label);
        if given && !taken {
            self.shootdowns.push(Shootdown { asid, vpn, pages });
        }
        Ok(taken)
    }

    // What the door is made of.

    /// Sees to it that no page reaches across `vpn`, by demoting the one that does, a size at a time. Pages made as
    /// one are left alone.
    fn cut(&mut self, asid: Asid, vpn: Vpn, label: Label) -> Result<(), OutOfMemory> {
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

    fn write_entry(&mut self, asid: Asid, vpn: Vpn, pte: Pte, label: Label) -> Result<(), OutOfMemory> {
        let written = self.set_entry(asid, vpn, pte)?;
        self.wrote(asid, written, label);
        Ok(())
    }

    /// Writes entries; they are still to be accounted for.
    pub(crate) fn set_entry(&mut self, asid: Asid, vpn: Vpn, pte: Pte) -> Result<PteWrites, OutOfMemory> {
        let (table, frames) = self.edit(asid);
        let written = match table.set(vpn, pte, frames) {
            Some(written) => written,
            None => {
                let layout = &self.options().layout;
                let nodes = (0..layout.levels() - 1).map(|level| self.frames.table_order(layout.node_bytes(level)));
                let order = nodes.max().unwrap_or(0);
                self.make_room(order)?;
                let (table, frames) = self.edit(asid);
                let again = table.set(vpn, pte, frames);
                again.ok_or_else(|| self.out_of_memory(order))?
            }
        };
        self.forget_dropped();
        Ok(written)
    }

    fn clear_entry(&mut self, asid: Asid, entry: &MappedPage, label: Label) {
        let (table, frames) = self.edit(asid);
        let (_, written) = table.clear(entry.vpn, frames).expect("the entry was just found");
        self.wrote(asid, written, label);
        self.count_page(asid, entry.pte, false);
    }

    /// Accounts for entries of a page of `size` that were there and were changed.
    pub(crate) fn rewrote(&mut self, asid: Asid, written: PteWrites, size: PageShift, what: Operation, label: Label) {
        self.step(what, size, written.entries);
        self.revisit(&written, label);
        self.wrote(asid, written, label);
    }

    /// Where caches are modelled and superpages made: entries that are changed are read first, and the loop over them has
    /// instructions, which no cache shows (§6.6: each replicated entry is traversed).
    fn revisit(&mut self, written: &PteWrites, label: Label) {
        if self.superpages.is_some() && self.options().caches_modelled {
            self.traffic.push(Traffic { at: written.at, bytes: 8 * written.entries, write: false, label });
            self.ledger.charge(label, written.entries * self.options().costs.pte_write);
        }
    }

    /// Counts an operation on a page of `size`, which took so many elementary steps.
    pub(crate) fn step(&mut self, operation: Operation, size: PageShift, steps: u64) {
        let level = self.options.sizes.iter().position(|&known| known == size).unwrap_or(0);
        if let Some(work) = &mut self.counters.work {
            work.did(operation, level, steps);
        }
    }

    /// Counts and charges for what reservations, population maps and the allocator have done since the last time.
    pub(crate) fn account(&mut self, label: Label) {
        let Some(step) = self.superpages.as_ref().map(|how| how.step) else { return };
        for (operation, level, steps) in self.frames.work.drain(..) {
            self.ledger.charge(label, steps * step);
            if let Some(work) = &mut self.counters.work {
                work.did(operation, usize::from(level), steps);
            }
        }
    }

    /// Accounts for entries written, and for page-table nodes that came or went with them.
    pub(crate) fn wrote(&mut self, asid: Asid, written: PteWrites, label: Label) {
        if self.options().caches_modelled {
            self.push_traffic(Traffic { at: written.at, bytes: 8 * written.entries, write: true, label });
        } else {
            self.ledger.charge(label, written.entries * self.options().costs.pte_write);
        }
        for (at, bytes) in self.frames.new_tables() {
            self.zero_bytes(at, bytes, label);
        }
        self.gauge_memory(asid);
    }
}
