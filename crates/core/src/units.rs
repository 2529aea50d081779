//! Quantities with a unit: cycles, bytes, and shares.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};

/// A number of processor cycles.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Cycles(pub u64);

/// A cost in thousandths of a cycle, for work of which one unit (a byte, an instruction) takes less than a few cycles.
///
/// ```
/// use reach_core::{Cycles, Millicycles};
///
/// // Zeroing at four bytes a cycle: a 4 KB page takes 1024 cycles.
/// assert_eq!(Millicycles(250).times(4096), Cycles(1024));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Millicycles(pub u64);

impl Millicycles {
    /// Returns the cost of `units` units of work, rounded down to whole cycles.
    #[inline]
    pub const fn times(self, units: u64) -> Cycles {
        Cycles((self.0 as u128 * units as u128 / 1000) as u64)
    }
}

/// A share in thousandths: `Permille(250)` is a quarter. Shares above [`Permille::ALL`] are allowed.
///
/// ```
/// use reach_core::Permille;
///
/// assert_eq!(Permille(50).of(2000), 100);
/// assert_eq!(Permille::ratio(1, 3), Some(Permille(333)));
/// assert_eq!(Permille(333).to_string(), "33.3 %");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Permille(pub u64);

impl Permille {
    /// The whole: 1000 thousandths.
    pub const ALL: Permille = Permille(1000);

    /// Returns this share of `whole`, rounded down.
    #[inline]
    pub const fn of(self, whole: u64) -> u64 {
        (whole as u128 * self.0 as u128 / 1000) as u64
    }

    /// Returns which share `part` is of `whole`, rounded down; `None` when `whole` is 0.
    #[inline]
    pub const fn ratio(part: u64, whole: u64) -> Option<Permille> {
        match whole {
            0 => None,
            whole => Some(Permille((part as u128 * 1000 / whole as u128) as u64)),
        }
    }
}

impl fmt::Display for Permille {
    /// Prints the share in percent, with one decimal place.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{} %", self.0 / 10, self.0 % 10)
    }
}

/// A number of bytes. It prints in the largest binary unit that divides it: `4K`, `2M`, `1G`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bytes(pub u64);

impl Add<u64> for Cycles {
    type Output = Cycles;
    #[inline(always)]
    fn add(self, n: u64) -> Cycles {
        Cycles(self.0 + n)
    }
}

impl AddAssign<u64> for Cycles {
    #[inline(always)]
    fn add_assign(&mut self, n: u64) {
        self.0 += n
    }
}

impl Sub for Cycles {
    type Output = u64;
    #[inline(always)]
    fn sub(self, other: Cycles) -> u64 {
        self.0 - other.0
    }
}

impl fmt::Debug for Cycles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cycles({})", self.0)
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = ["", "K", "M", "G", "T", "P", "E"];
        let mut n = self.0;
        let mut unit = 0;
        while n >= 1024 && n.is_multiple_of(1024) {
            n /= 1024;
            unit += 1;
        }
        write!(f, "{n}{}", units[unit])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_print_in_the_largest_unit_that_divides_them() {
        assert_eq!(Bytes(2 << 20).to_string(), "2M");
        assert_eq!(Bytes(4095).to_string(), "4095");
        assert_eq!(Bytes(0).to_string(), "0");
    }

    #[test]
    fn shares_of_large_wholes_do_not_overflow() {
        assert_eq!(Permille(500).of(u64::MAX), u64::MAX / 2);
        assert_eq!(Permille::ratio(u64::MAX / 4, u64::MAX), Some(Permille(249)));
        assert_eq!(Millicycles(500).times(u64::MAX), Cycles(u64::MAX / 2));
    }

    #[test]
    fn a_ratio_to_nothing_is_none() {
        assert_eq!(Permille::ratio(1, 0), None);
        assert_eq!(Permille::ratio(7, 7), Some(Permille::ALL));
    }

    #[test]
    fn shares_print_in_percent() {
        assert_eq!([Permille(5), Permille::ALL].map(|share| share.to_string()), ["0.5 %", "100.0 %"]);
    }
}
