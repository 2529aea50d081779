//! Rows of the operating system's counts.

use super::Rows;
use crate::simulation::{AlignedSuperpages, Stops};
use reach_core::PageShift;

impl Rows<'_> {
    /// Adds the counts of the host's operating system.
    pub(super) fn host(&mut self, os: &reach_os::Counters, sizes: &[PageShift]) {
        self.count("host.page_faults", "count", os.page_faults);
        self.count("host.promotions", "count", os.promotions);
        self.count("host.demotions", "count", os.demotions);
        for (size, gauge) in sizes.iter().skip(1).zip(&os.superpages) {
            self.count(&format!("host.superpages.{size}"), "pages", gauge.peak);
        }
        self.count("host.bytes_copied", "bytes", os.bytes_copied);
        self.count("host.bytes_zeroed", "bytes", os.bytes_zeroed);
        self.count("host.peak_resident_bytes", "bytes", os.resident_bytes.peak);
        self.count("host.page_table_bytes", "bytes", os.page_table_bytes.peak);
    }

    /// Adds the superpages of guests and host, and the share of both that is aligned with one of the other.
    pub(super) fn alignment(&mut self, superpages: &AlignedSuperpages) {
        let AlignedSuperpages { guest, host, aligned } = *superpages;
        self.count("alignment.guest_superpages", "pages", guest);
        self.count("alignment.host_superpages", "pages", host);
        self.count("alignment.aligned_superpages", "pages", aligned);
        self.ratio("alignment.share", "share", (2 * aligned) as f64 / (guest + host).max(1) as f64);
    }

    /// Adds the counts of the host's operating system for each of several guests.
    pub(super) fn host_by_guest(&mut self, guests: &[reach_os::Counters], sizes: &[PageShift]) {
        for (number, os) in guests.iter().enumerate() {
            let name = |metric: &str| format!("host.guest.{number}.{metric}");
            self.count(&name("page_faults"), "count", os.page_faults);
            for (size, gauge) in sizes.iter().skip(1).zip(&os.superpages) {
                self.count(&name(&format!("superpages.{size}")), "pages", gauge.peak);
            }
            self.count(&name("peak_resident_bytes"), "bytes", os.resident_bytes.peak);
            self.count(&name("page_table_bytes"), "bytes", os.page_table_bytes.peak);
        }
    }

    /// Adds the traps to the monitor that shadows a guest's page tables.
    fn monitor(&mut self, monitor: &reach_os::MonitorCounts) {
        self.count("monitor.traps", "count", monitor.traps());
        self.count("monitor.traps.page_table_writes", "count", monitor.writes);
        self.count("monitor.traps.accessed_and_dirty", "count", monitor.marks);
        self.count("monitor.traps.page_faults", "count", monitor.faults);
        self.count("monitor.traps.invalidations", "count", monitor.invalidations);
        self.count("monitor.traps.switches", "count", monitor.switches);
        self.count("monitor.returns", "count", monitor.returns);
        self.count("monitor.nested_nodes", "count", monitor.nested_nodes);
    }

    /// Adds the operating system's counts. `sizes` are the machine's page sizes, base pages first.
    pub(super) fn operating_system(&mut self, os: &reach_os::Counters, sizes: &[PageShift]) {
        self.count("page_faults", "count", os.page_faults);
        self.count("page_faults.major", "count", os.major_faults);
        self.count("page_faults.anonymous", "count", os.anonymous_faults);
        self.count("page_faults.zero_page", "count", os.zero_page_faults);
        self.count("page_faults.file", "count", os.file_faults);
        self.count("page_faults.cow", "count", os.cow_faults);
        self.count("page_faults.write_notify", "count", os.write_notify_faults);
        self.count("page_faults.spurious", "count", os.spurious_faults);
        self.count("page_faults.superpage", "count", os.superpage_faults);
        self.count("page_faults.folio", "count", os.folio_faults);
        self.count("unmapped_references", "count", os.implicit_mappings);
        self.count("protection_violations", "count", os.violations);
        self.count("promotions", "count", os.promotions);
        self.count("demotions", "count", os.demotions);
        self.count("reservations", "count", os.reservations);
        self.count("reservations_wanted", "count", os.reservations_wanted);
        self.count("preemptions", "count", os.preemptions);
        self.count("superpage_fallbacks", "count", os.superpage_fallbacks);
        self.count("padded_bytes", "bytes", os.padded_bytes);
        for (size, gauge) in sizes.iter().skip(1).zip(&os.superpages) {
            self.count(&format!("superpages.{size}"), "pages", gauge.peak);
        }
        for (size, count) in sizes.iter().skip(1).zip(&os.superpages_at_peak) {
            self.count(&format!("superpages_at_peak.{size}"), "pages", *count);
        }
        for (size, [wanted, made]) in sizes.iter().skip(1).zip(&os.reservations_by_size) {
            self.count(&format!("reservations_wanted.{size}"), "count", *wanted);
            self.count(&format!("reservations.{size}"), "count", *made);
        }
        if let Some(work) = &os.work {
            self.work(work, sizes);
        }
        self.count("bytes_copied", "bytes", os.bytes_copied);
        self.count("bytes_zeroed", "bytes", os.bytes_zeroed);
        if os.bytes_zeroed_ahead > 0 {
            self.count("bytes_zeroed_ahead", "bytes", os.bytes_zeroed_ahead);
        }
        self.count("bytes_read_in", "bytes", os.bytes_read_in);
        self.count("peak_resident_bytes", "bytes", os.resident_bytes.peak);
        self.count("page_table_bytes", "bytes", os.page_table_bytes.peak);
        self.count("shootdowns", "count", os.shootdowns);
        self.count("page_table.entries_copied", "count", os.entries_copied);
        self.count("page_table.entries_torn_down", "count", os.entries_torn_down);
        self.count("page_table.tables_shared", "count", os.tables_shared);
        let around = os.around.iter().zip(["start", "end"]).filter_map(|(sample, when)| Some((sample.as_ref()?, when)));
        for (sample, when) in around {
            self.sample(sample, when);
        }
        for sample in &os.series {
            self.sample(sample, &format!("@{}", sample.millis));
        }
        if let Some(paging) = &os.paging {
            self.count("paging.out", "pages", paging.out);
            self.count("paging.unchanged", "pages", paging.unchanged);
            self.count("paging.swapped_in", "pages", paging.swapped_in);
            self.count("paging.cached", "pages", paging.cached);
            self.count("paging.reactivated", "pages", paging.reactivated);
            self.count("paging.scanned", "pages", paging.scanned);
            self.count("paging.regions_wanted", "count", paging.regions_wanted);
            self.count("paging.regions_restored", "count", paging.regions_restored);
        }
        if let Some(ranges) = &os.ranges {
            self.count("ranges", "count", ranges.ranges.peak);
            self.count("ranges.bytes", "bytes", ranges.pages.peak * sizes[0].bytes());
            self.count("ranges.made", "count", ranges.made);
            self.count("segments.made", "count", ranges.segments);
            self.count("ranges.grown", "count", ranges.grown);
            self.count("ranges.cut", "count", ranges.cut);
            self.count("ranges.dissolved", "count", ranges.dissolved);
            self.count("ranges.nodes_read", "count", ranges.nodes_read);
            self.count("ranges.nodes_written", "count", ranges.nodes_written);
            self.count("range_table_bytes", "bytes", ranges.table_bytes.peak);
            self.count("range_tlb.enabled", "count", ranges.enabled);
            self.count("range_tlb.disabled", "count", ranges.disabled);
            self.count("eager.requests", "count", ranges.eager);
            self.count("eager.blocks", "count", ranges.eager_blocks);
            self.count("eager.bytes", "bytes", ranges.eager_pages * sizes[0].bytes());
            self.count("eager.fragmented", "count", ranges.fragmented);
            self.count("eager.short", "count", ranges.short);
        }
        if let Some(monitor) = &os.monitor {
            self.monitor(monitor);
        }
        if let Some(explicit) = &os.explicit {
            for (size, bytes) in sizes.iter().zip(&explicit.mapped) {
                self.count(&format!("explicit.bytes.{size}"), "bytes", *bytes);
            }
            self.count("explicit.shared_extents", "count", explicit.shared_extents);
            self.count("explicit.failures", "count", explicit.failures);
        }
        // FreeBSD's names; the two gauges show their peaks.
        if let Some(reserv) = &os.reserv {
            self.count("vm.reserv.broken", "count", reserv.broken);
            self.count("vm.reserv.freed", "count", reserv.freed);
            self.count("vm.reserv.fullpop", "count", reserv.fullpop.peak);
            self.count("vm.reserv.partpopq", "count", reserv.partpopq.peak);
            self.count("vm.reserv.reclaimed", "count", reserv.reclaimed);
        }
    }

    /// Adds how long page faults stopped the program.
    pub(super) fn stops(&mut self, stops: &Stops) {
        self.count("stop.p99", "cycles", stops.quantile(0.99));
        self.count("stop.longest", "cycles", stops.longest());
    }

    /// Adds elementary steps by operation and page size (Navarro et al. §6.8).
    fn work(&mut self, work: &reach_os::Work, sizes: &[PageShift]) {
        for operation in reach_os::Operation::ALL {
            let mut push = |steps: reach_os::Steps, size: &str| {
                let name = operation.name();
                self.count(&format!("work.{name}.times{size}"), "count", steps.times);
                self.count(&format!("work.{name}.steps{size}"), "count", steps.steps);
            };
            push(work.all(operation), "");
            for (at, size) in sizes.iter().enumerate() {
                push(work.of(operation, at), &format!(".{size}"));
            }
        }
    }

    /// Adds the state of memory at one time. `when` is `start` or `end` of a process, or `@` and milliseconds since boot.
    fn sample(&mut self, sample: &reach_os::Sample, when: &str) {
        self.ratio(&format!("memory.contiguity.{when}"), "share", sample.contiguity as f64 / 1e6);
        self.count(&format!("memory.free.{when}"), "bytes", sample.free);
        self.count(&format!("memory.active.{when}"), "bytes", sample.active);
        self.count(&format!("memory.inactive.{when}"), "bytes", sample.inactive);
        self.count(&format!("memory.extents_in_use.{when}"), "count", sample.in_use);
        self.count(&format!("memory.extents_wired.{when}"), "count", sample.wired);
    }
}
