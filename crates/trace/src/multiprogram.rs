//! Several programs in one machine, one after the other or taking turns: a source made of sources.
//!
//! Each program numbers its address spaces, threads, blocks and files from zero. Here they get numbers that no other has;
//! only files are shared, by their paths, so that a page cache serves all programs and outlives each of them. Turns end at
//! the first fetch at which the quantum of instructions is used up, wherever the programs cut their chunks.

mod numbers;
mod turn;

use crate::{Progress, Source, TraceError};
use numbers::Numbers;
use reach_core::{Asid, BlockTable, Chunk, Event, ThreadId};
use std::collections::VecDeque;
use turn::Turn;

/// References in a chunk, as synthetic programs fill it.
const CHUNK_REFS: usize = 128 << 10;

/// Opens a program from its beginning.
pub type Open = Box<dyn Fn() -> Result<Box<dyn Source>, TraceError> + Send>;

/// When a program starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// When so many instructions have been executed by all programs together, or when nothing else is left to run.
    At(u64),
    /// When the member with this number, which comes earlier in the list, has ended for the last time.
    After(usize),
}

/// One program of several.
pub struct Member {
    /// What its processes are called until they execute something else.
    pub name: String,
    /// Opens it.
    pub open: Open,
    /// When it starts for the first time.
    pub start: Start,
    /// How often it runs, each time as a new process: at least once.
    pub repeat: u64,
    /// Instructions of all programs together from one start to the next; without them it starts anew when it has ended. It
    /// never runs twice at the same time.
    pub every: Option<u64>,
    /// Instructions of its own turns, in place of the quantum: of a program that mostly waits.
    pub turn: Option<u64>,
    /// It lives as long as any program that does not, and ends with the last.
    pub background: bool,
}

impl Member {
    /// A program that starts at once and runs once.
    pub fn new(name: String, open: Open) -> Member {
        Member { name, open, start: Start::At(0), repeat: 1, every: None, turn: None, background: false }
    }
}

/// Several programs as one.
pub struct Multiprogram {
    name: String,
    quantum: Option<u64>,
    members: Vec<Running>,
    /// Who wants to run, in turn. The first has the processor.
    ready: VecDeque<usize>,
    /// Whose instructions the last reference belongs to.
    current: Option<(Asid, ThreadId)>,
    /// Executed by all together.
    instructions: u64,
    /// Executed in this turn.
    used: u64,
    numbers: Numbers,
    chunk_refs: usize,
}

/// A member and how far it has come.
struct Running {
    member: Member,
    turn: Option<Turn>,
    /// When it started last, if it has.
    since: Option<u64>,
    /// How often it has ended.
    ends: u64,
    /// When it is to start next; nothing while it runs or waits for another's end.
    due: Option<u64>,
}

impl Multiprogram {
    /// Programs that take turns of `quantum` instructions each; without a quantum, who runs runs to its end.
    pub fn new(name: String, members: Vec<Member>, quantum: Option<u64>) -> Multiprogram {
        let running = |member: Member| {
            let due = if let Start::At(at) = member.start { Some(at) } else { None };
            Running { member, turn: None, since: None, ends: 0, due }
        };
        Multiprogram {
            name: name.chars().filter(|c| !c.is_control()).collect(),
            quantum,
            members: members.into_iter().map(running).collect(),
            ready: VecDeque::new(),
            current: None,
            instructions: 0,
            used: 0,
            numbers: Numbers::default(),
            chunk_refs: CHUNK_REFS,
        }
    }

    /// Starts every program whose time has come, in the order of the list; where nobody is ready, the next one's time
    /// comes at once, for an idle machine executes nothing.
    fn start_due(&mut self) -> Result<(), TraceError> {
        let now = if self.ready.is_empty() {
            self.members.iter().filter_map(|m| m.due).min().map_or(self.instructions, |due| due.max(self.instructions))
        } else {
            self.instructions
        };
        for at in 0..self.members.len() {
            let running = &mut self.members[at];
            if running.due.is_some_and(|due| due <= now) {
                let turn = Turn::new((running.member.open)()?, running.member.name.clone());
                running.turn = Some(turn);
                running.since = Some(self.instructions);
                running.due = None;
                self.numbers.forget(at);
                self.ready.push_back(at);
            }
        }
        Ok(())
    }

    /// Member number `at` has ended: its next start is decided, and those of who waited for its last end.
    fn ended(&mut self, at: usize) {
        let now = self.instructions;
        let running = &mut self.members[at];
        running.turn = None;
        running.ends += 1;
        if running.ends < running.member.repeat {
            let every = running.member.every.unwrap_or(0);
            let due = running.since.map_or(now, |since| since.saturating_add(every));
            running.due = Some(due.max(now));
            return;
        }
        for waiting in &mut self.members {
            if waiting.member.start == Start::After(at) && waiting.since.is_none() {
                waiting.due = Some(now);
            }
        }
    }

    /// Gives the processor to the next in turn.
    fn rotate(&mut self, chunk: &mut Chunk) {
        self.used = 0;
        if self.ready.len() > 1 {
            self.ready.rotate_left(1);
        }
        self.resume(chunk);
    }

    /// The first in turn goes on where it was, if it has begun.
    fn resume(&mut self, chunk: &mut Chunk) {
        let Some(turn) = self.ready.front().and_then(|&at| self.members[at].turn.as_ref()) else { return };
        if let Some((asid, thread)) = turn.at
            && self.current != turn.at
        {
            chunk.push_event(Event::Switch { asid, thread });
            self.current = turn.at;
        }
    }
}

impl Multiprogram {
    /// Whether only programs in the background are left.
    fn only_background(&self) -> bool {
        self.members.iter().all(|m| m.member.background || m.ends >= m.member.repeat)
    }

    /// Ends whatever runs.
    fn end_all(&mut self, chunk: &mut Chunk) {
        self.ready.clear();
        for running in &mut self.members {
            if let Some(mut turn) = running.turn.take() {
                turn.exit(chunk, self.current);
                self.current = turn.at;
            }
            running.due = None;
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
            // Until the quantum is used up, or somebody else is to start.
            let whole = self.quantum.map(|quantum| self.members[at].member.turn.unwrap_or(quantum));
            let quantum = whole.map(|quantum| quantum.saturating_sub(self.used));
            let start = next_start.map(|due| due.saturating_sub(self.instructions));
            let budget = [quantum, start].into_iter().flatten().min().unwrap_or(u64::MAX);
            let room = self.chunk_refs - chunk.refs.len();
            let turn = self.members[at].turn.as_mut().expect("who is ready has been opened");
            let (spent, end) = turn.run(at, &mut self.numbers, chunk, budget, room)?;
            self.current = turn.at;
            self.instructions += spent;
            self.used += spent;
            match end {
                turn::End::Room => {}
                // Who starts now waits behind those who wait already. This happens where the programs' instructions
                // say, and never where chunks are cut.
                turn::End::Budget => {
                    self.start_due()?;
                    if whole.is_some_and(|quantum| self.used >= quantum) {
                        self.rotate(chunk);
                    }
                }
                turn::End::Program => {
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
        self.numbers.blocks()
    }

    fn name(&self) -> &str {
        &self.name
    }

    /// In thousandths of a run of a program, where each knows its own length.
    fn progress(&self) -> Progress {
        let (mut done, mut total) = (0, Some(0));
        for running in self.members.iter().filter(|running| !running.member.background) {
            total = total.map(|total| total + 1000 * running.member.repeat);
            done += 1000 * running.ends;
            if let Some(turn) = &running.turn {
                match turn.progress() {
                    Progress { done: part, total: Some(whole) } => {
                        done += (1000.0 * part as f64 / whole.max(1) as f64) as u64;
                    }
                    Progress { total: None, .. } => total = None,
                }
            }
        }
        Progress { done, total }
    }
}

#[cfg(test)]
mod tests;
