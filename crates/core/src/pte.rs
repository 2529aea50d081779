//! A page-table entry, in the union of what the simulated architectures keep in theirs.

use crate::{PageShift, Pfn};
use std::fmt;

/// A leaf entry. Bits: 0 present, 1 writable, 2 executable, 3 accessed, 4 dirty, 5 watched, 6 range, 7 global,
/// 8–13 page size (as a shift), 14–53 frame, 54–61 for software. An all-zero word is an empty entry.
///
/// Every entry carries the size of its page, as Alpha's do (granularity hint), so a superpage may be one entry at a
/// higher level (x86) or several equal ones at the leaf level (Alpha, PA-RISC, Arm's contiguous bit).
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
            #[doc = concat!("The same entry with [`Pte::", stringify!($get), "`] as given.")]
            #[inline(always)]
            pub const fn $with(self, on: bool) -> Pte {
                Pte(if on { self.0 | Self::$constant } else { self.0 & !Self::$constant })
            }
        )*
    };
}

impl Pte {
    /// A present, readable, clean, unreferenced entry for a page of size `shift` at `pfn`.
    ///
    /// For a replicated entry `pfn` is the first frame of the whole page, in every copy.
    #[inline(always)]
    pub const fn new(pfn: Pfn, shift: PageShift) -> Pte {
        Pte(Self::PRESENT | pfn.0 << PFN_AT | (shift.0 as u64) << SHIFT_AT)
    }

    bits! {
        /// There is a translation.
        present with_present PRESENT = 0;
        /// Stores are allowed.
        writable with_writable WRITABLE = 1;
        /// Fetches are allowed.
        executable with_executable EXECUTABLE = 2;
        /// Referenced since this was last cleared.
        accessed with_accessed ACCESSED = 3;
        /// Written since this was last cleared.
        dirty with_dirty DIRTY = 4;
        /// The operating system wants to know of the first write while the entry is clean (Navarro §4.7); the
        /// processor then stops with `StopReason::FirstWrite` instead of setting the dirty bit by itself.
        watched with_watched WATCHED = 5;
        /// Part of a range translation (Karakostas §4.1: the range bit).
        range with_range RANGE = 6;
        /// Survives a change of address space.
        global with_global GLOBAL = 7;
    }

    /// The page's size.
    #[inline(always)]
    pub const fn shift(self) -> PageShift {
        PageShift((self.0 >> SHIFT_AT & 63) as u8)
    }

    /// The first frame of the page.
    #[inline(always)]
    pub const fn pfn(self) -> Pfn {
        Pfn((self.0 & PFN_MASK) >> PFN_AT)
    }

    /// The same entry for another first frame.
    #[inline(always)]
    pub const fn with_pfn(self, pfn: Pfn) -> Pte {
        Pte(self.0 & !PFN_MASK | pfn.0 << PFN_AT)
    }

    /// The same entry for another page size.
    #[inline(always)]
    pub const fn with_shift(self, shift: PageShift) -> Pte {
        Pte(self.0 & !SHIFT_MASK | (shift.0 as u64) << SHIFT_AT)
    }

    /// Eight bits that hardware ignores and the operating system may use.
    #[inline(always)]
    pub const fn soft(self) -> u8 {
        (self.0 >> SOFT_AT) as u8
    }

    /// The same entry with other software bits.
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
