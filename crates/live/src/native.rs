//! Runs programs natively, with or without transparent huge pages, and measures the processor time that they take.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// The pages that a program may have for its anonymous memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    /// Base pages only: `PR_SET_THP_DISABLE`, which children inherit.
    Base,
    /// Transparent huge pages where this Linux gives them.
    Huge,
}

/// What a program and its descendants have used.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    /// Time from start to end.
    pub wall: Duration,
    /// Processor time in user mode.
    pub user: Duration,
    /// Processor time in the kernel.
    pub system: Duration,
    /// How the program ended.
    pub status: ExitStatus,
}

impl Usage {
    /// Returns the processor time: that of user mode and of the kernel together.
    pub fn processor(&self) -> Duration {
        self.user + self.system
    }
}

/// The environment that makes glibc's allocator ask for huge pages (`MADV_HUGEPAGE`). Both sides of a comparison have it, so that they
/// differ in their pages only.
pub const TUNABLES: (&str, &str) = ("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1");

/// Runs a program in `folder` with empty input, and its output in the file `output`. Waits for its end.
///
/// # Errors
/// When the program cannot be started or waited for, or when `output` cannot be written.
pub fn run(program: &Path, args: &[OsString], folder: &Path, output: &Path, pages: Pages) -> io::Result<Usage> {
    let out = File::create(output)?;
    let mut command = Command::new(program);
    command.args(args).current_dir(folder).env(TUNABLES.0, TUNABLES.1);
    command.stdin(Stdio::null()).stdout(out.try_clone()?).stderr(out);
    let disable = libc::c_ulong::from(pages == Pages::Base);
    // SAFETY: between fork and exec, the closure makes one system call with numbers only.
    unsafe {
        command.pre_exec(move || match libc::prctl(libc::PR_SET_THP_DISABLE, disable, 0, 0, 0) {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        });
    }
    let started = Instant::now();
    let child = command.spawn()?;
    let (status, usage) = wait(child.id() as libc::pid_t)?;
    Ok(Usage { wall: started.elapsed(), user: duration(usage.ru_utime), system: duration(usage.ru_stime), status })
}

/// Waits for a child, and returns what it and the descendants that it has waited for used.
fn wait(child: libc::pid_t) -> io::Result<(ExitStatus, libc::rusage)> {
    let mut status = 0;
    // SAFETY: all bytes zero are a valid rusage, which holds numbers only.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    loop {
        // SAFETY: both pointers are to live values of the types that the call writes.
        match unsafe { libc::wait4(child, &mut status, 0, &mut usage) } {
            pid if pid == child => return Ok((ExitStatus::from_raw(status), usage)),
            _ => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => continue,
                error => return Err(error),
            },
        }
    }
}

fn duration(time: libc::timeval) -> Duration {
    Duration::new(time.tv_sec.max(0) as u64, (time.tv_usec.clamp(0, 999_999) * 1000) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, pages: Pages) -> (Usage, String) {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("output");
        let args = ["-c".into(), script.into()];
        let usage = run(Path::new("sh"), &args, folder.path(), &output, pages).unwrap();
        (usage, std::fs::read_to_string(output).unwrap())
    }

    #[test]
    fn each_side_has_its_pages_and_both_have_the_tunable() {
        for (pages, expected) in [(Pages::Base, "0"), (Pages::Huge, "1")] {
            let (usage, text) =
                shell("awk '/THP_enabled/ { print $2 }' /proc/self/status; echo $GLIBC_TUNABLES", pages);
            assert!(usage.status.success());
            // Kernels before 5.0 do not tell.
            let lines: Vec<_> = text.lines().collect();
            assert!(lines == [expected, TUNABLES.1] || lines == [TUNABLES.1], "{text}");
        }
    }

    #[test]
    fn descendants_count_and_failures_are_told() {
        let (usage, _) = shell("i=0; while [ $i -lt 200000 ]; do i=$((i + 1)); done & wait; exit 3", Pages::Huge);
        assert_eq!(usage.status.code(), Some(3));
        assert!(usage.processor() > Duration::from_millis(10), "{usage:?}");
    }
}
