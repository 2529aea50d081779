//! The state of a frame in sixteen bytes: a terabyte has 268 million frames of 4 KB.

use super::{Frame, FrameKind};
use crate::ObjectId;
use crate::memory::chunked::Chunked;
use std::ops::{Deref, DerefMut};

/// Bits of a page's index, of which the first word holds [`LOW`]. No object has more pages: offsets have 63 bits, and pages at
/// least 4 KB.
const INDEX: u32 = 51;
const LOW: u32 = 48;
/// Bits of an object's number. More objects would not fit in host memory.
const OBJECT: u32 = 29;

/// First word: index, kind, five flags, activity. Second word: maps, the object's number plus one, the rest of the index. A free
/// frame is all zeroes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
struct Packed([u64; 2]);

impl Packed {
    fn pack(frame: &Frame) -> Packed {
        let object = u64::from(frame.object.0.wrapping_add(1));
        debug_assert!(frame.index >> INDEX == 0 && object >> OBJECT == 0, "{frame:?}");
        let flags = [frame.cached, frame.dirty, frame.written, frame.referenced, frame.passed];
        let flags = flags.into_iter().rev().fold(0, |bits, flag| bits << 1 | u64::from(flag));
        let first = frame.index & ((1 << LOW) - 1)
            | (frame.kind as u64) << LOW
            | flags << (LOW + 3)
            | u64::from(frame.activity) << (LOW + 8);
        Packed([first, u64::from(frame.maps) | object << 32 | (frame.index >> LOW) << (32 + OBJECT)])
    }

    fn unpack(self) -> Frame {
        use FrameKind::*;
        let Packed([first, second]) = self;
        let flag = |at: u32| first >> (LOW + 3 + at) & 1 != 0;
        Frame {
            kind: [Free, Anonymous, File, Cache, Table, Wired, Zero, Free][(first >> LOW & 7) as usize],
            cached: flag(0),
            dirty: flag(1),
            written: flag(2),
            referenced: flag(3),
            passed: flag(4),
            activity: (first >> (LOW + 8)) as u8,
            maps: second as u32,
            object: ObjectId(((second >> 32) as u32 & ((1 << OBJECT) - 1)).wrapping_sub(1)),
            index: first & ((1 << LOW) - 1) | second >> (32 + OBJECT) << LOW,
        }
    }
}

/// The states of all frames.
pub(super) struct FrameStates(Chunked<Packed>);

impl FrameStates {
    /// Returns the states of `frames` free frames.
    pub(super) fn new(frames: u64) -> FrameStates {
        FrameStates(Chunked::new(frames))
    }

    /// Returns the state of frame `at`.
    #[inline]
    pub(super) fn get(&self, at: u64) -> Frame {
        self.0.get(at).unpack()
    }

    /// Returns the state of frame `at`, to be changed. Dropping it writes it back.
    #[inline]
    pub(super) fn get_mut(&mut self, at: u64) -> FrameMut<'_> {
        FrameMut { frame: self.get(at), at, book: self }
    }

    /// Replaces the state of frame `at`, which is returned.
    #[inline]
    pub(super) fn set(&mut self, at: u64, frame: Frame) -> Frame {
        self.0.set(at, Packed::pack(&frame)).unpack()
    }
}

/// The state of a frame, to be changed. Dropping it writes it back.
pub(crate) struct FrameMut<'a> {
    frame: Frame,
    at: u64,
    book: &'a mut FrameStates,
}

impl Deref for FrameMut<'_> {
    type Target = Frame;

    fn deref(&self) -> &Frame {
        &self.frame
    }
}

impl DerefMut for FrameMut<'_> {
    fn deref_mut(&mut self) -> &mut Frame {
        &mut self.frame
    }
}

impl std::fmt::Debug for FrameMut<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.frame.fmt(f)
    }
}

impl Drop for FrameMut<'_> {
    fn drop(&mut self) {
        self.book.0.set(self.at, Packed::pack(&self.frame));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn unpacking_returns_what_was_packed(
            kind in 0usize..7,
            flags: [bool; 5],
            activity: u8,
            maps: u32,
            object in prop_oneof![Just(u32::MAX), 0u32..(1 << OBJECT) - 1],
            index in 0u64..1 << INDEX,
        ) {
            use FrameKind::*;
            let [cached, dirty, written, referenced, passed] = flags;
            let kind = [Free, Anonymous, File, Cache, Table, Wired, Zero][kind];
            let object = ObjectId(object);
            let frame = Frame { kind, cached, dirty, written, referenced, passed, activity, maps, object, index };
            prop_assert_eq!(Packed::pack(&frame).unpack(), frame);
        }
    }

    #[test]
    fn a_free_frame_is_sixteen_bytes_of_zeroes() {
        assert_eq!(Packed::pack(&Frame::default()), Packed::default());
        assert_eq!(size_of::<Packed>(), 16);
    }
}
