//! Live programs: a process tree that runs under QEMU's user-mode emulator with the capture plugin. The tree writes
//! what it does into shared memory ([`reach_core::ring`]); [`Live`] reads that as a [`Source`].

mod decode;
mod find;
mod known;
mod launch;
mod memory;
mod order;
mod tree;

use crate::signals::SignalCounter;
use crate::{Progress, Source, TraceError};
use decode::Decoder;
use memory::Memory;
use reach_core::{BlockTable, Chunk};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

/// References after which a chunk is full.
const CHUNK: usize = 1 << 17;

/// How long a chunk that is not empty waits for more.
const PATIENCE: Duration = Duration::from_millis(2);

/// Buffers that a shortage adds.
const MORE: usize = 64;

/// What to run, and by what means. The environment is passed on as it is.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The program: a path, or a name to look for in `PATH`.
    pub program: OsString,
    /// Its arguments, without argument zero.
    pub args: Vec<OsString>,
    /// The emulator; `None` looks in `$REACH_QEMU`, the cache folder (`$XDG_CACHE_HOME/reach/qemu`,
    /// `~/.cache/reach/qemu`) and `PATH`.
    pub qemu: Option<PathBuf>,
    /// The plugin; `None` looks in `$REACH_PLUGIN` and beside the running executable.
    pub plugin: Option<PathBuf>,
    /// The folder in which it runs; `None` for that of this process.
    pub folder: Option<PathBuf>,
    /// A file that takes its standard output and error, while its standard input is empty; `None` passes on the streams
    /// of this process as they are.
    pub output: Option<PathBuf>,
    /// Whether it is nobody's but the caller's: out of the terminal's reach, and killed with its descendants by
    /// [`Live::kill`].
    pub own: bool,
}

/// The emulator that a launch would take: the path of one that has plugins, or why there is none.
pub fn emulator(given: Option<&Path>) -> Result<PathBuf, TraceError> {
    Ok(find::qemu(given)?.path)
}

/// A running program with all its descendants.
///
/// The program runs only as far ahead of the reader as the ring holds (some megabytes). While it runs, SIGINT and
/// SIGQUIT from the terminal go to the program and leave the reader alone, so that everything up to its end is read.
/// Descendants that outlive the program are read to their end, too; after the program has ended, one of those signals
/// lets them go on untraced and ends the source.
pub struct Live {
    name: String,
    decoder: Decoder,
    child: Child,
    status: Option<ExitStatus>,
    ended: bool,
    own: bool,
    interrupts: SignalCounter,
    // Last: everything above looks into it.
    memory: Memory,
}

impl Live {
    /// Starts the program under the emulator.
    ///
    /// Fails when the program, an emulator with plugins, or the plugin cannot be found, when the program is not one for
    /// 64-bit x86, or when the operating system refuses memory or a process.
    pub fn launch(options: Options) -> Result<Live, TraceError> {
        let name = launch::name(&options);
        let program = find::program(&options.program)?;
        let qemu = find::qemu(options.qemu.as_deref())?;
        let plugin = find::plugin(options.plugin.as_deref())?;
        let memory = Memory::new()?;
        let interrupts = SignalCounter::install(&[libc::SIGINT, libc::SIGQUIT]);
        let child = launch::spawn(&memory, &qemu, plugin, &program, &options)?;
        let decoder = Decoder::new(memory.ring(), child.id());
        Ok(Live { name, decoder, child, status: None, ended: false, own: options.own, interrupts, memory })
    }

    /// Whether [`Live::launch`] would find the program, the emulator and the plugin; fails as it does. For those who
    /// must know before they touch anything else.
    pub fn find(options: &Options) -> Result<(), TraceError> {
        find::program(&options.program)?;
        find::qemu(options.qemu.as_deref())?;
        find::plugin(options.plugin.as_deref())?;
        Ok(())
    }

    /// Waits for the program's end and returns its own exit status: its code, or the signal that killed it. To be called
    /// after the last [`fill`](Source::fill); if references are still to come, they are given up and the program goes
    /// on untraced.
    pub fn wait(&mut self) -> Result<ExitStatus, TraceError> {
        if !self.ended {
            self.memory.abort();
        }
        match self.status {
            Some(status) => Ok(status),
            None => {
                let status =
                    self.child.wait().map_err(|e| TraceError::Capture(format!("waiting for the program: {e}")))?;
                Ok(*self.status.insert(status))
            }
        }
    }

    /// Kills the program, and all its descendants if they are the caller's own ([`Options::own`]). What was not read is lost.
    pub fn kill(&mut self) {
        self.memory.abort();
        if self.own {
            // SAFETY: a call on numbers. The program leads the group, whose number stays its own while it has members; who has
            // died meanwhile needs no killing.
            unsafe { libc::killpg(self.child.id() as libc::pid_t, libc::SIGKILL) };
        } else if self.status.is_none() {
            let _ = self.child.kill();
        }
        self.status = self.status.or_else(|| self.child.wait().ok());
        self.ended = true;
    }

    /// What the user should know about the capture so far: programs that ran untraced, and losses.
    pub fn notices(&self) -> &[String] {
        self.decoder.notices()
    }

    /// Whether the program and all its descendants have ended. Finds those that died without a word.
    fn all_over(&mut self, chunk: &mut Chunk) -> Result<bool, TraceError> {
        if self.status.is_none() {
            let status = self.child.try_wait();
            self.status = status.map_err(|e| TraceError::Capture(format!("waiting for the program: {e}")))?;
        }
        // Looked at before the last look into the ring: what the dead wrote is there by then.
        let alive = self.decoder.bury(self.status.is_some(), chunk);
        if self.status.is_some() && alive && self.interrupts.any_new() {
            self.memory.abort();
            self.decoder.notice("interrupted: processes that outlive the program go on untraced");
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
            if self.decoder.read(chunk, CHUNK) {
                idle = None;
                if chunk.refs.len() >= CHUNK {
                    return Ok(true);
                }
                continue;
            }
            let since = *idle.get_or_insert_with(Instant::now);
            let waited = since.elapsed();
            if waited >= PATIENCE {
                if !chunk.is_empty() {
                    return Ok(true);
                }
                self.memory.relieve(MORE);
                if self.all_over(chunk)? {
                    self.decoder.finish(chunk);
                    self.ended = true;
                    break;
                }
            }
            self.memory.wait(waited);
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
}

impl Drop for Live {
    fn drop(&mut self) {
        self.memory.abort();
    }
}
