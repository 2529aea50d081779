//! `matrix`: the unblocked transposition of Navarro et al. §6, `B[j][i] = A[i][j]`, of doubles on the heap. It reads A
//! along its rows, while each store to B is to another page.

use super::parameter::{MAX_COUNT, Parameter, ValueKind, Values};
use super::process::{Code, Process, bodies, load, room, store};
use super::program::{Description, Program};
use crate::Progress;
use reach_core::Chunk;

pub(super) const ABOUT: Description = Description {
    name: "matrix",
    summary: "transposes a square matrix of doubles without blocking (Navarro et al. 2002, Matrix)",
    parameters: &[
        Parameter {
            name: "n",
            kind: ValueKind::Count(1, 1 << 18),
            default: "1000",
            summary: "number of rows and of columns",
        },
        Parameter {
            name: "passes",
            kind: ValueKind::Count(1, MAX_COUNT),
            default: "1",
            summary: "number of transpositions",
        },
        Parameter {
            name: "init",
            kind: ValueKind::Word(&["no", "yes"]),
            default: "no",
            summary: "write the matrix first, row by row",
        },
        Parameter {
            name: "before",
            kind: ValueKind::Bytes(0, 1 << 40),
            default: "0",
            summary: "untouched heap before the matrices",
        },
    ],
    build,
};

struct Matrix {
    init: Code,
    code: Code,
    /// First writes left before the transpositions.
    first_writes: u64,
    a: u64,
    b: u64,
    n: u64,
    i: u64,
    j: u64,
    left: u64,
    total: u64,
}

fn build(values: &Values, process: &mut Process) -> Result<Box<dyn Program>, String> {
    let n = values.number("n");
    let too_many = "the references of all passes exceed 2^64; give fewer passes";
    let total = (n * n).checked_mul(values.number("passes")).ok_or(too_many)?;
    // mov x, [a]; mov [b], x; add a, 8; add b, 8n; cmp a, end; jb
    let code = process.block(6);
    // mov [a], x; add a, 8; cmp a, end; jb
    let init = process.block(4);
    let first_writes = if values.is("init", "yes") { n * n } else { 0 };
    // B directly follows A, as an allocator on the brk heap places them, so B shares A's last page.
    let before = values.number("before");
    let a = process.heap(before + 2 * n * n * 8).0 + before;
    Ok(Box::new(Matrix {
        init,
        code,
        first_writes,
        a,
        b: a + n * n * 8,
        n,
        i: 0,
        j: 0,
        left: total,
        total: total + first_writes,
    }))
}

impl Program for Matrix {
    fn run(&mut self, chunk: &mut Chunk, until: usize) {
        if self.first_writes > 0 {
            let count = room(chunk, until, 2, self.first_writes);
            let mut at = self.a + (self.n * self.n - self.first_writes) * 8;
            bodies(chunk, self.init, count, || {
                at += 8;
                [store(at - 8, 0)]
            });
            self.first_writes -= count;
            if self.first_writes > 0 {
                return;
            }
        }
        let count = room(chunk, until, 3, self.left);
        let Matrix { code, a, b, n, mut i, mut j, .. } = *self;
        bodies(chunk, code, count, || {
            let pair = [load(a + (i * n + j) * 8, 0), store(b + (j * n + i) * 8, 1)];
            j += 1;
            if j == n {
                j = 0;
                i = if i + 1 == n { 0 } else { i + 1 };
            }
            pair
        });
        (self.i, self.j) = (i, j);
        self.left -= count;
    }

    fn progress(&self) -> Progress {
        Progress { done: self.total - self.left - self.first_writes, total: Some(self.total) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::data;
    use reach_core::Kind;

    #[test]
    fn rows_are_loaded_and_columns_stored() {
        let refs = data("matrix:n=3,passes=2");
        let a = refs[0].addr().0;
        let (loads, stores): (Vec<_>, Vec<_>) = refs.iter().partition(|r| r.kind() == Kind::Load);
        let offsets = |refs: &[reach_core::Ref]| refs.iter().map(|r| (r.addr().0 - a) / 8).collect::<Vec<_>>();
        assert_eq!(offsets(&loads), [0, 1, 2, 3, 4, 5, 6, 7, 8].repeat(2));
        assert_eq!(offsets(&stores), [9, 12, 15, 10, 13, 16, 11, 14, 17].repeat(2));
    }

    #[test]
    fn initialisation_writes_the_matrix_first() {
        let refs = data("matrix:n=3,init=yes");
        let (init, rest) = refs.split_at(9);
        assert!(
            init.iter().enumerate().all(|(i, r)| r.kind() == Kind::Store && r.addr() - init[0].addr() == 8 * i as u64)
        );
        assert_eq!((rest.len(), rest[0].addr()), (18, init[0].addr()));
    }

    #[test]
    fn the_default_has_the_size_of_the_paper() {
        let refs = data("matrix");
        assert_eq!(refs.len(), 2_000_000);
        let (low, high) =
            (refs.iter().map(|r| r.addr().0).min().unwrap(), refs.iter().map(|r| r.addr().0).max().unwrap());
        assert_eq!(high - low + 8, 16_000_000);
    }
}
