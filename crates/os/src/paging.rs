//! Paging: the page daemon, eviction and swap, and the clustering of kernel pages (Navarro et al. §5.1 and 5.2, on FreeBSD 4's page
//! daemon).

mod daemon;
mod evict;
mod kernel;
mod pager;
mod reference;
mod room;
mod scan;
mod stock;

pub(crate) use pager::Pager;
pub use pager::Paging;

use crate::memory::{Queues, ReverseMap, WiredPool};
use crate::{PagingCounts, Vm};
use reach_core::Pfn;

impl Vm {
    /// Reclaims memory by a page daemon from now on. Call at boot, after [`Vm::use_superpages`] if that is called.
    pub fn use_paging(&mut self, settings: Paging) {
        let frames = self.frames.buddy().frames();
        self.frames.queues = Some(Queues::new(frames));
        self.frames.rmap = Some(ReverseMap::new(frames));
        if settings.cluster_wired {
            self.cluster_kernel_pages();
        }
        self.frames.top_up();
        self.accounting.total.paging = Some(PagingCounts::default());
        self.pager = Some(Pager::new(settings, self.options.sizes.len()));
    }

    /// Takes the kernel's pages, page tables among them, from blocks of their own from now on, so that they lie between no
    /// program's pages. Call at boot.
    pub fn cluster_kernel_pages(&mut self) {
        // The pool grows by superpages, so that it takes none in part; larger ones lose fewer. The paper does not say how
        // large its pools are: here the pool grows by at most the 64th part of memory at once.
        let superpages = self.options.sizes.iter().skip(1);
        let orders: Vec<u8> = superpages.map(|size| size.order(self.base())).collect();
        let most = (self.options.memory >> 6 >> self.base().0).max(1).ilog2() as u8;
        self.frames.wired = Some(WiredPool::new(&orders, most, self.frames.buddy().frames()));
    }

    /// Returns whether the page daemon has something to do.
    pub fn daemon_wanted(&self) -> bool {
        let Some(pager) = &self.pager else { return false };
        self.short_of_memory() || pager.settings.contiguity && pager.failed.iter().any(|&failed| failed > 0)
    }

    /// Returns the number of frames that are free, cached, or vacant in reservations.
    pub(crate) fn available(&self) -> u64 {
        self.frames.buddy().free_frames() + self.frames.reservations().map_or(0, |reservations| reservations.held())
    }

    /// Returns the number of available frames below which the daemon runs.
    pub(crate) fn low_water(&self) -> u64 {
        self.pager.as_ref().map_or(0, |pager| pager.settings.low.of(self.frames.buddy().frames()))
    }

    /// Returns whether fewer frames are available than the low-water mark.
    pub(crate) fn short_of_memory(&self) -> bool {
        self.available() < self.low_water()
    }

    /// Records that memory had no block for a reservation of `level`.
    pub(crate) fn note_failed_reservation(&mut self, level: u8) {
        if let Some(pager) = &mut self.pager {
            pager.failed[level as usize] += 1;
        }
    }

    /// Keeps the page at `pfn` in memory until the next call. `None` keeps none.
    pub(crate) fn pin(&mut self, pfn: Option<Pfn>) {
        if let Some(pager) = &mut self.pager {
            pager.pinned = pfn;
        }
    }

    /// Returns whether the page at `pfn` must stay in memory for now.
    pub(crate) fn pinned(&self, pfn: Pfn) -> bool {
        let held = |&(first, pages): &(Pfn, u64)| match crate::memory::is_shadow(first) {
            true => (0..pages).any(|at| self.frames.real(first + at) == pfn),
            false => first <= pfn && pfn < first + pages,
        };
        self.pager.as_ref().is_some_and(|pager| pager.pinned == Some(pfn) || pager.held.iter().any(held))
    }

    /// Keeps the pages in these frames in memory until [`Vm::release_held`]. Calls nest.
    pub(crate) fn hold(&mut self, pfn: Pfn, pages: u64) {
        if let Some(pager) = &mut self.pager {
            pager.held.push((pfn, pages));
        }
    }

    /// Undoes the last `n` calls of [`Vm::hold`].
    pub(crate) fn release_held(&mut self, n: usize) {
        if let Some(pager) = &mut self.pager {
            pager.held.truncate(pager.held.len() - n);
        }
    }

    /// Applies `count` to the counts of the page daemon, where there is one.
    pub(crate) fn count_paging(&mut self, count: impl FnOnce(&mut PagingCounts)) {
        if let Some(pager) = &mut self.pager {
            count(&mut pager.counts);
            self.accounting.total.paging = Some(pager.counts);
        }
    }
}
