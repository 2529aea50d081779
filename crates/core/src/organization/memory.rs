//! The physical memory of hash tables.
//!
//! Designs of hashed page tables assume one block of consecutive memory, which a buddy allocator rarely has. Here a table
//! is divided into chunks, whose addresses hardware knows, as that of Stojkovic et al. (HPCA 2023) does: chunks of 2 MB, or
//! of 64 KB or 4 KB if memory has no larger blocks.

use super::TableTraffic;
use crate::{FrameSource, PhysAddr};

/// Bytes of the largest chunk.
pub(crate) const LARGEST_CHUNK: u64 = 2 << 20;
/// Bytes of smaller chunks.
const SMALLER_CHUNKS: [u64; 2] = [64 << 10, 4 << 10];
/// Bytes of a line.
const LINE: u64 = 64;

/// The physical memory of a table.
#[derive(Clone, Debug)]
pub(super) struct TableMemory {
    /// Bytes of each chunk, a power of two.
    chunk: u64,
    at: Vec<PhysAddr>,
}

impl TableMemory {
    /// Allocates `bytes`, a power of two and at least 4 KB. Returns `None` when memory is exhausted.
    pub fn allocate(bytes: u64, memory: &mut dyn FrameSource) -> Option<TableMemory> {
        let smaller = SMALLER_CHUNKS.into_iter().filter(|&chunk| chunk < bytes);
        [bytes.min(LARGEST_CHUNK)]
            .into_iter()
            .chain(smaller)
            .find_map(|chunk| TableMemory::of_chunks(chunk, bytes / chunk, memory))
    }

    fn of_chunks(chunk: u64, chunks: u64, memory: &mut dyn FrameSource) -> Option<TableMemory> {
        let mut all = TableMemory { chunk, at: Vec::new() };
        for _ in 0..chunks {
            let Some(at) = memory.allocate_table(chunk) else {
                all.free(memory);
                return None;
            };
            all.at.push(at);
        }
        Some(all)
    }

    /// Adds `chunks` before chunk `before`. Returns `false`, and then nothing has changed, when memory is exhausted.
    pub fn extend(&mut self, before: usize, chunks: usize, memory: &mut dyn FrameSource) -> bool {
        let Some(more) = TableMemory::of_chunks(self.chunk, chunks as u64, memory) else { return false };
        self.at.splice(before..before, more.at);
        true
    }

    /// Frees all memory.
    pub fn free(self, memory: &mut dyn FrameSource) {
        self.at.iter().for_each(|&at| memory.free_table(at, self.chunk));
    }

    /// Returns the number of bytes.
    pub fn bytes(&self) -> u64 {
        self.chunk * self.at.len() as u64
    }

    /// Returns the lines of a chunk.
    pub fn chunk_lines(&self) -> usize {
        (self.chunk / LINE) as usize
    }

    /// Returns the address of line `line` of the table.
    pub fn line(&self, line: usize) -> PhysAddr {
        let offset = line as u64 * LINE;
        self.at[(offset / self.chunk) as usize] + offset % self.chunk
    }
}

/// Logs that the line at `from` was read and the one at `to` written.
pub(super) fn log_move(from: PhysAddr, to: PhysAddr, log: &mut Vec<TableTraffic>) {
    log.push(TableTraffic { at: from, bytes: LINE, write: false });
    log.push(TableTraffic { at: to, bytes: LINE, write: true });
}
