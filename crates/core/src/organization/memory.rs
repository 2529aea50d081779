//! The physical memory of hash tables.
//!
//! Designs of hashed page tables assume one block of consecutive memory, which a buddy allocator rarely has. Here a table
//! is divided into chunks of at most 2 MB, whose addresses hardware knows, as that of Stojkovic et al. (HPCA 2023) does.

use super::TableTraffic;
use crate::{FrameSource, PhysAddr};

/// Bytes of the largest chunk.
const CHUNK: u64 = 2 << 20;
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
        let chunk = bytes.min(CHUNK);
        let mut all = TableMemory { chunk, at: Vec::new() };
        for _ in 0..bytes / chunk {
            match memory.allocate_table(chunk) {
                Some(at) => all.at.push(at),
                None => {
                    all.free(memory);
                    return None;
                }
            }
        }
        Some(all)
    }

    /// Frees all memory.
    pub fn free(self, memory: &mut dyn FrameSource) {
        self.at.iter().for_each(|&at| memory.free_table(at, self.chunk));
    }

    /// Returns the number of bytes.
    pub fn bytes(&self) -> u64 {
        self.chunk * self.at.len() as u64
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
