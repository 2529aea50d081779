//! The numbers of processes and threads in Reach, by those that Linux gave them.

use reach_core::{Asid, ThreadId};
use std::collections::HashMap;

/// The most threads of a trace.
pub const MAX_THREADS: usize = 1 << 16;

/// The processes and threads so far.
#[derive(Default)]
pub struct Threads {
    processes: HashMap<u64, Asid>,
    threads: HashMap<(u64, u64), ThreadId>,
    /// The last answer. Most references follow one of the same thread.
    last: Option<((u64, u64), (Asid, ThreadId))>,
}

impl Threads {
    /// Returns the numbers of a thread: new ones in the order in which they are asked for. Returns `None` if there are more threads
    /// than a trace may have.
    pub fn of(&mut self, process: u64, thread: u64) -> Option<(Asid, ThreadId)> {
        let key = (process, thread);
        if let Some((last, numbers)) = self.last
            && last == key
        {
            return Some(numbers);
        }
        let (processes, threads) = (self.processes.len(), self.threads.len());
        let asid = *self.processes.entry(process).or_insert(Asid(processes as u32));
        let number = *self.threads.entry(key).or_insert(ThreadId(threads as u32));
        if self.threads.len() > MAX_THREADS {
            return None;
        }
        self.last = Some((key, (asid, number)));
        Some((asid, number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_dense_and_threads_belong_to_their_process() {
        let mut threads = Threads::default();
        let mut of = |process, thread| threads.of(process, thread).map(|(asid, thread)| (asid.0, thread.0));
        assert_eq!(of(100, 100), Some((0, 0)));
        assert_eq!(of(100, 101), Some((0, 1)));
        assert_eq!(of(200, 101), Some((1, 2)));
        assert_eq!(of(100, 100), Some((0, 0)));
        assert_eq!((1..).find(|&thread| of(300, thread).is_none()), Some(MAX_THREADS as u64 - 2));
    }
}
