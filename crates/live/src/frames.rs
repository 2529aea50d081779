//! Reads page frames and their folios, which the kernel shows to root (`/proc/PID/pagemap`, `/proc/kpageflags`).

use crate::elf::BASE;
use crate::host;
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// Number of page-table entries read at a time.
const BATCH: u64 = 64 << 10;

/// The page table of a process.
pub struct PageMap(File);

/// An entry of a page table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry(u64);

impl Entry {
    /// Returns whether it maps a page in memory.
    pub fn present(self) -> bool {
        self.0 >> 63 != 0
    }

    /// Returns the frame number. `None` if the page is not in memory, or the kernel hides frames.
    pub fn frame(self) -> Option<u64> {
        let frame = self.0 & ((1 << 55) - 1);
        (self.present() && frame != 0).then_some(frame)
    }
}

impl PageMap {
    /// Opens the page table of a process; `None` stands for this one.
    ///
    /// # Errors
    /// If there is no such process, or it belongs to another user.
    pub fn of(process: Option<i32>) -> io::Result<PageMap> {
        let process = process.map_or_else(|| "self".to_owned(), |pid| pid.to_string());
        Ok(PageMap(File::open(format!("/proc/{process}/pagemap"))?))
    }

    /// Passes the entries of all base pages in an address range to `each`, in batches in address order. Each batch comes
    /// with the address of its first page.
    ///
    /// # Errors
    /// If the page table cannot be read.
    pub fn read(&self, addresses: Range<u64>, mut each: impl FnMut(u64, &[Entry])) -> io::Result<()> {
        let (mut page, end) = (addresses.start / BASE, addresses.end / BASE);
        let mut bytes = Vec::new();
        let mut entries = Vec::new();
        while page < end {
            bytes.resize(8 * BATCH.min(end - page) as usize, 0);
            let count = self.0.read_at(&mut bytes, 8 * page)? / 8;
            if count == 0 {
                return Ok(());
            }
            entries.clear();
            let words = bytes[..8 * count].as_chunks::<8>().0;
            entries.extend(words.iter().map(|&word| Entry(u64::from_ne_bytes(word))));
            each(page * BASE, &entries);
            page += count as u64;
        }
        Ok(())
    }
}

/// The orders of folios, from the kernel's page flags. Caches what it has read, so later changes need a new value.
pub struct Folios {
    flags: File,
    /// Folio orders of the 512 frames of each aligned block, by its first frame.
    blocks: HashMap<u64, Box<[u8; 512]>>,
}

/// Number of distinct folio orders, 0 to 10. The page cache has none above 2 MB (order 9); 10 stands for all larger.
pub const ORDERS: usize = 11;

const COMPOUND_HEAD: u64 = 1 << 15;
const COMPOUND_TAIL: u64 = 1 << 16;

impl Folios {
    /// Opens the kernel's page flags.
    ///
    /// # Errors
    /// If this user is not root.
    pub fn open() -> io::Result<Folios> {
        host::require(host::Ability::Frames)?;
        Ok(Folios { flags: File::open("/proc/kpageflags")?, blocks: HashMap::new() })
    }

    /// Returns the order of the folio that holds `frame`, at most `ORDERS - 1`.
    ///
    /// # Errors
    /// If there is no such frame.
    pub fn order(&mut self, frame: u64) -> io::Result<u8> {
        let block = frame & !511;
        if let Some(orders) = self.blocks.get(&block) {
            return Ok(orders[(frame - block) as usize]);
        }
        let mut bytes = vec![0; 8 * 512];
        let mut have = 0;
        while have < bytes.len() {
            match self.flags.read_at(&mut bytes[have..], 8 * block + have as u64)? {
                0 => break,
                count => have += count,
            }
        }
        let flags: Vec<u64> = bytes.as_chunks::<8>().0.iter().map(|&word| u64::from_ne_bytes(word)).collect();
        let orders = self.blocks.entry(block).or_insert(Box::new(orders(&flags)));
        Ok(orders[(frame - block) as usize])
    }
}

/// Returns the folio orders of 512 frames from their flags. A folio is a head followed by tails, aligned to its size.
fn orders(flags: &[u64]) -> [u8; 512] {
    let mut orders = [0u8; 512];
    let mut i = 0;
    while i < 512 {
        let tails = flags[i + 1..].iter().take_while(|&&flag| flag & COMPOUND_TAIL != 0).count();
        let order = match flags[i] {
            flag if flag & COMPOUND_HEAD != 0 => (tails + 1).next_power_of_two().trailing_zeros() as u8,
            // The head is in an earlier block: the folio is larger than 2 MB.
            flag if flag & COMPOUND_TAIL != 0 => ORDERS as u8 - 1,
            _ => 0,
        };
        let length = if order == 0 { 1 } else { tails + 1 };
        orders[i..i + length].fill(order);
        i += length;
    }
    orders
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_follow_from_heads_and_tails() {
        let mut flags = vec![0; 512];
        flags[4] = COMPOUND_HEAD;
        flags[5..8].fill(COMPOUND_TAIL);
        flags[8] = COMPOUND_HEAD;
        flags[9..16].fill(COMPOUND_TAIL);
        let orders = orders(&flags);
        assert_eq!(orders[..17], [0, 0, 0, 0, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3, 0]);
        let mut whole = vec![COMPOUND_TAIL; 512];
        assert_eq!(super::orders(&whole)[511], 10);
        whole[0] = COMPOUND_HEAD;
        assert_eq!(super::orders(&whole)[..], [9; 512]);
    }
}
