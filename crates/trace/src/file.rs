//! Reach's own traces: `.reach` files.
//!
//! `docs/trace-format.md` is the specification. A file has a header with a *state*, *segments* of about a million
//! references, an index, the ending of the program, and a trailer. A segment can be decoded alone once the blocks of all
//! earlier segments are known. A killed recorder leaves a file without an index, which is readable up to its last whole
//! segment; its state says that it was never finished.
//!
//! A segment names what repeats. A *form* is a block with the kinds, sizes and instruction indexes of the data references
//! that follow its fetch; a *path* is a run of forms that is executed many times. The *sequence* stream lists the executed
//! forms and paths, two bytes each. Addresses are predicted by slot, a data reference of a form (see `predict`). The
//! *control* stream has one byte for each data reference, the difference from the prediction; escapes lead to two-byte
//! differences and six-byte addresses. All streams are compressed by zstd.
//!
//! Each segment also has an *outline* (see `outline`): the pages that folding keeps. Simulations that only count read
//! nothing else.
//!
//! These choices were measured on `gcc -O2 -c`:
//! - The sequence stores plain form numbers, and zstd finds the repetition. Predicting successors first (the last
//!   successor, hashes of up to four predecessors, move-to-front lists) was no smaller, and its decoder waits for a table
//!   on every fetch.
//! - Paths shorten the sequence to a quarter and the decoder's own work by two fifths; the file does not get smaller.
//! - The writer chooses predictors by slot. Nine of ten addresses are then exact, and a control byte takes less than a
//!   bit. Choosing while reading would cost the decoder a branch a reference.
//! - Far addresses are stored as six bytes rather than as differences: pointers recur, their differences do not.
//! - zstd runs at level 1: level 3 saves 8 % for twice the time, level -3 costs 40 % more bytes and is hardly faster.

mod blocks;
mod bytes;
mod check;
mod checksum;
mod container;
mod decode;
mod encode;
mod error;
mod events;
mod expand;
#[cfg(any(test, fuzzing))]
mod forge;
mod forms;
mod index;
mod layout;
mod limits;
mod metadata;
mod outline;
mod paths;
mod predict;
mod reader;
mod recording;
mod state;
mod stream;
mod streams;
#[cfg(test)]
mod tests;
mod version;
mod writer;

#[cfg(fuzzing)]
pub use forge::forge;
pub use metadata::Metadata;
pub use reader::{Reader, Segment};
pub use recording::Recording;
pub use stream::StreamLength;
pub use version::VERSION;
pub use writer::Writer;

pub(crate) use layout::MAGIC;
pub(crate) use outline::{OutlineEncoder, OutlineStream};
