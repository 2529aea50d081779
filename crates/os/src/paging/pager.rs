//! The page daemon's settings and state.

use super::kernel::Zones;
use crate::PagingCounts;
use reach_core::{Permille, Pfn, Random};

/// How the page daemon reclaims memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paging {
    /// The daemon also runs after a reservation of the preferred size failed, and frees what would have satisfied it.
    pub contiguity: bool,
    /// Clean pages of a file become inactive when its last mapping goes.
    pub last_close: bool,
    /// Kernel pages are clustered.
    pub cluster_wired: bool,
    /// Clean pages of files that are evicted become cache pages, which can be reactivated (FreeBSD until 11), not free frames.
    pub cache: bool,
    /// Probability, in percent, that a superpage is demoted when its reference bit is cleared under memory pressure.
    pub demote: u64,
    /// The daemon runs when less than this share of memory is free or cached, and goes on until twice as much is.
    pub low: Permille,
    /// Seed of the random choices.
    pub seed: u64,
}

/// The page daemon's state.
pub(crate) struct Pager {
    pub(crate) settings: Paging,
    pub(super) random: Random,
    /// Reservations of each level that failed since the daemon last ran for contiguity.
    pub(super) failed: Vec<u64>,
    pub(super) counts: PagingCounts,
    /// The daemon is at work and must not be called again.
    pub(super) running: bool,
    /// The page of the page cache that was looked up last. It stays in memory until it is mapped.
    pub(super) pinned: Option<Pfn>,
    /// Runs of frames whose translations are being changed. They stay in memory, too.
    pub(super) held: Vec<(Pfn, u64)>,
    /// The kernel's own records.
    pub(super) zones: Zones,
}

impl Pager {
    /// Returns an idle daemon for a machine with `levels` page sizes.
    pub(super) fn new(settings: Paging, levels: usize) -> Pager {
        Pager {
            random: Random::new(settings.seed),
            failed: vec![0; levels],
            counts: PagingCounts::default(),
            running: false,
            pinned: None,
            held: Vec::new(),
            zones: Zones::default(),
            settings,
        }
    }

    /// Returns the number of pages that hold the kernel's records.
    pub(crate) fn record_pages(&self) -> u64 {
        self.zones.pages.iter().sum()
    }
}
