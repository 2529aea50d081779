//! The helper process that breaks up memory.

use super::Broken;
use super::extent::{Extent, PAGE, PAGES};
use crate::huge_pages::HugePages;
use crate::settings::Setting;
use procfs::{Current, Meminfo};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::mm::Advice;
use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CpuSet, sched_getcpu, sched_setaffinity};
use rustix::time::Timespec;
use std::fmt::Display;
use std::fs;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};

/// Huge pages between two looks at the input.
const LOOK: u64 = 64;

/// Refusals of huge pages in a row after which the kernel has none left. After fewer, it may only have given up compaction for a
/// while, and a program would get the huge pages that compaction makes of the page cache.
const REFUSALS: u32 = 100;

/// Bytes of a pipe: the most that the kernel allows everyone, unless `/proc/sys/fs/pipe-max-size` was changed.
const PIPE: usize = 1 << 20;

/// Huge pages of the memory that is given back last: more than the kernel keeps for a processor, which is 1/1000 of memory, divided
/// by the number of processors.
const LAST: usize = 64;

/// Returns why memory cannot be broken up on this computer, or `None` if it probably can.
pub fn why_not() -> Option<String> {
    let enabled = HugePages::read().enabled.unwrap_or_else(|| "missing".into());
    let possible = matches!(enabled.as_str(), "always" | "madvise");
    (!possible).then(|| format!("memory is broken up by means of huge pages, but {} is {enabled}", Setting::Thp.path()))
}

/// Breaks up the free memory at each line of the standard input, answers how much is broken up, or why it cannot, and holds what
/// it keeps until the end of the input.
///
/// # Errors
/// When this kernel gives this process no huge pages, which it also answers.
pub fn break_up() -> io::Result<()> {
    // Ctrl-C is for the command that has started this process; its end is the end of the input.
    let _ = rustix::process::setsid();
    // If memory becomes scarce after all, this process is the one to end. Raising the value needs no right.
    let _ = fs::write("/proc/self/oom_score_adj", "1000");
    let answer = |text: &dyn Display| writeln!(io::stdout(), "{text}").and_then(|()| io::stdout().flush());
    let mut held: Option<Held> = None;
    for line in io::stdin().lines() {
        line?;
        let broken = match &mut held {
            Some(held) => held.take_all(),
            None => Held::new().and_then(|new| held.insert(new).take_all()),
        };
        match broken {
            Ok(broken) => answer(&broken.write())?,
            Err(error) => return answer(&error).and(Err(error)),
        }
    }
    Ok(())
}

/// The memory that the helper has broken up.
///
/// The fields are dropped in their order. The kernel does not merge the last base pages that a processor has freed, but keeps them
/// for the next who needs some, perhaps for hours. If they were the single pages that stay, their huge pages would stay broken.
struct Held {
    /// Of each huge page, the first base page stays.
    broken_up: Extent,
    /// Hold pages from which the kernel keeps its compaction away, because a pipe refers to them.
    pipes: Vec<(OwnedFd, OwnedFd)>,
    /// Is whole, and given back last, as base pages.
    _last: Whole,
    /// The free slots of the last pipe.
    slots: usize,
    broken: Broken,
}

impl Drop for Held {
    fn drop(&mut self) {
        // All of it is to pass through the lists of one processor.
        let mut here = CpuSet::new();
        here.set(sched_getcpu());
        let _ = sched_setaffinity(None, &here);
    }
}

impl Held {
    /// Reserves addresses for all memory.
    fn new() -> io::Result<Held> {
        if let Some(why) = why_not() {
            return Err(io::Error::other(why));
        }
        // A pipe has two descriptors; the hard limit is anyone's.
        let files = getrlimit(Resource::Nofile);
        let _ = setrlimit(Resource::Nofile, Rlimit { current: files.maximum, ..files });
        let all = Meminfo::current().map_err(io::Error::other)?.mem_total as usize;
        let no_addresses = |error| io::Error::other(format!("no addresses for all memory: {error}"));
        let broken_up = Extent::new(all.div_ceil(PAGES * PAGE)).map_err(no_addresses)?;
        Ok(Held { broken_up, pipes: Vec::new(), _last: Whole::new()?, slots: 0, broken: Broken::default() })
    }

    /// Breaks up huge pages while the kernel gives them. Returns what is broken up in all.
    fn take_all(&mut self) -> io::Result<Broken> {
        let first = self.broken.blocks as usize * PAGES;
        let end = self.broken_up.pages();
        self.broken_up.advise(first..end, Advice::LinuxHugepage)?;
        let mut next = first;
        let mut refusals = 0;
        while next < end && refusals < REFUSALS {
            if self.broken.blocks.is_multiple_of(LOOK) && input_ended()? {
                break;
            }
            if !self.take(next)? {
                refusals += 1;
                continue;
            }
            refusals = 0;
            self.broken.blocks += 1;
            self.broken.fixed += u64::from(self.fix(next)?);
            next += PAGES;
        }
        if self.broken.blocks == 0 {
            return Err(io::Error::other("the kernel gives this process no huge page that could be broken up"));
        }
        // Lest khugepaged put a whole huge page where one page stays.
        self.broken_up.advise(first..end, Advice::LinuxNoHugepage)?;
        Ok(self.broken)
    }

    /// Takes the huge page that starts at a page, and gives back all of it but that page. Returns false if the kernel has none.
    fn take(&self, first: usize) -> io::Result<bool> {
        self.broken_up.touch(first);
        // The last page is there only if the fault brought all.
        if !self.broken_up.is_resident(first + PAGES - 1)? {
            // The page and its page table must go: where a table is, no later fault is given a huge page.
            self.broken_up.map_again(first)?;
            self.broken_up.advise(first..first + PAGES, Advice::LinuxHugepage)?;
            return Ok(false);
        }
        split(&self.broken_up, first)?;
        self.broken_up.touch(first);
        self.broken_up.advise(first + 1..first + PAGES, Advice::LinuxDontNeed)?;
        Ok(true)
    }

    /// Has a pipe refer to a page. Returns false where this user may have no more pipes.
    fn fix(&mut self, page: usize) -> io::Result<bool> {
        if self.slots == 0 {
            let ends = pipe_with(PipeFlags::CLOEXEC)?;
            // Beyond a user's share, the kernel refuses more than the smallest pipe.
            if !fcntl_setpipe_size(&ends.1, PIPE).is_ok_and(|size| size >= PIPE) {
                return Ok(false);
            }
            self.slots = PIPE / PAGE;
            self.pipes.push(ends);
        }
        let Some((_, end)) = self.pipes.last() else { return Ok(false) };
        self.broken_up.splice(page, end.as_fd())?;
        self.slots -= 1;
        Ok(true)
    }
}

/// Memory in huge pages, given back as base pages.
struct Whole(Extent);

impl Whole {
    fn new() -> io::Result<Whole> {
        let extent = Extent::new(LAST)?;
        extent.advise(0..extent.pages(), Advice::LinuxHugepage)?;
        (0..extent.pages()).for_each(|page| extent.touch(page));
        Ok(Whole(extent))
    }
}

impl Drop for Whole {
    fn drop(&mut self) {
        for block in 0..LAST {
            let _ = split(&self.0, block * PAGES);
        }
    }
}

/// Splits the huge page that starts at a page: the kernel does so at once when a part of it gets this advice, but late when a part
/// is given back.
fn split(extent: &Extent, first: usize) -> io::Result<()> {
    extent.advise(first..first + 1, Advice::LinuxCold)
}

/// Returns whether the command that has started this process is gone.
fn input_ended() -> io::Result<bool> {
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    let input = io::stdin();
    Ok(poll(&mut [PollFd::new(&input, PollFlags::HUP)], Some(&at_once))? > 0)
}
