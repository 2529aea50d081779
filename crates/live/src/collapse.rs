//! Collapses memory of a running process to huge pages of 2 MB, and splits them again.
//!
//! `process_madvise(MADV_COLLAPSE)` (Linux 6.1) copies an extent into a huge page, whatever the setting of transparent huge
//! pages says. Splitting is a service of the kernel's debugging file system. Neither is believed: what was gained is read
//! from `/proc/PID/smaps` before and after.

use crate::frames::{Entry, PageMap};
use crate::layout::SUPERPAGE;
use crate::pages;
use procfs::process::{MMapPath, MemoryMap};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};

/// The memory to change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// All private anonymous memory but stacks.
    Anonymous,
    /// The heap (brk).
    Heap,
    /// The mapping of anonymous memory that holds this address.
    At(u64),
}

/// What to do.
#[derive(Clone, Copy, Debug)]
pub enum Action {
    /// Make huge pages of extents of which at least this many of 512 pages are in memory.
    Collapse {
        /// Pages in memory: 1 to 512.
        least: u64,
    },
    /// Split huge pages into base pages.
    Split,
}

/// The change of a mapping. Sizes are in bytes, as the kernel gives them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Its addresses.
    pub addresses: Range<u64>,
    /// Its name, as in [`pages`].
    pub name: String,
    /// Memory in huge pages before and after.
    pub huge: [u64; 2],
    /// Resident memory before and after.
    pub resident: [u64; 2],
    /// Extents that were asked for.
    pub tried: u64,
    /// Extents with too few pages in memory.
    pub sparse: u64,
    /// Extents that the kernel refused, by its reason.
    pub refused: BTreeMap<Refusal, u64>,
}

/// Why the kernel refused to collapse an extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Refusal {
    /// EINVAL.
    #[error("this memory may have no huge pages: MADV_NOHUGEPAGE, PR_SET_THP_DISABLE, or a mapping of another kind")]
    NotAllowed,
    /// ENOMEM.
    #[error("no 2 MB of memory are free in one piece")]
    NoMemory,
    /// EBUSY.
    #[error("the limit of the process's control group is reached")]
    Limit,
    /// EAGAIN.
    #[error("its pages were in use at the time; try again")]
    Busy,
    /// Any other error.
    #[error("error {0} of the kernel")]
    Other(i32),
}

/// The reason nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum CollapseError {
    /// The process cannot be examined.
    #[error(transparent)]
    Process(#[from] io::Error),
    /// No mapping is of the wanted kind.
    #[error("has no such anonymous memory")]
    NoMemory,
    /// The caller may not advise other processes.
    #[error("may not be advised by this user: that needs root, or the capabilities CAP_SYS_NICE and CAP_SYS_PTRACE")]
    Denied,
    /// The kernel is too old.
    #[error("runs on a kernel without process_madvise(MADV_COLLAPSE), which came with Linux 6.1")]
    TooOld,
    /// There is no file to split by.
    #[error("cannot be split: {SPLIT}: {0}; that needs root, and `mount -t debugfs none /sys/kernel/debug`")]
    NoSplit(#[source] io::Error),
    /// It ended meanwhile.
    #[error("has ended")]
    Ended,
}

/// The kernel's file that splits huge pages.
const SPLIT: &str = "/sys/kernel/debug/split_huge_pages";

/// `MADV_COLLAPSE` of `linux/mman.h`.
const MADV_COLLAPSE: libc::c_int = 25;

/// How often an extent is tried whose pages are in use.
const ATTEMPTS: usize = 3;

/// A process that is held by a descriptor, so that nothing is done to another one with its number.
struct Held {
    pid: i32,
    descriptor: OwnedFd,
}

impl Held {
    fn open(pid: i32) -> io::Result<Held> {
        let number = Pid::from_raw(pid).ok_or(io::ErrorKind::NotFound)?;
        let descriptor = pidfd_open(number, PidfdFlags::empty()).map_err(|error| match error {
            Errno::SRCH => io::ErrorKind::NotFound.into(),
            error => io::Error::from(error),
        })?;
        Ok(Held { pid, descriptor })
    }

    /// Returns whether the process has ended.
    fn has_ended(&self) -> io::Result<bool> {
        Ok(poll(&mut [PollFd::new(&self.descriptor, PollFlags::IN)], Some(&Default::default()))? > 0)
    }

    /// Returns its mappings of the wanted kind. They are of the held process: it has not ended, so its number is still its own.
    fn areas(&self, what: What) -> Result<Vec<MemoryMap>, CollapseError> {
        let (_, mappings) = pages::read(self.pid).map_err(pages::io_error)?;
        if self.has_ended()? {
            return Err(CollapseError::Ended);
        }
        Ok(mappings.into_iter().filter(|mapping| is_meant(mapping, what)).collect())
    }

    /// Asks the kernel to collapse one extent.
    fn collapse(&self, address: u64) -> Result<(), i32> {
        let extent = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: SUPERPAGE as usize };
        let mut error = 0;
        for _ in 0..ATTEMPTS {
            // SAFETY: the kernel reads one iovec; the address in it is of the other process, and nothing here is accessed.
            let done = unsafe {
                libc::syscall(libc::SYS_process_madvise, self.descriptor.as_raw_fd(), &extent, 1, MADV_COLLAPSE, 0)
            };
            if done >= 0 {
                return Ok(());
            }
            error = io::Error::last_os_error().raw_os_error().unwrap_or(0);
            if error != libc::EAGAIN {
                break;
            }
        }
        Err(error)
    }
}

/// Returns whether the kernel knows the advice. Others answer EINVAL, as to memory that may not be collapsed.
fn knows_collapse() -> io::Result<bool> {
    let this = pidfd_open(rustix::process::getpid(), PidfdFlags::empty())?;
    let none = std::ptr::null::<libc::iovec>();
    // SAFETY: the kernel reads no iovec.
    let done = unsafe { libc::syscall(libc::SYS_process_madvise, this.as_raw_fd(), none, 0, MADV_COLLAPSE, 0) };
    let error = io::Error::last_os_error().raw_os_error();
    Ok(done >= 0 || !matches!(error, Some(libc::EINVAL | libc::ENOSYS)))
}

/// Returns whether a mapping is private anonymous memory of the wanted kind.
fn is_meant(mapping: &MemoryMap, what: What) -> bool {
    let anonymous = match &mapping.pathname {
        MMapPath::Heap | MMapPath::Anonymous => true,
        MMapPath::Other(name) => name.trim_matches(['[', ']']).starts_with("anon:"),
        _ => false,
    };
    let wanted = match what {
        What::Anonymous => true,
        What::Heap => mapping.pathname == MMapPath::Heap,
        What::At(address) => (mapping.address.0..mapping.address.1).contains(&address),
    };
    anonymous && wanted && mapping.inode == 0
}

/// Changes the pages of a running process. Stops between extents once `stop` says so; what was done stays.
///
/// # Errors
/// When nothing could be changed: there is no such process or memory, or this user or kernel cannot.
pub fn change(pid: i32, what: What, action: Action, stop: impl Fn() -> bool) -> Result<Vec<Change>, CollapseError> {
    let held = Held::open(pid)?;
    if matches!(action, Action::Collapse { .. }) && !knows_collapse()? {
        return Err(CollapseError::TooOld);
    }
    let before = held.areas(what)?;
    if before.is_empty() {
        return Err(CollapseError::NoMemory);
    }
    let mut changes = Vec::new();
    // What is not resident has no pages to collapse, and may be terabytes.
    for mapping in before.iter().filter(|mapping| pages::field(mapping, "Rss") > 0) {
        if stop() {
            break;
        }
        let (addresses, name) = (mapping.address.0..mapping.address.1, pages::name(&mapping.pathname));
        let [huge, resident] = ["AnonHugePages", "Rss"].map(|key| [pages::field(mapping, key); 2]);
        let mut change = Change { addresses, name, huge, resident, tried: 0, sparse: 0, refused: BTreeMap::new() };
        match action {
            Action::Collapse { least } => collapse(&held, &mut change, least, &stop)?,
            Action::Split => split(&held, &mut change)?,
        }
        changes.push(change);
    }
    // A mapping that is gone or has changed its bounds meanwhile keeps the numbers from before.
    for mapping in held.areas(what)? {
        let addresses = mapping.address.0..mapping.address.1;
        if let Some(change) = changes.iter_mut().find(|change| change.addresses.start == addresses.start) {
            change.huge[1] = pages::field(&mapping, "AnonHugePages");
            change.resident[1] = pages::field(&mapping, "Rss");
        }
    }
    Ok(changes)
}

/// Collapses the extents of a mapping.
fn collapse(held: &Held, change: &mut Change, least: u64, stop: &dyn Fn() -> bool) -> Result<(), CollapseError> {
    for address in dense_extents(held.pid, change, least)? {
        if stop() {
            break;
        }
        change.tried += 1;
        let refusal = match held.collapse(address) {
            Ok(()) => continue,
            Err(libc::EPERM | libc::EACCES) => return Err(CollapseError::Denied),
            Err(libc::ESRCH) => return Err(CollapseError::Ended),
            Err(libc::EINVAL) => Refusal::NotAllowed,
            Err(libc::ENOMEM) => Refusal::NoMemory,
            Err(libc::EBUSY) => Refusal::Limit,
            Err(libc::EAGAIN) => Refusal::Busy,
            Err(other) => Refusal::Other(other),
        };
        *change.refused.entry(refusal).or_default() += 1;
    }
    Ok(())
}

/// Returns the addresses of the aligned extents of a mapping with at least `least` pages in memory, and counts the others that
/// have any.
fn dense_extents(pid: i32, change: &mut Change, least: u64) -> io::Result<Vec<u64>> {
    let first = change.addresses.start.next_multiple_of(SUPERPAGE);
    let end = change.addresses.end / SUPERPAGE * SUPERPAGE;
    let mut present: BTreeMap<u64, u64> = BTreeMap::new();
    if first < end {
        PageMap::of(Some(pid))?.read(first..end, |start, entries| {
            let pages = (start..).step_by(crate::elf::BASE as usize).zip(entries);
            for (address, _) in pages.filter(|(_, entry)| Entry::present(**entry)) {
                *present.entry(address / SUPERPAGE * SUPERPAGE).or_default() += 1;
            }
        })?;
    }
    let (dense, sparse): (Vec<_>, Vec<_>) = present.into_iter().partition(|&(_, pages)| pages >= least);
    change.sparse = sparse.len() as u64;
    Ok(dense.into_iter().map(|(address, _)| address).collect())
}

/// Splits the huge pages of a mapping.
fn split(held: &Held, change: &mut Change) -> Result<(), CollapseError> {
    if change.huge[0] == 0 {
        return Ok(());
    }
    change.tried = change.huge[0] / SUPERPAGE;
    let Range { start, end } = change.addresses;
    let mut file = OpenOptions::new().write(true).open(SPLIT).map_err(CollapseError::NoSplit)?;
    // The file takes a number, not a descriptor: a process that gets the number after this has its huge pages split there.
    if held.has_ended()? {
        return Err(CollapseError::Ended);
    }
    // One write is one request.
    file.write_all(format!("{},{start:#x},{end:#x},0", held.pid).as_bytes()).map_err(CollapseError::NoSplit)
}
