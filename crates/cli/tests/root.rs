//! What an unprivileged process, of uid 65534, can cause while root runs `reach text promote`.

#[path = "../../live/tests/common/attacker.rs"]
mod attacker;
#[allow(dead_code)]
mod common;
#[path = "common/namespace.rs"]
mod namespace;
#[path = "../../live/tests/common/mod.rs"]
mod programs;

use attacker::{Attacker, UID, allow, attackers_folder, can_attack, give, roots_folder};
use common::{raw, stderr};
use namespace::{bind, covers, hold, in_namespace, link, mount_tmpfs, unmount};
use programs::{Linked, program};
use rustix::fs::XattrFlags;
use rustix::mount::MountFlags;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The part of the attacker, which this program plays in a process of its own.
#[test]
fn plays_the_attacker() {
    attacker::play();
}

/// Runs a verb on a kernel without large folios, so that `--mount` covers files.
fn reach(args: &[&str], file: &Path) -> Output {
    let mut command = raw(args);
    command.arg(file).env("REACH_LIVE_WITHOUT", "large-folios").output().unwrap()
}

/// Covers a file, which must succeed.
fn cover(file: &Path) {
    assert!(reach(&["text", "promote", "--restore"], file).status.success());
    let output = reach(&["text", "promote", "--mount"], file);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(covers().contains(&file.to_str().unwrap().to_owned()), "{:?}", covers());
}

/// Runs a script of the attacker, with the file as `$1`, and returns its output.
fn as_attacker(script: &str, file: &Path) -> Output {
    Command::new("sh").args(["-c", script, "sh"]).arg(file).uid(UID).gid(UID).current_dir("/").output().unwrap()
}

/// Two folders with a program of the same name: the attacker's, and root's.
struct Stage {
    folder: tempfile::TempDir,
    /// The name that root is asked to work on. A folder and a symbolic link to root's folder take turns there.
    place: PathBuf,
    /// Where the other of both is.
    other: PathBuf,
    /// Root's program, which nothing may happen to.
    victim: PathBuf,
}

impl Stage {
    /// Sets the stage, in the namespace of this thread. The attacker's folders are on tmpfs, because a rename on disk takes part
    /// in what the command writes to disk, which would wait for it; the programs are on disk.
    fn new() -> Option<Stage> {
        let folder = roots_folder();
        let attackers = attackers_folder(folder.path());
        mount_tmpfs(c"none", &attackers, c"mode=0755");
        give(&attackers);
        let (place, other) = (attackers.join("place"), attackers.join("other"));
        let (mine, victims) = (folder.path().join("mine"), folder.path().join("victims"));
        for folder in [&place, &mine, &victims] {
            fs::create_dir(folder).unwrap();
        }
        symlink(&victims, &other).unwrap();
        let mine = program(&mine, "program", 2, Linked::Aligned)?;
        let victim = victims.join("program");
        fs::copy(&mine, &victim).unwrap();
        // The attacker's program is told from root's by its length.
        fs::File::options().append(true).open(&mine).unwrap().write_all(b"attack").unwrap();
        for file in [&mine, &victim] {
            assert!(reach(&["text", "promote", "--restore"], file).status.success());
        }
        fs::write(place.join("program"), "").unwrap();
        bind(&mine, &place.join("program"), MountFlags::empty());
        [&place, &other, &mine].into_iter().for_each(|path| give(path));
        Some(Stage { folder, place, other, victim })
    }

    fn flips(&self) -> Attacker {
        Attacker::flips(&self.place, &self.other)
    }
}

/// Covers a program whose folder a user exchanges with a link to root's folder. Returns how often the user's program covered
/// root's, and how often anything was covered.
fn cover_while_a_folder_flips(attempts: u32) -> Option<(u32, u32)> {
    in_namespace(|| {
        let stage = Stage::new()?;
        mount_tmpfs(c"none", Path::new("/run"), c"");
        let before = fs::metadata(&stage.victim).unwrap();
        let _attacker = stage.flips();
        let (mut covered, mut done) = (0, 0);
        for _ in 0..attempts {
            // What is mounted goes with the namespace.
            in_namespace(|| {
                reach(&["text", "promote", "--mount"], &stage.place.join("program"));
                covered += u32::from(fs::metadata(&stage.victim).unwrap().len() != before.len());
                done += u32::from(!covers().is_empty());
            });
        }
        Some((covered, done))
    })?
}

#[test]
fn a_folder_that_flips_leads_no_cover_over_a_program_of_root() {
    if !can_attack() {
        return;
    }
    let Some((covered, done)) = cover_while_a_folder_flips(40) else { return };
    assert_eq!(covered, 0, "of 40 attempts, {done} covered something");
}

#[test]
#[ignore = "a race, for some minutes"]
fn a_folder_that_flips_leads_no_cover_over_a_program_of_root_in_2000_attempts() {
    if !can_attack() {
        return;
    }
    let Some((covered, done)) = cover_while_a_folder_flips(2_000) else { return };
    eprintln!("{done} of 2,000 covered the user's program");
    assert_eq!(covered, 0);
    assert!(done > 0, "the race was never close");
}

/// Uncovers a program whose folder a user exchanges with a link to root's folder, where something else is mounted over a
/// program of that name. Returns how often that was unmounted, and how often the user's program was uncovered.
fn uncover_while_a_folder_flips(attempts: u32) -> Option<(u32, u32)> {
    in_namespace(|| {
        let stage = Stage::new()?;
        let copies = stage.folder.path().join("copies");
        fs::create_dir(&copies).unwrap();
        mount_tmpfs(c"none", Path::new("/run"), c"");
        mount_tmpfs(c"reach-text", &copies, c"mode=0700");
        let (copy, unrelated) = (copies.join("copy"), stage.folder.path().join("unrelated"));
        fs::copy(&stage.victim, &copy).unwrap();
        fs::write(&unrelated, "another program").unwrap();
        let (mine, victim) = (hold(&stage.place.join("program")), hold(&stage.victim));
        let _attacker = stage.flips();
        let (mut unmounted, mut uncovered) = (0, 0);
        for _ in 0..attempts {
            if covers().len() == 1 {
                bind(&copy, Path::new(&link(&mine)), MountFlags::empty());
            }
            if fs::metadata(&stage.victim).unwrap().ino() != fs::metadata(&unrelated).unwrap().ino() {
                bind(&unrelated, Path::new(&link(&victim)), MountFlags::empty());
            }
            reach(&["text", "promote", "--restore"], &stage.place.join("program"));
            let now = fs::metadata(&stage.victim).unwrap();
            unmounted += u32::from(now.ino() != fs::metadata(&unrelated).unwrap().ino());
            uncovered += u32::from(covers().len() == 1);
        }
        Some((unmounted, uncovered))
    })?
}

#[test]
fn a_folder_that_flips_leads_no_restore_to_an_unrelated_mount() {
    if !can_attack() {
        return;
    }
    let Some((unmounted, uncovered)) = uncover_while_a_folder_flips(100) else { return };
    assert_eq!(unmounted, 0, "of 100 attempts, {uncovered} uncovered the program");
}

#[test]
#[ignore = "a race, for a minute"]
fn a_folder_that_flips_leads_no_restore_to_an_unrelated_mount_in_2000_attempts() {
    if !can_attack() {
        return;
    }
    let Some((unmounted, uncovered)) = uncover_while_a_folder_flips(2_000) else { return };
    eprintln!("{uncovered} of 2,000 uncovered the program");
    assert_eq!(unmounted, 0);
    assert!(uncovered > 0, "the race was never close");
}

#[test]
fn a_program_in_a_private_folder_stays_unreadable_while_it_is_covered() {
    if !can_attack() {
        return;
    }
    let folder = roots_folder();
    let private = folder.path().join("private");
    fs::create_dir(&private).unwrap();
    allow(&private, 0o700);
    let Some(file) = program(&private, "program", 2, Linked::Aligned) else { return };
    in_namespace(|| {
        mount_tmpfs(c"none", Path::new("/run"), c"mode=0755");
        cover(&file);
        let places: Vec<String> = namespace::mounts().into_iter().map(|mount| mount.place).collect();
        // All that is mounted from the command, wherever that is.
        let found = as_attacker("find /run -type f -readable 2> /dev/null; cat \"$1\" | head -c 4", &file);
        assert!(found.stdout.is_empty(), "{}{places:?}", String::from_utf8_lossy(&found.stdout));
    });
}

#[test]
fn the_owner_of_a_covered_program_cannot_write_the_copy() {
    if !can_attack() {
        return;
    }
    let folder = roots_folder();
    let attackers = attackers_folder(folder.path());
    let Some(file) = program(&attackers, "program", 2, Linked::Aligned) else { return };
    give(&file);
    let bytes = fs::read(&file).unwrap();
    in_namespace(|| {
        mount_tmpfs(c"none", Path::new("/run"), c"mode=0755");
        cover(&file);
        let tried = as_attacker(
            "for f in \"$1\" $(find /run -type f); do
                chmod u+w $f; printf attack | dd of=$f conv=notrunc bs=1 seek=4096; truncate -s 1 $f; chmod 777 $f
             done; echo tried",
            &file,
        );
        assert_eq!(tried.stdout, b"tried\n");
        assert!(fs::read(&file).unwrap() == bytes, "{}", stderr(&tried));
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o222, 0);
        assert_eq!(reach(&["text", "promote", "--restore"], &file).status.code(), Some(0));
        assert!(fs::read(&file).unwrap() == bytes && covers().is_empty());
    });
}

/// Returns which of 2, 4 and 1 users may do with a file: reading and executing it.
fn allowed(file: &Path) -> Vec<(u32, String)> {
    let may = |uid: u32| {
        let script = "for t in r w x; do test -$t \"$1\" && printf $t; done; exit 0";
        let mut command = Command::new("sh");
        command.args(["-c", script, "sh"]).arg(file).uid(uid).gid(uid);
        (uid, String::from_utf8(command.output().unwrap().stdout).unwrap())
    };
    [0, 1, 2, UID].map(may).to_vec()
}

#[test]
fn users_may_do_with_a_copy_what_they_may_do_with_the_original_except_write() {
    if !can_attack() {
        return;
    }
    let folder = roots_folder();
    let Some(file) = program(folder.path(), "program", 2, Linked::Aligned) else { return };
    // Version 2; owner rwx, user 1 rwx, group r--, mask rwx, others ---.
    let entries: [(u16, u16, u32); 5] = [(1, 7, !0), (2, 7, 1), (4, 4, !0), (0x10, 7, !0), (0x20, 0, !0)];
    let mut list = 2u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in entries {
        list.extend(tag.to_le_bytes().into_iter().chain(permissions.to_le_bytes()).chain(id.to_le_bytes()));
    }
    in_namespace(|| {
        mount_tmpfs(c"none", Path::new("/run"), c"mode=0755");
        for (owner, mode, list) in
            [(0, 0o755, None), (UID, 0o700, None), (2, 0o754, None), (1, 0o711, None), (0, 0o770, Some(&list))]
        {
            std::os::unix::fs::chown(&file, Some(owner), Some(owner)).unwrap();
            allow(&file, mode);
            if let Some(list) = list
                && rustix::fs::setxattr(&file, "system.posix_acl_access", list, XattrFlags::empty()).is_err()
            {
                eprintln!("skipped: no access lists (ACLs) here");
                continue;
            }
            let before = allowed(&file);
            cover(&file);
            let expected: Vec<_> = before.iter().map(|(uid, may)| (*uid, may.replace('w', ""))).collect();
            let mut now = allowed(&file);
            // `test -w` is true for root, whom the mount stops.
            now[0].1 = now[0].1.replace('w', "");
            assert_eq!(now, expected, "{owner} {mode:o} {}", list.is_some());
            let written = fs::OpenOptions::new().append(true).open(&file).unwrap_err();
            assert_eq!(written.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
            assert!(reach(&["text", "promote", "--restore"], &file).status.success());
        }
    });
}

#[test]
fn a_cover_forbids_what_the_mount_of_its_place_forbids() {
    if !can_attack() {
        return;
    }
    let folder = roots_folder();
    let (real, place) = (folder.path().join("real"), folder.path().join("place"));
    fs::create_dir(&real).unwrap();
    fs::create_dir(&place).unwrap();
    let Some(program) = program(&real, "program", 2, Linked::Aligned) else { return };
    in_namespace(|| {
        mount_tmpfs(c"none", Path::new("/run"), c"mode=0755");
        bind(&real, &place, MountFlags::NOEXEC);
        let file = place.join("program");
        cover(&file);
        let started = Command::new(&file).arg("10").output().unwrap_err();
        assert_eq!(started.kind(), std::io::ErrorKind::PermissionDenied);
        assert!(Command::new(&program).arg("10").status().unwrap().success(), "the file below has another mount");
        let options: Vec<String> = namespace::mounts()
            .into_iter()
            .filter(|mount| mount.source == "reach-text")
            .map(|mount| mount.options)
            .collect();
        assert!(
            ["ro", "nosuid", "nodev", "noexec"].iter().all(|option| options[0].split(',').any(|set| set == *option))
        );
        unmount(&file);
    });
}

#[test]
fn keep_promotes_a_file_of_another_user_with_the_rights_of_its_unit() {
    if !can_attack() {
        return;
    }
    let folder = roots_folder();
    if !programs::can_promote(folder.path()) {
        return;
    }
    let Some(file) = program(folder.path(), "program", 4, Linked::Aligned) else { return };
    give(&file);
    allow(&file, 0o711);
    assert!(raw(&["text", "promote", "--restore"]).arg(&file).output().unwrap().status.success());
    let unit = include_str!("../../../systemd/reach-text-keep.service");
    let rights = unit.lines().find_map(|line| line.strip_prefix("CapabilityBoundingSet=")).unwrap();
    let rights: Vec<String> =
        rights.split(' ').map(|right| format!("+{}", right.strip_prefix("CAP_").unwrap().to_lowercase())).collect();
    let mut command = Command::new("setpriv");
    command.args(["--no-new-privs", &format!("--bounding-set=-all,{}", rights.join(","))]);
    command.arg(assert_cmd::cargo::cargo_bin("reach")).args(["text", "keep", "--once"]).arg(&file);
    let Ok(output) = command.output() else {
        eprintln!("skipped: no setpriv");
        return;
    };
    let line = String::from_utf8_lossy(&output.stdout).into_owned();
    let regions = programs::state(&file).regions;
    assert!(output.status.success(), "{line}{}", stderr(&output));
    assert!(line.contains(&format!(": {regions} of {regions} regions are superpages")), "{line}");
}
