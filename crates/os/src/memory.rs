//! Physical memory: the buddy allocator, and the state of each frame.
//!
//! [`Frames`] owns the allocator and, where a system has them, reservations, the page daemon's lists, the reverse map, the pool
//! of kernel pages and shadow space, because each of them changes when a frame is allocated, mapped or freed.

mod buddy;
mod cache_pages;
mod chunked;
mod contiguity;
mod fragment;
mod frames;
mod free_memory;
mod queues;
mod reserved;
mod rmap;
mod shadow;
mod tables;
mod wired;

pub use buddy::{Buddy, ListOrder};
pub use contiguity::contiguity;
pub use fragment::{FragmentError, Fragmentation, Scatter};
pub use frames::{Frame, FrameKind, Frames};
pub use free_memory::{FreeBlocks, FreeMemory, FreeMemoryError};
pub(crate) use queues::{Queue, Queues};
pub(crate) use rmap::ReverseMap;
pub use shadow::RemapCosts;
pub(crate) use shadow::{Shadow, is_shadow};
pub(crate) use wired::WiredPool;
