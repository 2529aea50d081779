//! `reach where` on code that programs compile while they run: who writes a map of it gets names.

#[allow(dead_code)]
mod common;

use common::{can_capture, compile, folder, path, stdout};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use tempfile::TempDir;

/// Copies code into anonymous memory, writes a map of it for perf, and runs it. `reads` loads from a page after the other. The other
/// two pieces are Python's trampoline, which calls the function that it gets: `outer` reads 2000 pages before it calls `inner`, which
/// reads 10,000, and 1000 behind.
const COMPILER: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
typedef long work(const char *at, long pages, long next);
static const unsigned char reads[] = {0x31, 0xc0, 0x48, 0x03, 0x07, 0x48, 0x81, 0xc7, 0x40, 0x10, 0, 0, 0x48, 0xff, 0xce, 0x75, 0xf1, 0xc3};
static const unsigned char trampoline[] = {0x48, 0x83, 0xec, 8, 0xff, 0xd1, 0x48, 0x83, 0xc4, 8, 0xc3};
static char *memory, *code;
static long call(int which, const char *at, long pages, work *callee) {
    return ((long (*)(const char *, long, long, work *))(code + 64 * which))(at, pages, 0, callee);
}
__attribute__((noinline)) static long touch(const char *at, long pages, long next) {
    long sum = 0;
    for (long i = 0; i < pages; i++) sum += *(volatile long *)(at + i * 0x1040);
    return sum;
}
static long outer(const char *at, long pages, long next) {
    long sum = touch(at, 2 * pages, 0) + call(2, at, 10 * pages, touch);
    return sum + touch(at + 0x1040 * 20000, pages, 0);
}
int main(int argc, char **argv) {
    char map[64];
    snprintf(map, sizeof map, "/tmp/perf-%d.map", getpid());
    code = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(code, reads, sizeof reads);
    for (int i = 1; i <= 2; i++) memcpy(code + 64 * i, trampoline, sizeof trampoline);
    memory = calloc(40000, 0x1040);
    FILE *file = fopen(map, "w");
    fprintf(file, "%lx 40 old\n%lx 20 JS:*reads /a.js:1:20\n", (long)code, (long)code);
    fprintf(file, "%lx b py::outer:/a.py\n%lx b py::inner:/a.py\n", (long)code + 64, (long)code + 128);
    fclose(file);
    file = fopen(argv[1], "w");
    fprintf(file, "%s", map);
    fclose(file);
    long sum = argc > 2 ? call(1, memory, 1000, outer) : ((work *)code)(memory, 30000, 0);
    return sum == 1;
}
"#;

/// A program that writes a map, and the file that will hold the map's path. The map is removed at the end.
struct Compiler {
    folder: TempDir,
    program: PathBuf,
}

impl Compiler {
    /// Returns `None`, and prints the reason, where it cannot be captured or compiled.
    fn new() -> Option<Compiler> {
        let folder = folder();
        let program = can_capture().then(|| compile(&folder, "compiler", COMPILER, &[]))??;
        Some(Compiler { folder, program })
    }

    /// Returns the command line, with these arguments for the program.
    fn command<'a>(&'a self, note: &'a str, more: &[&'a str]) -> Vec<&'a str> {
        [&["--", self.program.to_str().unwrap(), note], more].concat()
    }

    fn note(&self) -> String {
        path(&self.folder, "note")
    }

    /// Returns the path of the map that the program wrote last.
    fn map(&self) -> PathBuf {
        std::fs::read_to_string(self.note()).unwrap().into()
    }
}

impl Drop for Compiler {
    fn drop(&mut self) {
        if let Ok(map) = std::fs::read_to_string(self.note()) {
            let _ = std::fs::remove_file(map);
        }
    }
}

/// Returns the rows of the lists `by` of a program.
fn rows(by: &str, program: &[&str]) -> Vec<Value> {
    let text = stdout(&[&["where", "-q", "-m", "zen4", "-f", "jsonl", "--by", by], program].concat());
    let rows = text.lines().filter(|line| !line.is_empty()).map(|line| serde_json::from_str::<Value>(line).unwrap());
    rows.filter(|row| row.get("by").is_some()).collect()
}

/// Returns the first owner of a list.
fn first(rows: &[Value], by: &str) -> String {
    rows.iter().find(|row| row["by"] == by).unwrap()["owner"].as_str().unwrap().to_owned()
}

fn set_time(path: &Path, time: SystemTime) {
    std::fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
}

#[test]
fn code_that_is_compiled_at_run_time_has_the_names_of_its_map_live_and_recorded() {
    let Some(compiler) = Compiler::new() else { return };
    let note = compiler.note();
    assert_eq!(first(&rows("function", &compiler.command(&note, &[])), "function"), "JS:*reads /a.js:1:20");
    std::fs::remove_file(compiler.map()).unwrap();
    let trace = path(&compiler.folder, "compiler.reach");
    stdout(&[&["record", "-q", "-o", &trace], compiler.command(&note, &[]).as_slice()].concat());
    let function = || first(&rows("function", &["-t", &trace]), "function");
    assert_eq!(function(), "JS:*reads /a.js:1:20");
    // A map of a process before or after the recording is another's.
    let (map, written) = (compiler.map(), compiler.map().metadata().unwrap().modified().unwrap());
    for other in [written - Duration::from_secs(3600), written + Duration::from_secs(3600)] {
        set_time(&map, other);
        assert!(function().starts_with("(no symbol) in [anonymous"), "{}", function());
    }
    set_time(&map, written);
    assert_eq!(function(), "JS:*reads /a.js:1:20");
    std::fs::remove_file(&map).unwrap();
    assert!(function().starts_with("(no symbol) in [anonymous"), "{}", function());
}

#[test]
fn scripts_have_what_is_done_on_their_behalf_and_sum_to_the_total() {
    let Some(compiler) = Compiler::new() else { return };
    let note = compiler.note();
    for timing in ["ooo", "counts"] {
        let program = [["--timing", timing].as_slice(), &compiler.command(&note, &["scripts"])].concat();
        let rows = rows("script,function", &program);
        let owners: Vec<&str> =
            rows.iter().filter(|row| row["by"] == "script").map(|row| row["owner"].as_str().unwrap()).collect();
        assert_eq!(owners[..2], ["py::inner:/a.py", "py::outer:/a.py"], "{timing}: {owners:?}");
        assert!(owners.contains(&"(no script)"));
        let walks = |owner: &str| {
            let row = rows.iter().find(|row| row["by"] == "script" && row["owner"] == owner);
            row.unwrap()["walks"].as_u64().unwrap()
        };
        let (inner, outer) = (walks("py::inner:/a.py"), walks("py::outer:/a.py"));
        // The first access to a page walks twice, before and after its fault; 2000 pages of `inner` are in the TLB already.
        assert!((15_900..16_500).contains(&inner) && (5900..6500).contains(&outer), "{timing}: {inner} {outer}");
        for metric in ["cycles", "walk_cycles", "walks", "walk_accesses", "l1_tlb_misses"] {
            let sum = |by: &str| -> u64 {
                rows.iter().filter(|row| row["by"] == by).filter_map(|row| row[metric].as_u64()).sum()
            };
            assert_eq!(sum("script"), sum("function"), "{timing} {metric}");
        }
        std::fs::remove_file(compiler.map()).unwrap();
    }
}

#[test]
fn programs_without_a_script_have_no_list_of_scripts_unless_it_is_asked_for() {
    let program = ["-q", "-m", "zen4", "--timing", "counts", "-p", "gups:bytes=1M,updates=100"];
    assert!(!stdout(&[&["where"], &program[..]].concat()).contains("script"));
    assert!(stdout(&[&["where", "--by", "script"], &program[..]].concat()).contains("(no script)"));
}
