//! The twin of the buddy allocator: a flag for each frame. All else is found by looking at every frame.

/// Which frames are free.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NaiveBuddy {
    free: Vec<bool>,
    max_order: u8,
}

impl NaiveBuddy {
    /// Creates an allocator of `frames` free frames, with blocks of up to `2^max_order` frames.
    pub fn new(frames: usize, max_order: u8) -> NaiveBuddy {
        NaiveBuddy { free: vec![true; frames], max_order }
    }

    /// Returns all free blocks (first frame, order) by address: every aligned free extent that no larger one contains.
    pub fn free_blocks(&self) -> Vec<(u64, u8)> {
        let mut found = Vec::new();
        let mut at = 0;
        while at < self.free.len() {
            match (0..=self.max_order).rev().find(|&order| self.is_free(at, order)) {
                Some(order) => {
                    found.push((at as u64, order));
                    at += 1 << order;
                }
                None => at += 1,
            }
        }
        found
    }

    /// Returns whether `at` is aligned to `2^order` frames and all of them are free.
    pub fn is_free(&self, at: usize, order: u8) -> bool {
        let len = 1 << order;
        at.is_multiple_of(len) && at + len <= self.free.len() && self.free[at..at + len].iter().all(|&free| free)
    }

    /// Returns the order of the smallest free block of at least `2^order` frames. `None` if there is none.
    pub fn best_order(&self, order: u8) -> Option<u8> {
        self.free_blocks().into_iter().map(|block| block.1).filter(|&free| free >= order).min()
    }

    /// Returns where to allocate `2^order` frames: at the start of the lowest of the smallest free blocks that are
    /// large enough.
    pub fn lowest(&self, order: u8) -> Option<u64> {
        let best = self.best_order(order)?;
        self.free_blocks().into_iter().find(|block| block.1 == best).map(|block| block.0)
    }

    /// Marks a block free or allocated.
    pub fn set(&mut self, at: u64, order: u8, free: bool) {
        self.free[at as usize..at as usize + (1 << order)].fill(free);
    }

    /// Returns the number of free frames.
    pub fn count(&self) -> u64 {
        self.free.iter().filter(|&&free| free).count() as u64
    }
}
