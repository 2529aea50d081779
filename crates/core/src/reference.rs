//! References: block fetches, loads and stores.

use crate::VirtAddr;

/// What a reference does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// A fetch of one block of instructions.
    Fetch = 0,
    /// A load.
    Load = 1,
    /// A store.
    Store = 2,
}

/// One reference in one word: a block fetch, a load or a store.
///
/// Bits 0–47 hold the address, 48–49 the [`Kind`], 50–52 the binary logarithm of the size in bytes (data only), 53–61
/// the index in its block of the instruction that made it (data only; 511 stands for 511 and above). 62–63 are zero.
/// Of a fetch, bits 50–61 hold the length in bytes; the chunk lists its block beside the references.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Ref(pub u64);

const ADDR_BITS: u32 = 48;
const ADDR_MASK: u64 = (1 << ADDR_BITS) - 1;

#[allow(clippy::len_without_is_empty)]
impl Ref {
    /// A fetch of `len` bytes from `pc`; what exceeds 4095 bytes is cut off.
    #[inline(always)]
    pub const fn fetch(pc: VirtAddr, len: u16) -> Ref {
        Ref((pc.0 & ADDR_MASK) | (if len > 4095 { 4095 } else { len } as u64) << 50)
    }

    /// The length in bytes, for fetches.
    #[inline(always)]
    pub const fn len(self) -> u64 {
        self.0 >> 50 & 4095
    }

    /// A load or store of `1 << size_log2` bytes (`size_log2` <= 7) by the block's instruction number `index`.
    #[inline(always)]
    pub const fn data(kind: Kind, addr: VirtAddr, size_log2: u8, index: u16) -> Ref {
        let index = if index > 511 { 511 } else { index };
        Ref((addr.0 & ADDR_MASK) | (kind as u64) << 48 | ((size_log2 & 7) as u64) << 50 | (index as u64) << 53)
    }

    /// A load of eight bytes, where nothing more is known.
    pub const fn load(addr: VirtAddr) -> Ref {
        Ref::data(Kind::Load, addr, 3, 0)
    }

    /// A store of eight bytes, where nothing more is known.
    pub const fn store(addr: VirtAddr) -> Ref {
        Ref::data(Kind::Store, addr, 3, 0)
    }

    /// The first byte referred to.
    #[inline(always)]
    pub const fn addr(self) -> VirtAddr {
        VirtAddr(self.0 & ADDR_MASK)
    }

    /// The same `by` bytes further on, modulo 2⁴⁸.
    #[inline(always)]
    pub const fn offset_by(self, by: u64) -> Ref {
        Ref(self.0 & !ADDR_MASK | self.0.wrapping_add(by) & ADDR_MASK)
    }

    /// Fetch, load or store.
    #[inline(always)]
    pub const fn kind(self) -> Kind {
        match (self.0 >> 48) & 3 {
            0 => Kind::Fetch,
            1 => Kind::Load,
            _ => Kind::Store,
        }
    }

    /// The binary logarithm of the size in bytes, for data.
    #[inline(always)]
    pub const fn size_log2(self) -> u8 {
        (self.0 >> 50 & 7) as u8
    }

    /// The size in bytes, for data.
    #[inline(always)]
    pub const fn size(self) -> u64 {
        1 << self.size_log2()
    }

    /// The last byte referred to. Addresses have 48 bits: behind the highest comes 0.
    #[inline(always)]
    pub const fn last(self) -> VirtAddr {
        let beyond = match self.kind() {
            Kind::Fetch => self.len().saturating_sub(1),
            _ => self.size() - 1,
        };
        VirtAddr((self.0 + beyond) & ADDR_MASK)
    }

    /// Whether first and last byte lie in different pages of 4 KB.
    #[inline(always)]
    pub const fn crosses(self) -> bool {
        (self.addr().0 ^ self.last().0) >> 12 != 0
    }

    /// The index in its block of the instruction that made this reference, for data; saturates at 511.
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
    fn a_reference_keeps_its_fields() {
        let r = Ref::data(Kind::Store, VirtAddr(0x7fff_1234_5678), 6, 300);
        assert_eq!((r.addr().0, r.kind(), r.size(), r.index()), (0x7fff_1234_5678, Kind::Store, 64, 300));
        assert_eq!(Ref::data(Kind::Load, VirtAddr(1), 0, 9999).index(), 511);
        let f = Ref::fetch(VirtAddr(0x40_0000), 4000);
        assert_eq!((f.addr().0, f.kind(), f.len()), (0x40_0000, Kind::Fetch, 4000));
        assert_eq!(Ref::fetch(VirtAddr(0), 5000).len(), 4095);
    }
}
