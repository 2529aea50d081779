//! Counting here, with the kernel's perf events.

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

/// Why nothing is counted.
#[derive(Debug, thiserror::Error)]
pub enum CountError {
    /// No model.
    #[error("the events of this processor are not known here; docs/stat.md lists the processors that are")]
    UnknownProcessor,
    /// No counters.
    #[error("this processor shows no counters{}", if *.guest { ": it is a guest's, and the host gives none" } else { "" })]
    NoCounters {
        /// It says that it is a guest.
        guest: bool,
    },
    /// No rights.
    #[error("counters may not be read (/proc/sys/kernel/perf_event_paranoid is {paranoid}); as root they may")]
    Forbidden {
        /// The setting.
        paranoid: String,
    },
    /// The process or the program.
    #[error("{subject}: {source}")]
    Io {
        /// The process, program or call.
        subject: String,
        /// What the system said.
        source: io::Error,
    },
}

/// What `/proc/cpuinfo` says.
fn cpuinfo() -> String {
    fs::read_to_string("/proc/cpuinfo").unwrap_or_default()
}

/// The kernel's number for the counters of the core; there is none where it has no driver for them.
fn kind() -> Option<u32> {
    let names = ["cpu", "cpu_core", "armv8_pmuv3_0", "armv8_pmuv3"];
    let of = |name: &str| fs::read_to_string(format!("/sys/bus/event_source/devices/{name}/type")).ok();
    names.iter().find_map(|name| of(name)?.trim().parse().ok())
}

/// Events that are being counted.
pub struct Counters {
    /// By which model.
    pub model: &'static Model,
    counters: Vec<(&'static str, Vec<Counter>)>,
}

impl Counters {
    /// The model of this processor.
    ///
    /// # Errors
    /// When its events are not known, or it shows no counters.
    pub fn model() -> Result<&'static Model, CountError> {
        let cpuinfo = cpuinfo();
        if kind().is_none() {
            let guest = cpuinfo.lines().any(|line| line.starts_with("flags") && line.contains(" hypervisor"));
            return Err(CountError::NoCounters { guest });
        }
        Model::of(&cpuinfo).ok_or(CountError::UnknownProcessor)
    }

    /// Counts what these threads do from now on, or from their next exec on, with all that they start.
    ///
    /// # Errors
    /// When the kernel refuses all.
    fn open(threads: &[i32], on_exec: bool) -> Result<Counters, CountError> {
        let model = Counters::model()?;
        let kind = kind().ok_or(CountError::NoCounters { guest: false })?;
        let (mut counters, mut refusal) = (Vec::new(), None);
        for event in model.events {
            let open = |&thread: &i32| {
                let mut builder = Builder::new(Raw::new(event.config));
                builder.attrs_mut().type_ = kind;
                builder.observe_pid(thread).inherit(true).enabled(!on_exec).enable_on_exec(on_exec);
                // The kernel works for the program too; where that is not to be seen, the program alone.
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

    /// Counts what a process and all that it starts do from now on.
    ///
    /// # Errors
    /// When there is no such process, or the kernel refuses.
    pub fn of_process(pid: i32) -> Result<Counters, CountError> {
        Counters::model()?;
        let threads = fs::read_dir(format!("/proc/{pid}/task"));
        let threads = threads.map_err(|source| CountError::Io { subject: format!("process {pid}"), source })?;
        let threads: Vec<i32> =
            threads.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
        Counters::open(&threads, false)
    }

    /// What has been counted; where events took turns, scaled to the whole time.
    ///
    /// # Errors
    /// When the kernel does not say.
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

/// A count for the whole time, and the share of it that was counted; none where none was.
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

/// Starts a program with all that it does counted from its first instruction on.
///
/// # Errors
/// When it cannot be started, or not be counted.
pub fn run(command: &[OsString]) -> Result<(Child, Counters), CountError> {
    Counters::model()?;
    let name = command[0].to_string_lossy().into_owned();
    let wrong = |source| CountError::Io { subject: name.clone(), source };
    // The child says who it is, and waits until it is counted.
    let (mut told, mut tell) = io::pipe().map_err(wrong)?;
    let (wait, go) = io::pipe().map_err(wrong)?;
    let mut program = Command::new(&command[0]);
    program.args(&command[1..]);
    let (tells, waits) = (tell.as_raw_fd(), wait.as_raw_fd());
    // SAFETY: between fork and exec only getpid, write and read are called, which signal handlers may call too.
    unsafe {
        program.pre_exec(move || {
            let pid = libc::getpid().to_ne_bytes();
            let mut byte = 0u8;
            if libc::write(tells, pid.as_ptr().cast(), pid.len()) != pid.len() as isize
                || libc::read(waits, (&raw mut byte).cast(), 1) != 1
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
                // Whoever waits for the child's number hears that there is none.
                let _ = tell.write_all(&0i32.to_ne_bytes());
            }
            started
        });
        let mut pid = [0; 4];
        told.read_exact(&mut pid).map_err(wrong)?;
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
