//! The order in which the items of a round run.

use super::Fence;
use reach_core::Asid;
use std::collections::{BTreeMap, VecDeque};

/// How far the items of an address space, or all items, have come.
#[derive(Clone, Copy, Debug, Default)]
struct Completion {
    /// How many there are, while they are being listed.
    listed: usize,
    /// How many of them precede the last fence, the fence included: items that are no fence wait for these.
    to_fence: usize,
    /// How many are done.
    done: usize,
    /// When the last of them ended.
    end: u64,
    /// When the last fence among them ended.
    fence_end: u64,
}

/// An item, as far as its order is concerned.
#[derive(Debug)]
struct Listed {
    /// The number of its address space in [`Order::spaces`].
    space: usize,
    fence: Fence,
    /// How many items of its address space must be done before.
    needs_in_space: usize,
    /// How many items of all must be done before.
    needs_in_all: usize,
}

/// The order in which the items of a round run.
#[derive(Debug)]
pub(super) struct Order {
    items: Vec<Listed>,
    /// Items of each hardware thread that have not begun.
    waiting: Vec<VecDeque<usize>>,
    spaces: Vec<Completion>,
    all: Completion,
}

impl Order {
    /// Lists items in the source's order: hardware thread, address space and fence of each.
    pub fn new(items: impl Iterator<Item = (usize, Asid, Fence)>, hardware_threads: usize) -> Order {
        let mut numbers = BTreeMap::new();
        let mut order = Order {
            items: Vec::new(),
            waiting: vec![VecDeque::new(); hardware_threads],
            spaces: Vec::new(),
            all: Completion::default(),
        };
        for (hw, asid, fence) in items {
            let new = numbers.len();
            let space = *numbers.entry(asid).or_insert(new);
            if space == order.spaces.len() {
                order.spaces.push(Completion::default());
            }
            let list = |completion: &mut Completion, fenced: bool| {
                let needs = if fenced { completion.listed } else { completion.to_fence };
                completion.listed += 1;
                if fenced {
                    completion.to_fence = completion.listed;
                }
                needs
            };
            let needs_in_space = list(&mut order.spaces[space], fence >= Fence::Space);
            let needs_in_all = list(&mut order.all, fence == Fence::All);
            order.waiting[hw].push_back(order.items.len());
            order.items.push(Listed { space, fence, needs_in_space, needs_in_all });
        }
        order
    }

    /// Takes the item that can begin first, and returns its number and the earliest time at which it can begin. Candidates
    /// are the next item of each hardware thread, if all that it waits for is done. `clock` gives the clock of a hardware
    /// thread. `None` when all items have begun.
    pub fn next(&mut self, clock: impl Fn(usize) -> u64) -> Option<(usize, u64)> {
        let ready = (0..self.waiting.len()).filter_map(|hw| {
            let &number = self.waiting[hw].front()?;
            let item = &self.items[number];
            let space = &self.spaces[item.space];
            (space.done >= item.needs_in_space && self.all.done >= item.needs_in_all).then(|| {
                let after = match item.fence {
                    Fence::None => space.fence_end.max(self.all.fence_end),
                    Fence::Space => space.end.max(self.all.fence_end),
                    Fence::All => self.all.end,
                };
                (clock(hw).max(after), hw, number)
            })
        });
        let (start, hw, number) = ready.min()?;
        self.waiting[hw].pop_front();
        Some((number, start))
    }

    /// Records that an item has ended at `end`.
    pub fn done(&mut self, number: usize, end: u64) {
        let Listed { space, fence, .. } = self.items[number];
        for (completion, fenced) in [(&mut self.spaces[space], Fence::Space), (&mut self.all, Fence::All)] {
            completion.done += 1;
            completion.end = completion.end.max(end);
            if fence >= fenced {
                completion.fence_end = completion.fence_end.max(end);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An item that takes `cycles`.
    #[derive(Clone, Copy)]
    struct Timed {
        hw: usize,
        space: u32,
        fence: Fence,
        cycles: u64,
    }

    const fn item(hw: usize, space: u32, fence: Fence, cycles: u64) -> Timed {
        Timed { hw, space, fence, cycles }
    }

    /// Runs `items`; returns which began when.
    fn run(items: &[Timed], hardware_threads: usize) -> Vec<(usize, u64)> {
        let listed = items.iter().map(|item| (item.hw, Asid(item.space), item.fence));
        let mut order = Order::new(listed, hardware_threads);
        let (mut clocks, mut begun) = (vec![0; hardware_threads], Vec::new());
        while let Some((number, start)) = order.next(|hw| clocks[hw]) {
            let hw = items[number].hw;
            assert!(start >= clocks[hw]);
            clocks[hw] = start + items[number].cycles;
            order.done(number, clocks[hw]);
            begun.push((number, start));
        }
        begun
    }

    #[test]
    fn the_hardware_thread_furthest_behind_runs_next() {
        let (a, b) = (item(0, 1, Fence::None, 10), item(1, 2, Fence::None, 25));
        assert_eq!(run(&[a, a, a, b, b], 2), [(0, 0), (3, 0), (1, 10), (2, 20), (4, 25)]);
    }

    #[test]
    fn fences_keep_the_order_of_the_source() {
        use Fence::{All, None, Space};
        // Two threads of one process, and another process on a third hardware thread.
        let items = [
            item(0, 1, None, 10),
            item(1, 1, None, 40),
            item(0, 1, Space, 5),
            item(1, 1, None, 5),
            item(2, 2, None, 100),
            item(0, 1, All, 1),
        ];
        assert_eq!(run(&items, 3), [(0, 0), (1, 0), (4, 0), (2, 40), (3, 45), (5, 100)]);
    }

    #[test]
    fn conflicting_items_run_one_after_the_other_in_the_order_of_the_source_and_all_items_run() {
        use Fence::{All, None, Space};
        let mut random = reach_core::Random::new(5);
        for _ in 0..300 {
            let mut draw = |n: u64| random.below(n);
            let items: Vec<_> = (0..40)
                .map(|_| {
                    let fence = [None, None, None, Space, All][draw(5) as usize];
                    item(draw(3) as usize, draw(2) as u32, fence, draw(9))
                })
                .collect();
            let begun = run(&items, 3);
            assert_eq!(begun.len(), items.len());
            for (place, &(number, start)) in begun.iter().enumerate() {
                for &(earlier, earlier_start) in &begun[..place] {
                    let (a, b) = (items[number], items[earlier]);
                    let fence = a.fence.max(b.fence);
                    let conflict = fence == All || a.space == b.space && fence == Space || a.hw == b.hw;
                    assert!(!conflict || earlier < number);
                    assert!(!conflict || earlier_start + b.cycles <= start);
                }
            }
        }
    }
}
