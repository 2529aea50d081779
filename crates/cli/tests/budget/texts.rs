//! Files that people and other tools write as text: machines, papers, scenarios, counts of perf.

use super::cost::{assert_within_budget, folder, path};
use std::fs;
use std::path::Path;

/// Texts of a megabyte that are hard for a reader of TOML.
fn toml() -> Vec<(&'static str, String)> {
    let fill = |piece: &str, bytes: usize| piece.repeat(bytes / piece.len());
    let numbered = |piece: &dyn Fn(usize) -> String, n: usize| (0..n).map(piece).collect::<String>();
    [256 << 10, 1 << 20]
        .into_iter()
        .flat_map(|bytes| {
            let most = bytes - 100;
            [
                ("numbers", format!("a = [{}]\n", fill("1,", most))),
                ("nested arrays", format!("a = {}\n", fill("[", most))),
                ("dotted keys", format!("a{} = 1\n", fill(".a", most))),
                ("a dotted header", format!("[a{}]\n", fill(".a", most))),
                ("tables", numbered(&|i| format!("[t{i}]\n"), bytes / 12)),
                ("keys", numbered(&|i| format!("k{i}=1\n"), bytes / 12)),
                ("lists of tables", fill("[[a]]\n", most)),
                ("inline tables", format!("a = [{}]\n", fill("{},", most))),
                ("empty texts", format!("a = [{}]\n", fill("\"\",", most))),
                ("long headers", numbered(&|i| format!("[{}b{i}]\n", fill("a.", 100)), bytes / 110)),
                (
                    "sources",
                    format!("name = 'x'\nabout = 'x'\n[sources]\n{}", numbered(&|i| format!("s{i}='x'\n"), bytes / 14)),
                ),
                ("programs", fill("[[program]]\nrun='touch'\n", most)),
                (
                    "experiments",
                    format!("citation = 'x'\n{}", numbered(&|i| format!("[experiment.e{i}]\n"), bytes / 20)),
                ),
                ("line ends", fill("\n", most)),
                ("a text", format!("name = \"{}\"\n", fill("x", most))),
            ]
        })
        .collect()
}

#[test]
fn texts_of_machines_papers_and_scenarios_are_bounded() {
    for (what, text) in toml() {
        let folder = folder();
        let (file, paper) = (path(&folder, "paper.toml"), folder.path().to_str().unwrap());
        fs::write(&file, text).unwrap();
        for args in [
            &["machine", "check", &file][..],
            &["run", "--machine", &file, "--program", "touch:bytes=4K"],
            &["paper", "run", paper],
            &["run", "--machine", "zen4", "--scenario", &file],
        ] {
            let run = assert_within_budget(args, Path::new(paper));
            assert!(run.status == 1 || run.status == 2, "{what}: {run:?}");
        }
    }
}

/// Each number of a preset, as large as it can be written: nothing may be taken in proportion to it before it is refused.
#[test]
fn large_numbers_of_machines_take_no_memory() {
    let folder = folder();
    let file = path(&folder, "machine.toml");
    let preset = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../machines/zen4.toml")).unwrap();
    let lines: Vec<&str> = preset.lines().collect();
    let mut tried = 0;
    for (at, line) in lines.iter().enumerate() {
        let Some((key, rest)) = line.split_once('=') else { continue };
        let Some(digit) = rest.find(|c: char| c.is_ascii_digit()) else { continue };
        if rest[..digit].contains('"') || key.contains('#') {
            continue;
        }
        let after = rest[digit..].trim_start_matches(|c: char| c.is_ascii_digit() || c == '_' || c == '.');
        for number in ["4294967295", "1073741824"] {
            let mut changed = lines.clone();
            let line = format!("{key}={}{number}{after}", &rest[..digit]);
            changed[at] = &line;
            fs::write(&file, changed.join("\n")).unwrap();
            let args = ["run", "--timing", "counts", "--machine", &file, "--program", "touch:bytes=4K"];
            let run = super::cost::run(&args);
            assert!(matches!(run.status, 0..=2) && run.is_within_budget(), "{line}: {run:?}");
            tried += 1;
        }
    }
    assert!(tried > 40, "{tried}");
}

#[test]
fn devices_are_not_read_as_texts() {
    let zero = Path::new("/dev/zero");
    for args in [
        &["machine", "check", "/dev/zero"][..],
        &["run", "--machine", "/dev/zero", "--program", "touch"],
        &["run", "--machine", "zen4", "--scenario", "/dev/zero"],
        &["trace", "info", "/dev/zero"],
    ] {
        let run = assert_within_budget(args, zero);
        assert!(run.status == 1 || run.status == 2, "{args:?}: {run:?}");
    }
}

/// A megabyte of such lines.
fn lines(line: impl Fn(usize) -> String) -> String {
    let mut text = String::new();
    let mut number = 0;
    while text.len() < (1 << 20) - 100 {
        text += &line(number);
        number += 1;
    }
    text
}

#[test]
fn counts_of_perf_are_read_in_time() {
    let folder = folder();
    let file = path(&folder, "counts");
    let texts: [String; 5] = [
        lines(|i| format!("1,,e{i:x},,\n")),
        lines(|i| format!("{{\"event\":\"e{i:x}\",\"counter-value\":\"1\"}}\n")),
        lines(|_| "1,,instructions,,\n".into()),
        ",".repeat(1 << 20),
        format!("{{\"event\":{}", "[".repeat(1 << 19)),
    ];
    for text in texts {
        fs::write(&file, &text).unwrap();
        let run = assert_within_budget(&["stat", "--read", &file], Path::new(&file));
        assert_eq!(run.status, 1, "{run:?}");
    }
}
