//! The programs of Lindsay and Bhattacharjee 2024 compute correct answers, and their checks detect wrong ones.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};
use tempfile::TempDir;

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../papers/lindsay-2024/programs")
}

/// Compiles a program, after replacing a part of its text if `change` says so. `None` without a compiler.
fn compile(folder: &TempDir, name: &str, change: Option<(&str, &str)>) -> Option<PathBuf> {
    let file = format!("{name}.c");
    let mut text = std::fs::read_to_string(sources().join(&file)).unwrap();
    if let Some((from, to)) = change {
        assert_eq!(text.matches(from).count(), 1, "{file} has one `{from}`");
        text = text.replace(from, to);
    }
    std::fs::copy(sources().join("graph.h"), folder.path().join("graph.h")).unwrap();
    let (source, program) = (folder.path().join(&file), folder.path().join(name));
    std::fs::write(&source, text).unwrap();
    let arguments = ["-O2", "-w", "-pthread", "-o"];
    match Command::new("cc").args(arguments).arg(&program).arg(&source).arg("-lm").status() {
        Ok(status) => {
            assert!(status.success(), "cc {file}");
            Some(program)
        }
        Err(why) => {
            eprintln!("skipped: no C compiler: {why}");
            None
        }
    }
}

fn run(program: &Path, arguments: &[&str]) -> Output {
    Command::new(program).args(arguments).output().unwrap()
}

/// Returns whether the program prints that its answer was right. Its status must agree.
fn is_right(output: &Output) -> bool {
    let text = String::from_utf8_lossy(&output.stdout);
    let right = text.lines().last() == Some("right");
    assert_eq!(right, output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    right
}

const RUNS: &[(&str, &[&[&str]])] = &[
    ("bc", GRAPHS),
    ("bfs", GRAPHS),
    ("cc", GRAPHS),
    ("pr", GRAPHS),
    ("tc", GRAPHS),
    ("mcf", &[&["2", "--check"], &["40", "--check"], &["150", "--check"]]),
    (
        "streamcluster",
        &[&["3", "6", "8", "300", "100", "1", "--check"], &["5", "10", "32", "700", "700", "3", "--check"]],
    ),
];

const GRAPHS: &[&[&str]] = &[
    &["urand", "3", "2", "1", "--check"],
    &["urand", "11", "2", "1", "--check"],
    &["urand", "13", "2", "3", "--check"],
    &["kron", "4", "2", "2", "--check"],
    &["kron", "12", "3", "1", "--check"],
    &["kron", "13", "2", "3", "--check"],
];

#[test]
fn answers_are_correct() {
    for (name, runs) in RUNS {
        let folder = tempfile::tempdir().unwrap();
        let Some(program) = compile(&folder, name, None) else { return };
        for arguments in *runs {
            let output = run(&program, arguments);
            assert!(is_right(&output), "{name} {arguments:?}");
        }
    }
}

#[test]
fn output_on_one_thread_is_deterministic() {
    for (name, runs) in RUNS {
        let folder = tempfile::tempdir().unwrap();
        let Some(program) = compile(&folder, name, None) else { return };
        assert_eq!(run(&program, runs[1]).stdout, run(&program, runs[1]).stdout, "{name}");
    }
}

#[test]
fn checks_detect_wrong_answers() {
    let changes = [
        ("bc", "score[u] += sum;", "score[u] = sum;"),
        ("bfs", "parent[u] = near[k];", "parent[u] = u;"),
        ("cc", "row[v] + link_round < row[v + 1]", "row[v] + link_round + 1 < row[v + 1]"),
        ("pr", "DAMPING * sum", "0.8f * sum"),
        ("tc", "mine += near[at] == near[j]", "mine += near[at] != near[j]"),
        ("mcf", "if (reduced < 0) {", "if (reduced < -2000) {"),
        ("streamcluster", "lower[f] = price - sum;", "lower[f] = price + sum;"),
    ];
    for (name, from, to) in changes {
        let folder = tempfile::tempdir().unwrap();
        let Some(program) = compile(&folder, name, Some((from, to))) else { return };
        let (_, runs) = RUNS.iter().find(|(known, _)| *known == name).unwrap();
        let noticed = runs.iter().any(|arguments| !is_right(&run(&program, arguments)));
        assert!(noticed, "{name} with `{to}`");
    }
}

#[test]
fn a_graph_from_a_file_equals_the_generated_graph() {
    let folder = tempfile::tempdir().unwrap();
    let Some(graph) = compile(&folder, "graph", None) else { return };
    let file = folder.path().join("made");
    let file = file.to_str().unwrap();
    for (kind, name) in [("urand", "bc"), ("kron", "bfs"), ("kron", "cc"), ("urand", "pr"), ("kron", "tc")] {
        let Some(program) = compile(&folder, name, None) else { return };
        assert!(run(&graph, &[file, kind, "11"]).status.success());
        let (made, loaded) = (run(&program, &[kind, "11", "2"]), run(&program, &[file, "2"]));
        assert!(loaded.status.success() && loaded.stdout == made.stdout, "{name} on {kind}: {loaded:?}");
        assert!(is_right(&run(&program, &[file, "1", "1", "--check"])), "{name} on {kind}");
    }
    // A truncated file is refused.
    std::fs::OpenOptions::new().write(true).open(file).unwrap().set_len(100_000).unwrap();
    let program = folder.path().join("tc");
    assert_eq!(run(&program, &[file]).status.code(), Some(2));
    assert_eq!(run(&graph, &[file, "kron"]).status.code(), Some(2));
}

#[test]
fn triangles_may_be_counted_in_one_of_several_blocks() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compile(&folder, "tc", None) else { return };
    let count = |more: &[&str]| -> u64 {
        let output = run(&program, &[&["urand", "14", "1", "1"], more].concat());
        assert!(output.status.success(), "{more:?}");
        String::from_utf8(output.stdout).unwrap().split(' ').next().unwrap().parse().unwrap()
    };
    let (all, fourth) = (count(&[]), count(&["--one-in", "4"]));
    assert_eq!(count(&["--one-in", "1"]), all);
    // Sixteen blocks of vertices, which differ only in the order of neighbours.
    assert!(fourth > 0 && fourth < all / 2, "{fourth} of {all}");
    for wrong in [&["--one-in", "0"][..], &["--check", "--one-in", "4"]] {
        assert_eq!(run(&program, &[&["urand", "8", "1", "1"], wrong].concat()).status.code(), Some(2), "{wrong:?}");
    }
}

#[test]
fn wrong_arguments_print_the_usage() {
    for (name, wrong) in [("bfs", "grid"), ("mcf", "1"), ("streamcluster", "5")] {
        let folder = tempfile::tempdir().unwrap();
        let Some(program) = compile(&folder, name, None) else { return };
        let output = run(&program, &[wrong, "3"]);
        assert_eq!(output.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&output.stderr).starts_with("usage: "), "{name}");
    }
}

/// A server that is killed when the test ends.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_client_finds_the_records_that_it_stored() {
    let folder = tempfile::tempdir().unwrap();
    let Some(client) = compile(&folder, "ycsb", None) else { return };
    let socket = folder.path().join("socket");
    let arguments = ["-u", "root", "-m", "64", "-t", "2", "-s"];
    let Ok(server) = Command::new("memcached").args(arguments).arg(&socket).spawn() else {
        return eprintln!("skipped: no memcached");
    };
    let _server = Server(server);
    let socket = socket.to_str().unwrap();
    // If all records fit, hardly a read misses; then hardly a third of them fits.
    let share = |records: &str, threads: &str| {
        let output = run(&client, &[socket, records, "4000", threads, "--check"]);
        assert!(is_right(&output));
        let text = String::from_utf8(output.stdout).unwrap();
        let numbers: Vec<f64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        numbers[0] / (numbers[0] + numbers[1])
    };
    assert!(share("500", "2") > 0.99);
    let third = share("20000", "1");
    assert!((0.2..0.5).contains(&third), "{third}");
}
