//! Keeping the records of code, and counting from them.

use super::policy::CLUSTER;
use super::records::{CodeCensus, WrittenCode};
use crate::{ObjectId, Process, Region, Vm};
use reach_core::{Asid, PageShift, Role, Vpn};
use std::collections::BTreeMap;

impl Vm {
    /// Records that code of a file was mapped.
    pub(super) fn record_code(&mut self, region: &Region) {
        let (base, Some(&size)) = (self.base(), self.options.sizes.get(1)) else { return };
        let Some(code) = &mut self.code else { return };
        let records = &mut code.records;
        let (role, bytes) = records.files.entry(region.object).or_insert((region.role, 0));
        *bytes = (*bytes).max(region.len());
        if region.role == Role::Image {
            *role = Role::Image;
        }
        for first in whole_extents(region, size, base) {
            records.extents.insert((region.object, region.index(first, base)));
        }
    }

    /// Records that the extent of code at page `index` of a file was mapped with a superpage.
    pub(super) fn record_promoted(&mut self, object: ObjectId, index: u64) {
        if let Some(code) = &mut self.code {
            code.records.promoted.insert((object, index));
        }
    }

    /// Records the code that a process wrote itself, which is about to end, where the system has a rule for code.
    pub(crate) fn record_written_code(&mut self, asid: Asid) {
        if self.code.is_none() {
            return;
        }
        let written = self.process(asid).map(|process| self.written_code(process)).unwrap_or_default();
        if let Some(code) = &mut self.code {
            code.records.written = code.records.written.max(written);
        }
    }

    fn written_code(&self, process: &Process) -> WrittenCode {
        let base = self.base();
        let mut written = WrittenCode::default();
        let Some(&size) = self.options.sizes.get(1) else { return written };
        for region in process.space().regions().filter(|r| r.anonymous() && r.protection.execute) {
            let pages = region.pages(base);
            let entries = process.table().pages(Vpn(pages.start), pages.end - pages.start);
            written.resident += entries.iter().map(|entry| entry.pte.shift().bytes()).sum::<u64>();
            for first in whole_extents(region, size, base) {
                let end = first + size.base_pages(base);
                let from = entries.partition_point(|entry| entry.vpn < first);
                let inside = entries.get(from).filter(|entry| entry.vpn < end);
                written.extents += 1;
                written.touched += u64::from(inside.is_some());
                written.promoted += u64::from(inside.is_some_and(|entry| entry.pte.shift() >= size));
            }
        }
        written
    }

    /// Returns the number of superpages of code ever mapped of each file that has any, with the file's path.
    pub fn code_superpages(&self) -> Vec<(String, u64)> {
        let mut files = BTreeMap::<ObjectId, u64>::new();
        for &(object, _) in self.code.iter().flat_map(|code| &code.records.promoted) {
            *files.entry(object).or_default() += 1;
        }
        let path = |object| self.objects.get(object).path.as_deref().unwrap_or("?").to_owned();
        files.into_iter().map(|(object, superpages)| (path(object), superpages)).collect()
    }

    /// Returns the census of code so far. `None` where the system has no rule for code.
    pub fn code_census(&self) -> Option<CodeCensus> {
        let (base, records) = (self.base(), &self.code.as_ref()?.records);
        let pages = self.options.sizes.get(1)?.base_pages(base);
        let cluster = (CLUSTER >> base.0).max(1);
        let executable =
            records.files.iter().filter(|(_, (role, _))| *role == Role::Image).map(|(_, (_, bytes))| *bytes).max();
        let libraries = records.files.values().filter(|(role, _)| *role != Role::Image).map(|(_, bytes)| *bytes);
        let clusters = records.extents.iter().map(|&(object, index)| {
            let resident = self.objects.get(object).pages.range(index..index + pages);
            // Clusters are aligned in the file: an extent that starts within one touches one more than it can hold.
            let mut last = None;
            resident.filter(|(page, _)| last.replace(*page / cluster) != Some(*page / cluster)).count() as u64
        });
        let live = self.processes().map(|(_, process)| self.written_code(process));
        let mut census = CodeCensus {
            executable: executable.unwrap_or(0),
            libraries: libraries.collect(),
            clusters: clusters.map(|clusters| clusters.min(pages / cluster)).collect(),
            promoted: records.promoted.len() as u64,
            written: live.max().unwrap_or_default().max(records.written),
        };
        census.libraries.sort_unstable();
        census.clusters.sort_unstable();
        Some(census)
    }
}

/// Returns the first pages of the aligned extents of `size` that lie wholly in `region`.
fn whole_extents(region: &Region, size: PageShift, base: PageShift) -> impl Iterator<Item = Vpn> {
    let pages = size.base_pages(base);
    let (first, end) = (region.start.div_ceil(size.bytes()), region.end >> size.0);
    (first..end).map(move |at| Vpn(at * pages))
}
