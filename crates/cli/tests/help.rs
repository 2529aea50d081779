//! Help texts, lists, manual pages and completions.

use crate::common::{failure, folder, path, reach, stdout};

const VERBS: [&[&str]; 37] = [
    &[],
    &["compare"],
    &["run"],
    &["where"],
    &["record"],
    &["trace"],
    &["trace", "info"],
    &["trace", "check"],
    &["trace", "dump"],
    &["trace", "convert"],
    &["machine"],
    &["machine", "list"],
    &["machine", "show"],
    &["machine", "check"],
    &["system"],
    &["system", "list"],
    &["system", "show"],
    &["program"],
    &["program", "list"],
    &["program", "show"],
    &["paper"],
    &["paper", "list"],
    &["paper", "run"],
    &["paper", "record"],
    &["validate"],
    &["sweep"],
    &["text"],
    &["text", "show"],
    &["text", "promote"],
    &["text", "align"],
    &["text", "run"],
    &["text", "keep"],
    &["text", "bench"],
    &["pages"],
    &["stat"],
    &["explain"],
    &["generate"],
];

#[test]
fn help_matches_the_reviewed_snapshots() {
    for verb in VERBS {
        let help = stdout(&[verb, &["--help"]].concat());
        let name = if verb.is_empty() { "reach".to_owned() } else { verb.join("-") };
        insta::assert_snapshot!(format!("help-{name}"), help);
        assert!(help.lines().all(|line| line.chars().count() <= 100), "{name}: {help}");
    }
}

#[test]
fn all_examples_in_help_parse() {
    let is_complete = |line: &str| line.trim_start().starts_with("reach ") && !line.ends_with('\\');
    for verb in VERBS {
        let help = stdout(&[verb, &["--help"]].concat());
        let Some((_, examples)) = help.split_once("Examples:\n") else { continue };
        for line in examples.replace("\\\n", " ").lines().filter(|line| is_complete(line)) {
            // With --help last, the command parses the other arguments and runs nothing.
            let words = line.split_whitespace().map(|word| word.trim_matches('\''));
            let words: Vec<&str> = words.skip(1).take_while(|word| *word != "--").collect();
            let words = words.iter().take_while(|word| **word != "|").chain([&"--help"]);
            stdout(&words.copied().collect::<Vec<_>>());
        }
    }
}

#[test]
fn missing_arguments_are_a_usage_error_that_prints_help() {
    for verb in [&[][..], &["trace"], &["machine"]] {
        let (status, text) = failure(verb);
        assert_eq!(status, 2);
        assert!(text.contains("Usage: reach"), "{text}");
    }
}

#[test]
fn lists_and_their_items_fit_80_columns() {
    for what in ["machine", "system", "program"] {
        let list = stdout(&[what, "list"]);
        assert!(list.lines().count() >= 4, "{list}");
        assert!(list.lines().all(|line| line.chars().count() <= 80), "{list}");
        for name in list.lines().filter(|line| !line.starts_with(' ')).map(|line| line.split(' ').next().unwrap()) {
            let shown = stdout(&[what, "show", name]);
            assert!(shown.starts_with(name), "{shown}");
            assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
        }
    }
}

#[test]
fn paper_list_names_each_paper_and_its_experiments() {
    let list = stdout(&["paper", "list"]);
    assert!(
        list.contains("\nfang-1999 ") && list.contains("\nnavarro-2002 ") && list.contains("\n  matrix "),
        "{list}"
    );
    assert!(list.lines().all(|line| line.chars().count() <= 80), "{list}");
}

#[test]
fn machine_show_marks_values_set_by_the_user() {
    let shown = stdout(&["machine", "show", "skylake-e3-1240v5:tlb.l2.entries=3072"]);
    let line = shown.lines().find(|line| line.contains("3072") && line.contains("entries ")).unwrap();
    assert!(line.ends_with("set"), "{line}");
    assert!(shown.contains("set by the user"));
}

#[test]
fn generate_writes_manual_pages_and_completions() {
    let folder = folder();
    for (what, file, content) in [
        ("man", "reach-compare.1", "Compare systems on one program"),
        ("man", "reach-trace-convert.1", "--force"),
        ("completions", "reach.bash", "--machine"),
        ("completions", "_reach", "compare"),
        ("completions", "reach.fish", "record"),
    ] {
        let target = path(&folder, what);
        reach(&["generate", what, &target]).assert().success();
        let text = std::fs::read_to_string(format!("{target}/{file}")).unwrap().replace("\\-", "-");
        assert!(text.contains(content), "{file}: {text}");
    }
    let (status, text) = failure(&["generate", "man", "/dev/null/man"]);
    assert_eq!((status, text.as_str()), (1, "reach: /dev/null/man: cannot be written: Not a directory\n"));
}
