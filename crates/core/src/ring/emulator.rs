//! Starting an emulator on a program. The launcher starts the first one, and the plugin one at every exec. Both use
//! these definitions, because they must agree.

use std::ffi::{CString, OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// An emulator and its plugin. Each process gets them on its command line, for the programs that it executes. They are not in
/// the ring, which processes with fewer rights can write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Emulator {
    /// Path of the emulator.
    pub qemu: PathBuf,
    /// Processor model (`-cpu`); empty for the emulator's default.
    pub cpu: String,
    /// Path of the plugin.
    pub plugin: PathBuf,
    /// Path at which processes open the ring.
    pub ring: PathBuf,
    /// Seed of the random addresses of images, mappings and stacks; 0 for the same addresses in every run.
    pub layout: u32,
    /// Whether the program gets every hugetlb page that it asks for (MAP_HUGETLB), as from a large pool. The memory below is
    /// ordinary. Otherwise it gets what this computer's pool has.
    pub grants_hugetlb: bool,
    /// Whether shared memory is placed as by a kernel that gives it huge pages: congruent to its offset modulo 2 MB.
    pub aligns_shared: bool,
    /// Whether the emulator passes its environment on in reverse order, as QEMU 7.2 does and 10.0.13 does not.
    pub reverses_environment: bool,
}

/// The process of the traced tree that an emulator runs as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessIdentity {
    /// Number of the process.
    pub process: u32,
    /// Number of its first thread.
    pub thread: u32,
    /// `Some` at an exec: the descriptor of the ring that the new emulator inherits; without a ring it continues untraced. `None`:
    /// the first program.
    pub after_exec: Option<u32>,
}

/// How a file can be executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Executable {
    /// An x86-64 ELF image, which can be traced.
    Traceable {
        /// Path of the image.
        path: PathBuf,
        /// Arguments from `#!` lines, which replace argument zero; empty when the file is no script.
        before: Vec<OsString>,
    },
    /// A program that runs, but not under this emulator. The text says why.
    Foreign(String),
}

impl Emulator {
    /// Returns the emulator's command line, from its own path on, for `program` with `args`. `args` includes argument
    /// zero; an empty list means one empty argument. `guest_only` are variables (`NAME=value`) that only the program
    /// gets ([`Emulator::environment`]).
    pub fn arguments(
        &self,
        identity: ProcessIdentity,
        guest_only: &[OsString],
        program: &Path,
        args: &[OsString],
    ) -> Vec<OsString> {
        // The emulator takes the first word without a dash as the program, so the path must not begin with a dash.
        let program = match program.as_os_str().as_bytes() {
            [b'-', ..] => Path::new(".").join(program),
            _ => program.to_owned(),
        };
        let ProcessIdentity { process, thread, after_exec } = identity;
        let mut plugin = b"file=".to_vec();
        plugin.extend(commas_doubled(&self.plugin));
        let cpu = Path::new(&self.cpu);
        for (name, value) in [("plugin", &*self.plugin), ("qemu", &*self.qemu), ("cpu", cpu), ("ring", &*self.ring)] {
            plugin.extend(format!(",{name}=").bytes());
            plugin.extend(commas_doubled(value));
        }
        plugin.extend(format!(",process={process},thread={thread}").bytes());
        if let Some(descriptor) = after_exec {
            plugin.extend(format!(",after_exec={descriptor}").bytes());
        }
        plugin.extend(format!(",layout={},hugetlb={}", self.layout, u8::from(self.grants_hugetlb)).bytes());
        plugin.extend(format!(",align_shared={}", u8::from(self.aligns_shared)).bytes());
        plugin.extend(format!(",reverses={}", u8::from(self.reverses_environment)).bytes());
        // The plugin cannot ask every emulator for its program: QEMU 10.0 lacks that function.
        plugin.extend(b",program=");
        plugin.extend(commas_doubled(&program));
        let mut all = vec![self.qemu.clone().into_os_string()];
        if !self.cpu.is_empty() {
            all.extend(["-cpu".into(), self.cpu.clone().into()]);
        }
        all.extend(["-plugin".into(), OsString::from_vec(plugin)]);
        for variable in guest_only {
            all.extend(["-E".into(), variable.clone()]);
        }
        let first = args.first().cloned().unwrap_or_default();
        all.extend(["-0".into(), first, program.into_os_string()]);
        all.extend(args.iter().skip(1).cloned());
        all
    }

    /// Checks that the user of this process may start this emulator.
    ///
    /// # Errors
    /// What that user may not read or execute.
    pub fn check_access(&self) -> Result<(), String> {
        match (is_allowed(&self.qemu, libc::X_OK), is_allowed(&self.plugin, libc::R_OK)) {
            (false, _) => Err(format!("its user may not execute {}", self.qemu.display())),
            (_, false) => Err(format!("its user may not read {}", self.plugin.display())),
            _ => Ok(()),
        }
    }

    /// Divides an environment into the variables that the emulator starts with, and passes on to the program, and those
    /// that only the program gets. The latter are those of the dynamic linker and the C library (`LD_…`, `GLIBC_TUNABLES`),
    /// which would affect the emulator as well. The first part is ordered so that the program gets it as it was.
    pub fn environment(&self, all: Vec<OsString>) -> (Vec<OsString>, Vec<OsString>) {
        let (mut shared, mut guest_only) = (Vec::new(), Vec::new());
        for variable in all {
            // The emulator splits the values of `-E` at commas, so variables with commas must be shared.
            let bytes = variable.as_bytes();
            let for_library = bytes.starts_with(b"LD_") || bytes.starts_with(b"GLIBC_TUNABLES=");
            if for_library && !bytes.contains(&b',') { guest_only.push(variable) } else { shared.push(variable) }
        }
        if self.reverses_environment {
            shared.reverse();
        }
        (shared, guest_only)
    }
}

/// Returns a path as a value in a comma-separated list of options: commas are doubled.
fn commas_doubled(path: &Path) -> Vec<u8> {
    let byte = |byte: &u8| if *byte == b',' { vec![b',', b','] } else { vec![*byte] };
    path.as_os_str().as_bytes().iter().flat_map(byte).collect()
}

/// Examines the file that a process executes, as the kernel would.
///
/// # Errors
/// When exec itself would fail, or when the file cannot be examined. In both cases the caller lets exec report it.
pub fn inspect_executable(path: &Path) -> io::Result<Executable> {
    let mut path = path.to_owned();
    let mut before: Vec<OsString> = Vec::new();
    // The kernel follows at most this many nested interpreters.
    for _ in 0..5 {
        let about = fs::metadata(&path)?;
        if !about.is_file() || about.permissions().mode() & 0o111 == 0 {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let mut head = Vec::new();
        let file = match File::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied && is_allowed(&path, libc::X_OK) => {
                return Ok(Executable::Foreign("it can be executed but not read; make it readable".into()));
            }
            file => file?,
        };
        file.take(256).read_to_end(&mut head)?;
        if let Some(rest) = head.strip_prefix(b"#!") {
            let mut words = interpreter(rest).ok_or(io::ErrorKind::InvalidData)?;
            let next = PathBuf::from(&words[0]);
            words.push(path.into_os_string());
            words.extend(before.into_iter().skip(1));
            (before, path) = (words, next);
            continue;
        }
        let changes_user = about.mode() & 0o4000 != 0 && about.uid() != effective_user()?;
        return Ok(match &head[..] {
            [0x7f, b'E', b'L', b'F', ..] if changes_user => {
                Executable::Foreign("it changes the user, which an emulated program cannot".into())
            }
            // 64-bit, little-endian, machine 62.
            [0x7f, b'E', b'L', b'F', 2, 1, ..] if head.get(18..20) == Some(&[62, 0]) => {
                Executable::Traceable { path, before }
            }
            [0x7f, b'E', b'L', b'F', ..] => Executable::Foreign("it is not a 64-bit x86 program".into()),
            _ => return Err(io::ErrorKind::InvalidData.into()),
        });
    }
    Err(io::ErrorKind::InvalidData.into())
}

/// Returns the interpreter of a `#!` line (given without `#!`) and its optional single argument; `None` for an empty
/// line.
fn interpreter(rest: &[u8]) -> Option<Vec<OsString>> {
    let line = rest.split(|&byte| byte == b'\n').next()?.trim_ascii();
    let end = line.iter().position(|byte| b" \t".contains(byte)).unwrap_or(line.len());
    let (name, argument) = (&line[..end], line[end..].trim_ascii());
    let words = [name, argument].into_iter().filter(|word| !word.is_empty());
    let words: Vec<OsString> = words.map(|word| OsStr::from_bytes(word).to_owned()).collect();
    (!words.is_empty()).then_some(words)
}

/// Returns whether this process may use the file at `path` in `mode` (`libc::R_OK`, `libc::X_OK`), by its effective user, and by its
/// real one without the capabilities that an exec takes away.
fn is_allowed(path: &Path, mode: i32) -> bool {
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else { return false };
    // SAFETY: the path ends with a zero byte, and the kernel only reads it.
    let allows = |flags| unsafe { libc::faccessat(libc::AT_FDCWD, path.as_ptr(), mode, flags) } == 0;
    allows(0) && allows(libc::AT_EACCESS)
}

/// Returns the effective user of this process.
fn effective_user() -> io::Result<u32> {
    Ok(fs::metadata("/proc/self")?.uid())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn emulator() -> Emulator {
        Emulator {
            qemu: "/usr/bin/qemu".into(),
            cpu: "max,-avx".into(),
            plugin: "/a b/,p.so".into(),
            ring: "/proc/1/fd/3".into(),
            layout: 9,
            grants_hugetlb: true,
            aligns_shared: false,
            reverses_environment: true,
        }
    }

    #[test]
    fn arguments_name_the_emulator_for_later_programs_and_are_quoted() {
        let args = emulator().arguments(
            ProcessIdentity { process: 2, thread: 7, after_exec: Some(901) },
            &[],
            Path::new("-x,y"),
            &["zero".into(), "one".into()],
        );
        let text: Vec<_> = args.iter().map(|arg| arg.to_str().unwrap()).collect();
        assert_eq!(
            text,
            [
                "/usr/bin/qemu",
                "-cpu",
                "max,-avx",
                "-plugin",
                "file=/a b/,,p.so,plugin=/a b/,,p.so,qemu=/usr/bin/qemu,cpu=max,,-avx,ring=/proc/1/fd/3,process=2,thread=7,\
                 after_exec=901,layout=9,hugetlb=1,align_shared=0,reverses=1,program=./-x,,y",
                "-0",
                "zero",
                "./-x,y",
                "one"
            ]
        );
    }

    #[test]
    fn variables_of_linker_and_library_reach_only_the_program() {
        let all =
            ["A=1", "LD_PRELOAD=x", "B=2", "GLIBC_TUNABLES=a=1", "LD_LIBRARY_PATH=a,b"].map(OsString::from).to_vec();
        let guest_only = ["LD_PRELOAD=x", "GLIBC_TUNABLES=a=1"].map(OsString::from).to_vec();
        let mut shared = ["A=1", "B=2", "LD_LIBRARY_PATH=a,b"];
        for reverses_environment in [false, true] {
            let parts = Emulator { reverses_environment, ..emulator() }.environment(all.clone());
            assert_eq!(parts, (shared.iter().map(OsString::from).collect(), guest_only.clone()));
            shared.reverse();
        }
    }

    #[test]
    fn an_interpreter_line_gives_its_path_and_one_argument() {
        assert_eq!(interpreter(b" /bin/sh \t-e x \nrest"), Some(vec!["/bin/sh".into(), "-e x".into()]));
        assert_eq!(interpreter(b"/bin/sh"), Some(vec!["/bin/sh".into()]));
        assert_eq!(interpreter(b"  \n"), None);
    }
}
