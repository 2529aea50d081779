//! Replaces the numbers that each program assigns by numbers that are unique among all programs.

use reach_core::{Asid, Block, BlockId, BlockTable, Event, FileId, ThreadId};
use std::collections::HashMap;

/// The numbers of all programs.
#[derive(Default)]
pub(super) struct Renumbering {
    blocks: BlockTable,
    /// The number of each block. Equal blocks share a number, so a program that runs again adds none.
    by_block: HashMap<Block, BlockId>,
    files: HashMap<String, FileId>,
    next_asid: u32,
    next_thread: u32,
    members: HashMap<usize, MemberNumbers>,
}

/// The unique numbers of one run of a program, by the program's own numbers.
#[derive(Default)]
struct MemberNumbers {
    blocks: Vec<BlockId>,
    asids: HashMap<Asid, Asid>,
    threads: HashMap<ThreadId, ThreadId>,
    files: HashMap<FileId, FileId>,
}

impl Renumbering {
    /// Drops the numbers of member number `at`. Call when it starts.
    pub fn forget(&mut self, at: usize) {
        self.members.insert(at, MemberNumbers::default());
    }

    /// Returns the blocks of all programs.
    pub fn blocks(&self) -> &BlockTable {
        &self.blocks
    }

    /// Adds the new blocks of member number `at`, whose table is `table`. Returns the unique numbers of all its blocks.
    pub fn learn(&mut self, at: usize, table: &BlockTable) -> &[BlockId] {
        let numbers = self.members.entry(at).or_default();
        for block in table.iter().skip(numbers.blocks.len()) {
            let id = match self.by_block.get(block) {
                Some(&id) => id,
                None => {
                    let id = self.blocks.push(block.clone());
                    self.by_block.insert(block.clone(), id);
                    id
                }
            };
            numbers.blocks.push(id);
        }
        &numbers.blocks
    }

    /// Returns the unique number of address space `asid` of member number `at`.
    pub fn asid(&mut self, at: usize, asid: Asid) -> Asid {
        let next = &mut self.next_asid;
        *self.members.entry(at).or_default().asids.entry(asid).or_insert_with(|| {
            *next += 1;
            Asid(*next - 1)
        })
    }

    fn thread(&mut self, at: usize, thread: ThreadId) -> ThreadId {
        let next = &mut self.next_thread;
        *self.members.entry(at).or_default().threads.entry(thread).or_insert_with(|| {
            *next += 1;
            ThreadId(*next - 1)
        })
    }

    /// Returns `event` of member number `at` with unique numbers. Returns `None` where it names a file that another program
    /// has named already.
    pub fn event(&mut self, at: usize, event: Event) -> Option<Event> {
        Some(match event {
            Event::File { file, path, len, in_memory } => {
                let next = FileId(self.files.len() as u32);
                let id = *self.files.entry(path.clone()).or_insert(next);
                self.members.entry(at).or_default().files.insert(file, id);
                if id != next {
                    return None;
                }
                Event::File { file: id, path, len, in_memory }
            }
            Event::Map(mut map) => {
                if let reach_core::Backing::File { file, .. } = &mut map.backing
                    && let Some(&id) = self.members.entry(at).or_default().files.get(file)
                {
                    *file = id;
                }
                Event::Map(map)
            }
            Event::Fork { child, shares_memory } => Event::Fork { child: self.asid(at, child), shares_memory },
            Event::Switch { asid, thread } => {
                Event::Switch { asid: self.asid(at, asid), thread: self.thread(at, thread) }
            }
            other => other,
        })
    }
}
