//! System calls. Calls that change the address space or the process become messages. Calls in which a thread may wait
//! for another publish the thread's records first, so that the order in the ring is the order in time.

use crate::file::FileSystem;
use crate::lane::{self, MAPPING};
use crate::{api, exec, file, guest, placement, process, touched, vfork, writer};
use reach_core::lock::Lock;
use reach_core::ring::Message;
use reach_core::{Advice, Backing, FileId, Map, Protection, Remap, Role, Span, VirtAddr};
use std::ffi::c_uint;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU64, Ordering};

const PAGE: u64 = 4096;

/// End of the brk heap; 0 before the first call.
static BREAK: AtomicU64 = AtomicU64::new(0);

/// Start and length of attached System V segments.
static SEGMENTS: Lock<Vec<(u64, u64)>> = Lock::new(Vec::new());

/// Called when a system call begins.
pub extern "C" fn on_enter(
    _: api::Id,
    vcpu: c_uint,
    number: i64,
    a1: u64,
    a2: u64,
    a3: u64,
    a4: u64,
    a5: u64,
    a6: u64,
    _: u64,
    _: u64,
) {
    lane::set_current(vcpu);
    let lane = lane::of(vcpu);
    let arguments = [a1, a2, a3, a4, a5, a6];
    lane.set_arguments(arguments);
    let number = number as libc::c_long;
    if !has_event(number, a1) {
        lane::send(vcpu, &Message::SystemCall(number as u32));
    }
    if forks(number, a1) {
        lane.shares_memory.set(shares_memory(number, a1));
        let writes_tid = number == libc::SYS_clone && a1 & libc::CLONE_CHILD_SETTID as u64 != 0;
        lane.child_tid.set(if writes_tid { a4 } else { 0u64 });
    }
    if changes_mappings(number) || forks(number, a1) {
        if lane.holds_mapping.get() == 0 {
            MAPPING.take();
            lane.holds_mapping.set(true);
        }
        placement::enter(number, arguments);
        return;
    }
    match number {
        libc::SYS_exit => lane::end(vcpu),
        // The emulator refuses this call, but Linux accepts it.
        libc::SYS_rseq => lane.rseq.set(if a3 == 0 { a1 } else { 0 }),
        libc::SYS_exit_group => process::finish(vcpu),
        libc::SYS_execve => exec::attempt(vcpu, libc::AT_FDCWD, a1, a2, a3, 0),
        libc::SYS_execveat => exec::attempt(vcpu, a1 as i32, a2, a3, a4, a5),
        _ if never_synchronises(number) => {}
        _ => {
            if loses_access(number) {
                writer::keep_ring();
            }
            lane::publish(vcpu);
        }
    }
}

/// Called when a system call has returned.
pub extern "C" fn on_return(_: api::Id, vcpu: c_uint, number: i64, result: i64) {
    let lane = lane::of(vcpu);
    let number = number as libc::c_long;
    let arguments = lane.arguments();
    if let Some(child) = (lane.forking.take() as u32).checked_sub(1) {
        lane::send(vcpu, &Message::Forked { child, pid: u32::try_from(result).unwrap_or(0) });
        lane::publish(vcpu);
        touched::forget();
    }
    let failed = (-4095..0).contains(&result);
    if changes_mappings(number) {
        placement::leave(failed);
    }
    if changes_mappings(number)
        && !failed
        && let Some(message) = mapping(number, arguments, result as u64)
    {
        lane::fence(vcpu);
        lane::send(vcpu, &message);
        lane::publish(vcpu);
        touched::forget();
    }
    if number == libc::SYS_unshare
        && arguments[0] & libc::CLONE_NEWUSER as u64 != 0
        && result == -i64::from(libc::EINVAL)
    {
        let why = "the program cannot enter a new user namespace, because the emulator has several threads; run reach in the \
                   namespace: unshare --user --map-root-user reach …";
        lane::send(vcpu, &Message::Notice(why.into()));
    }
    touched::report_call(vcpu, number, arguments, result);
    if let Some(pid) = reaped(number, arguments, result) {
        lane::send(vcpu, &Message::Reaped { pid });
    }
    if lane.holds_mapping.take() != 0 {
        MAPPING.release();
    }
    if let Some(pipe) = lane.vfork_pipe.take().checked_sub(1) {
        vfork::wait(pipe as i32);
    }
}

fn changes_mappings(number: libc::c_long) -> bool {
    matches!(
        number,
        libc::SYS_mmap
            | libc::SYS_munmap
            | libc::SYS_mprotect
            | libc::SYS_pkey_mprotect
            | libc::SYS_mremap
            | libc::SYS_brk
            | libc::SYS_madvise
            | libc::SYS_shmat
            | libc::SYS_shmdt
    )
}

/// Returns whether a process may not be able to open the ring after this call.
fn loses_access(number: libc::c_long) -> bool {
    matches!(
        number,
        libc::SYS_setuid
            | libc::SYS_setreuid
            | libc::SYS_setresuid
            | libc::SYS_setfsuid
            | libc::SYS_setgid
            | libc::SYS_setregid
            | libc::SYS_setresgid
            | libc::SYS_setfsgid
            | libc::SYS_capset
            | libc::SYS_chroot
            | libc::SYS_pivot_root
            | libc::SYS_unshare
            | libc::SYS_setns
    )
}

/// Returns whether another event of the trace stands for this call.
fn has_event(number: libc::c_long, flags: u64) -> bool {
    matches!(number, libc::SYS_exit_group | libc::SYS_execve | libc::SYS_execveat) || forks(number, flags)
}

/// Returns whether QEMU forks for this call. It forks for everything but threads, even for vfork.
fn forks(number: libc::c_long, flags: u64) -> bool {
    match number {
        libc::SYS_fork | libc::SYS_vfork => true,
        libc::SYS_clone => flags & libc::CLONE_VM as u64 == 0 || flags & libc::CLONE_VFORK as u64 != 0,
        _ => false,
    }
}

/// Returns whether the child of a call that forks runs in its parent's memory.
fn shares_memory(number: libc::c_long, flags: u64) -> bool {
    number == libc::SYS_vfork || number == libc::SYS_clone && flags & libc::CLONE_VM as u64 != 0
}

/// Returns whether this is a frequent call that neither waits for another thread nor signals one.
fn never_synchronises(number: libc::c_long) -> bool {
    matches!(
        number,
        libc::SYS_clock_gettime
            | libc::SYS_gettimeofday
            | libc::SYS_time
            | libc::SYS_getrusage
            | libc::SYS_times
            | libc::SYS_getpid
            | libc::SYS_gettid
            | libc::SYS_getcpu
            | libc::SYS_rt_sigaction
            | libc::SYS_rt_sigprocmask
            | libc::SYS_fstat
            | libc::SYS_newfstatat
            | libc::SYS_lseek
    )
}

/// Returns the message for a successful call that changes mappings; `None` when it changed none.
fn mapping(number: libc::c_long, [a1, a2, a3, a4, a5, a6]: [u64; 6], result: u64) -> Option<Message> {
    let span = |start: u64, len: u64| {
        let len = len.checked_next_multiple_of(PAGE)?;
        (len > 0).then_some(Span { start: VirtAddr(start), len })
    };
    Some(match number {
        libc::SYS_mmap => mmap(span(result, a2)?, a3, a4, a5 as i32, a6),
        libc::SYS_munmap => Message::Unmap(span(a1, a2)?),
        libc::SYS_mprotect | libc::SYS_pkey_mprotect => Message::Protect(span(a1, a2)?, protection(a3)),
        libc::SYS_mremap => Message::Remap(Remap {
            from: Span { start: VirtAddr(a1), len: a2.checked_next_multiple_of(PAGE)? },
            to: span(result, a3)?,
            keep: a4 & libc::MREMAP_DONTUNMAP as u64 != 0,
        }),
        libc::SYS_brk => brk(result)?,
        libc::SYS_madvise => Message::Advise(span(a1, a2)?, advice(a3 as i32)?),
        libc::SYS_shmat => {
            let mut about = MaybeUninit::<libc::shmid_ds>::uninit();
            // SAFETY: the kernel initialises the structure when it returns 0, and only then is it read.
            let about = unsafe {
                (libc::shmctl(a1 as i32, libc::IPC_STAT, about.as_mut_ptr()) == 0).then(|| about.assume_init())
            }?;
            let span = span(result, about.shm_segsz as u64)?;
            SEGMENTS.with(|segments| segments.push((span.start.0, span.len)));
            let writable = a3 & libc::SHM_RDONLY as u64 == 0;
            let protection = Protection { write: writable, ..Protection::READ_WRITE };
            Message::Map { map: Map { shared: true, protection, ..Map::anonymous(span.start, span.len) }, file: None }
        }
        libc::SYS_shmdt => {
            let segment = SEGMENTS.with(|segments| {
                let at = segments.iter().position(|&(start, _)| start == a1)?;
                Some(segments.swap_remove(at))
            })?;
            placement::release(segment.0..segment.0 + segment.1);
            Message::Unmap(Span { start: VirtAddr(segment.0), len: segment.1 })
        }
        _ => return None,
    })
}

fn protection(bits: u64) -> Protection {
    let has = |bit: i32| bits & bit as u64 != 0;
    Protection { read: has(libc::PROT_READ), write: has(libc::PROT_WRITE), execute: has(libc::PROT_EXEC) }
}

fn mmap(span: Span, rights: u64, flags: u64, fd: i32, offset: u64) -> Message {
    let has = |flag: i32| flags & flag as u64 != 0;
    let file = if has(libc::MAP_ANONYMOUS) { None } else { file::key(fd) };
    let huge_shift = match (has(libc::MAP_ANONYMOUS), has(libc::MAP_HUGETLB)) {
        (true, true) => placement::huge_page_shift(flags),
        (true, false) => 0,
        (false, _) => match file::file_system(fd) {
            FileSystem::HugePages(shift) => shift,
            FileSystem::Disk | FileSystem::Memory => 0,
        },
    };
    // The kernel rounds the length of such mappings up to whole pages.
    let len = span.len.checked_next_multiple_of(1 << huge_shift).unwrap_or(span.len);
    let span = Span { len, ..span };
    let backing = if file.is_some() { Backing::File { file: FileId(0), offset } } else { Backing::Anonymous };
    Message::Map {
        map: Map {
            span,
            protection: protection(rights),
            backing,
            shared: has(libc::MAP_SHARED),
            role: if has(libc::MAP_STACK) || has(libc::MAP_GROWSDOWN) { Role::Stack } else { Role::Mmap },
            populate: has(libc::MAP_POPULATE) || has(libc::MAP_LOCKED),
            no_reserve: has(libc::MAP_NORESERVE),
            huge_shift,
        },
        file,
    }
}

/// Returns the message for a brk call. Its result is the end of the heap, whatever was requested; the first call
/// returns the start. `None` when the heap did not change.
fn brk(now: u64) -> Option<Message> {
    let before = BREAK.swap(now, Ordering::Relaxed);
    let (from, to) = (before.next_multiple_of(PAGE), now.next_multiple_of(PAGE));
    if before == 0 || from == to {
        None
    } else if to > from {
        let map = Map { role: Role::Heap, ..Map::anonymous(VirtAddr(from), to - from) };
        Some(Message::Map { map, file: None })
    } else {
        Some(Message::Unmap(Span { start: VirtAddr(to), len: from - to }))
    }
}

fn advice(number: i32) -> Option<Advice> {
    Some(match number {
        libc::MADV_HUGEPAGE => Advice::Huge,
        libc::MADV_NOHUGEPAGE => Advice::NoHuge,
        libc::MADV_DONTNEED => Advice::DontNeed,
        libc::MADV_FREE => Advice::Free,
        libc::MADV_POPULATE_READ => Advice::PopulateRead,
        libc::MADV_POPULATE_WRITE => Advice::PopulateWrite,
        libc::MADV_COLLAPSE => Advice::Collapse,
        libc::MADV_DONTFORK => Advice::DontFork,
        libc::MADV_WILLNEED => Advice::WillNeed,
        _ => return None,
    })
}

/// Returns the child that a wait call reaped, or `None`.
fn reaped(number: libc::c_long, arguments: [u64; 6], result: i64) -> Option<u32> {
    match number {
        libc::SYS_wait4 if result > 0 => Some(result as u32),
        // waitid fills a siginfo_t, in which the pid comes after four words of four bytes.
        libc::SYS_waitid if result == 0 && arguments[2] != 0 => {
            Some(guest::word(arguments[2] + 16)? as u32).filter(|&pid| pid != 0)
        }
        _ => None,
    }
}
