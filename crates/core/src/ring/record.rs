//! Records: the words of a stream. A record is a data reference, the execution of a block, or the head of a
//! [`Message`](super::Message).
//!
//! Bits 62–63 hold the type. A data reference (0) is an unchanged [`Ref`], except that kind 3 means a load and a store
//! at once (an atomic read-modify-write).

use crate::Ref;

/// Position of the type.
const TAG_AT: u32 = 62;
const BLOCK: u64 = 1;
const MESSAGE: u64 = 2;

/// A decoded word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// A load or a store.
    Data(Ref),
    /// A load and a store of the same bytes by one instruction. The reference is the load.
    LoadStore(Ref),
    /// The block with this number was entered.
    Block(u32),
    /// A message, whose contents are in the words that follow.
    Message {
        /// Kind of message.
        code: u8,
        /// Number of words that follow.
        words: u16,
    },
}

/// Encodes the execution of block `number`.
pub const fn block(number: u32) -> u64 {
    BLOCK << TAG_AT | number as u64
}

/// Encodes the head of a message of `words` words.
pub(super) const fn message(code: u8, words: u16) -> u64 {
    MESSAGE << TAG_AT | (code as u64) << 16 | words as u64
}

/// Decodes the two frequent types of words without an unpredictable branch between them. Returns the number of the
/// block that `word` enters, or 0 for a load or a store. `None` for everything else.
#[inline(always)]
pub const fn block_or_data(word: u64) -> Option<u32> {
    // No block has number 0, whatever a program writes to the ring.
    let is_block = (word >> TAG_AT == BLOCK) & (word as u32 != 0);
    let is_data = matches!(word >> 48 & 0xc003, 1 | 2);
    if !(is_block | is_data) {
        return None;
    }
    Some(if is_block { word as u32 } else { 0 })
}

/// Decodes `word`. Returns `None` for a word that no writer writes.
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
