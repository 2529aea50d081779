//! `stream`: the triad of McCalpin's STREAM, `a[i] = b[i] + q·c[i]`: long sequential accesses, the best case of a TLB.

use super::parameter::{MAX_BYTES, MAX_COUNT, Parameter, ValueKind, Values};
use super::process::{Code, Process, bodies, load, room, store};
use super::program::{Description, Program};
use crate::Progress;
use reach_core::Chunk;

pub(super) const ABOUT: Description = Description {
    name: "stream",
    summary: "the triad of STREAM, a[i] = b[i] + q*c[i]: sequential access, the best case of a TLB",
    parameters: &[
        Parameter {
            name: "bytes",
            kind: ValueKind::Bytes(8, MAX_BYTES),
            default: "64M",
            summary: "size of each array",
        },
        Parameter {
            name: "passes",
            kind: ValueKind::Count(1, MAX_COUNT),
            default: "10",
            summary: "number of passes over the arrays",
        },
    ],
    build,
};

struct Stream {
    code: Code,
    a: u64,
    b: u64,
    c: u64,
    /// Offset of the next element.
    at: u64,
    end: u64,
    left: u64,
    total: u64,
}

fn build(values: &Values, process: &mut Process) -> Result<Box<dyn Program>, String> {
    let elements = values.number("bytes") / 8;
    let too_many = "the references of all passes exceed 2^64; give fewer passes";
    let total = elements.checked_mul(values.number("passes")).ok_or(too_many)?;
    // movsd x, [c+i]; mulsd x, q; addsd x, [b+i]; movsd [a+i], x; add i, 8; cmp i, end; jb
    let code = process.block(7);
    let [a, b, c] = std::array::from_fn(|_| process.mmap(elements * 8).0);
    Ok(Box::new(Stream { code, a, b, c, at: 0, end: elements * 8, left: total, total }))
}

impl Program for Stream {
    fn run(&mut self, chunk: &mut Chunk, until: usize) {
        let n = room(chunk, until, 4, self.left);
        let Stream { code, a, b, c, end, mut at, .. } = *self;
        bodies(chunk, code, n, || {
            let i = at;
            at += 8;
            at = if at == end { 0 } else { at };
            [load(c + i, 0), load(b + i, 2), store(a + i, 3)]
        });
        self.at = at;
        self.left -= n;
    }

    fn progress(&self) -> Progress {
        Progress { done: self.total - self.left, total: Some(self.total) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::data;
    use reach_core::Kind;

    #[test]
    fn two_arrays_are_loaded_and_the_third_is_stored() {
        let refs = data("stream:bytes=16,passes=2");
        let kinds: Vec<Kind> = refs.iter().map(|r| r.kind()).collect();
        assert_eq!(kinds, [Kind::Load, Kind::Load, Kind::Store].repeat(4));
        let offsets: Vec<u64> =
            refs.iter().zip(refs.iter().cycle().take(3).cycle()).map(|(r, b)| r.addr() - b.addr()).collect();
        assert_eq!(offsets, [0, 0, 0, 8, 8, 8, 0, 0, 0, 8, 8, 8]);
    }
}
