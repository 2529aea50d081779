//! Gives a copy the inode flags of its original (those of chattr), its project ID and its extent sizes, and verifies that it
//! has them. They steer storage, so an empty copy gets them before its bytes.

use crate::error::LiveError;
use rustix::fs::IFlags;
use rustix::io::Errno;
use rustix::ioctl::{Getter, Setter, ioctl, opcode};
use std::fs::File;
use std::io;
use std::path::Path;

/// Flags that say how the file system has stored a file, which it decides for each file: a copy may differ.
const LAYOUT: u32 = DIRTY | COMPRESSED_BLOCKS | INDEX | HUGE_FILE | EXTENTS | EA_INODE | INLINE_DATA;
const DIRTY: u32 = 0x100;
const COMPRESSED_BLOCKS: u32 = 0x200;
const INDEX: u32 = 0x1000;
const HUGE_FILE: u32 = 0x4_0000;
const EXTENTS: u32 = 0x8_0000;
const EA_INODE: u32 = 0x20_0000;
const INLINE_DATA: u32 = 0x1000_0000;

/// Flags of a file that must not be replaced, or whose meaning a copy loses: the flag, its letter in lsattr, and why.
const REFUSED: [(u32, char, &str); 3] = [
    (0x10, 'i', "is immutable"),
    (0x20, 'a', "can only be appended to"),
    (0x10_0000, 'V', "is protected by fs-verity, which a copy would lose"),
];

/// The letters that lsattr shows for flags.
const LETTERS: [(u32, char); 17] = [
    (0x1, 's'),
    (0x2, 'u'),
    (0x4, 'c'),
    (0x8, 'S'),
    (0x10, 'i'),
    (0x20, 'a'),
    (0x40, 'd'),
    (0x80, 'A'),
    (0x400, 'm'),
    (0x800, 'E'),
    (0x4000, 'j'),
    (0x8000, 't'),
    (0x10_0000, 'V'),
    (0x80_0000, 'C'),
    (0x200_0000, 'x'),
    (0x2000_0000, 'P'),
    (0x4000_0000, 'F'),
];

/// Bits of [`Extended::flags`] that the other interface has not: real-time device, extent size, no defragmentation,
/// filestreams, direct access, extent size of copy on write.
const EXTENDED: u32 = 0x1 | 0x800 | 0x2000 | 0x4000 | 0x8000 | 0x1_0000;

/// What `FS_IOC_FSGETXATTR` reports: `struct fsxattr` of the kernel.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Extended {
    flags: u32,
    extent_size: u32,
    extents: u32,
    project: u32,
    copied_extent_size: u32,
    padding: [u8; 8],
}

impl Extended {
    /// Returns it with the fields that a copy keeps from `original`, and the others as they are.
    fn with(self, original: &Extended) -> Extended {
        Extended {
            flags: self.flags & !EXTENDED | original.flags & EXTENDED,
            extent_size: original.extent_size,
            project: original.project,
            copied_extent_size: original.copied_extent_size,
            ..self
        }
    }
}

/// Checks that a file has no flags that forbid to replace it, or that a copy cannot have.
///
/// # Errors
/// Names the flag.
pub(crate) fn check(path: &Path, file: &File) -> Result<(), LiveError> {
    match refusal(flags(file).map_err(LiveError::io(path, "has inode flags that cannot be read"))?.unwrap_or(0)) {
        Some(why) => Err(LiveError::plain(path, why)),
        None => Ok(()),
    }
}

fn refusal(flags: u32) -> Option<String> {
    let (flag, letter, why) = REFUSED.into_iter().find(|(flag, ..)| flags & flag != 0)?;
    let advice = if flag == 0x10_0000 { String::new() } else { format!("; see chattr -{letter}") };
    Some(format!("{why} (inode flag {letter}), and is not replaced{advice}"))
}

/// Gives `copy`, which is empty, the flags of `original`. `path` names the original in messages.
///
/// # Errors
/// If the copy cannot have one of them; the message names it.
pub(crate) fn keep(path: &Path, original: &File, copy: &File) -> Result<(), LiveError> {
    let failed = |doing| LiveError::io(path, doing);
    if let Some(wanted) = flags(original).map_err(failed("has inode flags that cannot be read"))? {
        let now = flags(copy).map_err(failed("has a copy whose inode flags cannot be read"))?.unwrap_or(0);
        let target = now & LAYOUT | wanted & !LAYOUT;
        // The reading back tells whether it has worked.
        let set =
            if now == target { Ok(()) } else { rustix::fs::ioctl_setflags(copy, IFlags::from_bits_retain(target)) };
        let now = flags(copy).map_err(failed("has a copy whose inode flags cannot be read"))?.unwrap_or(0);
        if now & !LAYOUT != target & !LAYOUT {
            return Err(LiveError::plain(path, lost((now ^ target) & !LAYOUT, set)));
        }
    }
    let Some(wanted) = extended(original).map_err(failed("has a project ID that cannot be read"))? else {
        return Ok(());
    };
    let now = extended(copy).map_err(failed("has a copy whose project ID cannot be read"))?.unwrap_or_default();
    let target = now.with(&wanted);
    if now != target {
        // SAFETY: the number of the request goes with the structure, which the kernel only reads.
        let set = unsafe { ioctl(copy, Setter::<{ opcode::write::<Extended>(b'X', 32) }, Extended>::new(target)) };
        let now = extended(copy).map_err(failed("has a copy whose project ID cannot be read"))?.unwrap_or_default();
        if now.with(&wanted) != now {
            let why = set.err().map_or(String::new(), |error| format!(": {}", io::Error::from(error)));
            let what = match now.project == wanted.project {
                true => "extent sizes or storage flags that its copy cannot have".to_owned(),
                false => format!("the project ID {}, which its copy cannot have", wanted.project),
            };
            return Err(LiveError::plain(path, format!("has {what}{why}")));
        }
    }
    Ok(())
}

/// Says which flags a copy does not have as its original has them.
fn lost(differing: u32, set: Result<(), Errno>) -> String {
    let letters: String = LETTERS.iter().filter(|(flag, _)| differing & flag != 0).map(|(_, letter)| letter).collect();
    let named = if letters.is_empty() { format!("{differing:#x}") } else { letters };
    let why = set.err().map_or(String::new(), |error| format!(": {}", io::Error::from(error)));
    format!("has or lacks inode flags (lsattr: {named}), in which its copy differs{why}")
}

/// Returns the inode flags. `None` if the file system has none.
fn flags(file: &File) -> io::Result<Option<u32>> {
    optional(rustix::fs::ioctl_getflags(file).map(|flags| flags.bits()))
}

/// Returns project ID and extent sizes. `None` if the file system has none.
fn extended(file: &File) -> io::Result<Option<Extended>> {
    // SAFETY: the number of the request goes with the structure, which is plain data, and which the kernel fills.
    optional(unsafe { ioctl(file, Getter::<{ opcode::read::<Extended>(b'X', 31) }, Extended>::new()) })
}

fn optional<T>(read: Result<T, Errno>) -> io::Result<Option<T>> {
    match read {
        Ok(value) => Ok(Some(value)),
        Err(Errno::NOTTY | Errno::OPNOTSUPP | Errno::INVAL | Errno::NOSYS) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_have_the_numbers_of_the_kernel() {
        // From linux/fs.h, for the structure of 28 bytes.
        assert_eq!(opcode::read::<Extended>(b'X', 31), 0x801c_581f);
        assert_eq!(opcode::write::<Extended>(b'X', 32), 0x401c_5820);
    }

    #[test]
    fn immutable_append_only_and_verity_files_are_refused_and_others_are_not() {
        for (flag, word) in [(0x10, "immutable"), (0x20, "appended"), (0x10_0000, "fs-verity")] {
            assert!(refusal(flag | EXTENTS).unwrap().contains(word));
        }
        assert_eq!(refusal(EXTENTS | 0x80 | 0x40 | 0x800), None);
    }

    #[test]
    fn flags_that_a_copy_lacks_are_named_by_their_letters() {
        assert_eq!(lost(0xc0, Ok(())), "has or lacks inode flags (lsattr: dA), in which its copy differs");
        assert!(
            lost(0x800, Err(Errno::PERM)).contains("lsattr: E), in which its copy differs: Operation not permitted")
        );
        assert!(lost(0x8000_0000, Ok(())).contains("0x80000000"));
    }

    #[test]
    fn a_copy_takes_the_project_of_its_original_and_keeps_its_own_number_of_extents() {
        let original = Extended { flags: 0x802, project: 7, extent_size: 8192, extents: 3, ..Extended::default() };
        let copy = Extended { flags: 0x8000_0000, extents: 1, ..Extended::default() };
        let expected =
            Extended { flags: 0x8000_0800, project: 7, extent_size: 8192, extents: 1, ..Extended::default() };
        assert_eq!(copy.with(&original), expected);
    }
}
