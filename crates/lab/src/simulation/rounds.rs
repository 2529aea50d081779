//! Several hardware threads: which part of a program runs where, and in which order.
//!
//! A source gives the references of all software threads in one order. A software thread is placed on a hardware thread
//! when it first appears, in turn, and stays there. The program is taken in *rounds* of
//! [`reach_core::TICK_INSTRUCTIONS`] instructions, and a round in *items*: at most a slice of instructions of one software
//! thread. Within a round, the hardware thread whose clock is furthest behind runs one item, if it may. So hardware threads
//! run side by side, whatever the order of the source. The source's order is kept for
//! - items of one hardware thread;
//! - what changes an address space, against everything else in it;
//! - fork, exec, exit and the first use of a file, against everything.
//!
//! A hardware thread that waits is idle. At the end of a round all wait for the last. Where the source cuts chunks does not
//! matter.

mod order;

use super::{Simulation, SimulationError};
use crate::prepare::Batch;
use order::Order;
use reach_core::{Advice, Asid, Event, Step, ThreadId};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// The other items that an item must be ordered against.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Fence {
    /// Fences of others only.
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
            Event::Switch { .. } | Event::SystemCall(_) => Fence::None,
            // Fills memory, as a reference does.
            Event::Advise(_, Advice::PopulateRead | Advice::PopulateWrite | Advice::WillNeed) => Fence::None,
            Event::Map(_) | Event::Unmap(_) | Event::Protect(..) | Event::Remap(_) | Event::Advise(..) => Fence::Space,
            Event::File { .. }
            | Event::Fork { .. }
            | Event::Exec { .. }
            | Event::Exit
            | Event::Phase(_)
            | Event::Mark(_) => Fence::All,
        }
    }
}

/// Events of a batch, then the references of one of its steps, if any.
#[derive(Debug)]
struct Part {
    batch: Arc<Batch>,
    events: Range<usize>,
    step: Option<usize>,
}

/// A software thread.
type SoftwareThread = (Asid, ThreadId);

/// Work that runs without another hardware thread in between.
#[derive(Debug)]
struct WorkItem {
    hw: usize,
    thread: SoftwareThread,
    /// The process whose address space it runs in.
    space: Asid,
    fence: Fence,
    parts: Vec<Part>,
    /// It has references, so further events belong to the next item.
    full: bool,
}

/// The round that is being filled, and the places of software threads.
#[derive(Debug, Default)]
pub(super) struct Rounds {
    placed: BTreeMap<SoftwareThread, usize>,
    /// Processes that run in another's address space (vfork), and that process.
    borrowed: BTreeMap<Asid, Asid>,
    /// The software thread that the source is at.
    current: SoftwareThread,
    items: Vec<WorkItem>,
    /// The next part begins an item.
    fresh: bool,
    /// Daemons may run when the round begins.
    tick: bool,
    /// The software thread that each hardware thread ran last.
    last: Vec<Option<SoftwareThread>>,
    /// The software thread that the operating system takes to be running.
    running: Option<SoftwareThread>,
}

impl Rounds {
    /// Makes an empty round on `hardware_threads`.
    pub fn on(hardware_threads: usize) -> Rounds {
        Rounds { last: vec![None; hardware_threads], fresh: true, ..Rounds::default() }
    }

    /// Adds a step.
    fn add(&mut self, batch: &Arc<Batch>, number: usize) {
        let step: &Step = &batch.steps[number];
        self.fresh |= step.slice || step.tick;
        let mut from = step.events.start;
        for at in step.events.clone() {
            let event = &batch.chunk.events[at].1;
            if let Event::Switch { asid, thread } = *event {
                self.add_part(batch, from..at, None);
                self.current = (asid, thread);
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
                // The process runs in the borrowed address space until then.
                Event::Exec { .. } | Event::Exit => drop(self.borrowed.remove(&self.current.0)),
                _ => {}
            }
        }
        self.add_part(batch, from..step.events.end, (step.counts.references() > 0).then_some(number));
    }

    /// Returns the item that takes the next part. `events`: the part has events.
    fn item(&mut self, events: bool) -> &mut WorkItem {
        let fresh = self.fresh || events && self.items.last().is_some_and(|item| item.full);
        if fresh || self.items.is_empty() {
            let thread = self.current;
            let next = self.placed.len() % self.last.len();
            let hw = *self.placed.entry(thread).or_insert(next);
            let space = self.borrowed.get(&thread.0).copied().unwrap_or(thread.0);
            self.items.push(WorkItem { hw, thread, space, fence: Fence::None, parts: Vec::new(), full: false });
            self.fresh = false;
        }
        self.items.last_mut().expect("one was just made if there was none")
    }

    fn add_part(&mut self, batch: &Arc<Batch>, events: Range<usize>, step: Option<usize>) {
        if events.is_empty() && step.is_none() {
            return;
        }
        let item = self.item(!events.is_empty());
        item.full |= step.is_some();
        item.parts.push(Part { batch: Arc::clone(batch), events, step });
    }

    /// Takes the items of the round and begins the next round. The flag says whether daemons may run first.
    fn take(&mut self) -> (Vec<WorkItem>, bool) {
        self.fresh = true;
        (std::mem::take(&mut self.items), std::mem::take(&mut self.tick))
    }
}

impl Simulation {
    /// Adds a piece of the program to the round, and runs the rounds that it completes.
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
        let (items, tick) = self.rounds.take();
        let hardware_threads = self.hardware.processor.hardware_threads();
        if let Some(first) = items.first().filter(|_| tick) {
            self.go_to(first.hw);
            self.tick()?;
        }
        let mut order = Order::new(items.iter().map(|item| (item.hw, item.space, item.fence)), hardware_threads);
        while let Some((number, start)) = order.next(|hw| self.clock(hw)) {
            let item = &items[number];
            self.go_to(item.hw);
            self.wait_until(start);
            self.run_item(item)?;
            order.done(number, self.clock(item.hw));
            if self.checks_laws {
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

    fn run_item(&mut self, item: &WorkItem) -> Result<(), SimulationError> {
        if self.rounds.last[item.hw].replace(item.thread).is_some_and(|last| last != item.thread) {
            self.hardware.serialise(true);
        }
        if self.rounds.running != Some(item.thread) {
            self.rounds.running = Some(item.thread);
            let (asid, thread) = item.thread;
            self.event(&Event::Switch { asid, thread })?;
        }
        for Part { batch, events, step } in &item.parts {
            self.hardware.learn(&batch.code);
            for (_, event) in &batch.chunk.events[events.clone()] {
                self.notice(event)?;
            }
            if let Some(step) = step {
                self.references(batch, &batch.steps[*step])?;
            }
        }
        Ok(())
    }
}
