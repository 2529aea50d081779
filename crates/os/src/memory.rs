//! Physical memory: the buddy allocator, and what is known of each frame.

mod buddy;
mod cache_pages;
mod chunked;
mod contiguity;
mod fragment;
mod frames;
mod queues;
mod reserved;
mod rmap;
mod shadow;
mod tables;
mod wired;

pub use buddy::{Buddy, ListOrder};
pub use contiguity::contiguity;
pub use fragment::{FragmentError, Fragmentation};
pub use frames::{Frame, FrameKind, Frames};
pub(crate) use queues::{Queue, Queues};
pub(crate) use rmap::ReverseMap;
pub(crate) use shadow::{Shadow, is_shadow};
pub(crate) use wired::WiredPool;
