//! Keeping an organization in step with the tree.

use super::EditablePageTable;
use crate::organization::{Entries, TableTraffic};
use crate::{FrameSource, MappedPage, PageShift, PteWrites, Vpn};

impl EditablePageTable {
    /// Returns the traffic of the organization since the last call, besides what [`PteWrites`] say.
    pub fn take_traffic(&mut self) -> Vec<TableTraffic> {
        std::mem::take(&mut self.log)
    }

    /// Adds the entries of the page of size `shift` at `vpn` to the organization, and removes those of pages of other levels
    /// there. Returns `None`, and then nothing has changed, when memory is exhausted.
    pub(super) fn insert_organized(
        &mut self,
        vpn: Vpn,
        shift: PageShift,
        frames: &mut impl FrameSource,
    ) -> Option<PteWrites> {
        let entries = self.layout.entries(vpn, shift);
        let below = self.iter_pages(vpn, shift.base_pages(self.layout.base));
        let below = below.map(|page| self.layout.entries(page.vpn, page.pte.shift()));
        let below: Vec<Entries> = below.filter(|page| page.level != entries.level).collect();
        let all = (entries.first..).zip(self.layout.pages_of(entries));
        let organization = self.table.organization.as_mut()?;
        let absent: Vec<u64> = all
            .filter(|&(_, page)| organization.find(entries.level, page).is_none())
            .map(|(number, _)| number)
            .collect();
        // Pages of the same level that are there already keep their entries.
        let parts: Vec<Entries> = if absent.len() as u64 == entries.count {
            vec![entries]
        } else {
            absent.into_iter().map(|first| Entries { first, count: 1, ..entries }).collect()
        };
        for (at, part) in parts.iter().enumerate() {
            if organization.insert(*part, frames, &mut self.log).is_none() {
                parts[..at].iter().for_each(|part| organization.remove(*part, &mut self.log));
                return None;
            }
        }
        for page in below {
            let written = self.organized_writes(page);
            self.log.push(TableTraffic { at: written.at, bytes: 8 * written.entries, write: true });
            self.table.organization.as_mut()?.remove(page, &mut self.log);
        }
        Some(self.organized_writes(entries))
    }

    /// Removes the entries of `page` from the organization. Returns the writes; `None` if hardware reads the tree.
    pub(super) fn remove_organized(&mut self, page: &MappedPage) -> Option<PteWrites> {
        self.organization.as_ref()?;
        let entries = self.layout.entries(page.vpn, page.pte.shift());
        let written = self.organized_writes(entries);
        self.table.organization.as_mut()?.remove(entries, &mut self.log);
        Some(written)
    }

    /// Returns the writes of all of `entries`, which the organization has. Those that do not follow the first are logged.
    pub(super) fn organized_writes(&mut self, entries: Entries) -> PteWrites {
        let mut written: Option<PteWrites> = None;
        for page in self.layout.pages_of(entries) {
            let found = self.organization().and_then(|organization| organization.find(entries.level, page));
            let at = found.expect("the organization has every entry of the tree");
            match &mut written {
                None => written = Some(PteWrites { at, entries: 1, nodes: 0 }),
                Some(first) if first.at + 8 * first.entries == at => first.entries += 1,
                Some(_) => self.log.push(TableTraffic { at, bytes: 8, write: true }),
            }
        }
        written.expect("a page has at least one entry")
    }
}
