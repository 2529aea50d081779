//! Paging: the page daemon with its lists, cache pages, swap, and the kernel's own pages kept together (Navarro et al.
//! §5.1 and 5.2, on FreeBSD 4's page daemon).

mod daemon;
mod evict;
mod kernel;
mod reference;
mod room;
mod scan;
mod stock;

use crate::Vm;
use crate::memory::{Queues, ReverseMap, WiredPool};
use reach_core::{Pfn, Random};

/// How memory is reclaimed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paging {
    /// The daemon also runs when a reservation of the preferred size failed, and frees what would have satisfied it.
    pub contiguity: bool,
    /// Clean pages of a file become inactive when the file's last mapping goes.
    pub last_close: bool,
    /// The kernel's own pages are clustered.
    pub cluster_wired: bool,
    /// Clean pages of files that go are cache pages, which can be had back (FreeBSD until 11), not free ones.
    pub cache: bool,
    /// With what probability, in percent, a superpage is demoted when its reference bit is cleared.
    pub demote: u64,
    /// The daemon runs when less than this share of memory is free or cached, in thousandths, and goes on until twice
    /// as much is.
    pub low: u64,
    /// Seed of all choices.
    pub seed: u64,
}

/// What paging did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PagingCounts {
    /// Pages written to swap or to their files.
    pub out: u64,
    /// Dirty pages whose digest showed that they need not be written.
    pub unchanged: u64,
    /// Pages read back from swap.
    pub swapped_in: u64,
    /// Pages that the daemon moved to the cache.
    pub cached: u64,
    /// Cache pages that were used again.
    pub reactivated: u64,
    /// Pages that the daemon looked at.
    pub scanned: u64,
    /// Regions that were wanted when the daemon ran for contiguity.
    pub regions_wanted: u64,
    /// Regions that it restored.
    pub regions_restored: u64,
}

/// The page daemon's state.
pub(crate) struct Pager {
    pub(crate) how: Paging,
    pub(crate) random: Random,
    /// Reservations of each level that failed since the daemon last ran for contiguity.
    pub(crate) unmet: Vec<u64>,
    pub(crate) counts: PagingCounts,
    /// It is at work, and must not be called again.
    pub(crate) running: bool,
    /// The page of the cache that was looked up last: it stays until it is mapped.
    pub(crate) pinned: Option<Pfn>,
    /// Runs of frames whose translations are just being changed: they stay, too.
    pub(crate) held: Vec<(Pfn, u64)>,
    /// The kernel's own records.
    zones: kernel::Zones,
}

impl Vm {
    /// From now on memory is reclaimed by a page daemon. After [`Vm::use_superpages`], at boot.
    pub fn use_paging(&mut self, how: Paging) {
        let frames = self.frames.buddy().frames();
        self.frames.queues = Some(Queues::new(frames));
        self.frames.rmap = Some(ReverseMap::new(frames));
        if how.cluster_wired {
            // Pools grow by superpages, so that no other superpage is lost to them; larger ones leave fewer lost. The paper does
            // not say how large its pools are: here it is at most the 64th part of memory at once.
            let superpages = self.options.sizes.iter().skip(1);
            let orders: Vec<u8> = superpages.map(|size| size.order(self.base())).collect();
            let most = (self.options.memory >> 6 >> self.base().0).max(1).ilog2() as u8;
            self.frames.wired = Some(WiredPool::new(&orders, most, frames));
        }
        self.frames.top_up();
        let unmet = vec![0; self.options.sizes.len()];
        let random = Random::new(how.seed);
        self.counters.paging = Some(PagingCounts::default());
        self.pager = Some(Pager {
            random,
            unmet,
            counts: PagingCounts::default(),
            running: false,
            pinned: None,
            held: Vec::new(),
            zones: kernel::Zones::default(),
            how,
        });
    }

    /// Whether the page daemon has something to do.
    pub fn daemon_wanted(&self) -> bool {
        let Some(pager) = &self.pager else { return false };
        self.short_of_memory() || pager.how.contiguity && pager.unmet.iter().any(|&unmet| unmet > 0)
    }

    /// Frames that are free, cached, or wait in reservations.
    pub(crate) fn available(&self) -> u64 {
        self.frames.buddy().free_frames() + self.frames.reservations().map_or(0, |reservations| reservations.held())
    }

    pub(crate) fn low_water(&self) -> u64 {
        self.pager.as_ref().map_or(0, |pager| self.frames.buddy().frames() * pager.how.low / 1000)
    }

    pub(crate) fn short_of_memory(&self) -> bool {
        self.available() < self.low_water()
    }

    /// A reservation of `level` was wanted and could not be had.
    pub(crate) fn unmet(&mut self, level: u8) {
        if let Some(pager) = &mut self.pager {
            pager.unmet[level as usize] += 1;
        }
    }

    /// `pfn` must stay in memory until another page is named, or none.
    pub(crate) fn pin(&mut self, pfn: Option<Pfn>) {
        if let Some(pager) = &mut self.pager {
            pager.pinned = pfn;
        }
    }

    /// The page at `pfn` must stay in memory for now.
    pub(crate) fn pinned(&self, pfn: Pfn) -> bool {
        let held = |&(first, pages): &(Pfn, u64)| match crate::memory::is_shadow(first) {
            true => (0..pages).any(|at| self.frames.real(first + at) == pfn),
            false => first <= pfn && pfn < first + pages,
        };
        self.pager.as_ref().is_some_and(|pager| pager.pinned == Some(pfn) || pager.held.iter().any(held))
    }

    /// Pages in these frames stay in memory until [`Vm::let_go`], to which calls nest.
    pub(crate) fn hold(&mut self, pfn: Pfn, pages: u64) {
        if let Some(pager) = &mut self.pager {
            pager.held.push((pfn, pages));
        }
    }

    /// Undoes the last `n` of [`Vm::hold`].
    pub(crate) fn let_go(&mut self, n: usize) {
        if let Some(pager) = &mut self.pager {
            pager.held.truncate(pager.held.len() - n);
        }
    }

    /// Counts something that paging did.
    pub(crate) fn paged(&mut self, count: impl FnOnce(&mut PagingCounts)) {
        if let Some(pager) = &mut self.pager {
            count(&mut pager.counts);
            self.counters.paging = Some(pager.counts);
        }
    }
}
