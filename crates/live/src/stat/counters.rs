//! Counts on this computer, with the kernel's perf events.

use super::models::Model;
use super::read::Count;
use perf_event::events::Raw;
use perf_event::{Builder, Counter};
use std::ffi::OsString;
use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

/// Why events cannot be counted.
#[derive(Debug, thiserror::Error)]
pub enum CountError {
    /// No model describes this processor.
    #[error("the events of this processor are unknown; docs/stat.md lists the known processors")]
    UnknownProcessor,
    /// The kernel offers no performance counters.
    #[error("this processor offers no performance counters{}", if *.guest { ": this is a virtual machine whose host provides none" } else { "" })]
    NoCounters {
        /// Whether the processor reports a hypervisor.
        guest: bool,
    },
    /// This user has no permission.
    #[error(
        "no permission to read performance counters (/proc/sys/kernel/perf_event_paranoid is {paranoid}); run as root"
    )]
    Forbidden {
        /// The value of the setting.
        paranoid: String,
    },
    /// A system call failed.
    #[error("{subject}: {source}")]
    Io {
        /// The process, program or call.
        subject: String,
        /// The error of the operating system.
        source: io::Error,
    },
}

/// Reads `/proc/cpuinfo`; empty if that fails.
fn cpuinfo() -> String {
    fs::read_to_string("/proc/cpuinfo").unwrap_or_default()
}

/// Returns the kernel's type number of the core's performance counters. `None` if it has no driver for them.
fn pmu_type() -> Option<u32> {
    let names = ["cpu", "cpu_core", "armv8_pmuv3_0", "armv8_pmuv3"];
    let of = |name: &str| fs::read_to_string(format!("/sys/bus/event_source/devices/{name}/type")).ok();
    names.iter().find_map(|name| of(name)?.trim().parse().ok())
}

/// Counters that are running.
pub struct Counters {
    /// The processor model.
    pub model: &'static Model,
    counters: Vec<(&'static str, Vec<Counter>)>,
}

impl Counters {
    /// Returns the model of this processor.
    ///
    /// # Errors
    /// If its events are unknown, or the kernel offers no counters.
    pub fn model() -> Result<&'static Model, CountError> {
        let cpuinfo = cpuinfo();
        if pmu_type().is_none() {
            let guest = cpuinfo.lines().any(|line| line.starts_with("flags") && line.contains(" hypervisor"));
            return Err(CountError::NoCounters { guest });
        }
        Model::of(&cpuinfo).ok_or(CountError::UnknownProcessor)
    }

    /// Counts these threads and all that they start, from now on, or from their next exec if `on_exec`.
    ///
    /// # Errors
    /// If the kernel refuses every event.
    fn open(threads: &[i32], on_exec: bool) -> Result<Counters, CountError> {
        let model = Counters::model()?;
        let pmu = pmu_type().ok_or(CountError::NoCounters { guest: false })?;
        let (mut counters, mut refusal) = (Vec::new(), None);
        for event in model.events {
            let open = |&thread: &i32| {
                let mut builder = Builder::new(Raw::new(event.config));
                builder.attrs_mut().type_ = pmu;
                builder.observe_pid(thread).inherit(true).enabled(!on_exec).enable_on_exec(on_exec);
                // Kernel time is part of the program's. Without permission for it, count user time only.
                builder.exclude_kernel(false);
                builder.build().or_else(|_| builder.exclude_kernel(true).build())
            };
            match threads.iter().map(open).collect::<io::Result<Vec<_>>>() {
                Ok(opened) => counters.push((event.name, opened)),
                Err(error) => refusal = Some(error),
            }
        }
        match refusal {
            Some(error) if counters.is_empty() => Err(refused(error)),
            _ => Ok(Counters { model, counters }),
        }
    }

    /// Counts a process and all that it starts, from now on.
    ///
    /// # Errors
    /// If there is no such process, or the kernel refuses.
    pub fn of_process(pid: i32) -> Result<Counters, CountError> {
        Counters::model()?;
        let threads = fs::read_dir(format!("/proc/{pid}/task"));
        let threads = threads.map_err(|source| CountError::Io { subject: format!("process {pid}"), source })?;
        let threads: Vec<i32> =
            threads.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
        Counters::open(&threads, false)
    }

    /// Reads the counts, scaled to the whole time if events shared a counter.
    ///
    /// # Errors
    /// If a counter cannot be read.
    pub fn read(&mut self) -> Result<Vec<Count>, CountError> {
        let wrong = |source| CountError::Io { subject: "reading counters".into(), source };
        let mut counts = Vec::new();
        for (name, counters) in &mut self.counters {
            let (mut value, mut share, mut counted) = (0, 1.0f64, false);
            for counter in counters {
                let read = counter.read_count_and_time().map_err(wrong)?;
                if let Some((scaled, part)) = scale(read.count, read.time_enabled, read.time_running) {
                    (value, share, counted) = (value + scaled, share.min(part), true);
                }
            }
            counts.push(Count { name: (*name).to_owned(), value: counted.then_some(value), share });
        }
        Ok(counts)
    }
}

/// Scales a count to the whole time. Returns it with the share of the time that was counted; `None` if that is 0. Times are in
/// nanoseconds.
pub(super) fn scale(count: u64, enabled: u64, running: u64) -> Option<(u64, f64)> {
    if running == 0 {
        return None;
    }
    let scaled = u128::from(count) * u128::from(enabled.max(running)) / u128::from(running);
    Some((u64::try_from(scaled).unwrap_or(u64::MAX), running as f64 / enabled.max(running) as f64))
}

fn refused(error: io::Error) -> CountError {
    match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => {
            let paranoid = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
            CountError::Forbidden { paranoid: paranoid.trim().to_owned() }
        }
        Some(libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP) => CountError::NoCounters { guest: false },
        _ => CountError::Io { subject: "perf_event_open".into(), source: error },
    }
}

/// Starts a program, and counts it and all that it starts from its first instruction on.
///
/// # Errors
/// If it cannot be started or counted.
pub fn run(command: &[OsString]) -> Result<(Child, Counters), CountError> {
    Counters::model()?;
    let name = command[0].to_string_lossy().into_owned();
    let wrong = |source| CountError::Io { subject: name.clone(), source };
    // The child sends its process ID, and waits until its counters exist.
    let (mut pid_reader, mut pid_writer) = io::pipe().map_err(wrong)?;
    let (wait, go) = io::pipe().map_err(wrong)?;
    let mut program = Command::new(&command[0]);
    program.args(&command[1..]);
    let (pid_fd, wait_fd) = (pid_writer.as_raw_fd(), wait.as_raw_fd());
    // SAFETY: between fork and exec, the closure calls getpid, write and read only, which are async-signal-safe.
    unsafe {
        program.pre_exec(move || {
            let pid = libc::getpid().to_ne_bytes();
            let mut byte = 0u8;
            if libc::write(pid_fd, pid.as_ptr().cast(), pid.len()) != pid.len() as isize
                || libc::read(wait_fd, (&raw mut byte).cast(), 1) != 1
            {
                return Err(io::Error::last_os_error());
            }
            Ok(())
        });
    }
    std::thread::scope(|scope| {
        let starting = scope.spawn(move || {
            let started = program.spawn();
            if started.is_err() {
                // The reader of the process ID gets 0: there is no child.
                let _ = pid_writer.write_all(&0i32.to_ne_bytes());
            }
            started
        });
        let mut pid = [0; 4];
        pid_reader.read_exact(&mut pid).map_err(wrong)?;
        let pid = i32::from_ne_bytes(pid);
        let counters = if pid > 0 { Some(Counters::open(&[pid], true)) } else { None };
        let _ = (&go).write_all(&[1]);
        let started = starting.join().unwrap_or_else(|_| Err(io::Error::other("it could not be started")));
        let mut child = started.map_err(wrong)?;
        match counters {
            Some(Ok(counters)) => Ok((child, counters)),
            other => {
                let _ = child.kill();
                let _ = child.wait();
                Err(other.and_then(Result::err).unwrap_or(CountError::UnknownProcessor))
            }
        }
    })
}
