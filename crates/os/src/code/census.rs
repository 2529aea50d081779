//! How much code there is, how much of it is touched and how much becomes superpages (Zhou et al. 2023, Table 3 and
//! Figures 1 and 2).

use crate::{CLUSTER, ObjectId, Process, Region, Vm};
use reach_core::{Asid, PageShift, Role, Vpn};
use std::collections::{BTreeMap, BTreeSet};

/// What was code in any process until now. Sizes are in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CodeCensus {
    /// Code of the executable that has most.
    pub executable: u64,
    /// Code of each library that was mapped, the smallest first.
    pub libraries: Vec<u64>,
    /// For each whole, aligned superpage of files' code that was mapped: how many of its clusters of 64 KB are in memory,
    /// the fewest first.
    pub clusters: Vec<u64>,
    /// Aligned extents of files' code that were mapped with superpages, padded ones among them.
    pub promoted: u64,
    /// Code that a program wrote itself, in the process that has most.
    pub written: Written,
}

/// Private memory that can be executed, in one process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Written {
    /// Bytes in memory.
    pub resident: u64,
    /// Whole, aligned superpages of addresses.
    pub extents: u64,
    /// Those with any page in memory.
    pub touched: u64,
    /// Those that are superpages.
    pub promoted: u64,
}

/// What must be remembered of code, since processes end. An extent is named by its file and the first page there.
#[derive(Clone, Debug, Default)]
pub(crate) struct CodeSeen {
    files: BTreeMap<ObjectId, (Role, u64)>,
    extents: BTreeSet<(ObjectId, u64)>,
    promoted: BTreeSet<(ObjectId, u64)>,
    written: Written,
}

impl Vm {
    /// Code of a file was mapped.
    pub(crate) fn see_code(&mut self, region: &Region) {
        let (base, Some(&size)) = (self.base(), self.options.sizes.get(1)) else { return };
        let seen = &mut self.code_seen;
        let (role, bytes) = seen.files.entry(region.object).or_insert((region.role, 0));
        *bytes = (*bytes).max(region.len());
        if region.role == Role::Image {
            *role = Role::Image;
        }
        for first in extents(region, size, base) {
            seen.extents.insert((region.object, region.index(first, base)));
        }
    }

    /// An extent of a file's code was mapped with a superpage.
    pub(crate) fn see_promoted(&mut self, object: ObjectId, index: u64) {
        self.code_seen.promoted.insert((object, index));
    }

    /// How many superpages of each file's code have ever been mapped, for files with any, by path.
    pub fn code_superpages(&self) -> Vec<(String, u64)> {
        let mut files = BTreeMap::<ObjectId, u64>::new();
        for &(object, _) in &self.code_seen.promoted {
            *files.entry(object).or_default() += 1;
        }
        let path = |object| self.objects.get(object).path.as_deref().unwrap_or("?").to_owned();
        files.into_iter().map(|(object, superpages)| (path(object), superpages)).collect()
    }

    /// The code that a process that is about to end wrote itself.
    pub(crate) fn see_written(&mut self, asid: Asid) {
        let written = self.process(asid).map(|process| self.written(process));
        self.code_seen.written = self.code_seen.written.max(written.unwrap_or_default());
    }

    fn written(&self, process: &Process) -> Written {
        let base = self.base();
        let mut written = Written::default();
        let Some(&size) = self.options.sizes.get(1) else { return written };
        for region in process.space().regions().filter(|r| r.anonymous() && r.protection.execute) {
            let pages = region.pages(base);
            let entries = process.table().pages(Vpn(pages.start), pages.end - pages.start);
            written.resident += entries.iter().map(|entry| entry.pte.shift().bytes()).sum::<u64>();
            for first in extents(region, size, base) {
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

    /// What was code until now, where the system treats it in its own way.
    pub fn code_census(&self) -> Option<CodeCensus> {
        self.code?;
        let (base, seen) = (self.base(), &self.code_seen);
        let pages = self.options.sizes.get(1)?.base_pages(base);
        let cluster = (CLUSTER >> base.0).max(1);
        let executable =
            seen.files.iter().filter(|(_, (role, _))| *role == Role::Image).map(|(_, (_, bytes))| *bytes).max();
        let libraries = seen.files.values().filter(|(role, _)| *role != Role::Image).map(|(_, bytes)| *bytes);
        let clusters = seen.extents.iter().map(|&(object, index)| {
            let resident = self.objects.get(object).pages.range(index..index + pages);
            // Clusters are the file's: an extent that starts within one has parts of one more.
            let mut last = None;
            resident.filter(|(page, _)| last.replace(*page / cluster) != Some(*page / cluster)).count() as u64
        });
        let live = self.processes().map(|(_, process)| self.written(process));
        let mut census = CodeCensus {
            executable: executable.unwrap_or(0),
            libraries: libraries.collect(),
            clusters: clusters.map(|clusters| clusters.min(pages / cluster)).collect(),
            promoted: seen.promoted.len() as u64,
            written: live.max().unwrap_or_default().max(seen.written),
        };
        census.libraries.sort_unstable();
        census.clusters.sort_unstable();
        Some(census)
    }
}

/// The first pages of the aligned extents of `size` that lie in `region` as wholes.
fn extents(region: &Region, size: PageShift, base: PageShift) -> impl Iterator<Item = Vpn> {
    let pages = size.base_pages(base);
    let (first, end) = (region.start.div_ceil(size.bytes()), region.end >> size.0);
    (first..end).map(move |at| Vpn(at * pages))
}
