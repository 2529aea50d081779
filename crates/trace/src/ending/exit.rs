//! Exit statuses of programs, and the names of signals.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    /// It exited with this status, 0 to 255.
    Status(i32),
    /// This signal ended it.
    Signal(i32),
}

/// How one program ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramExit {
    /// The name of the program where there are several; empty where there is one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub program: String,
    /// How it ended.
    pub exit: Exit,
    /// The cause, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<Cause>,
}

/// Why a program failed under an emulator and would not have failed without.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The emulator lacks AVX, AVX2 or another instruction of their encoding (VEX).
    LacksAvx {
        /// The emulator and its version.
        emulator: String,
        /// Whether a newer version has AVX and AVX2.
        newer_has: bool,
    },
    /// The emulator lacks AVX-512, as all versions do.
    LacksAvx512 {
        /// The emulator and its version.
        emulator: String,
    },
}

impl Exit {
    /// Returns whether the program ended by a signal, or with a status other than 0.
    pub fn failed(self) -> bool {
        self != Exit::Status(0)
    }

    /// Returns the exit status that a shell gives: 128 + n after signal n.
    pub fn shell_status(self) -> u8 {
        match self {
            Exit::Status(status) => status as u8,
            Exit::Signal(signal) => 128u8.wrapping_add(signal as u8),
        }
    }
}

impl From<ExitStatus> for Exit {
    fn from(status: ExitStatus) -> Exit {
        match (status.code(), status.signal()) {
            (None, Some(signal)) => Exit::Signal(signal),
            (code, _) => Exit::Status(code.unwrap_or(1)),
        }
    }
}

impl From<Exit> for ProgramExit {
    /// Returns the end of the only program.
    fn from(exit: Exit) -> ProgramExit {
        ProgramExit { program: String::new(), exit, cause: None }
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Exit::Status(status) => write!(f, "ended with exit status {status}"),
            Exit::Signal(libc::SIGKILL) => write!(f, "was killed (signal 9, SIGKILL)"),
            Exit::Signal(signal) => match name(signal) {
                Some(name) => write!(f, "ended by signal {signal} ({name})"),
                None => write!(f, "ended by signal {signal}"),
            },
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::LacksAvx { emulator, newer_has: true } => write!(
                f,
                "it executed an AVX or AVX2 instruction, which {emulator} lacks; `make qemu` builds an emulator that has \
                 them (docs/qemu.md)"
            ),
            Cause::LacksAvx { emulator, newer_has: false } => write!(
                f,
                "it executed an instruction of the encoding of AVX (VEX) that {emulator} lacks; run the program without it"
            ),
            Cause::LacksAvx512 { emulator } => write!(
                f,
                "it executed an AVX-512 instruction, which {emulator} lacks, as all versions do; run the program without \
                 AVX-512 (docs/qemu.md)"
            ),
        }
    }
}

impl fmt::Display for ProgramExit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ProgramExit { program, exit, cause } = self;
        let program = if program.is_empty() { "the program" } else { program };
        write!(f, "{program} {exit}")?;
        match cause {
            Some(cause) => write!(f, ": {cause}"),
            None => Ok(()),
        }
    }
}

/// Returns the name of a signal, or its number in words.
pub(super) fn signal_name(signal: i32) -> String {
    name(signal).map_or_else(|| format!("signal {signal}"), str::to_owned)
}

/// Returns the name of a standard signal of Linux on x86-64.
fn name(signal: i32) -> Option<&'static str> {
    const NAMES: [&str; 31] = [
        "SIGHUP",
        "SIGINT",
        "SIGQUIT",
        "SIGILL",
        "SIGTRAP",
        "SIGABRT",
        "SIGBUS",
        "SIGFPE",
        "SIGKILL",
        "SIGUSR1",
        "SIGSEGV",
        "SIGUSR2",
        "SIGPIPE",
        "SIGALRM",
        "SIGTERM",
        "SIGSTKFLT",
        "SIGCHLD",
        "SIGCONT",
        "SIGSTOP",
        "SIGTSTP",
        "SIGTTIN",
        "SIGTTOU",
        "SIGURG",
        "SIGXCPU",
        "SIGXFSZ",
        "SIGVTALRM",
        "SIGPROF",
        "SIGWINCH",
        "SIGIO",
        "SIGPWR",
        "SIGSYS",
    ];
    usize::try_from(signal).ok()?.checked_sub(1).and_then(|at| NAMES.get(at).copied())
}
