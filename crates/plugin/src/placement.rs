//! Places the program's mappings where Linux would, by [`reach_core::placement`]: the emulator and the kernel below it would
//! put them elsewhere, where other huge pages fit and the heap has no room to grow.
//!
//! The emulator calls the C library to map memory. Functions of this module replace those of the library in the emulator
//! ([`crate::interpose`]). They choose an address for the first mapping of each system call of the program that leaves the
//! choice to the kernel, and for the images and the stack before the program starts. Everything is as in a Linux process
//! without randomisation, but 16 TB lower, because the emulator itself is at the top: the program's image is at
//! `IMAGE`, the heap above it, mappings and libraries below `STACK_END`, the stack at its end. With a seed, image, mappings
//! and stack are at random pages, as with randomisation.

use crate::file::{FileSystem, file_system};
use crate::interpose;
use reach_core::Random;
use reach_core::lock::{Held, Lock};
use reach_core::placement::{Contents, MappingArea};
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::ops::Range;

const PAGE: u64 = 4096;

/// `ELF_ET_DYN_BASE`, 16 TB lower.
const IMAGE: u64 = 0x4555_5555_4000;
/// `STACK_TOP`, 16 TB lower.
const STACK_END: u64 = 0x6fff_ffff_f000;
/// The lowest address for mappings. The heap has the space below.
const FLOOR: u64 = 0x5000_0000_0000;
/// The bytes that Linux 6.18 maps below the loader: the vDSO and its data.
const VDSO: u64 = 8 * PAGE;
/// The random bits of the addresses of images and mappings (`mmap_rnd_bits`), in pages, and of the stack.
const MAPPING_BITS: u32 = 28;
const STACK_BITS: u32 = 22;

/// The least address of a mapping (`vm.mmap_min_addr`).
const LEAST_HINT: u64 = 1 << 16;
/// The binary logarithm of the default huge page size on x86-64.
const DEFAULT_HUGE_PAGE: u8 = 21;

/// The addresses of one process, before and after its start.
struct State {
    area: MappingArea,
    /// Where to put the program's image; `None` once it is there, or if its file gives the address.
    image: Option<u64>,
    /// The start of the dynamic linker, which the kernel maps first; the end of the area before it is there.
    linker: u64,
    stack_end: u64,
    /// The stack's length with its guard page.
    stack_len: u64,
    /// Whether the program has not started: the emulator still maps the images.
    loading: bool,
    memory: Memory,
}

/// What the kernel has for the program's memory.
#[derive(Clone, Copy)]
pub struct Memory {
    /// Whether ordinary memory stands for hugetlb pages.
    pub grants_hugetlb: bool,
    /// Whether shared memory is placed so that it can have huge pages.
    pub aligns_shared: bool,
}

static STATE: Lock<Option<State>> = Lock::new(None);

/// A system call of the program that may get a new mapping at an address of the kernel's choice.
#[derive(Clone, Copy)]
enum Call {
    Mmap {
        contents: Contents,
        hint: u64,
        len: u64,
    },
    /// `stays`: the mapping can shrink, or grow by the bytes from `grown.0` to `grown.1`, where it is.
    Remap {
        grown: (u64, u64),
        stays: bool,
    },
    Attach,
}

thread_local! {
    /// The call that the thread executes.
    static CALL: Cell<Option<Call>> = const { Cell::new(None) };
    /// The start and length of the mapping that the call got.
    static PLACED: Cell<Option<(u64, u64)>> = const { Cell::new(None) };
}

/// Prepares the placement of a program whose image is relocatable or not, and replaces the emulator's functions. Call it
/// before the program is loaded. `relocatable` is the alignment of a relocatable image; `seed` 0 means no randomisation.
pub fn begin(relocatable: Option<u64>, stack_bytes: u64, seed: u64, memory: Memory) {
    let random = |purpose: u64, bits: u32| match seed {
        0 => 0,
        seed => Random::new(seed.wrapping_mul(4).wrapping_add(purpose)).below(1 << bits) * PAGE,
    };
    let stack_end = STACK_END - random(0, STACK_BITS);
    let spread = if seed == 0 { 0 } else { (1 << STACK_BITS) * PAGE };
    let top = MappingArea::top_for(STACK_END, stack_bytes.saturating_add(spread)) - random(1, MAPPING_BITS);
    let image = relocatable.map(|align| (IMAGE + random(2, MAPPING_BITS)) & !(align.max(PAGE) - 1));
    STATE.with(|state| {
        *state = Some(State {
            area: MappingArea::new(FLOOR..top),
            image,
            linker: top,
            stack_end,
            stack_len: stack_bytes + PAGE,
            loading: true,
            memory,
        });
    });
    // SAFETY: the functions have the types of those that they replace. The emulator loads plugins before it starts a thread
    // that maps memory.
    let changed = unsafe {
        interpose::replace(&[
            (c"mmap", on_mmap as *const () as usize),
            (c"mmap64", on_mmap as *const () as usize),
            (c"munmap", on_munmap as *const () as usize),
            (c"mremap", on_mremap as *const () as usize),
        ])
    };
    if changed[0] + changed[1] == 0 || changed[2] == 0 || changed[3] == 0 {
        STATE.with(|state| *state = None);
    }
}

/// Ends the loading of the program, before its first instruction.
///
/// # Errors
/// When the emulator's functions could not be replaced, so that it chooses addresses itself.
pub fn loaded() -> Result<(), &'static str> {
    let done = with_state(|state| {
        state.loading = false;
        // The emulator maps fewer pages than the kernel below the dynamic linker.
        state.area.take(state.linker - VDSO..state.linker);
    });
    done.ok_or("this emulator chooses the addresses of mappings itself, so huge pages may differ from Linux's")
}

/// Locks the addresses before a fork, so that no other thread holds the lock in the child.
pub fn hold() -> Held<'static> {
    STATE.hold()
}

/// Begins a system call of the program that maps memory.
pub fn enter(number: libc::c_long, [a1, a2, a3, a4, a5, a6]: [u64; 6]) {
    let fixed = libc::MAP_FIXED | libc::MAP_FIXED_NOREPLACE | libc::MAP_32BIT;
    CALL.set(match number {
        libc::SYS_mmap if a4 & fixed as u64 == 0 => {
            Some(Call::Mmap { contents: contents(a4, a5 as i32, a6), hint: a1, len: a2 })
        }
        libc::SYS_mremap if a4 & libc::MREMAP_FIXED as u64 == 0 => {
            let [len, new_len] = [a2, a3].map(|len| len.saturating_add(PAGE - 1) & !(PAGE - 1));
            let grown = (a1.saturating_add(len), a1.saturating_add(new_len));
            let has_room =
                grown.0 >= grown.1 || with_state(|state| state.area.is_free(&(grown.0..grown.1))) == Some(true);
            Some(Call::Remap { grown, stays: has_room && len > 0 && a4 & libc::MREMAP_DONTUNMAP as u64 == 0 })
        }
        libc::SYS_shmat if a2 == 0 => Some(Call::Attach),
        _ => None,
    });
    PLACED.set(None);
}

/// Ends a system call of the program that maps memory.
pub fn leave(failed: bool) {
    CALL.set(None);
    // The emulator keeps the addresses of a mapping that failed, but Linux does not.
    if let Some((at, len)) = PLACED.take().filter(|_| failed) {
        // SAFETY: the emulator has mapped these addresses for the call, and given them up.
        unsafe { libc::munmap(pointer(at), len as usize) };
        release(at..at + len);
    }
}

/// Marks addresses as free that the kernel unmapped in another call than munmap.
pub fn release(span: Range<u64>) {
    with_state(|state| state.area.release(span));
}

/// Returns what an mmap call with these arguments maps.
fn contents(flags: u64, fd: i32, offset: u64) -> Contents {
    let has = |flag: c_int| flags & flag as u64 != 0;
    match (has(libc::MAP_ANONYMOUS), has(libc::MAP_HUGETLB)) {
        (true, true) => Contents::HugePages(huge_page_shift(flags)),
        (true, false) if has(libc::MAP_SHARED) => shared_memory(0),
        (true, false) => Contents::Anonymous,
        (false, _) => match file_system(fd) {
            FileSystem::Disk => Contents::File { offset },
            FileSystem::Memory => shared_memory(offset),
            FileSystem::HugePages(shift) => Contents::HugePages(shift),
        },
    }
}

/// Returns the contents of shared memory from `offset` bytes on.
fn shared_memory(offset: u64) -> Contents {
    match with_state(|state| state.memory.aligns_shared) {
        Some(true) => Contents::HugeSharedMemory { offset },
        _ => Contents::SharedMemory,
    }
}

fn with_state<R>(f: impl FnOnce(&mut State) -> R) -> Option<R> {
    STATE.with(|state| state.as_mut().map(f))
}

/// Replaces the emulator's `mmap`.
unsafe extern "C" fn on_mmap(
    hint: *mut c_void,
    len: usize,
    rights: c_int,
    flags: c_int,
    fd: c_int,
    offset: libc::off_t,
) -> *mut c_void {
    let fixed = flags & (libc::MAP_FIXED | libc::MAP_FIXED_NOREPLACE) != 0;
    let chosen = if fixed { [None; 2] } else { choose(len as u64, rights, flags) };
    let (len, flags) = ordinary(len, flags);
    for at in chosen.into_iter().flatten() {
        // SAFETY: the caller's arguments, with an address where nothing is mapped.
        let result = unsafe { libc::mmap(pointer(at), len, rights, flags | libc::MAP_FIXED_NOREPLACE, fd, offset) };
        if result == pointer(at) {
            PLACED.set(Some((at, len as u64)));
            take(at, len as u64, flags);
            return result;
        }
        if result != libc::MAP_FAILED {
            // SAFETY: kernels before 4.17 take the address as a hint. This is the mapping that they made.
            unsafe { libc::munmap(result, len) };
        }
    }
    // SAFETY: the caller's arguments.
    let result = unsafe { libc::mmap(hint, len, rights, flags, fd, offset) };
    if result != libc::MAP_FAILED {
        take(result as u64, len as u64, flags);
    }
    result
}

/// Returns the length and the flags of ordinary memory that stands for hugetlb pages; those of any other mapping as they are.
fn ordinary(len: usize, flags: c_int) -> (usize, c_int) {
    let asks = flags & libc::MAP_HUGETLB != 0 && flags & libc::MAP_ANONYMOUS != 0;
    if !asks || !with_state(|state| state.memory.grants_hugetlb).unwrap_or(false) {
        return (len, flags);
    }
    let page = 1usize.checked_shl(huge_page_shift(flags as u64).into()).unwrap_or(PAGE as usize);
    let size_bits = 63 << libc::MAP_HUGE_SHIFT;
    // A length that cannot be rounded is refused by the kernel.
    (len.checked_next_multiple_of(page).unwrap_or(len), flags & !(libc::MAP_HUGETLB | size_bits))
}

/// Returns addresses to try for a mapping that the emulator makes without one of its own; none for the emulator's own memory.
fn choose(len: u64, rights: c_int, flags: c_int) -> [Option<u64>; 2] {
    // With such a mapping, the emulator looks for free addresses.
    let reserves = rights == libc::PROT_NONE && flags & libc::MAP_NORESERVE != 0;
    let choice = |state: &mut State| match CALL.get() {
        _ if state.loading => [state.choose_for_loading(len, reserves), None],
        _ if PLACED.get().is_some() => [None; 2],
        Some(Call::Mmap { contents, hint, len: wanted }) if len == wanted.saturating_add(PAGE - 1) & !(PAGE - 1) => {
            // The kernel aligns private memory only without a hint.
            let contents = if hint != 0 && contents == Contents::Anonymous { Contents::SharedMemory } else { contents };
            let hint = Some(hint & !(PAGE - 1)).filter(|&hint| hint >= LEAST_HINT);
            [hint, state.area.place(len, contents)]
        }
        Some(Call::Remap { grown, .. }) if reserves => {
            let room = grown.0..grown.1;
            let free = !room.is_empty() && state.area.is_free(&room);
            if free {
                state.area.take(room.clone());
            }
            let at = state.area.place(len, Contents::Anonymous);
            if free {
                state.area.release(room);
            }
            [at, None]
        }
        Some(Call::Attach) if reserves => [state.area.place(len, Contents::SharedMemory), None],
        _ => [None; 2],
    };
    with_state(choice).unwrap_or([None; 2])
}

impl State {
    /// Returns the address for a mapping of the emulator while it loads the program: image, stack, dynamic linker.
    fn choose_for_loading(&mut self, len: u64, reserves: bool) -> Option<u64> {
        if len == self.stack_len {
            return Some(self.stack_end - len);
        }
        if !reserves {
            return None;
        }
        if let Some(image) = self.image.take() {
            return Some(image);
        }
        let at = self.area.place(len, Contents::SharedMemory)?;
        // The emulator's descriptor tables are smaller, and lie where Linux has the vDSO.
        if len > VDSO {
            self.linker = self.linker.min(at);
        }
        Some(at)
    }
}

/// Replaces the emulator's `munmap`.
unsafe extern "C" fn on_munmap(at: *mut c_void, len: usize) -> c_int {
    // SAFETY: the caller's arguments.
    let result = unsafe { libc::munmap(at, len) };
    if result == 0 && may_be_taken(at as u64) {
        release(at as u64..at as u64 + (len as u64).next_multiple_of(PAGE));
    }
    result
}

/// Replaces the emulator's `mremap`. Up to version 7.2, the emulator moves every mapping that may move.
unsafe extern "C" fn on_mremap(
    old: *mut c_void,
    len: usize,
    new_len: usize,
    flags: c_int,
    new: *mut c_void,
) -> *mut c_void {
    let round = |len: usize| (len as u64).next_multiple_of(PAGE);
    let reserved = PLACED.get().filter(|(at, _)| flags & libc::MREMAP_FIXED != 0 && *at == new as u64);
    let mut result = libc::MAP_FAILED;
    if let (Some(Call::Remap { stays: true, .. }), Some((at, reserved_len))) = (CALL.get(), reserved) {
        // SAFETY: the caller's arguments, without permission to move.
        result = unsafe { libc::mremap(old, len, new_len, 0) };
        if result != libc::MAP_FAILED {
            // SAFETY: the emulator reserved these addresses for the call, and does not need them.
            unsafe { libc::munmap(pointer(at), reserved_len as usize) };
            release(at..at + reserved_len);
            PLACED.set(None);
        }
    }
    if result == libc::MAP_FAILED {
        // SAFETY: the caller's arguments.
        result = unsafe { libc::mremap(old, len, new_len, flags, new) };
    }
    if result != libc::MAP_FAILED {
        if flags & libc::MREMAP_DONTUNMAP == 0 {
            release(old as u64..old as u64 + round(len));
        }
        take(result as u64, round(new_len), 0);
    }
    result
}

/// Marks a new mapping as in use.
fn take(at: u64, len: u64, flags: c_int) {
    if may_be_taken(at) {
        let shift = if flags & libc::MAP_HUGETLB != 0 { huge_page_shift(flags as u64) } else { 12 };
        let len = len.next_multiple_of(1 << shift);
        with_state(|state| {
            state.area.take(at..at + len);
            // An emulator that gives the image an address of its own has no further use for this one.
            state.image = state.image.filter(|_| !state.loading);
        });
    }
}

/// Returns whether the area of some process may have this address. Other calls need no lock.
fn may_be_taken(at: u64) -> bool {
    (FLOOR..STACK_END).contains(&at)
}

fn pointer(at: u64) -> *mut c_void {
    std::ptr::without_provenance_mut(at as usize)
}

/// Returns the binary logarithm of the page size in the flags of a MAP_HUGETLB mapping.
pub fn huge_page_shift(flags: u64) -> u8 {
    match (flags >> libc::MAP_HUGE_SHIFT & 63) as u8 {
        0 => DEFAULT_HUGE_PAGE,
        shift => shift,
    }
}
