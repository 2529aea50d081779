//! Nested paging: in a guest, what its page table gives are addresses that the host's page table translates once more.
//!
//! Every entry of the guest's table that a walk reads, and the page that the walk is for, has such an address; a walk that
//! knows nothing reads (n + 1)(m + 1) - 1 entries of tables of n and m levels (Bhargava et al., ASPLOS 2008, figure 1).
//! What is kept: where tables of the guest lie (a nested TLB, ibid. section 4), and upper entries of the host's table
//! (Intel SDM 28.4, *guest-physical mappings*). Guest walk caches hold combined entries, so that a table that they know
//! needs no translation; TLBs hold pieces of the smaller of the two page sizes.
//!
//! The host has given every page of the guest a frame, in no order, and changes nothing. Its table is as dense as the guest's
//! memory: an entry for each page, one after the other, in a region for each level.

use crate::array::Array;
use crate::config::{self, Replacement};
use reach_core::{PageShift, PhysAddr};

/// The host's table lies here, outside all memory of the guest.
const TABLES: u64 = 1 << 46;
/// From one level to the next.
const LEVEL_AT: u32 = 40;
/// Bits of an address of the host.
const BITS: u32 = 48;
/// No number of a page is this large: with it, none is the empty tag.
const VALID: u64 = 1 << 63;

/// In which frame of the host a page of the guest is: any permutation without order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frames {
    shift: u32,
}

impl Frames {
    pub fn new(host: PageShift) -> Frames {
        Frames { shift: host.0.into() }
    }

    /// The host's address of the guest's `at`.
    #[inline]
    pub fn of(self, at: PhysAddr) -> PhysAddr {
        let bits = BITS - self.shift;
        let (mask, half) = ((1 << bits) - 1, bits / 2);
        let mut page = at.0 >> self.shift & mask;
        // Each step can be undone, so that no two pages share a frame.
        for odd in [0x9e37_79b9_7f4a_7c15u64, 0xd6e8_feb8_6659_fd93] {
            page ^= page >> half;
            page = page.wrapping_mul(odd) & mask;
        }
        page ^= page >> half;
        PhysAddr(page << self.shift | at.0 & ((1 << self.shift) - 1))
    }
}

/// The host's page table, and what the processor keeps of it.
#[derive(Clone, Debug)]
pub(crate) struct Nested {
    pub host: PageShift,
    /// Binary logarithms of what an entry of each level spans, from the level of the host's pages up.
    spans: Vec<u32>,
    /// Of each level above the lowest: the entries that are kept, where any are.
    upper: Vec<Option<Array<u64>>>,
    tlb: Option<Array<u64>>,
}

fn full(entries: u32) -> Option<Array<u64>> {
    let entries = entries as usize;
    (entries > 0).then(|| Array::new(entries, entries, Replacement::Lru, 0))
}

/// Whether `array` holds number `number`; it does afterwards.
fn holds(array: &mut Option<Array<u64>>, number: u64) -> bool {
    let Some(array) = array else { return false };
    let tag = number | VALID;
    let held = array.lookup(0, tag).is_some();
    if !held {
        array.insert(0, tag, 0);
    }
    held
}

impl Nested {
    pub fn new(machine: &config::Machine, nested: &config::Nested) -> Nested {
        let layout = &machine.layout;
        let (lowest, _) = layout.placement(nested.host_page);
        let upper =
            (lowest + 1..layout.levels()).map(|level| full(*nested.walk_cache_entries.get(level - 1).unwrap_or(&0)));
        Nested {
            host: nested.host_page,
            spans: (lowest..layout.levels()).map(|level| layout.span(level).0.into()).collect(),
            upper: upper.collect(),
            tlb: full(nested.tlb_entries),
        }
    }

    /// Translates the guest's `at`, an entry of its page table or, where not `table`, of the page that the walk is for; `read`
    /// is told of every entry of the host's table that is read.
    pub fn translate(&mut self, at: PhysAddr, table: bool, mut read: impl FnMut(PhysAddr)) {
        if table && holds(&mut self.tlb, at.0 >> self.host.0) {
            return;
        }
        let upper = self.upper.iter_mut().zip(&self.spans[1..]);
        // The lowest entry that is kept spares itself and all above.
        let known = upper.map(|(kept, span)| holds(kept, at.0 >> span)).position(|held| held);
        let first = known.unwrap_or(self.upper.len());
        for level in (0..=first).rev() {
            read(PhysAddr(TABLES + ((level as u64) << LEVEL_AT) + (at.0 >> self.spans[level]) * 8));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nested(host: u8, tlb: u32, tables: &[u32]) -> Nested {
        let layout = reach_core::Layout::x86_64();
        let spans = (0..4).map(|level| layout.span(level).0.into()).skip_while(|span| *span < u32::from(host));
        let spans: Vec<u32> = spans.collect();
        let lowest = 4 - spans.len();
        let upper = (lowest + 1..4).map(|level| full(*tables.get(level - 1).unwrap_or(&0))).collect();
        Nested { host: PageShift(host), spans, upper, tlb: full(tlb) }
    }

    fn reads(nested: &mut Nested, at: u64, table: bool) -> Vec<u64> {
        let mut all = Vec::new();
        nested.translate(PhysAddr(at), table, |entry| all.push(entry.0));
        all
    }

    #[test]
    fn every_level_is_read_where_nothing_is_kept() {
        let mut plain = nested(12, 0, &[]);
        assert_eq!(reads(&mut plain, 0x1234_5678, false).len(), 4);
        assert_eq!(reads(&mut plain, 0x1234_5678, true).len(), 4, "again");
        assert_eq!(reads(&mut nested(21, 0, &[]), 0x1234_5678, false).len(), 3);
        assert_eq!(reads(&mut nested(30, 0, &[]), 0x1234_5678, false).len(), 2);
        let last = TABLES + (0x1234_5678 >> 12) * 8;
        assert_eq!(reads(&mut plain, 0x1234_5678, false)[3], last, "neighbouring pages have neighbouring entries");
    }

    #[test]
    fn what_is_kept_is_not_read_again() {
        let mut all = nested(12, 2, &[4, 2, 1]);
        assert_eq!(reads(&mut all, 0x1000, false).len(), 4);
        assert_eq!(reads(&mut all, 0x2000, false).len(), 1, "the same table");
        assert_eq!(reads(&mut all, 0x40_0000, false).len(), 2, "the next table");
        assert_eq!(reads(&mut all, 0x1008, true).len(), 1, "data pages are not in the nested TLB");
        assert_eq!(reads(&mut all, 0x1010, true).len(), 0);
        assert_eq!(reads(&mut all, 0x1010, false).len(), 1, "nor asked for there");
        let mut large = nested(21, 0, &[4, 2, 1]);
        assert_eq!(reads(&mut large, 0, false).len(), 3);
        assert_eq!(reads(&mut large, 5 << 21, false).len(), 1, "the level of 1 GB is kept in the second");
    }

    #[test]
    fn no_two_pages_share_a_frame() {
        for shift in [12, 21, 30] {
            let frames = Frames::new(PageShift(shift));
            let mut seen = std::collections::BTreeSet::new();
            for page in 0..20_000u64 {
                let at = frames.of(PhysAddr(((page % (1 << (BITS - u32::from(shift)))) << shift) | 77));
                assert_eq!(at.0 & ((1 << shift) - 1), 77);
                assert!(at.0 < 1 << BITS);
                seen.insert(at.0);
            }
            assert_eq!(seen.len(), 20_000);
        }
    }
}
