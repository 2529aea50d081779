//! The mappings that the emulator made before the program's first instruction: program, loader, stack, vdso.
//!
//! The emulator's own list of mappings says which files it mapped, and where. Access rights come from the files'
//! program headers: the emulator maps code without the right to execute, so the kernel merges adjacent segments into
//! one mapping.

use crate::file::{self, FileSystem};
use crate::{guest, lane, placement, writer};
use reach_core::lock::Lock;
use reach_core::ring::{FileKey, Message};
use reach_core::{Advice, Backing, FileId, Map, Protection, Role, Span, VirtAddr};
use std::fs::{self, File};
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

const PAGE: u64 = 4096;

/// An upper bound for the descriptor tables that the emulator keeps in the program's memory and reads at every signal.
/// It includes adjacent memory of the emulator, which the kernel lists in the same mapping.
const TABLES: u64 = 256 * PAGE;

/// The emulator's mappings before it loaded the program.
static BEFORE: Lock<Vec<Line>> = Lock::new(Vec::new());

/// A line of /proc/self/maps, with the emulator's addresses.
#[derive(Clone)]
struct Line {
    start: u64,
    end: u64,
    rights: String,
    offset: u64,
    path: String,
}

fn own_maps() -> Vec<Line> {
    let text = fs::read("/proc/self/maps").unwrap_or_default();
    String::from_utf8_lossy(&text).lines().filter_map(parse_line).collect()
}

fn parse_line(line: &str) -> Option<Line> {
    let mut fields = line.splitn(6, ' ');
    let (start, end) = fields.next()?.split_once('-')?;
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let (start, end, rights) = (hex(start)?, hex(end)?, fields.next()?.to_owned());
    let offset = hex(fields.next()?)?;
    let path = fields.nth(2).unwrap_or_default().trim_start().to_owned();
    Some(Line { start, end, rights, offset, path })
}

/// Records the emulator's mappings when the plugin has just been loaded.
pub fn at_installation() {
    let lines = own_maps();
    BEFORE.with(|before| *before = lines);
}

/// Records the emulator's mappings again at the start of the first thread, if the program is not yet loaded, as up to
/// QEMU 8. Mappings made since the plugin was loaded then belong to the emulator too.
pub fn at_first_thread() {
    let lines = own_maps();
    let program = fs::canonicalize(writer::program()).unwrap_or_default();
    if lines.iter().all(|line| Path::new(&line.path) != program) {
        BEFORE.with(|before| *before = lines);
    }
}

/// Sends the mappings of the new image. Call it before the image's first instruction. The first thread is lane 0.
pub fn begin() {
    lane::send(0, &Message::Begin { path: writer::program().to_string_lossy().into_owned() });
    if let Err(why) = placement::loaded() {
        lane::send(0, &Message::Notice(why.into()));
    }
    let before = BEFORE.with(std::mem::take);
    // The kernel merges adjacent mappings, even those of program and emulator, so old ranges are cut out.
    let new = |line: Line| {
        let old = before.iter().filter(|old| old.path == line.path).map(|old| (old.start, old.end));
        let parts = without((line.start, line.end), old);
        parts.into_iter().map(move |(start, end)| {
            let offset = line.offset + (start - line.start);
            Line { start, end, offset, ..line.clone() }
        })
    };
    let lines: Vec<Line> = own_maps().into_iter().flat_map(new).collect();

    let mut images: Vec<Span> = Vec::new();
    let mut seen: Vec<&str> = Vec::new();
    for line in lines.iter().filter(|line| line.path.starts_with('/')) {
        if seen.contains(&line.path.as_str()) {
            continue;
        }
        seen.push(&line.path);
        for map in segments(line).unwrap_or_default() {
            if let Message::Map { map, .. } = &map {
                images.push(map.span);
            }
            lane::send(0, &map);
        }
    }
    for line in lines.iter().filter(|line| line.path.is_empty()) {
        // The guard page below the stack has no rights.
        let guarded = lines.iter().any(|below| below.end == line.start && below.rights.starts_with("---"));
        let taken = images.iter().map(|span| (span.start.0, span.end().0));
        for (start, end) in without((address(line.start).0, address(line.end).0), taken) {
            let span = Span { start: VirtAddr(start), len: end - start };
            for map in unnamed(span, &line.rights, guarded) {
                lane::send(0, &Message::Map { map, file: None });
            }
        }
    }
    lane::publish(0);
}

/// Returns the mappings in a span without a file. A `guarded` span begins with the stack.
fn unnamed(span: Span, rights: &str, guarded: bool) -> Vec<Map> {
    let map = |start, len, role| Map { role, ..Map::anonymous(start, len) };
    let stack = stack_bytes();
    match &rights[..2] {
        "rw" if guarded && span.len >= stack => {
            let tables = map(span.start + stack, span.len - stack, Role::Image);
            let tables = Some(tables).filter(|map| (1..=TABLES).contains(&map.span.len));
            [map(span.start, stack, Role::Stack)].into_iter().chain(tables).collect()
        }
        "rw" if span.len <= TABLES => vec![map(span.start, span.len, Role::Image)],
        // Only the vdso is read-only and has no file.
        "r-" => vec![Map { protection: Protection::READ_EXECUTE, ..map(span.start, span.len, Role::Image) }],
        _ => Vec::new(),
    }
}

/// Returns the parts of a range of addresses that remain without those in `taken`.
fn without(range: (u64, u64), taken: impl Iterator<Item = (u64, u64)>) -> Vec<(u64, u64)> {
    taken.fold(vec![range], |left, (from, to)| {
        let cut = |(start, end): (u64, u64)| [(start, end.min(from)), (start.max(to), end)];
        left.into_iter().flat_map(cut).filter(|(start, end)| start < end).collect()
    })
}

/// Returns the program's address for one of the emulator.
fn address(emulator_address: u64) -> VirtAddr {
    VirtAddr(emulator_address.wrapping_sub(guest::base()))
}

/// Returns the alignment of the program's segments in bytes; `None` if the program is not relocatable, or not readable.
pub fn relocatable(program: &Path) -> Option<u64> {
    let mut head = Vec::new();
    File::open(program).ok()?.take(16 * PAGE).read_to_end(&mut head).ok()?;
    let kind = u16::from_le_bytes(head.get(16..18)?.try_into().ok()?);
    let align = program_headers(&head)?.iter().map(|load| load.p_align).max()?;
    (kind == libc::ET_DYN && align.is_power_of_two()).then_some(align)
}

/// Returns the bytes of the stack that QEMU makes: the soft limit, but at least 8 MB, and 8 MB without a limit.
pub fn stack_bytes() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: 0 };
    // SAFETY: the kernel writes a structure of this type.
    unsafe { libc::getrlimit(libc::RLIMIT_STACK, &mut limit) };
    if limit.rlim_cur == libc::RLIM_INFINITY { 8 << 20 } else { (limit.rlim_cur & !(PAGE - 1)).max(8 << 20) }
}

/// Returns the mappings of an ELF file. `line` is its first mapping.
fn segments(line: &Line) -> Option<Vec<Message>> {
    let file = File::open(&line.path).ok()?;
    let about = file.metadata().ok()?;
    let mut head = Vec::new();
    (&file).take(16 * PAGE).read_to_end(&mut head).ok()?;
    let loads = program_headers(&head)?;
    let down = |n: u64| n & !(PAGE - 1);
    let up = |n: u64| n.next_multiple_of(PAGE);
    let first = loads.iter().find(|load| down(load.p_offset) == line.offset)?;
    let bias = address(line.start).0.wrapping_sub(down(first.p_vaddr));
    let key = FileKey {
        device: about.dev(),
        inode: about.ino(),
        len: about.len(),
        path: line.path.clone(),
        in_memory: file::file_system(file.as_raw_fd()) != FileSystem::Disk,
    };
    let mut maps = Vec::new();
    for load in &loads {
        let protection =
            Protection { read: load.p_flags & 4 != 0, write: load.p_flags & 2 != 0, execute: load.p_flags & 1 != 0 };
        let start = bias.wrapping_add(down(load.p_vaddr));
        let file_end = bias.wrapping_add(up(load.p_vaddr.wrapping_add(load.p_filesz)));
        let end = bias.wrapping_add(up(load.p_vaddr.wrapping_add(load.p_memsz)));
        let mut add = |from: u64, to: u64, backing, file| {
            if to > from {
                let map = Map::anonymous(VirtAddr(from), to - from);
                maps.push(Message::Map { map: Map { protection, backing, role: Role::Image, ..map }, file });
            }
        };
        if load.p_filesz > 0 {
            let offset = down(load.p_offset);
            add(start, file_end, Backing::File { file: FileId(0), offset }, Some(key.clone()));
            add(file_end, end, Backing::Anonymous, None);
            // The loader clears the rest of the file's last page (`padzero`).
            let rest = load.p_vaddr.wrapping_add(load.p_filesz);
            if load.p_memsz > load.p_filesz && protection.write && !rest.is_multiple_of(PAGE) {
                let page = Span { start: VirtAddr(bias.wrapping_add(down(rest))), len: PAGE };
                maps.push(Message::Advise(page, Advice::PopulateWrite));
            }
        } else {
            add(start, end, Backing::Anonymous, None);
        }
    }
    Some(maps)
}

/// Returns the loadable segments of an ELF file whose start is `head`; `None` when `head` is too short.
fn program_headers(head: &[u8]) -> Option<Vec<libc::Elf64_Phdr>> {
    let half = |at: usize| Some(u16::from_le_bytes(head.get(at..at + 2)?.try_into().ok()?));
    let word = |at: usize| Some(u32::from_le_bytes(head.get(at..at + 4)?.try_into().ok()?));
    let long = |at: usize| Some(u64::from_le_bytes(head.get(at..at + 8)?.try_into().ok()?));
    let (table, size, count) = (long(32)? as usize, usize::from(half(54)?), usize::from(half(56)?));
    let header = |i: usize| {
        let at = table.checked_add(i * size)?;
        Some(libc::Elf64_Phdr {
            p_type: word(at)?,
            p_flags: word(at + 4)?,
            p_offset: long(at + 8)?,
            p_vaddr: long(at + 16)?,
            p_paddr: long(at + 24)?,
            p_filesz: long(at + 32)?,
            p_memsz: long(at + 40)?,
            p_align: long(at + 48)?,
        })
    };
    let all: Option<Vec<_>> = (0..count).map(header).collect();
    Some(all?.into_iter().filter(|load| load.p_type == libc::PT_LOAD && load.p_memsz > 0).collect())
}
