//! Finds the processes that map a file, and how they map it.

use crate::layout::SUPERPAGE;
use crate::map::FileMap;
use procfs::process::{MMPermissions, MMapPath, MemoryMap, Process, all_processes};
use procfs::{ProcError, ProcResult};
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
    /// Processes that this user may not examine, by process ID: any of them may map the file, too.
    pub hidden: Vec<Hidden>,
    /// Whether `/proc` shows only this user's processes (`hidepid`): others may map the file, too.
    pub others_invisible: bool,
}

/// Returns whether `/proc` hides the processes of other users: it then lacks the first process, which always exists.
pub fn others_are_invisible() -> bool {
    !std::path::Path::new("/proc/1").exists()
}

/// A process whose mappings are not visible to this user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hidden {
    /// Process ID.
    pub pid: i32,
    /// Name of its program.
    pub name: String,
}

impl Users {
    /// Examines all processes but this one.
    ///
    /// # Errors
    /// If /proc cannot be read.
    pub fn of(identity: Identity) -> io::Result<Users> {
        let mut found = Users { others_invisible: others_are_invisible(), ..Users::default() };
        let me = std::process::id() as i32;
        for process in all_processes().map_err(other)?.flatten().filter(|process| process.pid != me) {
            let examined = process.maps().and_then(|maps| match maps.iter().any(|mapping| identity.is(mapping)) {
                true => user(&process, identity).map(Some),
                false => Ok(None),
            });
            match examined {
                Ok(user) => found.users.extend(user),
                Err(ProcError::PermissionDenied(_)) => {
                    // The name is visible to everybody. A process without one has ended.
                    found.hidden.extend(process.stat().map(|stat| Hidden { pid: process.pid, name: stat.comm }));
                }
                // The process has ended.
                Err(_) => {}
            }
        }
        found.users.sort_by_key(|user| user.pid);
        found.hidden.sort_by_key(|hidden| hidden.pid);
        Ok(found)
    }

    /// Names up to three of them, in one phrase. If none is visible, names those that may be meant.
    pub fn phrase(&self) -> String {
        match (self.users.is_empty(), self.hidden.is_empty()) {
            (false, _) => listed(self.users.iter().map(|user| (user.name.as_str(), user.pid)), "and"),
            (true, false) => {
                let hidden = self.hidden.iter().map(|hidden| (hidden.name.as_str(), hidden.pid));
                format!("a process that this user may not examine: {}", listed(hidden, "or"))
            }
            (true, true) if self.others_invisible => "a process of another user, which /proc hides".into(),
            (true, true) => "a process that is not in /proc, as of another container".into(),
        }
    }
}

/// Names up to three processes: `sshd (71), bash (80) and 4 more`.
pub fn listed<'a>(processes: impl ExactSizeIterator<Item = (&'a str, i32)>, conjunction: &str) -> String {
    const NAMED: usize = 3;
    let more = processes.len().saturating_sub(NAMED);
    let mut names: Vec<String> = processes.take(NAMED).map(|(name, pid)| format!("{name} ({pid})")).collect();
    if more > 0 {
        names.push(format!("{more} more"));
    }
    match names.split_last() {
        None => String::new(),
        Some((last, [])) => last.clone(),
        Some((last, first)) => format!("{} {conjunction} {last}", first.join(", ")),
    }
}

/// Returns how `process` maps the file.
fn user(process: &Process, identity: Identity) -> ProcResult<User> {
    let name = process.stat()?.comm;
    let mut user = User { pid: process.pid, name, code: 0, superpages: 0, congruent: true };
    let code = |mapping: &MemoryMap| identity.is(mapping) && mapping.perms.contains(MMPermissions::EXECUTE);
    for mapping in process.smaps()?.into_iter().filter(code) {
        user.code += mapping.address.1 - mapping.address.0;
        user.superpages += superpages(&mapping);
        user.congruent &= mapping.address.0.wrapping_sub(mapping.offset).is_multiple_of(SUPERPAGE);
    }
    Ok(user)
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
        if let Ok(user) = user(&process, identity) {
            found.push(Mapped { path: path.clone(), first: mapping, user });
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn up_to_three_processes_are_named() {
        let all = [("init", 1), ("sshd", 71), ("bash", 80), ("cat", 81), ("ls", 82)];
        let named = |n: usize| listed(all[..n].iter().copied(), "and");
        assert_eq!(
            [0, 1, 2, 3].map(named),
            ["", "init (1)", "init (1) and sshd (71)", "init (1), sshd (71) and bash (80)"]
        );
        assert_eq!(named(5), "init (1), sshd (71), bash (80) and 2 more");
    }

    #[test]
    fn a_user_that_cannot_be_seen_is_one_of_the_hidden_processes() {
        let hidden = vec![Hidden { pid: 71, name: "sshd".into() }];
        let phrase = |hidden, others_invisible| Users { users: Vec::new(), hidden, others_invisible }.phrase();
        assert_eq!(phrase(hidden, false), "a process that this user may not examine: sshd (71)");
        assert_eq!(phrase(Vec::new(), true), "a process of another user, which /proc hides");
    }
}
