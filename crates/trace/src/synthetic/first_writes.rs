//! The first writes to a program's arrays: every word, or one word of every 4 KB. Both touch the same pages; the second
//! takes a 512th of the references.

use super::process::{Code, bodies, room, store};
use reach_core::Chunk;

const WORDS_PER_PAGE: u64 = 512;

/// Writes arrays one after the other.
pub(super) struct FirstWrites {
    /// Address and number of words of each array.
    arrays: Vec<(u64, u64)>,
    /// Distance of writes, in words.
    stride: u64,
    /// The next write: index of the array, and word in it.
    array: usize,
    word: u64,
}

impl FirstWrites {
    /// Makes the writes of no arrays; [`FirstWrites::add`] adds arrays. `by_pages` writes one word of every 4 KB.
    pub fn new(by_pages: bool) -> FirstWrites {
        FirstWrites { arrays: Vec::new(), stride: if by_pages { WORDS_PER_PAGE } else { 1 }, array: 0, word: 0 }
    }

    /// Adds an array of `bytes` bytes at `at`.
    pub fn add(&mut self, at: u64, bytes: u64) {
        self.arrays.push((at, bytes.div_ceil(8)));
    }

    /// Starts again with array number `array`.
    pub fn restart(&mut self, array: usize) {
        self.array = array;
    }

    /// Appends writes, one word per execution of `code`, until `chunk` holds `until` references. Returns whether all
    /// arrays are written.
    pub fn run(&mut self, code: Code, chunk: &mut Chunk, until: usize) -> bool {
        while let Some(&(base, words)) = self.arrays.get(self.array) {
            let n = room(chunk, until, 2, (words - self.word).div_ceil(self.stride));
            let (mut at, step) = (base + self.word * 8, self.stride * 8);
            bodies(chunk, code, n, || {
                at += step;
                [store(at - step, 0)]
            });
            self.word += n * self.stride;
            if self.word < words {
                return false;
            }
            (self.array, self.word) = (self.array + 1, 0);
        }
        true
    }
}
