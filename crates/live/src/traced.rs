//! A child process that does not outlive this process, and may be traced from its first instruction on.

use std::io;

/// Makes the calling child be killed when the thread ends that has started it, in the process with the ID `parent`. Makes
/// system calls only, for use between fork and exec.
pub(crate) fn end_with(parent: u32) -> io::Result<()> {
    // SAFETY: these calls take numbers only.
    unsafe {
        if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong, 0, 0, 0) != 0 {
            return Err(io::Error::last_os_error());
        }
        // From here on, the end of the parent kills the child. Before, it has made another process the parent.
        if libc::getppid() as u32 != parent {
            libc::_exit(1);
        }
    }
    Ok(())
}

/// Makes the calling child be traced by its parent, which has the ID `parent`, and be killed with it. Stops the child at its
/// next `execve`. Makes system calls only, for use between fork and exec.
///
/// A child whose parent is gone would be traced by the process that adopts it, which does not know of it, and stay for ever.
pub(crate) fn by_parent(parent: u32) -> io::Result<()> {
    end_with(parent)?;
    // SAFETY: the call takes numbers only.
    unsafe {
        match libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// Kills a stopped and traced child when this process ends, before it can go on untraced.
pub(crate) fn kill_on_exit(child: libc::pid_t, options: libc::c_int) -> io::Result<()> {
    // SAFETY: the child is stopped and traced by this process; the call takes no pointers.
    match unsafe { libc::ptrace(libc::PTRACE_SETOPTIONS, child, 0, libc::PTRACE_O_EXITKILL | options) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
