//! `reach where` on code that programs compile while they run: who writes a map of it gets names.

use crate::common::{can_capture, compile, folder, path, stdout};
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

/// The name of a file into which a program writes the path of its map, or its process identifier. The map is removed at the end.
struct Note(String);

impl Note {
    fn map(&self) -> PathBuf {
        let text = std::fs::read_to_string(&self.0).unwrap_or_default();
        if text.starts_with('/') { text.into() } else { format!("/tmp/perf-{text}.map").into() }
    }
}

impl Drop for Note {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(self.map());
    }
}

/// A program that writes a map.
struct Compiler {
    note: Note,
    folder: TempDir,
    program: PathBuf,
}

impl Compiler {
    /// Returns `None`, and prints the reason, where it cannot be captured or compiled.
    fn new() -> Option<Compiler> {
        let folder = folder();
        let program = can_capture().then(|| compile(&folder, "compiler", COMPILER, &[]))??;
        Some(Compiler { note: Note(path(&folder, "note")), folder, program })
    }

    /// Returns the command line, with these arguments for the program.
    fn command<'a>(&'a self, more: &[&'a str]) -> Vec<&'a str> {
        [&["--", self.program.to_str().unwrap(), &self.note.0], more].concat()
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
    assert_eq!(first(&rows("function", &compiler.command(&[])), "function"), "JS:*reads /a.js:1:20");
    std::fs::remove_file(compiler.note.map()).unwrap();
    let trace = path(&compiler.folder, "compiler.reach");
    stdout(&[&["record", "-q", "-o", &trace], compiler.command(&[]).as_slice()].concat());
    let function = || first(&rows("function", &["-t", &trace]), "function");
    assert_eq!(function(), "JS:*reads /a.js:1:20");
    // A map of a process before or after the recording is another's.
    let (map, written) = (compiler.note.map(), compiler.note.map().metadata().unwrap().modified().unwrap());
    for other in [written - Duration::from_secs(3600), written + Duration::from_secs(3600)] {
        set_time(&map, other);
        assert!(function().starts_with("(no symbol) in [anonymous"), "{}", function());
    }
    set_time(&map, written);
    assert_eq!(function(), "JS:*reads /a.js:1:20");
    std::fs::remove_file(&map).unwrap();
    assert!(function().starts_with("(no symbol) in [anonymous"), "{}", function());
}

/// Returns a Python that offers its functions to perf, which 3.12 and later do; `None`, with a message, if there is none.
fn python() -> Option<String> {
    let home = std::env::var("HOME").unwrap_or_default();
    let installed = std::fs::read_dir(format!("{home}/.pyenv/versions")).into_iter().flatten().flatten();
    let installed = installed.map(|version| version.path().join("bin/python3").display().to_string());
    let named = ["python3", "python3.14", "python3.13", "python3.12"].map(str::to_owned);
    // What is in PATH may be a script that starts the interpreter.
    let executable = "import sys, sysconfig
if sysconfig.get_config_var('PY_HAVE_PERF_TRAMPOLINE'): sys.stdout.write(sys.executable)";
    let find = |name: String| {
        let output = std::process::Command::new(name).args(["-I", "-c", executable]).output().ok()?;
        String::from_utf8(output.stdout).ok().filter(|path| !path.is_empty())
    };
    let found = named.into_iter().chain(installed).find_map(find);
    if found.is_none() {
        eprintln!("skipped: no Python 3.12 or later that offers its functions to perf");
    }
    found
}

/// Looks up 60,000 keys in the order of a generator whose period is all of the 200,000 keys.
const DICTIONARY: &str = "\
import os, sys
def fill(n):
    return {key: key for key in range(n)}
def look_up(table, n):
    key = total = 0
    for _ in range(n):
        key = (key * 1103515241 + 12347) % 200000
        total += table[key]
    return total
look_up(fill(200000), 60000)
open(sys.argv[1], 'w').write(str(os.getpid()))
";

#[test]
fn the_python_function_that_looks_up_random_keys_of_a_dictionary_is_first() {
    let Some(python) = can_capture().then(python).flatten() else { return };
    let folder = folder();
    let script = path(&folder, "dictionary.py");
    std::fs::write(&script, DICTIONARY).unwrap();
    let note = Note(path(&folder, "note"));
    let program = ["--", &python, "-I", "-S", "-X", "perf", &script, &note.0];
    let rows = rows("script", &[["--timing", "inorder"].as_slice(), &program].concat());
    assert_eq!(first(&rows, "script"), format!("py::look_up:{script}"));
    assert!(rows.iter().any(|row| row["owner"] == format!("py::fill:{script}").as_str()));
}

/// Reads an array of 16 MB in the order of a generator of pseudorandom numbers.
const ARRAY: &str = "\
function randomReads(array, n) {
    let sum = 0, at = 1;
    for (let i = 0; i < n; i++) {
        at = (Math.imul(at, 1664525) + 1013904223) >>> 0;
        sum += array[at & 2097151];
    }
    return sum;
}
randomReads(new Float64Array(1 << 21), 6e5);
require('fs').writeFileSync(process.argv[2], String(process.pid));
";

#[test]
fn the_function_of_node_that_reads_an_array_at_random_is_first() {
    if !can_capture() {
        return;
    }
    if let Err(why) = std::process::Command::new("node").arg("--version").output() {
        return eprintln!("skipped: no node: {why}");
    }
    let folder = folder();
    let script = path(&folder, "array.js");
    std::fs::write(&script, ARRAY).unwrap();
    let note = Note(path(&folder, "note"));
    // Node would write a log into the present folder.
    let log = format!("--logfile={}", path(&folder, "log"));
    let node = ["node", "--perf-basic-prof", "--no-logfile-per-isolate", &log, &script, &note.0];
    let rows = rows("function", &[["--timing", "counts", "--"].as_slice(), &node].concat());
    // A letter or sign says which of node's compilers has made it.
    let function = first(&rows, "function");
    assert!(function.starts_with("JS:") && function.ends_with(&format!("randomReads {script}:1:21")), "{function}");
}

#[test]
fn scripts_have_what_is_done_on_their_behalf_and_sum_to_the_total() {
    let Some(compiler) = Compiler::new() else { return };
    for timing in ["ooo", "counts"] {
        let program = [["--timing", timing].as_slice(), &compiler.command(&["scripts"])].concat();
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
        std::fs::remove_file(compiler.note.map()).unwrap();
    }
}

#[test]
fn programs_without_a_script_have_no_list_of_scripts_unless_it_is_asked_for() {
    let program = ["-q", "-m", "zen4", "--timing", "counts", "-p", "gups:bytes=1M,updates=100"];
    assert!(!stdout(&[&["where"], &program[..]].concat()).contains("script"));
    assert!(stdout(&[&["where", "--by", "script"], &program[..]].concat()).contains("(no script)"));
}
