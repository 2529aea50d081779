//! Whether code superpages help a program on this machine: the same program in turns, with its code held in memory in four
//! ways, each verified for each run.

use crate::align::{self, AlignError};
use crate::elf::BASE;
use crate::error::LiveError;
use crate::image::Image;
use crate::layout::Congruence;
use crate::libraries;
use crate::promote::{self, Request, State};
use crate::run;
use crate::stage::{Run, Stage};
use crate::users::Identity;
use rustix::fs::Advice;
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// How code is held in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CodeState {
    /// In folios of one base page.
    Base,
    /// The same once more: what differs is noise.
    BaseAgain,
    /// In folios of 64 KB, mapped by base pages.
    Folios,
    /// In superpages.
    Superpages,
}

/// All ways, in the order in which they are shown.
pub const CODE_STATES: [CodeState; 4] =
    [CodeState::Base, CodeState::BaseAgain, CodeState::Folios, CodeState::Superpages];

/// Copies for `Folios` are written in such pieces; the page cache makes a folio of each.
const PIECE: usize = 64 << 10;

/// A file, and a copy of it for each way.
struct Subject {
    original: PathBuf,
    bytes: Vec<u8>,
    copies: Vec<PathBuf>,
}

/// A program to be measured. Its copies go away with the value.
pub struct Bench {
    program: PathBuf,
    command: Vec<OsString>,
    subjects: Vec<Subject>,
    /// Whether the program had to be aligned for it: all copies are.
    pub aligned: bool,
    /// Bytes of code in regions that can be superpages.
    pub code: u64,
    _folder: TempDir,
}

/// Why there is nothing to measure.
#[derive(Debug)]
pub enum Unfit {
    /// No code can be superpages, for this reason: they have no effect.
    NoEffect(String),
    /// It cannot be measured.
    Failed(LiveError),
}

impl From<LiveError> for Unfit {
    fn from(error: LiveError) -> Unfit {
        Unfit::Failed(error)
    }
}

impl Bench {
    /// Makes copies of the program, and of its libraries with `with_libraries`, in a new folder in `scratch`.
    ///
    /// # Errors
    /// When there is no such program, no room, or nothing to measure.
    pub fn new(command: &[OsString], with_libraries: bool, scratch: &Path) -> Result<Bench, Unfit> {
        let program = run::find(&command[0])?;
        let image = run::image(&program)?;
        let mut subjects = Vec::new();
        let (first, aligned) = match fit(&image) {
            Ok(fit) => fit,
            Err(AlignError::Elf(error)) => return Err(LiveError::new(&image.path, error).into()),
            Err(_) if with_libraries => (Vec::new(), false),
            Err(why) => return Err(Unfit::NoEffect(format!("{}: {why}", image.path.display()))),
        };
        if !first.is_empty() {
            subjects.push(Subject { original: image.path.clone(), bytes: first, copies: Vec::new() });
        }
        if with_libraries {
            for path in libraries::of(&image)? {
                let library = Image::open(&path)?;
                if !library.promotable().is_empty() {
                    subjects.push(Subject {
                        original: library.path.clone(),
                        bytes: read(&library)?,
                        copies: Vec::new(),
                    });
                }
            }
        }
        if subjects.is_empty() {
            let what =
                format!("{} and its libraries have no region of 2 MB that can be code only", image.path.display());
            return Err(Unfit::NoEffect(what));
        }
        let folder = tempfile::Builder::new().prefix("reach-bench-").tempdir_in(scratch);
        let folder = folder.map_err(LiveError::io(scratch, "no copies can be made there"))?;
        let mut code = 0;
        for (i, subject) in subjects.iter_mut().enumerate() {
            for hold in CODE_STATES {
                let path = folder.path().join(format!("{i}-{hold:?}"));
                copy(&subject.original, &subject.bytes, &path).map_err(LiveError::io(&path, "cannot be written"))?;
                subject.copies.push(path);
            }
            code += Image::open(&subject.copies[0])?.promotable().len() as u64 * crate::layout::SUPERPAGE;
        }
        Ok(Bench { program, command: command.to_vec(), subjects, aligned, code, _folder: folder })
    }

    /// Runs the program once with its code held in a way, and verifies that it is so before and after. Where the kernel
    /// has reclaimed some of it meanwhile, the run is made again.
    ///
    /// # Errors
    /// When the code cannot be held so, or the program cannot be started.
    pub fn run(&self, hold: CodeState) -> Result<Run, LiveError> {
        for _ in 0..ATTEMPTS {
            let run = self.attempt(hold)?;
            let held = self.subjects.iter().map(|subject| is_held(hold, &Image::open(&subject.copies[hold as usize])?));
            if held.collect::<Result<Vec<_>, _>>()?.contains(&false) {
                continue;
            }
            return match (hold, run.superpages) {
                (CodeState::Superpages, Some(0)) => {
                    Err(LiveError::plain(&self.program, "ran without superpages, though its file is held in them"))
                }
                (CodeState::Base | CodeState::BaseAgain | CodeState::Folios, Some(1..)) => {
                    Err(LiveError::plain(&self.program, "ran with superpages where it should not"))
                }
                _ => Ok(run),
            };
        }
        Err(LiveError::plain(&self.program, "its pages are reclaimed while it runs: memory is too short to measure it"))
    }

    fn attempt(&self, hold: CodeState) -> Result<Run, LiveError> {
        let mut stage =
            Stage { program: &self.program, command: &self.command, covers: Vec::new(), watched: Vec::new() };
        for subject in &self.subjects {
            let copy = &subject.copies[hold as usize];
            establish(hold, subject, copy)?;
            let identity = File::open(copy).and_then(|file| Identity::of(&file));
            stage.watched.push(identity.map_err(LiveError::io(copy, "cannot be examined"))?);
            stage.covers.push((subject.original.clone(), copy.clone()));
        }
        stage.run().map_err(LiveError::io(&self.program, "cannot be run with copies of its files"))
    }
}

/// A run is made so many times, until its state has held.
const ATTEMPTS: usize = 5;

fn read(image: &Image) -> Result<Vec<u8>, LiveError> {
    let mut bytes = vec![0; image.elf.size as usize];
    image.file.read_exact_at(&mut bytes, 0).map_err(LiveError::io(&image.path, "cannot be read"))?;
    Ok(bytes)
}

/// The bytes of an image that can be promoted, and whether they had to be aligned or padded for it.
fn fit(image: &Image) -> Result<(Vec<u8>, bool), AlignError> {
    let bytes = read(image).map_err(|_| AlignError::Impossible("it cannot be read"))?;
    if image.congruence() == Congruence::Always && !image.promotable().is_empty() {
        return Ok((bytes, false));
    }
    let (aligned, _) = match align::align(&bytes, true) {
        Err(AlignError::Nothing) => return Err(AlignError::Impossible("no region of 2 MB is code only")),
        other => other?,
    };
    let elf = crate::elf::Elf::read(&aligned[..])?;
    if crate::layout::promotable(&elf).is_empty() {
        return Err(AlignError::Impossible("it has no region of 2 MB that can be code only"));
    }
    Ok((aligned, true))
}

fn copy(original: &Path, bytes: &[u8], path: &Path) -> io::Result<()> {
    let file = OpenOptions::new().write(true).create_new(true).open(path)?;
    write(&file, bytes)?;
    file.set_permissions(original.metadata()?.permissions())
}

fn write(mut file: &File, bytes: &[u8]) -> io::Result<()> {
    bytes.chunks(PIECE).try_for_each(|piece| file.write_all(piece))?;
    file.sync_all()
}

/// Brings a copy into its state, if it is not in it.
fn establish(hold: CodeState, subject: &Subject, copy: &Path) -> Result<(), LiveError> {
    let image = Image::open(copy)?;
    if is_held(hold, &image)? {
        return Ok(());
    }
    let failed = |doing| LiveError::io(copy, doing);
    match hold {
        CodeState::Base | CodeState::BaseAgain => {
            base_pages(&image.file).map_err(failed("cannot be read page by page"))?
        }
        CodeState::Folios => {
            let file = OpenOptions::new().write(true).truncate(true).open(copy);
            file.and_then(|file| write(&file, &subject.bytes)).map_err(failed("cannot be written"))?;
        }
        CodeState::Superpages => {
            promote::promote(&image, Request { threshold: 0, around_users: false })?;
        }
    }
    if is_held(hold, &image)? {
        return Ok(());
    }
    let what = format!(
        "{} on Linux {} does not hold it in {}; is --scratch on a file system with large folios, and memory free?",
        image.file_system.name(),
        crate::host::kernel(),
        match hold {
            CodeState::Base | CodeState::BaseAgain => "base pages",
            CodeState::Folios => "folios of 64 KB",
            CodeState::Superpages => "superpages",
        },
    );
    Err(LiveError::plain(copy, what))
}

fn is_held(hold: CodeState, image: &Image) -> Result<bool, LiveError> {
    let state = State::of(image)?;
    let code = crate::layout::code_bytes(&image.elf);
    // The last page of a segment may lie beyond the file.
    let whole = state.resident + BASE * image.elf.segments.len() as u64 >= code;
    let in_orders = |from: usize, to: usize| state.by_order.map(|bytes| bytes[from..to].iter().sum::<u64>());
    Ok(match hold {
        CodeState::Base | CodeState::BaseAgain => {
            whole && state.superpages == 0 && in_orders(1, 11).is_none_or(|bytes| bytes == 0)
        }
        // Where frames are hidden, what was written so is taken to be so.
        CodeState::Folios => {
            whole && state.superpages == 0 && in_orders(1, 9).is_none_or(|bytes| 10 * bytes > 9 * code)
        }
        CodeState::Superpages => state.superpages == state.regions,
    })
}

fn base_pages(file: &File) -> io::Result<()> {
    rustix::fs::fadvise(file, 0, None, Advice::DontNeed)?;
    rustix::fs::fadvise(file, 0, None, Advice::Random)?;
    let mut page = [0; BASE as usize];
    let mut offset = 0;
    loop {
        match file.read_at(&mut page, offset)? {
            0 => return Ok(()),
            length => offset += length as u64,
        }
    }
}
