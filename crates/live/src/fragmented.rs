//! Breaks up the free memory of this computer, so that huge pages are as scarce as on a server that has run for a month.
//!
//! A helper process does it without root: it takes a huge page, splits it, gives back all of it but one base page, and goes on
//! while the kernel has huge pages. A pipe refers to each page that stays, because the kernel's compaction cannot move such a page;
//! it would make memory whole again within seconds. The helper keeps 1/512 of what it breaks up. Memory is whole again some time
//! after the helper's end.

mod extent;
mod helper;

pub use helper::{break_up, why_not};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;
use std::fs;
use std::io::{self, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// The base pages of a huge page, as an order of the kernel's page allocator.
const ORDER: usize = 9;

/// Returns the share of free memory that lies in free blocks of a huge page or more. `None` where the kernel does not say.
pub fn whole_share() -> Option<f64> {
    share_of(&fs::read_to_string("/proc/buddyinfo").ok()?)
}

/// The same, from the text of `/proc/buddyinfo`: a line for each zone, with the number of free blocks of each order.
fn share_of(buddies: &str) -> Option<f64> {
    let (mut whole, mut all) = (0, 0);
    for line in buddies.lines() {
        let (_, zone) = line.split_once("zone ")?;
        for (order, blocks) in zone.split_whitespace().skip(1).enumerate() {
            let pages = blocks.parse::<u64>().ok()? << order;
            all += pages;
            whole += if order >= ORDER { pages } else { 0 };
        }
    }
    (all > 0).then(|| whole as f64 / all as f64)
}

/// What the helper has broken up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Broken {
    /// Huge pages.
    pub blocks: u64,
    /// Those of them whose page that stays cannot be moved: fewer where this user may have no more pipes.
    pub fixed: u64,
}

/// Memory that is broken up until this is dropped.
#[derive(Debug)]
pub struct Fragmented {
    helper: Child,
    /// A line asks the helper to go on, and the end of the input to end. `None` once it was told that.
    requests: Option<ChildStdin>,
    answers: ChildStdout,
}

/// The longest time in which a wish to end is not noticed.
const NOTICE: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

impl Fragmented {
    /// Starts the helper: `command` runs [`break_up`].
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(mut command: Command) -> io::Result<Fragmented> {
        let mut helper = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let requests = helper.stdin.take();
        let answers = helper.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        Ok(Fragmented { helper, requests, answers })
    }

    /// Breaks up the free memory that is whole: at first all, which takes some seconds for each 16 GB, and later what programs have
    /// given back since. Returns what is broken up in all. `None` if `stop` says so before.
    ///
    /// # Errors
    /// When the helper says why it cannot, or has ended.
    pub fn renew(&mut self, stop: &dyn Fn() -> bool) -> io::Result<Option<Broken>> {
        let requests = self.requests.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        requests.write_all(b"\n").map_err(|_| ended())?;
        let mut answer = Vec::new();
        while answer.last() != Some(&b'\n') {
            if stop() {
                return Ok(None);
            }
            if poll(&mut [PollFd::new(&self.answers, PollFlags::IN)], Some(&NOTICE))? == 0 {
                continue;
            }
            let mut bytes = [0; 512];
            match self.answers.read(&mut bytes)? {
                0 => return Err(ended()),
                read => answer.extend_from_slice(&bytes[..read]),
            }
        }
        Broken::read(String::from_utf8_lossy(&answer).trim_end()).map(Some)
    }
}

fn ended() -> io::Error {
    io::Error::other("the helper that breaks up memory has ended, perhaps for want of memory")
}

impl Drop for Fragmented {
    fn drop(&mut self) {
        self.requests = None;
        let _ = self.helper.wait();
    }
}

impl Broken {
    /// Reads the helper's answer: two numbers, or a sentence that says why not.
    fn read(answer: &str) -> io::Result<Broken> {
        let numbers =
            answer.split_once(' ').and_then(|(blocks, fixed)| Some((blocks.parse().ok()?, fixed.parse().ok()?)));
        let (blocks, fixed) = numbers.ok_or_else(|| io::Error::other(answer.to_owned()))?;
        Ok(Broken { blocks, fixed })
    }

    fn write(self) -> String {
        format!("{} {}", self.blocks, self.fixed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_share_counts_pages_of_large_blocks() {
        let zones = "Node 0, zone      DMA      0      0      0      0      0      0      0      0      0      1      0\n\
                     Node 0, zone   Normal    512      0      0      0      0      0      0      0      1      0      1\n";
        // 512 and 1024 pages in large blocks; 512 and 256 in smaller ones.
        assert_eq!(share_of(zones), Some(1536.0 / 2304.0));
        assert_eq!(share_of("Node 0, zone DMA 0 0\n"), None);
        assert_eq!(share_of("no such file\n"), None);
    }

    #[test]
    fn the_helper_answers_with_numbers_or_a_reason() {
        let broken = Broken { blocks: 7, fixed: 5 };
        assert_eq!(Broken::read(&broken.write()).unwrap(), broken);
        assert_eq!(Broken::read("no huge pages").unwrap_err().to_string(), "no huge pages");
    }
}
