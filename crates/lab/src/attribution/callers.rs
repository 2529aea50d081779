//! The calls that led to a mapping.
//!
//! A library makes the system call, on behalf of another file. The block of that file which ran last before the library is the
//! one that called it, whatever the library did since. Stubs through which calls go on to other files end in a jump, and are left out.

use super::Fetched;
use super::mappings::Mappings;
use iced_x86::{Decoder, DecoderOptions, FlowControl};
use reach_core::{BlockId, BlockTable, Chunk, FileId, Kind, Step};
use std::collections::VecDeque;

/// How many blocks are remembered. What a library does for one call is shorter, but for the first call of a function, which the
/// loader resolves.
const REMEMBERED: usize = 1024;
/// How many blocks of each file may be its call: the last ones. Before a call there are up to four of stubs that the loader has not
/// resolved, and those of functions that end in a jump to it.
const BLOCKS: usize = 12;
/// The most files whose calls are looked for.
const FILES: usize = 4;

/// A block of a file that may have called the next file's code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Caller {
    pub block: BlockId,
    pub file: FileId,
    /// The place of the block in the file, in bytes.
    pub offset: u64,
}

/// The blocks that ran last, of one thread.
#[derive(Clone, Debug, Default)]
pub(super) struct RecentBlocks {
    blocks: VecDeque<Fetched>,
}

impl RecentBlocks {
    /// Adds the blocks of `step`.
    pub fn add(&mut self, chunk: &Chunk, step: &Step) {
        let ids = chunk.fetched.get(step.fetched.clone()).unwrap_or_default();
        let new = ids.len().min(REMEMBERED);
        self.blocks.drain(..(self.blocks.len() + new).saturating_sub(REMEMBERED));
        let fetches = chunk.refs[step.refs.clone()].iter().rev().filter(|r| r.kind() == Kind::Fetch);
        let mut last: Vec<Fetched> = fetches
            .zip(ids.iter().rev())
            .take(new)
            .map(|(r, &id)| Fetched { block: Some(id), pc: r.addr(), script: None })
            .collect();
        last.reverse();
        self.blocks.extend(last);
    }

    /// Forgets all: another thread runs.
    pub fn clear(&mut self) {
        self.blocks.clear();
    }

    /// Returns the blocks that may have led to what the program does now, the last first.
    pub fn callers(&self, mappings: &mut Mappings) -> Vec<Caller> {
        let mut place = |fetched: &Fetched| Some((fetched.block?, mappings.place(fetched.pc)?));
        let mut blocks = self.blocks.iter().rev().filter_map(&mut place);
        let Some((_, (library, _))) = blocks.next() else { return Vec::new() };
        let mut callers: Vec<Caller> = Vec::new();
        // The files so far, and how many of their blocks are known.
        let mut files: Vec<(FileId, usize)> = Vec::new();
        for (block, (file, offset)) in blocks.filter(|(_, (file, _))| *file != library) {
            let at = files.iter().position(|(of, _)| *of == file).unwrap_or(files.len());
            match files.get_mut(at) {
                Some((_, BLOCKS)) => continue,
                Some((_, known)) => *known += 1,
                None if at == FILES => continue,
                None => files.push((file, 1)),
            }
            callers.push(Caller { block, file, offset });
        }
        callers
    }
}

/// Returns the files and the places in them of the calls among `callers`, one for each file, the last call first.
pub(super) fn calls(callers: &[Caller], blocks: &BlockTable) -> Vec<(FileId, u64)> {
    let mut calls: Vec<(FileId, u64)> = Vec::new();
    for caller in callers {
        let known = calls.iter().any(|(file, _)| *file == caller.file);
        if let Some(at) = call_at(&blocks.get(caller.block).bytes).filter(|_| !known) {
            calls.push((caller.file, caller.offset.saturating_add(at)));
        }
    }
    calls
}

/// Returns the place of the call that ends a block's code, in bytes; `None` if none does.
pub(super) fn call_at(bytes: &[u8]) -> Option<u64> {
    let mut decoder = Decoder::with_ip(64, bytes, 0, DecoderOptions::NONE);
    let last = std::iter::from_fn(|| decoder.can_decode().then(|| decoder.decode())).last()?;
    matches!(last.flow_control(), FlowControl::Call | FlowControl::IndirectCall).then(|| last.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_ends_its_block_and_a_jump_is_none() {
        // mov eax, ebx; call +0; and jmp [rip]
        assert_eq!(call_at(&[0x89, 0xd8, 0xe8, 0, 0, 0, 0]), Some(2));
        assert_eq!(call_at(&[0xff, 0x25, 0, 0, 0, 0]), None);
        assert_eq!(call_at(&[]), None);
    }
}
