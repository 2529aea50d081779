//! Leaf tables that processes share (McCracken 2003; the earlier work of the authors of Zhou et al. 2023): where several
//! processes map the same part of a file in the same way, read-only, one page of entries serves all of them.
//!
//! Each process keeps a page table of its own here, in which the shared leaf table has the same physical address as in the
//! others: walks of one process hit the lines that walks of another left in the caches. A page that is mapped for one user
//! is mapped for all, at no cost, and a new user takes over the mapped pages at its first fault. A process that changes its
//! mappings gets a copy. Accessed bits are each process's own.

use super::shared_tables::Shape;
use crate::{FaultKind, OutOfMemory, Region, Vm};
use reach_core::{Asid, FrameSource, Label, MappedPage, Pfn, PhysAddr, Pte, Vpn};
use std::collections::BTreeSet;

impl Vm {
    /// Returns the first page of the leaf table that maps `vpn`, and how many base pages the table maps.
    fn leaf(&self, vpn: Vpn) -> (Vpn, u64) {
        let pages = 1 << self.options().layout.bits[0];
        (Vpn(vpn.0 & !(pages - 1)), pages)
    }

    /// Returns the address of the leaf table whose first page is `first`. `None` when the process has no such table.
    fn leaf_at(&self, asid: Asid, first: Vpn) -> Option<PhysAddr> {
        let levels = self.options().layout.levels();
        self.processes.get(asid)?.table().walk(first).get(levels - 1).map(|step| step.at)
    }

    /// Returns the parts of files that the leaf table at `first` maps. `None` unless all of them are read-only files and
    /// there is at least one.
    fn shape(&self, asid: Asid, first: Vpn) -> Option<Shape> {
        let base = self.base();
        let (start, end) = (first.0 << base.0, (first.0 + self.leaf(first).1) << base.0);
        let part = |region: &Region| {
            let shareable = region.file && !region.protection.write && !region.private_pages;
            let (from, to) = (region.start.max(start), region.end.min(end));
            let offset = region.offset + (from - region.start);
            shareable.then_some((from - start, to - start, region.object, offset, region.protection.execute))
        };
        let regions = self.processes.get(asid)?.space.overlapping(start, end);
        let shape: Shape = regions.map(part).collect::<Option<_>>()?;
        (!shape.is_empty()).then_some(shape)
    }

    /// Drops users of the shared table of this shape that do not use it any more.
    fn prune_users(&mut self, shape: &Shape) {
        let Some(shared) = self.translation.shared_tables.as_ref().and_then(|tables| tables.get(shape)) else { return };
        let uses = |&&(asid, first): &&(Asid, Vpn)| {
            self.leaf_at(asid, first) == Some(shared.at) && self.shape(asid, first).as_ref() == Some(shape)
        };
        let users: BTreeSet<_> = shared.users.iter().filter(uses).copied().collect();
        if let Some(tables) = &mut self.translation.shared_tables {
            tables.set_users(shape, users);
        }
    }

    /// Lets the running process, which faulted at `vpn` and has no leaf table there, use the table of others. Returns
    /// whether that answers the fault.
    pub(crate) fn take_shared_table(&mut self, vpn: Vpn) -> Result<bool, OutOfMemory> {
        let asid = self.current();
        let (first, pages) = self.leaf(vpn);
        if self.translation.shared_tables.is_none() || self.leaf_at(asid, first).is_some() {
            return Ok(false);
        }
        let Some(shape) = self.shape(asid, first) else { return Ok(false) };
        self.prune_users(&shape);
        let Some(shared) = self.translation.shared_tables.as_ref().and_then(|tables| tables.get(&shape)).cloned()
        else {
            return Ok(false);
        };
        let &(other, there) = shared.users.first().expect("tables without users are dropped");
        // A page larger than the table is mapped above it.
        if !self.at(asid).table().pages(first, pages).is_empty() {
            return Ok(false);
        }
        for entry in self.at(other).table().pages(there, pages) {
            self.map_shared(asid, first + (entry.vpn - there), entry.pte)?;
        }
        let Some(own) = self.edit(asid).0.move_leaf_node(first, shared.at) else { return Ok(false) };
        self.frames.share_table(shared.at);
        let fresh = self.frames.new_tables();
        for (at, bytes) in fresh.into_iter().filter(|(at, _)| *at != own) {
            self.accounting.zero_bytes(at, bytes, Label::Fault);
        }
        self.frames.free_table(own, self.options.layout.node_bytes(0));
        if let Some(tables) = &mut self.translation.shared_tables {
            tables.add_user(&shape, (asid, first));
        }
        // The entry that points to the table.
        self.charge(Label::Fault, self.options.costs.pte_write);
        self.tally(asid, |c| c.tables_shared += 1);
        let found = self.at(asid).table().find(vpn).is_some();
        if found {
            self.charge_fault(asid, FaultKind::File, false);
        }
        self.gauge_memory(asid);
        Ok(found)
    }

    /// Maps what the running process has mapped in the leaf table around `vpn`, whose fault was just answered, for all
    /// processes that use the table.
    pub(crate) fn map_for_others(&mut self, vpn: Vpn) -> Result<(), OutOfMemory> {
        let asid = self.current();
        let (first, pages) = self.leaf(vpn);
        if self.translation.shared_tables.is_none() {
            return Ok(());
        }
        let (Some(at), Some(shape)) = (self.leaf_at(asid, first), self.shape(asid, first)) else { return Ok(()) };
        self.prune_users(&shape);
        let Some(tables) = &mut self.translation.shared_tables else { return Ok(()) };
        let shared = tables.get_or_insert(shape, at, (asid, first));
        if !shared.users.contains(&(asid, first)) {
            return Ok(());
        }
        let others: Vec<(Asid, Vpn)> = shared.users.iter().filter(|user| **user != (asid, first)).copied().collect();
        let entries: Vec<MappedPage> = self.at(asid).table().pages(first, pages);
        for (other, there) in others {
            for entry in &entries {
                let vpn = there + (entry.vpn - first);
                if self.at(other).table().find(vpn).is_none() {
                    self.map_shared(other, vpn, entry.pte)?;
                }
            }
            self.gauge_memory(other);
        }
        Ok(())
    }

    /// Maps a page whose entry a shared table already holds: it costs nothing, since nothing is written.
    fn map_shared(&mut self, asid: Asid, vpn: Vpn, pte: Pte) -> Result<(), OutOfMemory> {
        self.hold(pte.pfn(), 1);
        let written = self.set_entry(asid, vpn, pte);
        self.release_held(1);
        written?;
        self.frames.add_map(asid, vpn, pte);
        self.count_page(asid, pte, true);
        Ok(())
    }

    /// Gives the process copies of its shared tables that map any of the bytes `start..end`. Call before its mappings
    /// there change.
    pub(crate) fn unshare_tables(&mut self, asid: Asid, start: u64, end: u64) -> Result<(), OutOfMemory> {
        let Some(tables) = &self.translation.shared_tables else { return Ok(()) };
        let base = self.base();
        let touches = |first: Vpn| first.0 << base.0 < end && start < (first.0 + self.leaf(first).1) << base.0;
        let used: Vec<(PhysAddr, Vpn)> = tables.used_by(asid).filter(|&(_, first)| touches(first)).collect();
        for (at, first) in used {
            if let Some(tables) = &mut self.translation.shared_tables {
                tables.remove_user((asid, first));
            }
            // Without other users the table has been the process's own all along.
            if self.leaf_at(asid, first) != Some(at) || !self.frames.shared_tables.contains_key(&at) {
                continue;
            }
            let bytes = self.options.layout.node_bytes(0);
            let order = self.frames.table_order(bytes);
            let own = match self.frames.allocate_table(bytes) {
                Some(own) => own,
                None => {
                    self.make_room(order)?;
                    self.frames.allocate_table(bytes).ok_or_else(|| self.out_of_memory(order))?
                }
            };
            // The copy fills the node, so that it need not be zeroed.
            self.frames.new_tables();
            self.edit(asid).0.move_leaf_node(first, own);
            self.frames.unshare_table(at);
            self.accounting.copy_table(at, own, bytes, Label::Fault);
            self.gauge_memory(asid);
        }
        if let Some(tables) = &mut self.translation.shared_tables {
            tables.drop_unused();
        }
        Ok(())
    }

    /// Returns the frame of the leaf table that maps `vpn`; for tests.
    pub fn leaf_table(&self, asid: Asid, vpn: Vpn) -> Option<Pfn> {
        self.leaf_at(asid, self.leaf(vpn).0).map(|at| at.pfn(self.base()))
    }
}
