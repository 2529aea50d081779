//! Helpers for the tests of filters.

use crate::Source;
use reach_core::{Chunk, Event, Mark};

/// Reads all of `source` into one chunk.
pub(super) fn read_all(source: &mut dyn Source) -> Chunk {
    let (mut chunk, mut all) = (Chunk::default(), Chunk::default());
    while source.fill(&mut chunk).unwrap() {
        all.append(&chunk);
    }
    all
}

/// Returns the marks of `chunk`, each with the number of the reference that it precedes.
pub(super) fn marks(chunk: &Chunk) -> Vec<(usize, Mark)> {
    let mark =
        |(at, event): &(u32, Event)| if let Event::Mark(mark) = event { Some((*at as usize, *mark)) } else { None };
    chunk.events.iter().filter_map(mark).collect()
}

/// Returns the events of `chunk` that are not marks, each with the number of the reference that it precedes.
pub(super) fn events(chunk: &Chunk) -> Vec<(u32, Event)> {
    chunk.events.iter().filter(|(_, event)| !matches!(event, Event::Mark(_))).cloned().collect()
}
