//! Promotion on the running kernel. The tests assert states in lists of mappings and page tables, never speed. They skip what
//! the kernel or the user does not support, and print the reason.

mod common;

use common::{ALL, Linked, Waiting, can_promote, can_see_frames, folder, program, promote_all, state};
use reach_live::elf::BASE;
use reach_live::error::LiveErrorKind;
use reach_live::frames::PageMap;
use reach_live::image::Image;
use reach_live::keep::{Bounds, Keeper};
use reach_live::layout::SUPERPAGE;
use reach_live::promote::{self, Request};
use reach_live::users::{self, Users};
use reach_live::{align, replace};
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

/// Number of calls, enough to reach each region many times.
const CALLS: u64 = 100_000;

/// Returns the bytes of the file at `path` that a process maps with superpages.
fn mapped(pid: i32, path: &Path) -> u64 {
    let files = users::code_of(pid).unwrap();
    files.iter().find(|file| file.path == path).unwrap().user.superpages
}

#[test]
fn processes_map_promoted_code_with_the_same_superpages() {
    let folder = folder();
    if !can_promote(folder.path()) {
        return;
    }
    let Some(path) = program(folder.path(), "code", 40, Linked::Aligned) else { return };
    let image = Image::open(&path).unwrap();
    let regions = image.promotable().len();
    assert!(regions >= 20, "{regions}");
    promote::restore(&image).unwrap();
    assert_eq!(state(&path).superpages, 0);

    let outcome = promote_all(&image);
    assert_eq!((outcome.failed, outcome.busy, outcome.below_threshold), (0, 0, 0));
    let after = state(&path);
    assert_eq!((after.superpages, after.regions), (regions, regions));

    let (one, two) = (Waiting::start(&path, CALLS), Waiting::start(&path, CALLS));
    for process in [&one, &two] {
        // All regions are in use: the first holds the start of the program, and the others are called.
        assert_eq!(mapped(process.pid(), &path), regions as u64 * SUPERPAGE);
    }
    if can_see_frames() {
        let frames = |process: &Waiting| {
            let code = users::code_of(process.pid()).unwrap().into_iter().find(|file| file.path == path).unwrap();
            let mut frames = Vec::new();
            let table = PageMap::of(Some(process.pid())).unwrap();
            let addresses = code.first.address.0..code.first.address.0 + regions as u64 * SUPERPAGE;
            table.read(addresses, |_, entries| frames.extend(entries.iter().map(|entry| entry.frame()))).unwrap();
            frames
        };
        let (first, second) = (frames(&one), frames(&two));
        assert_eq!(first.len() as u64, regions as u64 * SUPERPAGE / BASE);
        assert!(first.iter().all(Option::is_some) && first == second, "one copy in memory");
    }

    // A file in use with superpages needs no promotion, so it is not refused.
    assert_eq!(promote::promote(&image, ALL).unwrap().already, regions);
    let refused = promote::restore(&image).unwrap_err();
    assert!(matches!(refused.kind, LiveErrorKind::InUse { .. }), "{refused}");
    drop((one, two));
    assert_eq!(promote::restore(&image).unwrap(), regions);
    let process = Waiting::start(&path, CALLS);
    assert_eq!((state(&path).superpages, mapped(process.pid(), &path)), (0, 0));
}

#[test]
fn unaligned_programs_are_refused_with_advice_and_aligned_copies_are_promoted() {
    let folder = folder();
    let Some(path) = program(folder.path(), "unaligned", 8, Linked::AsUsual) else { return };
    let refused = promote::promote(&Image::open(&path).unwrap(), ALL).unwrap_err().to_string();
    assert!(refused.contains("reach text align") && refused.contains("max-page-size"), "{refused}");

    let bytes = fs::read(&path).unwrap();
    let (aligned, changes) = align::align(&bytes, true).unwrap();
    assert!(changes.aligned > 0 && !changes.moved);
    let copy = folder.path().join("aligned");
    fs::write(&copy, aligned).unwrap();
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).unwrap();
    let original = Image::open(&path).unwrap();
    reach_live::load::verify_copy(&original, &Image::open(&copy).unwrap()).unwrap();
    let run = |path: &Path| std::process::Command::new(path).arg("1000").output().unwrap().stdout;
    assert_eq!(run(&path), run(&copy));
    assert_eq!(fs::read(&path).unwrap(), bytes, "the original is unchanged");

    if can_promote(folder.path()) {
        let image = Image::open(&copy).unwrap();
        promote_all(&image);
        let process = Waiting::start(&copy, CALLS);
        let regions = image.promotable().len() as u64;
        assert!(regions >= 3 && mapped(process.pid(), &copy) == regions * SUPERPAGE);
    }
}

#[test]
fn files_in_use_or_open_for_writing_are_refused_and_unchanged() {
    let folder = folder();
    let Some(path) = program(folder.path(), "busy", 6, Linked::Aligned) else { return };
    let image = Image::open(&path).unwrap();
    promote::restore(&image).unwrap();
    let bytes = fs::read(&path).unwrap();

    let writer = OpenOptions::new().append(true).open(&path).unwrap();
    let refused = promote::promote(&image, ALL).unwrap_err();
    assert!(matches!(refused.kind, LiveErrorKind::BeingWritten), "{refused}");
    let refused = replace::replace(&image, ALL).unwrap_err();
    assert!(matches!(refused.kind, LiveErrorKind::BeingWritten), "{refused}");
    drop(writer);

    let process = Waiting::start(&path, CALLS);
    if state(&path).superpages == 0 {
        let refused = promote::promote(&image, ALL).unwrap_err().to_string();
        assert!(refused.contains(&format!("in use by busy ({})", process.pid())), "{refused}");
        assert!(refused.contains("--replace"), "{refused}");
    }
    drop(process);
    assert_eq!(fs::read(&path).unwrap(), bytes);
}

#[test]
fn replace_puts_a_copy_of_the_same_bytes_and_attributes_in_place() {
    let folder = folder();
    if !can_promote(folder.path()) {
        return;
    }
    let Some(path) = program(folder.path(), "replaced", 6, Linked::Aligned) else { return };
    fs::set_permissions(&path, fs::Permissions::from_mode(0o751)).unwrap();
    let image = Image::open(&path).unwrap();
    let attribute = rustix::fs::setxattr(&path, "user.reach", b"kept", rustix::fs::XattrFlags::empty()).is_ok();
    promote::restore(&image).unwrap();
    let (bytes, before) = (fs::read(&path).unwrap(), fs::metadata(&path).unwrap());
    let old = Waiting::start(&path, CALLS);
    replace::replace(&image, ALL).unwrap();
    let after = fs::metadata(&path).unwrap();
    assert_ne!(before.ino(), after.ino());
    let kept = |metadata: &fs::Metadata| (metadata.mode(), metadata.uid(), metadata.gid(), metadata.mtime_nsec());
    assert_eq!((kept(&before), &bytes), (kept(&after), &fs::read(&path).unwrap()));
    if attribute {
        let mut value = [0; 8];
        assert_eq!(rustix::fs::getxattr(&path, "user.reach", &mut value).unwrap(), 4);
    }
    let new = Waiting::start(&path, CALLS);
    let regions = image.promotable().len() as u64;
    assert_eq!(mapped(new.pid(), &path), regions * SUPERPAGE);
    drop(old);
    let names = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(names.into_iter().all(|name| !name.to_string_lossy().starts_with('.')), "no temporary file is left");

    // A replacement would separate two hard links.
    fs::hard_link(&path, folder.path().join("other")).unwrap();
    let refused = replace::replace(&Image::open(&path).unwrap(), ALL).unwrap_err().to_string();
    assert!(refused.contains("2 names"), "{refused}");
}

#[test]
fn tmpfs_files_are_collapsed_in_place() {
    let Ok(folder) = tempfile::tempdir_in("/dev/shm") else {
        eprintln!("skipped: no tmpfs at /dev/shm");
        return;
    };
    let Some(path) = program(folder.path(), "shared", 6, Linked::Aligned) else { return };
    let image = Image::open(&path).unwrap();
    let outcome = promote_all(&image);
    if outcome.promoted == 0 {
        eprintln!("skipped: this kernel collapses no tmpfs files (before Linux 6.1?)");
        return;
    }
    assert_eq!(state(&path).superpages, image.promotable().len());
    let process = Waiting::start(&path, CALLS);
    assert!(mapped(process.pid(), &path) > 0);
    assert!(promote::restore(&image).unwrap_err().to_string().contains("tmpfs"));
}

#[test]
fn regions_below_the_threshold_are_not_promoted() {
    let folder = folder();
    if !can_promote(folder.path()) {
        return;
    }
    let Some(path) = program(folder.path(), "threshold", 12, Linked::Aligned) else { return };
    let image = Image::open(&path).unwrap();
    promote::restore(&image).unwrap();
    image.file.sync_all().unwrap();
    let regions = image.promotable();
    // Read 20 of 32 clusters of the second region, and nothing of the others.
    rustix::fs::fadvise(&image.file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    rustix::fs::fadvise(&image.file, 0, None, rustix::fs::Advice::Random).unwrap();
    let start = regions[1].offset.unwrap();
    let mut page = [0; BASE as usize];
    for offset in (start..start + 20 * 64 * 1024).step_by(BASE as usize) {
        std::os::unix::fs::FileExt::read_exact_at(&image.file, &mut page, offset).unwrap();
    }
    let clusters = |held: &reach_live::cache::Resident, i: usize| held.clusters(&regions[i].file_range().unwrap()).0;
    let held = image.resident().unwrap();
    assert_eq!((clusters(&held, 1), clusters(&held, 2)), (20, 0));
    let none = promote::promote(&image, Request { threshold: 21, around_users: false }).unwrap();
    assert_eq!((none.promoted, none.below_threshold), (0, regions.len()));
    let one = promote::promote(&image, Request { threshold: 20, around_users: false }).unwrap();
    assert_eq!((one.promoted + one.failed, one.below_threshold), (1, regions.len() - 1));
    // Readahead may still be under way: give it time to arrive.
    std::thread::sleep(std::time::Duration::from_millis(50));
    assert_eq!(clusters(&image.resident().unwrap(), 2), 0, "promotion reads no other region");
}

#[test]
fn keeper_promotes_reclaimed_and_upgraded_files_again_and_reports_once() {
    let folder = folder();
    if !can_promote(folder.path()) {
        return;
    }
    let Some(path) = program(folder.path(), "kept", 8, Linked::Aligned) else { return };
    let files = [path.clone(), folder.path().join("missing")];
    let mut keeper = Keeper::new(Bounds { threshold: 0, bytes_per_round: 1 << 30 });
    let mut round = |keeper: &mut Keeper| {
        let mut lines = Vec::new();
        keeper.round(&files, |line| lines.push(line.to_owned()));
        lines
    };
    let regions = Image::open(&path).unwrap().promotable().len();
    // Fragmented memory may take several rounds.
    let until_whole = |keeper: &mut Keeper, round: &mut dyn FnMut(&mut Keeper) -> Vec<String>| {
        let lines: Vec<String> = (0..8).flat_map(|_| round(keeper)).collect();
        assert_eq!(state(&path).superpages, regions, "{lines:?}");
        lines
    };
    let lines = until_whole(&mut keeper, &mut round);
    assert_eq!(lines.iter().filter(|line| line.contains("missing: cannot be found")).count(), 1, "{lines:?}");
    assert!(lines.iter().any(|line| line.contains(&format!("{regions} of {regions} regions"))), "{lines:?}");
    assert!(round(&mut keeper).is_empty(), "no line without a change");

    // Reclaim.
    let file = File::open(&path).unwrap();
    // The linker's pages may be superpages, too, but cannot be evicted before they are written.
    file.sync_all().unwrap();
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    assert_eq!(state(&path).superpages, 0);
    until_whole(&mut keeper, &mut round);
    // An upgrade.
    let upgrade = folder.path().join("upgrade");
    fs::copy(&path, &upgrade).unwrap();
    let fresh = Image::open(&upgrade).unwrap();
    fresh.file.sync_all().unwrap();
    promote::restore(&fresh).unwrap();
    fs::rename(&upgrade, &path).unwrap();
    until_whole(&mut keeper, &mut round);
}

#[test]
fn users_are_the_processes_that_map_the_file() {
    let folder = folder();
    let Some(path) = program(folder.path(), "mapped", 4, Linked::Aligned) else { return };
    let image = Image::open(&path).unwrap();
    assert_eq!(image.users().unwrap().users, []);
    let process = Waiting::start(&path, 10);
    let users = image.users().unwrap();
    assert_eq!(
        users.users.iter().map(|user| (user.pid, user.name.as_str())).collect::<Vec<_>>(),
        [(process.pid(), "mapped")]
    );
    assert!(users.users[0].code >= 4 << 20 && users.users[0].congruent);
    assert_eq!(users.phrase(), format!("mapped ({})", process.pid()));
    assert_eq!(Users::default().phrase(), "a process that is not in /proc, as of another container");
}

#[test]
fn padded_code_is_mapped_with_superpages_to_its_last_byte() {
    let folder = folder();
    if !can_promote(folder.path()) {
        return;
    }
    let Some(path) = program(folder.path(), "code", 40, Linked::Aligned) else { return };
    let (copy, changes) = align::align(&fs::read(&path).unwrap(), true).unwrap();
    assert!(changes.padded > 0);
    let padded = folder.path().join("padded");
    fs::write(&padded, copy).unwrap();
    fs::set_permissions(&padded, fs::Permissions::from_mode(0o755)).unwrap();
    promote_all(&Image::open(&padded).unwrap());
    let process = Waiting::start(&padded, CALLS);
    let code = users::code_of(process.pid()).unwrap().into_iter().find(|file| file.path == padded).unwrap();
    // The last region holds a few bytes of code, which run only when the program ends.
    let touched = code.user.code - SUPERPAGE;
    assert!(code.user.code > 40 << 20 && code.user.superpages >= touched, "{:?}", code.user);
    assert_eq!(
        state(&padded).superpages as u64 * SUPERPAGE,
        code.user.code,
        "a new mapping maps all of it with superpages"
    );
}
