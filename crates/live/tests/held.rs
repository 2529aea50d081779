//! Files held by descriptor, and what an unprivileged process can do about it.

#[path = "common/attacker.rs"]
mod attacker;

use attacker::{Attacker, UID, allow, attackers_folder, can_attack, give, roots_folder};
use reach_live::error::LiveErrorKind;
use reach_live::held::HeldFile;
use reach_live::held::trust::Why;
use rustix::fs::{CWD, FileType, Mode, XattrFlags};
use std::fs;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;

/// Tries of a race: a few in the fast test.
const FAST: usize = 200;
const LONG: usize = 5_000;

#[test]
fn plays_the_attacker() {
    attacker::play();
}

fn text(held: &HeldFile) -> String {
    let mut text = String::new();
    held.reading().unwrap().read_to_string(&mut text).unwrap();
    text
}

fn why(path: &Path) -> Result<(), Why> {
    HeldFile::open(path).unwrap().trust().map_err(|distrust| distrust.why)
}

#[test]
fn paths_are_resolved_as_the_kernel_resolves_them() {
    let folder = tempfile::tempdir().unwrap();
    let real = folder.path().canonicalize().unwrap();
    let at = |name: &str| real.join(name);
    fs::create_dir_all(at("a/b")).unwrap();
    fs::write(at("a/b/file"), "text").unwrap();
    symlink("b/../b/./file", at("a/relative")).unwrap();
    symlink(at("a"), at("absolute")).unwrap();
    symlink("loop", at("loop")).unwrap();
    symlink("nowhere", at("dangling")).unwrap();
    for name in ["a/b/file", "a/relative", "absolute/b/file", "absolute/../a/b/../relative", "./a//b/file"] {
        let held = HeldFile::regular(&at(name)).unwrap();
        let metadata = fs::metadata(at(name)).unwrap();
        assert_eq!(held.path(), at(name).canonicalize().unwrap(), "{name}");
        assert_eq!((held.id().inode, held.id().device), (metadata.ino(), metadata.dev()), "{name}");
        assert_eq!(text(&held), "text");
    }
    for (name, part) in [
        ("missing", "cannot be found: No such file"),
        ("dangling", "cannot be found: No such file"),
        ("loop", "cannot be found: Too many levels"),
        ("a/b/file/c", "cannot be found: Not a directory"),
        ("a/b/file/..", "cannot be found: Not a directory"),
        ("a", "is not a regular file"),
    ] {
        let error = HeldFile::regular(&at(name)).unwrap_err().to_string();
        assert!(error.contains(part), "{name}: {error}");
    }
    let top = HeldFile::open(Path::new("/../..")).unwrap();
    assert!(top.path() == Path::new("/") && top.place().is_none());
}

#[test]
fn a_held_file_knows_whether_its_name_is_still_its() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    fs::write(&path, "old").unwrap();
    let held = HeldFile::regular(&path).unwrap();
    assert!(held.is_in_place().unwrap());
    fs::rename(&path, folder.path().join("moved")).unwrap();
    assert!(!held.is_in_place().unwrap());
    fs::write(&path, "new").unwrap();
    assert!(!held.is_in_place().unwrap());
    assert_eq!(text(&held), "old");
    let (_, name) = held.place().unwrap();
    assert_eq!(name, "file");
}

#[test]
fn devices_and_pipes_are_held_without_being_opened() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    rustix::fs::mknodat(CWD, &pipe, FileType::Fifo, Mode::RWXU, 0).unwrap();
    let held = HeldFile::open(&pipe).unwrap();
    assert_eq!(held.status().kind, FileType::Fifo);
    assert!(matches!(held.reading().unwrap_err().kind, LiveErrorKind::NotAFile));
    // A writer that does not wait finds no reader.
    let writer = rustix::fs::open(&pipe, rustix::fs::OFlags::WRONLY | rustix::fs::OFlags::NONBLOCK, Mode::empty());
    assert_eq!(writer.unwrap_err(), rustix::io::Errno::NXIO);
    assert_eq!(HeldFile::open(Path::new("/dev/null")).unwrap().status().kind, FileType::CharacterDevice);
    assert!(matches!(HeldFile::regular(Path::new("/dev/null")).unwrap_err().kind, LiveErrorKind::NotAFile));
}

#[test]
fn only_files_that_root_alone_can_change_are_trusted() {
    if !can_attack() {
        return;
    }
    let folder = roots_folder();
    let at = |name: &str| folder.path().join(name);
    for name in ["own", "group", "everybody", "given", "listed", "masked"] {
        fs::write(at(name), "").unwrap();
        allow(&at(name), 0o644);
    }
    allow(&at("group"), 0o664);
    allow(&at("everybody"), 0o646);
    give(&at("given"));
    let sticky = at("sticky");
    fs::create_dir(&sticky).unwrap();
    fs::create_dir(sticky.join("own")).unwrap();
    fs::write(sticky.join("file"), "").unwrap();
    fs::write(sticky.join("own/file"), "").unwrap();
    allow(&sticky, 0o1777);
    let theirs = attackers_folder(folder.path());
    fs::write(theirs.join("file"), "").unwrap();
    symlink(theirs.join("file"), at("out")).unwrap();

    assert_eq!(why(&at("own")), Ok(()));
    assert_eq!(why(&at("group")), Err(Why::Group(0)));
    assert_eq!(why(&at("everybody")), Err(Why::Everybody));
    assert_eq!(why(&at("given")), Err(Why::Owner(UID)));
    // Another user can put a hard link to any file of root into a sticky folder, but no folder.
    assert_eq!(why(&sticky), Err(Why::Everybody));
    assert_eq!(why(&sticky.join("file")), Err(Why::Sticky));
    assert_eq!(why(&sticky.join("own/file")), Ok(()));
    assert_eq!(why(&theirs.join("file")), Err(Why::Owner(UID)));
    assert_eq!(why(&at("out")), Err(Why::Owner(UID)), "a trusted link to a file that is not");
    let distrust = HeldFile::open(&at("out")).unwrap().trust().unwrap_err().to_string();
    assert_eq!(distrust, format!("{} belongs to uid 65534", theirs.display()));

    // The attacker may write `listed`; in `masked`, the mask takes that back.
    for (name, mask, expected) in [("listed", 6, Err(Why::Group(0))), ("masked", 4, Ok(()))] {
        let list = access_list(&[(1, 6, !0), (2, 6, UID), (4, 4, !0), (0x10, mask, !0), (0x20, 4, !0)]);
        match rustix::fs::setxattr(at(name), "system.posix_acl_access", &list, XattrFlags::empty()) {
            Ok(()) => assert_eq!(why(&at(name)), expected, "{name}"),
            Err(error) => eprintln!("skipped: this file system has no access lists: {error}"),
        }
    }
}

/// Returns an access list as the kernel stores it: (tag, permissions, ID) of each entry.
fn access_list(entries: &[(u16, u16, u32)]) -> Vec<u8> {
    let mut bytes = 2u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in entries {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(permissions.to_le_bytes());
        bytes.extend(id.to_le_bytes());
    }
    bytes
}

#[test]
fn root_follows_no_symbolic_link_that_others_can_change() {
    if !can_attack() {
        return;
    }
    let folder = roots_folder();
    let theirs = attackers_folder(folder.path());
    let secret = folder.path().join("secret");
    fs::write(&secret, "root's").unwrap();
    symlink(&secret, theirs.join("link")).unwrap();
    symlink(folder.path(), theirs.join("folder")).unwrap();
    for path in [theirs.join("link"), theirs.join("folder/secret")] {
        let error = HeldFile::open(&path).unwrap_err();
        assert!(matches!(error.kind, LiveErrorKind::Link { .. }), "{error}");
        assert!(error.to_string().ends_with("belongs to uid 65534; as root, name the file itself"), "{error}");
    }
}

#[test]
fn flipping_a_link_never_leads_root_to_another_file() {
    race(FAST);
}

#[test]
#[ignore = "long: 5,000 tries of a race"]
fn flipping_a_link_never_leads_root_to_another_file_in_many_tries() {
    race(LONG);
}

/// Opens `attackers/NAME/file`, while its owner exchanges the file, or the folder above it, with a symbolic link.
fn race(tries: usize) {
    if !can_attack() {
        return;
    }
    let folder = roots_folder();
    let theirs = attackers_folder(folder.path());
    let secret = folder.path().join("secret");
    fs::create_dir(&secret).unwrap();
    fs::write(secret.join("file"), "root's").unwrap();
    let place = theirs.join("place");
    fs::create_dir(&place).unwrap();
    fs::write(place.join("file"), "theirs").unwrap();
    give(&place.join("file"));
    give(&place);
    symlink(secret.join("file"), place.join("link")).unwrap();
    symlink(&secret, theirs.join("away")).unwrap();
    let id = HeldFile::regular(&place.join("file")).unwrap().id();
    for (a, b) in [(place.join("file"), place.join("link")), (place.clone(), theirs.join("away"))] {
        let attacker = Attacker::flips(&a, &b);
        let (mut held, mut refused) = (0, 0);
        // Until both have happened, so that the race has taken place.
        while held + refused < tries || held == 0 || refused == 0 {
            match HeldFile::regular(&place.join("file")) {
                Ok(file) => {
                    assert_eq!((file.id(), text(&file).as_str()), (id, "theirs"));
                    assert_eq!(file.trust().map_err(|distrust| distrust.why), Err(Why::Owner(UID)));
                    held += 1;
                }
                Err(error) => {
                    assert!(matches!(error.kind, LiveErrorKind::Link { .. }), "{error}");
                    refused += 1;
                }
            }
        }
        drop(attacker);
        // The attack may have ended in exchanged names.
        if HeldFile::regular(&place.join("file")).is_err() {
            let flags = rustix::fs::RenameFlags::EXCHANGE;
            rustix::fs::renameat_with(CWD, &a, CWD, &b, flags).unwrap();
        }
        eprintln!("{held} held, {refused} refused");
    }
}
