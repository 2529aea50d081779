//! An unprivileged process that plays against root: this test program, executed again with uid 65534.
//!
//! A test file that uses it has a test `plays_the_attacker`, which calls [`play`].

#![allow(dead_code)]

use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// User and group ID of the attacker (`nobody`).
pub const UID: u32 = 65534;

const TASK: &str = "REACH_TEST_ATTACK";

/// An attacking process, killed on drop.
pub struct Attacker(Child);

impl Attacker {
    /// Starts exchanging two names, atomically and without a pause.
    pub fn flips(a: &Path, b: &Path) -> Attacker {
        let mut command = Command::new("/proc/self/exe");
        command.args(["--exact", "plays_the_attacker", "--nocapture"]).uid(UID).gid(UID);
        command.env(TASK, std::env::join_paths([a, b]).unwrap());
        command.stdout(Stdio::null());
        Attacker(command.spawn().unwrap())
    }
}

impl Drop for Attacker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Attacks for ever, if this process is an attacker.
pub fn play() {
    let Some(task) = std::env::var_os(TASK) else { return };
    let names: Vec<PathBuf> = std::env::split_paths(&task).collect();
    loop {
        renameat_with(CWD, &names[0], CWD, &names[1], RenameFlags::EXCHANGE).unwrap();
    }
}

/// Returns whether this process is root, and can attack itself. Prints a sentence if not.
pub fn can_attack() -> bool {
    let root = reach_live::host::is_root();
    if !root {
        eprintln!("skipped: only root can play both root and an attacker");
    }
    root
}

/// Creates a folder that all users can reach, in which only root writes.
pub fn roots_folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir_in("/tmp").unwrap();
    allow(folder.path(), 0o755);
    folder
}

/// Creates a folder of the attacker in another folder.
pub fn attackers_folder(parent: &Path) -> PathBuf {
    let folder = parent.join("attackers");
    std::fs::create_dir(&folder).unwrap();
    give(&folder);
    folder
}

/// Gives a file or link to the attacker.
pub fn give(path: &Path) {
    std::os::unix::fs::lchown(path, Some(UID), Some(UID)).unwrap();
}

/// Sets the permissions of a file.
pub fn allow(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}
