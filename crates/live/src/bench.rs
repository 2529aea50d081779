//! Measures whether code superpages help a program on this computer. The program runs repeatedly with its code in each of
//! four states, and the state of every run is verified.

use crate::align::{self, AlignError};
use crate::elf::BASE;
use crate::error::LiveError;
use crate::held::HeldFile;
use crate::image::Image;
use crate::layout::Congruence;
use crate::libraries;
use crate::promote::{self, Request, State};
use crate::run;
use crate::stage::{Cover, Run, Stage};
use crate::users::Identity;
use rustix::fs::Advice;
use std::ffi::OsString;
use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// State of a program's code in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CodeState {
    /// Folios of one base page.
    Base,
    /// The same again: the difference of both is noise.
    BaseAgain,
    /// Folios of 64 KB, mapped with base pages.
    Folios,
    /// Superpages.
    Superpages,
}

/// All states, in the order of the results.
pub const CODE_STATES: [CodeState; 4] =
    [CodeState::Base, CodeState::BaseAgain, CodeState::Folios, CodeState::Superpages];

/// Bytes of a write to a copy for `Folios`. The page cache makes a folio of each write.
const PIECE: usize = 64 << 10;

/// A file, and a copy of it for each state.
struct Subject {
    original: HeldFile,
    bytes: Vec<u8>,
    copies: Vec<HeldFile>,
}

impl Subject {
    fn new(original: HeldFile, bytes: Vec<u8>) -> Subject {
        Subject { original, bytes, copies: Vec::new() }
    }

    /// Writes a copy, with the permissions of the original but setuid and setgid.
    fn copy(&self, path: &Path) -> io::Result<File> {
        let file = OpenOptions::new().write(true).create_new(true).open(path)?;
        write(&file, &self.bytes)?;
        file.set_permissions(Permissions::from_mode(self.original.status().mode & 0o777))?;
        Ok(file)
    }
}

/// A program to measure. Dropping the value deletes the copies of its files.
pub struct Bench {
    program: PathBuf,
    command: Vec<OsString>,
    subjects: Vec<Subject>,
    /// Whether the copies are aligned, because the program is not.
    pub aligned: bool,
    /// Bytes of code in regions that can be promoted.
    pub code: u64,
    _folder: TempDir,
}

/// The reason a program cannot be measured.
#[derive(Debug)]
pub enum Unfit {
    /// None of its code can be superpages as it is linked, for this reason: there is nothing to measure.
    Nothing(String),
    /// An error.
    Failed(LiveError),
}

impl From<LiveError> for Unfit {
    fn from(error: LiveError) -> Unfit {
        Unfit::Failed(error)
    }
}

impl Bench {
    /// Copies the program, and its libraries if `with_libraries`, to a new folder in `scratch`.
    ///
    /// # Errors
    /// If there is no such program, no space, or nothing to measure.
    pub fn new(command: &[OsString], with_libraries: bool, scratch: &Path) -> Result<Bench, Unfit> {
        let program = run::find(&command[0])?;
        let image = run::image(&program)?;
        let mut subjects = Vec::new();
        let (first, aligned) = match promotable_bytes(&image) {
            Ok(bytes) => bytes,
            Err(AlignError::Elf(error)) => return Err(LiveError::new(&image.path, error).into()),
            Err(_) if with_libraries => (Vec::new(), false),
            Err(why) => return Err(Unfit::Nothing(format!("{}: {why}", image.path.display()))),
        };
        if !first.is_empty() {
            subjects.push(Subject::new(again(&image.held)?, first));
        }
        if with_libraries {
            for library in libraries::of(&image)?.iter().filter(|library| library.has_code) {
                let library = library.open()?;
                if !library.promotable().is_empty() {
                    let bytes = library.bytes()?;
                    subjects.push(Subject::new(library.held, bytes));
                }
            }
        }
        if subjects.is_empty() {
            let message =
                format!("{} and its libraries have no region of 2 MB that can be all code", image.path.display());
            return Err(Unfit::Nothing(message));
        }
        let folder = tempfile::Builder::new().prefix("reach-bench-").tempdir_in(scratch);
        let folder = folder.map_err(LiveError::io(scratch, "cannot hold copies"))?;
        // The copies are run by their paths.
        HeldFile::open(folder.path())?.require_trust()?;
        let mut code = 0;
        for (i, subject) in subjects.iter_mut().enumerate() {
            for state in CODE_STATES {
                let path = folder.path().join(format!("{i}-{state:?}"));
                let file = subject.copy(&path).map_err(LiveError::io(&path, "cannot be written"))?;
                subject.copies.push(HeldFile::of(&path, &file)?);
            }
            code += image_of(&subject.copies[0])?.promotable().len() as u64 * crate::layout::SUPERPAGE;
        }
        Ok(Bench { program, command: command.to_vec(), subjects, aligned, code, _folder: folder })
    }

    /// Runs the program once with its code in `state`, and verifies the state before and after. Repeats the run if the kernel
    /// has reclaimed code meanwhile, up to `ATTEMPTS` times.
    ///
    /// # Errors
    /// If the code cannot be brought into the state or kept in it, or the program cannot be started.
    pub fn run(&self, state: CodeState) -> Result<Run, LiveError> {
        for _ in 0..ATTEMPTS {
            let run = self.attempt(state)?;
            let held =
                self.subjects.iter().map(|subject| is_in_state(state, &image_of(&subject.copies[state as usize])?));
            if held.collect::<Result<Vec<_>, _>>()?.contains(&false) {
                continue;
            }
            return match (state, run.superpages) {
                (CodeState::Superpages, Some(0)) => Err(LiveError::plain(
                    &self.program,
                    "ran without superpages, although the page cache holds its file in them",
                )),
                (CodeState::Base | CodeState::BaseAgain | CodeState::Folios, Some(1..)) => {
                    Err(LiveError::plain(&self.program, "ran with superpages, although its file is in smaller folios"))
                }
                _ => Ok(run),
            };
        }
        Err(LiveError::plain(
            &self.program,
            "lost pages to reclaim in every attempt: too little memory is free to measure it",
        ))
    }

    fn attempt(&self, state: CodeState) -> Result<Run, LiveError> {
        let mut stage =
            Stage { program: &self.program, command: &self.command, covers: Vec::new(), watched: Vec::new() };
        for subject in &self.subjects {
            let copy = &subject.copies[state as usize];
            establish(state, subject, copy)?;
            let identity = Identity::of(&copy.reading()?);
            stage.watched.push(identity.map_err(LiveError::io(copy.path(), "cannot be examined"))?);
            stage.covers.push(Cover { place: &subject.original, copy });
        }
        stage.run().map_err(LiveError::io(&self.program, "cannot be run with copies mounted over its files"))
    }
}

/// Greatest number of attempts at a run.
const ATTEMPTS: usize = 5;

/// Returns bytes of an image that can be promoted, and whether they are an aligned copy.
fn promotable_bytes(image: &Image) -> Result<(Vec<u8>, bool), AlignError> {
    let bytes = image.bytes().map_err(|_| AlignError::Impossible("it cannot be read"))?;
    if image.congruence() == Congruence::Always && !image.promotable().is_empty() {
        return Ok((bytes, false));
    }
    let (aligned, _) = match align::align(&bytes, true) {
        Err(AlignError::Nothing) => return Err(AlignError::Impossible("no region of 2 MB is all code")),
        other => other?,
    };
    let elf = crate::elf::Elf::read(&aligned[..])?;
    if crate::layout::promotable(&elf).is_empty() {
        return Err(AlignError::Impossible("no region of 2 MB can be all code"));
    }
    Ok((aligned, true))
}

/// Holds a file once more.
fn again(held: &HeldFile) -> Result<HeldFile, LiveError> {
    HeldFile::behind(&held.link(), held.path())
}

/// Opens a held file for reading.
fn image_of(held: &HeldFile) -> Result<Image, LiveError> {
    Image::of(again(held)?)
}

fn write(mut file: &File, bytes: &[u8]) -> io::Result<()> {
    bytes.chunks(PIECE).try_for_each(|piece| file.write_all(piece))?;
    file.sync_all()
}

/// Brings a copy into `state`, and verifies that.
fn establish(state: CodeState, subject: &Subject, copy: &HeldFile) -> Result<(), LiveError> {
    let image = image_of(copy)?;
    if is_in_state(state, &image)? {
        return Ok(());
    }
    let failed = |doing| LiveError::io(copy.path(), doing);
    match state {
        CodeState::Base | CodeState::BaseAgain => {
            read_as_base_pages(&image.file).map_err(failed("cannot be read page by page"))?
        }
        CodeState::Folios => {
            let file = OpenOptions::new().write(true).truncate(true).open(copy.link());
            file.and_then(|file| write(&file, &subject.bytes)).map_err(failed("cannot be written"))?;
        }
        CodeState::Superpages => {
            promote::promote(&image, Request { threshold: 0, around_users: false })?;
        }
    }
    if is_in_state(state, &image)? {
        return Ok(());
    }
    let message = format!(
        "{} on Linux {} does not hold it in {}; choose a --scratch folder on a file system with large folios, or free memory",
        image.file_system.name(),
        crate::host::kernel(),
        match state {
            CodeState::Base | CodeState::BaseAgain => "base pages",
            CodeState::Folios => "folios of 64 KB",
            CodeState::Superpages => "superpages",
        },
    );
    Err(LiveError::plain(copy.path(), message))
}

/// Returns whether the page cache holds the code in `state`.
fn is_in_state(state: CodeState, image: &Image) -> Result<bool, LiveError> {
    let now = State::of(image)?;
    let code = crate::layout::code_bytes(&image.elf);
    // The last base page of each segment may lie beyond the end of the file.
    let whole = now.resident + BASE * image.elf.segments.len() as u64 >= code;
    let in_orders = |from: usize, to: usize| now.by_order.map(|bytes| bytes[from..to].iter().sum::<u64>());
    Ok(match state {
        CodeState::Base | CodeState::BaseAgain => {
            whole && now.superpages == 0 && in_orders(1, 11).is_none_or(|bytes| bytes == 0)
        }
        // If frames are hidden, the folios are assumed to be as written.
        CodeState::Folios => whole && now.superpages == 0 && in_orders(1, 9).is_none_or(|bytes| 10 * bytes > 9 * code),
        CodeState::Superpages => now.superpages == now.regions,
    })
}

/// Reads a file again in folios of one base page.
fn read_as_base_pages(file: &File) -> io::Result<()> {
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
