//! One word of a stream: a data reference, the execution of a block, or the head of a [`Message`](super::Message).
//!
//! Bits 62–63 tell which. A data reference (0) is a [`Ref`] as it stands, except that kind 3 means a load
//! and a store at once (an atomic read-modify-write).

use crate::Ref;

/// Where the tag sits.
const TAG_AT: u32 = 62;
const BLOCK: u64 = 1;
const MESSAGE: u64 = 2;

/// What a word says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// A load or a store.
    Data(Ref),
    /// A load and a store of the same bytes by one instruction; the word is that of the load.
    LoadStore(Ref),
    /// The block with this number was entered.
    Block(u32),
    /// A message of kind `code` follows in the next `words` words.
    Message {
        /// Kind of message.
        code: u8,
        /// Length of what follows.
        words: u16,
    },
}

/// The word for the execution of block `number`.
pub const fn block(number: u32) -> u64 {
    BLOCK << TAG_AT | number as u64
}

/// The word that precedes the `words` words of a message.
pub(super) const fn message(code: u8, words: u16) -> u64 {
    MESSAGE << TAG_AT | (code as u64) << 16 | words as u64
}

/// The two frequent kinds of words without a branch between them, which no processor could predict: the number of the
/// block that `word` enters, or 0 for a load or a store. `None` for everything else.
#[inline(always)]
pub const fn block_or_data(word: u64) -> Option<u32> {
    let is_block = word >> TAG_AT == BLOCK;
    let is_data = matches!(word >> 48 & 0xc003, 1 | 2);
    if !(is_block | is_data) {
        return None;
    }
    Some(if is_block { word as u32 } else { 0 })
}

/// What `word` says; `None` for words that no writer writes.
#[inline(always)]
pub const fn decode(word: u64) -> Option<Record> {
    match word >> TAG_AT {
        0 => match word >> 48 & 3 {
            0 => None,
            3 => Some(Record::LoadStore(Ref(word & !(2 << 48)))),
            _ => Some(Record::Data(Ref(word))),
        },
        BLOCK => Some(Record::Block(word as u32)),
        MESSAGE => Some(Record::Message { code: (word >> 16) as u8, words: word as u16 }),
        _ => None,
    }
}
