//! Which systems `reach compare` takes.

use crate::common::{failure, reach, stderr, stdout};
use std::collections::BTreeSet;

#[test]
fn compare_defaults_to_the_nearest_machine_and_frames_published_systems() {
    let output = reach(&["compare", "-p", "touch:bytes=4M"]).output().unwrap();
    let table = String::from_utf8(output.stdout.clone()).unwrap();
    assert!(stderr(&output).starts_with("reach: machine "), "{}", stderr(&output));
    let names: Vec<_> =
        table.lines().filter_map(|line| line.split_whitespace().next()).skip_while(|name| *name != "base").collect();
    assert!(names.starts_with(&["base", "linux-thp", "hugetlb-2m"]), "{table}");
    assert!(names.contains(&"ideal"), "{table}");
}

#[test]
fn help_lists_the_default_systems_and_no_others() {
    let help = stdout(&["compare", "--help"]);
    let list = help.split_once("Default: base,").unwrap().1.split_once("too.").unwrap().0;
    let words: BTreeSet<_> = list.split_whitespace().map(|word| word.trim_end_matches(',')).chain(["base"]).collect();
    for system in reach_systems::list() {
        assert_eq!(words.contains(system.name), system.compared, "{}", system.name);
    }
}

#[test]
fn all_systems_are_compared_when_asked_for() {
    let asked = ["compare", "-q", "-p", "touch:bytes=1M", "-m", "skylake-sp", "--timing", "inorder", "--all-systems"];
    let table = stdout(&asked);
    // Two fill TLBs by software, and one needs page sizes of Arm.
    let left_out = ["romer-1995", "fang-1999", "psomadakis-2024-elastic"];
    for system in reach_systems::list().iter().filter(|system| !left_out.contains(&system.name)) {
        assert!(table.lines().any(|line| line.starts_with(system.name)), "{}: {table}", system.name);
    }
    assert!(failure(&[&asked[..], &["-s", "base"]].concat()).1.contains("cannot be used with"));
}
