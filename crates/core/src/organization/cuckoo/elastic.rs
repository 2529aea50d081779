//! Elastic cuckoo hashing: a key is in one of three ways, at the place that the way's hash function names. A table that
//! grows has old and new ways at once, but a key still has only one place in each way: the rehashing pointer of the way
//! says whether it is in the old or in the new part (Skarlatos et al. §4).

use crate::organization::memory::{TableMemory, log_move};
use crate::organization::{TableTraffic, hash};
use crate::{FrameSource, PhysAddr, Random};

/// Number of ways.
pub(super) const WAYS: usize = 3;
/// Lines of the smallest way: 4 KB.
const FEWEST: usize = 64;
/// A table with more than this many of ten lines in use grows.
const FULL: usize = 6;
/// Moves after which an insertion gives up.
const MOST_MOVES: usize = 64;

/// A line: its key plus one, 0 if it is empty; and the mask of the entries present.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Line {
    tag: u64,
    present: u8,
}

/// One part of a way.
#[derive(Clone, Debug)]
struct Part {
    lines: Vec<Line>,
    memory: TableMemory,
}

impl Part {
    fn new(lines: usize, memory: &mut dyn FrameSource) -> Option<Part> {
        Some(Part { memory: TableMemory::allocate(lines as u64 * 64, memory)?, lines: vec![Line::default(); lines] })
    }

    fn place(&self, hash: u64) -> usize {
        hash as usize & (self.lines.len() - 1)
    }
}

/// One way.
#[derive(Clone, Debug)]
struct Way {
    old: Part,
    /// The part that replaces `old`, and the rehashing pointer: lines of `old` before it have moved. `None` while the table
    /// does not grow.
    new: Option<(Part, usize)>,
}

impl Way {
    /// Returns the part and the line where a key of this `hash` is if it is in this way.
    fn place(&self, hash: u64) -> (&Part, usize) {
        let at = self.old.place(hash);
        match &self.new {
            Some((new, pointer)) if at < *pointer => (new, new.place(hash)),
            _ => (&self.old, at),
        }
    }

    fn line(&mut self, hash: u64) -> &mut Line {
        let at = self.old.place(hash);
        match &mut self.new {
            Some((new, pointer)) if at < *pointer => {
                let at = new.place(hash);
                &mut new.lines[at]
            }
            _ => &mut self.old.lines[at],
        }
    }
}

/// A table of lines.
#[derive(Clone, Debug)]
pub(super) struct Elastic {
    ways: [Way; WAYS],
    used: usize,
    random: Random,
}

impl Elastic {
    /// Creates an empty table. Returns `None` when memory is exhausted.
    pub fn new(memory: &mut dyn FrameSource) -> Option<Elastic> {
        Some(Elastic { ways: ways(FEWEST, memory)?.map(|old| Way { old, new: None }), used: 0, random: Random::new(1) })
    }

    /// Returns the physical memory in bytes.
    pub fn bytes(&self) -> u64 {
        let way = |way: &Way| way.old.memory.bytes() + way.new.as_ref().map_or(0, |(new, _)| new.memory.bytes());
        self.ways.iter().map(way).sum()
    }

    /// Returns the number of keys.
    pub fn used(&self) -> usize {
        self.used
    }

    /// Returns the addresses of the lines where `key` can be, one a way.
    pub fn places(&self, key: u64) -> [PhysAddr; WAYS] {
        std::array::from_fn(|way| self.place(way, key))
    }

    fn place(&self, way: usize, key: u64) -> PhysAddr {
        let (part, at) = self.ways[way].place(of_way(way, key));
        part.memory.line(at)
    }

    /// Returns the way that `key` is in.
    fn way_of(&self, key: u64) -> Option<usize> {
        (0..WAYS).find(|&way| {
            let (part, at) = self.ways[way].place(of_way(way, key));
            part.lines[at].tag == key + 1
        })
    }

    /// Returns the address of the line of `key`, and the mask of the entries present there.
    pub fn find(&self, key: u64) -> Option<(PhysAddr, u8)> {
        let way = self.way_of(key)?;
        let (part, at) = self.ways[way].place(of_way(way, key));
        Some((part.memory.line(at), part.lines[at].present))
    }

    /// Adds `mask` to the entries of `key`, and calls `moved` with each key that changed its place. Returns `None`, and then
    /// nothing was added, when memory is exhausted.
    pub fn add(
        &mut self,
        key: u64,
        mask: u8,
        memory: &mut dyn FrameSource,
        log: &mut Vec<TableTraffic>,
        moved: &mut dyn FnMut(u64),
    ) -> Option<()> {
        if let Some(way) = self.way_of(key) {
            self.ways[way].line(of_way(way, key)).present |= mask;
            return Some(());
        }
        self.reserve(memory, log, moved)?;
        while !self.settle(Line { tag: key + 1, present: mask }, log, moved) {
            self.grow_at_once(memory, log, moved)?;
        }
        self.used += 1;
        Some(())
    }

    /// Removes `mask` from the entries of `key`, which has them, and the key with the last.
    pub fn subtract(&mut self, key: u64, mask: u8) {
        let way = self.way_of(key).expect("the key is present");
        let line = self.ways[way].line(of_way(way, key));
        line.present &= !mask;
        if line.present == 0 {
            *line = Line::default();
            self.used -= 1;
        }
    }

    /// Frees all memory.
    pub fn free(self, memory: &mut dyn FrameSource) {
        for way in self.ways {
            way.old.memory.free(memory);
            if let Some((new, _)) = way.new {
                new.memory.free(memory);
            }
        }
    }

    /// Puts `carried` into a random way. What was there goes to another way, and so on. If no end is found, everything is
    /// put back. Returns whether an end was found.
    fn settle(&mut self, carried: Line, log: &mut Vec<TableTraffic>, moved: &mut dyn FnMut(u64)) -> bool {
        let mut carried = carried;
        let mut way = self.random.below(WAYS as u64) as usize;
        let mut path = Vec::new();
        for _ in 0..MOST_MOVES {
            let key = carried.tag - 1;
            let out = std::mem::replace(self.ways[way].line(of_way(way, key)), carried);
            path.push((way, key));
            if out.tag == 0 {
                self.log_moves(&path, log, moved);
                return true;
            }
            carried = out;
            way = (way + 1 + self.random.below(WAYS as u64 - 1) as usize) % WAYS;
        }
        while let Some((way, key)) = path.pop() {
            carried = std::mem::replace(self.ways[way].line(of_way(way, key)), carried);
        }
        false
    }

    /// Logs the moves of `path`: each key after the first left the place that the key before it took.
    fn log_moves(&self, path: &[(usize, u64)], log: &mut Vec<TableTraffic>, moved: &mut dyn FnMut(u64)) {
        for pair in path.windows(2) {
            let [(from, before), (to, key)] = [pair[0], pair[1]];
            log_move(self.place(from, before), self.place(to, key), log);
            moved(key);
        }
    }

    /// Makes room for one more key: begins to grow, or moves one line of each way if the table grows.
    fn reserve(
        &mut self,
        memory: &mut dyn FrameSource,
        log: &mut Vec<TableTraffic>,
        moved: &mut dyn FnMut(u64),
    ) -> Option<()> {
        let lines = self.ways[0].old.lines.len();
        if self.ways[0].new.is_none() {
            if (self.used + 1) * 10 > lines * WAYS * FULL {
                let new = ways(2 * lines, memory)?;
                self.ways.iter_mut().zip(new).for_each(|(way, new)| way.new = Some((new, 0)));
            }
            return Some(());
        }
        (0..WAYS).for_each(|way| self.move_line(way, log, moved));
        if self.ways.iter().all(|way| way.new.as_ref().is_some_and(|(_, pointer)| *pointer == lines)) {
            for way in &mut self.ways {
                if let Some((new, _)) = way.new.take() {
                    std::mem::replace(&mut way.old, new).memory.free(memory);
                }
            }
        }
        Some(())
    }

    /// Moves the line at the rehashing pointer of `way` to the new part, if a place is found.
    fn move_line(&mut self, way: usize, log: &mut Vec<TableTraffic>, moved: &mut dyn FnMut(u64)) {
        let Way { old, new: Some((new, pointer)) } = &mut self.ways[way] else { return };
        let at = *pointer;
        if at == old.lines.len() {
            return;
        }
        *pointer += 1;
        let line = std::mem::take(&mut old.lines[at]);
        if line.tag == 0 {
            return;
        }
        let from = old.memory.line(at);
        // In the same way first; what is there goes to another.
        let to = new.place(of_way(way, line.tag - 1));
        log_move(from, new.memory.line(to), log);
        moved(line.tag - 1);
        let out = std::mem::replace(&mut new.lines[to], line);
        if out.tag != 0 && !self.settle(out, log, moved) {
            let Way { old, new: Some((new, pointer)) } = &mut self.ways[way] else { return };
            old.lines[at] = std::mem::replace(&mut new.lines[to], out);
            *pointer -= 1;
        }
    }

    /// Builds the table anew with ways of at least twice the size, because an insertion found no end.
    fn grow_at_once(
        &mut self,
        memory: &mut dyn FrameSource,
        log: &mut Vec<TableTraffic>,
        moved: &mut dyn FnMut(u64),
    ) -> Option<()> {
        let parts = self.ways.iter().flat_map(|way| [Some(&way.old), way.new.as_ref().map(|(new, _)| new)]);
        let all: Vec<Line> =
            parts.flatten().flat_map(|part| &part.lines).filter(|line| line.tag != 0).copied().collect();
        let new = self.ways[0].new.as_ref().map(|(new, _)| new);
        let mut size = new.unwrap_or(&self.ways[0].old).lines.len();
        loop {
            size *= 2;
            let mut new = Elastic {
                ways: ways(size, memory)?.map(|old| Way { old, new: None }),
                used: self.used,
                random: self.random.clone(),
            };
            if all.iter().all(|&line| new.settle(line, log, moved)) {
                for line in &all {
                    let from = self.find(line.tag - 1).map(|(at, _)| at);
                    let to = new.find(line.tag - 1).map(|(at, _)| at);
                    from.zip(to).into_iter().for_each(|(from, to)| log_move(from, to, log));
                    moved(line.tag - 1);
                }
                std::mem::replace(self, new).free(memory);
                return Some(());
            }
            new.free(memory);
        }
    }

    /// Checks that every key is where it is looked for, and nowhere else.
    ///
    /// # Panics
    /// When one is not.
    pub fn check(&self) {
        let mut keys = std::collections::BTreeSet::new();
        for (way, number) in self.ways.iter().zip(0..) {
            let moved = way.new.as_ref().map_or(0, |(_, pointer)| *pointer);
            assert!(way.old.lines[..moved].iter().all(|line| line.tag == 0), "lines before the pointer have moved");
            let new = way.new.iter().flat_map(|(new, _)| &new.lines);
            for line in way.old.lines.iter().chain(new).filter(|line| line.tag != 0) {
                assert!(line.present != 0, "a line without entries is kept");
                assert_eq!(self.way_of(line.tag - 1), Some(number), "key {} is in another way", line.tag - 1);
                assert!(keys.insert(line.tag), "key {} is there twice", line.tag - 1);
            }
        }
        assert_eq!(keys.len(), self.used, "keys were lost");
    }
}

/// Makes the parts of three ways of `lines` lines. Returns `None` when memory is exhausted.
fn ways(lines: usize, memory: &mut dyn FrameSource) -> Option<[Part; WAYS]> {
    let mut made = Vec::with_capacity(WAYS);
    for _ in 0..WAYS {
        match Part::new(lines, memory) {
            Some(part) => made.push(part),
            None => {
                made.into_iter().for_each(|part: Part| part.memory.free(memory));
                return None;
            }
        }
    }
    made.try_into().ok()
}

/// Returns the hash of `key` in a way.
fn of_way(way: usize, key: u64) -> u64 {
    hash(key, way as u64 + 1)
}
