//! What `reach text promote --replace` keeps of a file, refuses, and leaves behind.

#[allow(dead_code)]
mod common;
#[path = "../../live/tests/common/mod.rs"]
mod programs;

use common::{folder, raw, stderr};
use programs::{Linked, Waiting, can_promote, program};
use rustix::fs::{CWD, IFlags, Mode, OFlags, XattrFlags};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Creates a program that is in use and not promoted. Returns `None`, and prints the reason, if it cannot be replaced here.
fn program_in_use(folder: &TempDir) -> Option<(PathBuf, Waiting)> {
    if !can_promote(folder.path()) {
        return None;
    }
    let file = program(folder.path(), "program", 4, Linked::Aligned)?;
    Some((file.clone(), used(&file)))
}

/// Makes a file one that is in use and not promoted.
fn used(file: &Path) -> Waiting {
    assert!(raw(&["text", "promote", "--restore"]).arg(file).output().unwrap().status.success());
    Waiting::start(file, 10)
}

fn replace(file: &Path) -> Output {
    raw(&["text", "promote", "--replace"]).arg(file).output().unwrap()
}

/// Returns the names in the folder of `file`, but for those of the tests themselves.
fn names(file: &Path) -> Vec<String> {
    let entries = fs::read_dir(file.parent().unwrap()).unwrap();
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.retain(|name| name != "probe");
    names.sort();
    names
}

fn flags(file: &Path) -> IFlags {
    rustix::fs::ioctl_getflags(File::open(file).unwrap()).unwrap()
}

fn set_flags(file: &Path, flags: IFlags) -> bool {
    rustix::fs::ioctl_setflags(File::open(file).unwrap(), flags).is_ok()
}

#[test]
fn a_replacement_keeps_inode_flags() {
    let folder = folder();
    let Some((file, user)) = program_in_use(&folder) else { return };
    let wanted = IFlags::NODUMP | IFlags::NOATIME;
    if !set_flags(&file, flags(&file) | wanted) {
        eprintln!("skipped: no inode flags here");
        return;
    }
    let before = (flags(&file), fs::metadata(&file).unwrap().ino());
    let output = replace(&file);
    assert!(output.status.success(), "{}", stderr(&output));
    let after = fs::metadata(&file).unwrap().ino();
    assert_ne!(before.1, after, "{}", String::from_utf8_lossy(&output.stdout));
    assert_eq!(flags(&file) & wanted, before.0 & wanted);
    drop(user);
}

#[test]
fn a_replacement_keeps_holes_access_lists_and_other_attributes() {
    let folder = folder();
    let Some((file, user)) = program_in_use(&folder) else { return };
    drop(user);
    // 16 MB without data, at the end, and an access list for user 1 with a mask of r-x.
    let length = fs::metadata(&file).unwrap().len();
    File::options().write(true).open(&file).unwrap().set_len(length + (16 << 20)).unwrap();
    let mut list = 2u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in [(1u16, 7u16, !0u32), (2, 7, 1), (4, 5, !0), (0x10, 5, !0), (0x20, 1, !0)] {
        list.extend(tag.to_le_bytes().into_iter().chain(permissions.to_le_bytes()).chain(id.to_le_bytes()));
    }
    let mut attributes = vec![("user.reach", b"kept".to_vec()), ("system.posix_acl_access", list)];
    attributes.retain(|(name, value)| {
        let set = rustix::fs::setxattr(&file, *name, value, XattrFlags::empty());
        set.inspect_err(|error| eprintln!("skipped: {name}: {error}")).is_ok()
    });
    File::open(&file).unwrap().sync_all().unwrap();
    let user = used(&file);
    let before = fs::metadata(&file).unwrap();
    let bytes = fs::read(&file).unwrap();
    let output = replace(&file);
    assert!(output.status.success(), "{}", stderr(&output));
    let after = fs::metadata(&file).unwrap();
    assert_ne!(before.ino(), after.ino());
    assert!(fs::read(&file).unwrap() == bytes);
    let kept = |metadata: &fs::Metadata| {
        (metadata.mode(), metadata.uid(), metadata.gid(), metadata.mtime(), metadata.mtime_nsec())
    };
    assert_eq!(kept(&after), kept(&before));
    for (name, value) in attributes {
        let mut found = vec![0; 1000];
        let length = rustix::fs::getxattr(&file, name, &mut found).unwrap();
        assert_eq!(found[..length], value, "{name}");
    }
    assert!(after.blocks() <= before.blocks() + 64, "{} blocks became {}", before.blocks(), after.blocks());
    drop(user);
}

#[test]
fn files_whose_attributes_a_copy_would_lose_are_refused_and_unchanged() {
    let folder = folder();
    let Some((file, _user)) = program_in_use(&folder) else { return };
    let before = fs::metadata(&file).unwrap();
    let refused = |word: &str| {
        let output = replace(&file);
        assert_eq!(output.status.code(), Some(1), "{word}");
        assert!(stderr(&output).contains(word), "{word}: {}", stderr(&output));
        assert_eq!(fs::metadata(&file).unwrap().ino(), before.ino());
    };
    fs::set_permissions(&file, fs::Permissions::from_mode(0o4755)).unwrap();
    refused("has setuid, setgid or capabilities, and is not replaced");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    // Version 2, effective; CAP_NET_RAW.
    let capability = [0x0200_0001u32, 1 << 13, 0, 0, 0].map(u32::to_le_bytes).concat();
    match rustix::fs::setxattr(&file, "security.capability", &capability, XattrFlags::empty()) {
        Ok(()) => {
            refused("has setuid, setgid or capabilities, and is not replaced");
            rustix::fs::removexattr(&file, "security.capability").unwrap();
        }
        Err(error) => eprintln!("skipped: capabilities: {error}"),
    }
    let plain = flags(&file);
    for (flag, word) in [(IFlags::IMMUTABLE, "is immutable"), (IFlags::APPEND, "can only be appended to")] {
        if set_flags(&file, plain | flag) {
            refused(word);
            assert!(set_flags(&file, plain));
        } else {
            eprintln!("skipped: only root sets {flag:?}");
        }
    }
    assert_eq!(names(&file), ["program"]);
}

/// Returns whether system calls can be delayed, and processes killed at them. Prints the reason if not.
fn has_strace() -> bool {
    let works = Command::new("strace").args(["-qq", "-o", "/dev/null", "true"]).stderr(Stdio::null()).status();
    let works = works.is_ok_and(|status| status.success());
    if !works {
        eprintln!("skipped: no strace, or it may not trace");
    }
    works
}

/// All ways to rename, so that a test does not depend on which is used.
const RENAMES: &str = "rename,renameat,renameat2";

/// Replaces a file while something happens to one kind of system call, in all processes of the command.
fn replace_with(calls: &str, what: &str, file: &Path) -> Child {
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-o", "/dev/null", "-e", &format!("trace={calls}")]);
    command.args(["-e", &format!("inject={calls}:{what}")]);
    command.arg(assert_cmd::cargo::cargo_bin("reach")).args(["text", "promote", "--replace"]).arg(file);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Waits until no other process works in the folder, at most a second.
fn settles(file: &Path, expected: &[&str]) {
    let begun = Instant::now();
    while names(file) != expected && begun.elapsed() < Duration::from_secs(1) {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(names(file), expected);
}

#[test]
fn a_kill_between_two_names_leaves_one_name() {
    let folder = folder();
    let Some((file, user)) = program_in_use(&folder) else { return };
    if !has_strace() {
        return;
    }
    drop(user);
    let bytes = fs::read(&file).unwrap();
    let intact = |when: &str| {
        assert!(fs::read(&file).unwrap() == bytes, "{when}");
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o7777, 0o755);
    };
    for (calls, when) in [("linkat", "1"), (RENAMES, "1"), (RENAMES, "2")] {
        let _user = used(&file);
        replace_with(calls, &format!("signal=SIGKILL:when={when}"), &file).wait_with_output().unwrap();
        settles(&file, &["program"]);
        intact(calls);
    }
    // Both processes die, each when it removes the temporary name. The next run removes it.
    let user = used(&file);
    replace_with("unlinkat", "signal=SIGKILL", &file).wait_with_output().unwrap();
    assert_eq!(names(&file).len(), 2);
    intact("unlinkat");
    drop(user);
    let _user = used(&file);
    assert!(replace(&file).status.success());
    settles(&file, &["program"]);
    intact("after the next run");
}

#[test]
fn when_the_command_is_killed_during_the_exchange_the_exchange_is_finished() {
    let folder = folder();
    let Some((file, _user)) = program_in_use(&folder) else { return };
    if !has_strace() {
        return;
    }
    let before = fs::metadata(&file).unwrap().ino();
    let child = replace_with(RENAMES, "delay_enter=500000", &file);
    // The temporary name shows that the exchange is under way; it contains the ID of the command.
    let begun = Instant::now();
    let command = loop {
        let temporary =
            names(&file).into_iter().find_map(|name| Some(name.strip_prefix(".program.reach-")?.to_owned()));
        match temporary {
            Some(pid) => break pid.parse::<i32>().unwrap(),
            None if begun.elapsed() > Duration::from_secs(20) => panic!("nothing is exchanged"),
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    // SAFETY: a signal to a descendant that has not been waited for.
    unsafe { libc::kill(command, libc::SIGKILL) };
    child.wait_with_output().unwrap();
    settles(&file, &["program"]);
    assert_ne!(fs::metadata(&file).unwrap().ino(), before);
}

#[test]
fn what_killed_runs_have_left_is_removed_and_what_others_use_is_not() {
    let folder = folder();
    let Some((file, _user)) = program_in_use(&folder) else { return };
    let mut gone = Command::new("true").spawn().unwrap();
    gone.wait().unwrap();
    let left = |pid: u32| folder.path().join(format!(".program.reach-{pid}"));
    fs::copy(&file, left(gone.id())).unwrap();
    fs::copy(&file, left(std::process::id())).unwrap();
    fs::write(folder.path().join(".program.reach-x"), "not a number").unwrap();
    fs::write(folder.path().join(format!(".other.reach-{}", gone.id())), "of another file").unwrap();
    // As of a process in another container, whose number says nothing here.
    let locked = folder.path().join(".program.reach-999999999");
    fs::copy(&file, &locked).unwrap();
    let lock = File::open(&locked).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    assert!(replace(&file).status.success());
    let mut expected = vec![
        format!(".other.reach-{}", gone.id()),
        ".program.reach-999999999".into(),
        format!(".program.reach-{}", std::process::id()),
        ".program.reach-x".into(),
        "program".into(),
    ];
    expected.sort();
    assert_eq!(names(&file), expected);
    drop(lock);
}

#[test]
fn what_a_writer_writes_during_the_exchange_is_in_the_file() {
    let folder = folder();
    let Some((file, user)) = program_in_use(&folder) else { return };
    if !has_strace() {
        return;
    }
    // A running program cannot be written. A mapping that is not a program's can be in use, too.
    drop(user);
    let mapped = File::open(&file).unwrap();
    let length = fs::metadata(&file).unwrap().len() as usize;
    // SAFETY: a new mapping at an address of the kernel's choice, of which no reference is made.
    let map = unsafe {
        use std::os::fd::AsRawFd;
        libc::mmap(
            std::ptr::null_mut(),
            length,
            libc::PROT_READ,
            libc::MAP_PRIVATE | libc::MAP_POPULATE,
            mapped.as_raw_fd(),
            0,
        )
    };
    assert_ne!(map, libc::MAP_FAILED);
    let before = fs::metadata(&file).unwrap().ino();
    let child = replace_with(RENAMES, "delay_enter=700000:when=1", &file);
    let begun = Instant::now();
    while names(&file).len() == 1 {
        assert!(begun.elapsed() < Duration::from_secs(20), "nothing is exchanged");
        std::thread::sleep(Duration::from_millis(5));
    }
    // The lease delays this until the command lets it go.
    let writer = rustix::fs::openat(CWD, &file, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty()).unwrap();
    let written = File::from(writer).write_all(b"\x7fELFwritten");
    written.unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(fs::read(&file).unwrap()[..11], *b"\x7fELFwritten", "{}", stderr(&output));
    assert!(stderr(&output).contains("has changed while it was copied, and was not replaced"), "{}", stderr(&output));
    assert_eq!(fs::metadata(&file).unwrap().ino(), before);
    settles(&file, &["program"]);
    // SAFETY: the mapping of above, of which no reference exists.
    unsafe { libc::munmap(map, length) };
}
