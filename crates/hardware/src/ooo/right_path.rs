//! The right path: the references that follow, which a wrong path may join.

use reach_core::{BlockId, Kind, Ref};

/// How many of the references that follow a wrong path knows. More than any reorder buffer holds, except of repeated
/// string instructions.
pub const FOLLOWING: usize = 1024;

/// The references that follow a piece of the program, up to [`FOLLOWING`], with the blocks of its fetches.
#[derive(Clone, Debug, Default)]
pub struct Following {
    /// References without an event in between.
    pub refs: Vec<Ref>,
    /// One block for each fetch among `refs`, in the same order.
    pub fetched: Vec<BlockId>,
}

/// The next references of a program: the rest of a piece, and those that follow that piece.
#[derive(Clone, Copy, Debug, Default)]
pub struct RightPath<'a> {
    refs: &'a [Ref],
    /// At least one block for each fetch among `refs`.
    fetched: &'a [BlockId],
    following: Option<&'a Following>,
}

impl<'a> RightPath<'a> {
    /// Returns the path that begins with `refs`. `fetched` has at least the blocks of their fetches.
    pub fn new(refs: &'a [Ref], fetched: &'a [BlockId], following: Option<&'a Following>) -> RightPath<'a> {
        RightPath { refs: &refs[..refs.len().min(FOLLOWING)], fetched, following }
    }

    /// Returns reference number `at` of the path, from 0 on. `None` behind the last that is known.
    #[inline]
    pub(super) fn get(&self, at: usize) -> Option<Ref> {
        if at < self.refs.len() {
            return Some(self.refs[at]);
        }
        let following = self.following.filter(|_| at < FOLLOWING)?;
        following.refs.get(at - self.refs.len()).copied()
    }
}

/// A fetch on the right path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RightFetch {
    pub block: BlockId,
    /// The number of the reference behind it.
    pub next: usize,
}

/// Finds the fetches of a right path one after the other.
#[derive(Clone, Copy, Debug)]
pub(super) struct RightFetches<'a> {
    path: RightPath<'a>,
    /// The number of the next reference to look at.
    next: usize,
    /// How many fetches were found before the end of the piece, and behind it.
    here: usize,
    behind: usize,
}

impl<'a> RightFetches<'a> {
    pub fn of(path: RightPath<'a>) -> RightFetches<'a> {
        RightFetches { path, next: 0, here: 0, behind: 0 }
    }
}

impl Iterator for RightFetches<'_> {
    type Item = RightFetch;

    fn next(&mut self) -> Option<RightFetch> {
        loop {
            let at = self.next;
            let reference = self.path.get(at)?;
            self.next += 1;
            if reference.kind() == Kind::Fetch {
                let block = if at < self.path.refs.len() {
                    self.here += 1;
                    self.path.fetched.get(self.here - 1)
                } else {
                    self.behind += 1;
                    self.path.following.and_then(|following| following.fetched.get(self.behind - 1))
                };
                return Some(RightFetch { block: *block?, next: self.next });
            }
        }
    }
}
