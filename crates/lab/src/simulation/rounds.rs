//! Several hardware threads: what of a program runs where, and in which order.
//!
//! A source gives the references of all software threads in one order. Each software thread is placed on a hardware thread
//! when it first appears, in turn, and stays there. The program is taken in *rounds* of [`reach_core::TICK_INSTRUCTIONS`] instructions,
//! and a round in *items*: at most a slice of instructions of one software thread. Within a round, of the hardware threads
//! that may go on, the one whose clock is furthest behind does, for one item: so they run side by side, whatever the
//! order of the source. What has to keep the source's order does:
//! - items of one hardware thread;
//! - what changes an address space, against everything else in it;
//! - fork, exec, exit and the first use of a file, against everything.
//!
//! Who waits is idle. At the end of a round all wait for the last. Cuts of chunks leave no trace in any of this.

use super::Simulation;
use crate::conditions::SimulationError;
use crate::prepare::Batch;
use reach_core::{Advice, Asid, Event, Step, ThreadId};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

/// What an item must be ordered against.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Fence {
    /// Others' fences only.
    #[default]
    None,
    /// Everything in its address space.
    Space,
    /// Everything.
    All,
}

impl Fence {
    fn of(event: &Event) -> Fence {
        match event {
            Event::Switch { .. } => Fence::None,
            // Memory is filled in, as by a reference.
            Event::Advise(_, Advice::PopulateRead | Advice::PopulateWrite | Advice::WillNeed) => Fence::None,
            Event::Map(_) | Event::Unmap(_) | Event::Protect(..) | Event::Remap(_) | Event::Advise(..) => Fence::Space,
            Event::File { .. } | Event::Fork { .. } | Event::Exec { .. } | Event::Exit | Event::Phase(_) => Fence::All,
        }
    }
}

/// Events of a batch, and then, perhaps, the references of a step.
#[derive(Debug)]
struct Part {
    batch: Arc<Batch>,
    events: Range<usize>,
    step: Option<usize>,
}

/// What runs without another hardware thread in between.
#[derive(Debug)]
struct Item {
    hw: usize,
    process: Asid,
    thread: ThreadId,
    /// Whose memory it runs in.
    space: Asid,
    fence: Fence,
    parts: Vec<Part>,
    /// It has references: events that come now belong to the next.
    full: bool,
}

/// The round that is being filled, and where software threads are placed.
#[derive(Debug, Default)]
pub(super) struct Rounds {
    hardware_threads: usize,
    placed: BTreeMap<(Asid, ThreadId), usize>,
    borrowed: BTreeMap<Asid, Asid>,
    process: Asid,
    thread: ThreadId,
    items: Vec<Item>,
    /// The next part begins an item.
    fresh: bool,
    /// The round begins with the daemons' chance.
    tick: bool,
}

impl Rounds {
    /// On so many hardware threads.
    pub fn on(hardware_threads: usize) -> Rounds {
        Rounds { hardware_threads, fresh: true, ..Rounds::default() }
    }

    /// Adds a step.
    fn add(&mut self, batch: &Arc<Batch>, number: usize) {
        let step: &Step = &batch.steps[number];
        self.fresh |= step.slice || step.tick;
        let mut from = step.events.start;
        for at in step.events.clone() {
            let event = &batch.chunk.events[at].1;
            if let Event::Switch { asid, thread } = *event {
                self.part(batch, from..at, None);
                (self.process, self.thread) = (asid, thread);
                (self.fresh, from) = (true, at + 1);
                continue;
            }
            let fence = Fence::of(event);
            let item = self.item(true);
            item.fence = item.fence.max(fence);
            match event {
                Event::Fork { child, shares_memory: true } => {
                    let space = item.space;
                    self.borrowed.insert(*child, space);
                }
                // What it borrowed it has until then.
                Event::Exec { .. } | Event::Exit => drop(self.borrowed.remove(&self.process)),
                _ => {}
            }
        }
        self.part(batch, from..step.events.end, (step.counts.references() > 0).then_some(number));
    }

    /// The item that takes what comes next: events, or references.
    fn item(&mut self, events: bool) -> &mut Item {
        let fresh = self.fresh || events && self.items.last().is_some_and(|item| item.full);
        if fresh || self.items.is_empty() {
            let (process, thread) = (self.process, self.thread);
            let next = self.placed.len() % self.hardware_threads;
            let hw = *self.placed.entry((process, thread)).or_insert(next);
            let space = self.borrowed.get(&process).copied().unwrap_or(process);
            let (fence, parts) = (Fence::None, Vec::new());
            self.items.push(Item { hw, process, thread, space, fence, parts, full: false });
            self.fresh = false;
        }
        self.items.last_mut().expect("one was just made if there was none")
    }

    fn part(&mut self, batch: &Arc<Batch>, events: Range<usize>, step: Option<usize>) {
        if events.is_empty() && step.is_none() {
            return;
        }
        let item = self.item(!events.is_empty());
        item.full |= step.is_some();
        item.parts.push(Part { batch: Arc::clone(batch), events, step });
    }
}

/// How far the items of an address space, or all items, have come.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    /// How many there are, while they are being listed.
    listed: usize,
    /// How many of them must be done before one that is no fence.
    to_fence: usize,
    done: usize,
    /// When the last of them ended, and when the last fence did.
    end: u64,
    fence: u64,
}

/// The order in which the items of a round run.
#[derive(Debug)]
struct Order {
    /// Of each item: its hardware thread, its address space, what it is ordered against, and how many items of its space
    /// and of all must be done before.
    items: Vec<(usize, usize, Fence, [usize; 2])>,
    waiting: Vec<VecDeque<usize>>,
    spaces: Vec<Progress>,
    all: Progress,
}

impl Order {
    fn new(items: impl Iterator<Item = (usize, Asid, Fence)>, hardware_threads: usize) -> Order {
        let mut numbers = BTreeMap::new();
        let mut order = Order {
            items: Vec::new(),
            waiting: vec![VecDeque::new(); hardware_threads],
            spaces: Vec::new(),
            all: Progress::default(),
        };
        for (hw, asid, fence) in items {
            let new = numbers.len();
            let space = *numbers.entry(asid).or_insert(new);
            if space == order.spaces.len() {
                order.spaces.push(Progress::default());
            }
            let needs = |progress: &mut Progress, fenced: bool| {
                let need = if fenced { progress.listed } else { progress.to_fence };
                progress.listed += 1;
                if fenced {
                    progress.to_fence = progress.listed;
                }
                need
            };
            let in_space = needs(&mut order.spaces[space], fence >= Fence::Space);
            let in_all = needs(&mut order.all, fence == Fence::All);
            order.waiting[hw].push_back(order.items.len());
            order.items.push((hw, space, fence, [in_space, in_all]));
        }
        order
    }

    /// Takes the item that can begin first, with the time at which it can: of each hardware thread the next, if what it
    /// has to wait for is done. `clock` says where each stands.
    fn next(&mut self, clock: impl Fn(usize) -> u64) -> Option<(usize, u64)> {
        let ready = (0..self.waiting.len()).filter_map(|hw| {
            let &item = self.waiting[hw].front()?;
            let (_, space, fence, needs) = self.items[item];
            let space = &self.spaces[space];
            (space.done >= needs[0] && self.all.done >= needs[1]).then(|| {
                let after = match fence {
                    Fence::None => space.fence.max(self.all.fence),
                    Fence::Space => space.end.max(self.all.fence),
                    Fence::All => self.all.end,
                };
                (clock(hw).max(after), hw, item)
            })
        });
        let (start, hw, item) = ready.min()?;
        self.waiting[hw].pop_front();
        Some((item, start))
    }

    /// An item has ended at `end`.
    fn done(&mut self, item: usize, end: u64) {
        let (_, space, fence, _) = self.items[item];
        for (progress, fenced) in [(&mut self.spaces[space], Fence::Space), (&mut self.all, Fence::All)] {
            progress.done += 1;
            progress.end = progress.end.max(end);
            if fence >= fenced {
                progress.fence = progress.fence.max(end);
            }
        }
    }
}

impl Simulation {
    /// Takes a piece of the program into the round, and runs rounds that are whole.
    pub(super) fn take_in_rounds(&mut self, batch: &Arc<Batch>) -> Result<(), SimulationError> {
        for (number, step) in batch.steps.iter().enumerate() {
            if step.tick {
                self.run_round()?;
                self.rounds.tick = true;
            }
            self.rounds.add(batch, number);
        }
        if batch.last { self.run_round() } else { Ok(()) }
    }

    fn run_round(&mut self) -> Result<(), SimulationError> {
        let items = std::mem::take(&mut self.rounds.items);
        self.rounds.fresh = true;
        let tick = std::mem::take(&mut self.rounds.tick);
        let hardware_threads = self.processor.hardware_threads();
        if let Some(first) = items.first().filter(|_| tick) {
            self.go_to(first.hw);
            self.tick()?;
        }
        let mut order = Order::new(items.iter().map(|item| (item.hw, item.space, item.fence)), hardware_threads);
        while let Some((at, start)) = order.next(|hw| self.clock(hw)) {
            let item = &items[at];
            self.go_to(item.hw);
            self.wait_until(start);
            self.run_item(item)?;
            order.done(at, self.clock(item.hw));
            if self.checks {
                self.check();
            }
        }
        let last = (0..hardware_threads).map(|hw| self.clock(hw)).max().unwrap_or(0);
        for hw in 0..hardware_threads {
            self.go_to(hw);
            self.wait_until(last);
        }
        Ok(())
    }

    fn run_item(&mut self, item: &Item) -> Result<(), SimulationError> {
        let software = (item.process, item.thread);
        if self.hardware_threads.goes_over(item.hw, software) {
            self.serialise(true);
        }
        if self.ran != Some(software) {
            self.ran = Some(software);
            self.event(&Event::Switch { asid: item.process, thread: item.thread })?;
        }
        for Part { batch, events, step } in &item.parts {
            if self.code.blocks() < batch.code.blocks() {
                self.code.clone_from(&batch.code);
            }
            for (_, event) in &batch.chunk.events[events.clone()] {
                self.notice(event)?;
            }
            if let Some(step) = step {
                self.references(&batch.chunk, &batch.steps[*step])?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs items of a given length each; returns which began when.
    fn run(items: &[(usize, u32, Fence, u64)], hardware_threads: usize) -> Vec<(usize, u64)> {
        let listed = items.iter().map(|&(hw, space, fence, _)| (hw, Asid(space), fence));
        let (mut order, mut clocks, mut begun) =
            (Order::new(listed, hardware_threads), vec![0; hardware_threads], Vec::new());
        while let Some((item, start)) = order.next(|hw| clocks[hw]) {
            let (hw, .., takes) = items[item];
            assert!(start >= clocks[hw]);
            clocks[hw] = start + takes;
            order.done(item, clocks[hw]);
            begun.push((item, start));
        }
        begun
    }

    #[test]
    fn who_is_behind_goes_on() {
        let none = Fence::None;
        let items = [(0, 1, none, 10), (0, 1, none, 10), (0, 1, none, 10), (1, 2, none, 25), (1, 2, none, 25)];
        assert_eq!(run(&items, 2), [(0, 0), (3, 0), (1, 10), (2, 20), (4, 25)]);
    }

    #[test]
    fn fences_keep_the_order() {
        use Fence::{All, None, Space};
        // Two threads of one process, and another process on a third hardware thread.
        let items =
            [(0, 1, None, 10), (1, 1, None, 40), (0, 1, Space, 5), (1, 1, None, 5), (2, 2, None, 100), (0, 1, All, 1)];
        let begun = run(&items, 3);
        assert_eq!(begun, [(0, 0), (1, 0), (4, 0), (2, 40), (3, 45), (5, 100)]);
        // Every order of conflicting items is the source's, and everything runs, whatever there is.
        let mut random = reach_core::Random::new(5);
        for _ in 0..300 {
            let mut draw = |n: u64| random.below(n);
            let items: Vec<_> = (0..40)
                .map(|_| {
                    let fence = [None, None, None, Space, All][draw(5) as usize];
                    (draw(3) as usize, draw(2) as u32, fence, draw(9))
                })
                .collect();
            let begun = run(&items, 3);
            assert_eq!(begun.len(), items.len());
            for (place, &(item, start)) in begun.iter().enumerate() {
                for &(later, _) in &begun[..place] {
                    let ((hw, space, fence, _), (other, other_space, other_fence, takes)) = (items[item], items[later]);
                    let conflict = fence.max(other_fence) == All
                        || space == other_space && fence.max(other_fence) == Space
                        || hw == other;
                    assert!(!conflict || later < item);
                    let ended = begun.iter().find(|b| b.0 == later).unwrap().1 + takes;
                    assert!(!conflict || ended <= start);
                }
            }
        }
    }
}
