//! Sums of counters, for results of several operating systems together.

use super::{
    Counters, ExplicitCounts, Gauge, MonitorCounts, PagingCounts, RangeCounts, ReservationCounts, Steps, Work,
};

impl Gauge {
    /// Adds the values of `other`. The peak is the sum of both peaks, which may have been at different times.
    fn absorb(&mut self, other: Gauge) {
        self.current += other.current;
        self.peak += other.peak;
    }
}

impl Counters {
    /// Adds the counts of `other`, the operating system of another guest with the same page sizes. The census becomes the larger one;
    /// the series of samples goes, as each is of one memory.
    pub fn absorb(&mut self, other: &Counters) {
        self.absorb_faults(other);
        for (mine, theirs) in [
            (&mut self.promotions, other.promotions),
            (&mut self.demotions, other.demotions),
            (&mut self.reservations_wanted, other.reservations_wanted),
            (&mut self.reservations, other.reservations),
            (&mut self.preemptions, other.preemptions),
            (&mut self.superpage_fallbacks, other.superpage_fallbacks),
            (&mut self.padded_bytes, other.padded_bytes),
            (&mut self.bytes_copied, other.bytes_copied),
            (&mut self.bytes_zeroed, other.bytes_zeroed),
            (&mut self.bytes_zeroed_ahead, other.bytes_zeroed_ahead),
            (&mut self.bytes_read_in, other.bytes_read_in),
            (&mut self.shootdowns, other.shootdowns),
            (&mut self.forks, other.forks),
            (&mut self.entries_copied, other.entries_copied),
            (&mut self.entries_torn_down, other.entries_torn_down),
            (&mut self.tables_shared, other.tables_shared),
        ] {
            *mine += theirs;
        }
        let sizes = self.reservations_by_size.iter_mut().flatten();
        sizes.zip(other.reservations_by_size.iter().flatten()).for_each(|(mine, theirs)| *mine += theirs);
        self.superpages.iter_mut().zip(&other.superpages).for_each(|(mine, theirs)| mine.absorb(*theirs));
        sum(&mut self.superpages_at_peak, &other.superpages_at_peak);
        self.resident_bytes.absorb(other.resident_bytes);
        self.page_table_bytes.absorb(other.page_table_bytes);
        self.series.clear();
        absorb(&mut self.work, &other.work, |mine, theirs| mine.absorb(theirs));
        absorb(&mut self.paging, &other.paging, PagingCounts::absorb);
        absorb(&mut self.ranges, &other.ranges, RangeCounts::absorb);
        absorb(&mut self.reserv, &other.reserv, ReservationCounts::absorb);
        absorb(&mut self.monitor, &other.monitor, MonitorCounts::absorb);
        absorb(&mut self.explicit, &other.explicit, ExplicitCounts::absorb);
        let pages = |counters: &Counters| counters.census.as_ref().map_or(0, |census| census.pages);
        if pages(other) > pages(self) {
            self.census.clone_from(&other.census);
        }
    }

    fn absorb_faults(&mut self, other: &Counters) {
        for (mine, theirs) in [
            (&mut self.page_faults, other.page_faults),
            (&mut self.major_faults, other.major_faults),
            (&mut self.anonymous_faults, other.anonymous_faults),
            (&mut self.zero_page_faults, other.zero_page_faults),
            (&mut self.file_faults, other.file_faults),
            (&mut self.cow_faults, other.cow_faults),
            (&mut self.write_notify_faults, other.write_notify_faults),
            (&mut self.spurious_faults, other.spurious_faults),
            (&mut self.superpage_faults, other.superpage_faults),
            (&mut self.folio_faults, other.folio_faults),
            (&mut self.implicit_mappings, other.implicit_mappings),
            (&mut self.violations, other.violations),
            (&mut self.fault_around_pages, other.fault_around_pages),
        ] {
            *mine += theirs;
        }
    }
}

/// Adds what `theirs` has, if anything.
fn absorb<T: Clone>(mine: &mut Option<T>, theirs: &Option<T>, add: impl FnOnce(&mut T, &T)) {
    match (mine, theirs) {
        (Some(mine), Some(theirs)) => add(mine, theirs),
        (mine @ None, theirs) => mine.clone_from(theirs),
        (Some(_), None) => {}
    }
}

/// Adds the numbers of `theirs` to those of `mine`, which may be fewer.
fn sum(mine: &mut Vec<u64>, theirs: &[u64]) {
    mine.resize(mine.len().max(theirs.len()), 0);
    mine.iter_mut().zip(theirs).for_each(|(mine, theirs)| *mine += theirs);
}

impl Work {
    fn absorb(&mut self, other: &Work) {
        for (mine, theirs) in self.of.iter_mut().flatten().zip(other.of.iter().flatten()) {
            *mine = Steps { times: mine.times + theirs.times, steps: mine.steps + theirs.steps };
        }
    }
}

impl PagingCounts {
    fn absorb(&mut self, other: &PagingCounts) {
        let PagingCounts { out, unchanged, swapped_in, cached, reactivated, scanned, .. } = other;
        self.out += out;
        self.unchanged += unchanged;
        self.swapped_in += swapped_in;
        self.cached += cached;
        self.reactivated += reactivated;
        self.scanned += scanned;
        self.regions_wanted += other.regions_wanted;
        self.regions_restored += other.regions_restored;
    }
}

impl RangeCounts {
    fn absorb(&mut self, other: &RangeCounts) {
        self.ranges.absorb(other.ranges);
        self.pages.absorb(other.pages);
        self.table_bytes.absorb(other.table_bytes);
        for (mine, theirs) in [
            (&mut self.made, other.made),
            (&mut self.segments, other.segments),
            (&mut self.grown, other.grown),
            (&mut self.cut, other.cut),
            (&mut self.dissolved, other.dissolved),
            (&mut self.nodes_read, other.nodes_read),
            (&mut self.nodes_written, other.nodes_written),
            (&mut self.eager, other.eager),
            (&mut self.eager_pages, other.eager_pages),
            (&mut self.eager_blocks, other.eager_blocks),
            (&mut self.fragmented, other.fragmented),
            (&mut self.short, other.short),
            (&mut self.enabled, other.enabled),
            (&mut self.disabled, other.disabled),
        ] {
            *mine += theirs;
        }
    }
}

impl ReservationCounts {
    fn absorb(&mut self, other: &ReservationCounts) {
        self.broken += other.broken;
        self.freed += other.freed;
        self.reclaimed += other.reclaimed;
        self.fullpop.absorb(other.fullpop);
        self.partpopq.absorb(other.partpopq);
    }
}

impl MonitorCounts {
    fn absorb(&mut self, other: &MonitorCounts) {
        self.writes += other.writes;
        self.marks += other.marks;
        self.faults += other.faults;
        self.invalidations += other.invalidations;
        self.switches += other.switches;
        self.returns += other.returns;
        self.nested_nodes += other.nested_nodes;
    }
}

impl ExplicitCounts {
    fn absorb(&mut self, other: &ExplicitCounts) {
        sum(&mut self.mapped, &other.mapped);
        self.shared_extents += other.shared_extents;
        self.failures += other.failures;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Census, FaultKind, Sample};
    use reach_core::PageShift;

    #[test]
    fn counts_add_up_and_the_larger_census_stays() {
        let sizes = [PageShift(12), PageShift(21)];
        let one = |faults: u64, pages: u64| {
            let mut counters = Counters::new(&sizes);
            (0..faults).for_each(|_| counters.fault(FaultKind::Anonymous));
            counters.superpages[0].rise(pages);
            counters.superpages_at_peak = vec![pages];
            counters.resident_bytes.rise(10 * pages);
            counters.resident_bytes.fall(pages);
            counters.monitor = Some(MonitorCounts { writes: faults, ..MonitorCounts::default() });
            counters.census = Some(Box::new(Census { pages, ..Census::default() }));
            counters.series.push(Sample::default());
            counters
        };
        let mut all = one(2, 3);
        all.absorb(&one(5, 7));
        assert_eq!((all.page_faults, all.anonymous_faults), (7, 7));
        assert_eq!((all.superpages[0], &all.superpages_at_peak[..]), (Gauge { current: 10, peak: 10 }, &[10][..]));
        assert_eq!(all.resident_bytes, Gauge { current: 90, peak: 100 });
        assert_eq!(all.monitor.unwrap().traps(), 7);
        assert_eq!((all.census.as_ref().unwrap().pages, all.series.len()), (7, 0));
        let mut none = Counters::new(&sizes);
        none.absorb(&all);
        assert_eq!(none, Counters { series: Vec::new(), ..all });
    }
}
