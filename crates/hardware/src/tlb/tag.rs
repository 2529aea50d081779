//! Tags of TLB entries, and the page sizes that they name.
//!
//! Bits 0–44 are the page number in units of the page's own size. Bits 45–49 are the *class* of the entry: the index of a
//! page size, or 16 + level for a page-table entry of a walk cache. Bits 50–62 are the context, and bit 63 is set.

use crate::config;
use reach_core::{PageShift, Vpn};

const CLASS_AT: u32 = 45;
const CONTEXT_AT: u32 = 50;
const CONTEXT_MASK: u64 = !0 << CONTEXT_AT;

/// Number of contexts that tags can distinguish.
pub(crate) const CONTEXTS: u64 = 1 << 13;
/// Maximum number of entry sizes of a machine.
pub(super) const SIZES: usize = 16;
/// The class of a page-table entry is this plus its level.
const TABLES: u64 = 16;
/// A class that no entry has.
const UNUSED: u64 = 31;

/// Returns the number, in units of its own size, of the page that `tag` names.
#[inline(always)]
pub(crate) fn number_of(tag: u64) -> u64 {
    tag & ((1 << CLASS_AT) - 1)
}

/// Returns the class of `tag`, less than 32.
#[inline(always)]
pub(super) fn class_of(tag: u64) -> u64 {
    tag >> CLASS_AT & 31
}

/// Returns whether `tag` names a page-table entry rather than a page.
#[inline(always)]
pub(super) fn is_table(tag: u64) -> bool {
    class_of(tag) >= TABLES
}

/// The class bits of pages of size number `size`.
pub(super) const fn size_class(size: usize) -> u64 {
    (size as u64) << CLASS_AT
}

/// Class bits that match no entry.
pub(super) const NO_CLASS: u64 = UNUSED << CLASS_AT;

/// A hardware address-space number, shifted to its place in a tag, with the valid bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Context(u64);

impl Context {
    /// Returns context number `n`, less than [`CONTEXTS`].
    pub fn new(n: u64) -> Context {
        debug_assert!(n < CONTEXTS);
        Context(1 << 63 | n << CONTEXT_AT)
    }

    /// Returns the context of `tag`.
    pub fn of(tag: u64) -> Context {
        Context(tag & CONTEXT_MASK)
    }

    /// Returns the number of this context.
    pub fn number(self) -> usize {
        ((self.0 & !(1 << 63)) >> CONTEXT_AT) as usize
    }

    /// Returns the tag of page `number` of size number `size`.
    #[inline(always)]
    pub(super) fn tag(self, size: u64, number: u64) -> u64 {
        self.0 | size << CLASS_AT | number
    }

    /// Returns the tag of page `number` with the given class bits.
    #[inline(always)]
    pub(super) fn tag_with(self, class_bits: u64, number: u64) -> u64 {
        self.0 | class_bits | number
    }

    /// Returns the tag of a page-table entry of `level`.
    #[inline(always)]
    pub fn table_tag(self, level: usize, number: u64) -> u64 {
        self.tag(TABLES + level as u64, number)
    }

    /// Returns whether `tag` belongs to this context.
    #[inline(always)]
    pub fn owns(self, tag: u64) -> bool {
        tag & CONTEXT_MASK == self.0
    }

    /// Returns `vpn` in this context as one number. Keys of one context are consecutive as its pages are.
    #[inline(always)]
    pub fn key(self, vpn: Vpn) -> u64 {
        debug_assert!(vpn.0 < 1 << CLASS_AT);
        self.0 | vpn.0
    }

    /// Returns the page of `key`.
    pub fn vpn_of(key: u64) -> Vpn {
        Vpn(key & !CONTEXT_MASK)
    }
}

/// The sizes of a machine's TLB entries, by index in ascending order.
#[derive(Clone, Debug)]
pub(crate) struct PageSizes {
    /// The smallest size.
    pub base: PageShift,
    all: Vec<PageShift>,
    /// Index of each size, by its shift; [`u8::MAX`] for the others.
    index: [u8; 64],
}

impl PageSizes {
    pub fn new(machine: &config::Machine) -> PageSizes {
        let mut index = [u8::MAX; 64];
        let all = machine.entry_sizes();
        for (at, size) in all.iter().enumerate() {
            index[size.0 as usize] = at as u8;
        }
        PageSizes { base: machine.sizes[0], all, index }
    }

    /// Returns the number of sizes.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Returns the size at `index`.
    pub fn size(&self, index: usize) -> PageShift {
        self.all[index]
    }

    /// Returns the index of size `shift`, which the machine has.
    #[inline(always)]
    pub fn index_of(&self, shift: PageShift) -> usize {
        usize::from(self.index[shift.0 as usize])
    }

    /// Returns context, first base page and size of the page that `tag` names; `None` for a page-table entry.
    pub fn page_of(&self, tag: u64) -> Option<(Context, Vpn, PageShift)> {
        let size = *self.all.get(class_of(tag) as usize)?;
        Some((Context::of(tag), Vpn(number_of(tag) << (size.0 - self.base.0)), size))
    }

    /// Returns whether the page that `tag` names overlaps the base pages from `vpn` to before `end`. False for a page-table
    /// entry.
    pub fn overlaps(&self, tag: u64, vpn: Vpn, end: u64) -> bool {
        self.page_of(tag).is_some_and(|(_, first, size)| first.0 < end && first.0 + size.base_pages(self.base) > vpn.0)
    }
}
