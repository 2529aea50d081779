//! Replaces functions that the emulator imports from the C library, in the emulator's executable only. QEMU's plugin
//! interface can watch system calls, but not choose the addresses of mappings.
//!
//! The emulator calls imported functions through a table of addresses, which its relocations list. This module finds the
//! slots by name and overwrites them. Calls of shared libraries, such as those of the C library's own allocator, have tables
//! of their own and are not affected.

use std::ffi::{CStr, c_char, c_int, c_void};

/// A function to replace: its name, and the address of the function to call instead.
pub type Replacement = (&'static CStr, usize);

/// The relocation types of slots that hold a function's address.
#[cfg(target_arch = "x86_64")]
const SLOT_TYPES: [u64; 2] = [6, 7];
#[cfg(target_arch = "aarch64")]
const SLOT_TYPES: [u64; 2] = [1025, 1026];
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const SLOT_TYPES: [u64; 0] = [];

// Tags of the dynamic section (elf.h); the libc crate lacks them.
const DT_PLTRELSZ: i64 = 2;
const DT_STRTAB: i64 = 5;
const DT_SYMTAB: i64 = 6;
const DT_RELA: i64 = 7;
const DT_RELASZ: i64 = 8;
const DT_JMPREL: i64 = 23;

#[repr(C)]
struct Dynamic {
    tag: i64,
    value: u64,
}

#[repr(C)]
struct Relocation {
    offset: u64,
    info: u64,
    addend: i64,
}

/// The parts of the emulator's executable that the search needs.
#[derive(Default)]
struct Executable {
    bias: u64,
    dynamic: u64,
    /// The addresses that the loader made read-only after relocation.
    read_only: std::ops::Range<u64>,
}

/// Replaces functions in the executable of this process. Returns how many slots it changed for each: none for a function
/// that the executable does not import, or on a processor whose relocations are not known here.
///
/// # Safety
/// Each replacement must have the type of the function that it replaces. No other thread may call the functions meanwhile.
pub unsafe fn replace(replacements: &[Replacement]) -> Vec<usize> {
    let mut executable = Executable::default();
    let mut changed = vec![0; replacements.len()];
    // SAFETY: the callback gets the pointer to `executable`, and only during the call.
    unsafe { libc::dl_iterate_phdr(Some(first_object), (&raw mut executable).cast()) };
    // SAFETY: the loader has mapped and relocated the executable, whose headers gave these addresses.
    for (slot, name) in unsafe { slots(&executable) } {
        if let Some(at) = replacements.iter().position(|(wanted, _)| *wanted == name) {
            // SAFETY: the slot belongs to a function of this name, which the replacement equals in type.
            changed[at] += usize::from(unsafe { write(slot, replacements[at].1, &executable.read_only) });
        }
    }
    changed
}

/// Notes the first object, which is the executable, and ends the iteration.
unsafe extern "C" fn first_object(info: *mut libc::dl_phdr_info, _: usize, to: *mut c_void) -> c_int {
    // SAFETY: the loader passes valid headers, and `to` comes from `replace`.
    let (info, executable) = unsafe { (&*info, &mut *to.cast::<Executable>()) };
    executable.bias = info.dlpi_addr;
    // SAFETY: the loader passes an array of this length.
    for header in unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) } {
        let start = info.dlpi_addr.wrapping_add(header.p_vaddr);
        match header.p_type {
            libc::PT_DYNAMIC => executable.dynamic = start,
            libc::PT_GNU_RELRO => executable.read_only = start..start + header.p_memsz,
            _ => {}
        }
    }
    1
}

/// Returns the slots for addresses of imported functions, with the functions' names.
unsafe fn slots(executable: &Executable) -> Vec<(u64, &'static CStr)> {
    let mut found = Vec::new();
    if executable.dynamic == 0 {
        return found;
    }
    let value = |tag| {
        let mut entry = executable.dynamic as *const Dynamic;
        // SAFETY: the dynamic section ends with an entry whose tag is 0, and whose value is unused.
        unsafe {
            while (*entry).tag != 0 && (*entry).tag != tag {
                entry = entry.add(1);
            }
            if (*entry).tag == tag { (*entry).value } else { 0 }
        }
    };
    let [names, symbols, calls, calls_len, data, data_len] =
        [DT_STRTAB, DT_SYMTAB, DT_JMPREL, DT_PLTRELSZ, DT_RELA, DT_RELASZ].map(value);
    // glibc adds the bias to these addresses when it loads the executable; other loaders do not.
    let address = |at: u64| if at < executable.bias { at + executable.bias } else { at };
    for (table, len) in [(calls, calls_len), (data, data_len)] {
        for i in 0..len as usize / size_of::<Relocation>() {
            // SAFETY: the dynamic section gives the tables' places and lengths, and relocations name existing symbols.
            unsafe {
                let relocation = &*(address(table) as *const Relocation).add(i);
                if SLOT_TYPES.contains(&(relocation.info & 0xffff_ffff)) {
                    let symbol = &*(address(symbols) as *const libc::Elf64_Sym).add((relocation.info >> 32) as usize);
                    let name = (address(names) + u64::from(symbol.st_name)) as *const c_char;
                    found.push((executable.bias.wrapping_add(relocation.offset), CStr::from_ptr(name)));
                }
            }
        }
    }
    found
}

/// Writes a slot, and makes its page read-only again where it was. Returns whether that was possible.
unsafe fn write(slot: u64, value: usize, read_only: &std::ops::Range<u64>) -> bool {
    // SAFETY: sysconf only returns a number.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
    let start = (slot as usize & !(page - 1)) as *mut c_void;
    // SAFETY: the caller gives a slot of the executable, which is one aligned word in one page.
    unsafe {
        if libc::mprotect(start, page, libc::PROT_READ | libc::PROT_WRITE) != 0 {
            return false;
        }
        (slot as *mut usize).write(value);
        if read_only.contains(&slot) {
            libc::mprotect(start, page, libc::PROT_READ);
        }
    }
    true
}
