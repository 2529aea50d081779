//! Random operations of programs on their address spaces.

use reach_core::{Advice, Asid, Backing, Event, FileId, Map, Protection, Remap, Span, ThreadId, VirtAddr};

const PAGE_BYTES: u64 = 4096;

/// The number of pages that each address space uses, from [`FIRST_PAGE`] on.
pub const PAGES: u64 = 32;
/// The first page that is used.
pub const FIRST_PAGE: u64 = 0x40_0000;

/// An operation of a program. Pages count from [`FIRST_PAGE`]. `backing` is 0 for anonymous memory, else the number of
/// a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Op {
    Map { at: u64, len: u64, backing: u8, shared: bool, write: bool },
    Unmap { at: u64, len: u64 },
    Protect { at: u64, len: u64, write: bool },
    Remap { from: u64, len: u64, to: u64, new_len: u64 },
    DontNeed { at: u64, len: u64 },
    Fork { child: u32, shares: bool },
    Switch { asid: u32 },
    Exit,
    Touch { at: u64, store: bool },
}

impl Op {
    /// Decodes any word into an operation. Half of all words are touches.
    pub fn decode(word: u64) -> Op {
        let mut rest = word >> 5;
        let mut below = |n: u64| {
            let value = rest % n;
            rest /= n;
            value
        };
        let (at, len) = (below(PAGES), 1 + below(8));
        let len = len.min(PAGES - at);
        match word % 32 {
            0..5 => {
                let (backing, shared, write) = (below(3) as u8, below(3) == 0, below(4) > 0);
                Op::Map { at, len, backing, shared, write }
            }
            5..7 => Op::Unmap { at, len },
            7..9 => Op::Protect { at, len, write: below(2) == 0 },
            9..11 => {
                let to = below(PAGES);
                let new_len = (1 + below(8)).min(PAGES - to);
                let is_apart = to >= at + len || at >= to + new_len;
                let is_in_place = at + new_len <= PAGES && below(3) == 0;
                if is_in_place {
                    Op::Remap { from: at, len, to: at, new_len }
                } else if is_apart {
                    Op::Remap { from: at, len, to, new_len }
                } else {
                    Op::Touch { at, store: true }
                }
            }
            11 => Op::DontNeed { at, len },
            12 => Op::Fork { child: below(3) as u32 + 1, shares: below(2) == 0 },
            13..15 => Op::Switch { asid: below(3) as u32 + 1 },
            15 => Op::Exit,
            _ => Op::Touch { at, store: below(2) == 0 },
        }
    }

    /// Returns the event that a program would send. `None` for a touch, which is a reference.
    pub fn event(self) -> Option<Event> {
        let address = |at: u64| VirtAddr((FIRST_PAGE + at) * PAGE_BYTES);
        let span = |at: u64, len: u64| Span { start: address(at), len: len * PAGE_BYTES };
        let rights = |write| if write { Protection::READ_WRITE } else { Protection::READ };
        Some(match self {
            Op::Map { at, len, backing, shared, write } => Event::Map(Map {
                protection: rights(write),
                shared,
                backing: match backing {
                    0 => Backing::Anonymous,
                    file => Backing::File { file: FileId(file as u32), offset: at * PAGE_BYTES },
                },
                ..Map::anonymous(address(at), len * PAGE_BYTES)
            }),
            Op::Unmap { at, len } => Event::Unmap(span(at, len)),
            Op::Protect { at, len, write } => Event::Protect(span(at, len), rights(write)),
            Op::Remap { from, len, to, new_len } => {
                Event::Remap(Remap { from: span(from, len), to: span(to, new_len), keep: false })
            }
            Op::DontNeed { at, len } => Event::Advise(span(at, len), Advice::DontNeed),
            Op::Fork { child, shares } => Event::Fork { child: Asid(child), shares_memory: shares },
            Op::Switch { asid } => Event::Switch { asid: Asid(asid), thread: ThreadId(asid) },
            Op::Exit => Event::Exit,
            Op::Touch { .. } => return None,
        })
    }
}
