//! Which recorded kind stands for a system call.

/// The kind of calls that do little more than enter the kernel and return. It also stands for calls that were not recorded.
pub const PLAIN: &str = "getppid";

/// Linux's numbers on x86-64, by the recorded kind that stands for them: the call itself, its variants, and calls that take
/// the same way through the kernel.
const KINDS: &[(&str, &[u32])] = &[
    // getpid, getuid, getgid, geteuid, getegid, getppid, gettid, set_tid_address, arch_prctl, set_robust_list, prlimit64, rseq
    (PLAIN, &[39, 102, 104, 107, 108, 110, 186, 218, 158, 273, 302, 334]),
    ("read", &[0]),
    ("write", &[1]),
    ("pread64", &[17]),
    ("pwrite64", &[18]),
    // readv, preadv, preadv2
    ("readv", &[19, 295, 327]),
    ("writev", &[20, 296, 328]),
    // open, openat, creat
    ("openat", &[2, 257, 85]),
    ("close", &[3]),
    ("fstat", &[5]),
    // stat, lstat, newfstatat, statx
    ("newfstatat", &[4, 6, 262, 332]),
    ("lseek", &[8]),
    // access, faccessat, faccessat2, readlink, readlinkat: they walk a path
    ("faccessat", &[21, 269, 439, 89, 267]),
    ("mmap", &[9]),
    // munmap, mremap
    ("munmap", &[11, 25]),
    ("mprotect", &[10, 329]),
    ("brk", &[12]),
    ("madvise", &[28]),
    ("rt_sigaction", &[13]),
    // rt_sigprocmask, rt_sigreturn, sigaltstack
    ("rt_sigprocmask", &[14, 15, 131]),
    ("ioctl", &[16]),
    ("fcntl", &[72]),
    // dup, dup2, dup3
    ("dup", &[32, 33, 292]),
    // pipe, pipe2
    ("pipe2", &[22, 293]),
    ("sendto", &[44]),
    ("recvfrom", &[45]),
    // sendmsg, sendmmsg
    ("sendmsg", &[46, 307]),
    ("recvmsg", &[47, 299]),
    // poll, ppoll, select, pselect6
    ("poll", &[7, 271, 23, 270]),
    // epoll_wait, epoll_pwait, epoll_ctl
    ("epoll_wait", &[232, 281, 233]),
    // futex, nanosleep, clock_nanosleep: that they wait is a switch, if another thread runs meanwhile
    ("futex", &[202, 35, 230]),
    // clock_gettime, gettimeofday, time, times
    ("clock_gettime", &[228, 96, 201, 100]),
    ("getrandom", &[318]),
    // getdents, getdents64
    ("getdents64", &[78, 217]),
    // unlink, unlinkat, mkdir, mkdirat, rmdir, rename, renameat, renameat2, link, symlink
    ("unlinkat", &[87, 263, 83, 258, 84, 82, 264, 316, 86, 88]),
    ("sched_yield", &[24]),
    ("getrusage", &[98]),
    ("uname", &[63]),
    // fsync, fdatasync
    ("fsync", &[74, 75]),
    // truncate, ftruncate, fallocate
    ("ftruncate", &[76, 77, 285]),
    // clone, clone3: of a thread; a fork is an event of its own
    ("clone", &[56, 435]),
    // wait4, waitid
    ("wait4", &[61, 247]),
];

/// Returns the recorded kind that stands for system call `number`; `None` if none does.
pub fn kind_of(number: u32) -> Option<&'static str> {
    KINDS.iter().find(|(_, numbers)| numbers.contains(&number)).map(|(kind, _)| *kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn each_number_has_one_kind() {
        let numbers: Vec<u32> = KINDS.iter().flat_map(|(_, numbers)| *numbers).copied().collect();
        assert_eq!(numbers.iter().collect::<HashSet<_>>().len(), numbers.len());
    }

    #[test]
    fn each_kind_was_recorded() {
        let others = ["fork", "execve", "exit_group", "switch", "timer", "fault_anonymous", "fault_file", "fault_copy"];
        for kind in KINDS.iter().map(|(kind, _)| kind).chain(&others) {
            assert!(crate::kernel_code::KernelCode::recorded().passages(kind).len() > 0, "{kind}");
        }
    }
}
