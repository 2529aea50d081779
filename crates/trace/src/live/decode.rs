//! Decodes buffers into chunks.

use super::blocks::RingBlocks;
use super::losses::{Losses, OVERWRITTEN};
use super::memory::wake_writers;
use super::order::BufferOrder;
use super::tree::{Life, ProcessTree};
use crate::Execution;
use reach_core::ring::record::{self, Record};
use reach_core::ring::{FenceEntry, FileKey, Message, Owner, Reader, Ring, read_block};
use reach_core::{Backing, Block, BlockId, BlockTable, Chunk, Event, FileId, Kind, Ref};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};

/// The most words that are read into one chunk (16 MB), so that no chunk is endless, whatever the program writes.
const MAX_WORDS: usize = 1 << 21;

/// The work of reading a buffer, however few words it has, as a number of words.
const BUFFER_WORK: usize = 256;

/// The most buffers that are read in the middle of another. A few are enough for every plugin; beyond, the reader's stack would
/// be in danger.
const MAX_DEPTH: u32 = 200;

/// The most files of a program.
const MAX_FILES: usize = 1 << 20;

/// The encoding of the `syscall` instruction, which ends the block of a process that asks for its end.
const SYSCALL: [u8; 2] = [0x0f, 0x05];

/// Reads buffers in the order of their publication. The buffers that a killed process did not publish are read when its end
/// is detected.
///
/// The program may be hostile, and can write anything to the ring at any time. It can thereby give its references any value, but
/// not make this end, wait for ever, or take memory without bounds: all numbers from the ring are limited before they are
/// believed, and nothing is read from it twice for one purpose.
pub(super) struct Decoder {
    ring: Ring,
    order: BufferOrder,
    tree: ProcessTree,
    blocks: RingBlocks,
    files: HashMap<(u64, u64), FileId>,
    /// The ring's numbers of the process and thread of the last event or reference.
    current: Option<(u32, u32)>,
    references: u64,
    losses: Losses,
    /// The words that were read since a chunk was full.
    words: usize,
    /// The buffers that are being read, each in the middle of the one before.
    depth: u32,
    /// Executions of blocks whose definitions were lost.
    undefined: u64,
    /// The last block of the process that was the last to die of a signal.
    last_of_killed: Option<BlockId>,
}

impl Decoder {
    /// Returns a decoder for a tree whose first process is `pid`.
    pub(super) fn new(reader: Reader, pid: u32) -> Decoder {
        let mut tree = ProcessTree::default();
        tree.set_first(pid);
        Decoder {
            ring: reader.ring().clone(),
            order: BufferOrder::new(reader),
            tree,
            blocks: RingBlocks::default(),
            files: HashMap::new(),
            current: None,
            references: 0,
            losses: Losses::default(),
            words: 0,
            depth: 0,
            undefined: 0,
            last_of_killed: None,
        }
    }

    pub(super) fn blocks(&self) -> &BlockTable {
        self.blocks.table()
    }

    pub(super) fn references(&self) -> u64 {
        self.references
    }

    /// Returns the process identifiers by address space, of as many processes as an ending keeps.
    pub(super) fn pids(&self) -> BTreeMap<u32, u32> {
        self.tree.pids().take(Execution::MAX_PROCESSES).collect()
    }

    /// Returns what was lost.
    pub(super) fn losses(&self) -> &[String] {
        self.losses.all()
    }

    /// Returns the block that a killed process executed last; `None` if no process was killed. Where several were, it is the
    /// one whose death was noticed last: the first process outlives its children.
    pub(super) fn last_of_killed(&self) -> Option<&Block> {
        self.last_of_killed.map(|id| self.blocks.table().get(id))
    }

    /// Adds up to `count` buffers where writers wait for one. Call when there is nothing to read: then threads own all buffers.
    pub(super) fn relieve_shortage(&mut self, count: usize) {
        if self.ring.header().writers_asleep.load(Ordering::SeqCst) > 0 && self.order.grow(count) > 0 {
            wake_writers(&self.ring);
        }
    }

    /// Reads published buffers until the chunk is full: it has `wanted` references, or [`MAX_WORDS`] words were read. Returns
    /// whether it is full; `None` where there were no buffers.
    pub(super) fn read(&mut self, chunk: &mut Chunk, wanted: usize) -> Option<bool> {
        let mut any = None;
        loop {
            let is_full = chunk.refs.len() >= wanted || self.words >= MAX_WORDS;
            if is_full {
                self.words = 0;
                return Some(true);
            }
            let Some(index) = self.order.next() else { break };
            any = Some(false);
            self.drain(index, chunk);
        }
        if self.order.is_corrupted() {
            self.losses.add(OVERWRITTEN);
        }
        any
    }

    /// Detects ended processes and reads their remaining buffers. Returns whether more can come: a process lives, or buffers
    /// are published. `main_has_ended` says that the first process has ended.
    pub(super) fn finish_dead(&mut self, main_has_ended: bool, chunk: &mut Chunk) -> bool {
        for number in self.tree.dead(main_has_ended) {
            self.finish_process(number, chunk);
        }
        self.order.refresh();
        self.tree.any_alive() || !self.order.is_empty()
    }

    /// Ends the program: no process will write more, or the capture was aborted.
    pub(super) fn finish(&mut self, chunk: &mut Chunk) {
        if !self.ring.aborted() {
            for number in self.tree.unfinished() {
                self.finish_process(number, chunk);
            }
        }
        if self.undefined > 0 {
            self.losses.add(format!("{} block executions were lost in processes that were killed", self.undefined));
        }
    }

    /// Reads the remaining buffers of process `number` and ends it.
    fn finish_process(&mut self, number: u32, chunk: &mut Chunk) {
        self.drain_process(number, None, chunk);
        let process = self.tree.process(number);
        process.life = Life::Finished;
        let (exited, asid, thread) = (process.exited, process.asid, process.thread);
        if !exited {
            process.exited = true;
            self.last_of_killed = process.last_block;
            if self.current.is_none_or(|(current, _)| current != number) {
                self.current = None;
                chunk.push_event(Event::Switch { asid, thread });
            }
            chunk.push_event(Event::Exit);
        }
    }

    /// Reads all buffers of process `number`, whether published or not. With `before_image`, reads only those of earlier
    /// images, because a later image may have published buffers already.
    fn drain_process(&mut self, number: u32, before_image: Option<u32>, chunk: &mut Chunk) {
        let wanted = |owner: Owner| owner.process == number && before_image.is_none_or(|image| owner.image < image);
        for index in self.order.take_where(wanted) {
            self.drain(index, chunk);
        }
    }

    /// Reads the rest of a buffer and frees it.
    fn drain(&mut self, index: u32, chunk: &mut Chunk) {
        let end = self.ring.buffer(index).map(|buffer| buffer.cursor());
        self.read_until(index, end.unwrap_or(0), chunk);
        self.order.free(index);
        wake_writers(&self.ring);
    }

    /// Reads a buffer up to word number `to`.
    fn read_until(&mut self, index: u32, to: usize, chunk: &mut Chunk) {
        let ring = self.ring.clone();
        let Some(buffer) = ring.buffer(index) else { return };
        if self.depth >= MAX_DEPTH {
            return self.losses.add(OVERWRITTEN);
        }
        let owner = buffer.owner();
        if owner.pid != 0 {
            self.tree.set_pid(owner.process, owner.pid);
        }
        let words = buffer.words(self.order.advance(index, to), to);
        self.words += words.len() + BUFFER_WORK;
        if buffer.is_dictionary() {
            return self.define_blocks(words);
        }
        if words.is_empty() || self.tree.process(owner.process).exited {
            return;
        }
        self.switch(owner, chunk);
        self.depth += 1;
        self.read_stream(owner, words, chunk);
        self.depth -= 1;
    }

    /// Appends the records of a stream buffer to `chunk`.
    fn read_stream(&mut self, owner: Owner, mut words: &[AtomicU64], chunk: &mut Chunk) {
        loop {
            let (before, fetched) = (chunk.refs.len(), chunk.fetched.len());
            words = &words[self.blocks.run(words, chunk)..];
            self.references += (chunk.refs.len() - before) as u64;
            if let Some(&last) = chunk.fetched[fetched..].last() {
                self.tree.process(owner.process).last_block = Some(last);
            }
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
                        self.read_message(owner, message, chunk);
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

    /// Turns a message of a process into events.
    fn read_message(&mut self, owner: Owner, message: Message, chunk: &mut Chunk) {
        match message {
            Message::Begin { path } => {
                self.drain_process(owner.process, Some(owner.image), chunk);
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
            Message::Fork { child, shares_memory } => match self.tree.new_process(child) {
                Some(child) => chunk.push_event(Event::Fork { child, shares_memory }),
                None => self.losses.add(OVERWRITTEN),
            },
            // The fork failed, so the child has ended before it ran.
            Message::Forked { child, pid: 0 } if !self.tree.process(child).exited => {
                let thread = self.tree.new_thread();
                let process = self.tree.process(child);
                (process.life, process.exited) = (Life::Finished, true);
                chunk.push_event(Event::Switch { asid: process.asid, thread });
                chunk.push_event(Event::Exit);
                self.current = None;
                self.switch(owner, chunk);
            }
            Message::Forked { child, pid } => self.tree.set_pid(child, pid),
            Message::Reaped { pid } => {
                if let Some(number) = self.tree.with_pid(pid)
                    && self.tree.dead(false).contains(&number)
                {
                    self.finish_process(number, chunk);
                    self.switch(owner, chunk);
                }
            }
            Message::Exit => {
                let process = self.tree.process(owner.process);
                process.exited = true;
                // From QEMU 10 on, a process that dies of a signal announces its end too; others ask for theirs.
                let asked = |id| self.blocks.table().get(id).bytes.ends_with(&SYSCALL);
                if let Some(last) = process.last_block.filter(|&id| !asked(id)) {
                    self.last_of_killed = Some(last);
                }
                chunk.push_event(Event::Exit);
                self.current = None;
            }
            Message::Fence(entries) => {
                for entry in entries {
                    self.catch_up(entry, chunk);
                }
                self.switch(owner, chunk);
            }
            Message::Notice(text) => self.losses.add(text),
            Message::SystemCall(number) => chunk.push_event(Event::SystemCall(number)),
        }
    }

    /// Reads another thread's buffer up to its cursor at the time of the fence, unless it was read further already.
    fn catch_up(&mut self, entry: FenceEntry, chunk: &mut Chunk) {
        let is_same_use = |buffer: &reach_core::ring::Buffer| buffer.generation() == entry.generation;
        if self.ring.buffer(entry.buffer).is_some_and(is_same_use) {
            self.read_until(entry.buffer, entry.cursor as usize, chunk);
        }
    }

    /// Appends a switch to the process and thread of `owner`, unless they are the current ones.
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

    /// Returns the number of a file. Names the file in `chunk` if it is new.
    fn file(&mut self, key: FileKey, chunk: &mut Chunk) -> FileId {
        let next = FileId(self.files.len() as u32);
        if self.files.len() >= MAX_FILES && !self.files.contains_key(&(key.device, key.inode)) {
            self.losses
                .add(format!("the program maps more than {MAX_FILES} files; the others are taken for the first"));
            return FileId(0);
        }
        *self.files.entry((key.device, key.inode)).or_insert_with(|| {
            let FileKey { path, len, in_memory, .. } = key;
            chunk.push_event(Event::File { file: next, path, len, in_memory });
            next
        })
    }

    /// Reads the block definitions of a dictionary buffer.
    fn define_blocks(&mut self, mut words: &[AtomicU64]) {
        while let Some((number, block, used)) = read_block(words) {
            words = &words[used..];
            if !self.blocks.define(number, block) {
                self.losses.add("blocks beyond those that a capture can hold, or that the program has invented");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::memory::SharedMemory;
    use super::*;
    use reach_core::ring::BufferKind;

    /// A process may exec several times before the reader begins. The beginning of one image must not make the reader read
    /// buffers of a later one.
    #[test]
    fn images_are_read_in_order_even_if_all_were_published_before() {
        let memory = SharedMemory::new().unwrap();
        let (ring, reader) = (memory.ring(), memory.reader());
        for image in 0..3 {
            let owner = Owner { process: 0, image, thread: 0, pid: 0 };
            let buffer = ring.acquire(BufferKind::Stream, owner).unwrap();
            assert!(buffer.push_all(&Message::Begin { path: image.to_string() }.encode()));
            ring.publish(buffer);
        }
        let (mut decoder, mut chunk) = (Decoder::new(reader, std::process::id()), Chunk::default());
        assert_eq!(decoder.read(&mut chunk, 1), Some(false));
        let images = chunk.events.iter().filter_map(|(_, event)| match event {
            Event::Exec { path } => Some(path.as_str()),
            _ => None,
        });
        assert!(images.eq(["0", "1", "2"]));
        let owner = Owner { process: 0, image: 3, thread: 0, pid: 0 };
        let free: Vec<u32> =
            std::iter::from_fn(|| ring.acquire(BufferKind::Stream, owner)).map(|buffer| ring.index(buffer)).collect();
        assert_eq!(
            free.len(),
            free.iter().collect::<std::collections::BTreeSet<_>>().len(),
            "each buffer is freed once"
        );
    }
}
