//! Writing entries of page tables, and accounting for what that reads and writes.

use crate::{Operation, OutOfMemory, Vm};
use reach_core::{Asid, Label, MappedPage, PageShift, PageTableKind, Pte, PteWrites, TableTraffic, Vpn};

impl Vm {
    /// Writes the entry of a page and accounts for it.
    pub(super) fn write_entry(&mut self, asid: Asid, vpn: Vpn, pte: Pte, label: Label) -> Result<(), OutOfMemory> {
        let written = self.set_entry(asid, vpn, pte)?;
        self.account_write(asid, written, label);
        Ok(())
    }

    /// Writes the entry of a page; the caller accounts for it. Reclaims memory when there is none for a node.
    pub(super) fn set_entry(&mut self, asid: Asid, vpn: Vpn, pte: Pte) -> Result<PteWrites, OutOfMemory> {
        let (table, frames) = self.edit(asid);
        let written = match table.set(vpn, pte, frames) {
            Some(written) => written,
            None => {
                let order = self.frames.table_order(self.options().layout.largest_node());
                self.make_room(order)?;
                let (table, frames) = self.edit(asid);
                let again = table.set(vpn, pte, frames);
                again.ok_or_else(|| self.out_of_memory(order))?
            }
        };
        self.forget_dropped();
        Ok(written)
    }

    /// Clears the entry of a mapped page and accounts for it.
    pub(super) fn clear_entry(&mut self, asid: Asid, entry: &MappedPage, label: Label) {
        let (table, frames) = self.edit(asid);
        let (_, written) = table.clear(entry.vpn, frames).expect("the entry was just found");
        self.account_write(asid, written, label);
        self.count_page(asid, entry.pte, false);
    }

    /// Accounts for entries of a page of `size` that were read and written again.
    pub(crate) fn account_rewrite(
        &mut self,
        asid: Asid,
        written: PteWrites,
        size: PageShift,
        operation: Operation,
        label: Label,
    ) {
        self.count_steps(operation, size, written.entries);
        self.account_read(&written, label);
        self.account_write(asid, written, label);
    }

    /// Accounts for reading entries before they are changed, where the system makes superpages by reservation and caches
    /// are modelled (Navarro et al. §6.6: each replicated entry is traversed).
    pub(super) fn account_read(&mut self, written: &PteWrites, label: Label) {
        if self.superpages.is_some() {
            self.accounting.read_entries(written.at, written.entries, label);
        }
    }

    /// Accounts for entries written, and for page-table nodes that came or went with them.
    pub(super) fn account_write(&mut self, asid: Asid, written: PteWrites, label: Label) {
        self.accounting.write_entries(written.at, written.entries, label);
        self.charge_traps(asid, label);
        self.account_organization(asid, label);
        self.zero_new_tables(label);
        self.gauge_memory(asid);
    }

    /// Accounts for what a change of a page table that is not a radix tree read and wrote besides the entries of the page.
    fn account_organization(&mut self, asid: Asid, label: Label) {
        if self.options().layout.kind == PageTableKind::Radix {
            return;
        }
        for TableTraffic { at, bytes, write } in self.edit(asid).0.take_traffic() {
            if write {
                self.accounting.write_entries(at, bytes / 8, label);
            } else {
                self.accounting.read_entries(at, bytes / 8, label);
            }
        }
    }

    /// Zeroes the nodes taken since the last call.
    pub(super) fn zero_new_tables(&mut self, label: Label) {
        for (at, bytes) in self.frames.new_tables() {
            self.accounting.zero_bytes(at, bytes, label);
        }
    }

    /// Counts one operation on a page of `size` that took `steps` elementary steps.
    pub(crate) fn count_steps(&mut self, operation: Operation, size: PageShift, steps: u64) {
        let level = self.options.sizes.iter().position(|&known| known == size).unwrap_or(0);
        self.accounting.count_steps(operation, level, steps);
    }

    /// Counts and charges for the steps of reservations, population maps and the buddy allocator since the last call.
    pub(crate) fn charge_frame_work(&mut self, label: Label) {
        let Some(step) = self.superpages.as_ref().map(|policy| policy.step) else { return };
        for (operation, level, steps) in self.frames.work.drain(..) {
            self.accounting.charge(label, steps * step);
            self.accounting.count_steps(operation, usize::from(level), steps);
        }
    }
}
