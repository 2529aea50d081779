//! Random programs of several processes, with all kinds of events that change address spaces.

use super::Pieces;
use reach_core::{
    Advice, Asid, Block, BlockId, BlockTable, Chunk, Event, FileId, Kind, Map, Protection, Random, Ref, Role, Span,
    ThreadId, VirtAddr,
};

const TEXT: u64 = 0x40_0000;
const AREA: u64 = 0x7f00_0000_0000;
const AREA_PAGES: u64 = 2048;
const PAGE: u64 = 4096;

/// Returns a program of `steps` bursts of references with an event after each: forks, exits, switches, maps, unmaps,
/// protections, advice and system calls.
pub fn program(seed: u64, steps: usize) -> Pieces {
    let mut random = Random::new(seed);
    let mut blocks = BlockTable::default();
    for n in 0..8 {
        blocks.push(block(n));
    }
    let mut chunk = Chunk::default();
    let mut alive = vec![Asid(0)];
    let mut next = 1;
    chunk.push_event(Event::Switch { asid: Asid(0), thread: ThreadId(0) });
    chunk.push_event(Event::File { file: FileId(0), path: "script".into(), len: 64 << 10, in_memory: false });
    chunk.push_event(Event::Map(Map {
        protection: Protection::READ_EXECUTE,
        backing: reach_core::Backing::File { file: FileId(0), offset: 0 },
        role: Role::Image,
        ..Map::anonymous(VirtAddr(TEXT), 64 << 10)
    }));
    chunk.push_event(Event::Map(Map::anonymous(VirtAddr(AREA), AREA_PAGES * PAGE)));
    for _ in 0..steps {
        burst(&mut chunk, &blocks, &mut random);
        let (start, pages) = (random.below(AREA_PAGES), 1 + random.below(256));
        let len = pages.min(AREA_PAGES - start) * PAGE;
        let span = Span { start: VirtAddr(AREA + start * PAGE), len };
        let event = match random.below(14) {
            0 | 1 => Event::Map(Map::anonymous(span.start, span.len)),
            2 => Event::Unmap(span),
            3 => Event::Protect(span, Protection::READ),
            4 => Event::Protect(span, Protection::READ_WRITE),
            5 => Event::Advise(span, Advice::DontNeed),
            6 | 7 if alive.len() < 5 => {
                alive.push(Asid(next));
                next += 1;
                Event::Fork { child: Asid(next - 1), shares_memory: random.below(3) == 0 }
            }
            12 => Event::SystemCall(random.below(460) as u32),
            13 => Event::SystemCall([0, 1, 39, 202][random.below(4) as usize]),
            8 if alive.len() > 1 => {
                // The process of the last switch exits.
                chunk.push_event(Event::Exit);
                alive.retain(|asid| Some(asid) != running(&chunk).as_ref());
                switch(&alive, &mut random)
            }
            _ => switch(&alive, &mut random),
        };
        chunk.push_event(event);
    }
    Pieces::new(&format!("script-{seed}"), blocks, chunk)
}

/// Returns a block of loads, stores and arithmetic that ends in a branch: direct in even blocks, indirect in odd ones.
fn block(n: u64) -> Block {
    let place = |n: u64| TEXT + n / 2 * 10_000 + n % 2 * 40;
    // mov rax, [rdi]; mov rcx, [rsi + rax*8]; mov [rdx], rcx; imul rcx, rax; add rdx, 8; mov rbx, [rdx]; mov [rbx], rax;
    // mov r8, [rbx]; lea rsi, [rsi + 64]; test rax, rax
    let mut bytes = vec![0x48, 0x8b, 7, 0x48, 0x8b, 0x0c, 0xc6, 0x48, 0x89, 0x0a, 0x48, 0x0f, 0xaf, 0xc8];
    bytes.extend([0x48, 0x83, 0xc2, 8, 0x48, 0x8b, 0x1a, 0x48, 0x89, 3, 0x4c, 0x8b, 3, 0x48, 0x8d, 0x76, 0x40]);
    bytes.extend([0x48, 0x85, 0xc0]);
    let end = place(n) + 40;
    if n.is_multiple_of(2) {
        bytes.extend([0x0f, 0x85]);
        bytes.extend(((place((n * 3 + 4) % 8) as i64 - end as i64) as i32).to_le_bytes());
    } else {
        bytes.extend([0x0f, 0x1f, 0x40, 0, 0xff, 0xe0]);
    }
    let instructions = if n.is_multiple_of(2) { 11 } else { 12 };
    Block { pc: VirtAddr(place(n)), len: bytes.len() as u16, instructions, bytes: bytes.into() }
}

/// Returns the process that runs at the end of `chunk`.
fn running(chunk: &Chunk) -> Option<Asid> {
    chunk.events.iter().rev().find_map(|(_, event)| match event {
        Event::Switch { asid, .. } => Some(*asid),
        _ => None,
    })
}

/// Returns a switch to a random process.
fn switch(alive: &[Asid], random: &mut Random) -> Event {
    let asid = alive[random.below(alive.len() as u64) as usize];
    Event::Switch { asid, thread: ThreadId(asid.0) }
}

/// Adds random references, most of them near the one before.
fn burst(chunk: &mut Chunk, blocks: &BlockTable, random: &mut Random) {
    let mut at = AREA + random.below(AREA_PAGES * PAGE - 64);
    for _ in 0..random.below(200) {
        let id = BlockId(random.below(blocks.len() as u64) as u32);
        chunk.push_fetch(id, blocks.get(id));
        for index in 0..random.below(4) as u16 {
            if random.below(4) == 0 {
                at = AREA + random.below(AREA_PAGES * PAGE - 64);
            }
            let kind = if random.below(3) == 0 { Kind::Store } else { Kind::Load };
            chunk.refs.push(Ref::data(kind, VirtAddr(at + random.below(32)), random.below(4) as u8, index));
        }
    }
}
