//! From buffers to chunks.

use super::known::Known;
use super::memory::wake_writers;
use super::order::Order;
use super::tree::{Life, Tree};
use reach_core::ring::record::{self, Record};
use reach_core::ring::{BufferKind, FenceEntry, FileKey, Message, Owner, Ring, read_block};
use reach_core::{Backing, BlockTable, Chunk, Event, FileId, Kind, Ref};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// Reads buffers in the order of their publication; what killed processes left behind comes when they are found dead.
pub(super) struct Decoder {
    ring: Ring,
    order: Order,
    tree: Tree,
    known: Known,
    files: HashMap<(u64, u64), FileId>,
    /// Process and thread that the chunk is at.
    current: Option<(u32, u32)>,
    references: u64,
    notices: Vec<String>,
    undefined: u64,
}

impl Decoder {
    /// For a tree whose first process is `pid`.
    pub(super) fn new(ring: Ring, pid: u32) -> Decoder {
        let mut tree = Tree::default();
        tree.meet(0, pid);
        Decoder {
            ring,
            order: Order::new(ring),
            tree,
            known: Known::default(),
            files: HashMap::new(),
            current: None,
            references: 0,
            notices: Vec::new(),
            undefined: 0,
        }
    }

    pub(super) fn blocks(&self) -> &BlockTable {
        self.known.blocks()
    }

    pub(super) fn references(&self) -> u64 {
        self.references
    }

    pub(super) fn notices(&self) -> &[String] {
        &self.notices
    }

    pub(super) fn notice(&mut self, text: &str) {
        if !self.notices.iter().any(|old| old == text) {
            self.notices.push(text.to_owned());
        }
    }

    /// Reads published buffers until the chunk has `enough` references; `false` when there were none.
    pub(super) fn read(&mut self, chunk: &mut Chunk, enough: usize) -> bool {
        let mut any = false;
        while chunk.refs.len() < enough {
            let Some(index) = self.order.next() else { break };
            any = true;
            self.empty(index, chunk);
        }
        any
    }

    /// Finds the dead and reads what they left. Returns whether any process lives.
    pub(super) fn bury(&mut self, main_is_over: bool, chunk: &mut Chunk) -> bool {
        for number in self.tree.dead(main_is_over) {
            self.bury_one(number, chunk);
        }
        self.order.refresh();
        self.tree.any_alive() || !self.order.is_empty()
    }

    /// Nothing more will be written, or nobody will read it.
    pub(super) fn finish(&mut self, chunk: &mut Chunk) {
        if !self.ring.aborted() {
            for number in self.tree.unburied() {
                self.bury_one(number, chunk);
            }
        }
        if self.undefined > 0 {
            self.notice(&format!("{} block executions were lost in processes that were killed", self.undefined));
        }
    }

    fn bury_one(&mut self, number: u32, chunk: &mut Chunk) {
        self.leftovers(number, None, chunk);
        let process = self.tree.process(number);
        process.life = Life::Buried;
        let (exited, asid, thread) = (process.exited, process.asid, process.thread);
        if !exited {
            process.exited = true;
            if self.current.is_none_or(|(current, _)| current != number) {
                self.current = None;
                chunk.push_event(Event::Switch { asid, thread });
            }
            chunk.push_event(Event::Exit);
        }
    }

    /// Reads everything that process `number` wrote and did not publish, or published and was not read yet. With
    /// `image`, what images before that one wrote: later ones may have published already.
    fn leftovers(&mut self, number: u32, image: Option<u32>, chunk: &mut Chunk) {
        let wanted = |owner: Owner| owner.process == number && image.is_none_or(|image| owner.image < image);
        for index in self.order.take_of(wanted) {
            self.empty(index, chunk);
        }
    }

    /// Reads the rest of a buffer and frees it.
    fn empty(&mut self, index: u32, chunk: &mut Chunk) {
        if let Some(buffer) = self.ring.buffer(index) {
            self.deliver(index, buffer.cursor(), chunk);
        }
        self.order.free(index);
        wake_writers(&self.ring);
    }

    /// Reads a buffer up to word number `to`.
    fn deliver(&mut self, index: u32, to: usize, chunk: &mut Chunk) {
        let Some(buffer) = self.ring.buffer(index) else { return };
        let owner = buffer.owner();
        if owner.pid != 0 {
            self.tree.meet(owner.process, owner.pid);
        }
        let from = self.order.advance(index, to);
        let words = buffer.words(from, to);
        if buffer.kind() == BufferKind::Dictionary {
            return self.define(words);
        }
        if words.is_empty() || self.tree.process(owner.process).exited {
            return;
        }
        self.switch(owner, chunk);
        self.stream(owner, words, chunk);
    }

    fn stream(&mut self, owner: Owner, mut words: &[AtomicU64], chunk: &mut Chunk) {
        loop {
            let before = chunk.refs.len();
            words = &words[self.known.run(words, chunk)..];
            self.references += (chunk.refs.len() - before) as u64;
            let Some((word, rest)) = words.split_first() else { return };
            words = rest;
            match record::decode(word.load(Ordering::Relaxed)) {
                Some(Record::LoadStore(load)) => {
                    chunk.refs.push(load);
                    chunk.refs.push(Ref::data(Kind::Store, load.addr(), load.size_log2(), load.index()));
                    self.references += 2;
                }
                Some(Record::Message { code, words: count }) => {
                    let (payload, rest) = words.split_at(usize::from(count).min(words.len()));
                    words = rest;
                    let payload: Vec<u64> = payload.iter().map(|word| word.load(Ordering::Relaxed)).collect();
                    if let Some(message) = Message::decode(code, &payload) {
                        self.message(owner, message, chunk);
                    }
                    if self.tree.process(owner.process).exited {
                        return;
                    }
                }
                Some(Record::Block(_)) => self.undefined += 1,
                Some(Record::Data(_)) | None => {}
            }
        }
    }

    fn message(&mut self, owner: Owner, message: Message, chunk: &mut Chunk) {
        match message {
            Message::Begin { path } => {
                self.leftovers(owner.process, Some(owner.image), chunk);
                self.switch(owner, chunk);
                chunk.push_event(Event::Exec { path });
            }
            Message::Map { mut map, file } => {
                if let (Backing::File { offset, .. }, Some(key)) = (map.backing, file) {
                    map.backing = Backing::File { file: self.file(key, chunk), offset };
                }
                chunk.push_event(Event::Map(map));
            }
            Message::Unmap(span) => chunk.push_event(Event::Unmap(span)),
            Message::Protect(span, protection) => chunk.push_event(Event::Protect(span, protection)),
            Message::Remap(remap) => chunk.push_event(Event::Remap(remap)),
            Message::Advise(span, advice) => chunk.push_event(Event::Advise(span, advice)),
            Message::Fork { child, shares_memory } => {
                let child = self.tree.process(child).asid;
                chunk.push_event(Event::Fork { child, shares_memory });
            }
            Message::Forked { child, pid: 0 } => {
                let thread = self.tree.spare_thread();
                let process = self.tree.process(child);
                (process.life, process.exited) = (Life::Buried, true);
                chunk.push_event(Event::Switch { asid: process.asid, thread });
                chunk.push_event(Event::Exit);
                self.current = None;
                self.switch(owner, chunk);
            }
            Message::Forked { child, pid } => self.tree.meet(child, pid),
            Message::Reaped { pid } => {
                if let Some(number) = self.tree.with_pid(pid)
                    && self.tree.dead(false).contains(&number)
                {
                    self.bury_one(number, chunk);
                    self.switch(owner, chunk);
                }
            }
            Message::Exit => {
                self.tree.process(owner.process).exited = true;
                chunk.push_event(Event::Exit);
                self.current = None;
            }
            Message::Fence(entries) => {
                for entry in entries {
                    self.catch_up(entry, chunk);
                }
                self.switch(owner, chunk);
            }
            Message::Notice(text) => self.notice(&text),
        }
    }

    /// Reads another thread's buffer as far as it was when the fence was set, if it was not read further already.
    fn catch_up(&mut self, entry: FenceEntry, chunk: &mut Chunk) {
        let same_use = |buffer: &reach_core::ring::Buffer| buffer.generation() == entry.generation;
        if self.ring.buffer(entry.buffer).is_some_and(same_use) {
            self.deliver(entry.buffer, entry.cursor as usize, chunk);
        }
    }

    /// Says whose references follow, if they are not those of the same thread as before.
    fn switch(&mut self, owner: Owner, chunk: &mut Chunk) {
        let next = (owner.process, owner.thread);
        if self.current == Some(next) {
            return;
        }
        self.current = Some(next);
        let thread = self.tree.thread(owner.thread);
        let process = self.tree.process(owner.process);
        process.thread = thread;
        chunk.push_event(Event::Switch { asid: process.asid, thread });
    }

    fn file(&mut self, key: FileKey, chunk: &mut Chunk) -> FileId {
        let next = FileId(self.files.len() as u32);
        *self.files.entry((key.device, key.inode)).or_insert_with(|| {
            chunk.push_event(Event::File { file: next, path: key.path, len: key.len });
            next
        })
    }

    fn define(&mut self, mut words: &[AtomicU64]) {
        while let Some((number, block, used)) = read_block(words) {
            words = &words[used..];
            self.known.define(number, block);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::memory::Memory;
    use super::*;

    /// Where the reader begins late, the program may have been executed anew: the first image's beginning is no reason to
    /// read what the second wrote.
    #[test]
    fn images_that_were_published_before_they_are_read_come_in_order() {
        let memory = Memory::new().unwrap();
        let ring = memory.ring();
        for image in 0..3 {
            let owner = Owner { process: 0, image, thread: 0, pid: 0 };
            let buffer = ring.acquire(BufferKind::Stream, owner).unwrap();
            assert!(buffer.push_all(&Message::Begin { path: image.to_string() }.encode()));
            ring.publish(buffer);
        }
        let (mut decoder, mut chunk) = (Decoder::new(ring, std::process::id()), Chunk::default());
        assert!(decoder.read(&mut chunk, 1));
        let images = chunk.events.iter().filter_map(|(_, event)| match event {
            Event::Exec { path } => Some(path.as_str()),
            _ => None,
        });
        assert!(images.eq(["0", "1", "2"]));
        let owner = Owner { process: 0, image: 3, thread: 0, pid: 0 };
        let free: Vec<u32> =
            std::iter::from_fn(|| ring.acquire(BufferKind::Stream, owner)).map(|buffer| ring.index(buffer)).collect();
        assert_eq!(free.len(), free.iter().collect::<std::collections::BTreeSet<_>>().len(), "freed once each");
    }
}
