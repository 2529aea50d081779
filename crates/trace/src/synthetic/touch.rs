//! `touch`: one reference to each page of an area, in order. It measures the cost of page faults.

use super::parameter::{MAX_BYTES, MAX_COUNT, Parameter, ValueKind, Values};
use super::process::{Code, Process, bodies, load, room, store};
use super::program::{Description, Program};
use crate::Progress;
use reach_core::Chunk;

pub(super) const ABOUT: Description = Description {
    name: "touch",
    summary: "one reference to each page of an area, in order, to measure page faults",
    parameters: &[
        Parameter { name: "bytes", kind: ValueKind::Bytes(1, MAX_BYTES), default: "256M", summary: "size of the area" },
        Parameter {
            name: "page",
            kind: ValueKind::Bytes(8, MAX_BYTES),
            default: "4K",
            summary: "distance of references",
        },
        Parameter {
            name: "passes",
            kind: ValueKind::Count(1, MAX_COUNT),
            default: "1",
            summary: "number of passes over the area",
        },
        Parameter {
            name: "access",
            kind: ValueKind::Word(&["store", "load"]),
            default: "store",
            summary: "kind of the references",
        },
    ],
    build,
};

fn build(values: &Values, process: &mut Process) -> Result<Box<dyn Program>, String> {
    let bytes = values.number("bytes");
    // store [p]; add p, page; cmp p, end; jb
    let (code, base) = (process.block(4), process.mmap(bytes).0);
    let sweep = Sweep::new(code, base, bytes, values.number("page"), values.number("passes"))?;
    Ok(if values.is("access", "load") { Box::new(sweep) } else { Box::new(Stores(sweep)) })
}

/// Loads of eight bytes at a fixed distance over an area, repeatedly.
pub(super) struct Sweep {
    code: Code,
    base: u64,
    step: u64,
    /// Offset of the next reference. It wraps at `end`, the first multiple of `step` outside the area.
    at: u64,
    end: u64,
    left: u64,
    total: u64,
}

impl Sweep {
    /// Makes `passes` passes over `bytes` bytes at `base`. An error says that they are too many.
    pub fn new(code: Code, base: u64, bytes: u64, step: u64, passes: u64) -> Result<Sweep, String> {
        let per_pass = bytes.div_ceil(step);
        let total =
            per_pass.checked_mul(passes).ok_or("the references of all passes exceed 2^64; give fewer passes")?;
        Ok(Sweep { code, base, step, at: 0, end: per_pass * step, left: total, total })
    }

    #[inline(always)]
    fn run_with(&mut self, chunk: &mut Chunk, until: usize, data: impl Fn(u64, u16) -> reach_core::Ref) {
        let n = room(chunk, until, 2, self.left);
        let Sweep { code, base, step, end, mut at, .. } = *self;
        bodies(chunk, code, n, || {
            let addr = base + at;
            at += step;
            at = if at == end { 0 } else { at };
            [data(addr, 0)]
        });
        self.at = at;
        self.left -= n;
    }
}

impl Program for Sweep {
    fn run(&mut self, chunk: &mut Chunk, until: usize) {
        self.run_with(chunk, until, load);
    }

    fn progress(&self) -> Progress {
        Progress { done: self.total - self.left, total: Some(self.total) }
    }
}

/// A [`Sweep`] that stores.
struct Stores(Sweep);

impl Program for Stores {
    fn run(&mut self, chunk: &mut Chunk, until: usize) {
        self.0.run_with(chunk, until, store);
    }

    fn progress(&self) -> Progress {
        self.0.progress()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::data;

    #[test]
    fn each_page_is_touched_once_per_pass() {
        let touched = data("touch:bytes=10000,page=4K,passes=2");
        let offsets: Vec<u64> = touched.iter().map(|r| r.addr() - touched[0].addr()).collect();
        assert_eq!(offsets, [0, 4096, 8192, 0, 4096, 8192]);
        assert!(touched.iter().all(|r| r.kind() == reach_core::Kind::Store && r.size() == 8));
        assert!(data("touch:bytes=1,access=load").iter().all(|r| r.kind() == reach_core::Kind::Load));
    }
}
