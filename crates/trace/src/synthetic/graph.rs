//! Graphs whose edges are computed rather than kept, and programs that go over them: the reference streams of the GAP
//! benchmarks on graphs of any size.
//!
//! A program on a graph refers to places that follow from the graph, and from what it has computed. Where the graph follows
//! from a formula, only the latter has to be kept: some bits for each vertex in place of hundreds of bytes. The graph is
//! *urand*: each vertex has as many neighbours as any other, at random. Half of them are where keyed permutations take the
//! vertex, the others what they take to it, so that whoever is a neighbour has a neighbour. (GAP draws edges one by
//! one; there degrees are scattered about their mean, and here they are not.) Lists are sorted as GAP's builder sorts
//! them; an edge that is there twice stays. Of *kron*, and of all graphs whose skew comes from drawing edges, nobody can say a
//! vertex's neighbours without having drawn them all.
//!
//! What is laid out in memory is what the program would have: compressed rows of offsets (8 bytes) and neighbours (4
//! bytes; 8 where there are 2^31 vertices and more), and what it computes. Its stream is that of the same
//! program on arrays that hold the graph, reference by reference: `tests` says so, with twins that have the arrays.

pub(super) mod bc;
pub(super) mod bfs;
mod bits;
mod levels;
pub(super) mod pr;
pub(super) mod tc;

use super::first_writes::FirstWrites;
use super::parameter::{MAX_BYTES, Parameter, ValueKind, Values};
use super::permutation::Permutation;
use super::process::{Code, Emit, Process};
use reach_core::{Chunk, Event, Random};

pub(super) const GRAPH: Parameter =
    Parameter { name: "graph", kind: ValueKind::Word(&["urand"]), default: "urand", summary: "which graph" };
pub(super) const BYTES: Parameter = Parameter {
    name: "bytes",
    kind: ValueKind::Bytes(4096, MAX_BYTES),
    default: "1G",
    summary: "memory of the graph and of what is computed; from it follows how many vertices there are",
};
pub(super) const DEGREE: Parameter = Parameter {
    name: "degree",
    kind: ValueKind::Count(2, 256),
    default: "32",
    summary: "neighbours of each vertex, an even number; GAP's 16 edges a vertex are 32 both ways",
};
pub(super) const INIT: Parameter = Parameter {
    name: "init",
    kind: ValueKind::Word(&["no", "pages", "yes"]),
    default: "pages",
    summary: "whether all arrays are first written, as whoever made the graph did: every word, or one word of every 4 KB",
};
pub(super) const SEARCHES: Parameter = Parameter {
    name: "searches",
    kind: ValueKind::Count(1, 1 << 20),
    default: "1",
    summary: "how many searches, each from a vertex at random",
};

/// The block of [`Graph::initialise`], the first of each program.
#[rustfmt::skip]
const WORDS: &[&[u8]] = &[
    &[0x48, 0x89, 0x0c, 0xcf], // mov [rdi+rcx*8],rcx
    &[0x48, 0xff, 0xc1], // inc rcx
    &[0x48, 0x39, 0xd9], // cmp rcx,rbx
    &[0x72, 0xf4], // jb words
];

/// From here on vertices do not fit 31 bits.
const WIDE: u64 = 1 << 31;

/// A graph in compressed rows that are nowhere.
pub(super) struct Graph {
    /// How many vertices.
    pub vertices: u64,
    pub degree: u64,
    permutations: Vec<Permutation>,
    /// Where the rows begin, and the neighbours.
    offsets: u64,
    targets: u64,
    /// The binary logarithm of a vertex's size in bytes.
    pub id: u8,
    init: Option<FirstWrites>,
}

impl Graph {
    /// The graph that `values` describe, with so many bits for each vertex beside its row: `plain`, and `ids` times a vertex.
    fn new(values: &Values, process: &mut Process, plain: u64, ids: u64) -> Result<Graph, String> {
        let (bytes, degree) = (values.number("bytes"), values.number("degree"));
        if degree % 2 == 1 {
            return Err(format!("a degree of {degree} is odd; give an even one, since edges go both ways"));
        }
        let count = |id: u64| (bytes * 8).saturating_sub(64) / (64 + plain + (degree + ids) * (8 << id));
        let id = if count(2) < WIDE { 2 } else { 3 };
        let vertices = count(u64::from(id));
        let mut random = Random::new(values.number("seed"));
        let permutations = (0..degree / 2).map(|_| Permutation::new(vertices, random.next_u64())).collect();
        let init = (!values.is("init", "no")).then(|| FirstWrites::new(values.is("init", "pages")));
        if init.is_some() {
            process.events.push(Event::Phase("init".into()));
        }
        let mut graph = Graph { vertices, degree, permutations, offsets: 0, targets: 0, id, init };
        graph.offsets = graph.array((vertices + 1) * 8, process);
        graph.targets = graph.array((vertices * degree) << id, process);
        Ok(graph)
    }

    /// Refuses more vertices than four bytes can tell apart: some are kept in these.
    fn numbered(self) -> Result<Graph, String> {
        match self.vertices <= 1 << 32 {
            true => Ok(self),
            false => Err(format!(
                "{} vertices are more than can be kept, 2^32; give fewer bytes, or a higher degree",
                self.vertices
            )),
        }
    }

    /// Memory that the program has for something else.
    fn array(&mut self, bytes: u64, process: &mut Process) -> u64 {
        let at = process.mmap(bytes).0;
        if let Some(writing) = &mut self.init {
            writing.add(at, bytes);
        }
        at
    }

    /// The neighbours of `v`, least first.
    fn neighbours(&self, v: u64, list: &mut Vec<u64>) {
        list.clear();
        for permutation in &self.permutations {
            list.extend([permutation.apply(v), permutation.invert(v)]);
        }
        list.sort_unstable();
    }

    /// Where the row of `v` begins among the neighbours.
    #[inline(always)]
    fn row(&self, v: u64) -> u64 {
        v * self.degree
    }

    /// The offset of `v`.
    #[inline(always)]
    fn offset_at(&self, v: u64) -> u64 {
        self.offsets + 8 * v
    }

    /// Entry `at` of all rows.
    #[inline(always)]
    fn target_at(&self, at: u64) -> u64 {
        self.targets + (at << self.id)
    }

    /// Entry `at` of an array of vertices.
    #[inline(always)]
    fn id_at(&self, array: u64, at: u64) -> u64 {
        array + (at << self.id)
    }

    /// Loads of both ends of a row, by instructions `index` and the next.
    #[inline(always)]
    fn load_row(&self, v: u64, index: u16, emit: &mut Emit) {
        emit.load(self.offset_at(v), 3, index);
        emit.load(self.offset_at(v + 1), 3, index + 1);
    }

    /// Writes arrays as [`INIT`] says, one word an execution of `code`. Returns whether all is written.
    fn initialise(&mut self, code: Code, chunk: &mut Chunk, until: usize) -> bool {
        self.init.as_mut().is_none_or(|writing| writing.run(code, chunk, until))
    }
}

#[cfg(test)]
mod tests;
