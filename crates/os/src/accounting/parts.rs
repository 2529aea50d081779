//! Counts of parts that not every system has: reservations, the page daemon, range translations, explicit huge pages, a monitor.

use super::gauge::Gauge;
use reach_core::PageShift;

/// Counts of reservations, as FreeBSD names them (`vm.reserv`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReservationCounts {
    /// Reservations broken for any reason.
    pub broken: u64,
    /// Reservations that ended because their last page was freed.
    pub freed: u64,
    /// Reservations broken because memory was short.
    pub reclaimed: u64,
    /// Full reservations.
    pub fullpop: Gauge,
    /// Partly populated reservations, which are on a list.
    pub partpopq: Gauge,
}

/// Counts of the page daemon.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PagingCounts {
    /// Pages written to swap or to their files.
    pub out: u64,
    /// Dirty pages that were not written, because their digest had not changed.
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

/// Counts of range translations and of eager paging.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RangeCounts {
    /// Ranges in all range tables.
    pub ranges: Gauge,
    /// Base pages in ranges.
    pub pages: Gauge,
    /// Ranges made.
    pub made: u64,
    /// Direct segments made.
    pub segments: u64,
    /// Ranges that grew by a neighbour.
    pub grown: u64,
    /// Ranges that lost pages and stayed, in one piece or in two.
    pub cut: u64,
    /// Ranges that ended while their pages stayed mapped.
    pub dissolved: u64,
    /// Range-table nodes that the operating system read.
    pub nodes_read: u64,
    /// Range-table nodes that it wrote.
    pub nodes_written: u64,
    /// Bytes of range tables.
    pub table_bytes: Gauge,
    /// Requests paged eagerly.
    pub eager: u64,
    /// Base pages that these requests got.
    pub eager_pages: u64,
    /// Blocks that these pages came in.
    pub eager_blocks: u64,
    /// Requests left to demand paging because memory was fragmented.
    pub fragmented: u64,
    /// Requests left to demand paging, in whole or in part, because memory was short.
    pub short: u64,
    /// Times the range TLB was turned on for a program ([`Enabling`](crate::Enabling)).
    pub enabled: u64,
    /// Times it was turned off again.
    pub disabled: u64,
}

/// Counts of pages of one size for all memory that may have them, as explicit huge pages are: what first touches got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExplicitCounts {
    /// The size that the system is for.
    pub asked: PageShift,
    /// The size of the machine that answers for it.
    pub size: PageShift,
    /// Bytes mapped at first touches, by page size: the machine's sizes, ascending.
    pub mapped: Vec<u64>,
    /// First touches that got a smaller page because the extent of `size` around them holds other mappings.
    pub shared_extents: u64,
    /// First touches that got a smaller page because memory had no free block of `size`.
    pub failures: u64,
}

/// Traps to the monitor, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MonitorCounts {
    /// Entries of page tables written.
    pub writes: u64,
    /// Accessed and dirty bits set.
    pub marks: u64,
    /// Page faults of the guest.
    pub faults: u64,
    /// Invalidations of translations.
    pub invalidations: u64,
    /// Switches to another address space.
    pub switches: u64,
    /// Nodes that went back to shadow mode.
    pub returns: u64,
    /// Nodes in nested mode, when the monitor looked last.
    pub nested_nodes: u64,
}

impl MonitorCounts {
    /// Returns the number of all traps.
    pub fn traps(&self) -> u64 {
        self.writes + self.marks + self.faults + self.invalidations + self.switches
    }
}
