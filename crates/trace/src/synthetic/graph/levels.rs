//! The order in which a search by levels finds the vertices of a graph, in three bits a vertex.
//!
//! A level need not be kept: its vertices are, in their order, those that the level before has in its lists for the
//! first time. So only small levels are kept, from which on the others are found anew whenever one is gone through. A
//! neighbour is on the level before, the same, or the next: two bits say which of them, as the distance modulo
//! three. A third turns each time that a level is found anew, to say who was there in this round already.

use super::Graph;
use super::bits::Bits;

/// Levels of up to one in so many vertices are kept, in four bytes a vertex.
const KEPT: u64 = 32;

/// What an edge leads to, of those out of a level.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Edge {
    /// Somebody on the next level, for the first time.
    Finds,
    /// Somebody on the next level.
    Follows,
    /// Anybody else.
    Other,
}

/// Distances from the source modulo three, 32 in a word.
struct Depths(Vec<u64>);

/// Of who was not found yet.
const UNKNOWN: u64 = 3;

impl Depths {
    #[inline(always)]
    fn of(&self, v: u64) -> u64 {
        self.0[(v / 32) as usize] >> (v % 32 * 2) & 3
    }

    /// For one whose is not known.
    #[inline(always)]
    fn set(&mut self, v: u64, depth: u64) {
        self.0[(v / 32) as usize] ^= (UNKNOWN ^ depth) << (v % 32 * 2);
    }

    fn expect(&self, list: &[u64]) {
        for &v in list {
            reach_core::prefetch(&self.0, (v / 32) as usize);
        }
    }
}

struct Level {
    vertices: u64,
    /// Unless they are too many.
    kept: Option<Vec<u32>>,
    /// What the bits of its vertices will be after the next round.
    turn: bool,
}

impl Level {
    fn of(kept: Vec<u32>) -> Level {
        Level { vertices: kept.len() as u64, kept: Some(kept), turn: true }
    }
}

/// A level that is found anew: what the last vertex of the level before gave, and how many of these are out.
#[derive(Default)]
struct Anew {
    level: usize,
    found: Vec<u64>,
    out: usize,
}

/// A search, as far as it has come.
pub(super) struct Levels {
    vertices: u64,
    depths: Depths,
    turned: Bits,
    levels: Vec<Level>,
    /// The level that is gone through.
    current: usize,
    /// The last kept one up to there, how many of its vertices are out, and the levels from there on.
    base: usize,
    out: usize,
    anew: Vec<Anew>,
    list: Vec<u64>,
}

impl Levels {
    pub fn new(vertices: u64) -> Levels {
        Levels {
            vertices,
            depths: Depths(vec![!0; vertices.div_ceil(32) as usize]),
            turned: Bits::new(vertices),
            levels: Vec::new(),
            current: 0,
            base: 0,
            out: 0,
            anew: Vec::new(),
            list: Vec::new(),
        }
    }

    /// Only `source` is found, and gone through.
    pub fn begin(&mut self, source: u64) {
        self.depths.0.fill(!0);
        self.turned.clear();
        self.depths.set(source, 0);
        self.levels = vec![Level::of(vec![source as u32])];
        self.search(0);
    }

    /// Begins to go through `level`, the last that has been found, to find the next.
    fn search(&mut self, level: usize) {
        self.enter(level);
        self.levels.push(Level::of(Vec::new()));
    }

    /// Begins to go through `level`.
    fn enter(&mut self, level: usize) {
        self.current = level;
        self.base = (0..=level).rev().find(|&at| self.levels[at].kept.is_some()).unwrap_or(0);
        self.out = 0;
        self.anew = (self.base + 1..=level).map(|level| Anew { level, ..Anew::default() }).collect();
    }

    /// After a level was gone through down: goes on to what was found. Returns whether there is any.
    pub fn deeper(&mut self) -> bool {
        let some = self.levels[self.current + 1].vertices > 0;
        match some {
            true => self.search(self.current + 1),
            false => _ = self.levels.pop(),
        }
        some
    }

    /// Begins the way back, with the last level that was found.
    pub fn turn_back(&mut self) {
        self.enter(self.levels.len() - 1);
    }

    /// After a level was gone through back: goes on to the one before. Returns whether there is one.
    pub fn nearer(&mut self) -> bool {
        let some = self.current > 0;
        if some {
            self.enter(self.current - 1);
        }
        some
    }

    /// How many were found before those of the level that is gone through.
    pub fn before(&self) -> u64 {
        self.levels[..self.current].iter().map(|level| level.vertices).sum()
    }

    /// The next vertex of the level that is gone through.
    pub fn next(&mut self, graph: &Graph) -> Option<u64> {
        let next = self.next_of(self.anew.len(), graph);
        if next.is_none() {
            for anew in self.anew.drain(..) {
                let turn = &mut self.levels[anew.level].turn;
                *turn = !*turn;
            }
        }
        next
    }

    /// The next vertex of the level that is so many behind the kept one.
    fn next_of(&mut self, behind: usize, graph: &Graph) -> Option<u64> {
        let Some(at) = behind.checked_sub(1) else {
            let kept = self.levels[self.base].kept.as_ref()?;
            self.out += 1;
            return kept.get(self.out - 1).map(|&v| u64::from(v));
        };
        loop {
            let anew = &mut self.anew[at];
            if let Some(&v) = anew.found.get(anew.out) {
                anew.out += 1;
                return Some(v);
            }
            let u = self.next_of(at, graph)?;
            graph.neighbours(u, &mut self.list);
            self.expect(&self.list);
            self.turned.expect(&self.list);
            let Anew { level, found, out } = &mut self.anew[at];
            let (depth, turn) = (*level as u64 % 3, self.levels[*level].turn);
            found.clear();
            found.extend(self.list.iter().filter(|&&v| self.depths.of(v) == depth && self.turned.put(v, turn)));
            *out = 0;
        }
    }

    /// Asks this computer's caches for what will be needed of `list`.
    pub fn expect(&self, list: &[u64]) {
        self.depths.expect(list);
    }

    /// What an edge to `v` leads to, on the way down; who was not found yet now is.
    #[inline(always)]
    pub fn look(&mut self, v: u64) -> Edge {
        let next = (self.current as u64 + 1) % 3;
        let depth = self.depths.of(v);
        if depth == UNKNOWN {
            self.depths.set(v, next);
            let level = &mut self.levels[self.current + 1];
            level.vertices += 1;
            match &mut level.kept {
                Some(kept) if level.vertices <= self.vertices / KEPT => kept.push(v as u32),
                kept => *kept = None,
            }
            return Edge::Finds;
        }
        if depth == next { Edge::Follows } else { Edge::Other }
    }

    /// Whether `v`, a neighbour of one on the level that is gone through, is on the next.
    #[inline(always)]
    pub fn follows(&self, v: u64) -> bool {
        self.depths.of(v) == (self.current as u64 + 1) % 3
    }
}
