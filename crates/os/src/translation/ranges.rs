//! Range tables (Karakostas et al. 2015, §5.1): second, redundant tables of address spaces, kept in step with page tables.
//!
//! A page in a range has its range bit set in the page table, and its accessed and dirty bits too, since no range TLB can
//! set them (§6). The translation API takes pages out of ranges as it changes or removes their translations. The shootdown
//! of each change makes range TLBs drop every range with such a page (§4.3). Where a range grows or ends without a change to
//! any of its pages, its first page is shot down: so whatever a range TLB holds is in the range table.

use crate::{FrameKind, Vm};
use reach_core::{Asid, Label, MappedPage, Pte, RangeTable, RangeTranslation, Vpn};

/// Bits that ranges do not distinguish: they are set in every page of a range.
const SET_IN_RANGES: u64 = Pte::RANGE | Pte::ACCESSED | Pte::DIRTY;

impl Vm {
    /// Dissolves the range that holds a page of the running process into pages (§6, copy-on-write). Does nothing when no
    /// range holds it.
    pub fn dissolve_range(&mut self, vpn: Vpn, label: Label) {
        let asid = self.current();
        if let Some(range) = self.at(asid).table().ranges().and_then(|ranges| ranges.walk(vpn, |_| {})) {
            self.remove_range(asid, &range);
            self.clear_range_bits(asid, &range, label);
            self.shoot_range(asid, &range);
            self.accounting.count_ranges(|c| c.dissolved += 1);
            self.account_range_accesses(asid, label);
        }
    }

    /// Takes the `pages` base pages from `vpn` on out of ranges and segments. What of their ranges lies before and behind
    /// stays a range if it is long enough.
    pub(super) fn cut_ranges(&mut self, asid: Asid, vpn: Vpn, pages: u64, label: Label) {
        let Some(ranging) = self.translation.ranging else { return };
        let end = Vpn(vpn.0.saturating_add(pages));
        self.cut_segments(asid, vpn, end, ranging);
        let Some(ranges) = self.edit(asid).0.ranges_mut() else { return };
        for range in ranges.overlapping(vpn, pages) {
            self.remove_range(asid, &range);
            let (mut stays, mut left) = (false, false);
            let before = (range.vpn < vpn).then(|| range.subrange(range.vpn, vpn - range.vpn));
            let behind = (end < range.end()).then(|| range.subrange(end, range.end() - end));
            for piece in [before, behind].into_iter().flatten() {
                if piece.pages >= ranging.least && self.insert_range(asid, piece) {
                    stays = true;
                } else {
                    self.clear_range_bits(asid, &piece, label);
                    left = true;
                }
            }
            self.accounting.count_ranges(|c| {
                c.cut += u64::from(stays);
                c.dissolved += u64::from(left && !stays);
            });
        }
        self.account_range_accesses(asid, label);
    }

    /// Forms ranges of what is contiguous among the `pages` base pages from `vpn` on, none of which is in a range. They are
    /// joined with the ranges that they continue.
    pub(crate) fn form_ranges(&mut self, asid: Asid, vpn: Vpn, pages: u64, label: Label) {
        if self.at(asid).table().ranges().is_none() {
            return;
        }
        for run in self.contiguous_runs(asid, vpn, pages) {
            if self.join_ranges(asid, run) {
                self.set_range_bits(asid, &run, label);
            } else {
                self.clear_range_bits(asid, &run, label);
            }
        }
        self.account_range_accesses(asid, label);
    }

    /// Forms the ranges of the `pages` base pages from `vpn` on anew, after their access rights changed.
    pub(crate) fn form_ranges_anew(&mut self, asid: Asid, vpn: Vpn, pages: u64, label: Label) {
        if self.translation.ranging.is_some() {
            self.cut_ranges(asid, vpn, pages, label);
            self.form_ranges(asid, vpn, pages, label);
        }
    }

    /// Keeps ranges in step after `protect` changed entries of these pages. If accessed or dirty bits were cleared
    /// (`aged`), the pages leave their ranges, so that each can be marked by itself again.
    pub(super) fn update_ranges(&mut self, asid: Asid, vpn: Vpn, pages: u64, aged: bool, label: Label) {
        if self.translation.ranging.is_none() || self.translation.ranges_deferred && !aged {
            return;
        }
        self.cut_ranges(asid, vpn, pages, label);
        if aged {
            for entry in self.at(asid).table().pages(vpn, pages).into_iter().filter(|entry| entry.pte.range()) {
                let page = RangeTranslation { vpn: entry.vpn, pages: 1, pte: entry.pte };
                self.clear_range_bits(asid, &page, label);
            }
        } else {
            self.form_ranges(asid, vpn, pages, label);
        }
    }

    /// Adds `run`, which is in no range, to the ranges of `asid`. Returns `false` when it is too short by itself and
    /// continues none, or when there is no memory for a node.
    pub(crate) fn join_ranges(&mut self, asid: Asid, run: RangeTranslation) -> bool {
        let Some(ranging) = self.translation.ranging else { return false };
        let Some(ranges) = self.edit(asid).0.ranges_mut() else { return false };
        let before = ranges.last_starting_before(run.vpn).filter(|before| before.is_continued_by(&run));
        let behind = ranges.first_ending_after(run.end()).filter(|behind| run.is_continued_by(behind));
        let first = before.unwrap_or(run);
        let pages = [before, behind].iter().flatten().map(|range| range.pages).sum::<u64>() + run.pages;
        let whole = RangeTranslation { pages, ..first };
        if whole.pages < ranging.least {
            return false;
        }
        for grown in [before, behind].iter().flatten() {
            self.shoot_range(asid, grown);
        }
        match (before, behind) {
            (None, None) => {
                let inserted = self.insert_range(asid, whole);
                self.accounting.count_ranges(|c| c.made += u64::from(inserted));
                return inserted;
            }
            (Some(_), Some(behind)) => {
                self.remove_range(asid, &behind);
                self.grow_range(asid, first.vpn, whole, run.pages + behind.pages);
            }
            (Some(_), None) => self.grow_range(asid, first.vpn, whole, run.pages),
            (None, Some(behind)) => self.grow_range(asid, behind.vpn, whole, run.pages),
        }
        true
    }

    /// Makes range TLBs drop `range`: an INVLPG of one of its pages (§4.3).
    fn shoot_range(&mut self, asid: Asid, range: &RangeTranslation) {
        self.accounting.queue_shootdown(asid, range.vpn, 1);
    }

    /// Replaces the range that starts at `vpn` by `whole`, which has `by` base pages more.
    fn grow_range(&mut self, asid: Asid, vpn: Vpn, whole: RangeTranslation, by: u64) {
        if let Some(ranges) = self.edit(asid).0.ranges_mut() {
            ranges.replace(vpn, whole);
        }
        self.accounting.count_ranges(|c| {
            c.grown += 1;
            c.pages.rise(by);
        });
    }

    /// Inserts a range. Returns `false` when there is no memory for a node.
    fn insert_range(&mut self, asid: Asid, range: RangeTranslation) -> bool {
        let (table, frames) = self.edit(asid);
        let Some(ranges) = table.ranges_mut() else { return false };
        let bytes = ranges.bytes();
        let inserted = ranges.insert(range, frames);
        let bytes = (bytes, ranges.bytes());
        self.accounting.count_ranges(|c| {
            c.table_bytes.set(c.table_bytes.current + bytes.1 - bytes.0);
            if inserted {
                c.ranges.rise(1);
                c.pages.rise(range.pages);
            }
        });
        inserted
    }

    fn remove_range(&mut self, asid: Asid, range: &RangeTranslation) {
        let (table, frames) = self.edit(asid);
        let Some(ranges) = table.ranges_mut() else { return };
        let bytes = ranges.bytes();
        ranges.remove(range.vpn, frames);
        let bytes = (bytes, ranges.bytes());
        self.accounting.count_ranges(|c| {
            c.table_bytes.set(c.table_bytes.current + bytes.1 - bytes.0);
            c.ranges.fall(1);
            c.pages.fall(range.pages);
        });
    }

    /// Returns the longest runs of pages that could be ranges, each with the entry that its first page has in a range.
    fn contiguous_runs(&self, asid: Asid, vpn: Vpn, pages: u64) -> Vec<RangeTranslation> {
        let suitable = |entry: &MappedPage| {
            entry.pte.shift() == self.base() && !entry.pte.watched() && self.kind_of(entry.pte) == FrameKind::Anonymous
        };
        let mut runs: Vec<RangeTranslation> = Vec::new();
        for entry in self.at(asid).table().pages(vpn, pages).into_iter().filter(suitable) {
            let page = RangeTranslation { vpn: entry.vpn, pages: 1, pte: Pte(entry.pte.0 | SET_IN_RANGES) };
            match runs.last_mut().filter(|last| last.is_continued_by(&page)) {
                Some(last) => last.pages += 1,
                None => runs.push(page),
            }
        }
        runs
    }

    fn set_range_bits(&mut self, asid: Asid, range: &RangeTranslation, label: Label) {
        self.rewrite_pages(asid, range, label, |pte| Pte(pte.0 | SET_IN_RANGES));
    }

    fn clear_range_bits(&mut self, asid: Asid, range: &RangeTranslation, label: Label) {
        self.rewrite_pages(asid, range, label, |pte| pte.with_range(false));
    }

    /// Changes bits that no TLB entry depends on, in those pages of a range that are still mapped.
    fn rewrite_pages(&mut self, asid: Asid, range: &RangeTranslation, label: Label, change: impl Fn(Pte) -> Pte) {
        for vpn in (range.vpn.0..range.end().0).map(Vpn) {
            let table = self.edit(asid).0;
            if table.lookup(vpn).is_some_and(|pte| change(pte) != pte)
                && let Some(written) = table.update(vpn, &change)
            {
                self.account_write(asid, written, label);
            }
        }
    }

    /// Accounts for the nodes that were read and written in a range table since the last call.
    pub(crate) fn account_range_accesses(&mut self, asid: Asid, label: Label) {
        let Some(ranges) = self.edit(asid).0.ranges_mut() else { return };
        for access in ranges.take_accesses() {
            self.accounting.access_range_node(access.at, RangeTable::NODE_BYTES, access.written, label);
        }
        self.zero_new_tables(label);
    }

    /// Checks that a page has its range bit exactly if a range holds it, and that ranges and segments agree with the page
    /// table in every bit. For tests.
    ///
    /// # Panics
    /// When they do not, or when the counts of ranges are wrong.
    pub(crate) fn check_ranges(&self) {
        let (mut count, mut covered, mut bytes) = (0, 0, 0);
        for (asid, process) in self.processes() {
            let table = process.table();
            let agrees = |range: &RangeTranslation| {
                for vpn in (range.vpn.0..range.end().0).map(Vpn) {
                    assert_eq!(table.lookup(vpn), Some(range.pte_at(vpn)), "{asid:?}: {vpn:?} of {range:?}");
                }
            };
            table.segments().iter().for_each(agrees);
            let Some(ranges) = table.ranges() else { continue };
            ranges.check();
            bytes += ranges.bytes();
            let mut holds = 0;
            let least = self.translation.ranging.map_or(1, |ranging| ranging.least);
            for range in ranges.ranges() {
                assert!(range.pages >= least, "{asid:?}: {range:?} is too short");
                agrees(&range);
                holds += range.pages;
                count += 1;
            }
            let limit = 1 << (self.options().layout.address_bits() - self.base().0);
            let marked = table.pages(Vpn(0), limit).iter().filter(|entry| entry.pte.range()).count();
            assert_eq!(marked as u64, holds, "{asid:?}: pages with a range bit, and pages in ranges");
            covered += holds;
        }
        if let Some(counts) = &self.counters().ranges {
            let counted = (counts.ranges.current, counts.pages.current, counts.table_bytes.current);
            assert_eq!(counted, (count, covered, bytes), "ranges, pages in them, bytes of their tables");
        }
    }
}
