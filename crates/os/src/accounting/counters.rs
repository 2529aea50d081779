//! What happened, under the names that results use.

use crate::{Census, PagingCounts, RangeCounts, ReservationCounts, Sample, Work};
use reach_core::PageShift;

/// A quantity that rises and falls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gauge {
    /// Now.
    pub current: u64,
    /// The most there ever was.
    pub peak: u64,
}

impl Gauge {
    /// Adds `n`.
    pub fn rise(&mut self, n: u64) {
        self.current += n;
        self.peak = self.peak.max(self.current);
    }

    /// Takes `n` away.
    pub fn fall(&mut self, n: u64) {
        self.current -= n;
    }

    /// Sets the present value.
    pub fn set(&mut self, n: u64) {
        self.current = n;
        self.peak = self.peak.max(n);
    }
}

/// What a page fault turned out to be. Every fault is exactly one of these.
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
    /// A store that was only to be noticed: the page was there, the right was there.
    WriteNotify,
    /// Nothing was wrong: the translation had come about in the meantime.
    Spurious,
}

/// Counts of one process or of all together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Page faults, all kinds.
    pub page_faults: u64,
    /// Those that waited for a file to be read in.
    pub major_faults: u64,
    /// First touches of anonymous memory ([`FaultKind::Anonymous`]).
    pub anonymous_faults: u64,
    /// Loads answered with the zero page.
    pub zero_page_faults: u64,
    /// First touches of file pages and shared memory.
    pub file_faults: u64,
    /// Copies on write, and writes that found their page unshared.
    pub cow_faults: u64,
    /// Stores to shared file pages that were only noticed.
    pub write_notify_faults: u64,
    /// Faults with nothing to do.
    pub spurious_faults: u64,
    /// References where no mapping was known; each got an implicit anonymous one.
    pub stray: u64,
    /// References that the program's own access rights forbid; let through, page by page.
    pub violations: u64,
    /// Pages mapped by fault-around beyond those that faulted.
    pub fault_around_pages: u64,
    /// Smaller pages made into a larger one.
    pub promotions: u64,
    /// Larger pages broken into smaller ones.
    pub demotions: u64,
    /// Pages for which a reservation was wanted.
    pub reservations_wanted: u64,
    /// Reservations made.
    pub reservations: u64,
    /// Reservations wanted and made, by size in the order of the machine's sizes above the base.
    pub reservations_by_size: Vec<[u64; 2]>,
    /// Reservations broken.
    pub preemptions: u64,
    /// Superpages wanted but not to be had.
    pub superpage_fallbacks: u64,
    /// Bytes of addresses that became code to make whole superpages of it.
    pub padded_bytes: u64,
    /// Superpages mapped, by size in the order of the machine's sizes above the base.
    pub superpages: Vec<Gauge>,
    /// Of all: the superpages that were mapped when most memory was in use, by size; the snapshot that papers show.
    pub superpages_at_peak: Vec<u64>,
    /// Bytes copied by copy-on-write, migration and promotion.
    pub bytes_copied: u64,
    /// Bytes zeroed, page-table nodes included.
    pub bytes_zeroed: u64,
    /// Bytes read in from files.
    pub bytes_read_in: u64,
    /// Of a process: bytes mapped, the zero page aside. Of all: frames in use by at least one mapping.
    pub resident_bytes: Gauge,
    /// Bytes of page-table nodes.
    pub page_table_bytes: Gauge,
    /// Shootdowns sent.
    pub shootdowns: u64,
    /// Forks.
    pub forks: u64,
    /// Page-table entries that forks copied.
    pub entries_copied: u64,
    /// Page-table entries that exec and exit tore down.
    pub entries_torn_down: u64,
    /// Leaf tables that processes took over from others.
    pub tables_shared: u64,
    /// Of all: elementary steps, where the system makes reservations.
    pub work: Option<Box<Work>>,
    /// Of all: memory over time, where that is asked for.
    pub series: Vec<Sample>,
    /// Of a process where there is a page daemon: memory before it began and after it had gone.
    pub around: [Option<Sample>; 2],
    /// Of all: what the page daemon did, where there is one.
    pub paging: Option<PagingCounts>,
    /// Of all: the contiguity of the process that had most mapped when it ended.
    pub census: Option<Box<Census>>,
    /// Of all: what happened to ranges, where there are any.
    pub ranges: Option<RangeCounts>,
    /// Of all: what happened to reservations, where the system makes any.
    pub reserv: Option<ReservationCounts>,
}

impl Counters {
    /// Counters for a machine with these page sizes.
    pub fn new(sizes: &[PageShift]) -> Counters {
        Counters {
            superpages: vec![Gauge::default(); sizes.len() - 1],
            reservations_by_size: vec![[0; 2]; sizes.len() - 1],
            ..Counters::default()
        }
    }

    /// Faults that did not wait for a file.
    pub fn minor_faults(&self) -> u64 {
        self.page_faults - self.major_faults
    }

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
