//! Graph programs whose neighbours are computed, not stored: the reference streams of the GAP benchmarks on graphs of
//! any size.
//!
//! The references of a graph program depend on the graph and on what the program has computed. Here a formula gives the
//! graph, so the generator stores only some bits per vertex, instead of hundreds of bytes.
//!
//! The graph is *urand*: every vertex has the same number of random neighbours. Keyed permutations map the vertex to
//! half of them, and map the other half to the vertex, so edges are symmetric. GAP draws edges one by one instead, so
//! its degrees vary about their mean. Rows are sorted as in GAP's builder, and keep duplicate edges. *kron*, and any
//! graph whose skew comes from drawing edges, is not possible: a vertex's neighbours are known only after all edges are
//! drawn.
//!
//! The simulated memory is that of the real program: compressed rows of offsets (8 bytes) and neighbours (4 bytes; 8
//! from 2^31 vertices on), and all computed arrays. Twins in `tests` store these arrays and make the same references.

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
    Parameter { name: "graph", kind: ValueKind::Word(&["urand"]), default: "urand", summary: "kind of graph" };
pub(super) const BYTES: Parameter = Parameter {
    name: "bytes",
    kind: ValueKind::Bytes(4096, MAX_BYTES),
    default: "1G",
    summary: "memory of the graph and of all computed arrays, which determines the number of vertices",
};
pub(super) const DEGREE: Parameter = Parameter {
    name: "degree",
    kind: ValueKind::Count(2, 256),
    default: "32",
    summary: "neighbours per vertex, an even number; GAP's 16 edges per vertex are 32 in both directions",
};
pub(super) const INIT: Parameter = Parameter {
    name: "init",
    kind: ValueKind::Word(&["no", "pages", "yes"]),
    default: "pages",
    summary: "write all arrays first, as the graph's builder did: every word (yes), or one word of every 4 KB (pages)",
};
pub(super) const SEARCHES: Parameter = Parameter {
    name: "searches",
    kind: ValueKind::Count(1, 1 << 20),
    default: "1",
    summary: "number of searches, each from a random vertex",
};

/// The block of [`Graph::initialise`], the first of each program.
#[rustfmt::skip]
const WORDS: &[&[u8]] = &[
    &[0x48, 0x89, 0x0c, 0xcf], // mov [rdi+rcx*8],rcx
    &[0x48, 0xff, 0xc1], // inc rcx
    &[0x48, 0x39, 0xd9], // cmp rcx,rbx
    &[0x72, 0xf4], // jb words
];

/// From this number of vertices on, a vertex takes eight bytes.
const WIDE: u64 = 1 << 31;

/// A graph in compressed rows, whose contents are computed.
pub(super) struct Graph {
    /// Number of vertices.
    pub vertices: u64,
    /// Neighbours per vertex.
    pub degree: u64,
    permutations: Vec<Permutation>,
    /// Address of the row offsets.
    offsets: u64,
    /// Address of the neighbours.
    targets: u64,
    /// The binary logarithm of a vertex's size in bytes.
    pub id: u8,
    init: Option<FirstWrites>,
}

impl Graph {
    /// Makes the graph that `values` describe. The program's own arrays take `bits` bits per vertex, and `ids` elements
    /// of a vertex's size.
    fn new(values: &Values, process: &mut Process, bits: u64, ids: u64) -> Result<Graph, String> {
        let (bytes, degree) = (values.number("bytes"), values.number("degree"));
        if degree % 2 == 1 {
            return Err(format!("a degree of {degree} is odd; give an even one, because edges are symmetric"));
        }
        let count = |id: u64| (bytes * 8).saturating_sub(64) / (64 + bits + (degree + ids) * (8 << id));
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

    /// Refuses more than 2^32 vertices, for programs whose generator stores vertices in four bytes.
    fn limited(self) -> Result<Graph, String> {
        match self.vertices <= 1 << 32 {
            true => Ok(self),
            false => {
                Err(format!("{} vertices; 2^32 are the most. Give fewer bytes, or a higher degree", self.vertices))
            }
        }
    }

    /// Maps another array of the program, and returns its address.
    fn array(&mut self, bytes: u64, process: &mut Process) -> u64 {
        let at = process.mmap(bytes).0;
        if let Some(writing) = &mut self.init {
            writing.add(at, bytes);
        }
        at
    }

    /// Computes the neighbours of `v` in ascending order.
    fn neighbours(&self, v: u64, list: &mut Vec<u64>) {
        list.clear();
        for permutation in &self.permutations {
            list.extend([permutation.apply(v), permutation.invert(v)]);
        }
        list.sort_unstable();
    }

    /// Returns the index of the first neighbour of `v` among all rows.
    #[inline(always)]
    fn row(&self, v: u64) -> u64 {
        v * self.degree
    }

    /// Returns the address of the row offset of `v`.
    #[inline(always)]
    fn offset_at(&self, v: u64) -> u64 {
        self.offsets + 8 * v
    }

    /// Returns the address of entry `at` of all rows.
    #[inline(always)]
    fn target_at(&self, at: u64) -> u64 {
        self.targets + (at << self.id)
    }

    /// Returns the address of entry `at` of an array of vertices.
    #[inline(always)]
    fn id_at(&self, array: u64, at: u64) -> u64 {
        array + (at << self.id)
    }

    /// Appends loads of both ends of a row, by instruction `index` and the next.
    #[inline(always)]
    fn load_row(&self, v: u64, index: u16, emit: &mut Emit) {
        emit.load(self.offset_at(v), 3, index);
        emit.load(self.offset_at(v + 1), 3, index + 1);
    }

    /// Appends the writes that [`INIT`] requests, one word per execution of `code`. Returns whether all are appended.
    fn initialise(&mut self, code: Code, chunk: &mut Chunk, until: usize) -> bool {
        self.init.as_mut().is_none_or(|writing| writing.run(code, chunk, until))
    }
}

#[cfg(test)]
mod tests;
