//! `reach text` when it is killed at any moment, and when the disk is full: files, their attributes and mounts are as before,
//! or completely as afterwards, and nothing is left behind.

#[allow(dead_code)]
mod common;
#[path = "common/namespace.rs"]
mod namespace;
#[path = "../../live/tests/common/mod.rs"]
mod programs;

use common::{folder, raw, stderr};
use namespace::{covers, in_namespace, mount_tmpfs, mounts};
use programs::{Linked, Waiting, can_promote, program};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Moments of the fast tests.
const FEW: u32 = 8;
/// Moments of the long tests.
const MANY: u32 = 100;

/// A file, but for its inode, which a replacement changes: bytes, permissions, owner, group, time of change.
type Content = (Vec<u8>, u32, u32, u32, i64, i64);

/// Returns what is in a folder. What a child process has still to do is waited for, at most a second.
fn contents(folder: &Path) -> BTreeMap<OsString, Content> {
    let names = || fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect::<Vec<_>>();
    let begun = Instant::now();
    while names().iter().any(|name| name.to_string_lossy().contains(".reach-"))
        && begun.elapsed() < Duration::from_secs(1)
    {
        std::thread::sleep(Duration::from_millis(5));
    }
    let content = |name: OsString| {
        let (path, state) = (folder.join(&name), fs::symlink_metadata(folder.join(&name)).unwrap());
        let bytes = fs::read(path).unwrap();
        (name, (bytes, state.mode(), state.uid(), state.gid(), state.mtime(), state.mtime_nsec()))
    };
    names().into_iter().map(content).collect()
}

/// Returns the processes that run a file of a folder, named or not. The kernel ends killed ones shortly after their parents.
fn processes(folder: &Path) -> Vec<PathBuf> {
    let runs = |process: &PathBuf| fs::read_link(process.join("exe")).is_ok_and(|file| file.starts_with(folder));
    let all = || fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path()).filter(runs).collect::<Vec<_>>();
    let begun = Instant::now();
    while !all().is_empty() && begun.elapsed() < Duration::from_secs(2) {
        std::thread::sleep(Duration::from_millis(5));
    }
    all()
}

/// A verb to kill.
struct Verb {
    command: Command,
    /// Whether it ends by itself.
    ends: bool,
}

impl Verb {
    fn new(args: &[&str], file: &Path, rest: &[&str]) -> Verb {
        let mut command = raw(args);
        command.arg(file).args(rest).stdout(Stdio::null()).stderr(Stdio::null());
        Verb { command, ends: true }
    }

    /// Runs it to its end, or for half a second, and returns how long it took.
    fn time(&mut self) -> Duration {
        let begun = Instant::now();
        let mut child = self.command.spawn().unwrap();
        if self.ends {
            child.wait().unwrap();
        } else {
            std::thread::sleep(Duration::from_millis(500));
            child.kill().unwrap();
            child.wait().unwrap();
        }
        begun.elapsed()
    }

    /// Kills it after `delay`.
    fn kill_after(&mut self, delay: Duration) {
        let mut child = self.command.spawn().unwrap();
        std::thread::sleep(delay);
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

/// Returns `moments` delays up to 1.2 times `time`, spread evenly and in no order.
fn delays(time: Duration, moments: u32) -> impl Iterator<Item = Duration> {
    // The fractional parts of multiples of the golden ratio leave no large gap, whatever their number.
    (0..moments).map(move |i| time.mul_f64(1.2 * (f64::from(i) * 0.618_033_988_749_895).fract()))
}

/// Kills verbs that change the page cache only.
fn nothing_changes(moments: u32) {
    let folder = folder();
    let Some(file) = program(folder.path(), "program", 4, Linked::Aligned) else { return };
    let before = contents(folder.path());
    for args in [&["text", "promote"][..], &["text", "promote", "--restore"], &["text", "keep", "--every", "1"]] {
        let mut verb = Verb::new(args, &file, &[]);
        verb.ends = args[1] != "keep";
        let time = verb.time();
        for delay in delays(time, moments) {
            verb.kill_after(delay);
            assert!(contents(folder.path()) == before, "{args:?} killed after {delay:?}");
        }
    }
    let mut verb = Verb::new(&["-q", "text", "run", "--"], &file, &["1000"]);
    let time = verb.time();
    for delay in delays(time, moments) {
        verb.kill_after(delay);
        assert!(contents(folder.path()) == before, "run killed after {delay:?}");
    }
}

#[test]
fn a_killed_promotion_run_or_keep_changes_no_file() {
    nothing_changes(FEW);
}

#[test]
#[ignore = "100 moments for each of four verbs"]
fn a_promotion_run_or_keep_that_is_killed_at_100_moments_changes_no_file() {
    nothing_changes(MANY);
}

/// Kills replacements of a file in use.
fn one_of_two_files_has_the_name(moments: u32) {
    let folder = folder();
    if !can_promote(folder.path()) {
        return;
    }
    fs::remove_file(folder.path().join("probe")).unwrap();
    let Some(file) = program(folder.path(), "program", 4, Linked::Aligned) else { return };
    let before = contents(folder.path());
    let used = || {
        assert!(raw(&["text", "promote", "--restore"]).arg(&file).stdout(Stdio::null()).status().unwrap().success());
        Waiting::start(&file, 10)
    };
    let mut verb = Verb::new(&["text", "promote", "--replace"], &file, &[]);
    let user = used();
    let time = verb.time();
    drop(user);
    let mut replaced = 0;
    for delay in delays(time, moments) {
        let _user = used();
        let inode = fs::metadata(&file).unwrap().ino();
        verb.kill_after(delay);
        let now = contents(folder.path());
        let names = || now.keys().map(|name| name.to_string_lossy()).collect::<Vec<_>>();
        assert!(now == before, "killed after {delay:?}: {:?}", names());
        replaced += u32::from(fs::metadata(&file).unwrap().ino() != inode);
    }
    eprintln!("{replaced} of {moments} were replaced when they were killed");
}

#[test]
fn a_killed_replacement_leaves_the_original_or_the_copy() {
    one_of_two_files_has_the_name(FEW);
}

#[test]
#[ignore = "100 moments"]
fn a_replacement_that_is_killed_at_100_moments_leaves_the_original_or_the_copy() {
    one_of_two_files_has_the_name(MANY);
}

/// Kills the making of aligned copies, of which another program has the name already with `--force`.
fn a_copy_is_whole_or_absent(moments: u32) {
    let folder = folder();
    let Some(file) = program(folder.path(), "program", 4, Linked::AsUsual) else { return };
    let copy = folder.path().join("copy");
    let copy_name = copy.to_str().unwrap();
    let mut plain = Verb::new(&["text", "align"], &file, &["-o", copy_name]);
    let time = plain.time();
    let whole = fs::read(&copy).unwrap();
    let others = |mut all: BTreeMap<OsString, Content>| {
        all.remove(copy.file_name().unwrap());
        all
    };
    let before = others(contents(folder.path()));
    for delay in delays(time, moments) {
        let _ = fs::remove_file(&copy);
        plain.kill_after(delay);
        assert!(others(contents(folder.path())) == before, "align killed after {delay:?}");
        assert!(fs::read(&copy).map_or(true, |bytes| bytes == whole), "align killed after {delay:?}");
    }
    assert!(processes(folder.path()).is_empty());
    let mut forced = Verb::new(&["text", "align", "--force"], &file, &["-o", copy_name]);
    for delay in delays(time, moments) {
        fs::write(&copy, "another").unwrap();
        forced.kill_after(delay);
        assert!(others(contents(folder.path())) == before, "align --force killed after {delay:?}");
        let bytes = fs::read(&copy).unwrap();
        assert!(bytes == whole || bytes == b"another", "align --force killed after {delay:?}");
    }
    assert!(processes(folder.path()).is_empty());
}

/// `align` has the kernel load the copy, and stops it. If `align` is killed at that moment, the copy must neither run nor stay.
#[test]
fn a_killed_alignment_leaves_no_process_of_its_copy() {
    let folder = folder();
    let [file, log, copy, source, ran] =
        ["program", "log", "copy", "main.c", "ran"].map(|name| folder.path().join(name));
    // A program that shows whether it has run.
    fs::write(&source, format!("#include <fcntl.h>\nint main(void) {{ return creat({ran:?}, 0600) < 0; }}\n")).unwrap();
    let mut cc = Command::new("cc");
    cc.args(["-DMB=4", "-DALIGN=4096", "-pie", "-fPIE", "-Wl,-z,max-page-size=4096", "-o"]).arg(&file).arg(&source);
    cc.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../live/tests/programs/code.S"));
    if !cc.status().is_ok_and(|status| status.success()) {
        eprintln!("skipped: no C compiler");
        return;
    }
    let align = |options: &[&str], out: &Path| {
        let _ = fs::remove_file(&copy);
        let mut command = Command::new("strace");
        command.arg("-o").arg(out).args(options).arg(assert_cmd::cargo::cargo_bin("reach"));
        command.args(["text", "align"]).arg(&file).arg("-o").arg(&copy).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    if !align(&["-e", "trace=read"], &log) {
        eprintln!("skipped: no strace, or it may not trace");
        return;
    }
    // The last reads are those of the process's mappings; before them, one waits until the copy is executed.
    let reads = fs::read_to_string(&log).unwrap().lines().filter(|line| line.starts_with("read(")).count();
    for last in (reads - 8..=reads).flat_map(|last| [last; 3]) {
        let inject = format!("inject=read:signal=SIGKILL:when={last}");
        assert!(!align(&["-qq", "-e", "trace=read", "-e", &inject], Path::new("/dev/null")));
        assert!(processes(folder.path()).is_empty(), "killed at read {last}: {:?}", processes(folder.path()));
        assert!(!ran.exists(), "killed at read {last}: the copy has run");
    }
}

#[test]
fn a_killed_alignment_leaves_a_whole_copy_or_none() {
    a_copy_is_whole_or_absent(FEW);
}

#[test]
#[ignore = "100 moments, twice"]
fn an_alignment_that_is_killed_at_100_moments_leaves_a_whole_copy_or_none() {
    a_copy_is_whole_or_absent(MANY);
}

/// Kills the making and the removal of covers.
fn a_cover_is_whole_or_absent(moments: u32) {
    let folder = folder();
    let Some(file) = program(folder.path(), "program", 2, Linked::Aligned) else { return };
    let bytes = fs::read(&file).unwrap();
    let place = file.to_str().unwrap().to_owned();
    in_namespace(|| {
        mount_tmpfs(c"none", Path::new("/run"), c"");
        let verb = |option: &str| {
            let mut verb = Verb::new(&["text", "promote", option], &file, &[]);
            verb.command.env("REACH_LIVE_WITHOUT", "large-folios");
            verb
        };
        let (mut mount, mut restore) = (verb("--mount"), verb("--restore"));
        restore.time();
        let before = (mounts(), contents(folder.path()));
        let times = (mount.time(), restore.time());
        assert!((mounts(), contents(folder.path())) == before);
        for (making, removing) in delays(times.0, moments).zip(delays(times.1, moments)) {
            mount.kill_after(making);
            let made = covers();
            assert!(made.is_empty() || made == [place.clone()], "--mount killed after {making:?}: {made:?}");
            assert!(fs::read(&file).unwrap() == bytes);
            assert_eq!(fs::read_dir("/run").unwrap().count(), 0);
            if made.is_empty() {
                mount.time();
            }
            restore.kill_after(removing);
            let left = covers();
            assert!(left.is_empty() || left == [place.clone()], "--restore killed after {removing:?}: {left:?}");
            if !left.is_empty() {
                restore.time();
            }
            assert!((mounts(), contents(folder.path())) == before, "{making:?} {removing:?}");
        }
    });
}

#[test]
fn a_killed_cover_is_whole_or_absent() {
    a_cover_is_whole_or_absent(FEW);
}

#[test]
#[ignore = "100 moments, twice"]
fn a_cover_that_is_killed_at_100_moments_is_whole_or_absent() {
    a_cover_is_whole_or_absent(MANY);
}

/// A small file system for `test`, which is full but for `free` bytes. `None` if it cannot be mounted; prints the reason.
fn on_small_disk(test: impl FnOnce(&Path) + Send) {
    let folder = folder();
    let (image, place) = (folder.path().join("image"), folder.path().join("place"));
    fs::create_dir(&place).unwrap();
    fs::File::create(&image).unwrap().set_len(32 << 20).unwrap();
    let made = Command::new("mkfs.ext4").args(["-q", "-F", "-b", "4096"]).arg(&image).status();
    if !made.is_ok_and(|status| status.success()) {
        eprintln!("skipped: no mkfs.ext4");
        return;
    }
    in_namespace(|| {
        let mounted = Command::new("mount").args(["-o", "loop"]).args([&image, &place]).stderr(Stdio::null()).status();
        if !mounted.is_ok_and(|status| status.success()) {
            eprintln!("skipped: no loop devices here");
            return;
        }
        test(&place);
        // Detaches the loop device.
        namespace::unmount(&place);
    });
}

/// Fills the file system of a folder.
fn fill(folder: &Path) -> PathBuf {
    let filler = folder.join("filler");
    let mut length = 32 << 20;
    while length >= 4096 {
        let bytes = vec![1; length];
        let mut file = fs::File::options().append(true).create(true).open(&filler).unwrap();
        if std::io::Write::write_all(&mut file, &bytes).is_err() {
            length /= 2;
        }
    }
    filler
}

#[test]
fn on_a_full_disk_every_verb_leaves_files_as_they_were() {
    on_small_disk(|place| {
        let Some(file) = program(place, "program", 4, Linked::Aligned) else { return };
        let Some(unaligned) = program(place, "unaligned", 4, Linked::AsUsual) else { return };
        fs::remove_dir(place.join("lost+found")).unwrap();
        fill(place);
        let before = contents(place);
        let (text, copy) = (file.to_str().unwrap(), place.join("copy"));
        let verb = |args: &[&str]| raw(args).output().unwrap();
        let unchanged = |verb: &str| assert!(contents(place) == before, "{verb}");

        let aligned = verb(&["text", "align", unaligned.to_str().unwrap(), "-o", copy.to_str().unwrap()]);
        assert!(stderr(&aligned).contains("the disk is full"), "{}", stderr(&aligned));
        assert_eq!(aligned.status.code(), Some(1));
        unchanged("align");
        for args in
            [&["text", "promote", "--restore", text][..], &["text", "promote", text], &["text", "keep", "--once", text]]
        {
            let output = verb(args);
            assert!(!stderr(&output).contains("panicked"), "{}", stderr(&output));
            unchanged(args[1]);
        }
        assert!(verb(&["-q", "text", "run", "--", text, "10"]).status.success());
        unchanged("run");
        assert!(verb(&["text", "promote", "--restore", text]).status.success());
        let user = Waiting::start(&file, 10);
        let replaced = verb(&["text", "promote", "--replace", text]);
        assert_eq!(replaced.status.code(), Some(1), "{}", String::from_utf8_lossy(&replaced.stdout));
        assert!(stderr(&replaced).contains("No space left on device"), "{}", stderr(&replaced));
        drop(user);
        unchanged("replace");
    });
}
