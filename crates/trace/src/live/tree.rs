//! The processes of the traced tree, by their numbers in the ring.

use reach_core::{Asid, ThreadId};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd};
use std::time::{Duration, Instant};

/// How long a process that was announced may take to write something: no longer than a fork, which under load may be
/// long.
const BIRTH: Duration = Duration::from_secs(2);

/// Where a process is in its life.
pub(super) enum Life {
    /// Announced by its parent, not yet heard of.
    Expected(Instant),
    /// Known; the descriptor becomes readable when it dies. `None` when it was dead before it could be opened.
    Running(Option<File>),
    /// Dead, and everything it wrote has been read.
    Buried,
}

/// A process of the tree.
pub(super) struct Process {
    pub(super) asid: Asid,
    pub(super) pid: u32,
    pub(super) life: Life,
    /// It has said that it ends: what its threads still write does not count.
    pub(super) exited: bool,
    /// Its last thread that was heard of.
    pub(super) thread: ThreadId,
}

/// All processes that ever were.
#[derive(Default)]
pub(super) struct Tree {
    processes: BTreeMap<u32, Process>,
    threads: BTreeMap<u32, ThreadId>,
    next_thread: u32,
}

impl Tree {
    /// A process by its number; new ones get the next address space.
    pub(super) fn process(&mut self, number: u32) -> &mut Process {
        let asid = Asid(self.processes.len() as u32);
        self.processes.entry(number).or_insert_with(|| Process {
            asid,
            pid: 0,
            life: Life::Expected(Instant::now()),
            exited: false,
            thread: ThreadId(0),
        })
    }

    /// A thread by its number; new ones get the next.
    pub(super) fn thread(&mut self, number: u32) -> ThreadId {
        *self.threads.entry(number).or_insert_with(|| {
            self.next_thread += 1;
            ThreadId(self.next_thread - 1)
        })
    }

    /// A thread that never ran.
    pub(super) fn spare_thread(&mut self) -> ThreadId {
        self.next_thread += 1;
        ThreadId(self.next_thread - 1)
    }

    /// Process `number` is process `pid` of this system.
    pub(super) fn meet(&mut self, number: u32, pid: u32) {
        let process = self.process(number);
        if matches!(process.life, Life::Expected(_)) {
            process.pid = pid;
            process.life = Life::Running(open(pid));
        }
    }

    /// The number of the running process `pid`.
    pub(super) fn with_pid(&self, pid: u32) -> Option<u32> {
        let mut running = self.processes.iter().filter(|(_, process)| matches!(process.life, Life::Running(_)));
        running.find(|(_, process)| process.pid == pid).map(|(&number, _)| number)
    }

    /// Those who have died and were not buried yet, by their numbers. Processes that were announced count as dead when
    /// they stay silent for long and `orphaned`: nobody is left who could still tell of them.
    pub(super) fn dead(&self, orphaned: bool) -> Vec<u32> {
        let dead = |process: &Process| match &process.life {
            Life::Expected(since) => orphaned && since.elapsed() > BIRTH,
            Life::Running(descriptor) => descriptor.as_ref().is_none_or(readable),
            Life::Buried => false,
        };
        self.processes.iter().filter(|(_, process)| dead(process)).map(|(&number, _)| number).collect()
    }

    /// Whether any process may still write.
    pub(super) fn any_alive(&self) -> bool {
        self.processes.values().any(|process| !matches!(process.life, Life::Buried))
    }

    /// The numbers of all that were not buried.
    pub(super) fn unburied(&self) -> Vec<u32> {
        let all = self.processes.iter().filter(|(_, process)| !matches!(process.life, Life::Buried));
        all.map(|(&number, _)| number).collect()
    }
}

/// A descriptor that becomes readable when the process dies.
fn open(pid: u32) -> Option<File> {
    // SAFETY: the result is checked and owned by nobody else.
    unsafe {
        let fd = libc::syscall(libc::SYS_pidfd_open, pid, 0);
        (fd >= 0).then(|| File::from_raw_fd(fd as i32))
    }
}

fn readable(descriptor: &File) -> bool {
    let mut poll = libc::pollfd { fd: descriptor.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one descriptor, no waiting.
    unsafe { libc::poll(&mut poll, 1, 0) == 1 }
}
