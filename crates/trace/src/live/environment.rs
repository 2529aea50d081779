//! Whether an emulator reverses the environment of the program: QEMU 7.2 does, 10.0.13 does not, and its manual promises neither.

use rustix::fs::{MemfdFlags, memfd_create};
use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::{Command, Stdio, id};

/// Exits with the first byte of the first variable: mov rax, [rsp]; mov rax, [rsp + 8 * rax + 16]; movzx edi, byte [rax];
/// mov eax, 60 (exit); syscall.
const CODE: [u8; 19] =
    [0x48, 0x8b, 0x04, 0x24, 0x48, 0x8b, 0x44, 0xc4, 0x10, 0x0f, 0xb6, 0x38, 0xb8, 60, 0, 0, 0, 0x0f, 0x05];

/// Bytes of the ELF header and of the one program header.
const HEADERS: usize = 64 + 56;

/// Bytes of the program's file.
const LENGTH: usize = HEADERS + CODE.len();

/// An x86-64 program in ELF: [`CODE`] after its headers.
const PROGRAM: [u8; LENGTH] = {
    const ADDRESS: u64 = 0x40_0000;
    let (address, entry) = (ADDRESS.to_le_bytes(), (ADDRESS + HEADERS as u64).to_le_bytes());
    let length = LENGTH.to_le_bytes();
    let mut image = [0; LENGTH];
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
    image = put(image, 96, &length);
    image = put(image, 104, &length);
    image = put(image, 112, &[0, 0x10]);
    put(image, HEADERS, &CODE)
};

/// Returns `image` with `bytes` at offset `at`.
const fn put(mut image: [u8; LENGTH], at: usize, bytes: &[u8]) -> [u8; LENGTH] {
    let mut i = 0;
    while i < bytes.len() {
        image[at + i] = bytes[i];
        i += 1;
    }
    image
}

/// Returns whether `emulator` passes its environment on in reverse order; found by running a small program. Where that
/// cannot be done, the order is taken to be kept.
pub(super) fn is_reversed(emulator: &Path) -> bool {
    let run = || {
        // The emulator wants an executable file; old kernels do not know the flag, and make one without it.
        let create = |flags| memfd_create("environment", MemfdFlags::CLOEXEC | flags);
        let file = create(MemfdFlags::EXEC).or_else(|_| create(MemfdFlags::empty()))?;
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
    use std::os::unix::fs::PermissionsExt;
    use std::{fs, io};

    #[test]
    fn the_program_sees_the_first_variable() {
        let path = std::env::temp_dir().join(format!("reach-environment-{}", id()));
        fs::write(&path, PROGRAM).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        let mut run = || Command::new(&path).env_clear().env("A", "").env("B", "").status();
        // Another test may have forked while the file was open for writing.
        let busy =
            |status: &io::Result<_>| matches!(status, Err(why) if why.kind() == io::ErrorKind::ExecutableFileBusy);
        let status = std::iter::repeat_with(&mut run).find(|status| !busy(status)).unwrap();
        fs::remove_file(&path).unwrap();
        // The kernel keeps the order.
        assert_eq!(status.unwrap().code(), Some(i32::from(b'A')));
        assert!(!is_reversed(Path::new("/nowhere/emulator")));
    }
}
