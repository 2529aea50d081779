//! The table of metrics against the rows of every system and timing, and the page generated from it.

use crate::common;
use crate::common::{Pieces, conditions, run, script};
use reach_lab::metrics::{self, Definition};
use reach_lab::{Conditions, Experiment, Placement, Row, Simulation, Timing, machine};
use reach_trace::synthetic;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// A program with several processes and all kinds of events.
fn program() -> Pieces {
    script::program(3, 60)
}

fn experiment(machine: &str, systems: &[&str], timing: Timing) -> Experiment {
    let conditions = Conditions { memory: 64 << 20, ..conditions(timing) };
    Experiment { conditions, ..common::experiment(&[machine], systems, timing) }
}

fn rows(experiment: &Experiment) -> Vec<Row> {
    run(experiment, &mut program()).rows()
}

/// Machines that together have all hardware that adds rows: caches, a guest, coalesced entries, software-filled TLBs, a controller,
/// page sizes of Arm.
const MACHINES: [&str; 5] = [
    "skylake-e3-1240v5",
    "sapphire-rapids:nested.host_page=4K",
    "zen4:tlb.l2d.coalesce=16K",
    "paint-parisc",
    "neoverse-v1",
];

/// Systems with options that add rows, beside all systems with their defaults.
const VARIANTS: [&str; 4] = [
    "navarro-2002:sample_period=1",
    "karakostas-2015-rmm:lookup=after-miss,sweep=4",
    "fang-1999:policy=asap,mechanism=remap",
    "mansi-2022-cbmm:profile=huge:mmap:41534456",
];

/// Returns the systems that run on `machine` with `timing`.
fn systems(machine: &str, timing: Timing) -> Vec<&'static str> {
    let resolved = machine::resolve(machine).unwrap();
    let small = Conditions { memory: 64 << 20, ..conditions(timing) };
    let runs = |system: &&str| Simulation::new(&resolved, &reach_systems::resolve(system).unwrap(), &small).is_ok();
    reach_systems::list().iter().map(|system| system.name).chain(VARIANTS).filter(runs).collect()
}

/// Returns the rows of every machine under every system and timing, and of the other kinds of runs.
fn all_rows() -> Vec<Row> {
    let mut all = Vec::new();
    for machine in MACHINES {
        let has_ooo = machine::resolve(machine).unwrap().ooo.is_some();
        for timing in Timing::ALL.into_iter().filter(|timing| *timing != Timing::Ooo || has_ooo) {
            all.extend(rows(&experiment(machine, &systems(machine, timing), timing)));
        }
    }
    for timing in Timing::ALL {
        let plain = |systems| experiment("skylake-e3-1240v5", systems, timing);
        let mut cores = plain(&["base"]);
        cores.conditions.placement = Placement::of(2, 1);
        all.extend(rows(&cores));
        let mut kernel = plain(&["base"]);
        kernel.conditions.kernel = true;
        all.extend(rows(&kernel));
        let mut host = experiment("skylake-sp:nested.host_page=4K", &["base", "base:guest_paging=agile"], timing);
        host.conditions.host = Some("linux-thp".into());
        all.extend(rows(&host));
        host.conditions.guests = 2;
        all.extend(rows(&host));
        all.extend(rows(&Experiment {
            sample: Some("every=100,measure=10,warm=10".parse().unwrap()),
            ..plain(&["base"])
        }));
        if timing != Timing::Ooo {
            let curve = Some("l2_tlb:entries=48,ways=3/full".parse().unwrap());
            all.extend(rows(&Experiment { curve, ..plain(&["base"]) }));
        }
    }
    all
}

/// Every definition that simulations can give is given by one of these runs, and no row lacks a definition or differs from it
/// in its unit.
#[test]
fn every_row_is_defined_with_its_unit_and_every_definition_has_a_row() {
    let mut seen: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut wrong = BTreeSet::new();
    let rows = all_rows();
    for row in &rows {
        match metrics::definition(&row.metric) {
            Some(definition) if definition.unit == row.unit => {
                seen.entry(definition.name).or_default().insert(row.system.split(':').next().unwrap());
            }
            Some(definition) => {
                wrong.insert(format!("{}: rows have {}, its definition {}", row.metric, row.unit, definition.unit));
            }
            None => {
                wrong.insert(format!("{}: there is no definition", row.metric));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    // Findings depend on the program, and `reach stat` reads a processor.
    let elsewhere = |definition: &&Definition| {
        definition.name.starts_with("finding.") || definition.given.starts_with("`reach stat`")
    };
    let defined = metrics::definitions().filter(|definition| !elsewhere(definition));
    let missing: Vec<&str> =
        defined.map(|definition| definition.name).filter(|name| !seen.contains_key(name)).collect();
    assert!(missing.is_empty(), "no run gives {missing:?}");
    let systems: BTreeSet<&str> = rows.iter().map(|row| row.system.split(':').next().unwrap()).collect();
    let listed: BTreeSet<&str> = reach_systems::list().iter().map(|system| system.name).collect();
    assert_eq!(systems, listed, "a system ran on none of the machines");
    // Definitions that name systems name all that give the metric. A controller comes with an option, and comparisons need
    // several systems.
    let names_systems = |definition: &&Definition| {
        let compares = definition.given.contains("`base`");
        !elsewhere(definition) && !compares && !definition.name.starts_with("controller.")
    };
    for definition in metrics::definitions().filter(names_systems) {
        let words = definition.given.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'));
        let named: BTreeSet<&str> = words.filter(|word| listed.contains(word)).collect();
        let given = &seen[definition.name];
        if !named.is_empty() && given != &named {
            wrong.insert(format!("{}: given by {given:?}, and its definition says {named:?}", definition.name));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn wcpi_of_data_leaves_out_fetches_and_both_are_products_of_their_factors() {
    let rows = {
        let mut source = synthetic::parse("code:regions=3,visits=4K").unwrap();
        let report = run(&experiment("skylake-e3-1240v5", &["base"], Timing::InOrder), &mut *source);
        report.rows()
    };
    let value = |name: &str| rows.iter().find(|row| row.metric == name).unwrap().value.as_f64();
    for (name, factors) in [("wcpi", &metrics::WCPI_FACTORS), ("wcpi_data", &metrics::WCPI_DATA_FACTORS)] {
        let product: f64 = factors.iter().map(|factor| value(factor.name)).product();
        assert!((product - value(name)).abs() < 1e-12, "{name}: {product}");
    }
    let fetch = value("walk_cycles.fetch") / value("instructions");
    assert!(fetch > 0.0);
    assert!((value("wcpi") - value("wcpi_data") - fetch).abs() < 1e-12);
    assert_eq!(value("walk_accesses"), value("walk_accesses.fetch") + value("walk_accesses.data"));
}

/// `INSTA_UPDATE=always cargo test -p reach-lab --test main metrics::` renews the page.
#[test]
fn the_page_of_metrics_is_what_the_table_gives() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
    let page = metrics::page();
    if std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always") {
        std::fs::write(&path, &page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap();
    let differs = written.lines().zip(page.lines()).find(|(written, generated)| written != generated);
    assert!(
        written == page,
        "docs/metrics.md differs from the table of metrics: {differs:?}; renew it with INSTA_UPDATE=always"
    );
}
