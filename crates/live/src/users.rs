//! Which processes have a file mapped, and how.

use crate::layout::SUPERPAGE;
use crate::map::FileMap;
use procfs::ProcError;
use procfs::process::{MMPermissions, MMapPath, MemoryMap, Process, all_processes};
use std::fs::File;
use std::io;
use std::path::PathBuf;

/// A file as the kernel names it in lists of mappings. That is not always what stat says (btrfs).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Identity {
    device: (i32, i32),
    inode: u64,
}

impl Identity {
    /// Finds it, by mapping a page of the file.
    ///
    /// # Errors
    /// When the file cannot be mapped.
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

    /// Whether a mapping is of this file.
    pub fn is(&self, mapping: &MemoryMap) -> bool {
        *self == Identity::from(mapping)
    }
}

fn other(error: ProcError) -> io::Error {
    io::Error::other(error)
}

/// A process that has a file mapped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// Its number.
    pub pid: i32,
    /// Its name.
    pub name: String,
    /// Executable mappings of the file, in bytes.
    pub code: u64,
    /// Of them, bytes that are mapped with superpages.
    pub superpages: u64,
    /// Whether superpages are possible where the file's code is mapped.
    pub congruent: bool,
}

/// Who uses a file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Users {
    /// Those that could be seen, in order of their numbers.
    pub users: Vec<User>,
    /// Processes that could not be looked into.
    pub hidden: usize,
}

impl Users {
    /// Looks at all processes but this one.
    ///
    /// # Errors
    /// When there is no /proc.
    pub fn of(identity: Identity) -> io::Result<Users> {
        let mut found = Users::default();
        let me = std::process::id() as i32;
        for process in all_processes().map_err(other)?.flatten().filter(|process| process.pid != me) {
            match process.maps() {
                Ok(maps) if maps.iter().any(|mapping| identity.is(mapping)) => {
                    found.users.extend(user(&process, identity));
                }
                Err(ProcError::PermissionDenied(_)) => found.hidden += 1,
                // The others do not map it, or are gone.
                Ok(_) | Err(_) => {}
            }
        }
        found.users.sort_by_key(|user| user.pid);
        Ok(found)
    }

    /// Some of them by name, in one phrase.
    pub fn phrase(&self) -> String {
        let names: Vec<String> =
            self.users.iter().take(3).map(|user| format!("{} ({})", user.name, user.pid)).collect();
        match self.users.len() {
            0 => "a process that cannot be seen from here".into(),
            n if n > names.len() => format!("{} and {} more", names.join(", "), n - names.len()),
            _ => names.join(", "),
        }
    }
}

/// How `process` has the file mapped; nothing when it is gone.
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

/// Bytes of a mapping that are mapped with superpages, of files, tmpfs, or anonymous memory.
pub fn superpages(mapping: &MemoryMap) -> u64 {
    let sizes = ["FilePmdMapped", "ShmemPmdMapped", "AnonHugePages"];
    sizes.iter().filter_map(|key| mapping.extension.map.get(*key)).sum()
}

/// A file whose code a process has mapped.
#[derive(Debug, Clone)]
pub struct Mapped {
    /// Where it was when it was mapped.
    pub path: PathBuf,
    /// Its first executable mapping.
    pub first: MemoryMap,
    /// How the process has it mapped.
    pub user: User,
}

/// The files whose code a process has mapped, in order of address: the program and its libraries.
///
/// # Errors
/// When there is no such process, or it is another's.
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
