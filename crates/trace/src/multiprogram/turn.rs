//! One run of one program, read in turns.

use super::renumber::Renumbering;
use crate::filter::sample::is_sample;
use crate::{Ending, Progress, Source, TraceError};
use reach_core::{Asid, Chunk, Event, Kind, Mark, ThreadId};
use std::collections::BTreeSet;

/// The reason why a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TurnEnd {
    /// The instructions of the turn are used up, and the next reference is a fetch.
    Budget,
    /// The chunk is full.
    Full,
    /// The program has ended, and all its processes.
    Program,
}

/// A run of a program.
pub(super) struct Run {
    source: Box<dyn Source>,
    name: String,
    /// The last chunk of the source.
    chunk: Chunk,
    /// How much of the chunk has been given: references, fetches, events.
    refs: usize,
    fetches: usize,
    events: usize,
    /// The present address space and thread, in unique numbers.
    pub at: Option<(Asid, ThreadId)>,
    /// Whether the first process has a name.
    named: bool,
    /// The address spaces of processes that have not ended.
    alive: BTreeSet<Asid>,
}

impl Run {
    pub fn new(source: Box<dyn Source>, name: String) -> Run {
        let (chunk, alive) = (Chunk::default(), BTreeSet::new());
        Run { source, name, chunk, refs: 0, fetches: 0, events: 0, at: None, named: false, alive }
    }

    pub fn progress(&self) -> Progress {
        self.source.progress()
    }

    pub fn ending(&mut self) -> Ending {
        self.source.ending()
    }

    /// Appends the next references to `out`: at most `room` of them, up to the first fetch before which `budget`
    /// instructions have been executed. Returns the number of executed instructions.
    pub fn advance(
        &mut self,
        member: usize,
        renumbering: &mut Renumbering,
        out: &mut Chunk,
        budget: u64,
        room: usize,
    ) -> Result<(u64, TurnEnd), TraceError> {
        let full = out.refs.len() + room;
        let mut spent = 0;
        loop {
            if self.refs == self.chunk.refs.len() && self.events == self.chunk.events.len() {
                if !self.source.fill(&mut self.chunk)? {
                    let at = self.at;
                    self.exit_all(out, at);
                    return Ok((spent, TurnEnd::Program));
                }
                (self.refs, self.fetches, self.events) = (0, 0, 0);
                if is_sample(&self.chunk) {
                    let message =
                        format!("{}: a sample cannot run with other programs; record the whole program", self.name);
                    return Err(TraceError::Invalid(message));
                }
            }
            let blocks = renumbering.learn(member, self.source.blocks());
            let until = match self.chunk.events.get(self.events) {
                Some((at, _)) if *at as usize <= self.refs => {
                    let event = self.chunk.events[self.events].1.clone();
                    self.events += 1;
                    self.give_event(member, renumbering, out, event);
                    continue;
                }
                Some((at, _)) => (*at as usize).min(self.chunk.refs.len()),
                None => self.chunk.refs.len(),
            };
            let until = until.min(self.refs + (full - out.refs.len()));
            self.name_process(out);
            let first = self.refs;
            let mut stop = None;
            for r in &self.chunk.refs[first..until] {
                if r.kind() == Kind::Fetch {
                    if spent >= budget {
                        stop = Some(TurnEnd::Budget);
                        break;
                    }
                    let own_id = self.chunk.fetched[self.fetches];
                    self.fetches += 1;
                    spent += u64::from(self.source.blocks().get(own_id).instructions);
                    out.fetched.push(blocks[own_id.0 as usize]);
                }
                self.refs += 1;
            }
            out.refs.extend_from_slice(&self.chunk.refs[first..self.refs]);
            match stop {
                Some(end) => return Ok((spent, end)),
                None if out.refs.len() >= full => return Ok((spent, TurnEnd::Full)),
                None => {}
            }
        }
    }

    /// Names the first process by an exec, unless it has a name. Captured programs exec by themselves.
    fn name_process(&mut self, out: &mut Chunk) {
        if !std::mem::replace(&mut self.named, true) {
            out.push_event(Event::Exec { path: self.name.clone() });
        }
    }

    fn give_event(&mut self, member: usize, renumbering: &mut Renumbering, out: &mut Chunk, event: Event) {
        match event {
            // The guests of a recording: all of it runs in one.
            Event::Mark(Mark::Guest { .. }) => return,
            Event::Switch { .. } => {}
            Event::Exec { .. } => self.named = true,
            _ => self.name_process(out),
        }
        let Some(event) = renumbering.event(member, event) else { return };
        match &event {
            Event::Switch { asid, thread } => {
                self.at = Some((*asid, *thread));
                self.alive.insert(*asid);
            }
            Event::Fork { child, .. } => {
                self.alive.insert(*child);
            }
            Event::Exit => {
                if let Some((asid, _)) = self.at {
                    self.alive.remove(&asid);
                }
            }
            _ => {}
        }
        out.push_event(event);
    }

    /// Ends all processes that are left, as in a trace that was cut off. `current` is the process that has the processor.
    pub fn exit_all(&mut self, out: &mut Chunk, mut current: Option<(Asid, ThreadId)>) {
        let Some((_, thread)) = self.at else { return };
        for asid in std::mem::take(&mut self.alive) {
            let at = Some((asid, thread));
            if current != at {
                (self.at, current) = (at, at);
                out.push_event(Event::Switch { asid, thread });
            }
            out.push_event(Event::Exit);
        }
    }
}
