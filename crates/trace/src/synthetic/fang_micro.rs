//! `fang-micro`: the microbenchmark of Fang et al. §4.1. It sums a column of bytes, 4096 bytes apart, then the next
//! column. Each load is to another page than the one before.

use super::parameter::{Parameter, ValueKind, Values};
use super::process::{Code, Process, bodies, room};
use super::program::{Description, Program};
use crate::Progress;
use reach_core::{Chunk, Ref, VirtAddr};

pub(super) const ABOUT: Description = Description {
    name: "fang-micro",
    summary: "reads each of 4096 pages once per iteration (Fang et al. 1999, microbenchmark)",
    parameters: &[
        Parameter {
            name: "iterations",
            kind: ValueKind::Count(1, 4096),
            default: "64",
            summary: "references to each page",
        },
        Parameter {
            name: "pages",
            kind: ValueKind::Count(1, 1 << 20),
            default: "4096",
            summary: "number of pages, one per row",
        },
    ],
    build,
};

/// Start of data on the paper's machine (PA-RISC).
const ARRAY: VirtAddr = VirtAddr(0x4000_0000);
const ROW: u64 = 4096;

struct FangMicro {
    code: Code,
    pages: u64,
    i: u64,
    j: u64,
    left: u64,
    total: u64,
}

fn build(values: &Values, process: &mut Process) -> Result<Box<dyn Program>, String> {
    let pages = values.number("pages");
    // ldb 0(p),x; add x,sum; ldo 4096(p),p; comb,<> p,end
    let code = process.block(4);
    process.static_array(ARRAY, pages * ROW);
    let total = pages * values.number("iterations");
    Ok(Box::new(FangMicro { code, pages, i: 0, j: 0, left: total, total }))
}

impl Program for FangMicro {
    fn run(&mut self, chunk: &mut Chunk, until: usize) {
        let n = room(chunk, until, 2, self.left);
        let FangMicro { code, pages, mut i, mut j, .. } = *self;
        bodies(chunk, code, n, || {
            let byte = Ref::data(reach_core::Kind::Load, ARRAY + (i * ROW + j), 0, 0);
            i += 1;
            if i == pages {
                i = 0;
                j += 1;
            }
            [byte]
        });
        (self.i, self.j) = (i, j);
        self.left -= n;
    }

    fn progress(&self) -> Progress {
        Progress { done: self.total - self.left, total: Some(self.total) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::data;

    #[test]
    fn columns_are_read_one_after_the_other() {
        let refs = data("fang-micro:iterations=2");
        assert_eq!(refs.len(), 2 * 4096);
        for (k, r) in refs.iter().enumerate() {
            let (j, i) = (k as u64 / 4096, k as u64 % 4096);
            assert_eq!((r.addr().0, r.size()), (0x4000_0000 + i * 4096 + j, 1));
        }
    }
}
