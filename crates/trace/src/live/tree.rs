//! The processes of the traced program, by their numbers in the ring.

use reach_core::{Asid, BlockId, ThreadId};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// The longest time from the announcement of a process to its first record. It covers a fork, which is slow under load.
const MAX_FORK_TIME: Duration = Duration::from_secs(2);

/// The most processes and threads of a program, which are numbered as the program says. All later ones count as one.
const MAX_PROCESSES: usize = 1 << 20;
const MAX_THREADS: usize = 1 << 22;

/// The number of all processes or threads beyond the most.
const BEYOND: u32 = u32::MAX;

/// The state of a process.
pub(super) enum Life {
    /// Its parent has announced it, at this time; it has not written anything.
    Expected(Instant),
    /// It runs. The descriptor becomes readable when it dies; `None` if it died before the descriptor could be opened.
    Running(Option<OwnedFd>),
    /// It has died, and everything it wrote has been read.
    Finished,
}

/// A process of the tree.
pub(super) struct TracedProcess {
    pub(super) asid: Asid,
    pub(super) pid: u32,
    pub(super) life: Life,
    /// Whether it has announced its end. Later records of its threads are dropped.
    pub(super) exited: bool,
    /// The last of its threads that wrote something.
    pub(super) thread: ThreadId,
    /// The block that it executed last; `None` before the first.
    pub(super) last_block: Option<BlockId>,
}

/// All processes of the program, including those that have ended.
#[derive(Default)]
pub(super) struct ProcessTree {
    processes: BTreeMap<u32, TracedProcess>,
    threads: BTreeMap<u32, ThreadId>,
    next_thread: u32,
    /// When the first process started, in the kernel's ticks. Processes that are older belong to somebody else, whatever a
    /// hostile program says.
    since: u64,
}

impl ProcessTree {
    /// Returns process `number`. A new process gets the next address space.
    pub(super) fn process(&mut self, number: u32) -> &mut TracedProcess {
        let is_beyond = self.processes.len() >= MAX_PROCESSES && !self.processes.contains_key(&number);
        let number = if is_beyond { BEYOND } else { number };
        let asid = Asid(self.processes.len() as u32);
        self.processes.entry(number).or_insert_with(|| TracedProcess {
            asid,
            pid: 0,
            life: Life::Expected(Instant::now()),
            exited: false,
            thread: ThreadId(0),
            last_block: None,
        })
    }

    /// Returns the address space of process `number`, which has just been announced. `None` if it is known already.
    pub(super) fn new_process(&mut self, number: u32) -> Option<Asid> {
        let before = self.processes.len();
        let asid = self.process(number).asid;
        (self.processes.len() > before).then_some(asid)
    }

    /// Returns the identity of thread `number` of the ring. A new thread gets the next one.
    pub(super) fn thread(&mut self, number: u32) -> ThreadId {
        let is_beyond = self.threads.len() >= MAX_THREADS && !self.threads.contains_key(&number);
        *self.threads.entry(if is_beyond { BEYOND } else { number }).or_insert_with(|| {
            self.next_thread += 1;
            ThreadId(self.next_thread - 1)
        })
    }

    /// Returns a new thread, which has no number in the ring.
    pub(super) fn new_thread(&mut self) -> ThreadId {
        self.next_thread = self.next_thread.saturating_add(1);
        ThreadId(self.next_thread - 1)
    }

    /// Records that process 0 is process `pid` of this system.
    pub(super) fn set_first(&mut self, pid: u32) {
        self.since = started(pid).unwrap_or(0);
        self.set_pid(0, pid);
    }

    /// Records that process `number` of the ring is process `pid` of this system, unless that is older than the program.
    pub(super) fn set_pid(&mut self, number: u32, pid: u32) {
        let since = self.since;
        let process = self.process(number);
        if matches!(process.life, Life::Expected(_)) {
            let descriptor = open_pidfd(pid);
            if started(pid).is_some_and(|started| started < since) {
                return;
            }
            process.pid = pid;
            process.life = Life::Running(descriptor);
        }
    }

    /// Returns the number of the running process `pid`; `None` where it is not a process of the tree.
    pub(super) fn with_pid(&self, pid: u32) -> Option<u32> {
        let mut running = self.processes.iter().filter(|(_, process)| matches!(process.life, Life::Running(_)));
        running.find(|(_, process)| process.pid == pid).map(|(&number, _)| number)
    }

    /// Returns address space and identifier of each process that has run.
    pub(super) fn pids(&self) -> impl Iterator<Item = (u32, u32)> {
        let known = self.processes.values().filter(|process| process.pid != 0);
        known.map(|process| (process.asid.0, process.pid))
    }

    /// Returns the numbers of the processes that have died and are not finished. With `orphaned`, which says that the first
    /// process has ended, these include announced processes that have not written anything for [`MAX_FORK_TIME`].
    pub(super) fn dead(&self, orphaned: bool) -> Vec<u32> {
        let dead = |process: &TracedProcess| match &process.life {
            Life::Expected(since) => orphaned && since.elapsed() > MAX_FORK_TIME,
            Life::Running(descriptor) => descriptor.as_ref().is_none_or(readable),
            Life::Finished => false,
        };
        self.processes.iter().filter(|(_, process)| dead(process)).map(|(&number, _)| number).collect()
    }

    /// Returns whether any process may still write.
    pub(super) fn any_alive(&self) -> bool {
        self.processes.values().any(|process| !matches!(process.life, Life::Finished))
    }

    /// Returns the numbers of the processes that are not finished.
    pub(super) fn unfinished(&self) -> Vec<u32> {
        let all = self.processes.iter().filter(|(_, process)| !matches!(process.life, Life::Finished));
        all.map(|(&number, _)| number).collect()
    }
}

/// Returns when process `pid` started, in ticks; `None` where it does not exist.
fn started(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may hold anything. The start is field 22.
    status.rsplit_once(')')?.1.split_ascii_whitespace().nth(19)?.parse().ok()
}

/// Returns a descriptor that becomes readable when process `pid` dies; `None` where the process does not exist.
fn open_pidfd(pid: u32) -> Option<OwnedFd> {
    pidfd_open(Pid::from_raw(i32::try_from(pid).ok()?)?, PidfdFlags::empty()).ok()
}

/// Returns whether `descriptor` is readable.
fn readable(descriptor: &OwnedFd) -> bool {
    let mut descriptors = [PollFd::new(descriptor, PollFlags::IN)];
    poll(&mut descriptors, Some(&Timespec::default())) == Ok(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_is_older_than_the_program_is_nobody_of_its_tree() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let mut tree = ProcessTree::default();
        tree.set_first(child.id());
        tree.set_pid(1, 1);
        assert_eq!((tree.with_pid(child.id()), tree.with_pid(1)), (Some(0), None));
        assert!(tree.dead(false).is_empty());
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(tree.dead(false), [0]);
    }
}
