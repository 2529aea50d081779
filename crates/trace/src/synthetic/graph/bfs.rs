//! `bfs`: GAP's direction-optimising breadth-first search (Beamer, Asanović and Patterson, SC 2012). A top-down step
//! expands a small frontier. While the frontier is large, bottom-up steps search from the vertices that are not yet
//! found.
//!
//! The references of a search depend on the graph and on the step at which each vertex is found. The generator stores
//! three bits per vertex (found, and the program's two bitmaps), and the frontier while it is small.
//!
//! After a top-down step whose frontier has become large, its order matters only while it is written to the bitmap.
//! That step is repeated for this purpose, without references, from a copy of the found vertices (the fourth bit).

use super::super::parameter::{SEED, Values};
use super::super::process::{Code, Emit, Process, bodies, load, room, store};
use super::super::program::{Description, Program};
use super::bits::Bits;
use super::{BYTES, DEGREE, GRAPH, Graph, INIT, SEARCHES};
use crate::Progress;
use reach_core::{Chunk, Event, Kind, Random, Ref, VirtAddr};

mod code;

pub(in super::super) const ABOUT: Description = Description {
    name: "bfs",
    summary: "GAP's direction-optimising breadth-first search; the neighbours are computed, not stored",
    parameters: &[GRAPH, BYTES, DEGREE, SEARCHES, INIT, SEED],
    build,
};

/// GAP's α: a bottom-up step follows when the frontier has more than 1/α of the unexplored edges.
const ALPHA: u64 = 15;
/// GAP's β: top-down steps follow again when the frontier shrinks to at most 1/β of the vertices.
const BETA: u64 = 18;
/// The blocks, in the order of [`code::BLOCKS`].
#[derive(Clone, Copy)]
#[repr(usize)]
enum Site {
    Words,
    Parents,
    Clear,
    Enter,
    Take,
    Look,
    Found,
    Skip,
    Next,
    Up,
    Open,
    Ask,
    Join,
    Other,
    Done,
    Bit,
    Keep,
    Unset,
}

/// The position of a search.
#[derive(Clone, Copy, PartialEq)]
enum Stage {
    Init,
    /// Clears the parents from this vertex on.
    Parents(u64),
    /// Makes a top-down step, from this index of the frontier on.
    Down(usize),
    /// Writes the frontier to the bitmap, from this index of the frontier on. For a large one, the index is that of the
    /// frontier before.
    QueueToBitmap(usize),
    /// Clears the next step's bitmap from this word on.
    Clear(u64),
    /// Makes a bottom-up step, from this vertex on.
    Up(u64),
    /// Writes the bitmap to the queue, from this vertex on.
    BitmapToQueue(u64),
    End,
}

struct Bfs {
    graph: Graph,
    text: [Code; code::BLOCKS.len()],
    /// Addresses of the program's arrays: parents, queue, and the bitmaps of this step and the next.
    parents: u64,
    queue: u64,
    bitmaps: [u64; 2],
    random: Random,
    stage: Stage,
    /// Number of searches that have ended, and of all searches.
    ended: u64,
    searches: u64,
    found: Bits,
    front: Bits,
    next: Bits,
    /// The vertices found before the last top-down step.
    found_before: Bits,
    frontier: Vec<u32>,
    /// The vertices that the current top-down step found, while they are few.
    next_frontier: Vec<u32>,
    /// The current step finds too many vertices for another top-down step; `frontier` stays the one before.
    large: bool,
    /// Number of vertices in the frontier.
    awake: u64,
    /// Number of vertices that the bottom-up step has found so far.
    joined: u64,
    /// Indices in the queue of the next vertex to take, and of the next to append.
    head: u64,
    tail: u64,
    /// Number of edges that leave vertices not yet explored.
    unexplored: u64,
    /// Number of edges that leave the frontier.
    scout: u64,
    /// Scratch buffer for neighbours.
    list: Vec<u64>,
}

fn build(values: &Values, process: &mut Process) -> Result<Box<dyn Program>, String> {
    let mut graph = Graph::new(values, process, 2, 2)?.limited()?;
    let n = graph.vertices;
    let text = process.assembled(code::BLOCKS);
    let parents = graph.array(n << graph.id, process);
    let queue = graph.array(n << graph.id, process);
    let bitmaps = [(); 2].map(|()| graph.array(n.div_ceil(64) * 8, process));
    let bits = Bits::new(n);
    Ok(Box::new(Bfs {
        text,
        parents,
        queue,
        bitmaps,
        // A different seed than the graph's, so that the sources are independent of it.
        random: Random::new(!values.number("seed")),
        stage: Stage::Init,
        ended: 0,
        searches: values.number("searches"),
        found: bits.clone(),
        front: bits.clone(),
        next: bits.clone(),
        found_before: bits,
        frontier: Vec::new(),
        next_frontier: Vec::new(),
        large: false,
        awake: 0,
        joined: 0,
        head: 0,
        tail: 0,
        unexplored: 0,
        scout: 0,
        list: Vec::new(),
        graph,
    }))
}

impl Bfs {
    fn code(&self, site: Site) -> Code {
        self.text[site as usize]
    }

    fn parent_at(&self, v: u64) -> u64 {
        self.graph.id_at(self.parents, v)
    }

    fn bit_at(&self, bitmap: usize, v: u64) -> u64 {
        self.bitmaps[bitmap] + v / 64 * 8
    }

    /// Returns the number of words of a bitmap.
    fn words(&self) -> u64 {
        self.graph.vertices.div_ceil(64)
    }

    /// Starts a search from a random vertex.
    fn begin(&mut self, emit: &mut Emit) {
        let source = self.random.below(self.graph.vertices);
        self.found.clear();
        self.front.clear();
        self.found.add(source);
        (self.frontier, self.large) = (vec![source as u32], false);
        (self.awake, self.head, self.tail) = (1, 0, 1);
        (self.unexplored, self.scout) = (self.graph.vertices * self.graph.degree, self.graph.degree);
        emit.fetch(self.code(Site::Found));
        emit.store(self.parent_at(source), self.graph.id, 0);
        emit.store(self.graph.id_at(self.queue, 0), self.graph.id, 1);
        emit.fetch(self.code(Site::Skip));
        emit.fetch(self.code(Site::Next));
        self.choose_step();
    }

    /// Chooses what follows a top-down step, or a sequence of bottom-up steps.
    fn choose_step(&mut self) {
        self.stage = if self.awake == 0 {
            self.ended += 1;
            if self.ended < self.searches { Stage::Parents(0) } else { Stage::End }
        } else if self.scout > self.unexplored / ALPHA {
            Stage::QueueToBitmap(0)
        } else {
            self.unexplored = self.unexplored.saturating_sub(self.scout);
            self.found_before.copy(&self.found);
            (self.scout, self.large) = (0, false);
            self.next_frontier.clear();
            Stage::Down(0)
        };
    }

    /// Expands one vertex of the frontier.
    fn down(&mut self, at: usize, emit: &mut Emit) {
        let Some(&u) = self.frontier.get(at) else { return self.end_down() };
        let (u, id) = (u64::from(u), self.graph.id);
        let mut list = std::mem::take(&mut self.list);
        self.graph.neighbours(u, &mut list);
        self.found.prefetch(&list);
        emit.fetch(self.code(Site::Take));
        emit.load(self.graph.id_at(self.queue, self.head), id, 0);
        self.head += 1;
        self.graph.load_row(u, 1, emit);
        for (k, &v) in list.iter().enumerate() {
            emit.fetch(self.code(Site::Look));
            emit.load(self.graph.target_at(self.graph.row(u) + k as u64), id, 0);
            emit.load(self.parent_at(v), id, 1);
            if self.found.add(v) {
                emit.fetch(self.code(Site::Found));
                emit.store(self.parent_at(v), id, 0);
                emit.store(self.graph.id_at(self.queue, self.tail), id, 1);
                self.tail += 1;
                self.scout += self.graph.degree;
                self.large |= self.scout > self.unexplored / ALPHA;
                if !self.large {
                    self.next_frontier.push(v as u32);
                }
            }
            emit.fetch(self.code(Site::Skip));
        }
        emit.fetch(self.code(Site::Next));
        self.list = list;
        self.stage = Stage::Down(at + 1);
    }

    fn end_down(&mut self) {
        self.awake = self.tail - self.head;
        if !self.large {
            std::mem::swap(&mut self.frontier, &mut self.next_frontier);
        }
        self.choose_step();
    }

    /// Writes vertices of the frontier to the bitmap, in the order in which they were found.
    fn queue_to_bitmap(&mut self, at: usize, emit: &mut Emit) {
        let Some(&v) = self.frontier.get(at) else {
            debug_assert_eq!(self.head, self.tail);
            return self.stage = Stage::Clear(0);
        };
        self.stage = Stage::QueueToBitmap(at + 1);
        if !self.large {
            return self.set_bit(u64::from(v), emit);
        }
        let mut list = std::mem::take(&mut self.list);
        self.graph.neighbours(u64::from(v), &mut list);
        self.found_before.prefetch(&list);
        for &v in &list {
            if self.found_before.add(v) {
                self.set_bit(v, emit);
            }
        }
        self.list = list;
    }

    fn set_bit(&mut self, v: u64, emit: &mut Emit) {
        emit.fetch(self.code(Site::Enter));
        emit.load(self.graph.id_at(self.queue, self.head), self.graph.id, 0);
        emit.load(self.bit_at(0, v), 3, 3);
        emit.store(self.bit_at(0, v), 3, 5);
        self.front.add(v);
        self.head += 1;
    }

    /// Clears the next step's bitmap from `word` on.
    fn clear(&mut self, word: u64, chunk: &mut Chunk, until: usize) {
        let n = room(chunk, until, 2, self.words() - word);
        let mut at = self.bitmaps[1] + word * 8;
        bodies(chunk, self.code(Site::Clear), n, || {
            at += 8;
            [store(at - 8, 0)]
        });
        self.stage = Stage::Clear(word + n);
        if word + n == self.words() {
            self.next.clear();
            self.joined = 0;
            self.stage = Stage::Up(0);
        }
    }

    /// Makes a bottom-up step from vertex `u` on: each vertex not yet found looks for a neighbour in the frontier.
    fn up(&mut self, mut u: u64, emit: &mut Emit, until: usize) {
        let id = self.graph.id;
        while u < self.graph.vertices && emit.chunk.refs.len() < until {
            emit.fetch(self.code(Site::Up));
            emit.load(self.parent_at(u), id, 0);
            if !self.found.has(u) {
                self.find_parent(u, emit);
            }
            emit.fetch(self.code(Site::Done));
            u += 1;
        }
        self.stage = Stage::Up(u);
        if u == self.graph.vertices {
            std::mem::swap(&mut self.front, &mut self.next);
            self.bitmaps.swap(0, 1);
            let before = std::mem::replace(&mut self.awake, self.joined);
            let bottom_up = self.awake >= before || self.awake > self.graph.vertices / BETA;
            self.stage = if bottom_up { Stage::Clear(0) } else { Stage::BitmapToQueue(0) };
            self.frontier.clear();
        }
    }

    fn find_parent(&mut self, u: u64, emit: &mut Emit) {
        let id = self.graph.id;
        let mut list = std::mem::take(&mut self.list);
        self.graph.neighbours(u, &mut list);
        self.front.prefetch(&list);
        emit.fetch(self.code(Site::Open));
        self.graph.load_row(u, 0, emit);
        for (k, &v) in list.iter().enumerate() {
            emit.fetch(self.code(Site::Ask));
            emit.load(self.graph.target_at(self.graph.row(u) + k as u64), id, 0);
            emit.load(self.bit_at(0, v), 3, 3);
            if self.front.has(v) {
                emit.fetch(self.code(Site::Join));
                emit.store(self.parent_at(u), id, 0);
                emit.load(self.bit_at(1, u), 3, 3);
                emit.store(self.bit_at(1, u), 3, 5);
                self.found.add(u);
                self.next.add(u);
                self.joined += 1;
                break;
            }
            emit.fetch(self.code(Site::Other));
        }
        self.list = list;
    }

    /// Writes the vertices of the bitmap from `u` on to the queue, as the new frontier.
    fn bitmap_to_queue(&mut self, mut u: u64, emit: &mut Emit, until: usize) {
        while u < self.graph.vertices && emit.chunk.refs.len() < until {
            emit.fetch(self.code(Site::Bit));
            emit.load(self.bit_at(0, u), 3, 2);
            if self.front.has(u) {
                emit.fetch(self.code(Site::Keep));
                emit.store(self.graph.id_at(self.queue, self.tail), self.graph.id, 0);
                self.frontier.push(u as u32);
                self.tail += 1;
            }
            emit.fetch(self.code(Site::Unset));
            u += 1;
        }
        self.stage = Stage::BitmapToQueue(u);
        if u == self.graph.vertices {
            (self.scout, self.large) = (1, false);
            self.choose_step();
        }
    }

    /// Clears the parents from `v` on.
    fn clear_parents(&mut self, v: u64, chunk: &mut Chunk, until: usize) {
        let n = room(chunk, until, 4, self.graph.vertices - v);
        let (id, mut at) = (self.graph.id, v);
        let (graph, parents) = (&self.graph, self.parents);
        bodies(chunk, self.code(Site::Parents), n, || {
            at += 1;
            let parent = Ref::data(Kind::Store, VirtAddr(graph.id_at(parents, at - 1)), id, 2);
            [load(graph.offset_at(at - 1), 0), load(graph.offset_at(at), 1), parent]
        });
        self.stage = Stage::Parents(v + n);
        if v + n == graph.vertices {
            chunk.push_event(Event::Phase("steps".into()));
            self.begin(&mut Emit { chunk });
        }
    }
}

impl Program for Bfs {
    fn run(&mut self, chunk: &mut Chunk, until: usize) {
        while chunk.refs.len() < until && self.stage != Stage::End {
            match self.stage {
                Stage::Init => {
                    if self.graph.initialise(self.text[Site::Words as usize], chunk, until) {
                        self.stage = Stage::Parents(0);
                    }
                }
                Stage::Parents(v) => {
                    if v == 0 {
                        chunk.push_event(Event::Phase("search".into()));
                    }
                    self.clear_parents(v, chunk, until);
                }
                Stage::Down(at) => self.down(at, &mut Emit { chunk }),
                Stage::QueueToBitmap(at) => self.queue_to_bitmap(at, &mut Emit { chunk }),
                Stage::Clear(word) => self.clear(word, chunk, until),
                Stage::Up(u) => self.up(u, &mut Emit { chunk }, until),
                Stage::BitmapToQueue(u) => self.bitmap_to_queue(u, &mut Emit { chunk }, until),
                Stage::End => {}
            }
        }
    }

    fn progress(&self) -> Progress {
        Progress { done: self.ended, total: Some(self.searches) }
    }
}
