//! The first writing of a program's arrays: every word, or one word of every 4 KB, which leaves memory as the other does and is
//! done 512 times as soon.

use super::process::{Code, bodies, room, store};
use reach_core::Chunk;

/// Words from one that is written to the next.
const WORDS_OF_PAGE: u64 = 512;

pub(super) struct Writing {
    /// Address and words of each array.
    areas: Vec<(u64, u64)>,
    stride: u64,
    /// What is next.
    area: usize,
    word: u64,
}

impl Writing {
    /// Of arrays that are [added](Writing::add) later.
    pub fn new(by_pages: bool) -> Writing {
        Writing { areas: Vec::new(), stride: if by_pages { WORDS_OF_PAGE } else { 1 }, area: 0, word: 0 }
    }

    pub fn add(&mut self, at: u64, bytes: u64) {
        self.areas.push((at, bytes.div_ceil(8)));
    }

    /// All but the first `areas` are written once more.
    pub fn again(&mut self, areas: usize) {
        self.area = areas;
    }

    /// Appends what comes next, one word an execution of `code`. Returns whether all is written.
    pub fn run(&mut self, code: Code, chunk: &mut Chunk, until: usize) -> bool {
        while let Some(&(base, words)) = self.areas.get(self.area) {
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
            (self.area, self.word) = (self.area + 1, 0);
        }
        true
    }
}
