//! Frames and the folios that they belong to, as the kernel tells root (`/proc/PID/pagemap`, `/proc/kpageflags`).

use crate::elf::BASE;
use crate::host;
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// Entries of the page table are read so many at a time.
const BATCH: u64 = 64 << 10;

/// The page table of a process.
pub struct PageMap(File);

/// An entry of a page table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry(u64);

impl Entry {
    /// Is a page in memory behind it?
    pub fn present(self) -> bool {
        self.0 >> 63 != 0
    }

    /// The frame of a page in memory; none where the kernel does not tell.
    pub fn frame(self) -> Option<u64> {
        let frame = self.0 & ((1 << 55) - 1);
        (self.present() && frame != 0).then_some(frame)
    }
}

impl PageMap {
    /// The page table of a process, or of this one.
    ///
    /// # Errors
    /// When there is no such process, or it is another's.
    pub fn of(process: Option<i32>) -> io::Result<PageMap> {
        let process = process.map_or_else(|| "self".to_owned(), |pid| pid.to_string());
        Ok(PageMap(File::open(format!("/proc/{process}/pagemap"))?))
    }

    /// Hands entries of all base pages in an address range to `each`, in order, with the address of the first of each batch.
    ///
    /// # Errors
    /// When it cannot be read.
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

/// The sizes of folios, from the kernel's flags of frames. What was read is kept: make a new one for a new look.
pub struct Folios {
    flags: File,
    /// Orders of the frames of an aligned block of 512.
    blocks: HashMap<u64, Box<[u8; 512]>>,
}

/// Orders of folios up to this are told apart: the page cache has none above 2 MB.
pub const ORDERS: usize = 11;

const COMPOUND_HEAD: u64 = 1 << 15;
const COMPOUND_TAIL: u64 = 1 << 16;

impl Folios {
    /// Opens the kernel's flags.
    ///
    /// # Errors
    /// For all but root.
    pub fn open() -> io::Result<Folios> {
        host::pretend(host::Lack::Frames)?;
        Ok(Folios { flags: File::open("/proc/kpageflags")?, blocks: HashMap::new() })
    }

    /// The order of the folio that `frame` belongs to, at most `ORDERS - 1`.
    ///
    /// # Errors
    /// When there is no such frame.
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

/// A folio is a head with tails behind it, aligned to its size.
fn orders(flags: &[u64]) -> [u8; 512] {
    let mut orders = [0u8; 512];
    let mut i = 0;
    while i < 512 {
        let tails = flags[i + 1..].iter().take_while(|&&flag| flag & COMPOUND_TAIL != 0).count();
        let order = match flags[i] {
            flag if flag & COMPOUND_HEAD != 0 => (tails + 1).next_power_of_two().trailing_zeros() as u8,
            // The head is in a block before this one.
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
    fn folios_are_heads_with_tails() {
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
