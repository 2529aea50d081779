//! `cg`: conjugate gradients on a sparse matrix, as NPB's CG: products with a matrix that is read in order, whose columns select
//! random elements of a vector. The columns are computed, so the generator stores nothing.

use super::first_writes::FirstWrites;
use super::parameter::{MAX_BYTES, Parameter, SEED, ValueKind, Values};
use super::process::{Code, Emit, Process};
use super::program::{Description, Program};
use crate::Progress;
use reach_core::{Chunk, Event};

pub(super) const ABOUT: Description = Description {
    name: "cg",
    summary: "conjugate gradients on a random sparse matrix (NPB CG); the columns are computed, not stored",
    parameters: &[
        Parameter {
            name: "bytes",
            kind: ValueKind::Bytes(64, MAX_BYTES),
            default: "1G",
            summary: "size of the matrix and of the vectors together",
        },
        Parameter { name: "row", kind: ValueKind::Count(1, 1 << 16), default: "160", summary: "entries of a row" },
        Parameter {
            name: "iterations",
            kind: ValueKind::Count(1, 1 << 20),
            default: "1",
            summary: "steps towards the solution, each with one product",
        },
        Parameter {
            name: "init",
            kind: ValueKind::Word(&["no", "pages", "yes"]),
            default: "pages",
            summary: "write all arrays first: every word (yes), or one word of every 4 KB (pages)",
        },
        SEED,
    ],
    build,
};

/// Bytes of an entry of the matrix: its value and its column.
const ENTRY: u64 = 8 + 4;
/// Bytes of a row besides its entries: where it begins, and an element of each of four vectors.
const ROW: u64 = 8 + 4 * 8;

/// The consecutive blocks, as a compiler could generate them.
#[rustfmt::skip]
const BLOCKS: [&[&[u8]]; 6] = [
    // words
    &[
        &[0x48, 0x89, 0x02], // mov [rdx],rax
        &[0x48, 0x83, 0xc2, 0x08], // add rdx,8
        &[0x48, 0x39, 0xca], // cmp rdx,rcx
        &[0x72, 0xf4], // jb words
    ],
    // row
    &[
        &[0x4d, 0x8b, 0x04, 0xcf], // mov r8,[r15+rcx*8]
        &[0x4d, 0x8b, 0x4c, 0xcf, 0x08], // mov r9,[r15+rcx*8+8]
        &[0x0f, 0x57, 0xc0], // xorps xmm0,xmm0
        &[0x4d, 0x39, 0xc8], // cmp r8,r9
        &[0x73, 0x1d], // jae give
    ],
    // add
    &[
        &[0x43, 0x8b, 0x04, 0x84], // mov eax,[r12+r8*4]
        &[0xf2, 0x42, 0x0f, 0x10, 0x0c, 0xc3], // movsd xmm1,[rbx+r8*8]
        &[0xf2, 0x41, 0x0f, 0x59, 0x4c, 0xc5, 0x00], // mulsd xmm1,[r13+rax*8]
        &[0xf2, 0x0f, 0x58, 0xc1], // addsd xmm0,xmm1
        &[0x49, 0xff, 0xc0], // inc r8
        &[0x4d, 0x39, 0xc8], // cmp r8,r9
        &[0x72, 0xe3], // jb add
    ],
    // give
    &[
        &[0xf2, 0x41, 0x0f, 0x11, 0x04, 0xce], // movsd [r14+rcx*8],xmm0
        &[0xf2, 0x41, 0x0f, 0x59, 0x44, 0xcd, 0x00], // mulsd xmm0,[r13+rcx*8]
        &[0xf2, 0x0f, 0x58, 0xd0], // addsd xmm2,xmm0
        &[0x48, 0xff, 0xc1], // inc rcx
        &[0x48, 0x39, 0xe9], // cmp rcx,rbp
        &[0x72, 0xb9], // jb row
    ],
    // step
    &[
        &[0xf2, 0x41, 0x0f, 0x10, 0x44, 0xcd, 0x00], // movsd xmm0,[r13+rcx*8]
        &[0xf2, 0x0f, 0x59, 0xc3], // mulsd xmm0,xmm3
        &[0xf2, 0x0f, 0x58, 0x04, 0xcf], // addsd xmm0,[rdi+rcx*8]
        &[0xf2, 0x0f, 0x11, 0x04, 0xcf], // movsd [rdi+rcx*8],xmm0
        &[0xf2, 0x41, 0x0f, 0x10, 0x0c, 0xce], // movsd xmm1,[r14+rcx*8]
        &[0xf2, 0x0f, 0x59, 0xcb], // mulsd xmm1,xmm3
        &[0xf2, 0x0f, 0x10, 0x24, 0xce], // movsd xmm4,[rsi+rcx*8]
        &[0xf2, 0x0f, 0x5c, 0xe1], // subsd xmm4,xmm1
        &[0xf2, 0x0f, 0x11, 0x24, 0xce], // movsd [rsi+rcx*8],xmm4
        &[0xf2, 0x0f, 0x59, 0xe4], // mulsd xmm4,xmm4
        &[0xf2, 0x0f, 0x58, 0xec], // addsd xmm5,xmm4
        &[0x48, 0xff, 0xc1], // inc rcx
        &[0x48, 0x39, 0xe9], // cmp rcx,rbp
        &[0x72, 0xc3], // jb step
    ],
    // turn
    &[
        &[0xf2, 0x41, 0x0f, 0x10, 0x44, 0xcd, 0x00], // movsd xmm0,[r13+rcx*8]
        &[0xf2, 0x0f, 0x59, 0xc6], // mulsd xmm0,xmm6
        &[0xf2, 0x0f, 0x58, 0x04, 0xce], // addsd xmm0,[rsi+rcx*8]
        &[0xf2, 0x41, 0x0f, 0x11, 0x44, 0xcd, 0x00], // movsd [r13+rcx*8],xmm0
        &[0x48, 0xff, 0xc1], // inc rcx
        &[0x48, 0x39, 0xe9], // cmp rcx,rbp
        &[0x72, 0xe1], // jb turn
    ],
];

/// The block to execute next, in the order of [`BLOCKS`].
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(usize)]
enum Site {
    Words,
    /// A row of the product q = A p begins.
    Row,
    /// It adds an entry.
    Add,
    /// It ends, with its part of p q.
    Give,
    /// x and r follow from q.
    Step,
    /// p takes its new direction.
    Turn,
}

struct Cg {
    text: [Code; BLOCKS.len()],
    first_writes: FirstWrites,
    seed: u64,
    rows: u64,
    entries: u64,
    /// Addresses: where each row begins, the values, their columns, the vectors.
    begins: u64,
    values: u64,
    columns: u64,
    x: u64,
    r: u64,
    p: u64,
    q: u64,
    site: Site,
    /// The current row, and the current entry of all.
    row: u64,
    entry: u64,
    done: u64,
    iterations: u64,
}

fn build(values: &Values, process: &mut Process) -> Result<Box<dyn Program>, String> {
    let (bytes, entries) = (values.number("bytes"), values.number("row"));
    let rows = bytes / (entries * ENTRY + ROW);
    if rows == 0 {
        return Err(format!("a row of {entries} entries takes {} bytes; give more bytes", entries * ENTRY + ROW));
    }
    let text = process.assembled(BLOCKS);
    let mut first_writes = FirstWrites::new(values.is("init", "pages"));
    let is_written = !values.is("init", "no");
    let mut array = |bytes: u64| {
        let at = process.mmap(bytes.next_multiple_of(8)).0;
        if is_written {
            first_writes.add(at, bytes);
        }
        at
    };
    let [begins, values_at, columns] = [(rows + 1) * 8, rows * entries * 8, rows * entries * 4].map(&mut array);
    let [x, r, p, q] = [rows * 8; 4].map(&mut array);
    process.events.push(Event::Phase("init".into()));
    Ok(Box::new(Cg {
        text,
        first_writes,
        seed: values.number("seed"),
        rows,
        entries,
        begins,
        values: values_at,
        columns,
        x,
        r,
        p,
        q,
        site: Site::Words,
        row: 0,
        entry: 0,
        done: 0,
        iterations: values.number("iterations"),
    }))
}

impl Cg {
    /// Returns the column of entry number `entry` of all. The first of a row is on the diagonal.
    #[inline(always)]
    fn column(&self, entry: u64) -> u64 {
        if entry.is_multiple_of(self.entries) {
            return entry / self.entries;
        }
        let mixed = (entry ^ self.seed.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ mixed >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
        ((u128::from(mixed ^ mixed >> 32) * u128::from(self.rows)) >> 64) as u64
    }

    /// Appends the current block, and finds the next.
    #[inline(always)]
    fn execute(&mut self, emit: &mut Emit) {
        let Cg { row, entry, .. } = *self;
        emit.fetch(self.text[self.site as usize]);
        match self.site {
            Site::Words => unreachable!("the first writes are complete"),
            Site::Row => {
                emit.load(self.begins + row * 8, 3, 0);
                emit.load(self.begins + (row + 1) * 8, 3, 1);
                self.site = Site::Add;
            }
            Site::Add => {
                emit.load(self.columns + entry * 4, 2, 0);
                emit.load(self.values + entry * 8, 3, 1);
                emit.load(self.p + self.column(entry) * 8, 3, 2);
                self.entry += 1;
                if self.entry == (row + 1) * self.entries {
                    self.site = Site::Give;
                }
            }
            Site::Give => {
                emit.store(self.q + row * 8, 3, 0);
                emit.load(self.p + row * 8, 3, 1);
                self.site = Site::Row;
                self.end_row(Site::Step);
            }
            Site::Step => {
                emit.load(self.p + row * 8, 3, 0);
                emit.load(self.x + row * 8, 3, 2);
                emit.store(self.x + row * 8, 3, 3);
                emit.load(self.q + row * 8, 3, 4);
                emit.load(self.r + row * 8, 3, 6);
                emit.store(self.r + row * 8, 3, 8);
                self.end_row(Site::Turn);
            }
            Site::Turn => {
                emit.load(self.p + row * 8, 3, 0);
                emit.load(self.r + row * 8, 3, 2);
                emit.store(self.p + row * 8, 3, 3);
                if self.end_row(Site::Row) {
                    self.done += 1;
                }
            }
        }
    }

    /// Goes to the next row; after the last, to `next`. Returns whether it was the last.
    #[inline(always)]
    fn end_row(&mut self, next: Site) -> bool {
        self.row += 1;
        let was_last = self.row == self.rows;
        if was_last {
            (self.row, self.entry, self.site) = (0, 0, next);
        }
        was_last
    }
}

impl Program for Cg {
    fn run(&mut self, chunk: &mut Chunk, until: usize) {
        if self.site == Site::Words {
            if !self.first_writes.run(self.text[Site::Words as usize], chunk, until) || chunk.refs.len() >= until {
                return;
            }
            chunk.push_event(Event::Phase("iterations".into()));
            self.site = Site::Row;
        }
        let emit = &mut Emit { chunk };
        while emit.chunk.refs.len() < until && self.done < self.iterations {
            self.execute(emit);
        }
    }

    fn progress(&self) -> Progress {
        Progress { done: self.done * self.rows + self.row, total: Some(self.iterations * self.rows) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::data;
    use reach_core::{Kind, Ref};

    /// A vector or matrix in memory, which knows its address.
    struct Array {
        at: u64,
        size: u64,
    }

    #[test]
    fn references_equal_those_of_a_solver_with_its_matrix_in_memory() {
        let (rows, entries) = (7u64, 5);
        let refs = data("cg:bytes=700,row=5,iterations=2,init=yes,seed=3");
        // begins, values, columns, x, r, p and q are written first, a word at a time.
        let words = [rows + 1, rows * entries, (rows * entries).div_ceil(2), rows, rows, rows, rows];
        let mut init = refs.iter();
        let arrays: Vec<u64> = words
            .iter()
            .map(|&words| {
                let first = init.next().unwrap().addr().0;
                for word in 1..words {
                    let write = init.next().unwrap();
                    assert_eq!((write.kind(), write.addr().0), (Kind::Store, first + 8 * word));
                }
                first
            })
            .collect();
        let [begins, values, columns, x, r, p, q] = arrays[..] else { unreachable!() };
        let [begins, values, x, r, p, q] = [begins, values, x, r, p, q].map(|at| Array { at, size: 3 });
        let columns = Array { at: columns, size: 2 };
        let rest: Vec<Ref> = init.copied().collect();
        // The columns as the first product reads them; the second must read the same.
        let product = &rest[..(rows * (2 + 3 * entries + 2)) as usize];
        let matrix: Vec<u64> = product
            .chunks((2 + 3 * entries + 2) as usize)
            .flat_map(|row| row[2..].chunks(3).take(entries as usize).map(|entry| (entry[2].addr().0 - p.at) / 8))
            .collect();
        assert!(matrix.iter().all(|&column| column < rows));
        assert!((0..rows).all(|row| matrix[(row * entries) as usize] == row), "the diagonal");
        let mut expected = Vec::new();
        let mut touch = |kind, array: &Array, index: u64| {
            expected.push((kind, array.at + (index << array.size), 1 << array.size));
        };
        let (load, store) = (Kind::Load, Kind::Store);
        for _ in 0..2 {
            for i in 0..rows {
                touch(load, &begins, i);
                touch(load, &begins, i + 1);
                for k in i * entries..(i + 1) * entries {
                    touch(load, &columns, k);
                    touch(load, &values, k);
                    touch(load, &p, matrix[k as usize]);
                }
                touch(store, &q, i);
                touch(load, &p, i);
            }
            for i in 0..rows {
                touch(load, &p, i);
                touch(load, &x, i);
                touch(store, &x, i);
                touch(load, &q, i);
                touch(load, &r, i);
                touch(store, &r, i);
            }
            for i in 0..rows {
                touch(load, &p, i);
                touch(load, &r, i);
                touch(store, &p, i);
            }
        }
        let ours: Vec<_> = rest.iter().map(|r| (r.kind(), r.addr().0, r.size())).collect();
        assert_eq!(ours, expected);
    }

    #[test]
    fn arrays_take_the_bytes_that_were_given() {
        let refs = data("cg:bytes=1M,row=100,init=yes,seed=5");
        let written = refs.iter().take_while(|r| r.kind() == Kind::Store).count() as u64 * 8;
        assert!((1 << 20) - written < 1300, "{written}");
        assert!(super::super::parse("cg:bytes=1K,row=500").is_err());
    }
}
