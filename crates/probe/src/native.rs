//! A bench on the computer that this runs on.
//!
//! Chains of loads lie in memory as pointers, which a loop follows; chains of fetches as instructions. The clock is calibrated by a chain of dependent additions, which take a
//! cycle each on every processor: so numbers are cycles of the core, whatever its frequency. The shortest of several
//! runs counts, because interruptions only lengthen them.

mod area;
mod bandwidth;
mod code;
mod files;
mod follow;
mod guest;
mod kernel;

use crate::bench::{Bench, BenchError};
use crate::pass::Pass;
use crate::pattern::{Access, Page, Pattern};
use area::Area;
use code::CodeArea;
use reach_live::scatter;
use std::time::{Duration, Instant};

/// The shortest time over which a chain is followed: long beside the clock's resolution, short beside a time slice.
const WINDOW: Duration = Duration::from_micros(150);
/// Windows of a measurement, the shortest of which counts.
const WINDOWS: usize = 9;
/// The longest time for one measurement, after its first window.
const LONGEST: Duration = Duration::from_millis(60);
/// Additions of a calibration.
const ADDITIONS: u64 = 40_000;
/// The most small pages of a pattern.
const MAX_SMALL: u64 = 65_536;
/// The most small pages of a pattern that measures walks: 2 GB.
const MOST_WALKED: u64 = 524_288;
/// The most huge pages of a pattern: 1 GB.
const MAX_HUGE: u64 = 512;

/// This computer.
pub struct Native {
    small: Area,
    huge: Area,
    code: CodeArea,
    /// The most huge pages, as memory allows.
    max_huge: u64,
    /// The most small pages, as memory allows.
    most_walked: u64,
    deadline: Instant,
}

impl Native {
    /// Prepares this computer. Measurements fail after `deadline`.
    ///
    /// # Errors
    /// When the kernel refuses address space, and on processors for which there is no calibration.
    pub fn new(deadline: Instant) -> Result<Native, BenchError> {
        if !follow::IS_CALIBRATED {
            return Err(BenchError::Failed("the clock can be calibrated on x86-64 and 64-bit Arm only".into()));
        }
        let quarter = available_memory() / 4;
        let max_huge = if Area::has_huge_pages() { MAX_HUGE.min(quarter / Page::Huge.bytes()) } else { 0 };
        let most_walked = MOST_WALKED.min(quarter / Page::Small.bytes()).max(MAX_SMALL);
        let (small, huge, code) = (Area::new(Page::Small)?, Area::new(Page::Huge)?, CodeArea::new()?);
        Ok(Native { small, huge, code, max_huge, most_walked, deadline })
    }

    /// Measures all that this computer can show: what every bench does, its clock, and the kernel's work.
    pub fn pass(&mut self) -> Pass {
        let mut pass = Pass::default();
        // First, while this process has few pages of its own.
        kernel::measure(&mut pass, self.max_huge > 0);
        match scatter::new_frames() {
            Ok(Some(frames)) => {
                pass.enter("os.frame_groups", 1000.0 * frames.groups_per_page);
                pass.enter("os.frame_jumps", (1000.0 * frames.jumps_per_page).max(1.0));
            }
            Ok(None) => pass.lack(
                "os.frame_groups",
                &BenchError::Failed("the kernel hides page frames from this user; root sees them".into()),
            ),
            Err(error) => pass.lack("os.frame_groups", &BenchError::Failed(error.to_string())),
        }
        pass.measure(self);
        pass.take_guest(guest::is_guest());
        pass.enter("core.mhz", self.megahertz());
        match bandwidth::all(available_memory() / 4) {
            Ok(rate) => pass.enter("memory.bandwidth.all", rate),
            Err(why) => pass.lack("memory.bandwidth.all", &BenchError::Failed(why)),
        }
        pass
    }
}

impl Bench for Native {
    fn cycles(&mut self, pattern: &Pattern) -> Result<f64, BenchError> {
        let steps = pattern.steps() as u64;
        match (pattern.access, pattern.page) {
            (Access::Fetch, Page::Small) => {
                let chain = self.code.write(pattern, MAX_SMALL)?;
                shortest(steps, self.deadline, |laps| chain.run(laps))
            }
            (Access::Load, Page::Small) => {
                let mut at = self.small.write(pattern, self.most_walked)?;
                shortest(steps, self.deadline, |laps| at = follow::chains(&at, laps * steps))
            }
            (Access::Load, Page::Huge) if self.max_huge > 0 => {
                let mut at = self.huge.write(pattern, self.max_huge)?;
                shortest(steps, self.deadline, |laps| at = follow::chains(&at, laps * steps))
            }
            (access, page) => {
                let why = match access {
                    Access::Load => "the kernel has no transparent huge pages, or too little memory is available",
                    Access::Fetch => "instructions are fetched from small pages only",
                };
                Err(BenchError::NoPages { page, why: why.into() })
            }
        }
    }

    fn max_pages(&self, page: Page) -> u64 {
        match page {
            Page::Small => MAX_SMALL,
            Page::Huge => self.max_huge,
        }
    }

    fn megahertz(&self) -> f64 {
        let shortest = (0..64).map(|_| seconds_of_additions()).fold(f64::MAX, f64::min);
        ADDITIONS as f64 / shortest / 1e6
    }

    fn most_walked(&self) -> u64 {
        self.most_walked
    }

    fn area(&self) -> u64 {
        area::BYTES
    }
}

/// Returns the core cycles of a step of a pattern, `steps` to a lap: the shortest of several windows. `visit` makes a number of
/// laps.
fn shortest(steps: u64, deadline: Instant, mut visit: impl FnMut(u64)) -> Result<f64, BenchError> {
    let mut time = |laps| {
        let begin = Instant::now();
        visit(laps);
        begin.elapsed()
    };
    // Whole laps, so that each window has the same work.
    time(1);
    let lap = time(1).max(Duration::from_nanos(20));
    let laps = (WINDOW.as_nanos() / lap.as_nanos() + 1) as u64;
    let (mut shortest, mut addition) = (f64::MAX, f64::MAX);
    let begin = Instant::now();
    for window in 0..WINDOWS {
        if Instant::now() > deadline {
            return Err(BenchError::TimeOver);
        }
        if window >= 1 && begin.elapsed() > LONGEST {
            break;
        }
        addition = addition.min(seconds_of_additions() / ADDITIONS as f64);
        shortest = shortest.min(time(laps).as_secs_f64() / (laps * steps) as f64);
    }
    Ok(shortest / addition)
}

/// Returns the seconds of a chain of [`ADDITIONS`].
fn seconds_of_additions() -> f64 {
    let begin = Instant::now();
    follow::additions(ADDITIONS);
    begin.elapsed().as_secs_f64()
}

/// Returns the bytes that programs can have without swapping; 0 where the kernel does not say.
fn available_memory() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kilobytes.unwrap_or(0) << 10
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_in_the_first_cache_takes_some_cycles_and_one_in_memory_more() {
        let mut native = Native::new(Instant::now() + Duration::from_secs(60)).unwrap();
        let near = native.cycles(&Pattern::lines(Page::Small, 32)).unwrap();
        // The first-level latencies of all processors since 2000 lie within.
        assert!((1.0..20.0).contains(&near), "{near}");
        let far = native.cycles(&Pattern::pages(Page::Small, 0..32_768)).unwrap();
        assert!(far > 2.0 * near, "{far} {near}");
    }

    #[test]
    fn fetches_from_more_pages_than_a_first_level_holds_take_longer_than_from_few() {
        let mut native = Native::new(Instant::now() + Duration::from_secs(60)).unwrap();
        let mut cycles = |pattern: Pattern| native.cycles(&pattern.by(Access::Fetch));
        if !cfg!(target_arch = "x86_64") {
            return assert!(cycles(Pattern::lines(Page::Small, 1)).unwrap_err().to_string().contains("x86-64"));
        }
        // Other programs make some tries slower.
        let mut least =
            |pattern: Pattern| (0..5).map(|_| cycles(pattern.clone()).unwrap()).fold(f64::INFINITY, f64::min);
        // The return is mispredicted, which takes more than the chain of its instructions.
        let one = least(Pattern::lines(Page::Small, 1));
        assert!(one > 5.0, "{one}");
        let (few, many) = (least(Pattern::lines(Page::Small, 512)), least(Pattern::pages(Page::Small, 0..512)));
        assert!(many > few + 1.0, "{many} {few}");
        assert!(cycles(Pattern::lines(Page::Huge, 1)).is_err());
    }

    #[test]
    fn an_expired_deadline_ends_measuring() {
        let mut native = Native::new(Instant::now()).unwrap();
        assert_eq!(native.cycles(&Pattern::lines(Page::Small, 32)), Err(BenchError::TimeOver));
    }
}
