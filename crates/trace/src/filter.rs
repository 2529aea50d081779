//! Sources over other sources. Each takes the references of one program and cuts, thins, marks or moves them.

pub(crate) mod aligned;
pub(crate) mod beginning;
pub(crate) mod fast_forward;
pub(crate) mod interruptible;
pub(crate) mod keep;
pub(crate) mod limit;
pub(crate) mod sample;

#[cfg(test)]
mod testing;
