//! `tc`: GAP's triangle counting, which merges sorted rows of neighbours. The references depend only on the graph, so
//! the generator stores nothing per vertex. GAP relabels vertices by degree if a sample of degrees is skewed; the
//! degrees of this graph are equal.

use super::super::parameter::{MAX_COUNT, Parameter, SEED, ValueKind, Values};
use super::super::process::{Code, Emit, Process};
use super::super::program::{Description, Program};
use super::{BYTES, DEGREE, GRAPH, Graph, INIT, WORDS};
use crate::Progress;
use reach_core::{Chunk, Event};

pub(in super::super) const ABOUT: Description = Description {
    name: "tc",
    summary: "GAP's triangle counting; the neighbours are computed, not stored",
    parameters: &[
        GRAPH,
        BYTES,
        DEGREE,
        Parameter {
            name: "most",
            kind: ValueKind::Count(1, MAX_COUNT),
            default: "1024T",
            summary: "the greatest number of vertices to count triangles for, from the first on",
        },
        INIT,
        SEED,
    ],
    build,
};

/// The consecutive blocks, as a compiler could generate them.
#[rustfmt::skip]
const BLOCKS: [&[&[u8]]; 10] = [
    WORDS,
    // take
    &[
        &[0x4c, 0x8b, 0x04, 0xce], // mov r8,[rsi+rcx*8]
        &[0x4c, 0x8b, 0x4c, 0xce, 0x08], // mov r9,[rsi+rcx*8+8]
        &[0x4d, 0x39, 0xc8], // cmp r8,r9
        &[0x73, 0x4c], // jae next
    ],
    // near
    &[
        &[0x43, 0x8b, 0x04, 0x82], // mov eax,[r10+r8*4]
        &[0x48, 0x39, 0xc8], // cmp rax,rcx
        &[0x77, 0x43], // ja next
    ],
    // open
    &[
        &[0x4c, 0x8b, 0x1c, 0xc6], // mov r11,[rsi+rax*8]
        &[0x4c, 0x8b, 0x64, 0xc6, 0x08], // mov r12,[rsi+rax*8+8]
        &[0x4c, 0x8b, 0x2c, 0xce], // mov r13,[rsi+rcx*8]
        &[0x4d, 0x39, 0xe3], // cmp r11,r12
        &[0x73, 0x29], // jae skip
    ],
    // far
    &[
        &[0x43, 0x8b, 0x14, 0x9a], // mov edx,[r10+r11*4]
        &[0x48, 0x39, 0xc2], // cmp rdx,rax
        &[0x77, 0x20], // ja skip
    ],
    // walk
    &[
        &[0x43, 0x8b, 0x3c, 0xaa], // mov edi,[r10+r13*4]
        &[0x39, 0xd7], // cmp edi,edx
        &[0x73, 0x05], // jae stop
    ],
    // on
    &[
        &[0x49, 0xff, 0xc5], // inc r13
        &[0xeb, 0xf3], // jmp walk
    ],
    // stop
    &[
        &[0x40, 0x0f, 0x94, 0xc7], // sete dil
        &[0x40, 0x0f, 0xb6, 0xff], // movzx edi,dil
        &[0x49, 0x01, 0xfe], // add r14,rdi
        &[0x49, 0xff, 0xc3], // inc r11
        &[0x4d, 0x39, 0xe3], // cmp r11,r12
        &[0x72, 0xd7], // jb far
    ],
    // skip
    &[
        &[0x49, 0xff, 0xc0], // inc r8
        &[0x4d, 0x39, 0xc8], // cmp r8,r9
        &[0x72, 0xb4], // jb near
    ],
    // next
    &[
        &[0x48, 0xff, 0xc1], // inc rcx
        &[0x48, 0x39, 0xd9], // cmp rcx,rbx
        &[0x72, 0x9e], // jb take
    ],
];

/// The blocks, in the order of [`BLOCKS`].
#[derive(Clone, Copy)]
#[repr(usize)]
enum Site {
    Words,
    Take,
    Near,
    Open,
    Far,
    Walk,
    On,
    Stop,
    Skip,
    Next,
}

struct Triangles {
    graph: Graph,
    text: [Code; BLOCKS.len()],
    /// Whether the first writes are complete.
    written: bool,
    /// The next vertex, and the number of vertices to count for.
    vertex: u64,
    most: u64,
    /// Scratch buffers for the neighbours of two vertices.
    near: Vec<u64>,
    far: Vec<u64>,
}

fn build(values: &Values, process: &mut Process) -> Result<Box<dyn Program>, String> {
    let graph = Graph::new(values, process, 0, 0)?;
    let text = process.assembled(BLOCKS);
    let most = values.number("most").min(graph.vertices);
    Ok(Box::new(Triangles { graph, text, written: false, vertex: 0, most, near: Vec::new(), far: Vec::new() }))
}

impl Triangles {
    fn code(&self, site: Site) -> Code {
        self.text[site as usize]
    }

    /// Counts the triangles whose greatest vertex is `u`.
    fn count(&mut self, u: u64, emit: &mut Emit) {
        let (id, row) = (self.graph.id, self.graph.row(u));
        let (mut near, mut far) = (std::mem::take(&mut self.near), std::mem::take(&mut self.far));
        self.graph.neighbours(u, &mut near);
        emit.fetch(self.code(Site::Take));
        self.graph.load_row(u, 0, emit);
        for (k, &v) in near.iter().enumerate() {
            emit.fetch(self.code(Site::Near));
            emit.load(self.graph.target_at(row + k as u64), id, 0);
            if v > u {
                break;
            }
            emit.fetch(self.code(Site::Open));
            self.graph.load_row(v, 0, emit);
            emit.load(self.graph.offset_at(u), 3, 2);
            self.graph.neighbours(v, &mut far);
            let mut at = 0;
            for (j, &w) in far.iter().enumerate() {
                emit.fetch(self.code(Site::Far));
                emit.load(self.graph.target_at(self.graph.row(v) + j as u64), id, 0);
                if w > v {
                    break;
                }
                loop {
                    emit.fetch(self.code(Site::Walk));
                    emit.load(self.graph.target_at(row + at as u64), id, 0);
                    if near[at] >= w {
                        break;
                    }
                    emit.fetch(self.code(Site::On));
                    at += 1;
                }
                emit.fetch(self.code(Site::Stop));
            }
            emit.fetch(self.code(Site::Skip));
        }
        emit.fetch(self.code(Site::Next));
        (self.near, self.far) = (near, far);
    }
}

impl Program for Triangles {
    fn run(&mut self, chunk: &mut Chunk, until: usize) {
        if !self.written {
            self.written = self.graph.initialise(self.text[Site::Words as usize], chunk, until);
        }
        while chunk.refs.len() < until && self.vertex < self.most {
            if self.vertex == 0 {
                chunk.push_event(Event::Phase("count".into()));
            }
            self.count(self.vertex, &mut Emit { chunk });
            self.vertex += 1;
        }
    }

    fn progress(&self) -> Progress {
        Progress { done: self.vertex, total: Some(self.most) }
    }
}
