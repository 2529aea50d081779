//! What the operating system's work costs, and what it counts.
//!
//! [`Accounting`] owns the ledger, the counters of every process, and the work that the run loop still has to carry out:
//! shootdowns and memory traffic. It knows no page table and no frame; callers tell it what was done.

mod absorb;
mod census;
mod costs;
mod counters;
mod gauge;
mod parts;
mod sample;
mod work;

pub use census::Census;
pub(crate) use census::Runs;
pub use costs::Costs;
pub use counters::{Counters, FaultKind};
pub use gauge::Gauge;
pub use parts::{ExplicitCounts, MonitorCounts, PagingCounts, RangeCounts, ReservationCounts};
pub use sample::Sample;
pub use work::{Operation, Steps, Work};

use reach_core::{Asid, Label, Ledger, PageShift, Pfn, PhysAddr, Shootdown, Traffic, Vpn};
use std::collections::BTreeMap;

/// The ledger, the counters, and the work queued for the run loop.
pub(crate) struct Accounting {
    costs: Costs,
    /// Zeroing, copying and page-table writes become traffic instead of cycles.
    caches_modelled: bool,
    base: PageShift,
    /// Cycles per KB that promotions copy, in place of what the copy loop and the caches would take.
    flat_copy_cycles_per_kb: Option<u64>,
    /// Faults are taken by the kernel itself: they cost no trap.
    faults_by_kernel: bool,
    /// Bytes of free memory that are zeroed already.
    zeroed_ahead: u64,
    pub(crate) ledger: Ledger,
    /// Counters of all processes together.
    pub(crate) total: Counters,
    processes: BTreeMap<Asid, Counters>,
    pub(crate) finished: BTreeMap<Asid, Counters>,
    pub(crate) shootdowns: Vec<Shootdown>,
    pub(crate) traffic: Vec<Traffic>,
}

impl Accounting {
    /// Returns empty accounts for a machine with these page sizes, the base page first.
    pub(crate) fn new(costs: Costs, caches_modelled: bool, sizes: &[PageShift]) -> Accounting {
        Accounting {
            costs,
            caches_modelled,
            base: sizes[0],
            flat_copy_cycles_per_kb: None,
            faults_by_kernel: false,
            zeroed_ahead: 0,
            ledger: Ledger::default(),
            total: Counters::new(sizes),
            processes: BTreeMap::new(),
            finished: BTreeMap::new(),
            shootdowns: Vec::new(),
            traffic: Vec::new(),
        }
    }

    /// Charges promotions a fixed number of cycles per KB that they copy; their copies disturb no cache. Call at boot.
    pub(crate) fn set_flat_copy_cost(&mut self, cycles_per_kb: u64) {
        self.flat_copy_cycles_per_kb = Some(cycles_per_kb);
    }

    /// Sets whether the kernel itself takes the faults to come, so that they cost no trap.
    pub(crate) fn set_faults_by_kernel(&mut self, on: bool) {
        self.faults_by_kernel = on;
    }

    /// Starts the counters anew for a system that makes reservations of these page sizes. Call at boot.
    pub(crate) fn use_sizes(&mut self, sizes: &[PageShift]) {
        self.total = Counters::new(sizes);
        self.total.work = Some(Box::default());
    }

    /// Opens the account of a new process.
    pub(crate) fn open(&mut self, asid: Asid, counters: Counters) {
        self.processes.insert(asid, counters);
    }

    /// Closes the account of a process that has ended, with the state of memory after it where that is sampled.
    pub(crate) fn close(&mut self, asid: Asid, after: Option<Sample>) {
        if let Some(mut counters) = self.processes.remove(&asid) {
            counters.page_table_bytes.set(0);
            counters.around[1] = after;
            self.finished.insert(asid, counters);
        }
    }

    /// Returns the counters of a live process.
    pub(crate) fn of(&self, asid: Asid) -> Option<&Counters> {
        self.processes.get(&asid)
    }

    /// Returns the counters of all live processes, by address space.
    pub(crate) fn live(&self) -> impl Iterator<Item = (Asid, &Counters)> {
        self.processes.iter().map(|(&asid, counters)| (asid, counters))
    }

    /// Applies `count` to the counters of a process and to those of all processes together.
    pub(crate) fn tally(&mut self, asid: Asid, count: impl Fn(&mut Counters)) {
        count(&mut self.total);
        if let Some(counters) = self.processes.get_mut(&asid) {
            count(counters);
        }
    }

    /// Charges `cycles` to `label`.
    pub(crate) fn charge(&mut self, label: Label, cycles: u64) {
        self.ledger.charge(label, cycles);
    }

    /// Charges for a page fault and counts it. A `major` fault waited for a disk.
    pub(crate) fn fault(&mut self, asid: Asid, kind: FaultKind, major: bool) {
        let path = if kind == FaultKind::File { self.costs.file_fault } else { self.costs.fault };
        // Pages that the kernel populates count as faults (GUP does so in Linux), but no program traps.
        let trap = if self.faults_by_kernel { 0 } else { self.costs.trap };
        self.charge(Label::Fault, path + trap);
        self.tally(asid, |c| {
            c.fault(kind);
            c.major_faults += u64::from(major);
        });
    }

    /// Charges for reading part of a file and counts the bytes.
    pub(crate) fn file_read(&mut self, requests: u64, bytes: u64, label: Label) {
        self.total.bytes_read_in += bytes;
        self.disk(requests, 1, bytes, label);
    }

    /// Charges for `bytes` moved to or from a disk, by `requests / clusters` requests.
    pub(crate) fn disk(&mut self, requests: u64, clusters: u64, bytes: u64, label: Label) {
        let cycles = requests * self.costs.file_read / clusters + self.costs.file_read_per_byte.times(bytes).0;
        self.charge(label, cycles);
    }

    /// Queues a shootdown of `pages` base pages and charges nothing.
    pub(crate) fn queue_shootdown(&mut self, asid: Asid, vpn: Vpn, pages: u64) {
        self.shootdowns.push(Shootdown { asid, vpn, pages });
    }

    /// Zeroes `bytes` of the `free` bytes of free memory, ahead of first touches.
    pub(crate) fn zero_ahead(&mut self, bytes: u64, free: u64) {
        self.zeroed_ahead = self.zeroed_ahead.saturating_add(bytes).min(free);
    }

    /// Zeroes `pages` base frames from `pfn` on. First touches take memory that is zeroed already, as long as it lasts.
    pub(crate) fn zero(&mut self, pfn: Pfn, pages: u64, label: Label) {
        let bytes = pages << self.base.0;
        if label == Label::Fault && self.zeroed_ahead >= bytes {
            self.zeroed_ahead -= bytes;
            self.total.bytes_zeroed_ahead += bytes;
            return;
        }
        self.zero_bytes(pfn.addr(self.base), bytes, label);
    }

    /// Zeroes `bytes` from `at` on: as traffic where caches are modelled, else as cycles.
    pub(crate) fn zero_bytes(&mut self, at: PhysAddr, bytes: u64, label: Label) {
        if bytes == 0 {
            return;
        }
        self.total.bytes_zeroed += bytes;
        if self.caches_modelled {
            self.queue_traffic(Traffic { at, bytes, write: true, label });
        } else {
            self.charge(label, self.costs.zero_per_byte.times(bytes).0);
        }
    }

    /// Copies `pages` base frames: as traffic where caches are modelled, else as cycles.
    pub(crate) fn copy(&mut self, from: Pfn, to: Pfn, pages: u64, label: Label) {
        let base = self.base;
        let bytes = pages << base.0;
        self.total.bytes_copied += bytes;
        if let Some(flat) = self.flat_copy_cycles_per_kb.filter(|_| label == Label::Copy) {
            return self.charge(label, bytes * flat / 1024);
        }
        let loop_cycles = self.costs.copy_per_byte.times(bytes).0;
        if !self.caches_modelled {
            return self.charge(label, loop_cycles);
        }
        if label == Label::Copy {
            // The copy loop of a promotion takes as long as the machine file says. Traffic already has one cycle per
            // eight bytes.
            self.charge(label, loop_cycles.saturating_sub(2 * bytes.div_ceil(8)));
        }
        for page in 0..pages {
            let (from, to) = ((from + page).addr(base), (to + page).addr(base));
            self.traffic.push(Traffic { at: from, bytes: base.bytes(), write: false, label });
            self.traffic.push(Traffic { at: to, bytes: base.bytes(), write: true, label });
        }
    }

    /// Copies a page-table node of `bytes`.
    pub(crate) fn copy_table(&mut self, from: PhysAddr, to: PhysAddr, bytes: u64, label: Label) {
        self.charge(label, self.costs.table_page);
        if self.caches_modelled {
            self.traffic.push(Traffic { at: from, bytes, write: false, label });
            self.traffic.push(Traffic { at: to, bytes, write: true, label });
        } else {
            self.charge(label, self.costs.copy_per_byte.times(bytes).0);
        }
    }

    /// Accounts for `entries` page-table entries read from `at` on before they are changed: the reads, and the
    /// instructions of the loop over them, which no cache shows.
    pub(crate) fn read_entries(&mut self, at: PhysAddr, entries: u64, label: Label) {
        if self.caches_modelled {
            self.traffic.push(Traffic { at, bytes: 8 * entries, write: false, label });
            self.charge(label, entries * self.costs.pte_write);
        }
    }

    /// Accounts for `entries` page-table entries written from `at` on.
    pub(crate) fn write_entries(&mut self, at: PhysAddr, entries: u64, label: Label) {
        if self.caches_modelled {
            self.queue_traffic(Traffic { at, bytes: 8 * entries, write: true, label });
        } else {
            self.charge(label, entries * self.costs.pte_write);
        }
    }

    /// Accounts for one access to a range-table node of `bytes` at `at`.
    pub(crate) fn access_range_node(&mut self, at: PhysAddr, bytes: u64, write: bool, label: Label) {
        if self.caches_modelled {
            self.traffic.push(Traffic { at, bytes, write, label });
        } else {
            self.charge(label, self.costs.pte_write);
        }
        self.count_ranges(|c| if write { c.nodes_written += 1 } else { c.nodes_read += 1 });
    }

    /// Queues traffic, joined with the last write where it continues that.
    pub(crate) fn queue_traffic(&mut self, traffic: Traffic) {
        match self.traffic.last_mut() {
            Some(last)
                if last.at + last.bytes == traffic.at && last.write && traffic.write && last.label == traffic.label =>
            {
                last.bytes += traffic.bytes;
            }
            _ => self.traffic.push(traffic),
        }
    }

    /// Counts one operation on a page of size number `level` (0 the base page) that took `steps` elementary steps.
    /// Counts nothing where the system makes no reservations.
    pub(crate) fn count_steps(&mut self, operation: Operation, level: usize, steps: u64) {
        if let Some(work) = &mut self.total.work {
            work.add(operation, level, steps);
        }
    }

    /// Applies `count` to the counts of ranges, where the system keeps ranges.
    pub(crate) fn count_ranges(&mut self, count: impl FnOnce(&mut RangeCounts)) {
        if let Some(counts) = &mut self.total.ranges {
            count(counts);
        }
    }

    /// Counts a page of size number `level` that was mapped (`up`) or unmapped. It holds `bytes` of memory, 0 for pages of
    /// zeroes.
    pub(crate) fn count_page(&mut self, asid: Asid, level: usize, bytes: u64, up: bool) {
        let gauges = |c: &mut Counters| {
            if let Some(gauge) = level.checked_sub(1).map(|at| &mut c.superpages[at]) {
                if up { gauge.rise(1) } else { gauge.fall(1) }
            }
        };
        gauges(&mut self.total);
        if let Some(counters) = self.processes.get_mut(&asid) {
            gauges(counters);
            let resident = &mut counters.resident_bytes;
            if up { resident.rise(bytes) } else { resident.fall(bytes) }
        }
    }

    /// Sets the gauges of memory: resident bytes and page tables of all, and the page table of `asid`, in bytes.
    pub(crate) fn gauge_memory(&mut self, asid: Asid, resident: u64, tables: u64, own_table: u64) {
        self.total.resident_bytes.set(resident);
        self.total.page_table_bytes.set(tables);
        if let Some(counters) = self.processes.get_mut(&asid) {
            counters.page_table_bytes.set(own_table);
        }
    }

    /// Records which superpages are mapped if more memory than ever before is resident.
    pub(crate) fn note_peak(&mut self) {
        let total = &mut self.total;
        if total.resident_bytes.current == total.resident_bytes.peak {
            total.superpages_at_peak.clear();
            total.superpages_at_peak.extend(total.superpages.iter().map(|gauge| gauge.current));
        }
    }
}
