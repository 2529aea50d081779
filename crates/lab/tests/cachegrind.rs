//! The caches against an independent simulator: valgrind's cachegrind, on the same program and geometry.
//!
//! Valgrind's lackey writes the references of a small static C program; `reach_hardware::Caches` takes that through
//! Reach's reader, virtual addresses as physical ones, as cachegrind does. The environment is empty, so that the stack
//! begins at the same place under both tools.
//!
//! The two count some things differently. The test accounts for all of these, and the rest is equal to the last miss:
//! - The reader joins instructions into blocks. Here each line of a block is one access, there each instruction is one;
//!   between two instructions on one line nothing else enters the instruction cache.
//! - A read-modify-write (lackey's `M`) is a load and a store here and one read there. The store follows its load at
//!   once and hits: references are more by the number of `M` lines, misses are not.
//! - Cachegrind counts one miss when both lines of a reference miss. Among fetches this concerns instructions that begin
//!   a block; within a block the earlier line was fetched before.
//! - A block's fetches come before all of its data, so the unified last level sees another order within a few
//!   instructions. Here it is large enough to evict nothing, so order does not matter.
//! - Cachegrind has no write-backs: every data access here is a load, so that no line is ever dirty.

use reach_core::{Chunk, Kind, Layout, PageShift, PhysAddr};
use reach_hardware::config::{Cache, Core, Machine, Replacement, Walker, Writes};
use reach_hardware::{Access, Caches};
use reach_trace::Source;
use reach_trace::foreign::Lackey;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::Command;

const LINE: u64 = 64;

/// Sorts, chases and updates a table larger than the first-level cache.
const PROGRAM: &str = r#"
#include <stdlib.h>
#include <string.h>
static unsigned table[1 << 15];
static unsigned char text[2000];
static int order(const void *a, const void *b) { return *(const unsigned char *)a - *(const unsigned char *)b; }
int main(void) {
    unsigned x = 1;
    for (int i = 0; i < 20000; i++) { x = x * 1664525u + 1013904223u; table[x >> 17]++; }
    for (int i = 0; i < 2000; i++) text[i] = table[i * 6] * 31 + i;
    qsort(text, sizeof text, 1, order);
    char *copy = malloc(100003);
    for (int i = 0; i < 5; i++) memmove(copy + i, copy + 3 * i + 1, 90000 + i);
    return text[17] == copy[5];
}
"#;

fn folder() -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("cachegrind");
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// Returns whether `tool` is installed, and prints if it is not.
fn is_installed(tool: &str) -> bool {
    let found = Command::new(tool).arg("--version").output().is_ok_and(|output| output.status.success());
    if !found {
        eprintln!("skipped: no {tool}");
    }
    found
}

fn valgrind(tool: &str, options: &[&str], out: &str, program: &Path) {
    let mut command = Command::new("valgrind");
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    let output = command.arg(format!("--tool={tool}")).args(options).arg(out).arg(program).output().unwrap();
    assert!(output.status.code().is_some_and(|code| code < 2), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Returns totals by the names of cachegrind's `events:` line. Checks the geometry that it used.
fn cachegrind(program: &Path) -> impl Fn(&str) -> u64 {
    let out = folder().join("cachegrind.out");
    let options = ["--cache-sim=yes", "--I1=32768,8,64", "--D1=32768,8,64", "--LL=8388608,16,64"];
    valgrind("cachegrind", &options, &format!("--cachegrind-out-file={}", out.display()), program);
    let text = std::fs::read_to_string(out).unwrap();
    for geometry in
        ["I1 cache:         32768 B, 64 B, 8-way", "D1 cache:         32768 B", "LL cache:         8388608 B"]
    {
        assert!(text.contains(geometry), "cachegrind did not take {geometry}");
    }
    let line = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)).unwrap().split_whitespace();
    let names: Vec<String> = line("events:").map(str::to_owned).collect();
    let values: Vec<u64> = line("summary:").map(|value| value.parse().unwrap()).collect();
    move |name| values[names.iter().position(|n| n == name).unwrap()]
}

fn caches() -> Caches {
    let cache = |name: &str, level, instructions, data, bytes, ways| Cache {
        name: name.into(),
        level,
        instructions,
        data,
        bytes,
        ways,
        line: LINE as u32,
        latency: 1,
        writes: Writes::Back,
        replacement: Replacement::Lru,
        shared: false,
        others: 0,
    };
    let machine = Machine {
        layout: Layout::x86_64(),
        sizes: vec![PageShift(12)],
        tlbs: Vec::new(),
        walker: Walker::Hardware { walkers: 1, lookup: 0, cache_level: 1, caches: Vec::new() },
        nested: None,
        caches: vec![
            cache("i1", 1, true, false, 32 << 10, 8),
            cache("d1", 1, false, true, 32 << 10, 8),
            cache("ll", 2, true, true, 8 << 20, 16),
        ],
        memory: 100,
        core: Core { millicycles_per_instruction: 1000, hertz: 1, walk_access: 1, invalidate: 1, asids: 1 },
    };
    Caches::new(&machine, 0)
}

/// Returns the addresses of instructions that cross a line.
fn straddlers(trace: &str) -> HashSet<u64> {
    let instructions = trace.lines().filter_map(|line| line.strip_prefix("I  ")?.split_once(','));
    let instructions =
        instructions.map(|(at, len)| (u64::from_str_radix(at, 16).unwrap(), len.parse::<u64>().unwrap()));
    instructions.filter(|(at, len)| at / LINE != (at + len - 1) / LINE).map(|(at, _)| at).collect()
}

#[test]
fn misses_equal_those_of_cachegrind() {
    if !is_installed("valgrind") || !is_installed("cc") {
        return;
    }
    let (text, program, trace) = (folder().join("p.c"), folder().join("p"), folder().join("lackey.txt"));
    std::fs::write(&text, PROGRAM).unwrap();
    let compiled = Command::new("cc").args(["-O1", "-static", "-o"]).arg(&program).arg(&text).status().unwrap();
    if !compiled.success() {
        eprintln!("skipped: cc cannot link statically here");
        return;
    }
    let theirs = cachegrind(&program);
    valgrind("lackey", &["--trace-mem=yes"], &format!("--log-file={}", trace.display()), &program);
    let text = std::fs::read_to_string(&trace).unwrap();
    let (modifies, straddlers) = (text.lines().filter(|line| line.starts_with(" M ")).count(), straddlers(&text));

    let mut caches = caches();
    let (mut source, mut chunk) = (Lackey::open(&trace).unwrap(), Chunk::default());
    let (mut instructions, mut data) = (0, 0);
    // References whose two lines both missed the first level, and the last, by fetches and data.
    let mut double = [[0; 2]; 2];
    while source.fill(&mut chunk).unwrap() {
        let mut fetched = chunk.fetched.iter();
        for r in &chunk.refs {
            let fetch = r.kind() == Kind::Fetch;
            let bytes = if fetch {
                let block = source.blocks().get(*fetched.next().unwrap());
                instructions += u64::from(block.instructions);
                u64::from(block.len)
            } else {
                data += 1;
                r.size()
            };
            let (first, last) = (r.addr().0 / LINE, (r.addr().0 + bytes - 1) / LINE);
            let access = if fetch { Access::Fetch } else { Access::Load };
            let mut depths = [0; 2];
            for line in first..=last {
                let (_, depth) = caches.access(access, PhysAddr(line * LINE));
                if let Some(slot) = depths.get_mut((line - first) as usize) {
                    *slot = depth;
                }
            }
            if !fetch || straddlers.contains(&r.addr().0) {
                let [first_level, last_level] = &mut double[usize::from(!fetch)];
                *first_level += u64::from(depths.iter().all(|&depth| depth >= 1));
                *last_level += u64::from(depths.iter().all(|&depth| depth >= 2));
            }
        }
    }
    let counted: Vec<_> = caches.counters().map(|(_, counters)| counters).collect();
    let [i1, d1, ll] = counted[..] else { panic!("three caches") };

    println!("{modifies} modifies; references with two misses: {double:?}");
    let rows = [
        ("I refs", instructions, 0, theirs("Ir")),
        ("D refs", data, modifies as u64, theirs("Dr") + theirs("Dw")),
        ("I1 misses", i1.fetch_misses, double[0][0], theirs("I1mr")),
        ("D1 misses", d1.load_misses, double[1][0], theirs("D1mr") + theirs("D1mw")),
        ("LLi misses", ll.fetch_misses, double[0][1], theirs("ILmr")),
        ("LLd misses", ll.load_misses, double[1][1], theirs("DLmr") + theirs("DLmw")),
    ];
    for (what, ours, apart, theirs) in rows {
        println!("{what}: {ours} here, {apart} of them counted once in cachegrind, which has {theirs}");
    }
    assert!(rows[3].3 > 10_000, "the program misses often");
    for (what, ours, apart, theirs) in rows {
        assert_eq!(ours - apart, theirs, "{what}");
    }
}
