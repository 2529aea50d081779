//! Sums of counters, for results of several operating systems together.

use super::{
    Census, Counters, ExplicitCounts, Gauge, MonitorCounts, PagingCounts, RangeCounts, ReservationCounts, Steps, Work,
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
    /// samples of memory go, as each is of one guest's. Every field is named, so that a new one cannot be forgotten.
    pub fn absorb(&mut self, other: &Counters) {
        let Counters {
            page_faults,
            major_faults,
            anonymous_faults,
            zero_page_faults,
            file_faults,
            cow_faults,
            write_notify_faults,
            spurious_faults,
            superpage_faults,
            folio_faults,
            implicit_mappings,
            violations,
            fault_around_pages,
            promotions,
            demotions,
            reservations_wanted,
            reservations,
            preemptions,
            superpage_fallbacks,
            padded_bytes,
            bytes_copied,
            bytes_zeroed,
            bytes_zeroed_ahead,
            bytes_read_in,
            shootdowns,
            forks,
            entries_copied,
            entries_torn_down,
            tables_shared,
            reservations_by_size,
            superpages,
            superpages_at_peak,
            resident_bytes,
            page_table_bytes,
            work,
            series: _,
            around: _,
            paging,
            census,
            ranges,
            reserv,
            monitor,
            explicit,
        } = other;
        for (mine, theirs) in [
            (&mut self.page_faults, page_faults),
            (&mut self.major_faults, major_faults),
            (&mut self.anonymous_faults, anonymous_faults),
            (&mut self.zero_page_faults, zero_page_faults),
            (&mut self.file_faults, file_faults),
            (&mut self.cow_faults, cow_faults),
            (&mut self.write_notify_faults, write_notify_faults),
            (&mut self.spurious_faults, spurious_faults),
            (&mut self.superpage_faults, superpage_faults),
            (&mut self.folio_faults, folio_faults),
            (&mut self.implicit_mappings, implicit_mappings),
            (&mut self.violations, violations),
            (&mut self.fault_around_pages, fault_around_pages),
            (&mut self.promotions, promotions),
            (&mut self.demotions, demotions),
            (&mut self.reservations_wanted, reservations_wanted),
            (&mut self.reservations, reservations),
            (&mut self.preemptions, preemptions),
            (&mut self.superpage_fallbacks, superpage_fallbacks),
            (&mut self.padded_bytes, padded_bytes),
            (&mut self.bytes_copied, bytes_copied),
            (&mut self.bytes_zeroed, bytes_zeroed),
            (&mut self.bytes_zeroed_ahead, bytes_zeroed_ahead),
            (&mut self.bytes_read_in, bytes_read_in),
            (&mut self.shootdowns, shootdowns),
            (&mut self.forks, forks),
            (&mut self.entries_copied, entries_copied),
            (&mut self.entries_torn_down, entries_torn_down),
            (&mut self.tables_shared, tables_shared),
        ] {
            *mine += theirs;
        }
        let sizes = self.reservations_by_size.iter_mut().flatten();
        sizes.zip(reservations_by_size.iter().flatten()).for_each(|(mine, theirs)| *mine += theirs);
        self.superpages.iter_mut().zip(superpages).for_each(|(mine, theirs)| mine.absorb(*theirs));
        sum(&mut self.superpages_at_peak, superpages_at_peak);
        self.resident_bytes.absorb(*resident_bytes);
        self.page_table_bytes.absorb(*page_table_bytes);
        self.series.clear();
        self.around = [None; 2];
        absorb(&mut self.work, work, |mine, theirs| mine.absorb(theirs));
        absorb(&mut self.paging, paging, PagingCounts::absorb);
        absorb(&mut self.ranges, ranges, RangeCounts::absorb);
        absorb(&mut self.reserv, reserv, ReservationCounts::absorb);
        absorb(&mut self.monitor, monitor, MonitorCounts::absorb);
        absorb(&mut self.explicit, explicit, ExplicitCounts::absorb);
        let pages = |census: &Option<Box<Census>>| census.as_ref().map_or(0, |census| census.pages);
        if pages(census) > pages(&self.census) {
            self.census.clone_from(census);
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
        let PagingCounts { out, unchanged, swapped_in, cached, reactivated, scanned, regions_wanted, regions_restored } =
            other;
        self.out += out;
        self.unchanged += unchanged;
        self.swapped_in += swapped_in;
        self.cached += cached;
        self.reactivated += reactivated;
        self.scanned += scanned;
        self.regions_wanted += regions_wanted;
        self.regions_restored += regions_restored;
    }
}

impl RangeCounts {
    fn absorb(&mut self, other: &RangeCounts) {
        let RangeCounts {
            made,
            segments,
            grown,
            cut,
            dissolved,
            nodes_read,
            nodes_written,
            eager,
            eager_pages,
            eager_blocks,
            fragmented,
            short,
            enabled,
            disabled,
            ranges,
            pages,
            table_bytes,
        } = other;
        self.ranges.absorb(*ranges);
        self.pages.absorb(*pages);
        self.table_bytes.absorb(*table_bytes);
        for (mine, theirs) in [
            (&mut self.made, made),
            (&mut self.segments, segments),
            (&mut self.grown, grown),
            (&mut self.cut, cut),
            (&mut self.dissolved, dissolved),
            (&mut self.nodes_read, nodes_read),
            (&mut self.nodes_written, nodes_written),
            (&mut self.eager, eager),
            (&mut self.eager_pages, eager_pages),
            (&mut self.eager_blocks, eager_blocks),
            (&mut self.fragmented, fragmented),
            (&mut self.short, short),
            (&mut self.enabled, enabled),
            (&mut self.disabled, disabled),
        ] {
            *mine += theirs;
        }
    }
}

impl ReservationCounts {
    fn absorb(&mut self, other: &ReservationCounts) {
        let ReservationCounts { broken, freed, reclaimed, fullpop, partpopq } = other;
        self.fullpop.absorb(*fullpop);
        self.partpopq.absorb(*partpopq);
        self.broken += broken;
        self.freed += freed;
        self.reclaimed += reclaimed;
    }
}

impl MonitorCounts {
    fn absorb(&mut self, other: &MonitorCounts) {
        let MonitorCounts { writes, marks, faults, invalidations, switches, returns, nested_nodes } = other;
        self.writes += writes;
        self.marks += marks;
        self.faults += faults;
        self.invalidations += invalidations;
        self.switches += switches;
        self.returns += returns;
        self.nested_nodes += nested_nodes;
    }
}

impl ExplicitCounts {
    fn absorb(&mut self, other: &ExplicitCounts) {
        // All guests have the same sizes.
        let ExplicitCounts { asked: _, size: _, mapped, shared_extents, failures } = other;
        sum(&mut self.mapped, mapped);
        self.shared_extents += shared_extents;
        self.failures += failures;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FaultKind, Sample};
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
            counters.around[0] = Some(Sample::default());
            counters
        };
        let mut all = one(2, 3);
        all.absorb(&one(5, 7));
        assert_eq!((all.page_faults, all.anonymous_faults), (7, 7));
        assert_eq!((all.superpages[0], &all.superpages_at_peak[..]), (Gauge { current: 10, peak: 10 }, &[10][..]));
        assert_eq!(all.resident_bytes, Gauge { current: 90, peak: 100 });
        assert_eq!(all.monitor.unwrap().traps(), 7);
        assert_eq!((all.census.as_ref().unwrap().pages, all.series.len()), (7, 0));
        assert_eq!(all.around, [None; 2]);
        let mut none = Counters::new(&sizes);
        none.absorb(&all);
        assert_eq!(none, Counters { series: Vec::new(), ..all });
    }
}
