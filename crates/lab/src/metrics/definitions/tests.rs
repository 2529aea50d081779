use super::*;
use crate::findings::FindingKind;
use reach_core::Label;
use std::collections::BTreeSet;

#[test]
fn every_definition_is_complete_and_no_name_is_defined_twice() {
    const UNITS: [&str; 8] =
        ["count", "cycles", "cycles/instruction", "ratio", "share", "share of cycles", "bytes", "pages"];
    let mut names = BTreeSet::new();
    for group in groups() {
        assert!(!group.title.is_empty() && !group.definitions.is_empty());
        for definition in group.definitions {
            let Definition { name, unit, meaning, .. } = *definition;
            assert!(names.insert(name), "{name} is defined twice");
            assert!(UNITS.contains(&unit), "{name}: {unit}");
            assert!(meaning.ends_with('.') && meaning.split_whitespace().count() >= 2, "{name}: {meaning}");
            assert!(!definition.source().ends_with('.') && !definition.given_by().ends_with('.'), "{name}");
            assert_eq!(super::definition(name), Some(definition), "a family is found by its own name too");
        }
    }
    assert!(names.len() > 200, "{}", names.len());
}

#[test]
fn families_do_not_overlap() {
    // Values of placeholders for which two families could be mistaken for each other.
    let examples = |name: &str| {
        let values =
            ["<size>=2M", "<n>=3", "<cache>=l1d", "<array>=l2", "<kind>=walk", "<operation>=scan", "<when>=end"];
        let replace = |name: String, pair: &&str| {
            let (placeholder, value) = pair.split_once('=').unwrap();
            name.replace(placeholder, value)
        };
        values.iter().fold(name.to_owned(), replace)
    };
    for one in definitions() {
        let name = examples(one.name);
        let found: Vec<&str> = definitions().filter(|other| other.names(&name)).map(|other| other.name).collect();
        assert_eq!(found, [one.name], "{name}");
    }
}

#[test]
fn labels_operations_and_findings_are_all_defined() {
    let defined = |name: String| assert!(definition(&name).is_some(), "{name}");
    Label::ALL.iter().for_each(|label| defined(format!("cycles.{}", label.name())));
    reach_os::Operation::ALL.iter().for_each(|operation| defined(format!("work.{}.times", operation.name())));
    FindingKind::ALL.iter().for_each(|kind| defined(format!("finding.{}", kind.name())));
}

#[test]
fn a_selector_takes_names_members_of_families_and_globs() {
    let names = |text: &str| {
        let selector: Selector = text.parse().unwrap();
        selector.definitions().iter().map(|definition| definition.name).collect::<Vec<_>>()
    };
    assert_eq!(names("wcpi"), ["wcpi"]);
    assert_eq!(names("superpages.2M"), ["superpages.<size>"]);
    assert_eq!(names("superpages.<size>"), ["superpages.<size>"]);
    assert_eq!(names("cycles.itlb*").len(), 3);
    assert_eq!(names("cache.l1d.m*"), ["cache.<cache>.misses"]);
    let selects = |text: &str, name: &str| text.parse::<Selector>().unwrap().selects(name);
    assert!(selects("superpages.2M", "superpages.2M") && !selects("superpages.2M", "superpages.1G"));
    assert!(selects("superpages.<size>", "superpages.1G"));
    assert!(selects("wcpi*", "wcpi_data") && !selects("wcpi", "wcpi_data"));
}

#[test]
fn an_unknown_metric_is_refused_with_the_nearest_names() {
    let message = |text: &str| text.parse::<Selector>().unwrap_err().to_string();
    assert!(message("pagefaults").contains("did you mean page_faults"), "{}", message("pagefaults"));
    assert!(message("walk_cycle").contains("walk_cycles"), "{}", message("walk_cycle"));
    assert!(message("xyz*").ends_with("`reach explain` lists all metrics"), "{}", message("xyz*"));
    assert!("superpages.huge".parse::<Selector>().is_err());
    assert!("".parse::<Selector>().is_err());
}
