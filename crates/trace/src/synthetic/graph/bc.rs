//! `bc`: betweenness centrality (Brandes 2001) as GAP has it and `papers/lindsay-2024/programs/bc.c` writes it, for one thread:
//! the search goes down level by level, counts shortest paths, and notes by a bit for each edge which ones go on; the way
//! back goes over the levels from the last to the first, each in the order in which it was found, and adds up what depends
//! on whom.
//!
//! What it refers to follows from the graph, from the order in which vertices were found, and from which neighbours are on the
//! next level: [`Levels`] has both. Counts of paths and scores have no say, so there are none. With one thread, what is found
//! goes to the queue itself; arrays are emptied one after the other; scores are not divided by the greatest at the end.

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
    summary: "GAP's betweenness centrality on a uniform random graph that is nowhere kept",
    parameters: &[GRAPH, BYTES, DEGREE, SEARCHES, INIT, SEED],
    build,
};

/// Bits for each vertex beside its row and its place in the queue: depth, paths, score, what depends on it, and one an edge.
const BITS: u64 = 32 + 64 + 32 + 32;

enum Phase {
    Init,
    /// Everybody is unknown again.
    Clear,
    Down,
    Back,
    End,
}

struct Centrality {
    graph: Graph,
    text: [Code; code::BLOCKS.len()],
    statics: u64,
    /// Where a sum is kept while it is exchanged for the one before.
    sum: u64,
    depth: u64,
    paths: u64,
    score: u64,
    depends: u64,
    queue: u64,
    /// The bits of edges.
    follows: u64,
    clearing: FirstWrites,
    random: Random,
    phase: Phase,
    /// Searches that have ended, and that are to be made.
    ended: u64,
    searches: u64,
    levels: Levels,
    /// Places in the queue: of the next that is taken, and of the next that is put there.
    head: u64,
    tail: u64,
    list: Vec<u64>,
}

fn build(values: &Values, process: &mut Process) -> Result<Box<dyn Program>, String> {
    let degree = values.number("degree");
    if degree == 2 {
        return Err("with a degree of 2 there are as many levels as vertices; give 4 or more".into());
    }
    let mut graph = Graph::new(values, process, BITS + degree, 1)?.numbered()?;
    let n = graph.vertices;
    let sizes = [n * 4, n * 8, n * 4, n * 4, n << graph.id, (n * degree / 64 + 1) * 8];
    let [depth, paths, score, depends, queue, follows] = sizes.map(|bytes| graph.array(bytes, process));
    let mut clearing = FirstWrites::new(false);
    for (at, bytes) in [(score, n * 4), (depth, n * 4), (paths, n * 8), (depends, n * 4), (follows, sizes[5])] {
        clearing.add(at, bytes);
    }
    Ok(Box::new(Centrality {
        text: process.assembled(code::BLOCKS),
        statics: process.data().0,
        sum: process.stack_top().0 - 64,
        depth,
        paths,
        score,
        depends,
        queue,
        follows,
        clearing,
        // Not the graph's own numbers once more.
        random: Random::new(!values.number("seed")),
        phase: Phase::Init,
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

    /// The bit of entry `at` of all rows.
    fn follows_at(&self, at: u64) -> u64 {
        self.follows + at / 64 * 8
    }

    /// A load of what the program holds beside its arrays.
    #[inline(always)]
    fn load_static(&self, which: Static, index: u16, emit: &mut Emit) {
        let size = if let Static::Current = which { 2 } else { 3 };
        emit.load(self.statics + which as u64, size, index);
    }

    fn clear(&mut self, chunk: &mut Chunk) {
        chunk.push_event(Event::Phase("search".into()));
        self.phase = Phase::Clear;
    }

    /// From a vertex at random.
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
        self.phase = Phase::Down;
    }

    /// One vertex of the level looks at its neighbours.
    fn down(&mut self, u: u64, emit: &mut Emit) {
        let id = self.graph.id;
        let mut list = std::mem::take(&mut self.list);
        self.graph.neighbours(u, &mut list);
        self.levels.expect(&list);
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
            match self.levels.look(v) {
                Edge::Finds => {
                    emit.fetch(self.code(Site::Claim));
                    emit.load(self.depth + v * 4, 2, 2);
                    emit.store(self.depth + v * 4, 2, 2);
                    emit.fetch(self.code(Site::Found));
                    self.load_static(Static::Queue, 0, emit);
                    emit.store(self.graph.id_at(self.queue, self.tail), id, 1);
                    self.load_static(Static::Current, 2, emit);
                    self.tail += 1;
                    self.follow(u, at, v, emit);
                }
                Edge::Follows => {
                    emit.fetch(self.code(Site::Other));
                    emit.fetch(self.code(Site::Again));
                    self.follow(u, at, v, emit);
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

    /// Paths to `u` go on to `v`, by entry `at` of all rows.
    fn follow(&self, u: u64, at: u64, v: u64, emit: &mut Emit) {
        emit.fetch(self.code(Site::Follow));
        self.load_static(Static::Follows, 3, emit);
        emit.load(self.follows_at(at), 3, 6);
        emit.store(self.follows_at(at), 3, 6);
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

    /// One vertex of the level adds up what depends on it.
    fn back(&mut self, u: u64, emit: &mut Emit) {
        let id = self.graph.id;
        let mut list = std::mem::take(&mut self.list);
        self.graph.neighbours(u, &mut list);
        self.levels.expect(&list);
        emit.fetch(self.code(Site::From));
        emit.load(self.graph.id_at(self.queue, self.head), id, 0);
        emit.load(self.graph.offset_at(u), 3, 2);
        emit.load(self.graph.offset_at(u + 1), 3, 5);
        self.head += 1;
        emit.fetch(self.code(Site::Nothing));
        for (at, &v) in (self.graph.row(u)..).zip(&list) {
            emit.fetch(self.code(Site::Bit));
            emit.load(self.follows_at(at), 3, 2);
            if self.levels.follows(v) {
                emit.fetch(self.code(Site::Gain));
                emit.load(self.graph.target_at(at), id, 0);
                emit.load(self.paths + u * 8, 3, 1);
                emit.load(self.depends + v * 4, 2, 3);
                emit.load(self.paths + v * 8, 3, 4);
            }
            emit.fetch(self.code(Site::Skip));
        }
        emit.fetch(self.code(Site::Give));
        emit.store(self.depends + u * 4, 2, 1);
        emit.load(self.score + u * 4, 2, 3);
        emit.store(self.score + u * 4, 2, 4);
        self.list = list;
    }

    /// What comes after a level on the way down.
    fn end_down(&mut self, chunk: &mut Chunk) {
        if !self.levels.deeper() {
            chunk.push_event(Event::Phase("back".into()));
            self.phase = Phase::Back;
            self.levels.turn_back();
            self.head = self.levels.before();
        }
    }

    /// What comes after a level on the way back.
    fn end_back(&mut self, chunk: &mut Chunk) {
        if self.levels.nearer() {
            self.head = self.levels.before();
            return;
        }
        self.ended += 1;
        if self.ended == self.searches {
            return self.phase = Phase::End;
        }
        // Scores are sums over all searches.
        self.clearing.restart(1);
        self.clear(chunk);
    }
}

impl Program for Centrality {
    fn run(&mut self, chunk: &mut Chunk, until: usize) {
        while chunk.refs.len() < until {
            match self.phase {
                Phase::Init => {
                    if self.graph.initialise(self.code(Site::Words), chunk, until) {
                        self.clear(chunk);
                    }
                }
                Phase::Clear => {
                    if self.clearing.run(self.code(Site::Clear), chunk, until) {
                        self.begin(&mut Emit { chunk });
                    }
                }
                Phase::Down => match self.levels.next(&self.graph) {
                    Some(u) => self.down(u, &mut Emit { chunk }),
                    None => self.end_down(chunk),
                },
                Phase::Back => match self.levels.next(&self.graph) {
                    Some(u) => self.back(u, &mut Emit { chunk }),
                    None => self.end_back(chunk),
                },
                Phase::End => return,
            }
        }
    }

    fn progress(&self) -> Progress {
        Progress { done: self.ended, total: Some(self.searches) }
    }
}
