//! The streams of a segment: their names, and lists with one item for each.

use std::ops::{Index, IndexMut};

/// How many streams a segment has.
pub(super) const STREAMS: usize = 10;

/// A stream of a segment. The order is that of storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stream {
    Blocks,
    Events,
    Forms,
    Sequence,
    Control,
    Near,
    Far,
    Steps,
    Visits,
    Pages,
}

impl Stream {
    pub const ALL: [Stream; STREAMS] = [
        Stream::Blocks,
        Stream::Events,
        Stream::Forms,
        Stream::Sequence,
        Stream::Control,
        Stream::Near,
        Stream::Far,
        Stream::Steps,
        Stream::Visits,
        Stream::Pages,
    ];

    /// The streams of an outline.
    pub const OUTLINE: [Stream; 3] = [Stream::Steps, Stream::Visits, Stream::Pages];
}

/// The length of a stream, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct StreamLength {
    /// Before compression.
    pub raw: u32,
    /// As stored.
    pub stored: u32,
}

/// One item for each stream.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(super) struct PerStream<T>(pub [T; STREAMS]);

impl<T> Index<Stream> for PerStream<T> {
    type Output = T;

    #[inline(always)]
    fn index(&self, stream: Stream) -> &T {
        &self.0[stream as usize]
    }
}

impl<T> IndexMut<Stream> for PerStream<T> {
    #[inline(always)]
    fn index_mut(&mut self, stream: Stream) -> &mut T {
        &mut self.0[stream as usize]
    }
}
