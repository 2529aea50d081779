//! `bc`: GAP's betweenness centrality (Brandes 2001), as in `papers/lindsay-2024/programs/bc.c`, for one thread.
//!
//! The search proceeds level by level, counts shortest paths, and marks with one bit per edge which edges lead to the
//! next level. The backward pass visits the levels from the last to the first, each in the order in which it was found,
//! and sums the dependencies.
//!
//! The references depend on the graph, on the order in which vertices are found, and on which neighbours are on the
//! next level. [`Levels`] provides the latter two. They do not depend on path counts and scores, so the generator
//! computes neither.
//!
//! With one thread, vertices go directly to the queue, arrays are cleared one after the other, and scores are not
//! divided by the greatest at the end.

use super::super::first_writes::FirstWrites;
use super::super::parameter::{SEED, Values};
use super::super::process::{Code, Emit, Process};
use super::super::program::{Description, Program};
use super::levels::{Edge, Levels};
use super::{BYTES, DEGREE, GRAPH, Graph, INIT, SEARCHES};
use crate::Progress;
use code::{Site, Static};
use reach_core::{Chunk, Event, Random};

mod code;

pub(in super::super) const ABOUT: Description = Description {
    name: "bc",
    summary: "GAP's betweenness centrality; the neighbours are computed, not stored",
    parameters: &[GRAPH, BYTES, DEGREE, SEARCHES, INIT, SEED],
    build,
};

/// Bits per vertex apart from its row, its queue element and one bit per edge: depth, paths, score and dependency.
const BITS: u64 = 32 + 64 + 32 + 32;

/// The position of the program.
enum Stage {
    Init,
    /// Clears the arrays before a search.
    Clear,
    Search,
    Backward,
    End,
}

struct Centrality {
    graph: Graph,
    text: [Code; code::BLOCKS.len()],
    /// Address of the static variables.
    statics: u64,
    /// Address of the stack word that holds a sum during its atomic exchange.
    sum: u64,
    /// Addresses of the program's arrays; `next_level` has one bit per edge.
    depth: u64,
    paths: u64,
    score: u64,
    dependency: u64,
    queue: u64,
    next_level: u64,
    clearing: FirstWrites,
    random: Random,
    stage: Stage,
    /// Number of searches that have ended, and of all searches.
    ended: u64,
    searches: u64,
    levels: Levels,
    /// Indices in the queue of the next vertex to take, and of the next to append.
    head: u64,
    tail: u64,
    /// Scratch buffer for neighbours.
    list: Vec<u64>,
}

fn build(values: &Values, process: &mut Process) -> Result<Box<dyn Program>, String> {
    let degree = values.number("degree");
    if degree == 2 {
        return Err("degree=2 gives almost as many levels as vertices; give 4 or more".into());
    }
    let mut graph = Graph::new(values, process, BITS + degree, 1)?.limited()?;
    let n = graph.vertices;
    let sizes = [n * 4, n * 8, n * 4, n * 4, n << graph.id, (n * degree / 64 + 1) * 8];
    let [depth, paths, score, dependency, queue, next_level] = sizes.map(|bytes| graph.array(bytes, process));
    let mut clearing = FirstWrites::new(false);
    for (at, bytes) in [(score, n * 4), (depth, n * 4), (paths, n * 8), (dependency, n * 4), (next_level, sizes[5])] {
        clearing.add(at, bytes);
    }
    Ok(Box::new(Centrality {
        text: process.assembled(code::BLOCKS),
        statics: process.data().0,
        sum: process.stack_top().0 - 64,
        depth,
        paths,
        score,
        dependency,
        queue,
        next_level,
        clearing,
        // A different seed than the graph's, so that the sources are independent of it.
        random: Random::new(!values.number("seed")),
        stage: Stage::Init,
        ended: 0,
        searches: values.number("searches"),
        levels: Levels::new(n),
        head: 0,
        tail: 0,
        list: Vec::new(),
        graph,
    }))
}

impl Centrality {
    fn code(&self, site: Site) -> Code {
        self.text[site as usize]
    }

    /// Returns the address of the word with the bit of entry `at` of all rows.
    fn next_level_at(&self, at: u64) -> u64 {
        self.next_level + at / 64 * 8
    }

    /// Appends a load of a static variable.
    #[inline(always)]
    fn load_static(&self, which: Static, index: u16, emit: &mut Emit) {
        let size = if let Static::Current = which { 2 } else { 3 };
        emit.load(self.statics + which as u64, size, index);
    }

    /// Announces a search and starts to clear the arrays.
    fn clear(&mut self, chunk: &mut Chunk) {
        chunk.push_event(Event::Phase("search".into()));
        self.stage = Stage::Clear;
    }

    /// Starts a search from a random vertex.
    fn begin(&mut self, emit: &mut Emit) {
        let source = self.random.below(self.graph.vertices);
        self.levels.begin(source);
        (self.head, self.tail) = (0, 1);
        emit.fetch(self.code(Site::Begin));
        self.load_static(Static::Depth, 0, emit);
        emit.store(self.depth + source * 4, 2, 1);
        self.load_static(Static::Paths, 2, emit);
        emit.store(self.paths + source * 8, 3, 3);
        self.load_static(Static::Queue, 4, emit);
        emit.store(self.queue, self.graph.id, 5);
        self.stage = Stage::Search;
    }

    /// Follows all edges of one vertex of the level.
    fn expand(&mut self, u: u64, emit: &mut Emit) {
        let id = self.graph.id;
        let mut list = std::mem::take(&mut self.list);
        self.graph.neighbours(u, &mut list);
        self.levels.prefetch(&list);
        emit.fetch(self.code(Site::Take));
        self.load_static(Static::Queue, 0, emit);
        emit.load(self.graph.id_at(self.queue, self.head), id, 1);
        emit.load(self.graph.offset_at(u), 3, 3);
        emit.load(self.graph.offset_at(u + 1), 3, 7);
        self.head += 1;
        emit.fetch(self.code(Site::Open));
        for (at, &v) in (self.graph.row(u)..).zip(&list) {
            emit.fetch(self.code(Site::Look));
            self.load_static(Static::Near, 0, emit);
            self.load_static(Static::Depth, 1, emit);
            emit.load(self.graph.target_at(at), id, 2);
            emit.load(self.depth + v * 4, 2, 3);
            match self.levels.follow(v) {
                Edge::New => {
                    emit.fetch(self.code(Site::Claim));
                    emit.load(self.depth + v * 4, 2, 2);
                    emit.store(self.depth + v * 4, 2, 2);
                    emit.fetch(self.code(Site::Found));
                    self.load_static(Static::Queue, 0, emit);
                    emit.store(self.graph.id_at(self.queue, self.tail), id, 1);
                    self.load_static(Static::Current, 2, emit);
                    self.tail += 1;
                    self.count_paths(u, at, v, emit);
                }
                Edge::Next => {
                    emit.fetch(self.code(Site::Other));
                    emit.fetch(self.code(Site::Again));
                    self.count_paths(u, at, v, emit);
                }
                Edge::Other => emit.fetch(self.code(Site::Other)),
            }
            emit.fetch(self.code(Site::Next));
            self.load_static(Static::Row, 0, emit);
            emit.load(self.graph.offset_at(u + 1), 3, 2);
        }
        emit.fetch(self.code(Site::Close));
        self.list = list;
    }

    /// Adds the paths to `u` to those to `v`, and marks entry `at` of all rows.
    fn count_paths(&self, u: u64, at: u64, v: u64, emit: &mut Emit) {
        emit.fetch(self.code(Site::Follow));
        self.load_static(Static::Follows, 3, emit);
        emit.load(self.next_level_at(at), 3, 6);
        emit.store(self.next_level_at(at), 3, 6);
        self.load_static(Static::Paths, 7, emit);
        emit.load(self.paths + u * 8, 3, 8);
        emit.load(self.paths + v * 8, 3, 11);
        emit.store(self.sum, 3, 12);
        emit.load(self.sum, 3, 14);
        emit.load(self.paths + v * 8, 3, 16);
        emit.store(self.paths + v * 8, 3, 16);
        emit.fetch(self.code(Site::Counted));
        self.load_static(Static::Current, 1, emit);
    }

    /// Sums the dependencies of one vertex of the level.
    fn accumulate(&mut self, u: u64, emit: &mut Emit) {
        let id = self.graph.id;
        let mut list = std::mem::take(&mut self.list);
        self.graph.neighbours(u, &mut list);
        self.levels.prefetch(&list);
        emit.fetch(self.code(Site::From));
        emit.load(self.graph.id_at(self.queue, self.head), id, 0);
        emit.load(self.graph.offset_at(u), 3, 2);
        emit.load(self.graph.offset_at(u + 1), 3, 5);
        self.head += 1;
        emit.fetch(self.code(Site::Nothing));
        for (at, &v) in (self.graph.row(u)..).zip(&list) {
            emit.fetch(self.code(Site::Bit));
            emit.load(self.next_level_at(at), 3, 2);
            if self.levels.is_on_next_level(v) {
                emit.fetch(self.code(Site::Gain));
                emit.load(self.graph.target_at(at), id, 0);
                emit.load(self.paths + u * 8, 3, 1);
                emit.load(self.dependency + v * 4, 2, 3);
                emit.load(self.paths + v * 8, 3, 4);
            }
            emit.fetch(self.code(Site::Skip));
        }
        emit.fetch(self.code(Site::Give));
        emit.store(self.dependency + u * 4, 2, 1);
        emit.load(self.score + u * 4, 2, 3);
        emit.store(self.score + u * 4, 2, 4);
        self.list = list;
    }

    /// Ends a level of the search: continues with the next level, or with the backward pass.
    fn end_search_level(&mut self, chunk: &mut Chunk) {
        if !self.levels.next_level() {
            chunk.push_event(Event::Phase("back".into()));
            self.stage = Stage::Backward;
            self.levels.start_backward();
            self.head = self.levels.vertices_before();
        }
    }

    /// Ends a level of the backward pass: continues with the previous level, the next search, or nothing.
    fn end_backward_level(&mut self, chunk: &mut Chunk) {
        if self.levels.previous_level() {
            self.head = self.levels.vertices_before();
            return;
        }
        self.ended += 1;
        if self.ended == self.searches {
            return self.stage = Stage::End;
        }
        // The first array, the scores, is not cleared: scores are sums over all searches.
        self.clearing.restart(1);
        self.clear(chunk);
    }
}

impl Program for Centrality {
    fn run(&mut self, chunk: &mut Chunk, until: usize) {
        while chunk.refs.len() < until {
            match self.stage {
                Stage::Init => {
                    if self.graph.initialise(self.code(Site::Words), chunk, until) {
                        self.clear(chunk);
                    }
                }
                Stage::Clear => {
                    if self.clearing.run(self.code(Site::Clear), chunk, until) {
                        self.begin(&mut Emit { chunk });
                    }
                }
                Stage::Search => match self.levels.next_vertex(&self.graph) {
                    Some(u) => self.expand(u, &mut Emit { chunk }),
                    None => self.end_search_level(chunk),
                },
                Stage::Backward => match self.levels.next_vertex(&self.graph) {
                    Some(u) => self.accumulate(u, &mut Emit { chunk }),
                    None => self.end_backward_level(chunk),
                },
                Stage::End => return,
            }
        }
    }

    fn progress(&self) -> Progress {
        Progress { done: self.ended, total: Some(self.searches) }
    }
}
