//! Builds programs to promote, and detects what the kernel supports.

#![allow(dead_code)]

use reach_live::image::Image;
use reach_live::layout::SUPERPAGE;
use reach_live::promote::{self, Outcome, Request, State};
use reach_live::{host, libraries};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// Promotes all regions of a file that is not in use.
pub const ALL: Request = Request { threshold: 0, around_users: false };

/// Creates a folder on the file system of the build.
pub fn folder() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// How a program is linked.
#[derive(Clone, Copy, PartialEq)]
pub enum Linked {
    /// With code at a multiple of 2 MB.
    Aligned,
    /// As linkers do by default, with 4 KB alignment.
    AsUsual,
    /// Statically, without a dynamic loader.
    Static,
}

/// Builds a program with `megabytes` MB of code. Returns `None`, and prints the reason, if there is no C compiler.
pub fn program(folder: &Path, name: &str, megabytes: u64, linked: Linked) -> Option<PathBuf> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../live/tests/programs");
    let path = folder.join(name);
    let mut cc = Command::new("cc");
    cc.arg("-O1").arg("-o").arg(&path).arg(sources.join("code.c")).arg(sources.join("code.S"));
    cc.arg(format!("-DMB={megabytes}"));
    match linked {
        Linked::Aligned => cc.args(["-DALIGN=0x200000", "-Wl,-z,max-page-size=0x200000"]),
        Linked::AsUsual => cc.args(["-DALIGN=4096", "-pie", "-fPIE", "-Wl,-z,max-page-size=4096"]),
        Linked::Static => cc.args(["-DALIGN=0x200000", "-static", "-Wl,-z,max-page-size=0x200000"]),
    };
    match cc.status() {
        Ok(status) if status.success() => Some(path),
        Ok(status) => panic!("cc: {status}"),
        Err(error) => {
            eprintln!("skipped: no C compiler: {error}");
            None
        }
    }
}

/// A running program that has made its calls and waits for the end of its input. Killed on drop.
pub struct Waiting(pub Child);

impl Waiting {
    pub fn start(program: &Path, calls: u64) -> Waiting {
        let mut command = Command::new(program);
        command.arg(calls.to_string()).arg("wait").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap().by_ref()).read_line(&mut line).unwrap();
        assert!(!line.is_empty(), "the program has printed its sum");
        Waiting(child)
    }

    pub fn pid(&self) -> i32 {
        self.0.id() as i32
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Promotes all regions of a file, in up to five attempts because memory may be fragmented.
pub fn promote_all(image: &Image) -> Outcome {
    let mut outcome = Outcome::default();
    for _ in 0..5 {
        outcome = promote::promote(image, ALL).unwrap();
        if outcome.failed == 0 {
            break;
        }
    }
    outcome
}

/// Returns whether files in `folder` can be promoted here. Prints the reason if not.
pub fn can_promote(folder: &Path) -> bool {
    if host::superpage() != Some(SUPERPAGE) {
        eprintln!("skipped: this kernel has no superpages of 2 MB");
        return false;
    }
    let Some(path) = program(folder, "probe", 4, Linked::Aligned) else { return false };
    let image = Image::open(&path).unwrap();
    let promoted = promote_all(&image).promoted;
    if promoted == 0 {
        let place = (image.file_system.name(), host::kernel());
        eprintln!("skipped: {} on Linux {} has no folios of 2 MB, or memory is too fragmented", place.0, place.1);
    }
    promoted > 0
}

/// Returns whether page frames are visible. Prints the reason if not.
pub fn can_see_frames() -> bool {
    let visible = reach_live::frames::Folios::open().is_ok();
    if !visible {
        eprintln!("skipped: page frames are visible to root only");
    }
    visible
}

/// Returns the state of a file's code.
pub fn state(path: &Path) -> State {
    State::of(&Image::open(path).unwrap()).unwrap()
}

/// Returns whether the image's dynamic loader finds its libraries.
pub fn has_loader(image: &Image) -> bool {
    libraries::of(image).is_ok_and(|found| !found.is_empty())
}
