//! Encoding of strings and blocks as words.

use crate::sync::atomic::{AtomicU64, Ordering};
use crate::{Block, VirtAddr};

/// Appends the length of `bytes`, then `bytes` in as many words as they need.
pub(super) fn put_bytes(words: &mut Vec<u64>, bytes: &[u8]) {
    words.push(bytes.len() as u64);
    words.extend(bytes.chunks(8).map(|part| {
        let mut word = [0; 8];
        word[..part.len()].copy_from_slice(part);
        u64::from_le_bytes(word)
    }));
}

/// A reader of consecutive words.
pub(super) struct Words<'a>(std::slice::Iter<'a, u64>);

impl<'a> Words<'a> {
    pub(super) fn new(words: &'a [u64]) -> Self {
        Words(words.iter())
    }

    pub(super) fn one(&mut self) -> Option<u64> {
        self.0.next().copied()
    }

    pub(super) fn bytes(&mut self) -> Option<Vec<u8>> {
        let len = usize::try_from(self.one()?).ok()?;
        let count = len.div_ceil(8);
        let words = self.0.as_slice().get(..count)?;
        self.0 = self.0.as_slice()[count..].iter();
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.truncate(len);
        Some(bytes)
    }

    pub(super) fn text(&mut self) -> Option<String> {
        Some(String::from_utf8_lossy(&self.bytes()?).into_owned())
    }
}

/// Encodes the definition of block `number` for a dictionary. `bytes` holds `len` bytes, or is empty.
pub fn define_block(number: u32, pc: VirtAddr, len: u16, instructions: u16, bytes: &[u8]) -> Vec<u64> {
    let mut words = Vec::with_capacity(3 + bytes.len().div_ceil(8));
    words.push(u64::from(number) | u64::from(len) << 32 | u64::from(instructions) << 48);
    words.push(pc.0);
    put_bytes(&mut words, bytes);
    words
}

/// Decodes the first definition in `words`. Returns the block's number, the block, and the number of words used; `None`
/// when `words` holds no complete definition.
pub fn read_block(words: &[AtomicU64]) -> Option<(u32, Block, usize)> {
    let word = |i: usize| words.get(i).map(|word| word.load(Ordering::Relaxed));
    let (head, pc, count) = (word(0)?, word(1)?, word(2)?);
    let (len, instructions) = ((head >> 32) as u16, (head >> 48) as u16);
    // The program's own memory is the lower half of the addresses, and an instruction has at least one byte.
    if pc >> 47 != 0 || instructions == 0 || instructions > len || (count != 0 && count != u64::from(len)) {
        return None;
    }
    let end = 3 + (count as usize).div_ceil(8);
    let mut bytes: Vec<u8> =
        words.get(3..end)?.iter().flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes()).collect();
    bytes.truncate(count as usize);
    let block = Block { pc: VirtAddr(pc), len, instructions, bytes: bytes.into() };
    Some((head as u32, block, end))
}
