//! The processes of the traced program, by their numbers in the ring.

use reach_core::{Asid, BlockId, ThreadId};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd};
use std::time::{Duration, Instant};

/// The longest time from the announcement of a process to its first record. It covers a fork, which is slow under load.
const MAX_FORK_TIME: Duration = Duration::from_secs(2);

/// The state of a process.
pub(super) enum Life {
    /// Its parent has announced it, at this time; it has not written anything.
    Expected(Instant),
    /// It runs. The descriptor becomes readable when it dies; `None` if it died before the descriptor could be opened.
    Running(Option<File>),
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
}

impl ProcessTree {
    /// Returns process `number`. A new process gets the next address space.
    pub(super) fn process(&mut self, number: u32) -> &mut TracedProcess {
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

    /// Returns the identity of thread `number` of the ring. A new thread gets the next one.
    pub(super) fn thread(&mut self, number: u32) -> ThreadId {
        *self.threads.entry(number).or_insert_with(|| {
            self.next_thread += 1;
            ThreadId(self.next_thread - 1)
        })
    }

    /// Returns a new thread, which has no number in the ring.
    pub(super) fn new_thread(&mut self) -> ThreadId {
        self.next_thread += 1;
        ThreadId(self.next_thread - 1)
    }

    /// Records that process `number` of the ring is process `pid` of this system.
    pub(super) fn set_pid(&mut self, number: u32, pid: u32) {
        let process = self.process(number);
        if matches!(process.life, Life::Expected(_)) {
            process.pid = pid;
            process.life = Life::Running(open_pidfd(pid));
        }
    }

    /// Returns the number of the running process `pid`; `None` where it is not a process of the tree.
    pub(super) fn with_pid(&self, pid: u32) -> Option<u32> {
        let mut running = self.processes.iter().filter(|(_, process)| matches!(process.life, Life::Running(_)));
        running.find(|(_, process)| process.pid == pid).map(|(&number, _)| number)
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

/// Returns a descriptor that becomes readable when process `pid` dies; `None` where the process does not exist.
fn open_pidfd(pid: u32) -> Option<File> {
    // SAFETY: the result is checked, and nothing else owns the descriptor.
    unsafe {
        let fd = libc::syscall(libc::SYS_pidfd_open, pid, 0);
        (fd >= 0).then(|| File::from_raw_fd(fd as i32))
    }
}

/// Returns whether `descriptor` is readable.
fn readable(descriptor: &File) -> bool {
    let mut poll = libc::pollfd { fd: descriptor.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: `poll` is one descriptor on the stack, and the call does not wait.
    unsafe { libc::poll(&mut poll, 1, 0) == 1 }
}
