//! Addresses, page numbers and page sizes. A page size is data (a shift), never a constant: Alpha has 8 K · 8^n,
//! x86 4 K, 2 M and 1 G, PA-RISC 4 K · 2^n.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};

/// A virtual address in bytes. User addresses of up to 48 bits are in range everywhere.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct VirtAddr(pub u64);

/// A physical address in bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct PhysAddr(pub u64);

/// A virtual page number, counted in the machine's *base* pages whatever the size of the page.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Vpn(pub u64);

/// A physical frame number, counted in the machine's *base* pages.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Pfn(pub u64);

/// An address space: one per process, never reused within a run. Hardware contexts (PCIDs) are a hardware matter.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Asid(pub u32);

/// The binary logarithm of a page size in bytes: 12 is 4 KiB, 21 is 2 MiB.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageShift(pub u8);

/// A count of processor cycles.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Cycles(pub u64);

/// A count of bytes that prints as people write it: `4K`, `2M`, `1G`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bytes(pub u64);

impl VirtAddr {
    /// The page that holds this address, for base pages of size `base`.
    #[inline(always)]
    pub const fn vpn(self, base: PageShift) -> Vpn {
        Vpn(self.0 >> base.0)
    }
}

impl Vpn {
    /// The first address of this page.
    #[inline(always)]
    pub const fn addr(self, base: PageShift) -> VirtAddr {
        VirtAddr(self.0 << base.0)
    }

    /// The first base page of the aligned page of size `size` that holds this one.
    #[inline(always)]
    pub const fn align_down(self, size: PageShift, base: PageShift) -> Vpn {
        Vpn(self.0 & !(size.base_pages(base) - 1))
    }

    /// Whether a page of size `size` may start here.
    #[inline(always)]
    pub const fn is_aligned(self, size: PageShift, base: PageShift) -> bool {
        self.0 & (size.base_pages(base) - 1) == 0
    }
}

impl Pfn {
    /// The first address of this frame.
    #[inline(always)]
    pub const fn addr(self, base: PageShift) -> PhysAddr {
        PhysAddr(self.0 << base.0)
    }

    /// Whether a page of size `size` may start here.
    #[inline(always)]
    pub const fn is_aligned(self, size: PageShift, base: PageShift) -> bool {
        self.0 & (size.base_pages(base) - 1) == 0
    }
}

impl PhysAddr {
    /// The frame that holds this address.
    #[inline(always)]
    pub const fn pfn(self, base: PageShift) -> Pfn {
        Pfn(self.0 >> base.0)
    }
}

impl PageShift {
    /// The size in bytes.
    #[inline(always)]
    pub const fn bytes(self) -> u64 {
        1 << self.0
    }

    /// How many base pages of size `base` one page of this size holds. `self` must not be smaller than `base`.
    #[inline(always)]
    pub const fn base_pages(self, base: PageShift) -> u64 {
        1 << (self.0 - base.0)
    }

    /// How many doublings lie between `base` and this size: the buddy order of a page of this size.
    #[inline(always)]
    pub const fn order(self, base: PageShift) -> u8 {
        self.0 - base.0
    }
}

macro_rules! offsets {
    ($($t:ident),*) => {$(
        impl Add<u64> for $t {
            type Output = $t;
            #[inline(always)]
            fn add(self, n: u64) -> $t { $t(self.0 + n) }
        }
        impl AddAssign<u64> for $t {
            #[inline(always)]
            fn add_assign(&mut self, n: u64) { self.0 += n }
        }
        impl Sub for $t {
            type Output = u64;
            #[inline(always)]
            fn sub(self, other: $t) -> u64 { self.0 - other.0 }
        }
    )*};
}
offsets!(VirtAddr, PhysAddr, Vpn, Pfn, Cycles);

macro_rules! hex_debug {
    ($($t:ident),*) => {$(
        impl fmt::Debug for $t {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($t), "({:#x})"), self.0)
            }
        }
    )*};
}
hex_debug!(VirtAddr, PhysAddr, Vpn, Pfn);

impl fmt::Debug for Asid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Asid({})", self.0)
    }
}

impl fmt::Debug for Cycles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cycles({})", self.0)
    }
}

impl fmt::Debug for PageShift {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PageShift({self})")
    }
}

impl fmt::Display for PageShift {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Bytes(self.bytes()).fmt(f)
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
    fn sizes_print_as_people_write_them() {
        for (shift, text) in [(12, "4K"), (13, "8K"), (16, "64K"), (21, "2M"), (22, "4M"), (30, "1G")] {
            assert_eq!(PageShift(shift).to_string(), text);
        }
        assert_eq!(Bytes(4095).to_string(), "4095");
    }

    #[test]
    fn alignment_is_counted_in_base_pages() {
        let (base, large) = (PageShift(13), PageShift(22));
        assert_eq!(large.base_pages(base), 512);
        assert_eq!(Vpn(1023).align_down(large, base), Vpn(512));
        assert!(Vpn(1024).is_aligned(large, base));
        assert!(!Pfn(1).is_aligned(large, base));
    }
}
