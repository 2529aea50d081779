//! Passages through the kernel: what is kept of one, and which are typical.

use std::collections::HashSet;

/// A step of a passage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Entry {
    /// A block is fetched.
    Block(usize),
    /// The current block accesses memory.
    Access {
        /// Address of the first byte.
        address: u64,
        /// Binary logarithm of the bytes.
        size_log2: u8,
        /// Whether it is a store.
        store: bool,
        /// The number of the instruction in its block.
        index: u16,
    },
}

/// One passage: from the kernel's first block to the program's next.
#[derive(Clone, Debug, Default)]
pub struct Passage {
    /// Blocks and accesses in order.
    pub entries: Vec<Entry>,
}

/// The passages kept of a kind, and of a kind of long ones.
const KEPT: usize = 3;
const KEPT_LONG: usize = 1;
/// The entries of a long passage: those of forks, execs and ends of processes.
const LONG: usize = 60_000;

/// Binary logarithm of a line's bytes.
const LINE_SHIFT: u32 = 6;

/// The lines of a page.
const LINES_IN_PAGE: usize = 64;

/// Returns the numbers of those of `passages` that are typical: the few nearest to the median length, later ones
/// first if they are equally near, because the kernel's own caches are warm then. A timer may interrupt any passage, and
/// some passages refill a list that others take from; neither is typical.
pub fn typical(passages: &[&Passage]) -> Vec<usize> {
    let lengths: Vec<usize> = passages.iter().map(|passage| passage.entries.len()).collect();
    let mut sorted = lengths.clone();
    sorted.sort_unstable();
    let Some(&median) = sorted.get(sorted.len() / 2) else { return Vec::new() };
    let mut order: Vec<usize> = (0..passages.len()).rev().collect();
    order.sort_by_key(|&at| lengths[at].abs_diff(median));
    order.truncate(if median < LONG { KEPT } else { KEPT_LONG });
    order.sort_unstable();
    order
}

/// Returns the entries of a passage with each repeated string instruction executed at once: the emulator enters a block for
/// each repetition, while a processor fetches the instruction once and accesses whole lines. `is_string` tells whether a
/// block is one such instruction. `clears_pages`: string instructions that store a whole page are left out; the simulator
/// clears, and copies, the page that it maps.
pub fn compact(passage: &Passage, is_string: impl Fn(usize) -> bool, clears_pages: bool) -> Vec<Entry> {
    let mut compacted = Vec::new();
    let mut rest = passage.entries.as_slice();
    while let [first, ..] = rest {
        let string = matches!(first, Entry::Block(number) if is_string(*number));
        let repeats = |entry: &&Entry| !matches!(entry, Entry::Block(_)) || *entry == first;
        let (run, after) = rest.split_at(if string { rest.iter().take_while(repeats).count() } else { 1 });
        rest = after;
        let mut lines = HashSet::new();
        let kept: Vec<Entry> = run[1..]
            .iter()
            .copied()
            .filter(|entry| match entry {
                Entry::Block(_) => false,
                Entry::Access { address, store, .. } => lines.insert((address >> LINE_SHIFT, *store)),
            })
            .collect();
        compacted.push(*first);
        let stored = kept.iter().filter(|entry| matches!(entry, Entry::Access { store: true, .. })).count();
        if !(clears_pages && stored + 1 >= LINES_IN_PAGE) {
            compacted.extend(kept);
        }
    }
    compacted
}
