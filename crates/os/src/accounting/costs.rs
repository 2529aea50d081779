//! Costs of the operating system's work. Machine files give them, each with its provenance.

use reach_core::Millicycles;

/// Costs of the operating system's own work.
///
/// Where the run loop models caches, it sends zeroing, copying and page-table writes through them as
/// [`Traffic`](reach_core::Traffic) and charges their entries here only for the instructions of a promotion's copy loop.
/// Everything else is always charged. The hardware charges for the invalidation of TLB entries itself (`invalidate` of its
/// core).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Costs {
    /// Cycles of trap and return of any fault that the program took.
    pub trap: u64,
    /// Cycles of the kernel's path through an anonymous fault, without zeroing, copying and page-table writes.
    pub fault: u64,
    /// The same for a fault on a file or shared object that is in memory.
    pub file_fault: u64,
    /// Cycles for each page beyond the first that fault-around maps.
    pub fault_around_page: u64,
    /// Cost of each byte zeroed.
    pub zero_per_byte: Millicycles,
    /// Cost of each byte copied.
    pub copy_per_byte: Millicycles,
    /// Cycles for each page-table entry written.
    pub pte_write: u64,
    /// Cycles for each shootdown, of the processor that sends it.
    pub shootdown: u64,
    /// Cycles more where other processors may have entries: the interrupt and the wait for their answers.
    pub interrupt: u64,
    /// Cycles of a fork, without its page-table entries.
    pub fork: u64,
    /// Cycles for each page-table entry that fork copies, without the write itself.
    pub fork_per_pte: u64,
    /// Cycles for each page-table entry that exec and exit tear down, without the write itself: the page's reverse mapping
    /// and reference counts.
    pub exit_per_pte: u64,
    /// Cycles to free the memory of a private anonymous page, of any size, when it is unmapped and nothing else maps it. Pages that
    /// are copied together are not charged.
    pub free_page: u64,
    /// Cycles for each page of page tables that fork adds or that exec and exit free, without zeroing.
    pub table_page: u64,
    /// Cycles for each request to read in part of a file.
    pub file_read: u64,
    /// Cost of each byte read in.
    pub file_read_per_byte: Millicycles,
    /// Cycles for each base page that a daemon looks at (khugepaged, page daemon).
    pub scan_per_page: u64,
}

impl Costs {
    /// All costs are 0: for tests of behaviour, and for runs that only count.
    pub const FREE: Costs = Costs {
        trap: 0,
        fault: 0,
        file_fault: 0,
        fault_around_page: 0,
        zero_per_byte: Millicycles(0),
        copy_per_byte: Millicycles(0),
        pte_write: 0,
        shootdown: 0,
        interrupt: 0,
        fork: 0,
        fork_per_pte: 0,
        exit_per_pte: 0,
        free_page: 0,
        table_page: 0,
        file_read: 0,
        file_read_per_byte: Millicycles(0),
        scan_per_page: 0,
    };

    /// Estimates for a present-day 2–4 GHz x86 server under Linux, to the nearest round number: a fault of about half
    /// a microsecond without zeroing, 16 bytes zeroed a cycle, 8 copied, 2 µs for interrupting other processors, a fast solid-state disk.
    pub const ESTIMATE: Costs = Costs {
        trap: 400,
        fault: 700,
        file_fault: 900,
        fault_around_page: 40,
        zero_per_byte: Millicycles(60),
        copy_per_byte: Millicycles(125),
        pte_write: 4,
        shootdown: 150,
        interrupt: 4_000,
        fork: 120_000,
        fork_per_pte: 25,
        exit_per_pte: 25,
        free_page: 250,
        table_page: 400,
        file_read: 240_000,
        file_read_per_byte: Millicycles(1_000),
        scan_per_page: 15,
    };
}
