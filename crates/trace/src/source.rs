//! The interface of all programs.

use crate::{Ending, TraceError};
use reach_core::{BlockTable, Chunk};
use std::time::Duration;

/// A source of references.
///
/// ```
/// use reach_core::{Asid, BlockTable, Chunk, Event, Ref, ThreadId, VirtAddr};
/// use reach_trace::{Ending, Progress, Source, TraceError};
///
/// /// Loads from the first byte of each page.
/// struct Pages {
///     next: u64,
///     end: u64,
///     blocks: BlockTable,
/// }
///
/// impl Source for Pages {
///     fn fill(&mut self, chunk: &mut Chunk) -> Result<bool, TraceError> {
///         chunk.clear();
///         if self.next == 0 {
///             chunk.push_event(Event::Switch { asid: Asid(0), thread: ThreadId(0) });
///         }
///         let end = self.end.min(self.next + 100_000);
///         chunk.refs.extend((self.next..end).map(|page| Ref::load(VirtAddr(page << 12))));
///         self.next = end;
///         Ok(!chunk.is_empty())
///     }
///
///     fn blocks(&self) -> &BlockTable {
///         &self.blocks
///     }
///
///     fn name(&self) -> &str {
///         "pages"
///     }
///
///     fn progress(&self) -> Progress {
///         Progress { done: self.next, total: Some(self.end) }
///     }
///
///     fn ending(&mut self) -> Ending {
///         Ending::default()
///     }
/// }
///
/// let mut chunk = Chunk::default();
/// let mut pages = Pages { next: 0, end: 10, blocks: BlockTable::default() };
/// assert!(pages.fill(&mut chunk)? && chunk.refs.len() == 10);
/// assert!(!pages.fill(&mut chunk)?);
/// # Ok::<(), TraceError>(())
/// ```
pub trait Source: Send {
    /// Replaces the contents of `chunk` by the next references and events, some 100,000 references as a rule. Returns
    /// `false`, with an empty chunk, when the program has ended. Blocks on a live program.
    ///
    /// The first event of a program, apart from marks, is a [`Switch`](reach_core::Event::Switch).
    fn fill(&mut self, chunk: &mut Chunk) -> Result<bool, TraceError>;

    /// Returns to the start and gives outlines ([`Chunk::is_outline`]) from there on, or references if `on` is false.
    /// Returns whether it has done so; a source that cannot stays where it is.
    fn outline(&mut self, on: bool) -> Result<bool, TraceError> {
        let _ = on;
        Ok(false)
    }

    /// Returns all blocks that chunks so far refer to.
    fn blocks(&self) -> &BlockTable;

    /// Returns the name of the program in results, on one line.
    fn name(&self) -> &str;

    /// Returns how much of the program has been read.
    fn progress(&self) -> Progress;

    /// Returns how long [`Source::fill`] has waited for a live program; nothing for others. Filters forward it.
    fn waited(&self) -> Duration {
        Duration::ZERO
    }

    /// Returns whether all of the program was read, and how the program ended. Call it when no more will be read: a live
    /// program loses the references that were not read, and the call waits for its end.
    ///
    /// Every filter must forward it, or incomplete input passes for complete.
    fn ending(&mut self) -> Ending;
}

/// Implements [`Source`] for pointers to sources.
macro_rules! implement_for_pointers {
    ($($pointer:ty),*) => {$(
        impl<S: Source + ?Sized> Source for $pointer {
            fn fill(&mut self, chunk: &mut Chunk) -> Result<bool, TraceError> {
                (**self).fill(chunk)
            }

            fn outline(&mut self, on: bool) -> Result<bool, TraceError> {
                (**self).outline(on)
            }

            fn blocks(&self) -> &BlockTable {
                (**self).blocks()
            }

            fn name(&self) -> &str {
                (**self).name()
            }

            fn progress(&self) -> Progress {
                (**self).progress()
            }

            fn waited(&self) -> Duration {
                (**self).waited()
            }

            fn ending(&mut self) -> Ending {
                (**self).ending()
            }
        }
    )*};
}

implement_for_pointers!(&mut S, Box<S>);

/// How much of a program has been read, in a unit that depends on the source: bytes of a file, references of a generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Progress {
    /// The amount read.
    pub done: u64,
    /// The amount in all; `None` where it is unknown.
    pub total: Option<u64>,
}
