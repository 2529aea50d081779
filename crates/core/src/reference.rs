//! References: block fetches, loads and stores.

use crate::VirtAddr;

/// The kind of a reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// Fetches one block of instructions.
    Fetch = 0,
    /// Loads data.
    Load = 1,
    /// Stores data.
    Store = 2,
}

/// One reference in one word: a block fetch, a load or a store.
///
/// Bits 0–47 hold the address and 48–49 the [`Kind`]. In a load or store, bits 50–52 hold the binary logarithm of the
/// size in bytes, and 53–61 the index of its instruction within the block (511 means 511 or more). In a fetch, bits
/// 50–61 hold the length in bytes; the chunk lists the block separately. Bits 62–63 are zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Ref(pub u64);

const ADDR_BITS: u32 = 48;
const ADDR_MASK: u64 = (1 << ADDR_BITS) - 1;

#[allow(clippy::len_without_is_empty)]
impl Ref {
    /// Makes a fetch of `len` bytes from `pc`. A length above 4095 becomes 4095.
    #[inline(always)]
    pub const fn fetch(pc: VirtAddr, len: u16) -> Ref {
        Ref((pc.0 & ADDR_MASK) | (if len > 4095 { 4095 } else { len } as u64) << 50)
    }

    /// Returns the length of a fetch in bytes. Not for data.
    #[inline(always)]
    pub const fn len(self) -> u64 {
        self.0 >> 50 & 4095
    }

    /// Makes a load or store of `1 << size_log2` bytes (`size_log2` <= 7) by instruction number `index` of its block.
    /// An index above 511 becomes 511.
    #[inline(always)]
    pub const fn data(kind: Kind, addr: VirtAddr, size_log2: u8, index: u16) -> Ref {
        let index = if index > 511 { 511 } else { index };
        Ref((addr.0 & ADDR_MASK) | (kind as u64) << 48 | ((size_log2 & 7) as u64) << 50 | (index as u64) << 53)
    }

    /// Makes a load of eight bytes by the first instruction of its block.
    pub const fn load(addr: VirtAddr) -> Ref {
        Ref::data(Kind::Load, addr, 3, 0)
    }

    /// Makes a store of eight bytes by the first instruction of its block.
    pub const fn store(addr: VirtAddr) -> Ref {
        Ref::data(Kind::Store, addr, 3, 0)
    }

    /// Returns the address of the first byte.
    #[inline(always)]
    pub const fn addr(self) -> VirtAddr {
        VirtAddr(self.0 & ADDR_MASK)
    }

    /// Returns the same reference `by` bytes further on, modulo 2⁴⁸.
    #[inline(always)]
    pub const fn offset_by(self, by: u64) -> Ref {
        Ref(self.0 & !ADDR_MASK | self.0.wrapping_add(by) & ADDR_MASK)
    }

    /// Returns whether this is a fetch, a load or a store.
    #[inline(always)]
    pub const fn kind(self) -> Kind {
        match (self.0 >> 48) & 3 {
            0 => Kind::Fetch,
            1 => Kind::Load,
            _ => Kind::Store,
        }
    }

    /// Returns the binary logarithm of a load's or store's size in bytes.
    #[inline(always)]
    pub const fn size_log2(self) -> u8 {
        (self.0 >> 50 & 7) as u8
    }

    /// Returns the size of a load or store in bytes.
    #[inline(always)]
    pub const fn size(self) -> u64 {
        1 << self.size_log2()
    }

    /// Returns the address of the last byte. Addresses have 48 bits and wrap to 0.
    #[inline(always)]
    pub const fn last(self) -> VirtAddr {
        let after_first = match self.kind() {
            Kind::Fetch => self.len().saturating_sub(1),
            _ => self.size() - 1,
        };
        VirtAddr((self.0 + after_first) & ADDR_MASK)
    }

    /// Returns whether first and last byte lie in different pages of 4 KB.
    #[inline(always)]
    pub const fn crosses(self) -> bool {
        (self.addr().0 ^ self.last().0) >> 12 != 0
    }

    /// Returns the index of a load's or store's instruction within its block; 511 means 511 or more.
    #[inline(always)]
    pub const fn index(self) -> u16 {
        (self.0 >> 53 & 511) as u16
    }
}

impl std::fmt::Debug for Ref {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.kind() {
            Kind::Fetch => write!(f, "fetch {:#x}", self.addr().0),
            kind => write!(f, "{kind:?} {:#x}+{} @{}", self.addr().0, self.size(), self.index()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_keep_their_fields_and_saturate_index_and_length() {
        let r = Ref::data(Kind::Store, VirtAddr(0x7fff_1234_5678), 6, 300);
        assert_eq!((r.addr().0, r.kind(), r.size(), r.index()), (0x7fff_1234_5678, Kind::Store, 64, 300));
        assert_eq!(Ref::data(Kind::Load, VirtAddr(1), 0, 9999).index(), 511);
        let f = Ref::fetch(VirtAddr(0x40_0000), 4000);
        assert_eq!((f.addr().0, f.kind(), f.len()), (0x40_0000, Kind::Fetch, 4000));
        assert_eq!(Ref::fetch(VirtAddr(0), 5000).len(), 4095);
    }
}
