//! Reading the program's memory. Addresses come from the program and may be wrong, so the kernel does the reading.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::sync::atomic::{AtomicU64, Ordering};

/// What to add to an address of the program to get the emulator's.
static BASE: AtomicU64 = AtomicU64::new(0);

/// Notes where the program's address 0 lies in the emulator.
pub fn set_base(base: u64) {
    BASE.store(base, Ordering::Relaxed);
}

/// The emulator's address of the program's address 0.
pub fn base() -> u64 {
    BASE.load(Ordering::Relaxed)
}

/// Fills `to` from `address`; returns how many bytes could be read.
fn read(address: u64, to: &mut [u8]) -> usize {
    let local = libc::iovec { iov_base: to.as_mut_ptr().cast(), iov_len: to.len() };
    let remote = libc::iovec { iov_base: address.wrapping_add(base()) as *mut libc::c_void, iov_len: to.len() };
    // SAFETY: the kernel checks the remote side and writes no more than `to` holds.
    let done = unsafe { libc::process_vm_readv(libc::getpid(), &local, 1, &remote, 1, 0) };
    usize::try_from(done).unwrap_or(0)
}

/// A word of memory.
pub fn word(address: u64) -> Option<u64> {
    let mut bytes = [0; 8];
    (read(address, &mut bytes) == 8).then(|| u64::from_le_bytes(bytes))
}

/// A string that a zero byte ends, up to `limit` bytes.
pub fn string(mut address: u64, limit: usize) -> Option<OsString> {
    let mut all = Vec::new();
    while all.len() < limit {
        // Never across a page boundary: the next page may not exist.
        let mut part = [0; 4096];
        let room = 4096 - (address as usize & 4095);
        let got = read(address, &mut part[..room]);
        if got == 0 {
            return None;
        }
        if let Some(end) = part[..got].iter().position(|&byte| byte == 0) {
            all.extend(&part[..end]);
            return Some(OsString::from_vec(all));
        }
        all.extend(&part[..got]);
        address += got as u64;
    }
    None
}

/// A list of strings that a null pointer ends; a null `address` is an empty list, as Linux has it.
pub fn strings(address: u64) -> Option<Vec<OsString>> {
    let mut all = Vec::new();
    if address == 0 {
        return Some(all);
    }
    // MAX_ARG_STRLEN of Linux.
    const LIMIT: usize = 1 << 17;
    loop {
        match word(address + 8 * all.len() as u64)? {
            0 => return Some(all),
            pointer => all.push(string(pointer, LIMIT)?),
        }
    }
}
