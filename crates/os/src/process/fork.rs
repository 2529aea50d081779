//! Fork: a copy-on-write duplicate of an address space (`copy_page_range`).

use crate::{ObjectId, ObjectKind, OutOfMemory, Region, Vm, soft};
use reach_core::{Asid, Label, MappedPage, Vpn};
use std::collections::BTreeMap;
use std::ops::Range;

impl Vm {
    /// Forks the running process. Translations of regions that have private pages are copied, and write-protected in both
    /// processes if the region is private. All others are left to the child's faults, as in Linux.
    pub(super) fn fork(&mut self, child: Asid) -> Result<(), OutOfMemory> {
        let parent = self.current();
        self.ensure_process(parent)?;
        if child == parent || child == self.processes.running() {
            return Ok(());
        }
        self.processes.end_sharing(child);
        self.clear_address_space(child)?;
        self.ensure_process(child)?;
        self.at_mut(child).begin_with(None);
        self.charge(Label::Fault, self.options.costs.fork);
        self.tally(parent, |c| c.forks += 1);
        self.at_mut(child).maps_seen = self.at(parent).maps_seen;
        let regions: Vec<Region> = self.at(parent).space.regions().filter(|r| !r.dont_fork).copied().collect();
        let mut objects: BTreeMap<ObjectId, ObjectId> = BTreeMap::new();
        let mut protected = false;
        for region in regions {
            let mut copy = region;
            if region.anonymous() {
                let new = || self.objects.create(ObjectKind::Private(child), None);
                copy.object = *objects.entry(region.object).or_insert_with(new);
            }
            self.add_region(child, copy);
            if self.copied_at_fork(&region) {
                let pages = region.pages(self.base());
                self.translation.defer_ranges(true);
                protected |= self.copy_translations(parent, child, &region, pages.clone())?;
                self.translation.defer_ranges(false);
                for asid in [parent, child] {
                    self.form_ranges_anew(asid, Vpn(pages.start), pages.end - pages.start, Label::Fault);
                }
            }
        }
        let tables = self.table_pages(child).saturating_sub(1);
        self.charge(Label::Fault, tables * self.options.costs.table_page);
        if protected {
            self.shoot(parent, Vpn(0), u64::MAX, Label::Fault);
        }
        Ok(())
    }

    /// Returns whether fork copies the translations of a region rather than leave them to faults. FreeBSD, whose systems
    /// have a rule for code, copies those of files too (`pmap_copy`; Zhou et al. 2023, §9: superpages make that cheaper),
    /// unless tables are shared.
    fn copied_at_fork(&self, region: &Region) -> bool {
        let copies_files = self.code.as_ref().is_some_and(|code| !code.policy.share);
        region.private_pages || copies_files && region.file && !region.shared
    }

    /// Copies the translations of the base pages `pages` of `region`. Returns whether the parent lost rights.
    fn copy_translations(
        &mut self,
        parent: Asid,
        child: Asid,
        region: &Region,
        pages: Range<u64>,
    ) -> Result<bool, OutOfMemory> {
        let base = self.base();
        let mut protected = false;
        let identity = |entry: &MappedPage| (entry.vpn, entry.pte.pfn(), entry.pte.shift());
        for offset in self.swapped(parent, Vpn(pages.start), pages.end - pages.start) {
            self.at_mut(child).swapped.insert(pages.start + offset);
        }
        for entry in self.at(parent).table().pages(Vpn(pages.start), pages.end - pages.start) {
            let n = entry.pte.shift().base_pages(base);
            // Superpages of the page cache are left to faults, too (`copy_huge_pmd`).
            if entry.pte.soft() & soft::REFAULT != 0 {
                continue;
            }
            // Regions may share one page; the first of them has copied it.
            if !self.at(child).table().pages(entry.vpn, n).is_empty() {
                continue;
            }
            // Reclaiming memory for the child's nodes may have changed this page.
            let now = self.at(parent).table().page(entry.vpn);
            if now.is_none_or(|now| identity(&now) != identity(&entry)) {
                protected |= self.copy_translations(parent, child, region, entry.vpn.0..entry.vpn.0 + n)?;
                continue;
            }
            let mut pte = entry.pte.with_accessed(false).with_dirty(false).with_range(false);
            if !region.shared {
                pte = pte.with_writable(false);
                let change = |_: &Vm, entry: &MappedPage| entry.pte.with_writable(false);
                protected |= self.protect_without_shootdown(parent, entry.vpn, n, Label::Fault, change)?;
            }
            self.map(child, entry.vpn, pte, Label::Fault)?;
            self.tally(parent, |c| c.entries_copied += 1);
            self.charge(Label::Fault, self.options.costs.fork_per_pte);
        }
        Ok(protected)
    }
}
