//! How long page faults stop a program, as the kernel's software events tell: one counts faults as they begin, two as they end.
//!
//! Faults of the program's own code are seen, not those of system calls on its behalf, and none of the time before the program's
//! first instructions. The time to note a fault is in it.

use crate::native::Running;
use perf_event::data::Record;
use perf_event::events::Software;
use perf_event::{Builder, Clock, SampleFlag, Sampler};
use rustix::thread::{CpuSet, sched_getaffinity};
use rustix::time::{ClockId, clock_gettime};
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// The events, and whether they are of faults that end.
const EVENTS: [(Software, bool); 3] =
    [(Software::PAGE_FAULTS, false), (Software::PAGE_FAULTS_MIN, true), (Software::PAGE_FAULTS_MAJ, true)];
/// Bytes of records that a processor holds for one event: three million faults a second, and less than users may lock.
const RING: usize = 128 << 10;
const PAUSE: Duration = Duration::from_millis(1);
/// Nanoseconds after which a record has certainly been read from its ring: the rings are read one after the other.
const SETTLED: u64 = 10_000_000;

/// The stops of a program by its page faults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stops {
    /// The faults that were timed.
    pub faults: u64,
    /// The time of all of them together.
    pub total: Duration,
    /// The time that 99 % of them took at most.
    pub p99: Duration,
    /// The longest.
    pub longest: Duration,
}

/// Times the page faults of a running program.
#[derive(Debug)]
pub struct Timing {
    end: Arc<AtomicBool>,
    /// `None` once it is joined.
    reader: Option<JoinHandle<Option<Stops>>>,
}

impl Timing {
    /// Begins to time the faults of `running` and of the threads and processes that it starts.
    ///
    /// # Errors
    /// When the kernel has no such events, or does not allow them.
    pub fn begin(running: &Running) -> io::Result<Timing> {
        let mut rings = Vec::new();
        // The program may run where this thread may.
        let here = sched_getaffinity(None)?;
        for processor in (0..CpuSet::MAX_CPU).filter(|&processor| here.is_set(processor)) {
            for (event, ends) in EVENTS {
                rings.push((ring(event, running.pid(), processor)?, ends));
            }
        }
        let end = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&end);
        Ok(Timing { end, reader: Some(thread::spawn(move || read(rings, &ended))) })
    }

    /// Returns what was seen. `None`: no fault, or the kernel lost records.
    pub fn end(mut self) -> Option<Stops> {
        self.join()
    }

    fn join(&mut self) -> Option<Stops> {
        self.end.store(true, Ordering::Release);
        self.reader.take()?.join().ok().flatten()
    }
}

impl Drop for Timing {
    fn drop(&mut self) {
        self.join();
    }
}

/// Opens the ring of an event of a process on a processor.
fn ring(event: Software, pid: i32, processor: usize) -> io::Result<Sampler> {
    let mut builder = Builder::new(event);
    builder.observe_pid(pid).one_cpu(processor).inherit(true).enabled(true).sample_period(1);
    builder.sample(SampleFlag::TID).sample(SampleFlag::TIME).clockid(Clock::MONOTONIC);
    builder.build()?.sampled(RING)
}

/// Reads all rings until `ended` says that the program has.
fn read(mut rings: Vec<(Sampler, bool)>, ended: &AtomicBool) -> Option<Stops> {
    let mut pairs = Pairs::default();
    let mut lost = false;
    loop {
        let last = ended.load(Ordering::Acquire);
        let now = clock_gettime(ClockId::Monotonic);
        let now = now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64;
        for (ring, ends) in &mut rings {
            while let Some(record) = ring.next_record() {
                match record.parse_record() {
                    Ok(Record::Sample(sample)) => {
                        let of = sample.time().zip(sample.tid());
                        pairs.waiting.extend(of.map(|(time, thread)| Fault { time, thread, ends: *ends }));
                    }
                    Ok(Record::Lost(_) | Record::LostSamples(_) | Record::Throttle(_)) | Err(_) => lost = true,
                    Ok(_) => {}
                }
            }
        }
        pairs.settle(if last { u64::MAX } else { now.saturating_sub(SETTLED) });
        if last {
            return if lost { None } else { pairs.stops() };
        }
        thread::sleep(PAUSE);
    }
}

/// The beginning or the end of a fault. Ordered by time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Fault {
    /// In nanoseconds.
    time: u64,
    thread: u32,
    ends: bool,
}

/// Finds the beginning of each fault that ends.
#[derive(Default)]
struct Pairs {
    waiting: Vec<Fault>,
    /// The beginnings, by thread.
    begun: HashMap<u32, u64>,
    /// How long faults took, in nanoseconds.
    took: Vec<u64>,
}

impl Pairs {
    /// Pairs what happened before `time`.
    fn settle(&mut self, time: u64) {
        self.waiting.sort_unstable();
        let settled = self.waiting.partition_point(|fault| fault.time < time);
        for fault in self.waiting.drain(..settled) {
            if !fault.ends {
                // A fault that ended in a signal has no end.
                self.begun.insert(fault.thread, fault.time);
            } else if let Some(begun) = self.begun.remove(&fault.thread) {
                self.took.push(fault.time - begun);
            }
        }
    }

    /// Returns the stops by all pairs. `None` without any.
    fn stops(mut self) -> Option<Stops> {
        self.took.sort_unstable();
        let longest = *self.took.last()?;
        let faults = self.took.len();
        let p99 = self.took[(faults * 99).div_ceil(100) - 1];
        let total = self.took.iter().sum();
        let [total, p99, longest] = [total, p99, longest].map(Duration::from_nanos);
        Some(Stops { faults: faults as u64, total, p99, longest })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native::{Task, Thp};
    use std::path::Path;

    #[test]
    fn a_fault_begins_and_ends_in_its_thread_whatever_the_order_of_reading() {
        let fault = |time, thread, ends| Fault { time, thread, ends };
        // Thread 1 has faults of 100 and 30 ns, thread 2 one of 500 ns, and one that does not end.
        let waiting = vec![fault(600, 2, true), fault(1100, 1, true), fault(100, 2, false), fault(1000, 1, false)];
        let mut pairs = Pairs { waiting, ..Pairs::default() };
        pairs.settle(1050);
        assert_eq!((&pairs.took[..], pairs.waiting.len()), (&[500][..], 1));
        pairs.waiting.extend([
            fault(2030, 1, true),
            fault(2000, 1, false),
            fault(3000, 2, false),
            fault(1500, 3, true),
        ]);
        pairs.settle(u64::MAX);
        let longest = Duration::from_nanos(500);
        let total = Duration::from_nanos(630);
        assert_eq!(pairs.stops(), Some(Stops { faults: 3, total, p99: longest, longest }));
        assert_eq!(Pairs::default().stops(), None);
    }

    #[test]
    fn the_faults_of_a_program_and_its_children_are_timed() {
        let folder = tempfile::tempdir().unwrap();
        // The pause lets the events be opened first; tr holds all of its input.
        let script = "sleep 0.2; head -c 16M /dev/zero | tr '\\n' x | sort -z | wc -c";
        let task = Task {
            program: Path::new("sh"),
            args: &["-c".into(), script.into()],
            folder: None,
            output: &folder.path().join("output"),
            environment: &[],
            thp: Thp::Disabled,
            own_group: true,
        };
        let running = task.start().unwrap();
        let timing = match Timing::begin(&running) {
            Ok(timing) => timing,
            Err(error) => return println!("not tested: {error}"),
        };
        let usage = running.wait().unwrap();
        let stops = timing.end().expect("faults");
        // System calls take part of the program's faults.
        assert!(stops.faults > 500 && stops.faults <= usage.faults, "{stops:?} {usage:?}");
        assert!(stops.p99 > Duration::ZERO && stops.p99 <= stops.longest && stops.longest < usage.wall, "{stops:?}");
    }
}
