//! Addresses, page numbers and page sizes.
//!
//! A page size is data (a shift), never a constant: Alpha has 8 K · 8^n, x86 4 K, 2 M and 1 G, PA-RISC 4 K · 2^n.

use crate::Bytes;
use std::fmt;
use std::ops::{Add, AddAssign, Sub};

/// A virtual address in bytes. Every simulated machine translates user addresses of up to 48 bits.
///
/// ```
/// use reach_core::{PageShift, VirtAddr, Vpn};
///
/// let (base, huge) = (PageShift(12), PageShift(21));
/// let page = VirtAddr(0x40_1234).vpn(base);
/// assert_eq!(page, Vpn(0x401));
/// assert_eq!(page.addr(base), VirtAddr(0x40_1000));
/// assert_eq!(page.align_down(huge, base), Vpn(0x400));
/// ```
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

/// An address space: one per process, never reused within a run. Hardware maps it to a context number (PCID) of its
/// own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Asid(pub u32);

impl Asid {
    /// The kernel's own address space, which no program has.
    pub const KERNEL: Asid = Asid((1 << 24) - 1);
}

/// A page size, as the binary logarithm of its bytes: 12 is 4 KB, 21 is 2 MB.
///
/// ```
/// use reach_core::PageShift;
///
/// let (base, huge) = (PageShift(12), PageShift(21));
/// assert_eq!((huge.bytes(), huge.base_pages(base), huge.order(base)), (2 << 20, 512, 9));
/// assert_eq!(huge.to_string(), "2M");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageShift(pub u8);

impl VirtAddr {
    /// Returns the page that holds this address, for base pages of size `base`.
    #[inline(always)]
    pub const fn vpn(self, base: PageShift) -> Vpn {
        Vpn(self.0 >> base.0)
    }
}

impl Vpn {
    /// Returns the first address of this page.
    #[inline(always)]
    pub const fn addr(self, base: PageShift) -> VirtAddr {
        VirtAddr(self.0 << base.0)
    }

    /// Returns the first base page of the aligned page of size `size` that holds this one.
    #[inline(always)]
    pub const fn align_down(self, size: PageShift, base: PageShift) -> Vpn {
        Vpn(self.0 & !(size.base_pages(base) - 1))
    }

    /// Returns whether a page of size `size` may start here.
    #[inline(always)]
    pub const fn is_aligned(self, size: PageShift, base: PageShift) -> bool {
        self.0 & (size.base_pages(base) - 1) == 0
    }
}

impl Pfn {
    /// Returns the first address of this frame.
    #[inline(always)]
    pub const fn addr(self, base: PageShift) -> PhysAddr {
        PhysAddr(self.0 << base.0)
    }

    /// Returns whether a page of size `size` may start here.
    #[inline(always)]
    pub const fn is_aligned(self, size: PageShift, base: PageShift) -> bool {
        self.0 & (size.base_pages(base) - 1) == 0
    }
}

impl PhysAddr {
    /// Returns the frame that holds this address.
    #[inline(always)]
    pub const fn pfn(self, base: PageShift) -> Pfn {
        Pfn(self.0 >> base.0)
    }
}

impl PageShift {
    /// Returns the size in bytes.
    #[inline(always)]
    pub const fn bytes(self) -> u64 {
        1 << self.0
    }

    /// Returns how many base pages of size `base` a page of this size holds. `self` must not be smaller than `base`.
    #[inline(always)]
    pub const fn base_pages(self, base: PageShift) -> u64 {
        1 << (self.0 - base.0)
    }

    /// Returns the buddy order of a page of this size: how many doublings separate it from `base`.
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
offsets!(VirtAddr, PhysAddr, Vpn, Pfn);

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_sizes_print_in_binary_units() {
        for (shift, text) in [(12, "4K"), (13, "8K"), (16, "64K"), (21, "2M"), (22, "4M"), (30, "1G")] {
            assert_eq!(PageShift(shift).to_string(), text);
        }
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
