//! What a stream says besides references. Like [`Event`](crate::Event), but in terms that a single process knows:
//! process numbers rather than address spaces, inodes rather than file numbers.

use super::record;
use super::words::{Words, put_bytes};
use crate::{Advice, Backing, FileId, Map, Protection, Remap, Role, Span, VirtAddr};

/// Which file a mapping shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileKey {
    /// Device.
    pub device: u64,
    /// Inode on that device.
    pub inode: u64,
    /// Length in bytes.
    pub len: u64,
    /// Path, as the process sees it.
    pub path: String,
}

/// How far another thread of the process had come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FenceEntry {
    /// Number of the buffer that the thread was writing.
    pub buffer: u32,
    /// Which use of that buffer.
    pub generation: u64,
    /// How many words it held.
    pub cursor: u32,
}

/// An event in a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// The stream's process runs a new image from here on (its first, or after exec).
    Begin {
        /// Path of the program.
        path: String,
    },
    /// A mapping appears. The file number in `map` means nothing; the key stands for it.
    Map {
        /// The mapping.
        map: Map,
        /// Its file, where it has one.
        file: Option<FileKey>,
    },
    /// Mappings disappear.
    Unmap(Span),
    /// Access rights change.
    Protect(Span, Protection),
    /// A mapping moves or changes size.
    Remap(Remap),
    /// The program advises.
    Advise(Span, Advice),
    /// The process is about to fork.
    Fork {
        /// Number of the child.
        child: u32,
        /// The child borrows the parent's memory (vfork).
        shares_memory: bool,
    },
    /// The fork returned.
    Forked {
        /// Number of the child.
        child: u32,
        /// Its process as the parent knows it; 0 when the fork failed.
        pid: u32,
    },
    /// The process waited for a child, which is gone for good.
    Reaped {
        /// The child.
        pid: u32,
    },
    /// The process ends; nothing that its other threads still do counts.
    Exit,
    /// What other threads of the process wrote up to here comes before what follows.
    Fence(Vec<FenceEntry>),
    /// Something that the user should know.
    Notice(String),
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

fn span(words: &mut Words) -> Option<Span> {
    Some(Span { start: VirtAddr(words.one()?), len: words.one()? })
}

impl Message {
    /// The words of the message, its head included.
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
                    words.extend([file.device, file.inode, file.len, offset]);
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
        };
        words[0] = record::message(code, (words.len() - 1) as u16);
        words
    }

    /// The message of kind `code` in `words` (without its head); `None` when they are no such message.
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
                    huge_shift: (bits >> 16) as u8,
                };
                let file = match w.one() {
                    None => None,
                    Some(device) => {
                        let (inode, len, offset) = (w.one()?, w.one()?, w.one()?);
                        map.backing = Backing::File { file: FileId(0), offset };
                        Some(FileKey { device, inode, len, path: w.text()? })
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
            _ => return None,
        })
    }
}
