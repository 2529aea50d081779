//! Whether an emulator reverses the environment of the program: QEMU 7.2 does, 10.0.13 does not, and its manual promises neither.

use rustix::fs::{MemfdFlags, memfd_create};
use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::{Command, Stdio, id};

/// An x86-64 program that exits with the first byte of its first variable.
const PROGRAM: [u8; 144] = {
    const ENTRY: u64 = ADDRESS + 120;
    const ADDRESS: u64 = 0x40_0000;
    let (address, entry, length) = (ADDRESS.to_le_bytes(), ENTRY.to_le_bytes(), 144u8);
    let mut image = [0; 144];
    // The header: 64 bits, little-endian; an executable for x86-64; one program header, after this one.
    let elf = [0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 62, 0, 1, 0, 0, 0];
    image = put(image, 0, &elf);
    image = put(image, 24, &entry);
    image = put(image, 32, &[64]);
    image = put(image, 52, &[64, 0, 56, 0, 1, 0]);
    // The program header: load the whole file, readable and executable, aligned to a page.
    image = put(image, 64, &[1, 0, 0, 0, 5]);
    image = put(image, 80, &address);
    image = put(image, 88, &address);
    image = put(image, 96, &[length]);
    image = put(image, 104, &[length]);
    image = put(image, 112, &[0, 0x10]);
    // mov rax, [rsp]; mov rax, [rsp + 8 * rax + 16]; movzx edi, byte [rax]; mov eax, 60 (exit); syscall
    let code = [0x48, 0x8b, 0x04, 0x24, 0x48, 0x8b, 0x44, 0xc4, 0x10, 0x0f, 0xb6, 0x38, 0xb8, 60, 0, 0, 0, 0x0f, 0x05];
    put(image, 120, &code)
};

/// Returns `image` with `bytes` at offset `at`.
const fn put(mut image: [u8; 144], at: usize, bytes: &[u8]) -> [u8; 144] {
    let mut i = 0;
    while i < bytes.len() {
        image[at + i] = bytes[i];
        i += 1;
    }
    image
}

/// Returns whether `emulator` passes its environment on in reverse order; found by running a program of 19 bytes. Where that
/// fails, capture of any other program fails as well, and says why.
pub(super) fn is_reversed(emulator: &Path) -> bool {
    let run = || {
        let file = memfd_create("environment", MemfdFlags::EXEC)
            .or_else(|_| memfd_create("environment", MemfdFlags::empty()))?;
        let mut file = File::from(file);
        file.write_all(&PROGRAM)?;
        let path = format!("/proc/{}/fd/{}", id(), file.as_raw_fd());
        let mut command = Command::new(emulator);
        command.arg(path).env_clear().env("A", "").env("B", "");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status()
    };
    run().is_ok_and(|status| status.code() == Some(i32::from(b'B')))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_program_sees_the_first_variable() {
        let path = std::env::temp_dir().join(format!("reach-environment-{}", id()));
        fs::write(&path, PROGRAM).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        let status = Command::new(&path).env_clear().env("A", "").env("B", "").status();
        fs::remove_file(&path).unwrap();
        // The kernel keeps the order.
        assert_eq!(status.unwrap().code(), Some(i32::from(b'A')));
        assert!(!is_reversed(Path::new("/nowhere/emulator")));
    }
}
