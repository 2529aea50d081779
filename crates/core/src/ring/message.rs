//! Messages: everything in a stream except references. A message is like an [`Event`](crate::Event), but in terms that
//! a single process knows: process numbers instead of address spaces, inodes instead of file numbers.

use super::record;
use super::words::{Words, put_bytes};
use crate::{Advice, Backing, FileId, Map, Protection, Remap, Role, Span, VirtAddr};

/// The file of a mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileKey {
    /// Number of the device.
    pub device: u64,
    /// Number of the inode on that device.
    pub inode: u64,
    /// Length in bytes.
    pub len: u64,
    /// Path, as the process sees it.
    pub path: String,
    /// The file is memory (tmpfs, memfd, hugetlbfs): it is never written back to a disk.
    pub in_memory: bool,
}

/// The position of another thread of the process in its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FenceEntry {
    /// Number of the buffer that the thread was writing.
    pub buffer: u32,
    /// [`Buffer::generation`](super::Buffer::generation) of that buffer.
    pub generation: u64,
    /// Number of words in the buffer.
    pub cursor: u32,
}

/// A message in a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// The process runs a new image from here on: its first one, or the next after exec.
    Begin {
        /// Path of the program.
        path: String,
    },
    /// A mapping was made. The file number in `map` is meaningless; `file` replaces it.
    Map {
        /// The mapping.
        map: Map,
        /// Its file; `None` for anonymous memory.
        file: Option<FileKey>,
    },
    /// All mappings in the span were removed.
    Unmap(Span),
    /// Access rights changed.
    Protect(Span, Protection),
    /// A mapping moved or changed its size.
    Remap(Remap),
    /// The program advised the kernel (madvise).
    Advise(Span, Advice),
    /// The process is about to fork.
    Fork {
        /// Number of the child.
        child: u32,
        /// The child uses the parent's memory until it execs or exits (vfork).
        shares_memory: bool,
    },
    /// The fork returned.
    Forked {
        /// Number of the child.
        child: u32,
        /// Its process identifier in the parent's namespace; 0 when the fork failed.
        pid: u32,
    },
    /// The process waited for a child, which has ended.
    Reaped {
        /// Process identifier of the child.
        pid: u32,
    },
    /// The process ends. The reader ignores what its other threads write afterwards.
    Exit,
    /// Everything before these positions of other threads precedes what follows in this stream.
    Fence(Vec<FenceEntry>),
    /// A message to the user.
    Notice(String),
    /// The process makes the system call of this number.
    SystemCall(u32),
}

const ROLES: [Role; 4] = [Role::Mmap, Role::Heap, Role::Stack, Role::Image];
const ADVICE: [Advice; 9] = [
    Advice::Huge,
    Advice::NoHuge,
    Advice::DontNeed,
    Advice::Free,
    Advice::PopulateRead,
    Advice::PopulateWrite,
    Advice::Collapse,
    Advice::DontFork,
    Advice::WillNeed,
];

fn protection_bits(p: Protection) -> u64 {
    u64::from(p.read) | u64::from(p.write) << 1 | u64::from(p.execute) << 2
}

fn protection(bits: u64) -> Protection {
    Protection { read: bits & 1 != 0, write: bits & 2 != 0, execute: bits & 4 != 0 }
}

fn number_of<T: PartialEq>(all: &[T], one: &T) -> u64 {
    all.iter().position(|other| other == one).unwrap_or(0) as u64
}

fn map_bits(map: &Map) -> u64 {
    protection_bits(map.protection)
        | u64::from(map.shared) << 3
        | u64::from(map.populate) << 4
        | u64::from(map.no_reserve) << 5
        | number_of(&ROLES, &map.role) << 8
        | u64::from(map.huge_shift) << 16
}

/// Reads a span; `None` where it is not in the lower half of the addresses, which is the program's.
fn span(words: &mut Words) -> Option<Span> {
    let (start, len) = (words.one()?, words.one()?);
    let is_lower_half = start.checked_add(len).is_some_and(|end| end <= 1 << 47);
    is_lower_half.then_some(Span { start: VirtAddr(start), len })
}

impl Message {
    /// Encodes the message as words, its head first.
    pub fn encode(&self) -> Vec<u64> {
        let mut words = vec![0];
        let put_span = |words: &mut Vec<u64>, span: &Span| words.extend([span.start.0, span.len]);
        let code = match self {
            Message::Begin { path } => {
                put_bytes(&mut words, path.as_bytes());
                1
            }
            Message::Map { map, file } => {
                put_span(&mut words, &map.span);
                words.push(map_bits(map));
                if let (Backing::File { offset, .. }, Some(file)) = (map.backing, file) {
                    words.extend([file.device, file.inode, file.len, offset, file.in_memory.into()]);
                    put_bytes(&mut words, file.path.as_bytes());
                }
                2
            }
            Message::Unmap(span) => {
                put_span(&mut words, span);
                3
            }
            Message::Protect(span, p) => {
                put_span(&mut words, span);
                words.push(protection_bits(*p));
                4
            }
            Message::Remap(remap) => {
                put_span(&mut words, &remap.from);
                put_span(&mut words, &remap.to);
                words.push(remap.keep.into());
                5
            }
            Message::Advise(span, advice) => {
                put_span(&mut words, span);
                words.push(number_of(&ADVICE, advice));
                6
            }
            Message::Fork { child, shares_memory } => {
                words.extend([u64::from(*child), u64::from(*shares_memory)]);
                7
            }
            Message::Forked { child, pid } => {
                words.extend([u64::from(*child), u64::from(*pid)]);
                8
            }
            Message::Reaped { pid } => {
                words.push(u64::from(*pid));
                9
            }
            Message::Exit => 10,
            Message::Fence(entries) => {
                for entry in entries {
                    words.extend([u64::from(entry.buffer) << 32 | u64::from(entry.cursor), entry.generation]);
                }
                11
            }
            Message::Notice(text) => {
                put_bytes(&mut words, text.as_bytes());
                12
            }
            Message::SystemCall(number) => {
                words.push(u64::from(*number));
                13
            }
        };
        words[0] = record::message(code, (words.len() - 1) as u16);
        words
    }

    /// Decodes the message of kind `code` from `words`, which exclude its head. Returns `None` for any other words.
    pub fn decode(code: u8, words: &[u64]) -> Option<Message> {
        let mut w = Words::new(words);
        Some(match code {
            1 => Message::Begin { path: w.text()? },
            2 => {
                let (span, bits) = (span(&mut w)?, w.one()?);
                let mut map = Map {
                    span,
                    protection: protection(bits),
                    backing: Backing::Anonymous,
                    shared: bits >> 3 & 1 != 0,
                    role: *ROLES.get((bits >> 8 & 255) as usize)?,
                    populate: bits >> 4 & 1 != 0,
                    no_reserve: bits >> 5 & 1 != 0,
                    huge_shift: Some((bits >> 16) as u8).filter(|&shift| shift == 0 || (12..48).contains(&shift))?,
                };
                let file = match w.one() {
                    None => None,
                    Some(device) => {
                        let (inode, len, offset, in_memory) = (w.one()?, w.one()?, w.one()?, w.one()? != 0);
                        map.backing = Backing::File { file: FileId(0), offset };
                        Some(FileKey { device, inode, len, path: w.text()?, in_memory })
                    }
                };
                Message::Map { map, file }
            }
            3 => Message::Unmap(span(&mut w)?),
            4 => Message::Protect(span(&mut w)?, protection(w.one()?)),
            5 => Message::Remap(Remap { from: span(&mut w)?, to: span(&mut w)?, keep: w.one()? != 0 }),
            6 => Message::Advise(span(&mut w)?, *ADVICE.get(w.one()? as usize)?),
            7 => Message::Fork { child: w.one()? as u32, shares_memory: w.one()? != 0 },
            8 => Message::Forked { child: w.one()? as u32, pid: w.one()? as u32 },
            9 => Message::Reaped { pid: w.one()? as u32 },
            10 => Message::Exit,
            11 => Message::Fence(
                words
                    .chunks_exact(2)
                    .map(|pair| FenceEntry {
                        buffer: (pair[0] >> 32) as u32,
                        cursor: pair[0] as u32,
                        generation: pair[1],
                    })
                    .collect(),
            ),
            12 => Message::Notice(w.text()?),
            13 => Message::SystemCall(w.one()? as u32),
            _ => return None,
        })
    }
}
