//! Ranges (Karakostas et al. 2015, §5.1): the second, redundant table of an address space, kept in step by the door.
//!
//! What is in a range has its range bit set in the page table, and its accessed and dirty bits too, since no range TLB can
//! set them (§6). The door takes pages out of ranges as it changes or removes their translations; the shootdown that goes
//! with each change makes range TLBs forget every range with such a page (§4.3). Where a range grows or ends without any
//! of its pages being changed, its first page is shot down: what a range TLB holds stands in the range table.

use crate::{FrameKind, Gauge, Vm};
use reach_core::{Asid, Label, MappedPage, Pte, RangeTable, RangeTranslation, Shootdown, Traffic, Vpn};

/// What translates memory that was paged eagerly, beside the page table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Translated {
    /// Ranges (Karakostas).
    ByRanges,
    /// One segment for each address space: the first mapping that is long enough, in one block (Basu et al. 2013).
    BySegment,
    /// As many segments as there are such mappings: the ideal in which all are one (Karakostas §8).
    BySegments,
    /// Nothing: it is only contiguous.
    ByPages,
}

/// How ranges are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ranging {
    /// The fewest base pages of a range (§5.1: the contiguity threshold), at least 1.
    pub least: u64,
    /// Eager paging stops when more than this share of free memory, in thousandths, lies in blocks smaller than
    /// [`Ranging::BLOCK`] (§5.2, Figure 5).
    pub fragmented: u64,
    /// An allocation smaller than a block takes a larger one and gives the rest back, rather than pieces that add up
    /// (§5.2, the second improvement).
    pub larger: bool,
    /// The allocator's largest block in bytes, at most 2 GB (§7).
    pub block: u64,
    /// Free blocks are handed out by address, so that blocks of the largest size continue one another (§5.2, the first
    /// improvement).
    pub sorted: bool,
    /// What becomes of them.
    pub translated: Translated,
    /// The heap is paged eagerly, too, where it grows by this many bytes or more at once.
    pub heap: u64,
}

impl Ranging {
    /// Blocks smaller than these bytes count as fragments.
    pub const BLOCK: u64 = 2 << 20;
}

/// What became of ranges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RangeCounts {
    /// Ranges in all range tables.
    pub ranges: Gauge,
    /// Base pages in them.
    pub pages: Gauge,
    /// Ranges made.
    pub made: u64,
    /// Ranges that grew by what came before or behind them.
    pub grown: u64,
    /// Ranges that lost pages and stayed, in one part or in two.
    pub cut: u64,
    /// Ranges that ceased to be while their pages stayed.
    pub dissolved: u64,
    /// Nodes that the operating system read in range tables.
    pub nodes_read: u64,
    /// Nodes that it wrote.
    pub nodes_written: u64,
    /// Bytes of range tables.
    pub table_bytes: Gauge,
    /// Requests paged eagerly.
    pub eager: u64,
    /// Base pages that they got.
    pub eager_pages: u64,
    /// Blocks that these came in.
    pub eager_blocks: u64,
    /// Requests left to demand paging because memory was fragmented.
    pub fragmented: u64,
    /// Requests left to demand paging, in whole or in part, because memory was short.
    pub short: u64,
    /// How often the range TLB was turned on for a program ([`Enabling`](crate::Enabling)).
    pub enabled: u64,
    /// How often it was turned off again.
    pub disabled: u64,
}

/// What no range distinguishes: these bits are set in all of its pages.
const IN_ADVANCE: u64 = Pte::RANGE | Pte::ACCESSED | Pte::DIRTY;

impl Vm {
    /// From now on address spaces have range tables. At boot, before any process.
    pub fn use_ranges(&mut self, how: Ranging) {
        self.counters.ranges = Some(RangeCounts::default());
        self.frames.buddy.limit((how.block >> self.base().0).max(1).ilog2() as u8);
        if how.sorted {
            self.frames.buddy.sort();
        }
        self.ranging = Some(how);
    }

    pub(crate) fn count_ranges(&mut self, count: impl FnOnce(&mut RangeCounts)) {
        if let Some(counts) = &mut self.counters.ranges {
            count(counts);
        }
    }

    /// The range that holds a page of the running process becomes pages (§6, copy-on-write).
    pub fn dissolve_range(&mut self, vpn: Vpn, label: Label) {
        let asid = self.current;
        if let Some(range) = self.at(asid).table().ranges().and_then(|ranges| ranges.walk(vpn, |_| {})) {
            self.remove_range(asid, &range);
            self.unmark(asid, &range, label);
            self.forget_range(asid, &range);
            self.count_ranges(|c| c.dissolved += 1);
            self.visited(asid, label);
        }
    }

    /// The `pages` base pages from `vpn` on are in no range any more. What of their ranges lies before and behind stays a
    /// range if it is long enough.
    pub(crate) fn cut_ranges(&mut self, asid: Asid, vpn: Vpn, pages: u64, label: Label) {
        let Some(how) = self.ranging else { return };
        let end = Vpn(vpn.0.saturating_add(pages));
        self.cut_segments(asid, vpn, end, how);
        let Some(ranges) = self.edit(asid).0.ranges_mut() else { return };
        for range in ranges.overlapping(vpn, pages) {
            self.remove_range(asid, &range);
            let (mut stays, mut left) = (false, false);
            let before = (range.vpn < vpn).then(|| range.subrange(range.vpn, vpn - range.vpn));
            let behind = (end < range.end()).then(|| range.subrange(end, range.end() - end));
            for piece in [before, behind].into_iter().flatten() {
                if piece.pages >= how.least && self.enter_range(asid, piece) {
                    stays = true;
                } else {
                    self.unmark(asid, &piece, label);
                    left = true;
                }
            }
            self.count_ranges(|c| {
                c.cut += u64::from(stays);
                c.dissolved += u64::from(left && !stays);
            });
        }
        self.visited(asid, label);
    }

    /// A segment that loses pages at one end has its base or limit moved. One that loses them in the middle ends, since two
    /// are not to be had, unless any number is; all of its pages stand in the page table.
    fn cut_segments(&mut self, asid: Asid, vpn: Vpn, end: Vpn, how: Ranging) {
        let segments = self.edit(asid).0.segments_mut();
        if segments.iter().all(|segment| segment.end() <= vpn || end <= segment.vpn) {
            return;
        }
        let cut = |segment: RangeTranslation| {
            let before =
                (segment.vpn < vpn).then(|| segment.subrange(segment.vpn, vpn.min(segment.end()) - segment.vpn));
            let behind = (end < segment.end()).then(|| {
                let first = end.max(segment.vpn);
                segment.subrange(first, segment.end() - first)
            });
            let apart = segment.end() <= vpn || end <= segment.vpn;
            let ends = !apart && before.is_some() && behind.is_some() && how.translated == Translated::BySegment;
            let pieces = if apart { [Some(segment), None] } else { [before, behind] };
            pieces.into_iter().flatten().filter(move |piece| !ends && (apart || piece.pages >= how.least))
        };
        *segments = std::mem::take(segments).into_iter().flat_map(cut).collect();
    }

    /// The pages of `run` become a segment, where there are segments.
    pub(crate) fn add_segment(&mut self, asid: Asid, run: RangeTranslation) {
        let Some(how) = self.ranging else { return };
        let segments = self.edit(asid).0.segments_mut();
        let wished = match how.translated {
            Translated::BySegment => segments.is_empty(),
            Translated::BySegments => true,
            Translated::ByRanges | Translated::ByPages => false,
        };
        if wished && run.pages >= how.least {
            let at = segments.partition_point(|other| other.vpn < run.vpn);
            segments.insert(at, RangeTranslation { pte: run.pte.with_range(false), ..run });
        }
    }

    /// What is contiguous among the `pages` base pages from `vpn` on, which are in no range, becomes ranges, one with those
    /// that it continues.
    pub(crate) fn form_ranges(&mut self, asid: Asid, vpn: Vpn, pages: u64, label: Label) {
        if self.at(asid).table().ranges().is_none() {
            return;
        }
        for run in self.runs(asid, vpn, pages) {
            if self.join_ranges(asid, run) { self.mark(asid, &run, label) } else { self.unmark(asid, &run, label) }
        }
        self.visited(asid, label);
    }

    /// The rights of these pages have changed: what is contiguous now is made ranges anew.
    pub(crate) fn form_ranges_anew(&mut self, asid: Asid, vpn: Vpn, pages: u64, label: Label) {
        if self.ranging.is_some() {
            self.cut_ranges(asid, vpn, pages, label);
            self.form_ranges(asid, vpn, pages, label);
        }
    }

    /// Rights in these pages were changed, as `changed` says. Pages whose marks were cleared are to be known one by one.
    pub(crate) fn follow_rights(&mut self, asid: Asid, vpn: Vpn, pages: u64, changed: bool, aged: bool, label: Label) {
        if self.ranging.is_none() || !changed || self.ranges_later && !aged {
            return;
        }
        self.cut_ranges(asid, vpn, pages, label);
        if aged {
            for entry in self.at(asid).table().pages(vpn, pages).into_iter().filter(|entry| entry.pte.range()) {
                self.unmark(asid, &RangeTranslation { vpn: entry.vpn, pages: 1, pte: entry.pte }, label);
            }
        } else {
            self.form_ranges(asid, vpn, pages, label);
        }
    }

    /// Adds `run`, which is in no range, to the ranges of `asid`. `false`: it is too short by itself and continues none,
    /// or there is no memory for a node.
    pub(crate) fn join_ranges(&mut self, asid: Asid, run: RangeTranslation) -> bool {
        let Some(how) = self.ranging else { return false };
        let Some(ranges) = self.edit(asid).0.ranges_mut() else { return false };
        let before = ranges.last_starting_before(run.vpn).filter(|before| before.is_continued_by(&run));
        let behind = ranges.first_ending_after(run.end()).filter(|behind| run.is_continued_by(behind));
        let first = before.unwrap_or(run);
        let pages = [before, behind].iter().flatten().map(|range| range.pages).sum::<u64>() + run.pages;
        let whole = RangeTranslation { pages, ..first };
        if whole.pages < how.least {
            return false;
        }
        for grown in [before, behind].iter().flatten() {
            self.forget_range(asid, grown);
        }
        match (before, behind) {
            (None, None) => return self.enter_range(asid, whole) && self.made(),
            (Some(_), Some(behind)) => {
                self.remove_range(asid, &behind);
                self.grow_range(asid, first.vpn, whole, run.pages + behind.pages);
            }
            (Some(_), None) => self.grow_range(asid, first.vpn, whole, run.pages),
            (None, Some(behind)) => self.grow_range(asid, behind.vpn, whole, run.pages),
        }
        true
    }

    /// Range TLBs are to forget `range`: INVLPG of one of its pages (§4.3).
    fn forget_range(&mut self, asid: Asid, range: &RangeTranslation) {
        self.shootdowns.push(Shootdown { asid, vpn: range.vpn, pages: 1 });
    }

    fn made(&mut self) -> bool {
        self.count_ranges(|c| c.made += 1);
        true
    }

    fn grow_range(&mut self, asid: Asid, vpn: Vpn, whole: RangeTranslation, by: u64) {
        if let Some(ranges) = self.edit(asid).0.ranges_mut() {
            ranges.replace(vpn, whole);
        }
        self.count_ranges(|c| {
            c.grown += 1;
            c.pages.rise(by);
        });
    }

    fn enter_range(&mut self, asid: Asid, range: RangeTranslation) -> bool {
        let (table, frames) = self.edit(asid);
        let Some(ranges) = table.ranges_mut() else { return false };
        let bytes = ranges.bytes();
        let entered = ranges.insert(range, frames);
        let bytes = (bytes, ranges.bytes());
        self.count_ranges(|c| {
            c.table_bytes.set(c.table_bytes.current + bytes.1 - bytes.0);
            if entered {
                c.ranges.rise(1);
                c.pages.rise(range.pages);
            }
        });
        entered
    }

    fn remove_range(&mut self, asid: Asid, range: &RangeTranslation) {
        let (table, frames) = self.edit(asid);
        let Some(ranges) = table.ranges_mut() else { return };
        let bytes = ranges.bytes();
        ranges.remove(range.vpn, frames);
        let bytes = (bytes, ranges.bytes());
        self.count_ranges(|c| {
            c.table_bytes.set(c.table_bytes.current + bytes.1 - bytes.0);
            c.ranges.fall(1);
            c.pages.fall(range.pages);
        });
    }

    /// Longest runs of pages that could be ranges, each with the entry that its first page has as part of one.
    fn runs(&self, asid: Asid, vpn: Vpn, pages: u64) -> Vec<RangeTranslation> {
        let fit = |entry: &MappedPage| {
            entry.pte.shift() == self.base() && !entry.pte.watched() && self.kind_of(entry.pte) == FrameKind::Anonymous
        };
        let mut runs: Vec<RangeTranslation> = Vec::new();
        for entry in self.at(asid).table().pages(vpn, pages).into_iter().filter(fit) {
            let page = RangeTranslation { vpn: entry.vpn, pages: 1, pte: Pte(entry.pte.0 | IN_ADVANCE) };
            match runs.last_mut().filter(|last| last.is_continued_by(&page)) {
                Some(last) => last.pages += 1,
                None => runs.push(page),
            }
        }
        runs
    }

    fn mark(&mut self, asid: Asid, range: &RangeTranslation, label: Label) {
        self.rewrite(asid, range, label, |pte| Pte(pte.0 | IN_ADVANCE));
    }

    fn unmark(&mut self, asid: Asid, range: &RangeTranslation, label: Label) {
        self.rewrite(asid, range, label, |pte| pte.with_range(false));
    }

    /// Changes bits that no TLB entry depends on, in the pages of a range that are still mapped.
    fn rewrite(&mut self, asid: Asid, range: &RangeTranslation, label: Label, change: impl Fn(Pte) -> Pte) {
        for vpn in (range.vpn.0..range.end().0).map(Vpn) {
            let table = self.edit(asid).0;
            if table.lookup(vpn).is_some_and(|pte| change(pte) != pte)
                && let Some(written) = table.update(vpn, &change)
            {
                self.wrote(asid, written, label);
            }
        }
    }

    /// Accounts for what was read and written in a range table.
    pub(crate) fn visited(&mut self, asid: Asid, label: Label) {
        let Some(ranges) = self.edit(asid).0.ranges_mut() else { return };
        for visit in ranges.take_accesses() {
            if self.options().caches_modelled {
                let (at, bytes) = (visit.at, RangeTable::NODE_BYTES);
                self.traffic.push(Traffic { at, bytes, write: visit.written, label });
            } else {
                self.ledger.charge(label, self.options().costs.pte_write);
            }
            self.count_ranges(|c| if visit.written { c.nodes_written += 1 } else { c.nodes_read += 1 });
        }
        for (at, bytes) in self.frames.new_tables() {
            self.zero_bytes(at, bytes, label);
        }
    }

    /// Checks that the range bit of a page is set exactly if a range holds it, and that a range says of each of its
    /// pages what the page table says, to the last bit. For tests.
    pub(crate) fn check_ranges(&self) {
        let (mut count, mut covered, mut bytes) = (0, 0, 0);
        for (asid, process) in self.processes() {
            for segment in process.table().segments() {
                for vpn in (segment.vpn.0..segment.end().0).map(Vpn) {
                    assert_eq!(
                        process.table().lookup(vpn),
                        Some(segment.pte_at(vpn)),
                        "{asid:?}: {vpn:?} of {segment:?}"
                    );
                }
            }
            let Some(ranges) = process.table().ranges() else { continue };
            ranges.check();
            bytes += ranges.bytes();
            let mut holds = 0;
            for range in ranges.ranges() {
                assert!(range.pages >= self.ranging.map_or(1, |how| how.least), "{asid:?}: {range:?} is too short");
                for vpn in (range.vpn.0..range.end().0).map(Vpn) {
                    assert_eq!(process.table().lookup(vpn), Some(range.pte_at(vpn)), "{asid:?}: {vpn:?} of {range:?}");
                }
                holds += range.pages;
                count += 1;
            }
            let limit = 1 << (self.options().layout.address_bits() - self.base().0);
            let marked = process.table().pages(Vpn(0), limit).iter().filter(|entry| entry.pte.range()).count();
            assert_eq!(marked as u64, holds, "{asid:?}: pages with a range bit, and pages in ranges");
            covered += holds;
        }
        if let Some(counts) = &self.counters.ranges {
            let counted = (counts.ranges.current, counts.pages.current, counts.table_bytes.current);
            assert_eq!(counted, (count, covered, bytes), "ranges, pages in them, bytes of their tables");
        }
    }
}
