//! `mix`: data references within a page, of which a given share goes to a new page. Benches use it: the share sets how
//! often a TLB look-up is for another page than the one before.

use super::parameter::{MAX_BYTES, MAX_COUNT, Parameter, SEED, ValueKind, Values};
use super::process::{Code, Process, bodies, load, room, store};
use super::program::{Description, Program};
use crate::Progress;
use reach_core::{Chunk, Random};
use std::hint::select_unpredictable;

/// Data references in a block.
const PER_BLOCK: usize = 4;

pub(super) const ABOUT: Description = Description {
    name: "mix",
    summary: "references within a page, a given share of them to a new page; for benches",
    parameters: &[
        Parameter {
            name: "new_pages",
            kind: ValueKind::Percent,
            default: "10%",
            summary: "share of references to a new page",
        },
        Parameter { name: "bytes", kind: ValueKind::Bytes(64, MAX_BYTES), default: "1G", summary: "size of the area" },
        Parameter {
            name: "page",
            kind: ValueKind::Bytes(64, 2 << 20),
            default: "4K",
            summary: "size of a page: 2^n bytes",
        },
        Parameter {
            name: "order",
            kind: ValueKind::Word(&["random", "sequential"]),
            default: "random",
            summary: "order of pages",
        },
        Parameter { name: "stores", kind: ValueKind::Percent, default: "30%", summary: "share of stores" },
        Parameter {
            name: "refs",
            kind: ValueKind::Count(1, MAX_COUNT),
            default: "64M",
            summary: "data references, rounded up to whole blocks of four",
        },
        SEED,
    ],
    build,
};

struct Mix {
    code: Code,
    base: u64,
    pages: u64,
    page_bytes: u64,
    sequential: bool,
    /// The share in units of 2^-32.
    new_pages: u64,
    /// The share in units of 2^-11.
    stores: u64,
    random: Random,
    page: u64,
    left: u64,
    total: u64,
}

fn build(values: &Values, process: &mut Process) -> Result<Box<dyn Program>, String> {
    let (bytes, page_bytes) = (values.number("bytes"), values.number("page"));
    if !page_bytes.is_power_of_two() || page_bytes > bytes {
        return Err(format!("a page of {page_bytes} bytes is not a power of two within the area of {bytes} bytes"));
    }
    let blocks = values.number("refs").div_ceil(PER_BLOCK as u64);
    Ok(Box::new(Mix {
        // Three instructions per reference: address, access, use.
        code: process.block(3 * PER_BLOCK as u16),
        base: process.mmap(bytes).0,
        pages: bytes / page_bytes,
        page_bytes,
        sequential: values.is("order", "sequential"),
        new_pages: (values.share("new_pages") * (1u64 << 32) as f64) as u64,
        stores: (values.share("stores") * (1u64 << 11) as f64).round() as u64,
        random: Random::new(values.number("seed")),
        page: 0,
        left: blocks,
        total: blocks,
    }))
}

impl Mix {
    /// Appends `n` blocks. `step` returns the distance to a new page, less than the number of pages.
    #[inline(always)]
    fn blocks(&mut self, chunk: &mut Chunk, n: u64, step: impl Fn(&mut Random) -> u64) {
        let Mix { code, base, new_pages, stores, mut page, .. } = *self;
        let (mut random, pages, shift) = (self.random.clone(), self.pages, self.page_bytes.trailing_zeros());
        let in_page = (self.page_bytes - 1) & !7;
        let mut reference = |index| {
            // One random word: bits 0–31 decide whether the page is new, 32–52 the offset, 53–63 the kind.
            let word = random.next_u64();
            if word & 0xffff_ffff < new_pages {
                let next = page + step(&mut random);
                page = if next >= pages { next - pages } else { next };
            }
            let addr = base + (page << shift) + (word >> 32 & in_page);
            select_unpredictable(word >> 53 < stores, store(addr, index), load(addr, index))
        };
        bodies(chunk, code, n, || [reference(1), reference(4), reference(7), reference(10)]);
        (self.page, self.random) = (page, random);
    }
}

impl Program for Mix {
    fn run(&mut self, chunk: &mut Chunk, until: usize) {
        let n = room(chunk, until, 1 + PER_BLOCK, self.left);
        let others = self.pages - 1;
        match others {
            0 => self.blocks(chunk, n, |_| 0),
            _ if self.sequential => self.blocks(chunk, n, |_| 1),
            _ => self.blocks(chunk, n, |random| 1 + random.below(others)),
        }
        self.left -= n;
    }

    fn progress(&self) -> Progress {
        Progress { done: self.total - self.left, total: Some(self.total) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::data;
    use reach_core::{Kind, Ref};

    fn page_changes(refs: &[Ref]) -> usize {
        refs.windows(2).filter(|w| w[0].addr().0 >> 12 != w[1].addr().0 >> 12).count()
    }

    #[test]
    fn shares_of_new_pages_and_stores_are_as_requested() {
        for order in ["random", "sequential"] {
            let refs = data(&format!("mix:new_pages=25%,stores=50%,refs=100000,bytes=64M,order={order}"));
            assert_eq!(refs.len(), 100_000);
            assert!((24_000..26_000).contains(&page_changes(&refs)));
            assert!((49_000..51_000).contains(&refs.iter().filter(|r| r.kind() == Kind::Store).count()));
        }
    }

    #[test]
    fn shares_of_all_and_of_none_are_exact() {
        assert_eq!(page_changes(&data("mix:new_pages=100%,refs=1000,bytes=8K")), 999);
        let refs = data("mix:new_pages=0%,stores=100%,refs=1000");
        assert_eq!(page_changes(&refs), 0);
        assert!(refs.iter().all(|r| r.kind() == Kind::Store));
    }

    #[test]
    fn sequential_order_visits_adjacent_pages() {
        let refs = data("mix:new_pages=100%,refs=8,bytes=16K,order=sequential");
        let base = refs.iter().map(|r| r.addr().0 >> 12).min().unwrap();
        assert!(refs.iter().map(|r| (r.addr().0 >> 12) - base).eq([1, 2, 3, 0, 1, 2, 3, 0]));
    }
}
