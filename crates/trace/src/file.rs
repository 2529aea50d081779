//! Reach's own traces: `.reach` files.
//!
//! `docs/trace-format.md` is the specification. In short: a header; *segments* of about a million references, each of
//! which can be decoded by itself once the blocks that earlier segments define are known; an index and a trailer. A
//! file without an index, left by a killed recorder, is read up to its last whole segment.
//!
//! Within a segment, what repeats is named once. A *form* is a block together with the kinds, sizes and instruction
//! indexes of the data references that follow its fetch; a *path* is a run of forms that comes again and again. The
//! *sequence* stream is the list of executed forms and paths, two bytes each. Addresses are predicted by slot, a place
//! in a form (see `predict`); the *control* stream has one byte for each data reference, the difference from the
//! prediction, with escapes to two-byte differences and six-byte addresses. All streams go through zstd.
//!
//! Beside all this stands an *outline* (see `outline`): the pages alone, as far as folding keeps them. Who only counts
//! reads nothing else.
//!
//! Measured on `gcc -O2 -c` and kept because of it:
//! - Numbers of forms as they are, for zstd to find the repetition. Predicting successors first (the last successor,
//!   hashes of up to four predecessors, move-to-front lists) was no smaller, and its decoder waits for a table on every
//!   fetch.
//! - Paths. They shorten the sequence to a quarter and the decoder's own work by two fifths; the file stays as large.
//! - Predictors chosen by slot, when writing. Nine of ten addresses are then exact, and a control byte takes less than a
//!   bit. To choose while reading would cost the decoder a branch a reference.
//! - Six-byte addresses rather than differences where a prediction is far off: pointers recur, their differences do not.
//! - zstd's level 1: level 3 saves 8 % for twice the time, level -3 costs 40 % more bytes and is hardly faster.

mod blocks;
mod bytes;
mod decode;
mod encode;
mod events;
mod expand;
#[cfg(any(test, fuzzing))]
mod forge;
mod forms;
mod laws;
mod layout;
mod metadata;
mod outline;
mod paths;
mod predict;
mod reader;
mod streams;
#[cfg(test)]
mod tests;
mod writer;

#[cfg(fuzzing)]
pub use forge::forge;
pub use layout::VERSION;
pub use metadata::Metadata;
pub use reader::{Reader, Segment};
pub use writer::Writer;

pub(crate) use layout::MAGIC;
pub(crate) use outline::OutlineEncoder;

/// Whether bytes are those whose checksum was stored. Fuzzers cannot make checksums, so they do without.
fn is_intact(bytes: &[u8], checksum: u64) -> bool {
    cfg!(fuzzing) || xxhash_rust::xxh3::xxh3_64(bytes) == checksum
}

/// What is wrong with a part of a file; the reader adds where.
#[derive(Debug)]
struct Bad(&'static str);
