//! `tree`: the benchmark Tree of Navarro et al. §6. It looks up, inserts, deletes and traverses nodes of a red-black
//! tree of small objects on the heap. Their order in memory soon differs from their order in the tree.

use super::malloc::{Malloc, Origin};
use super::parameter::{Parameter, SEED, ValueKind, Values};
use super::process::{Code, Process};
use super::program::{Description, Program};
use super::red_black::{Field, Memory, NIL, NODE_BYTES, Node, Site, Tree};
use crate::Progress;
use reach_core::{Chunk, Event, Random, Ref, VirtAddr};

pub(super) const ABOUT: Description = Description {
    name: "tree",
    summary: "red-black tree of small objects, 50/24/24/2 % lookup/insert/delete/traverse (Navarro et al. 2002, Tree)",
    parameters: &[
        Parameter {
            name: "nodes",
            kind: ValueKind::Count(1, 1 << 26),
            default: "50000",
            summary: "initial number of nodes",
        },
        Parameter {
            name: "record",
            kind: ValueKind::Bytes(16, 1 << 20),
            default: "128",
            summary: "size of each node's record; lookups and traversals read its first half",
        },
        Parameter {
            name: "operations",
            kind: ValueKind::Count(1, 1 << 50),
            default: "5000",
            summary: "number of operations after the tree is built",
        },
        SEED,
    ],
    build,
};

/// Lookups, insertions and deletions per hundred operations. The others are traversals.
const PERCENT: [u64; 3] = [50, 24, 24];

/// The blocks of the program.
#[derive(Clone, Copy)]
struct Text {
    /// In the order of [`Site`].
    sites: [Code; 11],
    read_record: Code,
    write_record: Code,
    allocate: Code,
    free: Code,
}

struct Benchmark {
    text: Text,
    tree: Tree,
    malloc: Malloc,
    /// All keys in the tree, unordered.
    keys: Vec<u64>,
    record: u64,
    random: Random,
    /// Insertions left until the tree is built.
    unbuilt: u64,
    operations: u64,
    left: u64,
    /// The next node of the current traversal; [`NIL`] without one.
    traversing: Node,
}

fn build(values: &Values, process: &mut Process) -> Result<Box<dyn Program>, String> {
    let record = values.number("record").next_multiple_of(16);
    // Approximate numbers of instructions in compiled code, in the order of `Site`.
    let sites = [7, 12, 16, 24, 3, 10, 12, 12, 18, 20, 7].map(|instructions| process.block(instructions));
    let text = Text {
        sites,
        read_record: process.block(10), // eight words per iteration
        write_record: process.block(10),
        allocate: process.block(14),
        free: process.block(8),
    };
    process.events.push(Event::Phase("build".into()));
    Ok(Box::new(Benchmark {
        text,
        tree: Tree::new(process.data().0),
        malloc: Malloc::new(process.heap_end()),
        keys: Vec::new(),
        record,
        random: Random::new(values.number("seed")),
        unbuilt: values.number("nodes"),
        operations: values.number("operations"),
        left: values.number("operations"),
        traversing: NIL,
    }))
}

/// Appends the program's references to a chunk.
struct Emit<'a> {
    chunk: &'a mut Chunk,
    text: Text,
    /// Instruction of the next data reference in the current block.
    index: u16,
}

impl Emit<'_> {
    fn fetch(&mut self, code: Code) {
        self.chunk.refs.push(code.fetch);
        self.chunk.fetched.push(code.id);
        self.index = 0;
    }

    fn word(&mut self, kind: reach_core::Kind, addr: u64) {
        self.chunk.refs.push(Ref::data(kind, VirtAddr(addr), 3, self.index));
        self.index += 1;
    }

    /// Appends a loop over `bytes` bytes at `addr`, eight words per iteration.
    fn sweep(&mut self, code: Code, kind: reach_core::Kind, addr: u64, bytes: u64) {
        for offset in (0..bytes).step_by(8) {
            if offset % 64 == 0 {
                self.fetch(code);
            }
            self.word(kind, addr + offset);
        }
    }
}

impl Memory for Emit<'_> {
    fn site(&mut self, site: Site) {
        self.fetch(self.text.sites[site as usize]);
    }

    fn load(&mut self, addr: u64, field: Field) {
        self.word(reach_core::Kind::Load, addr + 8 * field as u64);
    }

    fn store(&mut self, addr: u64, field: Field) {
        self.word(reach_core::Kind::Store, addr + 8 * field as u64);
    }
}

impl Benchmark {
    fn allocate(&mut self, bytes: u64, emit: &mut Emit) -> u64 {
        emit.fetch(self.text.allocate);
        let (addr, origin, growth) = self.malloc.allocate(bytes);
        if let Some(map) = growth {
            emit.chunk.push_event(Event::Map(map));
        }
        match origin {
            Origin::Free => emit.word(reach_core::Kind::Load, addr),
            Origin::Top => emit.word(reach_core::Kind::Store, addr - 8),
        }
        addr
    }

    fn free(&mut self, addr: u64, bytes: u64, emit: &mut Emit) {
        emit.fetch(self.text.free);
        emit.word(reach_core::Kind::Store, addr);
        self.malloc.release(addr, bytes);
    }

    fn insert(&mut self, emit: &mut Emit) {
        // Every key is new: SplitMix64 repeats no word within its period.
        let key = self.random.next_u64();
        let record = self.allocate(self.record, emit);
        emit.sweep(self.text.write_record, reach_core::Kind::Store, record, self.record);
        let node = self.allocate(NODE_BYTES, emit);
        self.tree.insert(key, node, record, emit);
        self.keys.push(key);
    }

    fn delete(&mut self, emit: &mut Emit) {
        let at = self.random.below(self.keys.len() as u64) as usize;
        let key = self.keys.swap_remove(at);
        let n = self.tree.find(key, emit);
        let (node, record) = self.tree.remove(n, emit);
        self.free(record, self.record, emit);
        self.free(node, NODE_BYTES, emit);
    }

    fn lookup(&mut self, emit: &mut Emit) {
        let key = self.keys[self.random.below(self.keys.len() as u64) as usize];
        let n = self.tree.find(key, emit);
        self.read_half(n, emit);
    }

    fn read_half(&self, n: Node, emit: &mut Emit) {
        emit.fetch(self.text.read_record);
        let record = self.tree.record(n, emit);
        emit.sweep(self.text.read_record, reach_core::Kind::Load, record, self.record / 2);
    }

    /// Appends one operation, or one node of a traversal. Chunks may be cut after each.
    fn step(&mut self, emit: &mut Emit) {
        if self.traversing != NIL {
            self.read_half(self.traversing, emit);
            self.traversing = self.tree.next(self.traversing, emit);
        } else if self.unbuilt > 0 {
            self.insert(emit);
            self.unbuilt -= 1;
            if self.unbuilt == 0 {
                emit.chunk.push_event(Event::Phase("operations".into()));
            }
        } else {
            self.left -= 1;
            let [lookup, insert, delete] = PERCENT;
            match self.random.below(100) {
                // Deletions can empty a small tree.
                _ if self.keys.is_empty() => self.insert(emit),
                r if r < lookup => self.lookup(emit),
                r if r < lookup + insert => self.insert(emit),
                r if r < lookup + insert + delete => self.delete(emit),
                _ => self.traversing = self.tree.first(emit),
            }
        }
    }
}

impl Program for Benchmark {
    fn run(&mut self, chunk: &mut Chunk, until: usize) {
        let mut emit = Emit { chunk, text: self.text, index: 0 };
        while emit.chunk.refs.len() < until && (self.unbuilt > 0 || self.left > 0 || self.traversing != NIL) {
            self.step(&mut emit);
        }
    }

    fn progress(&self) -> Progress {
        Progress { done: self.operations - self.left, total: Some(self.operations) }
    }
}
