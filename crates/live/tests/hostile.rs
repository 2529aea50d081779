//! Hostile ELF files: at most 64 MB of memory and 2 seconds for any file of 1 MB, and for sparse files of any size.

use reach_live::align;
use reach_live::elf::dynamic::Dynamic;
use reach_live::elf::{Elf, MAX_CODE};
use reach_live::image::Image;
use reach_live::layout;
use reach_live::promote::State;
use std::alloc::{GlobalAlloc, Layout, System};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Counts the bytes that are allocated, and the most at any time.
struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: all work is done by the system's allocator; the counters only count.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = NOW.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        MOST.fetch_max(now, Ordering::Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Tests of this file run one at a time, because they count all memory of the process.
static ALONE: Mutex<()> = Mutex::new(());

const MOST_MEMORY: usize = 64 << 20;
const MOST_TIME: Duration = Duration::from_secs(2);

/// Runs `work`, and asserts that it stays within the budget.
fn within_budget<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let before = NOW.load(Ordering::Relaxed);
    MOST.store(before, Ordering::Relaxed);
    let begun = Instant::now();
    let result = work();
    let (time, memory) = (begun.elapsed(), MOST.load(Ordering::Relaxed) - before);
    eprintln!("{what}: {} KB, {} ms", memory >> 10, time.as_millis());
    assert!(memory <= MOST_MEMORY, "{what}: {} MB", memory >> 20);
    assert!(time <= MOST_TIME, "{what}: {time:?}");
    result
}

/// A program header: type, permissions, offset, address, size in the file and in memory.
#[derive(Clone, Copy)]
struct Header {
    kind: u32,
    rights: u32,
    offset: u64,
    vaddr: u64,
    file: u64,
    memory: u64,
}

const LOAD: u32 = 1;
const DYNAMIC: u32 = 2;
const INTERP: u32 = 3;
const RX: u32 = 5;

/// Returns code at an address, from an offset in the file.
fn code(vaddr: u64, offset: u64, size: u64) -> Header {
    Header { kind: LOAD, rights: RX, offset, vaddr, file: size, memory: size }
}

fn part(kind: u32, offset: u64, size: u64) -> Header {
    Header { kind, rights: 4, offset, vaddr: offset, file: size, memory: size }
}

/// Returns the headers of an ELF file.
fn headers(headers: &[Header]) -> Vec<u8> {
    let machine: u16 = if cfg!(target_arch = "aarch64") { 183 } else { 62 };
    let mut bytes = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0".to_vec();
    bytes.extend(machine.to_le_bytes());
    bytes.extend(1u32.to_le_bytes());
    bytes.extend([0u64, 64, 0].iter().flat_map(|word| word.to_le_bytes()));
    bytes.extend([0, 0, 0, 0, 64, 0, 56, 0]);
    bytes.extend((headers.len() as u16).to_le_bytes());
    bytes.resize(64, 0);
    for header in headers {
        bytes.extend(header.kind.to_le_bytes());
        bytes.extend(header.rights.to_le_bytes());
        let words = [header.offset, header.vaddr, header.vaddr, header.file, header.memory, 4096];
        bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    }
    bytes
}

/// Does all that is done with the bytes of a file. Returns whether they are an ELF file, or why not.
fn read(bytes: &[u8]) -> Result<(), String> {
    let elf = Elf::read(bytes).map_err(|error| error.to_string())?;
    let regions = layout::regions(&elf);
    for segment in elf.code() {
        layout::residual(segment, &regions);
    }
    let _ = Dynamic::of(bytes, &elf);
    for pad in [false, true] {
        let _ = align::align(bytes, pad);
    }
    Ok(())
}

/// Writes a sparse file, and does all that `show` does with it as root.
fn show(folder: &Path, start: &[u8], size: u64) -> Result<(), String> {
    let path = folder.join("sparse");
    let file = File::create(&path).unwrap();
    file.write_all_at(start, 0).unwrap();
    file.set_len(size).unwrap();
    let image = Image::open(&path).map_err(|error| error.to_string())?;
    let _ = State::of(&image).map_err(|error| error.to_string())?;
    let _ = reach_live::libraries::of(&image).map_err(|error| error.to_string())?;
    Ok(())
}

const MB: u64 = 1 << 20;
const GB: u64 = 1 << 30;

#[test]
fn sparse_files_of_gigabytes_take_no_memory() {
    let _alone = ALONE.lock();
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let text = code(0, 0, 4096);
    let interp = headers(&[text, part(INTERP, 4096, 3 * GB)]);
    let error = within_budget("PT_INTERP of 3 GB", || show(folder.path(), &interp, 4 * GB)).unwrap_err();
    assert!(error.contains("the path of its dynamic loader is longer than 4096 bytes"), "{error}");

    let dynamic = headers(&[text, part(DYNAMIC, 4096, 2 * GB)]);
    within_budget("PT_DYNAMIC of 2 GB", || show(folder.path(), &dynamic, 3 * GB)).unwrap();

    let all_code = headers(&[code(0, 0, MAX_CODE)]);
    within_budget("8 GB of code", || show(folder.path(), &all_code, MAX_CODE)).unwrap();
    let more = headers(&[code(0, 0, MAX_CODE + 4096)]);
    let error = within_budget("more code", || show(folder.path(), &more, 2 * MAX_CODE)).unwrap_err();
    assert!(error.contains("has more than 8 GB of code"), "{error}");

    // 200 segments, at addresses and in a file of 1 TB.
    let each = (0..200).map(|i| code(i << 33, i << 32, 4 * GB)).collect::<Vec<_>>();
    let error = within_budget("200 segments over 1 TB", || show(folder.path(), &headers(&each), 1 << 40)).unwrap_err();
    assert!(error.contains("has more than 8 GB of code"), "{error}");
    let each = (0..200).map(|i| code(i << 33, i << 32, 40 * MB)).collect::<Vec<_>>();
    within_budget("200 segments of 8 GB", || show(folder.path(), &headers(&each), 1 << 40)).unwrap();
}

#[test]
fn a_table_of_60_000_segments_is_refused() {
    let _alone = ALONE.lock();
    let each = (0..60_000).map(|i| code(i << 13, 0, 4096)).collect::<Vec<_>>();
    let bytes = headers(&each);
    let error = within_budget("60,000 segments", || read(&bytes)).unwrap_err();
    assert!(error.contains("its table of segments has more than 64 KB"), "{error}");
}

#[test]
fn files_of_a_megabyte_stay_within_the_budget() {
    let _alone = ALONE.lock();
    let filled = |table: &[Header]| {
        let mut bytes = headers(table);
        let mut state = 1u64;
        bytes.resize_with(MB as usize, || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
            (state >> 33) as u8
        });
        bytes
    };
    // As many segments as a kernel loads: small, adjacent, far apart, and each with all of the file.
    let table = |each: &dyn Fn(u64) -> Header| filled(&(0..1170).map(each).collect::<Vec<_>>());
    let all = MB & !4095;
    let cases = [
        ("small segments", table(&|i| code(i << 13, 0, 4096))),
        ("adjacent segments", table(&|i| code(i << 12, 0, 4096))),
        ("segments far apart", table(&|i| code(i << 40, 4096, 4096))),
        ("the whole file in each segment", table(&|i| code(i * 4 * MB, 0, all))),
        ("the whole file, out of step", table(&|i| code(i * 4 * MB + 4096, 0, all))),
        ("bss of terabytes", table(&|i| Header { memory: 1 << 41, ..code(i << 42, 0, 4096) })),
        (
            "code between data",
            table(&|i| Header { rights: 4 + (i % 2) as u32, ..code((i * 6 * MB / 4) & !4095, 0, all) }),
        ),
        ("segments to be moved", {
            let mut bytes = table(&|i| code(i << 13, if i == 0 { 0 } else { 4096 }, 4096));
            bytes[64 + 32..64 + 40].copy_from_slice(&(80u64 << 10).to_le_bytes());
            bytes
        }),
    ];
    for (what, bytes) in cases {
        let _ = within_budget(what, || read(&bytes));
    }
}

#[test]
fn dynamic_sections_are_bounded() {
    let _alone = ALONE.lock();
    // Entries without an end, which all need the same library, whose name has no end.
    let table = headers(&[code(0, 0, MB), part(DYNAMIC, 4096, 900 << 10)]);
    let needs = |tags: &[(u64, u64)], fill: (u64, u64)| {
        let mut bytes = table.clone();
        bytes.resize(MB as usize, b'x');
        let entries = bytes[4096..4096 + (900 << 10)].as_chunks_mut::<16>().0;
        for (i, entry) in entries.iter_mut().enumerate() {
            let (tag, value) = tags.get(i).copied().unwrap_or(fill);
            entry[..8].copy_from_slice(&tag.to_le_bytes());
            entry[8..].copy_from_slice(&value.to_le_bytes());
        }
        bytes
    };
    const NEEDED: u64 = 1;
    const STRTAB: u64 = 5;
    const STRSZ: u64 = 10;
    let strings = (STRTAB, 930 << 10);
    for (what, bytes, expected) in [
        ("no end", needs(&[strings], (NEEDED, 0)), "more than 16384 entries"),
        ("many names", needs(&[strings, (STRSZ, MB)], (0, 0)), ""),
        ("a name without an end", needs(&[strings, (STRSZ, MB), (NEEDED, 0)], (0, 0)), "has no end"),
        ("a name outside", needs(&[strings, (STRSZ, 8), (NEEDED, 9)], (0, 0)), "outside of its table"),
        ("strings nowhere", needs(&[(STRTAB, 1 << 50), (NEEDED, 0)], (0, 0)), "in no segment"),
    ] {
        let elf = Elf::read(&bytes[..]).unwrap();
        let result = within_budget(what, || Dynamic::of(&bytes[..], &elf));
        match result {
            Ok(_) => assert!(expected.is_empty(), "{what}"),
            Err(error) => assert!(!expected.is_empty() && error.to_string().contains(expected), "{what}: {error}"),
        }
    }
    let mut bytes = needs(&[[strings, (STRSZ, MB)].as_slice(), &[(NEEDED, 0); 1025]].concat(), (0, 0));
    bytes[930 << 10..][..8].copy_from_slice(b"libc.so\0");
    let elf = Elf::read(&bytes[..]).unwrap();
    let error = within_budget("1,025 libraries", || Dynamic::of(&bytes[..], &elf)).unwrap_err().to_string();
    assert!(error.contains("needs more than 1024 libraries"), "{error}");
}
