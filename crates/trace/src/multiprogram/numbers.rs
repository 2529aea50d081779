//! Numbers that are unique among several programs, for those that each program gives by itself.

use reach_core::{Asid, Block, BlockId, BlockTable, Event, FileId, ThreadId};
use std::collections::HashMap;

/// The numbers of all programs.
#[derive(Default)]
pub(super) struct Numbers {
    blocks: BlockTable,
    /// Equal blocks are one: a program that runs again adds nothing.
    known: HashMap<Block, BlockId>,
    files: HashMap<String, FileId>,
    next_asid: u32,
    next_thread: u32,
    members: HashMap<usize, Own>,
}

/// What one run of a program calls things, and what they are called here.
#[derive(Default)]
struct Own {
    blocks: Vec<BlockId>,
    asids: HashMap<Asid, Asid>,
    threads: HashMap<ThreadId, ThreadId>,
    files: HashMap<FileId, FileId>,
}

impl Numbers {
    /// Member number `at` starts anew.
    pub fn forget(&mut self, at: usize) {
        self.members.insert(at, Own::default());
    }

    pub fn blocks(&self) -> &BlockTable {
        &self.blocks
    }

    /// Learns the blocks that member number `at` has named since the last time, and gives the numbers of all of them.
    pub fn learn(&mut self, at: usize, theirs: &BlockTable) -> &[BlockId] {
        let own = self.members.entry(at).or_default();
        for block in theirs.iter().skip(own.blocks.len()) {
            let id = match self.known.get(block) {
                Some(&id) => id,
                None => {
                    let id = self.blocks.push(block.clone());
                    self.known.insert(block.clone(), id);
                    id
                }
            };
            own.blocks.push(id);
        }
        &own.blocks
    }

    /// The address space that member number `at` calls `asid`.
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

    /// The event in numbers that all programs share; nothing where it names a file that is known by its path already.
    pub fn event(&mut self, at: usize, event: Event) -> Option<Event> {
        Some(match event {
            Event::File { file, path, len } => {
                let next = FileId(self.files.len() as u32);
                let id = *self.files.entry(path.clone()).or_insert(next);
                self.members.entry(at).or_default().files.insert(file, id);
                if id != next {
                    return None;
                }
                Event::File { file: id, path, len }
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
