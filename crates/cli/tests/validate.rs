//! `reach validate`, on sets and experiments that need no program.

use crate::common::{failure, folder, path, stdout};

#[test]
fn sets_are_listed_with_their_sources() {
    let list = stdout(&["validate", "--list"]);
    for set in ["random-reads", "skylake-sp-layouts", "zen4-hash-maps"] {
        assert!(list.contains(set), "{list}");
    }
}

#[test]
fn what_cannot_be_run_says_why() {
    let folder = folder();
    let rows = path(&folder, "rows.jsonl");
    let text = stdout(&["validate", "-q", "skylake-sp-layouts", "-f", "jsonl", "-o", &rows]);
    assert_eq!(text.lines().count(), 3, "{text}");
    for line in text.lines() {
        let row: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(row["verdict"], "not measurable", "{line}");
        assert!(row["reason"].as_str().is_some_and(|reason| !reason.is_empty()), "{line}");
    }
    assert!(std::fs::read_to_string(&rows).unwrap() == text);
}

#[test]
fn unknown_sets_and_experiments_are_usage_errors() {
    for (args, part) in
        [(&["validate", "random"][..], "random-reads"), (&["validate", "random-reads", "walk"], "walk-4kiu")]
    {
        let (status, message) = failure(args);
        assert_eq!(status, 2, "{message}");
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn measurements_that_cannot_be_read_are_usage_errors() {
    let folder = folder();
    let (missing, damaged) = (path(&folder, "missing.jsonl"), path(&folder, "damaged.jsonl"));
    std::fs::write(&damaged, "{\"set\":\"here\"}\n").unwrap();
    for (args, parts) in [
        (&["validate", "--here", "--measured", &missing][..], ["--measured", "missing.jsonl"]),
        (&["validate", "--here", "--measured", &damaged], ["damaged.jsonl: line 1", "expected a row"]),
        (&["validate", "--measured", &damaged], ["--here", "required"]),
        (&["validate", "--here", "--machine", "zen44"], ["zen44", "zen4"]),
    ] {
        let (status, message) = failure(args);
        assert_eq!(status, 2, "{message}");
        assert!(parts.iter().all(|part| message.contains(part)), "{message}");
    }
}
