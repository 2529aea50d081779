//! Slow, obvious twins of every fast structure, for tests only.

pub mod buddy;
pub mod os;
