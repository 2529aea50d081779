//! Traces of other tools. They know no mappings, so each starts with one `Switch` and no `Map`: the operating system
//! gives their references anonymous memory on first touch.

mod assembler;
mod champsim;
mod compressed;
mod input;
mod lackey;

pub use champsim::ChampSim;
pub use lackey::Lackey;

pub(crate) use compressed::open as open_compressed;

/// How many references a foreign reader puts into a chunk before it ends it at the next block.
pub(crate) const CHUNK_REFS: usize = 1 << 17;
