//! Counters of events, under the names that results use.

use super::{Census, ExplicitCounts, Gauge, MonitorCounts, PagingCounts, RangeCounts, ReservationCounts, Sample, Work};
use reach_core::PageShift;

/// Kinds of page faults. Every fault is of exactly one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// First touch of anonymous memory that got a page of its own.
    Anonymous,
    /// First load from anonymous memory, answered with the shared zero page.
    ZeroPage,
    /// First touch of a page of a file or of shared memory.
    File,
    /// A store that made a private copy, or that found its page no longer shared.
    Cow,
    /// A store that only had to be noticed: the page was mapped and the region writable.
    WriteNotify,
    /// Nothing was wrong: the translation existed by the time the fault was handled.
    Spurious,
}

/// Counts of one process, or of all processes together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Page faults, all kinds.
    pub page_faults: u64,
    /// Page faults that waited for a disk.
    pub major_faults: u64,
    /// First touches of anonymous memory ([`FaultKind::Anonymous`]).
    pub anonymous_faults: u64,
    /// Loads from untouched anonymous memory, answered with the zero page.
    pub zero_page_faults: u64,
    /// First touches of file pages and shared memory.
    pub file_faults: u64,
    /// Copies on write, and writes that found their page unshared.
    pub cow_faults: u64,
    /// Stores to shared file pages that only had to be noticed.
    pub write_notify_faults: u64,
    /// Faults with nothing to do.
    pub spurious_faults: u64,
    /// Faults, of any kind above, that mapped a new superpage of private or shared memory.
    pub superpage_faults: u64,
    /// Faults that mapped a block of several base pages smaller than a huge page (Linux's multi-size huge pages).
    pub folio_faults: u64,
    /// Faults outside every known mapping; each made an implicit anonymous mapping.
    pub implicit_mappings: u64,
    /// Faults on references that the mapping's access rights forbid. They are let through, page by page.
    pub violations: u64,
    /// Pages mapped by fault-around beyond those that faulted.
    pub fault_around_pages: u64,
    /// Times that smaller pages became a larger one.
    pub promotions: u64,
    /// Times that a page was broken into smaller ones.
    pub demotions: u64,
    /// Pages for which a reservation was wanted.
    pub reservations_wanted: u64,
    /// Reservations made.
    pub reservations: u64,
    /// Reservations wanted and reservations made, by size: the machine's sizes above the base page, ascending.
    pub reservations_by_size: Vec<[u64; 2]>,
    /// Reservations broken because memory was short.
    pub preemptions: u64,
    /// Superpage allocation failures: a superpage or a block of several base pages was wanted, and memory had no block
    /// for it.
    pub superpage_fallbacks: u64,
    /// Bytes of addresses added to code to make whole superpages of it.
    pub padded_bytes: u64,
    /// Superpages mapped, by size: the machine's sizes above the base page, ascending.
    pub superpages: Vec<Gauge>,
    /// All processes only: superpages mapped when resident memory peaked, by size. Papers show this snapshot.
    pub superpages_at_peak: Vec<u64>,
    /// Bytes copied by copy-on-write, migration and promotion. Counted for all processes only.
    pub bytes_copied: u64,
    /// Bytes zeroed, page-table nodes included. Counted for all processes only.
    pub bytes_zeroed: u64,
    /// Bytes of first touches that had been zeroed ahead, which `bytes_zeroed` leaves out. Counted for all processes only.
    pub bytes_zeroed_ahead: u64,
    /// Bytes read in from files. Counted for all processes only.
    pub bytes_read_in: u64,
    /// One process: bytes mapped. All processes: bytes of frames with at least one mapping. The zero page does not count.
    pub resident_bytes: Gauge,
    /// Bytes of page-table nodes.
    pub page_table_bytes: Gauge,
    /// Shootdowns sent.
    pub shootdowns: u64,
    /// Forks.
    pub forks: u64,
    /// Page-table entries that forks copied.
    pub entries_copied: u64,
    /// Page-table entries that exec and exit removed, where that is charged by the entry.
    pub entries_torn_down: u64,
    /// Leaf page tables that processes shared with others instead of filling their own.
    pub tables_shared: u64,
    /// All processes only: elementary steps, where the system makes reservations.
    pub work: Option<Box<Work>>,
    /// All processes only: the state of memory over time, where that is sampled.
    pub series: Vec<Sample>,
    /// One process, where there is a page daemon: the state of memory before it began and after it ended.
    pub around: [Option<Sample>; 2],
    /// All processes only: counts of the page daemon, where there is one.
    pub paging: Option<PagingCounts>,
    /// All processes only: the census of the process that had most memory mapped when it ended.
    pub census: Option<Box<Census>>,
    /// All processes only: counts of ranges, where the system keeps ranges.
    pub ranges: Option<RangeCounts>,
    /// All processes only: counts of reservations, where the system makes any.
    pub reserv: Option<ReservationCounts>,
    /// All processes only: traps to the monitor, where one shadows the page tables.
    pub monitor: Option<MonitorCounts>,
    /// All processes only: what first touches got, where the system gives all of them pages of one size.
    pub explicit: Option<ExplicitCounts>,
}

impl Counters {
    /// Returns counters of 0 for a machine with these page sizes, the base page first.
    pub fn new(sizes: &[PageShift]) -> Counters {
        Counters {
            superpages: vec![Gauge::default(); sizes.len() - 1],
            reservations_by_size: vec![[0; 2]; sizes.len() - 1],
            ..Counters::default()
        }
    }

    /// Returns the number of faults that did not wait for a disk.
    pub fn minor_faults(&self) -> u64 {
        self.page_faults - self.major_faults
    }

    /// Counts a fault of this kind.
    pub(crate) fn fault(&mut self, kind: FaultKind) {
        self.page_faults += 1;
        match kind {
            FaultKind::Anonymous => self.anonymous_faults += 1,
            FaultKind::ZeroPage => self.zero_page_faults += 1,
            FaultKind::File => self.file_faults += 1,
            FaultKind::Cow => self.cow_faults += 1,
            FaultKind::WriteNotify => self.write_notify_faults += 1,
            FaultKind::Spurious => self.spurious_faults += 1,
        }
    }
}
