//! Reading the program's memory. Addresses come from the program and may be invalid, so the kernel does the reading.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::sync::atomic::{AtomicU64, Ordering};

/// The offset from addresses of the program to those of the emulator.
static BASE: AtomicU64 = AtomicU64::new(0);

/// Sets the emulator's address of the program's address 0.
pub fn set_base(base: u64) {
    BASE.store(base, Ordering::Relaxed);
}

/// Returns the emulator's address of the program's address 0.
pub fn base() -> u64 {
    BASE.load(Ordering::Relaxed)
}

/// Fills `to` from `address`, and returns how many bytes could be read.
fn read(address: u64, to: &mut [u8]) -> usize {
    let local = libc::iovec { iov_base: to.as_mut_ptr().cast(), iov_len: to.len() };
    let remote = libc::iovec { iov_base: address.wrapping_add(base()) as *mut libc::c_void, iov_len: to.len() };
    // SAFETY: the kernel checks the remote addresses, and writes no more than the length of `to`.
    let done = unsafe { libc::process_vm_readv(libc::getpid(), &local, 1, &remote, 1, 0) };
    usize::try_from(done).unwrap_or(0)
}

/// Reads a word of eight bytes; `None` when the address is invalid.
pub fn word(address: u64) -> Option<u64> {
    let mut bytes = [0; 8];
    (read(address, &mut bytes) == 8).then(|| u64::from_le_bytes(bytes))
}

/// Reads a string that ends with a zero byte. `None` when the address is invalid, or the string reaches `limit` bytes.
pub fn string(mut address: u64, limit: usize) -> Option<OsString> {
    let mut all = Vec::new();
    while all.len() < limit {
        // Each read stays within a page, because the next page may not be mapped.
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

/// Reads a list of strings that ends with a null pointer. A null `address` is an empty list, as in Linux. `None` when
/// an address is invalid.
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
