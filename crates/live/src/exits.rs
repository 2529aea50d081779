//! Holds the processes of a program at their exit, while their memory is still there, so that even a short program is seen.
//!
//! A thread of this process traces the program's processes. It stops them for forks, signals and exits only. It does not
//! trace a process's further threads: what these fork is not held.

use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::mem;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::thread;

/// Where a child waits, between fork and exec, until it is traced.
#[derive(Debug)]
pub(crate) struct Gate(UnixStream);

impl Gate {
    /// Begins a thread that traces the child that passes the gate, and everything that it forks. At each exit, `look` gets
    /// the processes that have not ended.
    ///
    /// # Errors
    /// When there are no more descriptors or threads.
    pub(crate) fn new(look: impl FnMut(&BTreeSet<i32>) + Send + 'static) -> io::Result<Gate> {
        let (outside, inside) = UnixStream::pair()?;
        thread::Builder::new().name("exits".into()).spawn(move || follow(inside, look))?;
        Ok(Gate(outside))
    }

    /// Returns the descriptor for [`pass`].
    pub(crate) fn descriptor(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// Passes a gate. Makes system calls only, for use between fork and exec.
pub(crate) fn pass(gate: RawFd) -> io::Result<()> {
    // SAFETY: the calls read and write the bytes of local variables.
    unsafe {
        let id = libc::getpid().to_ne_bytes();
        let mut opened = 0_u8;
        if libc::write(gate, id.as_ptr().cast(), id.len()) != id.len() as isize
            || libc::read(gate, (&raw mut opened).cast(), 1) != 1
        {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Lets a child through the gate, and traces it if the kernel allows that.
fn follow(mut gate: UnixStream, look: impl FnMut(&BTreeSet<i32>)) {
    let mut id = [0; 4];
    // Without a child, the other side has been closed.
    if gate.read_exact(&mut id).is_err() {
        return;
    }
    let leader = i32::from_ne_bytes(id);
    // If there is no such program, the child ends at once, and whoever has started it waits for it: it must not stop then.
    let traced = ptrace(libc::PTRACE_SEIZE, leader, libc::PTRACE_O_TRACEEXEC).is_ok();
    if gate.write_all(&[1]).is_ok() && traced {
        drop(gate);
        Tracer { leader, running: BTreeSet::from([leader]), look }.run();
    }
}

struct Tracer<L> {
    /// The child, which another thread waits for.
    leader: i32,
    /// The processes that have not ended.
    running: BTreeSet<i32>,
    look: L,
}

impl<L: FnMut(&BTreeSet<i32>)> Tracer<L> {
    /// Traces until the leader is dead or nothing is traced. The kernel lets go what is traced when this thread ends.
    fn run(&mut self) {
        while let Some(event) = next() {
            match event {
                Event::Stopped(id, status) => self.resume(id, status),
                Event::Dead(id) if id == self.leader => return,
                Event::Dead(id) => {
                    self.running.remove(&id);
                    // Its parent gets to know only now.
                    let _ = wait(libc::P_PID, id as libc::id_t, libc::WEXITED);
                }
            }
        }
    }

    /// Resumes a stopped process. An error means that it has been killed: its death is the next event.
    fn resume(&mut self, id: i32, status: i32) {
        let (signal, event) = (status & 0xff, status >> 8);
        let is_job_control = matches!(signal, libc::SIGSTOP | libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU);
        let _ = match event {
            libc::PTRACE_EVENT_EXIT => {
                (self.look)(&self.running);
                self.running.remove(&id);
                ptrace(libc::PTRACE_DETACH, id, 0)
            }
            libc::PTRACE_EVENT_STOP if is_job_control => ptrace(libc::PTRACE_LISTEN, id, 0),
            // A new process begins like this.
            libc::PTRACE_EVENT_STOP => {
                self.running.insert(id);
                ptrace(libc::PTRACE_CONT, id, 0)
            }
            libc::PTRACE_EVENT_EXEC => {
                let options = libc::PTRACE_O_TRACEEXIT | libc::PTRACE_O_TRACEFORK | libc::PTRACE_O_TRACEVFORK;
                let _ = ptrace(libc::PTRACE_SETOPTIONS, id, options);
                ptrace(libc::PTRACE_CONT, id, 0)
            }
            0 => ptrace(libc::PTRACE_CONT, id, signal),
            _ => ptrace(libc::PTRACE_CONT, id, 0),
        };
    }
}

/// What happened to a traced process.
enum Event {
    /// It has stopped: the signal, and above it the event of ptrace.
    Stopped(i32, i32),
    Dead(i32),
}

/// Waits for the next event, without reaping. `None`: this thread traces nothing any more.
fn next() -> Option<Event> {
    let info = wait(libc::P_ALL, 0, libc::WEXITED | libc::WSTOPPED | libc::WNOWAIT).ok()?;
    // SAFETY: after a successful wait, the fields for SIGCHLD are set.
    let (id, status) = unsafe { (info.si_pid(), info.si_status()) };
    Some(match info.si_code {
        libc::CLD_TRAPPED | libc::CLD_STOPPED => Event::Stopped(id, status),
        _ => Event::Dead(id),
    })
}

/// Waits for what this thread traces.
fn wait(of: libc::idtype_t, id: libc::id_t, options: libc::c_int) -> io::Result<libc::siginfo_t> {
    loop {
        // SAFETY: all bytes zero are a valid siginfo, which the call overwrites.
        let (waited, info) = unsafe {
            let mut info = mem::zeroed();
            (libc::waitid(of, id, &mut info, options | libc::__WALL | libc::__WNOTHREAD), info)
        };
        match waited {
            0 => return Ok(info),
            _ => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => continue,
                error => return Err(error),
            },
        }
    }
}

/// Makes a request of ptrace whose argument is a number.
fn ptrace(request: libc::c_uint, id: i32, data: i32) -> io::Result<()> {
    // SAFETY: none of the requests of this module takes a pointer.
    match unsafe { libc::ptrace(request, id, 0_usize, data as usize) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
