//! Page faults that `base` simulates against those that this kernel counts for the same program natively.
//!
//! The counts differ by some faults in either direction:
//! - The kernel and the emulator place images, libraries and stacks differently, and the kernel from run to run. The
//!   places decide how many fault-around windows of 64 KB a library's touched pages fall into, and how many pages of stack
//!   the arguments fill. Native counts are therefore a range.
//! - Memory that the kernel touches for the program (buffers of system calls, signal frames) counts only if the program
//!   touches it too or the capture reports it.
//! - The emulated processor is not the real one (no AVX before QEMU 8), so the loader may pick other routines of libc.

use crate::common::{experiment, run};
use reach_lab::Timing;
use reach_trace::live::{Live, Options, emulator};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Touches as many pages as its argument says, on base pages whatever this system's THP settings.
const TOUCH: &str = r#"
#include <stdlib.h>
#include <sys/mman.h>
int main(int argc, char **argv) {
    long n = argc > 1 ? atol(argv[1]) : 0;
    char *area = mmap(0, n << 12, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (area == MAP_FAILED || madvise(area, n << 12, MADV_NOHUGEPAGE)) return 2;
    for (long i = 0; i < n; i++) area[i << 12] = 1;
    return 0;
}
"#;

/// Runs its arguments and prints the faults of that child. One child per process, so that no other faults are counted.
const METER: &str = r#"
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int argc, char **argv) {
    int status;
    pid_t child = vfork();
    if (child == 0) { execv(argv[1], argv + 1); _exit(127); }
    struct rusage usage;
    if (wait4(child, &status, 0, &usage) != child || status) return 1;
    dprintf(2, "%ld %ld\n", usage.ru_minflt, usage.ru_majflt);
    return 0;
}
"#;

fn compile(name: &str, source: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("faults");
    std::fs::create_dir_all(&folder).unwrap();
    let (text, program) = (folder.join(format!("{name}.c")), folder.join(name));
    std::fs::write(&text, source).unwrap();
    assert!(Command::new("cc").args(["-O1", "-o"]).arg(&program).arg(&text).status().unwrap().success());
    program
}

/// Returns whether programs can be compiled and captured here, and prints why not.
fn can_capture() -> bool {
    let missing = match (emulator(None), Command::new("cc").arg("--version").output()) {
        (Err(why), _) => why.to_string(),
        (_, Err(why)) => format!("no C compiler: {why}"),
        _ => return true,
    };
    eprintln!("skipped: {missing}");
    false
}

/// Returns native faults of several runs in ascending order.
fn native(meter: &Path, program: &Path, args: &[&str]) -> Vec<u64> {
    let mut counts: Vec<u64> = (0..21)
        .map(|_| {
            let output = Command::new(meter).arg(program).args(args).stdout(Stdio::null()).output().unwrap();
            assert!(output.status.success(), "{}", program.display());
            let text = String::from_utf8(output.stderr).unwrap();
            text.split_whitespace().map(|word| word.parse::<u64>().unwrap()).sum()
        })
        .collect();
    counts.sort_unstable();
    counts
}

/// Captures a program whose output goes to /dev/null, as natively. A capture inherits standard output, so this swaps that of
/// the process: no other test may run in it.
fn launch(program: &Path, args: &[&str]) -> Live {
    let args = args.iter().map(OsString::from).collect();
    let options = Options { program: program.into(), args, ..Options::default() };
    let stdout = rustix::io::dup(rustix::stdio::stdout()).unwrap();
    let nowhere = std::fs::File::options().write(true).open("/dev/null").unwrap();
    rustix::stdio::dup2_stdout(&nowhere).unwrap();
    let live = Live::launch(options);
    rustix::stdio::dup2_stdout(&stdout).unwrap();
    live.unwrap()
}

fn simulated(program: &Path, args: &[&str]) -> u64 {
    let mut live = launch(program, args);
    let report = run(&experiment(&["skylake-e3-1240v5"], &["base"], Timing::Counts), &mut live);
    assert!(live.wait().unwrap().success());
    report.outcomes[0].os.page_faults
}

#[test]
fn simulated_faults_match_this_kernel() {
    if !can_capture() {
        return;
    }
    let (meter, touch) = (compile("meter", METER), compile("touch", TOUCH));
    let programs: [(&Path, &[&str]); 3] =
        [(&touch, &["1000"]), (&touch, &["20000"]), (Path::new("/bin/ls"), &["/usr/lib"])];
    for (program, args) in programs {
        let (native, simulated) = (native(&meter, program, args), simulated(program, args));
        let (least, median, most) = (native[0], native[native.len() / 2], native[native.len() - 1]);
        let what = format!("{} {}", program.display(), args.join(" "));
        println!("{what}: {simulated} faults simulated, {median} native, from {least} to {most}");
        // 2 % beyond the range of native runs, and at least two faults.
        let tolerance = (median / 50).max(2);
        assert!((least - tolerance..=most + tolerance).contains(&simulated), "{what}: {simulated} for {native:?}");
    }
}
