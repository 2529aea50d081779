//! The order in which a breadth-first search finds vertices level by level, in three bits per vertex.
//!
//! A level need not be stored: its vertices, in order, are those that appear for the first time in the rows of the
//! level before. Only small levels are stored; the others are recomputed from the last stored level whenever they are
//! visited.
//!
//! A neighbour is on the previous, the same, or the next level, so two bits (the depth modulo three) say which. A third
//! bit marks the vertices already found in a recomputation. It flips with each one, so it need not be cleared.

use super::Graph;
use super::bits::Bits;

/// Levels of up to one in this many vertices are stored, in four bytes per vertex.
const STORED_SHARE: u64 = 32;

/// The end of an edge that leaves a level.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Edge {
    /// A vertex of the next level, found for the first time.
    New,
    /// A vertex of the next level, found before.
    Next,
    /// A vertex of this or the previous level.
    Other,
}

/// Distances from the source modulo three, 32 in a word.
struct Depths(Vec<u64>);

/// The depth of a vertex that is not yet found.
const UNKNOWN: u64 = 3;

impl Depths {
    #[inline(always)]
    fn get(&self, v: u64) -> u64 {
        self.0[(v / 32) as usize] >> (v % 32 * 2) & 3
    }

    /// Sets the depth of a vertex that is [`UNKNOWN`].
    #[inline(always)]
    fn set(&mut self, v: u64, depth: u64) {
        self.0[(v / 32) as usize] ^= (UNKNOWN ^ depth) << (v % 32 * 2);
    }

    fn prefetch(&self, list: &[u64]) {
        for &v in list {
            reach_core::prefetch(&self.0, (v / 32) as usize);
        }
    }
}

struct Level {
    /// Number of vertices.
    vertices: u64,
    /// Its vertices; `None` when they are too many to store.
    stored: Option<Vec<u32>>,
    /// The value of its vertices' bits in `seen` after the next recomputation.
    seen_value: bool,
}

impl Level {
    fn stored(vertices: Vec<u32>) -> Level {
        Level { vertices: vertices.len() as u64, stored: Some(vertices), seen_value: true }
    }
}

/// The recomputation of a level.
#[derive(Default)]
struct Recomputed {
    level: usize,
    /// The vertices that the last vertex of the level before found.
    found: Vec<u64>,
    /// Number of them that have been returned.
    returned: usize,
}

/// The state of a search.
pub(super) struct Levels {
    vertices: u64,
    depths: Depths,
    /// The third bit of each vertex: found in a recomputation.
    seen: Bits,
    levels: Vec<Level>,
    /// The level being visited.
    current: usize,
    /// The last stored level up to `current`.
    base: usize,
    /// Number of vertices of `base` that have been returned.
    returned: usize,
    /// The recomputations of the levels after `base`, up to `current`.
    recomputed: Vec<Recomputed>,
    /// Scratch buffer for neighbours.
    list: Vec<u64>,
}

impl Levels {
    /// Makes the state for a graph of `vertices` vertices. Call [`Levels::begin`] before anything else.
    pub fn new(vertices: u64) -> Levels {
        Levels {
            vertices,
            depths: Depths(vec![!0; vertices.div_ceil(32) as usize]),
            seen: Bits::new(vertices),
            levels: Vec::new(),
            current: 0,
            base: 0,
            returned: 0,
            recomputed: Vec::new(),
            list: Vec::new(),
        }
    }

    /// Starts a search at `source`, and visits its level.
    pub fn begin(&mut self, source: u64) {
        self.depths.0.fill(!0);
        self.seen.clear();
        self.depths.set(source, 0);
        self.levels = vec![Level::stored(vec![source as u32])];
        self.search(0);
    }

    /// Starts to visit `level`, the last one found, in order to find the next.
    fn search(&mut self, level: usize) {
        self.visit(level);
        self.levels.push(Level::stored(Vec::new()));
    }

    /// Starts to visit `level`.
    fn visit(&mut self, level: usize) {
        self.current = level;
        self.base = (0..=level).rev().find(|&at| self.levels[at].stored.is_some()).unwrap_or(0);
        self.returned = 0;
        self.recomputed = (self.base + 1..=level).map(|level| Recomputed { level, ..Recomputed::default() }).collect();
    }

    /// Moves the search on to the next level. Returns `false` when it is empty, and the search is complete.
    pub fn next_level(&mut self) -> bool {
        let found = self.levels[self.current + 1].vertices > 0;
        match found {
            true => self.search(self.current + 1),
            false => _ = self.levels.pop(),
        }
        found
    }

    /// Starts the backward pass: visits the last level. Call after the search is complete.
    pub fn start_backward(&mut self) {
        self.visit(self.levels.len() - 1);
    }

    /// Moves the backward pass on to the previous level. Returns `false` after the first level.
    pub fn previous_level(&mut self) -> bool {
        let found = self.current > 0;
        if found {
            self.visit(self.current - 1);
        }
        found
    }

    /// Returns the number of vertices on the levels before the current one.
    pub fn vertices_before(&self) -> u64 {
        self.levels[..self.current].iter().map(|level| level.vertices).sum()
    }

    /// Returns the next vertex of the current level; `None` after the last.
    pub fn next_vertex(&mut self, graph: &Graph) -> Option<u64> {
        let next = self.next_recomputed(self.recomputed.len(), graph);
        if next.is_none() {
            for recomputed in self.recomputed.drain(..) {
                let value = &mut self.levels[recomputed.level].seen_value;
                *value = !*value;
            }
        }
        next
    }

    /// Returns the next vertex of the level that lies `distance` levels after `base`.
    fn next_recomputed(&mut self, distance: usize, graph: &Graph) -> Option<u64> {
        let Some(at) = distance.checked_sub(1) else {
            let stored = self.levels[self.base].stored.as_ref()?;
            self.returned += 1;
            return stored.get(self.returned - 1).map(|&v| u64::from(v));
        };
        loop {
            let recomputed = &mut self.recomputed[at];
            if let Some(&v) = recomputed.found.get(recomputed.returned) {
                recomputed.returned += 1;
                return Some(v);
            }
            let u = self.next_recomputed(at, graph)?;
            graph.neighbours(u, &mut self.list);
            self.prefetch(&self.list);
            self.seen.prefetch(&self.list);
            let Recomputed { level, found, returned } = &mut self.recomputed[at];
            let (depth, value) = (*level as u64 % 3, self.levels[*level].seen_value);
            found.clear();
            found.extend(self.list.iter().filter(|&&v| self.depths.get(v) == depth && self.seen.set(v, value)));
            *returned = 0;
        }
    }

    /// Prefetches the depths of `list` into the caches of the host.
    pub fn prefetch(&self, list: &[u64]) {
        self.depths.prefetch(list);
    }

    /// Follows an edge from the current level to `v` during the search, and adds `v` to the next level if it is new.
    #[inline(always)]
    pub fn follow(&mut self, v: u64) -> Edge {
        let next = (self.current as u64 + 1) % 3;
        let depth = self.depths.get(v);
        if depth == UNKNOWN {
            self.depths.set(v, next);
            let level = &mut self.levels[self.current + 1];
            level.vertices += 1;
            match &mut level.stored {
                Some(stored) if level.vertices <= self.vertices / STORED_SHARE => stored.push(v as u32),
                stored => *stored = None,
            }
            return Edge::New;
        }
        if depth == next { Edge::Next } else { Edge::Other }
    }

    /// Returns whether `v`, a neighbour of a vertex on the current level, is on the next level.
    #[inline(always)]
    pub fn is_on_next_level(&self, v: u64) -> bool {
        self.depths.get(v) == (self.current as u64 + 1) % 3
    }
}
