//! One run of one program, read piece by piece.

use super::numbers::Numbers;
use crate::filter::sample::is_sample;
use crate::{Progress, Source, TraceError};
use reach_core::{Asid, Chunk, Event, Kind, ThreadId};
use std::collections::BTreeSet;

/// Why a turn is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The next reference is a fetch, and the instructions allowed are used up.
    Budget,
    /// No more references were wanted.
    Room,
    /// The program has ended, and its processes with it.
    Program,
}

/// A run of a program.
pub(super) struct Turn {
    source: Box<dyn Source>,
    name: String,
    /// What its source gave last, and how much of that has been taken: references, fetches, events.
    chunk: Chunk,
    refs: usize,
    fetches: usize,
    events: usize,
    /// The address space and thread that it is in, in numbers that all share.
    pub at: Option<(Asid, ThreadId)>,
    /// Its first process has been given its name, or had one.
    named: bool,
    /// Address spaces that it has begun and not left.
    alive: BTreeSet<Asid>,
}

impl Turn {
    pub fn new(source: Box<dyn Source>, name: String) -> Turn {
        let (chunk, alive) = (Chunk::default(), BTreeSet::new());
        Turn { source, name, chunk, refs: 0, fetches: 0, events: 0, at: None, named: false, alive }
    }

    pub fn progress(&self) -> Progress {
        self.source.progress()
    }

    /// Appends what comes next to `out`: at most `room` references, up to the first fetch before which `budget`
    /// instructions have been executed. Says how many were.
    pub fn run(
        &mut self,
        member: usize,
        numbers: &mut Numbers,
        out: &mut Chunk,
        budget: u64,
        room: usize,
    ) -> Result<(u64, End), TraceError> {
        let full = out.refs.len() + room;
        let mut spent = 0;
        loop {
            if self.refs == self.chunk.refs.len() && self.events == self.chunk.events.len() {
                if !self.source.fill(&mut self.chunk)? {
                    let at = self.at;
                    self.exit(out, at);
                    return Ok((spent, End::Program));
                }
                (self.refs, self.fetches, self.events) = (0, 0, 0);
                if is_sample(&self.chunk) {
                    let what = format!("{}: a sample cannot run beside others; record the whole program", self.name);
                    return Err(TraceError::Invalid(what));
                }
            }
            let blocks = numbers.learn(member, self.source.blocks());
            let until = match self.chunk.events.get(self.events) {
                Some((at, _)) if *at as usize <= self.refs => {
                    let event = self.chunk.events[self.events].1.clone();
                    self.events += 1;
                    self.event(member, numbers, out, event);
                    continue;
                }
                Some((at, _)) => (*at as usize).min(self.chunk.refs.len()),
                None => self.chunk.refs.len(),
            };
            let until = until.min(self.refs + (full - out.refs.len()));
            self.name(out);
            let first = self.refs;
            let mut stop = None;
            for r in &self.chunk.refs[first..until] {
                if r.kind() == Kind::Fetch {
                    if spent >= budget {
                        stop = Some(End::Budget);
                        break;
                    }
                    let theirs = self.chunk.fetched[self.fetches];
                    self.fetches += 1;
                    spent += u64::from(self.source.blocks().get(theirs).instructions);
                    out.fetched.push(blocks[theirs.0 as usize]);
                }
                self.refs += 1;
            }
            out.refs.extend_from_slice(&self.chunk.refs[first..self.refs]);
            match stop {
                Some(end) => return Ok((spent, end)),
                None if out.refs.len() >= full => return Ok((spent, End::Room)),
                None => {}
            }
        }
    }

    /// Whoever starts among others does so by exec, which gives its process a name. Captured programs say so themselves.
    fn name(&mut self, out: &mut Chunk) {
        if !std::mem::replace(&mut self.named, true) {
            out.push_event(Event::Exec { path: self.name.clone() });
        }
    }

    fn event(&mut self, member: usize, numbers: &mut Numbers, out: &mut Chunk, event: Event) {
        match event {
            Event::Switch { .. } => {}
            Event::Exec { .. } => self.named = true,
            _ => self.name(out),
        }
        let Some(event) = numbers.event(member, event) else { return };
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

    /// Ends what the program left running, as a trace does that was cut off. `current` has the processor.
    pub fn exit(&mut self, out: &mut Chunk, mut current: Option<(Asid, ThreadId)>) {
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
