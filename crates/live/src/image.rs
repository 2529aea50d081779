//! A program or library: the file, its headers, and its state in memory.

use crate::cache::Resident;
use crate::elf::{Elf, Kind};
use crate::error::{LiveError, LiveErrorKind};
use crate::held::HeldFile;
use crate::host::{self, FileSystem};
use crate::layout::{self, Congruence, Region, SUPERPAGE};
use crate::map::{Advice, FileMap};
use crate::users::{self, Identity, Users};
use procfs::process::{MemoryMap, Process};
use rustix::fs::FileType;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Greatest size in bytes of a file that is read as a whole.
pub const MAX_BYTES: u64 = 1 << 30;

/// A program or library, open for reading.
pub struct Image {
    /// Its path, without symbolic links.
    pub path: PathBuf,
    /// The file as it was found: all work goes by its descriptor.
    pub held: HeldFile,
    /// The same, open for reading.
    pub file: File,
    /// Its headers.
    pub elf: Elf,
    /// Its regions.
    pub regions: Vec<Region>,
    /// The type of its file system.
    pub file_system: FileSystem,
}

impl Image {
    /// Opens a file and reads its headers. For root, symbolic links count only where no one else can change them.
    ///
    /// # Errors
    /// If it cannot be read, or holds no code for this machine.
    pub fn open(path: &Path) -> Result<Image, LiveError> {
        Image::of(HeldFile::regular(path)?)
    }

    /// Opens the file that a process maps. For root, this works even if the file has been replaced since, or lies in
    /// another mount namespace.
    ///
    /// # Errors
    /// If it cannot be read, or holds no code for this machine.
    pub fn of_mapping(pid: i32, mapping: &MemoryMap, path: &Path) -> Result<Image, LiveError> {
        let (start, end) = mapping.address;
        let exact = PathBuf::from(format!("/proc/{pid}/map_files/{start:x}-{end:x}"));
        let exact = HeldFile::behind(&exact, path).and_then(Image::of);
        exact.or_else(|error| if host::is_root() { Err(error) } else { Image::open(path) })
    }

    /// Opens a held file for reading, and reads its headers.
    ///
    /// # Errors
    /// If it is no regular file, cannot be read, or holds no code for this machine.
    pub fn of(held: HeldFile) -> Result<Image, LiveError> {
        let file = held.reading()?;
        Image::new(held, file)
    }

    /// Reads the headers of an open file, and names the image `path`.
    ///
    /// # Errors
    /// If it is no regular file, or holds no code for this machine.
    pub fn from_file(path: &Path, file: File) -> Result<Image, LiveError> {
        let held = HeldFile::of(path, &file)?;
        match held.status().kind {
            FileType::RegularFile => Image::new(held, file),
            _ => Err(LiveError::new(path, LiveErrorKind::NotAFile)),
        }
    }

    fn new(held: HeldFile, file: File) -> Result<Image, LiveError> {
        let path = held.path().to_owned();
        let elf = Elf::of(&file).map_err(|error| LiveError::new(&path, error))?;
        let file_system = FileSystem::of(&file).map_err(LiveError::io(&path, "its file system cannot be examined"))?;
        Ok(Image { regions: layout::regions(&elf), path, held, file, elf, file_system })
    }

    /// Reads the whole file.
    ///
    /// # Errors
    /// If it cannot be read, is shorter than it was when it was opened, or larger than [`MAX_BYTES`].
    pub fn bytes(&self) -> Result<Vec<u8>, LiveError> {
        if self.elf.size > MAX_BYTES {
            let size = self.elf.size >> 30;
            return Err(LiveError::plain(&self.path, format!("has {size} GB; files of more than 1 GB are not copied")));
        }
        let mut bytes = vec![0; self.elf.size as usize];
        self.file.read_exact_at(&mut bytes, 0).map_err(LiveError::io(&self.path, "cannot be read"))?;
        Ok(bytes)
    }

    /// Returns the regions that can be promoted.
    pub fn promotable(&self) -> Vec<Region> {
        layout::promotable(&self.elf)
    }

    /// Returns the worst congruence of its executable segments.
    pub fn congruence(&self) -> Congruence {
        let each = self.elf.code().map(|segment| layout::congruence(&self.elf, segment));
        let worse = |a: Congruence, b| match (a, b) {
            (Congruence::Never, _) | (_, Congruence::Never) => Congruence::Never,
            (Congruence::Always, Congruence::Always) => Congruence::Always,
            _ => Congruence::WhereLoaded,
        };
        each.reduce(worse).unwrap_or(Congruence::Never)
    }

    /// Describes its kind in words.
    pub fn kind(&self) -> &'static str {
        match self.elf.kind {
            Kind::Fixed if self.elf.is_static() => "static program at a fixed address",
            Kind::Fixed => "program at a fixed address",
            Kind::Pie if self.elf.is_static() => "static position-independent program",
            Kind::Pie => "position-independent program",
            Kind::Library => "shared library",
        }
    }

    /// Returns whether the kernel shows this user which pages of the file are in memory.
    pub fn cache_is_visible(&self) -> bool {
        host::is_root() || self.file.metadata().is_ok_and(|metadata| metadata.uid() == host::user().0)
    }

    /// Returns what the page cache holds of the file's code, and of the regions with code.
    ///
    /// # Errors
    /// If the file cannot be mapped.
    pub fn resident(&self) -> Result<Resident, LiveError> {
        let code = self.elf.code().map(|segment| segment.offset..segment.offset + segment.file_size);
        let regions = self.regions.iter().filter_map(Region::file_range);
        let within = |part: Range<u64>| part.start..part.end.min(self.elf.size);
        Resident::of(&self.file, code.chain(regions).map(within))
            .map_err(LiveError::io(&self.path, "its page cache cannot be examined"))
    }

    /// Returns the processes that map it.
    ///
    /// # Errors
    /// If the file cannot be mapped, or /proc cannot be read.
    pub fn users(&self) -> Result<Users, LiveError> {
        let users = Identity::of(&self.file).and_then(Users::of);
        users.map_err(LiveError::io(&self.path, "its users cannot be found"))
    }

    /// Returns which of `regions` a new mapping maps with a superpage, as the next process would. Reads nothing into
    /// memory.
    ///
    /// # Errors
    /// If the file cannot be mapped.
    pub fn as_superpages(&self, regions: &[Region]) -> Result<Vec<bool>, LiveError> {
        as_superpages(&self.file, regions).map_err(LiveError::io(&self.path, "its mapping cannot be verified"))
    }
}

/// Number of regions that are mapped at a time. The kernel limits mappings, and their list takes memory.
const BATCH: usize = 64;

fn as_superpages(file: &File, regions: &[Region]) -> io::Result<Vec<bool>> {
    let mut all = Vec::with_capacity(regions.len());
    for batch in regions.chunks(BATCH) {
        all.extend(batch_as_superpages(file, batch)?);
    }
    Ok(all)
}

fn batch_as_superpages(file: &File, regions: &[Region]) -> io::Result<Vec<bool>> {
    let mut maps = Vec::new();
    for region in regions {
        let map = region.file_range().map(|range| FileMap::new(file, range)).transpose()?;
        // Only a region that is in memory can be a superpage.
        let resident = |map: &FileMap| Ok::<_, io::Error>(map.resident()?.iter().all(|&resident| resident));
        let map = match map {
            Some(map) if resident(&map)? => Some(map),
            _ => None,
        };
        if let Some(map) = &map {
            // Touching a page with a readahead mark would start readahead.
            map.advise(0..SUPERPAGE, Advice::Random)?;
            map.advise(0..SUPERPAGE, Advice::Populate)?;
        }
        maps.push(map);
    }
    if maps.iter().all(Option::is_none) {
        return Ok(vec![false; regions.len()]);
    }
    let own = Process::myself().and_then(|me| me.smaps()).map_err(io::Error::other)?;
    let superpage = |map: &FileMap| {
        let mapping = own.iter().find(|mapping| mapping.address.0 == map.address());
        mapping.is_some_and(|mapping| users::superpages(mapping) == SUPERPAGE)
    };
    Ok(maps.iter().map(|map| map.as_ref().is_some_and(superpage)).collect())
}
