//! The twin of the buddy allocator: one flag a frame, everything else found by looking.

/// Which frames are free.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NaiveBuddy {
    free: Vec<bool>,
    max_order: u8,
}

impl NaiveBuddy {
    /// All of `frames` free.
    pub fn new(frames: usize, max_order: u8) -> NaiveBuddy {
        NaiveBuddy { free: vec![true; frames], max_order }
    }

    /// All free blocks by address: every aligned free extent that is part of no larger one.
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

    /// Whether the aligned block of `2^order` frames at `at` is wholly free.
    pub fn is_free(&self, at: usize, order: u8) -> bool {
        let len = 1 << order;
        at.is_multiple_of(len) && at + len <= self.free.len() && self.free[at..at + len].iter().all(|&free| free)
    }

    /// The order of the smallest free block that holds `2^order` frames.
    pub fn best_order(&self, order: u8) -> Option<u8> {
        self.free_blocks().into_iter().map(|block| block.1).filter(|&have| have >= order).min()
    }

    /// The lowest block of `2^order` frames in the lowest of the smallest free blocks that hold it.
    pub fn lowest(&self, order: u8) -> Option<u64> {
        let best = self.best_order(order)?;
        self.free_blocks().into_iter().find(|block| block.1 == best).map(|block| block.0)
    }

    /// Marks a block free or taken.
    pub fn set(&mut self, at: u64, order: u8, free: bool) {
        self.free[at as usize..at as usize + (1 << order)].fill(free);
    }

    /// How many frames are free.
    pub fn count(&self) -> u64 {
        self.free.iter().filter(|&&free| free).count() as u64
    }
}
