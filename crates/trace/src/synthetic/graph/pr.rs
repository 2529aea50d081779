//! `pr`: GAP's PageRank, in which each vertex sums the contributions of its neighbours, in place. The references depend
//! only on the graph, so the generator stores nothing per vertex.

use super::super::parameter::{Parameter, SEED, ValueKind, Values};
use super::super::process::{Code, Emit, Process};
use super::super::program::{Description, Program};
use super::{BYTES, DEGREE, GRAPH, Graph, INIT, WORDS};
use crate::Progress;
use reach_core::{Chunk, Event};

pub(in super::super) const ABOUT: Description = Description {
    name: "pr",
    summary: "GAP's PageRank; the neighbours are computed, not stored",
    parameters: &[
        GRAPH,
        BYTES,
        DEGREE,
        Parameter {
            name: "iterations",
            kind: ValueKind::Count(1, 1 << 20),
            default: "1",
            summary: "updates of every score; GAP stops when scores hardly change, after 20 at most",
        },
        INIT,
        SEED,
    ],
    build,
};

/// The consecutive blocks, as a compiler could generate them. Scores have four bytes.
#[rustfmt::skip]
const BLOCKS: [&[&[u8]]; 5] = [
    WORDS,
    // start
    &[
        &[0x4c, 0x8b, 0x44, 0xce, 0x08], // mov r8,[rsi+rcx*8+8]
        &[0x4c, 0x2b, 0x04, 0xce], // sub r8,[rsi+rcx*8]
        &[0xf3, 0x41, 0x0f, 0x11, 0x14, 0x8c], // movss [r12+rcx*4],xmm2
        &[0xf3, 0x49, 0x0f, 0x2a, 0xc8], // cvtsi2ss xmm1,r8
        &[0xf3, 0x0f, 0x10, 0xc2], // movss xmm0,xmm2
        &[0xf3, 0x0f, 0x5e, 0xc1], // divss xmm0,xmm1
        &[0xf3, 0x41, 0x0f, 0x11, 0x44, 0x8d, 0x00], // movss [r13+rcx*4],xmm0
        &[0x48, 0xff, 0xc1], // inc rcx
        &[0x48, 0x39, 0xd9], // cmp rcx,rbx
        &[0x72, 0xd5], // jb start
    ],
    // take
    &[
        &[0x4c, 0x8b, 0x04, 0xce], // mov r8,[rsi+rcx*8]
        &[0x4c, 0x8b, 0x4c, 0xce, 0x08], // mov r9,[rsi+rcx*8+8]
        &[0x0f, 0x57, 0xc0], // xorps xmm0,xmm0
        &[0x4c, 0x89, 0xca], // mov rdx,r9
        &[0x4c, 0x29, 0xc2], // sub rdx,r8
        &[0x76, 0x13], // jbe give
    ],
    // add
    &[
        &[0x43, 0x8b, 0x04, 0x82], // mov eax,[r10+r8*4]
        &[0xf3, 0x41, 0x0f, 0x58, 0x44, 0x85, 0x00], // addss xmm0,[r13+rax*4]
        &[0x49, 0xff, 0xc0], // inc r8
        &[0x4d, 0x39, 0xc8], // cmp r8,r9
        &[0x72, 0xed], // jb add
    ],
    // give
    &[
        &[0xf3, 0x41, 0x0f, 0x10, 0x0c, 0x8c], // movss xmm1,[r12+rcx*4]
        &[0xf3, 0x0f, 0x59, 0xc3], // mulss xmm0,xmm3
        &[0xf3, 0x0f, 0x58, 0xc4], // addss xmm0,xmm4
        &[0xf3, 0x41, 0x0f, 0x11, 0x04, 0x8c], // movss [r12+rcx*4],xmm0
        &[0xf3, 0x0f, 0x5c, 0xc8], // subss xmm1,xmm0
        &[0x0f, 0x54, 0xcd], // andps xmm1,xmm5
        &[0xf3, 0x0f, 0x58, 0xf1], // addss xmm6,xmm1
        &[0xf3, 0x48, 0x0f, 0x2a, 0xca], // cvtsi2ss xmm1,rdx
        &[0xf3, 0x0f, 0x5e, 0xc1], // divss xmm0,xmm1
        &[0xf3, 0x41, 0x0f, 0x11, 0x44, 0x8d, 0x00], // movss [r13+rcx*4],xmm0
        &[0x48, 0xff, 0xc1], // inc rcx
        &[0x48, 0x39, 0xd9], // cmp rcx,rbx
        &[0x72, 0xa2], // jb take
    ],
];

/// The blocks, in the order of [`BLOCKS`].
#[derive(Clone, Copy)]
#[repr(usize)]
enum Site {
    Words,
    Start,
    Take,
    Add,
    Give,
}

/// The binary logarithm of a score's size in bytes.
const SCORE: u8 = 2;

struct PageRank {
    graph: Graph,
    text: [Code; BLOCKS.len()],
    scores: u64,
    contributions: u64,
    /// Whether the first writes are complete.
    written: bool,
    /// The next vertex of the current round.
    vertex: u64,
    /// Rounds done and rounds in total: the initial scores, then the iterations.
    done: u64,
    rounds: u64,
    /// Scratch buffer for neighbours.
    list: Vec<u64>,
}

fn build(values: &Values, process: &mut Process) -> Result<Box<dyn Program>, String> {
    let mut graph = Graph::new(values, process, 64, 0)?;
    let text = process.assembled(BLOCKS);
    let bytes = graph.vertices << SCORE;
    let (scores, contributions) = (graph.array(bytes, process), graph.array(bytes, process));
    let rounds = values.number("iterations") + 1;
    let list = Vec::new();
    Ok(Box::new(PageRank { graph, text, scores, contributions, written: false, vertex: 0, done: 0, rounds, list }))
}

impl PageRank {
    /// Appends the initial score of `v`.
    fn start(&self, v: u64, emit: &mut Emit) {
        emit.fetch(self.text[Site::Start as usize]);
        emit.load(self.graph.offset_at(v + 1), 3, 0);
        emit.load(self.graph.offset_at(v), 3, 1);
        emit.store(self.scores + (v << SCORE), SCORE, 2);
        emit.store(self.contributions + (v << SCORE), SCORE, 6);
    }

    /// Appends an update of the score of `v`.
    fn update(&mut self, v: u64, emit: &mut Emit) {
        self.graph.neighbours(v, &mut self.list);
        emit.fetch(self.text[Site::Take as usize]);
        self.graph.load_row(v, 0, emit);
        let row = self.graph.row(v);
        for (k, &neighbour) in self.list.iter().enumerate() {
            emit.fetch(self.text[Site::Add as usize]);
            emit.load(self.graph.target_at(row + k as u64), self.graph.id, 0);
            emit.load(self.contributions + (neighbour << SCORE), SCORE, 1);
        }
        emit.fetch(self.text[Site::Give as usize]);
        emit.load(self.scores + (v << SCORE), SCORE, 0);
        emit.store(self.scores + (v << SCORE), SCORE, 3);
        emit.store(self.contributions + (v << SCORE), SCORE, 9);
    }
}

impl Program for PageRank {
    fn run(&mut self, chunk: &mut Chunk, until: usize) {
        if !self.written {
            self.written = self.graph.initialise(self.text[Site::Words as usize], chunk, until);
        }
        while chunk.refs.len() < until && self.done < self.rounds {
            let v = self.vertex;
            if v == 0 && self.done < 2 {
                let phase = if self.done == 0 { "start" } else { "iterations" };
                chunk.push_event(Event::Phase(phase.into()));
            }
            let emit = &mut Emit { chunk };
            if self.done == 0 {
                self.start(v, emit)
            } else {
                self.update(v, emit)
            }
            self.vertex += 1;
            if self.vertex == self.graph.vertices {
                (self.vertex, self.done) = (0, self.done + 1);
            }
        }
    }

    fn progress(&self) -> Progress {
        Progress { done: self.done, total: Some(self.rounds) }
    }
}
