//! Parts of TLB prefetchers: the buffer of prefetched translations, and rules that choose the pages.

use reach_core::{Asid, PageShift, Pte, TlbMiss, Vpn};
use std::collections::VecDeque;

/// Cycles of a hit in a prefetch buffer.
pub(crate) const BUFFER_LATENCY: u32 = 2;

/// A first-in, first-out buffer of prefetched translations, each with what its prefetcher notes. A hit takes its entry out.
#[derive(Clone, Debug)]
pub(crate) struct PrefetchBuffer<T> {
    capacity: usize,
    base: PageShift,
    /// The oldest first.
    entries: VecDeque<(Asid, Vpn, Pte, T)>,
}

impl<T: Copy> PrefetchBuffer<T> {
    /// Creates an empty buffer of `capacity` entries on a machine with base pages of size `base`.
    pub fn new(capacity: usize, base: PageShift) -> PrefetchBuffer<T> {
        PrefetchBuffer { capacity, base, entries: VecDeque::new() }
    }

    fn position(&self, asid: Asid, vpn: Vpn) -> Option<usize> {
        let first = |vpn: Vpn, pte: Pte| vpn.align_down(pte.shift(), self.base);
        self.entries.iter().position(|&(of, at, pte, _)| of == asid && first(at, pte) == first(vpn, pte))
    }

    /// Returns whether the page is in the buffer.
    pub fn holds(&self, asid: Asid, vpn: Vpn) -> bool {
        self.position(asid, vpn).is_some()
    }

    /// Takes the page that holds `vpn` out.
    pub fn take(&mut self, asid: Asid, vpn: Vpn) -> Option<(Pte, T)> {
        let at = self.position(asid, vpn)?;
        self.entries.remove(at).map(|(.., pte, note)| (pte, note))
    }

    /// Adds a page that is not in the buffer. The oldest entry makes room.
    pub fn add(&mut self, asid: Asid, vpn: Vpn, pte: Pte, note: T) {
        if self.entries.len() == self.capacity {
            self.entries.pop_front();
        }
        self.entries.push_back((asid, vpn, pte, note));
    }

    /// Drops every page of `asid` that overlaps the `pages` base pages from `vpn` on.
    pub fn invalidate(&mut self, asid: Asid, vpn: Vpn, pages: u64) {
        let (base, end) = (self.base, vpn.0.saturating_add(pages));
        self.entries.retain(|&(of, at, pte, _)| {
            let first = at.align_down(pte.shift(), base).0;
            of != asid || first >= end || first + pte.shift().base_pages(base) <= vpn.0
        });
    }

    /// Returns the translations of `asid`.
    pub fn translations(&self, asid: Asid) -> Vec<(Vpn, Pte)> {
        self.entries.iter().filter(|(of, ..)| *of == asid).map(|&(_, vpn, pte, _)| (vpn, pte)).collect()
    }
}

/// Returns the page `distance` pages after `vpn`; `None` below address 0.
pub(crate) fn page_at(vpn: Vpn, distance: i64) -> Option<Vpn> {
    vpn.0.checked_add_signed(distance).map(Vpn)
}

/// Returns the distance from `from` to `to` in base pages.
pub(crate) fn distance(from: Vpn, to: Vpn) -> i64 {
    to.0.wrapping_sub(from.0) as i64
}

/// The strides of instructions: rows found by the number of the instruction (Chen and Baer's reference prediction table).
#[derive(Clone, Debug)]
pub(crate) struct Strides {
    rows: Vec<Option<Row>>,
}

/// What is known of an instruction.
#[derive(Clone, Copy, Debug)]
struct Row {
    asid: Asid,
    instruction: u64,
    last: Vpn,
    /// The distance between its last two misses; `None` after the first.
    stride: Option<i64>,
}

impl Strides {
    /// Creates an empty table of `rows`.
    pub fn new(rows: usize) -> Strides {
        Strides { rows: vec![None; rows] }
    }

    /// Learns a miss. Returns the distances of the instruction's last two misses and of this one and the last, as far as they
    /// are known: the older first.
    pub fn learn(&mut self, miss: TlbMiss) -> (Option<i64>, Option<i64>) {
        let at = miss.instruction as usize % self.rows.len();
        let row = &mut self.rows[at];
        let known = row.filter(|row| row.asid == miss.asid && row.instruction == miss.instruction);
        let old = known.and_then(|row| row.stride);
        let new = known.map(|row| distance(row.last, miss.vpn));
        *row = Some(Row { asid: miss.asid, instruction: miss.instruction, last: miss.vpn, stride: new });
        (old, new)
    }
}
