//! Where captured programs find their memory, and how capture fares in containers: as on this kernel without the emulator.

use crate::common::{can_capture, compile, folder, path, reach, stderr};
use std::path::Path;
use std::process::{Command, Output};

/// The distance between addresses of a captured program and native ones without randomisation.
const LOWER: u64 = 16 << 40;

const RUN: [&str; 10] =
    ["run", "-q", "--timing", "counts", "-m", "skylake-e3-1240v5", "-s", "linux-thp", "--format", "csv"];

/// Prints the addresses of mappings of many kinds, and how far the heap grows.
const MAPPINGS: &str = r#"
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>
static char *map(long bytes, int flags, int fd) {
    char *at = mmap(0, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
    printf("at %p\n", (void *)at);
    return at;
}
int main(void) {
    int private = MAP_PRIVATE | MAP_ANONYMOUS, memory = memfd_create("m", 0);
    char *heap = sbrk(0);
    printf("heap %d\n", sbrk(512l << 20) == heap && sbrk(0) == heap + (512l << 20));
    map(4096, private, -1);
    char *two = map(2 << 20, private, -1);
    map((2 << 20) + 4096, private, -1);
    char *sixteen = map(16 << 20, private, -1);
    if (ftruncate(memory, 4 << 20)) return 1;
    map(4 << 20, MAP_SHARED, memory);
    map(2 << 20, MAP_SHARED | MAP_ANONYMOUS, -1);
    munmap(two, 2 << 20);
    map(1 << 20, private, -1);
    map(4 << 20, private, -1);
    /* Shrinks where it is, grows where it is, and moves. */
    printf("at %p\n", mremap(sixteen, 16 << 20, 4 << 20, MREMAP_MAYMOVE));
    printf("at %p\n", mremap(sixteen, 4 << 20, 8 << 20, MREMAP_MAYMOVE));
    printf("at %p\n", mremap(sixteen, 8 << 20, 32 << 20, MREMAP_MAYMOVE));
    printf("at %p\n", mmap((char *)0x123456789000, 8192, PROT_READ, private, -1, 0));
    return 0;
}
"#;

/// Runs `reach` on a captured program.
fn captured(command: &[&str]) -> Output {
    let output = reach(&[&RUN[..], &["-o", "/dev/null", "--force", "--"], command].concat()).output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", stderr(&output));
    output
}

/// Returns the value of a metric of all processes in the rows of a captured program.
fn count(program: &Path, metric: &str) -> u64 {
    let folder = folder();
    let rows = path(&folder, "rows.csv");
    let output = reach(&[&RUN[..], &["-o", &rows, "--", program.to_str().unwrap()]].concat()).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let rows = std::fs::read_to_string(rows).unwrap();
    let row = rows.lines().find(|row| row.contains(&format!(",all,{metric},"))).unwrap_or_else(|| panic!("{rows}"));
    row.rsplit(',').next().unwrap().parse().unwrap()
}

/// Returns the output of a program that runs natively, without randomised addresses.
fn native(program: &str) -> Option<String> {
    let output = Command::new("setarch").args(["-R", program]).output().ok().filter(|output| output.status.success());
    if output.is_none() {
        eprintln!("skipped: setarch -R does not work here");
    }
    Some(String::from_utf8(output?.stdout).unwrap())
}

fn kernel_is_at_least(major: u32, minor: u32) -> bool {
    let text = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = text.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if version < (major, minor) {
        eprintln!("skipped: Linux {major}.{minor} changed the rule; this is {}", text.trim());
    }
    version >= (major, minor)
}

#[test]
fn mappings_are_where_linux_puts_them() {
    let folder = folder();
    if !can_capture() || !kernel_is_at_least(6, 13) {
        return;
    }
    // Without libraries: the dynamic linker's own mappings depend on the processor's features.
    let Some(program) = compile(&folder, "mappings", MAPPINGS, &["-static", "-no-pie"]) else { return };
    let program = program.to_str().unwrap();
    let Some(native) = native(program) else { return };
    let output = captured(&[program]);
    let captured = String::from_utf8(output.stdout).unwrap();
    assert_eq!(native.lines().count(), captured.lines().count(), "{captured}");
    let address = |line: &str| line.strip_prefix("at 0x").map(|hex| u64::from_str_radix(hex, 16).unwrap());
    for (native, captured) in native.lines().zip(captured.lines()) {
        match (address(native), address(captured)) {
            // The program named this address itself.
            (Some(native), Some(captured)) if native == 0x1234_5678_9000 => assert_eq!(captured, native),
            (Some(native), Some(captured)) => assert_eq!(captured + LOWER, native, "{captured:#x} {native:#x}"),
            _ => assert_eq!(captured, native),
        }
    }
}

#[test]
fn random_addresses_follow_from_the_seed() {
    let source = r#"
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
int main(void) {
    int local;
    void *mapping = mmap(0, 2 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    printf("%p %p %p %p\n", (void *)main, malloc(1), mapping, (void *)&local);
    return 0;
}
"#;
    let folder = folder();
    if !can_capture() {
        return;
    }
    let Some(program) = compile(&folder, "random", source, &[]) else { return };
    let run = |seed: &[&str]| {
        let args = [&RUN[..], seed, &["-o", "/dev/null", "--force", "--", program.to_str().unwrap()]].concat();
        let output = reach(&args).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        let text = String::from_utf8(output.stdout).unwrap();
        text.split_whitespace().map(|word| u64::from_str_radix(&word[2..], 16).unwrap()).collect::<Vec<u64>>()
    };
    let [fixed, one, two] = [&[][..], &["--aslr", "1"], &["--aslr", "2"]].map(|seed| {
        assert_eq!(run(seed), run(seed), "equal seeds give equal addresses");
        run(seed)
    });
    for (a, b) in [(&fixed, &one), (&one, &two)] {
        assert!(a.iter().zip(b).all(|(a, b)| a >> 12 != b >> 12), "{a:x?} {b:x?}");
    }
    assert_eq!(one[2] % (2 << 20), 0, "mappings of 2 MB are aligned at random addresses too");
}

#[test]
fn huge_pages_without_a_pool_fail_with_the_kernels_error() {
    let source = r#"
#include <stdio.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
int main(void) {
    for (int shift = 21; shift <= 30; shift += 9) {
        char *at = mmap(0, 3l << 30, 3, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | shift << 26, -1, 0);
        printf("%s\n", at == MAP_FAILED ? strerror(errno) : "mapped");
        if (at != MAP_FAILED) munmap(at, 3l << 30);
    }
    return 0;
}
"#;
    let folder = folder();
    if can_capture()
        && let Some(program) = compile(&folder, "pool", source, &[])
        && let Some(native) = native(program.to_str().unwrap())
    {
        let output = captured(&[program.to_str().unwrap()]);
        assert_eq!(String::from_utf8_lossy(&output.stdout), native);
    }
}

#[test]
fn files_in_memory_are_shared_memory_and_files_on_disks_are_not() {
    let source = |open: &str| {
        format!(
            r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
int main(void) {{
    long bytes = 4 << 20;
    int fd = {open};
    if (fd < 0 || ftruncate(fd, bytes)) return 1;
    volatile char *at = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    long sum = 0;
    for (long i = 0; i < bytes; i += 4096) sum += at[i];
    for (long i = 0; i < bytes; i += 4096) at[i] = sum + 1;
    return 0;
}}
"#
        )
    };
    let folder = folder();
    if !can_capture() {
        return;
    }
    let disk = format!(r#"open("{}", O_RDWR | O_CREAT, 0600)"#, path(&folder, "file"));
    for (name, open, notified) in [("memory", r#"memfd_create("m", 0)"#, 0), ("disk", &disk, 1024)] {
        let Some(program) = compile(&folder, name, &source(open), &[]) else { return };
        assert_eq!(count(&program, "page_faults.write_notify"), notified, "{name}");
    }
}

/// Runs a shell command line as root in namespaces of its own; `None` where that is not possible.
fn in_namespaces(options: &[&str], script: &str) -> Option<Output> {
    let probe = Command::new("unshare").args(options).arg("true").output();
    if !probe.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: unshare {options:?} does not work here");
        return None;
    }
    Some(Command::new("unshare").args(options).args(["sh", "-c", script]).output().unwrap())
}

/// Returns a shell command line that captures a program and writes the rows to standard output.
fn capture_line() -> String {
    format!("{} {} -- /bin/true", env!("CARGO_BIN_EXE_reach"), RUN.join(" "))
}

#[test]
fn capture_works_in_user_and_pid_namespaces() {
    if !can_capture() {
        return;
    }
    for options in
        [&["--user", "--map-root-user"][..], &["--user", "--map-root-user", "--pid", "--fork", "--mount-proc"]]
    {
        let Some(output) = in_namespaces(options, &capture_line()) else { continue };
        let rows = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && rows.contains(",page_faults,"), "{options:?}: {}", stderr(&output));
        assert!(!rows.contains(",all,page_faults,count,0\n"), "{rows}");
    }
}

#[test]
fn capture_without_its_proc_says_so_and_what_to_do() {
    if !can_capture() {
        return;
    }
    let cases = [
        (&["--user", "--map-root-user", "--pid", "--fork"][..], capture_line()),
        (&["--user", "--map-root-user", "--mount"], format!("umount -l /proc && {}", capture_line())),
    ];
    for (options, script) in cases {
        let Some(output) = in_namespaces(options, &script) else { continue };
        let message = stderr(&output);
        // Where /proc cannot be unmounted, umount says so.
        if message.contains("umount:") {
            eprintln!("skipped: {message}");
            continue;
        }
        assert_eq!(output.status.code(), Some(1), "{options:?}: {message}");
        assert!(message.contains("capture needs /proc of its own PID namespace: mount it"), "{message}");
        assert_eq!(message.lines().count(), 1, "{message}");
    }
}
