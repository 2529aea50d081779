//! `reach where`: the culprit is first in its list, and all lists sum to what `reach run` counts.

use crate::common;
use crate::common::{can_capture, compile, failure, folder, path, stdout};
use serde_json::Value;
use std::collections::BTreeMap;

/// Transposes a matrix of 1000 × 1000: column by column, line 9 loads a page for each element.
const TRANSPOSITION: &str = "\
#include <stdlib.h>
#include <stdio.h>
#define N 1000
double *matrix(void) {
    return calloc(N * N, sizeof(double));
}
__attribute__((noinline)) void transpose(double *to, const double *from) {
    for (long i = 0; i < N; i++)
        for (long j = 0; j < N; j++) to[i * N + j] = from[j * N + i];
}
int main(void) {
    double *a = matrix(), *b = matrix();
    for (long i = 0; i < N * N; i++) a[i] = i;
    for (int i = 0; i < 2; i++) transpose(b, a);
    return b[5] == 5;
}
";

/// Looks up keys, each of which depends on the value before, in a table of 32 MB with open addressing: line 5 is its probe.
const HASH_TABLE: &str = "\
#include <stdint.h>
#include <stdlib.h>
struct entry { uint64_t key, value; };
__attribute__((noinline)) uint64_t find(struct entry *entries, uint64_t mask, uint64_t key) {
    uint64_t at = (key * 0x9e3779b97f4a7c15u >> 20) & mask; while (entries[at].key > key) at = (at + 1) & mask;
    return entries[at].value;
}
int main(void) {
    uint64_t mask = (1 << 21) - 1, sum = 0;
    struct entry *entries = malloc((mask + 1) * sizeof(struct entry));
    for (uint64_t i = 0; i <= mask; i += 256) entries[i].key = 0;
    for (uint64_t i = 0; i < 200000; i++) sum += find(entries, mask, i + sum);
    return sum == 1;
}
";

/// Runs the verb and returns its rows.
fn rows(args: &[&str], program: &[&str]) -> Vec<Value> {
    let args = [&["where", "-q", "-m", "zen4", "-f", "jsonl"], args, program].concat();
    let text = stdout(&args);
    // The program may have left the terminal in the middle of a line.
    let lines = text.lines().filter(|line| !line.is_empty());
    lines.map(|line| serde_json::from_str::<Value>(line).unwrap()).filter(|row| row.get("by").is_some()).collect()
}

/// Returns the first owner of a list.
fn first<'a>(rows: &'a [Value], by: &str) -> &'a str {
    rows.iter().find(|row| row["by"] == by).unwrap()["owner"].as_str().unwrap()
}

#[test]
fn the_column_loop_of_a_transposition_is_first_with_its_line_and_its_matrix() {
    if !can_capture() {
        return;
    }
    let folder = folder();
    let Some(program) = compile(&folder, "transposition", TRANSPOSITION, &["-g"]) else { return };
    let rows = rows(&[], &["--", program.to_str().unwrap()]);
    assert_eq!(first(&rows, "mapping"), "[anonymous] matrix (transposition.c:5)");
    assert_eq!(first(&rows, "function"), "transpose");
    assert_eq!(first(&rows, "line"), "transposition.c:9");
    let extent = rows.iter().find(|row| row["by"] == "extent").unwrap();
    assert!(extent["owner"].as_str().unwrap().ends_with(" in [anonymous] matrix (transposition.c:5)"), "{extent}");
    assert_eq!(extent["touched_bytes"], 2 << 20);
}

#[test]
fn the_probe_of_a_hash_table_is_first() {
    if !can_capture() {
        return;
    }
    let folder = folder();
    let Some(program) = compile(&folder, "table", HASH_TABLE, &["-g"]) else { return };
    let rows = rows(&["--by", "line,mapping,function"], &["--", program.to_str().unwrap()]);
    assert_eq!(first(&rows, "mapping"), "[anonymous] main (table.c:10)");
    assert_eq!(first(&rows, "function"), "find");
    assert_eq!(first(&rows, "line"), "table.c:5");
    assert!(rows.iter().all(|row| row["by"] != "extent"));
}

#[test]
fn a_file_that_has_changed_since_the_recording_gives_no_names() {
    if !can_capture() {
        return;
    }
    let folder = folder();
    let Some(program) = compile(&folder, "transposition", TRANSPOSITION, &["-g"]) else { return };
    let trace = path(&folder, "transposition.reach");
    stdout(&["record", "-q", "-o", &trace, "--", program.to_str().unwrap()]);
    let arguments = ["where", "-m", "zen4", "--limit", "2M", "--by", "function", "-t", &trace];
    let remarks = || common::stderr(&common::reach(&arguments).output().unwrap());
    assert!(!remarks().contains("has changed"));
    let mut bytes = std::fs::read(&program).unwrap();
    bytes.push(0);
    std::fs::write(&program, bytes).unwrap();
    let remarks = remarks();
    assert!(remarks.contains("transposition has changed since the program ran"), "{remarks}");
    assert!(stdout(&arguments).contains("(no symbol) in transposition (code)"));
}

/// Returns the numbers of a column.
fn numbers(column: &Value) -> Vec<u64> {
    column.as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect()
}

#[test]
fn a_profile_has_one_sample_for_each_stack_with_its_files_and_lines() {
    if !can_capture() {
        return;
    }
    let folder = folder();
    let Some(program) = compile(&folder, "transposition", TRANSPOSITION, &["-g"]) else { return };
    let [file, folded] = ["profile.json", "stacks"].map(|name| path(&folder, name));
    let program = ["--", program.to_str().unwrap()];
    rows(&["--by", "function", "--limit", "8M", "--profile", &file, "--folded", &folded], &program);
    let profile: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    assert_eq!(profile["threads"].as_array().unwrap().len(), 1);
    let thread = &profile["threads"][0];
    assert_eq!(thread["name"], "transposition");
    // All columns of a table have its length, and name rows that exist.
    let tables = [
        ("samples", "stack", "stackTable"),
        ("stackTable", "frame", "frameTable"),
        ("frameTable", "func", "funcTable"),
        ("resourceTable", "name", ""),
        ("funcTable", "name", ""),
    ];
    for (name, column, named) in tables {
        let table = thread[name].as_object().unwrap();
        let length = table["length"].as_u64().unwrap();
        let columns = table.values().filter_map(Value::as_array);
        assert!(columns.into_iter().all(|column| column.len() as u64 == length), "{name}");
        let rows = match named {
            "" => thread["stringArray"].as_array().unwrap().len() as u64,
            named => thread[named]["length"].as_u64().unwrap(),
        };
        assert!(numbers(&table[column]).iter().all(|number| *number < rows), "{name}.{column}");
    }
    // The stack that weighs most is the loop, and all of its frames are found from its sample.
    let (samples, stacks) = (&thread["samples"], &thread["stackTable"]);
    let heaviest = numbers(&samples["weight"]).into_iter().enumerate().max_by_key(|(_, weight)| *weight).unwrap().0;
    let mut frames = Vec::new();
    let mut stack = samples["stack"][heaviest].as_u64();
    while let Some(at) = stack.map(|at| at as usize) {
        let frame = stacks["frame"][at].as_u64().unwrap() as usize;
        let function = thread["frameTable"]["func"][frame].as_u64().unwrap() as usize;
        let text = |column: &str| {
            let string = thread["funcTable"][column][function].as_u64();
            string.map(|string| thread["stringArray"][string as usize].as_str().unwrap())
        };
        frames.push((text("name"), text("fileName"), thread["frameTable"]["line"][frame].as_u64()));
        stack = stacks["prefix"][at].as_u64();
    }
    let source = path(&folder, "transposition.c");
    assert_eq!(frames, [(Some("transpose"), Some(&*source), Some(9)), (Some("transposition (code)"), None, None)]);
    // Without lines, they are the stacks of the flame graph.
    let folded = std::fs::read_to_string(&folded).unwrap();
    let weight = |line: &str| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap();
    assert!(folded.contains("transposition;transposition (code);transpose "), "{folded}");
    assert_eq!(folded.lines().map(weight).sum::<u64>(), numbers(&samples["weight"]).iter().sum::<u64>());
    let both = ["where", "-m", "zen4", "--folded", "one", "--profile", "one", "-p", "gups:bytes=1M,updates=100"];
    let (status, text) = failure(&both);
    assert!(status == 2 && text.contains("give two names"), "{status} {text}");
}

/// Returns the sums of each list, by metric.
fn sums(rows: &[Value]) -> BTreeMap<&str, [u64; 5]> {
    let mut sums = BTreeMap::new();
    for row in rows {
        let sum: &mut [u64; 5] = sums.entry(row["by"].as_str().unwrap()).or_default();
        let metrics = ["cycles", "walk_cycles", "walks", "walk_accesses", "l1_tlb_misses"];
        metrics.iter().zip(sum).for_each(|(metric, sum)| *sum += row[metric].as_u64().unwrap_or(0));
    }
    sums
}

#[test]
fn all_lists_and_stacks_sum_to_what_the_same_run_counts() {
    let program = ["-p", "tree:nodes=10K,operations=800"];
    for (machine, system, timing) in [
        ("zen4", "base", "ooo"),
        ("skylake-e3-1240v5", "linux-thp", "ooo"),
        ("zen4", "karakostas-2015-rmm", "inorder"),
        ("zen4", "base", "counts"),
        // Its policy runs in the miss handler, on behalf of no reference.
        ("paint-parisc", "fang-1999", "inorder"),
    ] {
        let folder = folder();
        let [stacks, profile] = ["stacks", "profile"].map(|name| path(&folder, name));
        let case = [machine, system, timing];
        let options = ["-m", machine, "-s", system, "--timing", timing];
        let files = ["--folded", &stacks, "--profile", &profile];
        let text = stdout(&[&["where", "-q", "-f", "jsonl"], &files[..], &options[..], &program].concat());
        let rows: Vec<Value> = text.lines().skip(1).map(|line| serde_json::from_str(line).unwrap()).collect();
        let run = stdout(&[&["run", "-q", "-f", "jsonl", "--whole"], &options[..], &program].concat());
        let counted = |metric: &str| {
            let rows = run.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
            let mut row = rows.filter(|row| row["metric"] == metric && row["process"] == "all");
            row.next().map_or(0, |row| row["value"].as_u64().unwrap())
        };
        let labels = ["l2_tlb_hit", "walk", "handler", "itlb_stall", "itlb_walk", "itlb_l2_tlb_hit"];
        let cycles = labels.map(|label| counted(&format!("cycles.{label}"))).iter().sum();
        let misses = counted("l1i_tlb_misses") + counted("l1d_tlb_misses");
        let expected = [cycles, counted("walk_cycles"), counted("walks"), counted("walk_accesses"), misses];
        assert!(expected[4] > 1000, "{case:?}: {expected:?}");
        let sums = sums(&rows);
        assert_eq!(sums.len(), 5, "{case:?}");
        for (by, sum) in &sums {
            // Time has misses only.
            let expected = if *by == "time" { [0, 0, 0, 0, expected[4]] } else { expected };
            assert_eq!(*sum, expected, "{case:?} by {by}");
        }
        let stacks = std::fs::read_to_string(&stacks).unwrap();
        let weights = stacks.lines().map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap());
        let weight = if timing == "counts" { expected[2] } else { expected[0] };
        assert_eq!(weights.sum::<u64>(), weight, "{case:?}");
        let profile: Value = serde_json::from_str(&std::fs::read_to_string(&profile).unwrap()).unwrap();
        let threads = profile["threads"].as_array().unwrap();
        let weights = threads.iter().flat_map(|thread| numbers(&thread["samples"]["weight"]));
        assert_eq!(weights.sum::<u64>(), weight, "{case:?}");
    }
}

#[test]
fn a_table_ends_with_the_rest_and_csv_has_one_row_for_each_owner() {
    let program = ["-m", "zen4", "-p", "tree:nodes=2K,operations=300"];
    let table = stdout(&[&["where", "-q", "--top", "1", "--by", "extent"], &program[..]].concat());
    assert!(table.contains(" more ") && table.contains("touched") && table.contains("the core waits"), "{table}");
    assert!(!table.contains("function"), "{table}");
    let csv = stdout(&[&["where", "-q", "-f", "csv", "--by", "extent"], &program[..]].concat());
    assert!(csv.starts_with("machine,system,program,by,owner,cycles,"), "{csv}");
    assert!(csv.lines().count() > 2);
}

#[test]
fn the_picture_shows_where_a_program_walks_when() {
    // Phase after phase in other memory: each darkens its own rows, in its own columns.
    let args = ["where", "-q", "-m", "zen4", "--timing", "counts", "--by", "time", "-p", "touch:bytes=16M,passes=1"];
    let text = stdout(&args);
    let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("  0x")).collect();
    assert!(rows.len() >= 8, "{text}");
    let dark = |row: &str| row.chars().skip_while(|c| *c != '|').position(|c| c == '█').unwrap_or(usize::MAX);
    let columns: Vec<usize> = rows.iter().map(|row| dark(row)).filter(|at| *at != usize::MAX).collect();
    assert!(columns.is_sorted() && columns.first() < columns.last(), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn what_cannot_be_attributed_is_refused_in_a_sentence() {
    for (args, part) in [
        (&["--sample", "every=10K"][..], "leave out --sample"),
        (&["--precision", "2%"], "--limit"),
        (&["--metric", "wcpi"], "--by"),
        (&["--cores", "2"], "leave out --cores"),
        (&["--kernel"], "leave out --kernel"),
        (&["--by", "colour"], "possible values: mapping"),
        (&["--top", "0"], "--top"),
    ] {
        let (status, text) = failure(&[&["where", "-m", "zen4", "-p", "gups:bytes=1M,updates=100"], args].concat());
        assert!(status != 0 && text.contains(part), "{args:?}: {status} {text}");
    }
    let folder = folder();
    let missing = path(&folder, "no/such/stacks");
    let (status, text) = failure(&["where", "-m", "zen4", "-p", "gups:bytes=1M,updates=100", "--folded", &missing]);
    assert!(status == 1 && text.contains("no/such/stacks"), "{status} {text}");
}
