//! Live capture: runs a program and its descendants under QEMU's user-mode emulator with the capture plugin. The plugin
//! writes references and events into shared memory ([`reach_core::ring`]); [`Live`] reads them as a [`Source`].

mod blocks;
mod decode;
mod environment;
mod find;
#[cfg(test)]
mod hostile;
mod illegal;
mod launch;
mod losses;
mod memory;
mod order;
mod tree;
mod trust;

use crate::ending::nanoseconds;
use crate::signals::SignalCounter;
use crate::{Ending, Execution, Exit, Missing, Part, ProgramExit, Progress, Source, Stop, TraceError};
use decode::Decoder;
use find::Qemu;
use memory::SharedMemory;
use reach_core::{BlockTable, Chunk};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant, SystemTime};

/// The references in a full chunk.
const CHUNK_REFS: usize = 1 << 17;

/// The longest wait for more references, where the chunk has some.
const MAX_WAIT: Duration = Duration::from_millis(2);

/// The buffers to add where all are in use.
const GROWTH: usize = 64;

/// The signals that ask to end the recording. A process may send them to this process alone.
const ENDING: [libc::c_int; 2] = [libc::SIGTERM, libc::SIGHUP];

/// The time between two looks at a program whose end is awaited.
const LOOK: Duration = Duration::from_millis(5);

/// The program to capture, and how to run it.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The program: a path, or a name to look for in `PATH`.
    pub program: OsString,
    /// The program's arguments, without argument zero.
    pub args: Vec<OsString>,
    /// Variables of the program, in place of those of the same names that it inherits from this process.
    pub environment: Vec<(OsString, OsString)>,
    /// Whether the program gets all hugetlb pages that it asks for (MAP_HUGETLB), whatever this computer's pool has.
    pub grants_hugetlb: bool,
    /// Whether shared memory is placed as by a kernel that gives it huge pages (`shmem_enabled`): congruent to its offset modulo
    /// 2 MB. Linux does so only where the setting is not `never`.
    pub aligns_shared: bool,
    /// The emulator. `None` looks in `$REACH_QEMU`, the cache folder (`$XDG_CACHE_HOME/reach/qemu`,
    /// `~/.cache/reach/qemu`) and `PATH`.
    pub qemu: Option<PathBuf>,
    /// The plugin. `None` looks in `$REACH_PLUGIN` and next to the running executable.
    pub plugin: Option<PathBuf>,
    /// The working directory of the program; `None` for that of this process.
    pub folder: Option<PathBuf>,
    /// A file for the program's standard output and error; its standard input is then empty. `None` passes on the standard
    /// streams of this process.
    pub output: Option<PathBuf>,
    /// Seed of the addresses of images, mappings and stacks, which are random as Linux makes them; 0 for the addresses of
    /// Linux without randomisation.
    pub layout_seed: u32,
    /// Whether the program gets a process group of its own. Signals from the terminal then do not reach it, and
    /// [`Live::kill`] also kills its descendants.
    pub own_group: bool,
}

/// Returns the path of the emulator that [`Live::launch`] would use. Fails where no emulator with plugins is found.
pub fn emulator(given: Option<&Path>) -> Result<PathBuf, TraceError> {
    Ok(find::qemu(given)?.path)
}

/// A running program with all its descendants.
///
/// The program can run ahead of the reader until the ring is full (some megabytes). While it runs, SIGINT and SIGQUIT from
/// the terminal affect the program only, so that the reader reads everything up to its end. SIGTERM and SIGHUP that a process
/// sends to this one are passed on to the program; it gets them twice where they were sent to both. A second SIGTERM or
/// SIGHUP ends this process. Descendants that outlive the program are read to their end too. After the program has ended, one
/// of these signals ends the source, and the descendants continue untraced.
pub struct Live {
    name: String,
    decoder: Decoder,
    started: SystemTime,
    /// When the end of the program was asked for first; `None` before.
    finished: Option<SystemTime>,
    child: Child,
    status: Option<ExitStatus>,
    ended: bool,
    own_group: bool,
    signals: SignalCounter,
    /// The signal that has asked to end the recording, if one has.
    asked: Option<libc::c_int>,
    /// The signal at which descendants were left behind, if they were.
    left: Option<libc::c_int>,
    emulator: Qemu,
    memory: SharedMemory,
    /// How long reading has waited for the program.
    waited: Duration,
}

impl Live {
    /// Starts the program under the emulator.
    ///
    /// Fails where the program, an emulator with plugins, or the plugin is not found, where the program is not for 64-bit
    /// x86, and where the operating system gives no memory or no process.
    pub fn launch(options: Options) -> Result<Live, TraceError> {
        let name = launch::name(&options);
        find::proc()?;
        let program = find::program(&options.program)?;
        let qemu = find::qemu(options.qemu.as_deref())?;
        let plugin = find::plugin(options.plugin.as_deref())?;
        let memory = SharedMemory::new()?;
        let signals = SignalCounter::install(&[libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGHUP], &ENDING);
        let (reader, started) = (memory.reader(), SystemTime::now());
        let child = launch::spawn(&memory, &qemu, plugin, &program, &options)?;
        let decoder = Decoder::new(reader, child.id());
        Ok(Live {
            name,
            decoder,
            started,
            finished: None,
            child,
            status: None,
            ended: false,
            own_group: options.own_group,
            signals,
            asked: None,
            left: None,
            emulator: qemu,
            memory,
            waited: Duration::ZERO,
        })
    }

    /// Checks that [`Live::launch`] would find the program, the emulator and the plugin, and fails as it does. Callers use it
    /// before they change anything, such as an output file.
    pub fn find(options: &Options) -> Result<(), TraceError> {
        find::proc()?;
        find::program(&options.program)?;
        find::qemu(options.qemu.as_deref())?;
        find::plugin(options.plugin.as_deref())?;
        Ok(())
    }

    /// Returns the number of the program's process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the end of the program and returns its exit status: its code, or the signal that killed it. Call after the
    /// last [`fill`](Source::fill). Otherwise the remaining references are lost, and the program continues untraced.
    pub fn wait(&mut self) -> Result<ExitStatus, TraceError> {
        if !self.ended {
            self.memory.abort();
        }
        loop {
            self.pass_on_signals();
            if let Some(status) = self.look()? {
                return Ok(status);
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Returns the exit status of the program; `None` while it runs.
    fn look(&mut self) -> Result<Option<ExitStatus>, TraceError> {
        if self.status.is_none() {
            let status = self.child.try_wait();
            self.status = status.map_err(|e| TraceError::Capture(format!("waiting for the program: {e}")))?;
        }
        Ok(self.status)
    }

    /// Passes signals that were sent to this process on to the program, unless somebody else looks after its group.
    fn pass_on_signals(&mut self) {
        for signal in ENDING {
            if self.signals.was_sent(signal) && !self.own_group && self.status.is_none() {
                // SAFETY: the call takes numbers only. The program has not been waited for, so its number is its own.
                unsafe { libc::kill(self.child.id() as libc::pid_t, signal) };
            }
        }
        self.asked = self.asked.or_else(|| self.signals.first_of(&ENDING));
    }

    /// Returns the signal that has asked to end the recording; `None` if none has.
    pub fn interrupted(&self) -> Option<i32> {
        self.asked
    }

    /// Kills the program, and its descendants if it has its own group ([`Options::own_group`]). References that were not read
    /// are lost.
    pub fn kill(&mut self) {
        self.memory.abort();
        if self.own_group {
            // SAFETY: the call takes numbers only. The program leads the group, and the group keeps its number while it has
            // members.
            unsafe { libc::killpg(self.child.id() as libc::pid_t, libc::SIGKILL) };
        } else if self.status.is_none() {
            let _ = self.child.kill();
        }
        self.status = self.status.or_else(|| self.child.wait().ok());
        self.ended = true;
    }

    /// Returns whether descendants continue untraced because a signal ended the source after the program had ended.
    pub fn left_descendants(&self) -> bool {
        self.left.is_some()
    }

    /// Returns what the capture has lost so far: programs that ran untraced, and references of killed processes.
    pub fn losses(&self) -> &[String] {
        self.decoder.losses()
    }

    /// Returns whether the program and all its descendants have ended. Detects killed processes, which cannot announce their
    /// end.
    fn has_ended(&mut self, chunk: &mut Chunk) -> Result<bool, TraceError> {
        self.look()?;
        // The status must be read before the ring: then the ring has everything that ended processes wrote.
        let alive = self.decoder.finish_dead(self.status.is_some(), chunk);
        if self.status.is_some()
            && alive
            && let Some(signal) = self.signals.any_new()
        {
            self.memory.abort();
            self.left = Some(signal);
            return Ok(true);
        }
        Ok(self.status.is_some() && !alive)
    }
}

impl Source for Live {
    fn fill(&mut self, chunk: &mut Chunk) -> Result<bool, TraceError> {
        chunk.clear();
        let mut idle: Option<Instant> = None;
        while !self.ended {
            self.pass_on_signals();
            match self.decoder.read(chunk, CHUNK_REFS) {
                Some(true) if !chunk.is_empty() => return Ok(true),
                Some(_) => {
                    idle = None;
                    continue;
                }
                None => {}
            }
            let since = *idle.get_or_insert_with(Instant::now);
            let waited = since.elapsed();
            if waited >= MAX_WAIT {
                if !chunk.is_empty() {
                    return Ok(true);
                }
                self.decoder.relieve_shortage(GROWTH);
                if self.has_ended(chunk)? {
                    self.decoder.finish(chunk);
                    self.ended = true;
                    break;
                }
            }
            let before = Instant::now();
            self.memory.wait(waited);
            self.waited += before.elapsed();
        }
        Ok(!chunk.is_empty())
    }

    fn blocks(&self) -> &BlockTable {
        self.decoder.blocks()
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn progress(&self) -> Progress {
        Progress { done: self.decoder.references(), total: None }
    }

    fn waited(&self) -> Duration {
        self.waited
    }

    fn ending(&mut self) -> Ending {
        let exits = self.wait().map(|status| {
            let exit = Exit::from(status);
            let cause =
                illegal::explain(exit, self.decoder.last_of_killed(), &self.emulator.version, self.emulator.has_avx);
            ProgramExit { cause, ..exit.into() }
        });
        let missing = self.losses().iter().map(|why| Missing {
            of: self.name.clone(),
            why: why.clone(),
            todo: "the results lack them".to_owned(),
            part: Part::Gaps,
        });
        Ending {
            missing: missing.collect(),
            exits: exits.into_iter().collect(),
            stopped: self.left.or(self.asked).map(Stop::Signal),
            uncertain: None,
            execution: Some(Execution {
                from: nanoseconds(self.started),
                to: nanoseconds(*self.finished.get_or_insert_with(SystemTime::now)),
                pids: self.decoder.pids(),
            }),
        }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.memory.abort();
    }
}
