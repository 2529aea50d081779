//! The data of all sets, and the verdicts on wrong numbers.

use super::*;
use crate::paper::{Tolerance, Verdict};
use std::collections::HashMap;

/// Returns a set of one experiment on a trivial program, whose item has these lines.
fn set_of(item: &str) -> Result<Set, PaperError> {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("source.toml", "title = 't'\naddress = 'a'\nlicence = 'l'\nmeasured = 'm'\ncollected = 'c'\nnotes = ''\n");
    let text = format!(
        "citation = 'c'\n[base]\nmachine = 'zen4'\nmemory_mb = 64\ntiming = 'counts'\nseed = 1\nwarm = true\n\
         systems = {{ base = 'base' }}\n[[experiment]]\nname = 'one'\nabout = 'a'\nprograms = ['touch:bytes=1M']\n\
         [[experiment.item]]\nitem = 'i'\nsection = 's'\nunit = 'faults'\nreason = 'r'\n\
         ours = {{ metric = 'page_faults.anonymous', system = 'base' }}\n{item}\n"
    );
    write("set.toml", &text);
    Set::open(folder.path().to_str().unwrap())
}

/// Returns the verdict on the 256 faults of that program.
fn verdict(item: &str) -> Verdict {
    let set = set_of(item).unwrap();
    let pass: Vec<_> = set.paper.experiments.iter().collect();
    let outcome = set.paper.run(&pass, 0, |_| true).remove(0);
    let row = set.row(&outcome.comparisons[0]);
    assert_eq!((row.ours, row.source.as_str()), (Some(256.0), "a"));
    row.verdict
}

#[test]
fn wrong_numbers_on_either_side_are_missed() {
    for (published, tolerance, expected) in [
        ("256.0", "{ within = 1.0 }", Verdict::Met),
        ("258.0", "{ within = 1.0 }", Verdict::Missed),
        ("254.0", "{ within = 1.0 }", Verdict::Missed),
        ("300.0", "{ factor = 1.2 }", Verdict::Met),
        ("308.0", "{ factor = 1.2 }", Verdict::Missed),
        ("213.0", "{ factor = 1.2 }", Verdict::Missed),
        ("-256.0", "{ factor = 1.2 }", Verdict::Missed),
    ] {
        let item = format!("published = {published}\ntolerance = {tolerance}\nnull = 0.0");
        assert_eq!(verdict(&item), expected, "{item}");
    }
}

#[test]
fn numbers_that_the_null_meets_are_not_decisive() {
    assert_eq!(verdict("published = 256.0\ntolerance = { within = 300.0 }\nnull = 0.0"), Verdict::NotDecisive);
    assert_eq!(verdict("published = 100.0\ntolerance = { within = 120.0 }\nnull = 0.0"), Verdict::NotDecisive);
}

#[test]
fn one_sided_tolerances_and_unnamed_sources_are_refused() {
    let error = set_of("published = 1.0\ntolerance = { above = 1.0 }").err().unwrap().to_string();
    assert!(error.contains("expected within or factor"), "{error}");
    let text = "title = 't'\naddress = ' '\nlicence = 'l'\nmeasured = 'm'\ncollected = 'c'\nnotes = ''";
    assert_eq!(read_source(text).unwrap_err(), "address is empty; name the source");
    let error = Set::open("no-such-set").err().unwrap().to_string();
    assert!(error.contains("random-reads"), "{error}");
}

#[test]
fn every_set_opens_and_keeps_rows_back() {
    for name in list() {
        let set = Set::open(name).unwrap_or_else(|error| panic!("{error}"));
        let items: Vec<_> = set.paper.experiments.iter().flat_map(|e| &e.items).collect();
        assert!(items.is_empty() || items.iter().any(|item| item.kept_back), "{name}");
        assert!(!items.is_empty() || !set.paper.missing.is_empty(), "{name} has no numbers");
        assert!(items.iter().all(|item| item.null.is_some()), "{name}: an item has no null");
    }
}

/// The data of tinymembench by file, core, run, page and block: nanoseconds of a single and of a dual read.
type Reads = HashMap<(String, String, String, String, u64), [f64; 2]>;

/// Reads `measured.csv` of the set `random-reads`.
fn reads() -> Reads {
    let text = include_str!("../../../../validation/random-reads/measured.csv");
    let line = |line: &str| {
        let mut fields = line.rsplitn(8, ',').map(str::to_owned);
        let mut next = || fields.next().unwrap();
        let (dual, single, block, page, run, core) = (next(), next(), next(), next(), next(), next());
        let file = line.split(',').next().unwrap().to_owned();
        let times = [single.parse().unwrap(), dual.parse().unwrap()];
        ((file, core, run, page, block.parse().unwrap()), times)
    };
    text.lines().filter(|line| !line.starts_with(['#', 'f'])).map(line).collect()
}

#[test]
fn measured_cycles_of_random_reads_follow_from_the_data_and_the_clock() {
    let reads = reads();
    let set = Set::open("random-reads").unwrap();
    assert!(reads.len() > 500 && set.paper.experiments.len() > 25);
    for experiment in &set.paper.experiments {
        let (column, file) = experiment.name.split_once('-').unwrap();
        let (block, dual) = match column {
            "l2" => (2 << 20, 0),
            "small" => (512 << 10, 0),
            "walk" => (64 << 20, 0),
            _ => (64 << 20, 1),
        };
        let hertz = experiment.machine.hardware.core.hertz as f64;
        // A file may hold several runs, and several kinds of cores, of which the item is about the fast ones.
        let of = |page: &str| {
            let mut runs: Vec<_> = reads
                .iter()
                .filter(|((f, core, _, p, b), _)| f == file && p == page && *b == block && is_fast(core))
                .collect();
            runs.sort_by(|(a, _), (b, _)| a.2.cmp(&b.2));
            runs.last().unwrap().1[dual]
        };
        let measured = (of("4k") - of("2m")) * hertz / 1e9;
        let item = &experiment.items[0];
        assert!((measured - item.published).abs() < 0.02, "{}: {measured}", item.item);
        assert!(item.tolerance.is_some_and(Tolerance::is_two_sided));
    }
}

/// Returns whether a core is not one of the efficient cores of its processor.
fn is_fast(core: &str) -> bool {
    !["Efficiency", "Crestmont"].iter().any(|name| core.contains(name))
}

#[test]
fn measured_numbers_of_hash_maps_are_those_of_the_data() {
    let text = include_str!("../../../../validation/zen4-hash-maps/measured.csv");
    let set = Set::open("zen4-hash-maps").unwrap();
    for experiment in &set.paper.experiments {
        let (work, entries) = experiment.name.split_once('-').unwrap();
        let bytes = if work.starts_with("big") { 64 } else { 8 };
        let work = work.trim_start_matches("big");
        let row = format!(",boost unordered_flat_map,unordered_dense's,{work},u64,{bytes},{entries},clang 22,");
        let line = text.lines().find(|line| line.starts_with("boost-alloc,") && line.contains(&row)).unwrap();
        let numbers: Vec<f64> = line.split(',').filter_map(|field| field.parse().ok()).collect();
        for item in &experiment.items {
            assert!(numbers.contains(&item.published), "{}: {} is not in {line}", item.item, item.published);
        }
    }
}

/// The set is not built in, so its files are read as they are.
#[test]
fn measured_numbers_of_wrong_paths_are_those_of_the_data() {
    let data = include_str!("../../../../validation/wrong-paths/measured.csv");
    let rows: toml::Table = include_str!("../../../../validation/wrong-paths/rows.toml").parse().unwrap();
    let experiments = rows["experiment"].as_array().unwrap();
    let lines: Vec<&str> = data.lines().skip(2).collect();
    assert_eq!(experiments.len(), lines.len());
    for (experiment, line) in experiments.iter().zip(lines) {
        let fields: Vec<&str> = line.split(',').collect();
        let best = |of: [usize; 2]| of.map(|at| fields[at].parse().unwrap()).into_iter().fold(f64::MAX, f64::min);
        let quotient = best([4, 6]) / best([3, 5]);
        let (_, stated) = experiment["columns"].as_table().unwrap().iter().next().unwrap();
        assert_eq!(experiment["name"].as_str(), Some(format!("{}-{}", fields[0], fields[1]).as_str()));
        assert!((stated.as_float().unwrap() - quotient).abs() < 0.006, "{line}: {stated}");
    }
}
