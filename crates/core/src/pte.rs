//! Page-table entries. One format holds the fields of all simulated architectures.

use crate::{PageShift, Pfn};
use std::fmt;

/// A leaf entry of a page table. An all-zero word is an empty entry.
///
/// Bits: 0 present, 1 writable, 2 executable, 3 accessed, 4 dirty, 5 watched, 6 range, 7 global, 8–13 page size (as a
/// shift), 14–53 frame, 54–61 for software.
///
/// Every entry holds the size of its page, as on Alpha (granularity hint). A superpage is therefore one entry at a
/// higher level (x86), or several equal entries at the leaf level (Alpha, PA-RISC, Arm's contiguous bit).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(transparent)]
pub struct Pte(pub u64);

const SHIFT_AT: u32 = 8;
const PFN_AT: u32 = 14;
const PFN_BITS: u32 = 40;
const SOFT_AT: u32 = 54;
const PFN_MASK: u64 = ((1 << PFN_BITS) - 1) << PFN_AT;
const SHIFT_MASK: u64 = 63 << SHIFT_AT;

macro_rules! bits {
    ($($(#[$doc:meta])* $get:ident $with:ident $constant:ident = $bit:literal;)*) => {
        $(
            #[doc = concat!("Bit ", stringify!($bit), ": see [`Pte::", stringify!($get), "`].")]
            pub const $constant: u64 = 1 << $bit;
            $(#[$doc])*
            #[inline(always)]
            pub const fn $get(self) -> bool { self.0 & Self::$constant != 0 }
            #[doc = concat!("Returns the entry with [`Pte::", stringify!($get), "`] set or cleared.")]
            #[inline(always)]
            pub const fn $with(self, on: bool) -> Pte {
                Pte(if on { self.0 | Self::$constant } else { self.0 & !Self::$constant })
            }
        )*
    };
}

impl Pte {
    /// Makes a present, readable, clean, unreferenced entry for a page of size `shift` at `pfn`.
    ///
    /// In a page of several entries, each entry has the first frame of the whole page.
    #[inline(always)]
    pub const fn new(pfn: Pfn, shift: PageShift) -> Pte {
        Pte(Self::PRESENT | pfn.0 << PFN_AT | (shift.0 as u64) << SHIFT_AT)
    }

    bits! {
        /// Returns whether the entry translates.
        present with_present PRESENT = 0;
        /// Returns whether stores are allowed.
        writable with_writable WRITABLE = 1;
        /// Returns whether fetches are allowed.
        executable with_executable EXECUTABLE = 2;
        /// Returns whether the page was referenced since the bit was last cleared.
        accessed with_accessed ACCESSED = 3;
        /// Returns whether the page was written since the bit was last cleared.
        dirty with_dirty DIRTY = 4;
        /// Returns whether the operating system watches for the first store (Navarro §4.7). Then a store to a clean
        /// page stops the processor with `StopReason::FirstWrite`, and does not set the dirty bit.
        watched with_watched WATCHED = 5;
        /// Returns whether the page is part of a range translation (Karakostas §4.1: the range bit).
        range with_range RANGE = 6;
        /// Returns whether TLB entries of the page survive a change of address space.
        global with_global GLOBAL = 7;
    }

    /// Returns the page's size.
    #[inline(always)]
    pub const fn shift(self) -> PageShift {
        PageShift((self.0 >> SHIFT_AT & 63) as u8)
    }

    /// Returns the first frame of the page.
    #[inline(always)]
    pub const fn pfn(self) -> Pfn {
        Pfn((self.0 & PFN_MASK) >> PFN_AT)
    }

    /// Returns the entry with another first frame.
    #[inline(always)]
    pub const fn with_pfn(self, pfn: Pfn) -> Pte {
        Pte(self.0 & !PFN_MASK | pfn.0 << PFN_AT)
    }

    /// Returns the entry with another page size.
    #[inline(always)]
    pub const fn with_shift(self, shift: PageShift) -> Pte {
        Pte(self.0 & !SHIFT_MASK | (shift.0 as u64) << SHIFT_AT)
    }

    /// Returns the software bits: eight bits for the operating system, which hardware ignores.
    #[inline(always)]
    pub const fn soft(self) -> u8 {
        (self.0 >> SOFT_AT) as u8
    }

    /// Returns the entry with other software bits.
    #[inline(always)]
    pub const fn with_soft(self, soft: u8) -> Pte {
        Pte(self.0 & !(0xff << SOFT_AT) | (soft as u64) << SOFT_AT)
    }
}

impl fmt::Debug for Pte {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.present() {
            return write!(f, "Pte(-)");
        }
        write!(f, "Pte({} @{:#x} r", self.shift(), self.pfn().0)?;
        let letters = [
            (self.writable(), "w"),
            (self.executable(), "x"),
            (self.accessed(), "A"),
            (self.dirty(), "D"),
            (self.watched(), "?"),
            (self.range(), "R"),
            (self.global(), "G"),
        ];
        for (on, letter) in letters {
            if on {
                f.write_str(letter)?;
            }
        }
        write!(f, ")")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_do_not_overlap() {
        let pte = Pte::new(Pfn((1 << PFN_BITS) - 1), PageShift(30)).with_soft(0x55).with_dirty(true);
        assert_eq!((pte.pfn().0, pte.shift().0, pte.soft()), ((1 << PFN_BITS) - 1, 30, 0x55));
        assert!(pte.present() && pte.dirty() && !pte.writable() && !pte.accessed());
        let pte = pte.with_pfn(Pfn(7)).with_shift(PageShift(12)).with_soft(0).with_dirty(false);
        assert_eq!(pte, Pte::new(Pfn(7), PageShift(12)));
    }
}
