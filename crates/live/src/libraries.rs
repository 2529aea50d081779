//! Lists the libraries that a program loads, by the rules of its dynamic loader, without running anything.
//!
//! The rules are those of the GNU C library (ld.so(8), and `elf/dl-load.c` of glibc 2.36). Libraries are found breadth
//! first. A needed name without a slash is looked for in
//! 1. the libraries found already, by the names they were needed by and by their `DT_SONAME`;
//! 2. the `DT_RPATH` of the file that needs it, of the file that needed that one, and so on up to the program; not if the file
//!    has a `DT_RUNPATH`, and not those of files that have one;
//! 3. `LD_LIBRARY_PATH` of this process; not for programs with setuid, setgid or capabilities;
//! 4. the `DT_RUNPATH` of the file that needs it;
//! 5. the loader's cache;
//! 6. the default folders.
//!
//! In each folder, the subfolders of `glibc-hwcaps` for this processor come first. Not followed are the folders that glibc
//! before 2.37 derived from processor features (`tls`, `haswell`), filters (`DT_FILTER`, `DT_AUXILIARY`), auditors, and what
//! the program loads itself later (`dlopen`).
//!
//! For root, every library must lie where only root writes ([`crate::held::trust`]).

pub mod cache;
mod folders;

use crate::elf::dynamic::Dynamic;
use crate::elf::{Elf, ElfError};
use crate::error::{LiveError, LiveErrorKind};
use crate::held::HeldFile;
use crate::held::status::FileId;
use crate::host;
use crate::image::Image;
use cache::Cache;
use folders::Rules;
use object::read::ReadCache;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Greatest number of libraries of a program.
const MAX_LIBRARIES: usize = 1024;

/// Greatest number of files that are looked for. Programs of 100 libraries and 100 folders of their own need 40,000.
const MAX_LOOKUPS: usize = 100_000;

/// A library that a program loads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Library {
    /// Its path, without symbolic links.
    pub path: PathBuf,
    /// Its identity.
    pub id: FileId,
    /// Whether it has code. Libraries of data may have none.
    pub has_code: bool,
}

impl Library {
    /// Opens it.
    ///
    /// # Errors
    /// If it cannot be read, or has been replaced since it was found.
    pub fn open(&self) -> Result<Image, LiveError> {
        let held = HeldFile::regular(&self.path)?;
        held.require_trust()?;
        match held.id() == self.id {
            true => Image::of(held),
            false => Err(LiveError::plain(&self.path, "was replaced while the libraries were listed; try again")),
        }
    }
}

/// Lists the libraries that a program loads, the dynamic loader included. Static programs load none, and of a library
/// without a dynamic loader, none are listed.
///
/// # Errors
/// If a library is missing or damaged, root meets one that others can change, or the loader is not the GNU C library's.
pub fn of(image: &Image) -> Result<Vec<Library>, LiveError> {
    match &image.elf.interpreter {
        Some(loader) => resolve(image, Some(loader)),
        None => Ok(Vec::new()),
    }
}

/// Lists the libraries of a program or a library, and the loader if there is one.
pub(crate) fn resolve(image: &Image, loader: Option<&Path>) -> Result<Vec<Library>, LiveError> {
    if let Some(loader) = loader.filter(|loader| !is_known(loader)) {
        let message = format!(
            "has the dynamic loader {}; only the rules of the GNU C library's are known, so its libraries are not listed",
            loader.display()
        );
        return Err(LiveError::plain(&image.path, message));
    }
    let mode = image.held.status().mode;
    let secure = mode & 0o6000 != 0 || host::has_attribute(&image.file, c"security.capability");
    let mut search = Search::new(Rules::of(loader, secure))?;
    search.add(Candidate::of(image)?, None)?;
    if let Some(loader) = loader {
        let lacks =
            || LiveError::plain(&image.path, format!("has the dynamic loader {}, which is missing", loader.display()));
        let candidate = search.open(loader)?.ok_or_else(lacks)?;
        let index = search.add(candidate, Some(0))?;
        search.name(loader.as_os_str(), index);
    }
    let mut next = 0;
    while next < search.found.len() {
        for name in std::mem::take(&mut search.found[next].dynamic.needed) {
            search.need(&name, next)?;
        }
        next += 1;
    }
    Ok(search.found.into_iter().skip(1).map(|found| found.library).collect())
}

/// Returns whether a loader is, by its name, the GNU C library's, whose rules these are.
pub(crate) fn is_known(loader: &Path) -> bool {
    let name = loader.file_name().unwrap_or_default().as_bytes();
    name.starts_with(b"ld-linux") || name == b"ld.so"
}

/// Reads the loader's cache. `None` if there is none, or it is damaged.
fn read_cache() -> Result<Option<Cache>, LiveError> {
    let path = Path::new("/etc/ld.so.cache");
    let Ok(held) = HeldFile::regular(path) else { return Ok(None) };
    held.require_trust()?;
    let mut bytes = Vec::new();
    let read = held.reading()?.take(cache::MAX_SIZE + 1).read_to_end(&mut bytes);
    read.map_err(LiveError::io(path, "cannot be read"))?;
    Ok(Some(bytes).filter(|bytes| bytes.len() as u64 <= cache::MAX_SIZE).and_then(Cache::parse))
}

/// A file that may be loaded.
struct Candidate {
    library: Library,
    dynamic: Dynamic,
    /// The folder in which it was found, for `$ORIGIN`. The loader resolves links for the program only.
    origin: PathBuf,
}

impl Candidate {
    /// Returns the program.
    fn of(image: &Image) -> Result<Candidate, LiveError> {
        Candidate::new(&image.held, &image.file, &image.elf, &image.path)
    }

    fn new(held: &HeldFile, file: &File, elf: &Elf, path: &Path) -> Result<Candidate, LiveError> {
        let dynamic = Dynamic::of(&ReadCache::new(file), elf).map_err(|error| LiveError::new(held.path(), error))?;
        let library = Library { path: held.path().into(), id: held.id(), has_code: elf.code().next().is_some() };
        Ok(Candidate { library, dynamic, origin: path.parent().unwrap_or(Path::new("/")).into() })
    }
}

/// The program, or a library that was found.
struct Found {
    library: Library,
    dynamic: Dynamic,
    origin: PathBuf,
    /// Index of the file that needed it first. `None` for the program.
    needed_by: Option<usize>,
}

/// The state of a search.
struct Search {
    rules: Rules,
    cache: Option<Cache>,
    /// Names and files that were looked for.
    lookups: usize,
    /// In the order in which the loader maps them, the program first.
    found: Vec<Found>,
    /// Index in `found`, by the names that a library was needed by, and its own.
    names: HashMap<OsString, usize>,
    files: HashMap<FileId, usize>,
}

impl Search {
    fn new(rules: Rules) -> Result<Search, LiveError> {
        let cache = if rules.cached { read_cache()? } else { None };
        let (found, names, files) = (Vec::new(), HashMap::new(), HashMap::new());
        Ok(Search { rules, cache, lookups: 0, found, names, files })
    }

    /// Adds a file, unless it was found by another name.
    fn add(&mut self, candidate: Candidate, needed_by: Option<usize>) -> Result<usize, LiveError> {
        let Candidate { library, dynamic, origin } = candidate;
        let index = self.found.len();
        if let Some(&known) = self.files.get(&library.id) {
            return Ok(known);
        }
        self.count(1 + dynamic.needed.len(), &library.path)?;
        if index > MAX_LIBRARIES {
            return Err(self.too_many(&library.path));
        }
        self.files.insert(library.id, index);
        if let Some(name) = &dynamic.name {
            self.name(name, index);
        }
        self.found.push(Found { library, dynamic, origin, needed_by });
        Ok(index)
    }

    /// Gives a library a name. The first that has it keeps it.
    fn name(&mut self, name: &OsStr, index: usize) {
        self.names.entry(name.to_owned()).or_insert(index);
    }

    /// Finds the library `name`, which the file at index `by` needs.
    fn need(&mut self, name: &OsStr, by: usize) -> Result<(), LiveError> {
        if self.names.contains_key(name) {
            return Ok(());
        }
        let candidate = match name.as_bytes().contains(&b'/') {
            true => match self.rules.expand(name, &self.found[by].origin) {
                Some(path) => self.open(&path)?,
                None => None,
            },
            false => self.locate(name, by)?,
        };
        let Some(candidate) = candidate else {
            let needed_by = self.found[by].library.path.display();
            let message = format!("lacks a library: {}, which {needed_by} needs, is not found", name.to_string_lossy());
            return Err(LiveError::plain(&self.found[0].library.path, message));
        };
        let index = self.add(candidate, Some(by))?;
        self.name(name, index);
        Ok(())
    }

    /// Looks for the library `name` in folders and in the cache.
    fn locate(&mut self, name: &OsStr, by: usize) -> Result<Option<Candidate>, LiveError> {
        if let Some(candidate) = self.in_folders(self.listed_folders(by), name)? {
            return Ok(Some(candidate));
        }
        let no_defaults = self.found[by].dynamic.no_default_folders;
        let cached = self.cache.as_ref().and_then(|cache| cache.find(name, &self.rules.hwcaps));
        let is_default = |path: &PathBuf| self.rules.defaults.iter().any(|folder| path.starts_with(folder));
        if let Some(path) = cached.filter(|path| !(no_defaults && is_default(path)))
            && let Some(candidate) = self.open(&path)?
        {
            return Ok(Some(candidate));
        }
        let defaults = if no_defaults { Vec::new() } else { self.rules.defaults.clone() };
        self.in_folders(defaults, name)
    }

    /// Returns the folders that are searched before the cache, for what the file at index `by` needs.
    fn listed_folders(&self, by: usize) -> Vec<PathBuf> {
        let mut folders = Vec::new();
        let own = &self.found[by];
        if own.dynamic.runpath.is_none() {
            let mut next = Some(own);
            while let Some(found) = next {
                if let (Some(rpath), None) = (&found.dynamic.rpath, &found.dynamic.runpath) {
                    folders.extend(self.rules.folders(rpath, &found.origin));
                }
                next = found.needed_by.map(|by| &self.found[by]);
            }
        }
        folders.extend(self.rules.environment(&self.found[0].origin));
        if let Some(runpath) = &own.dynamic.runpath {
            folders.extend(self.rules.folders(runpath, &own.origin));
        }
        folders
    }

    fn in_folders(&mut self, folders: Vec<PathBuf>, name: &OsStr) -> Result<Option<Candidate>, LiveError> {
        for folder in folders {
            for level in self.rules.hwcaps.clone() {
                if let Some(candidate) = self.open(&folder.join("glibc-hwcaps").join(level).join(name))? {
                    return Ok(Some(candidate));
                }
            }
            if let Some(candidate) = self.open(&folder.join(name))? {
                return Ok(Some(candidate));
            }
        }
        Ok(None)
    }

    /// Opens a file. `None` if there is none, it may not be read, or it is for another processor: the loader then goes on.
    fn open(&mut self, path: &Path) -> Result<Option<Candidate>, LiveError> {
        self.count(1, path)?;
        // Most are not there, and this is one call instead of several for each folder above.
        if rustix::fs::stat(path).is_err() {
            return Ok(None);
        }
        let absent = |error: LiveError| match &error.kind {
            LiveErrorKind::Io { source, .. } if ABSENT.contains(&source.kind()) => Ok(None),
            _ => Err(error),
        };
        let (held, file) = match HeldFile::regular(path).and_then(|held| Ok((held.reading()?, held))) {
            Ok((file, held)) => (held, file),
            Err(error) => return absent(error),
        };
        held.require_trust()?;
        match Elf::of_loadable(&file) {
            Ok(elf) => Candidate::new(&held, &file, &elf, path).map(Some),
            Err(ElfError::Bits32 | ElfError::Foreign(_)) => Ok(None),
            Err(error) => Err(LiveError::new(held.path(), error)),
        }
    }

    /// Counts what is looked for.
    fn count(&mut self, lookups: usize, path: &Path) -> Result<(), LiveError> {
        self.lookups += lookups;
        if self.lookups > MAX_LOOKUPS { Err(self.too_many(path)) } else { Ok(()) }
    }

    fn too_many(&self, path: &Path) -> LiveError {
        let program = self.found.first().map_or(path, |program| &program.library.path);
        LiveError::plain(
            program,
            format!("has more than {MAX_LIBRARIES} libraries, or they take more than {MAX_LOOKUPS} look-ups"),
        )
    }
}

/// Errors after which the loader looks elsewhere.
const ABSENT: [io::ErrorKind; 3] =
    [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory, io::ErrorKind::PermissionDenied];
