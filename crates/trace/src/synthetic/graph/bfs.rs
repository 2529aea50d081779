//! `bfs`: direction-optimising breadth-first search (Beamer, Asanović and Patterson, SC 2012) as GAP has it: from the
//! frontier down while that is small, and while it is large from those not found yet, up.
//!
//! What a search refers to follows from the graph and from who was found when. So three bits for each vertex are kept (found, and
//! the program's two bitmaps), and the vertices of a frontier while that is small. When it has become too large for another
//! step down, all that its order is needed for is to enter it in the bitmap: the step that made it is then done once more,
//! from a copy of who was found before (the fourth bit), without its references.

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
    summary: "GAP's direction-optimising breadth-first search on a uniform random graph that is nowhere kept",
    parameters: &[GRAPH, BYTES, DEGREE, SEARCHES, INIT, SEED],
    build,
};

/// GAP's α: the step is made upwards when edges out of the frontier are more than this share of those unexplored.
const ALPHA: u64 = 15;
/// GAP's β: steps are made downwards again when fewer vertices than this share are awake.
const BETA: u64 = 18;
/// In the order of [`code::BLOCKS`].
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

/// Where a search is.
#[derive(Clone, Copy, PartialEq)]
enum Phase {
    Init,
    /// Every parent is nobody, up to this vertex.
    Parents(u64),
    /// A step down, at this place of the frontier.
    Down(usize),
    /// The frontier goes into the bitmap, at this place; of a large one, at this place of the one before.
    Enter(usize),
    /// The next step's bitmap is emptied, at this word.
    Clear(u64),
    /// A step up, at this vertex.
    Up(u64),
    /// The bitmap goes into the queue, at this vertex.
    Leave(u64),
    End,
}

struct Bfs {
    graph: Graph,
    text: [Code; code::BLOCKS.len()],
    parents: u64,
    queue: u64,
    /// Addresses of the bitmaps of this step and the next.
    bitmaps: [u64; 2],
    random: Random,
    phase: Phase,
    /// Searches that have ended, and that are to be made.
    ended: u64,
    searches: u64,
    found: Bits,
    front: Bits,
    next: Bits,
    /// Who was found before the last step down.
    before: Bits,
    frontier: Vec<u32>,
    /// What the step under way found, unless that is too much.
    following: Vec<u32>,
    /// There is too much of it, so the frontier before is kept.
    large: bool,
    /// Vertices in the frontier.
    awake: u64,
    /// Those that the step up found so far.
    joined: u64,
    /// Places in the queue: of the next that is taken, and of the next that is put there.
    head: u64,
    tail: u64,
    unexplored: u64,
    scout: u64,
    list: Vec<u64>,
}

fn build(values: &Values, process: &mut Process) -> Result<Box<dyn Program>, String> {
    let mut graph = Graph::new(values, process, 2, 2)?.numbered()?;
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
        // Not the graph's own numbers once more.
        random: Random::new(!values.number("seed")),
        phase: Phase::Init,
        ended: 0,
        searches: values.number("searches"),
        found: bits.clone(),
        front: bits.clone(),
        next: bits.clone(),
        before: bits,
        frontier: Vec::new(),
        following: Vec::new(),
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

    fn words(&self) -> u64 {
        self.graph.vertices.div_ceil(64)
    }

    /// From a vertex at random.
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
        self.turn();
    }

    /// What comes after a step down or after steps up.
    fn turn(&mut self) {
        self.phase = if self.awake == 0 {
            self.ended += 1;
            if self.ended < self.searches { Phase::Parents(0) } else { Phase::End }
        } else if self.scout > self.unexplored / ALPHA {
            Phase::Enter(0)
        } else {
            self.unexplored = self.unexplored.saturating_sub(self.scout);
            self.before.copy(&self.found);
            (self.scout, self.large) = (0, false);
            self.following.clear();
            Phase::Down(0)
        };
    }

    /// One vertex of the frontier looks at its neighbours.
    fn down(&mut self, at: usize, emit: &mut Emit) {
        let Some(&u) = self.frontier.get(at) else { return self.end_down() };
        let (u, id) = (u64::from(u), self.graph.id);
        let mut list = std::mem::take(&mut self.list);
        self.graph.neighbours(u, &mut list);
        self.found.expect(&list);
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
                    self.following.push(v as u32);
                }
            }
            emit.fetch(self.code(Site::Skip));
        }
        emit.fetch(self.code(Site::Next));
        self.list = list;
        self.phase = Phase::Down(at + 1);
    }

    fn end_down(&mut self) {
        self.awake = self.tail - self.head;
        if !self.large {
            std::mem::swap(&mut self.frontier, &mut self.following);
        }
        self.turn();
    }

    /// Enters vertices in the bitmap, in the order in which they were found.
    fn enter(&mut self, at: usize, emit: &mut Emit) {
        let Some(&v) = self.frontier.get(at) else {
            debug_assert_eq!(self.head, self.tail);
            return self.phase = Phase::Clear(0);
        };
        self.phase = Phase::Enter(at + 1);
        if !self.large {
            return self.enter_one(u64::from(v), emit);
        }
        let mut list = std::mem::take(&mut self.list);
        self.graph.neighbours(u64::from(v), &mut list);
        self.before.expect(&list);
        for &v in &list {
            if self.before.add(v) {
                self.enter_one(v, emit);
            }
        }
        self.list = list;
    }

    fn enter_one(&mut self, v: u64, emit: &mut Emit) {
        emit.fetch(self.code(Site::Enter));
        emit.load(self.graph.id_at(self.queue, self.head), self.graph.id, 0);
        emit.load(self.bit_at(0, v), 3, 3);
        emit.store(self.bit_at(0, v), 3, 5);
        self.front.add(v);
        self.head += 1;
    }

    /// The next step's bitmap is emptied.
    fn clear(&mut self, word: u64, chunk: &mut Chunk, until: usize) {
        let n = room(chunk, until, 2, self.words() - word);
        let mut at = self.bitmaps[1] + word * 8;
        bodies(chunk, self.code(Site::Clear), n, || {
            at += 8;
            [store(at - 8, 0)]
        });
        self.phase = Phase::Clear(word + n);
        if word + n == self.words() {
            self.next.clear();
            self.joined = 0;
            self.phase = Phase::Up(0);
        }
    }

    /// Vertices from `u` on that nobody has found look for one of the frontier.
    fn up(&mut self, mut u: u64, emit: &mut Emit, until: usize) {
        let id = self.graph.id;
        while u < self.graph.vertices && emit.chunk.refs.len() < until {
            emit.fetch(self.code(Site::Up));
            emit.load(self.parent_at(u), id, 0);
            if !self.found.has(u) {
                self.ask(u, emit);
            }
            emit.fetch(self.code(Site::Done));
            u += 1;
        }
        self.phase = Phase::Up(u);
        if u == self.graph.vertices {
            std::mem::swap(&mut self.front, &mut self.next);
            self.bitmaps.swap(0, 1);
            let before = std::mem::replace(&mut self.awake, self.joined);
            let again = self.awake >= before || self.awake > self.graph.vertices / BETA;
            self.phase = if again { Phase::Clear(0) } else { Phase::Leave(0) };
            self.frontier.clear();
        }
    }

    fn ask(&mut self, u: u64, emit: &mut Emit) {
        let id = self.graph.id;
        let mut list = std::mem::take(&mut self.list);
        self.graph.neighbours(u, &mut list);
        self.front.expect(&list);
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

    /// What the bitmap holds from `u` on becomes the frontier.
    fn leave(&mut self, mut u: u64, emit: &mut Emit, until: usize) {
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
        self.phase = Phase::Leave(u);
        if u == self.graph.vertices {
            (self.scout, self.large) = (1, false);
            self.turn();
        }
    }

    /// Nobody has a parent, from `v` on.
    fn orphan(&mut self, v: u64, chunk: &mut Chunk, until: usize) {
        let n = room(chunk, until, 4, self.graph.vertices - v);
        let (id, mut at) = (self.graph.id, v);
        let (graph, parents) = (&self.graph, self.parents);
        bodies(chunk, self.code(Site::Parents), n, || {
            at += 1;
            let parent = Ref::data(Kind::Store, VirtAddr(graph.id_at(parents, at - 1)), id, 2);
            [load(graph.offset_at(at - 1), 0), load(graph.offset_at(at), 1), parent]
        });
        self.phase = Phase::Parents(v + n);
        if v + n == graph.vertices {
            self.begin(&mut Emit { chunk });
        }
    }
}

impl Program for Bfs {
    fn run(&mut self, chunk: &mut Chunk, until: usize) {
        while chunk.refs.len() < until && self.phase != Phase::End {
            match self.phase {
                Phase::Init => {
                    if self.graph.initialise(self.text[Site::Words as usize], chunk, until) {
                        self.phase = Phase::Parents(0);
                    }
                }
                Phase::Parents(v) => {
                    if v == 0 {
                        chunk.push_event(Event::Phase("search".into()));
                    }
                    self.orphan(v, chunk, until);
                }
                Phase::Down(at) => self.down(at, &mut Emit { chunk }),
                Phase::Enter(at) => self.enter(at, &mut Emit { chunk }),
                Phase::Clear(word) => self.clear(word, chunk, until),
                Phase::Up(u) => self.up(u, &mut Emit { chunk }, until),
                Phase::Leave(u) => self.leave(u, &mut Emit { chunk }, until),
                Phase::End => {}
            }
        }
    }

    fn progress(&self) -> Progress {
        Progress { done: self.ended, total: Some(self.searches) }
    }
}
