//! Traces of other tools. They have no mappings, so each program starts with a `Switch` and no `Map`. The simulated
//! operating system then gives a page anonymous memory when it is first touched.

mod arrays;
mod assembler;
mod champsim;
mod compressed;
mod drmemtrace;
mod input;
mod lackey;
mod limits;
mod lines;
mod text;
mod threads;
mod valgrind;
mod write;
mod zip;

pub use arrays::{Arrays, Bytes, Columns};
pub use champsim::ChampSim;
pub use drmemtrace::{DrMemtrace, Physical};
pub use lackey::Lackey;
pub use text::Text;

pub(crate) use compressed::open as open_compressed;
pub(crate) use write::{Survey, write_champsim, write_drmemtrace};

/// The references in a chunk of a foreign trace. The chunk ends with the block that reaches this number.
pub(crate) const CHUNK_REFS: usize = 1 << 17;

/// The most events of a chunk of a foreign trace. Some have millions before their first reference.
const CHUNK_EVENTS: usize = 1 << 14;
