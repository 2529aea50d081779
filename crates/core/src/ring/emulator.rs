//! How an emulator is started on a program: by the launcher for the first one, by the plugin at every exec. Both must
//! agree, so it is written down here.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// An emulator and the plugin that it loads; kept in the ring for the processes to come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Emulator {
    /// The emulator itself.
    pub qemu: PathBuf,
    /// Processor model (`-cpu`); empty for the emulator's own choice.
    pub cpu: String,
    /// The plugin.
    pub plugin: PathBuf,
    /// Where processes find the ring.
    pub ring: PathBuf,
}

/// Which process of the tree an emulator goes on as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessIdentity {
    /// Number of the process.
    pub process: u32,
    /// Number of the thread that goes on.
    pub thread: u32,
    /// The process ran before, and this is its exec: without the ring it goes on all the same, untraced.
    pub after_exec: bool,
}

/// What a file is to exec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Executable {
    /// An x86-64 ELF image: can be traced. Arguments that `#!` lines put before the given ones stand in `before`
    /// (the first is argument zero); empty when the given arguments stand as they are.
    Traceable {
        /// The image.
        path: PathBuf,
        /// Arguments that replace argument zero.
        before: Vec<OsString>,
    },
    /// Runs, but not under this emulator; the text says why.
    Foreign(String),
}

impl Emulator {
    /// For [`Ring::set_options`](super::Ring::set_options).
    pub fn to_bytes(&self) -> Vec<u8> {
        let parts: [&[u8]; 4] = [
            self.qemu.as_os_str().as_bytes(),
            self.cpu.as_bytes(),
            self.plugin.as_os_str().as_bytes(),
            self.ring.as_os_str().as_bytes(),
        ];
        parts.join(&0)
    }

    /// The reverse of [`Emulator::to_bytes`].
    pub fn from_bytes(bytes: &[u8]) -> Option<Emulator> {
        let mut parts = bytes.split(|&byte| byte == 0);
        let mut path = || Some(PathBuf::from(OsStr::from_bytes(parts.next()?)));
        let (qemu, cpu, plugin, ring) = (path()?, path()?, path()?, path()?);
        Some(Emulator { qemu, cpu: cpu.to_str()?.to_owned(), plugin, ring })
    }

    /// The emulator's arguments, itself included, for a program and the program's own arguments (argument zero
    /// included; an empty list stands for one empty argument). `moved` are variables (`NAME=value`) that must not
    /// reach the emulator itself.
    pub fn arguments(
        &self,
        identity: ProcessIdentity,
        moved: &[OsString],
        program: &Path,
        args: &[OsString],
    ) -> Vec<OsString> {
        // The emulator takes the first word without a dash for the program, so a path must not begin with one.
        let program = match program.as_os_str().as_bytes() {
            [b'-', ..] => Path::new(".").join(program),
            _ => program.to_owned(),
        };
        let ProcessIdentity { process, thread, after_exec } = identity;
        let mut plugin = b"file=".to_vec();
        plugin.extend(commas_doubled(&self.plugin));
        plugin.extend(b",ring=");
        plugin.extend(commas_doubled(&self.ring));
        plugin.extend(format!(",process={process},thread={thread},after_exec={}", u8::from(after_exec)).bytes());
        // Not every emulator tells a plugin what it runs: QEMU 10.0 lacks that function.
        plugin.extend(b",program=");
        plugin.extend(commas_doubled(&program));
        let mut all = vec![self.qemu.clone().into_os_string()];
        if !self.cpu.is_empty() {
            all.extend(["-cpu".into(), self.cpu.clone().into()]);
        }
        all.extend(["-plugin".into(), OsString::from_vec(plugin)]);
        for variable in moved {
            all.extend(["-E".into(), variable.clone()]);
        }
        let first = args.first().cloned().unwrap_or_default();
        all.extend(["-0".into(), first, program.into_os_string()]);
        all.extend(args.iter().skip(1).cloned());
        all
    }

    /// Parts an environment in two: what the emulator itself is started with (the program gets it in turn), and what
    /// only the program shall see. The dynamic linker's variables would change the emulator, too. The emulator turns
    /// the order of its environment round when it hands it on, so the first part is turned round beforehand.
    pub fn environment(all: Vec<OsString>) -> (Vec<OsString>, Vec<OsString>) {
        let (mut own, mut moved) = (Vec::new(), Vec::new());
        for variable in all.into_iter().rev() {
            // The emulator cuts what it is given at commas.
            let of_linker = variable.as_bytes().starts_with(b"LD_") && !variable.as_bytes().contains(&b',');
            if of_linker { moved.push(variable) } else { own.push(variable) }
        }
        moved.reverse();
        (own, moved)
    }
}

/// A path as a value in a list of options.
fn commas_doubled(path: &Path) -> Vec<u8> {
    let byte = |byte: &u8| if *byte == b',' { vec![b',', b','] } else { vec![*byte] };
    path.as_os_str().as_bytes().iter().flat_map(byte).collect()
}

/// Looks at the file that a process wants to execute, as the kernel would. An error is what exec itself would report
/// (or nothing that exec need care about: let it try).
pub fn inspect_executable(path: &Path) -> io::Result<Executable> {
    let mut path = path.to_owned();
    let mut before: Vec<OsString> = Vec::new();
    // The kernel follows so many interpreters before it gives up.
    for _ in 0..5 {
        let about = fs::metadata(&path)?;
        if !about.is_file() || about.permissions().mode() & 0o111 == 0 {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let mut head = Vec::new();
        File::open(&path)?.take(256).read_to_end(&mut head)?;
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

/// The interpreter of a `#!` line and its one optional argument.
fn interpreter(rest: &[u8]) -> Option<Vec<OsString>> {
    let line = rest.split(|&byte| byte == b'\n').next()?.trim_ascii();
    let end = line.iter().position(|byte| b" \t".contains(byte)).unwrap_or(line.len());
    let (name, argument) = (&line[..end], line[end..].trim_ascii());
    let words = [name, argument].into_iter().filter(|word| !word.is_empty());
    let words: Vec<OsString> = words.map(|word| OsStr::from_bytes(word).to_owned()).collect();
    (!words.is_empty()).then_some(words)
}

/// The effective user of this process.
fn effective_user() -> io::Result<u32> {
    Ok(fs::metadata("/proc/self")?.uid())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_emulator_survives_its_bytes() {
        let emulator = Emulator {
            qemu: "/usr/bin/qemu".into(),
            cpu: "max,-avx".into(),
            plugin: "/a b/,p.so".into(),
            ring: "/proc/1/fd/3".into(),
        };
        assert_eq!(Emulator::from_bytes(&emulator.to_bytes()).as_ref(), Some(&emulator));
        let args = emulator.arguments(
            ProcessIdentity { process: 2, thread: 7, after_exec: true },
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
                "file=/a b/,,p.so,ring=/proc/1/fd/3,process=2,thread=7,after_exec=1,program=./-x,,y",
                "-0",
                "zero",
                "./-x,y",
                "one"
            ]
        );
    }

    #[test]
    fn the_linkers_variables_stay_away_from_the_emulator() {
        let all = ["A=1", "LD_PRELOAD=x", "B=2", "LD_LIBRARY_PATH=a,b"].map(OsString::from).to_vec();
        let (own, moved) = Emulator::environment(all);
        assert_eq!(own, ["LD_LIBRARY_PATH=a,b", "B=2", "A=1"]);
        assert_eq!(moved, ["LD_PRELOAD=x"]);
    }

    #[test]
    fn scripts_are_followed_to_their_interpreter() {
        assert_eq!(interpreter(b" /bin/sh \t-e x \nrest"), Some(vec!["/bin/sh".into(), "-e x".into()]));
        assert_eq!(interpreter(b"/bin/sh"), Some(vec!["/bin/sh".into()]));
        assert_eq!(interpreter(b"  \n"), None);
    }
}
