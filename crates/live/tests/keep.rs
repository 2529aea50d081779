//! Files that are kept promoted: what their owners can make the service do.

#[path = "common/attacker.rs"]
mod attacker;
mod common;

use attacker::{attackers_folder, can_attack, give, roots_folder};
use common::{Linked, can_promote, folder, program, promote_all, state};
use reach_live::image::Image;
use reach_live::keep::{Bounds, Keeper};
use reach_live::layout::SUPERPAGE;
use reach_live::promote;
use rustix::fs::{CWD, FileType, Mode};
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

fn round(keeper: &mut Keeper, files: &[PathBuf]) -> Vec<String> {
    let mut lines = Vec::new();
    keeper.round(files, |line| lines.push(line.to_owned()));
    lines
}

#[test]
fn a_pipe_in_place_of_a_file_is_never_opened() {
    static OPENED: AtomicBool = AtomicBool::new(false);
    let folder = folder();
    let pipe = folder.path().join("pipe");
    rustix::fs::mknodat(CWD, &pipe, FileType::Fifo, Mode::RWXU, 0).unwrap();
    let writer = pipe.clone();
    let writer = thread::spawn(move || {
        // Waits until somebody opens the pipe for reading.
        let _ = OpenOptions::new().write(true).open(writer);
        OPENED.store(true, Ordering::SeqCst);
    });
    thread::sleep(Duration::from_millis(50));
    let mut keeper = Keeper::new(Bounds { threshold: 0, bytes_per_round: 1 << 30 });
    let lines = round(&mut keeper, std::slice::from_ref(&pipe));
    assert!(lines[0].ends_with("is not a regular file"), "{lines:?}");
    thread::sleep(Duration::from_millis(50));
    assert!(!OPENED.load(Ordering::SeqCst), "the pipe was opened");
    drop(File::open(&pipe));
    writer.join().unwrap();
}

#[test]
fn links_of_other_users_lead_the_service_nowhere() {
    if !can_attack() {
        return;
    }
    let folder = roots_folder();
    let theirs = attackers_folder(folder.path());
    let link = theirs.join("program");
    symlink("/dev/null", &link).unwrap();
    give(&link);
    let mut keeper = Keeper::new(Bounds { threshold: 0, bytes_per_round: 1 << 30 });
    let lines = round(&mut keeper, &[link]);
    assert!(lines[0].contains("is reached by the symbolic link"), "{lines:?}");
}

#[test]
fn a_round_promotes_no_more_of_one_file_than_it_may() {
    let folder = folder();
    if !can_promote(folder.path()) {
        return;
    }
    let files = ["first", "second"].map(|name| program(folder.path(), name, 10, Linked::Aligned).unwrap());
    let regions = Image::open(&files[0]).unwrap().promotable().len();
    for path in &files {
        let image = Image::open(path).unwrap();
        promote::restore(&image).unwrap();
        rustix::fs::fadvise(&image.file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    }
    let now = |path: &Path| state(path).superpages;
    let mut keeper = Keeper::new(Bounds { threshold: 0, bytes_per_round: 2 * SUPERPAGE });
    let mut most = [0; 2];
    for i in 1..40 {
        let before = files.each_ref().map(|path| now(path));
        let lines = round(&mut keeper, &files);
        let after = files.each_ref().map(|path| now(path));
        let promoted = after.iter().sum::<usize>().saturating_sub(before.iter().sum());
        assert!(promoted <= 2, "{promoted} in round {i}: {lines:?}");
        // The owner of the first file evicts it, to use up the budget of every round.
        let first = File::open(&files[0]).unwrap();
        rustix::fs::fadvise(&first, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        most = [most[0].max(after[0]), most[1].max(after[1])];
        if most[1] == regions {
            break;
        }
    }
    assert!(most[0] <= 2 && most[1] == regions, "{most:?} of {regions}");
}

/// Mounts an overlay whose lower layer has a program with dirty pages, which fsync of the overlay's file does not write.
#[test]
fn dirty_pages_below_an_overlay_are_evicted_without_writing_all_files() {
    if !can_attack() {
        return;
    }
    let folder = folder();
    if !can_promote(folder.path()) {
        return;
    }
    let Some(path) = program(folder.path(), "source", 8, Linked::Aligned) else { return };
    let Ok(upper) = tempfile::tempdir_in("/dev/shm") else { return };
    let at = |name: &str| upper.path().join(name);
    for name in ["upper", "work", "merged"] {
        fs::create_dir(at(name)).unwrap();
    }
    let lower = tempfile::tempdir_in("/var/tmp").unwrap();
    // Mounts are of this thread alone.
    // SAFETY: the call takes flags only, and no other thread has this one's folder.
    assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNS) }, 0);
    rustix::mount::mount_change(
        "/",
        rustix::mount::MountPropagationFlags::PRIVATE | rustix::mount::MountPropagationFlags::REC,
    )
    .unwrap();
    let layers = format!(
        "lowerdir={},upperdir={},workdir={}",
        lower.path().display(),
        at("upper").display(),
        at("work").display()
    );
    let options = std::ffi::CString::new(layers).unwrap();
    let mounted =
        rustix::mount::mount("overlay", at("merged"), "overlay", rustix::mount::MountFlags::empty(), Some(&*options));
    if let Err(error) = mounted {
        eprintln!("skipped: no overlay of tmpfs over {}: {error}", lower.path().display());
        return;
    }
    fs::write(lower.path().join("program"), fs::read(&path).unwrap()).unwrap();
    let image = Image::open(&at("merged/program")).unwrap();
    let outcome = promote_all(&image);
    assert_eq!((outcome.busy, outcome.failed), (0, 0), "{outcome:?}");
    rustix::mount::unmount(at("merged"), rustix::mount::UnmountFlags::empty()).unwrap_or(());
}
