//! Finds the processes that map a file, and how they map it.

use crate::layout::SUPERPAGE;
use crate::map::FileMap;
use procfs::ProcError;
use procfs::process::{MMPermissions, MMapPath, MemoryMap, Process, all_processes};
use std::fs::File;
use std::io;
use std::path::PathBuf;

/// A file as the kernel identifies it in lists of mappings. On btrfs, this differs from the answer of stat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Identity {
    device: (i32, i32),
    inode: u64,
}

impl Identity {
    /// Identifies a file, by mapping its first page and reading the list of mappings.
    ///
    /// # Errors
    /// If the file cannot be mapped.
    pub fn of(file: &File) -> io::Result<Identity> {
        let map = FileMap::new(file, 0..1)?;
        let maps = Process::myself().and_then(|me| me.maps()).map_err(other)?;
        let own = maps.into_iter().find(|mapping| mapping.address.0 == map.address());
        let own = own.ok_or_else(|| io::Error::other("its mapping is not listed in /proc/self/maps"))?;
        Ok(Identity::from(&own))
    }

    fn from(mapping: &MemoryMap) -> Identity {
        Identity { device: mapping.dev, inode: mapping.inode }
    }

    /// Returns whether a mapping is of this file.
    pub fn is(&self, mapping: &MemoryMap) -> bool {
        *self == Identity::from(mapping)
    }
}

fn other(error: ProcError) -> io::Error {
    io::Error::other(error)
}

/// A process that maps a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// Process ID.
    pub pid: i32,
    /// Name of its program.
    pub name: String,
    /// Bytes of executable mappings of the file.
    pub code: u64,
    /// Bytes of these that are mapped with superpages.
    pub superpages: u64,
    /// Whether the addresses of these allow superpages.
    pub congruent: bool,
}

/// The processes that map a file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Users {
    /// Visible processes, by process ID.
    pub users: Vec<User>,
    /// Number of processes whose mappings are not visible to this user.
    pub hidden: usize,
}

impl Users {
    /// Examines all processes but this one.
    ///
    /// # Errors
    /// If /proc cannot be read.
    pub fn of(identity: Identity) -> io::Result<Users> {
        let mut found = Users::default();
        let me = std::process::id() as i32;
        for process in all_processes().map_err(other)?.flatten().filter(|process| process.pid != me) {
            match process.maps() {
                Ok(maps) if maps.iter().any(|mapping| identity.is(mapping)) => {
                    found.users.extend(user(&process, identity));
                }
                Err(ProcError::PermissionDenied(_)) => found.hidden += 1,
                // Other processes do not map the file, or have ended.
                Ok(_) | Err(_) => {}
            }
        }
        found.users.sort_by_key(|user| user.pid);
        Ok(found)
    }

    /// Names up to three of them, in one phrase.
    pub fn phrase(&self) -> String {
        let names: Vec<String> =
            self.users.iter().take(3).map(|user| format!("{} ({})", user.name, user.pid)).collect();
        match self.users.len() {
            0 => "a process that is not visible to this user".into(),
            n if n > names.len() => format!("{} and {} more", names.join(", "), n - names.len()),
            _ => names.join(", "),
        }
    }
}

/// Returns how `process` maps the file. `None` if the process has ended.
fn user(process: &Process, identity: Identity) -> Option<User> {
    let name = process.stat().ok()?.comm;
    let mut user = User { pid: process.pid, name, code: 0, superpages: 0, congruent: true };
    let code = |mapping: &MemoryMap| identity.is(mapping) && mapping.perms.contains(MMPermissions::EXECUTE);
    for mapping in process.smaps().ok()?.into_iter().filter(code) {
        user.code += mapping.address.1 - mapping.address.0;
        user.superpages += superpages(&mapping);
        user.congruent &= mapping.address.0.wrapping_sub(mapping.offset).is_multiple_of(SUPERPAGE);
    }
    Some(user)
}

/// Returns the bytes of a mapping that are mapped with superpages, of files, tmpfs or anonymous memory.
pub fn superpages(mapping: &MemoryMap) -> u64 {
    let sizes = ["FilePmdMapped", "ShmemPmdMapped", "AnonHugePages"];
    sizes.iter().filter_map(|key| mapping.extension.map.get(*key)).sum()
}

/// A file whose code a process maps.
#[derive(Debug, Clone)]
pub struct Mapped {
    /// Its path when it was mapped.
    pub path: PathBuf,
    /// Its first executable mapping.
    pub first: MemoryMap,
    /// How the process maps it.
    pub user: User,
}

/// Returns the files whose code a process maps, in address order: the program and its libraries.
///
/// # Errors
/// If there is no such process, or it belongs to another user.
pub fn code_of(pid: i32) -> io::Result<Vec<Mapped>> {
    let maps = Process::new(pid).and_then(|process| Ok((process.smaps()?, process)));
    let (maps, process) = maps.map_err(|error| match error {
        ProcError::NotFound(_) => io::Error::from(io::ErrorKind::NotFound),
        ProcError::PermissionDenied(_) => io::ErrorKind::PermissionDenied.into(),
        error => other(error),
    })?;
    let mut found: Vec<Mapped> = Vec::new();
    for mapping in maps.into_iter().filter(|mapping| mapping.perms.contains(MMPermissions::EXECUTE)) {
        let MMapPath::Path(path) = &mapping.pathname else { continue };
        let identity = Identity::from(&mapping);
        if found.iter().any(|file| identity.is(&file.first)) {
            continue;
        }
        if let Some(user) = user(&process, identity) {
            found.push(Mapped { path: path.clone(), first: mapping, user });
        }
    }
    Ok(found)
}
