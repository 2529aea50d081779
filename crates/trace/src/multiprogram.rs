//! Several programs on one machine, one after the other or in turns: a source made of sources.
//!
//! Each program numbers its address spaces, threads, blocks and files from zero. Here they get numbers that are unique
//! among all programs. Only files are shared, by their paths, so that one page cache serves all programs and outlives each
//! of them. A turn ends at the first fetch at which the quantum of instructions is used up; the chunks of the programs do
//! not matter.

mod renumber;
mod turn;

use crate::{Ending, Progress, Source, TraceError};
use reach_core::{Asid, BlockTable, Chunk, Event, Mark, ThreadId};
use renumber::Renumbering;
use std::collections::VecDeque;
use turn::{Run, TurnEnd};

/// The references in a chunk, as many as synthetic programs give.
const CHUNK_REFS: usize = 128 << 10;

/// A function that opens a program from its beginning.
pub type Open = Box<dyn Fn() -> Result<Box<dyn Source>, TraceError> + Send>;

/// The time when a program starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// After this many instructions of all programs together, or as soon as no other program can run.
    At(u64),
    /// After the last end of the member with this number, which must come earlier in the list.
    After(usize),
}

/// One program of a [`Multiprogram`].
pub struct Member {
    /// The name of its processes until they exec another program.
    pub name: String,
    /// Opens the program for each run.
    pub open: Open,
    /// The time of the first start.
    pub start: Start,
    /// The number of runs, at least 1. Each run is a new process.
    pub repeat: u64,
    /// The distance between starts, in instructions of all programs together; `None` restarts the program as soon as it has
    /// ended. A program never runs twice at the same time.
    pub every: Option<u64>,
    /// The instructions of its turns, in place of the quantum, for programs that mostly wait.
    pub turn: Option<u64>,
    /// Whether the program runs in the background: it ends with the last program that does not.
    pub background: bool,
}

impl Member {
    /// Returns a program that starts at once and runs once.
    pub fn new(name: String, open: Open) -> Member {
        Member { name, open, start: Start::At(0), repeat: 1, every: None, turn: None, background: false }
    }
}

/// Several programs as one.
pub struct Multiprogram {
    name: String,
    quantum: Option<u64>,
    members: Vec<MemberState>,
    /// The members that can run, by their numbers. The first has the processor.
    ready: VecDeque<usize>,
    /// The process and thread of the last reference.
    current: Option<(Asid, ThreadId)>,
    /// Instructions executed by all programs together.
    instructions: u64,
    /// Instructions executed in this turn.
    used: u64,
    renumbering: Renumbering,
    /// The guests that members run in, in turn; 1 where the machine has no others.
    guests: u32,
    /// The guest of the last reference.
    guest: u32,
    chunk_refs: usize,
    /// The endings of all runs that have ended.
    ending: Ending,
}

/// A member and its progress.
struct MemberState {
    member: Member,
    /// The present run; `None` between runs.
    run: Option<Run>,
    /// The time of the last start; `None` before the first.
    started: Option<u64>,
    /// The number of completed runs.
    ends: u64,
    /// The time of the next start; `None` while the member runs or waits for another's end.
    due: Option<u64>,
}

impl Multiprogram {
    /// Runs `members` in turns of `quantum` instructions each; without a quantum, each runs to its end.
    pub fn new(name: String, members: Vec<Member>, quantum: Option<u64>) -> Multiprogram {
        let not_started = |member: Member| {
            let due = if let Start::At(at) = member.start { Some(at) } else { None };
            MemberState { member, run: None, started: None, ends: 0, due }
        };
        Multiprogram {
            name: name.chars().filter(|c| !c.is_control()).collect(),
            quantum,
            members: members.into_iter().map(not_started).collect(),
            ready: VecDeque::new(),
            current: None,
            instructions: 0,
            used: 0,
            renumbering: Renumbering::default(),
            guests: 1,
            guest: 0,
            chunk_refs: CHUNK_REFS,
            ending: Ending::default(),
        }
    }

    /// Distributes the members over `guests` guests, at least 1, in turn: the first member runs in guest 0. [`Mark::Guest`] says where
    /// another guest begins to run.
    ///
    /// ```
    /// use reach_core::{Chunk, Event, Mark};
    /// use reach_trace::{Multiprogram, Source, scenario};
    ///
    /// let members = vec![scenario::synthetic_member("touch:bytes=64K")?, scenario::synthetic_member("fft3:n=4")?];
    /// let mut programs = Multiprogram::new("two".into(), members, None).in_guests(2);
    /// let mut chunk = Chunk::default();
    /// programs.fill(&mut chunk)?;
    /// let marks = chunk.events.iter().filter(|(_, event)| matches!(event, Event::Mark(Mark::Guest { number: 1 })));
    /// assert_eq!(marks.count(), 1);
    /// # Ok::<(), reach_trace::TraceError>(())
    /// ```
    #[must_use]
    pub fn in_guests(self, guests: u32) -> Multiprogram {
        Multiprogram { guests: guests.max(1), ..self }
    }

    /// Enters the guest of member number `at`.
    fn enter_guest(&mut self, at: usize, chunk: &mut Chunk) {
        let number = (at % self.guests as usize) as u32;
        if self.guest != number {
            self.guest = number;
            chunk.push_event(Event::Mark(Mark::Guest { number }));
        }
    }

    /// Starts all programs that are due, in the order of the list. Where no program is ready, the next one starts at once,
    /// because time only passes when instructions are executed.
    fn start_due(&mut self) -> Result<(), TraceError> {
        let now = if self.ready.is_empty() {
            self.members.iter().filter_map(|m| m.due).min().map_or(self.instructions, |due| due.max(self.instructions))
        } else {
            self.instructions
        };
        for at in 0..self.members.len() {
            let state = &mut self.members[at];
            if state.due.is_some_and(|due| due <= now) {
                let run = Run::new((state.member.open)()?, state.member.name.clone());
                state.run = Some(run);
                state.started = Some(self.instructions);
                state.due = None;
                self.renumbering.forget(at);
                self.ready.push_back(at);
            }
        }
        Ok(())
    }

    /// Handles the end of a run of member number `at`: sets its next start, and those of members that wait for its last end.
    fn ended(&mut self, at: usize) {
        let now = self.instructions;
        let state = &mut self.members[at];
        if let Some(mut run) = state.run.take() {
            self.ending.absorb(&state.member.name, run.ending());
        }
        state.ends += 1;
        if state.ends < state.member.repeat {
            let every = state.member.every.unwrap_or(0);
            let due = state.started.map_or(now, |started| started.saturating_add(every));
            state.due = Some(due.max(now));
            return;
        }
        for waiting in &mut self.members {
            if waiting.member.start == Start::After(at) && waiting.started.is_none() {
                waiting.due = Some(now);
            }
        }
    }

    /// Gives the processor to the next ready member.
    fn rotate(&mut self, chunk: &mut Chunk) {
        self.used = 0;
        if self.ready.len() > 1 {
            self.ready.rotate_left(1);
        }
        self.resume(chunk);
    }

    /// Switches to the process of the first ready member, if it has begun.
    fn resume(&mut self, chunk: &mut Chunk) {
        let Some(&at) = self.ready.front() else { return };
        let Some(Some((asid, thread))) = self.members[at].run.as_ref().map(|run| run.at) else { return };
        self.enter_guest(at, chunk);
        if self.current != Some((asid, thread)) {
            chunk.push_event(Event::Switch { asid, thread });
            self.current = Some((asid, thread));
        }
    }

    /// Returns whether only programs in the background are left.
    fn only_background(&self) -> bool {
        self.members.iter().all(|m| m.member.background || m.ends >= m.member.repeat)
    }

    /// Ends all present runs.
    fn end_all(&mut self, chunk: &mut Chunk) {
        self.ready.clear();
        for at in 0..self.members.len() {
            if let Some(mut run) = self.members[at].run.take() {
                self.enter_guest(at, chunk);
                run.exit_all(chunk, self.current);
                self.current = run.at;
                self.ending.absorb(&self.members[at].member.name, run.ending());
            }
            self.members[at].due = None;
        }
    }
}

impl Source for Multiprogram {
    fn fill(&mut self, chunk: &mut Chunk) -> Result<bool, TraceError> {
        chunk.clear();
        while chunk.refs.len() < self.chunk_refs {
            if self.only_background() {
                self.end_all(chunk);
                break;
            }
            if self.ready.is_empty() {
                self.start_due()?;
            }
            let Some(&at) = self.ready.front() else { break };
            let next_start = self.members.iter().filter_map(|m| m.due).min();
            // The turn lasts until the quantum is used up, or another program is due to start.
            let whole_turn = self.quantum.map(|quantum| self.members[at].member.turn.unwrap_or(quantum));
            let quantum = whole_turn.map(|quantum| quantum.saturating_sub(self.used));
            let start = next_start.map(|due| due.saturating_sub(self.instructions));
            let budget = [quantum, start].into_iter().flatten().min().unwrap_or(u64::MAX);
            let room = self.chunk_refs - chunk.refs.len();
            self.enter_guest(at, chunk);
            let run = self.members[at].run.as_mut().expect("a ready member has been opened");
            let (spent, end) = run.advance(at, &mut self.renumbering, chunk, budget, room)?;
            self.current = run.at;
            self.instructions += spent;
            self.used += spent;
            match end {
                TurnEnd::Full => {}
                // A program that starts now is ready after all others. The place depends on the instructions that were
                // executed, never on where chunks are cut.
                TurnEnd::Budget => {
                    self.start_due()?;
                    if whole_turn.is_some_and(|quantum| self.used >= quantum) {
                        self.rotate(chunk);
                    }
                }
                TurnEnd::Program => {
                    self.ready.pop_front();
                    self.used = 0;
                    self.ended(at);
                    self.start_due()?;
                    self.resume(chunk);
                }
            }
        }
        Ok(!chunk.is_empty())
    }

    fn blocks(&self) -> &BlockTable {
        self.renumbering.blocks()
    }

    fn name(&self) -> &str {
        &self.name
    }

    /// Counts thousandths of runs. The total is known where each program knows its own length.
    fn progress(&self) -> Progress {
        let (mut done, mut total) = (0, Some(0));
        for state in self.members.iter().filter(|state| !state.member.background) {
            total = total.map(|total| total + 1000 * state.member.repeat);
            done += 1000 * state.ends;
            if let Some(run) = &state.run {
                match run.progress() {
                    Progress { done: part, total: Some(whole) } => {
                        done += (1000.0 * part as f64 / whole.max(1) as f64) as u64;
                    }
                    Progress { total: None, .. } => total = None,
                }
            }
        }
        Progress { done, total }
    }

    fn ending(&mut self) -> Ending {
        let mut ending = self.ending.clone();
        for MemberState { member, run, .. } in &mut self.members {
            if let Some(run) = run {
                ending.absorb(&member.name, run.ending());
            }
        }
        ending
    }
}

#[cfg(test)]
mod tests;
