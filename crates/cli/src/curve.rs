//! Prints a miss curve as two tables, entries by ways: miss ratios and misses.

use crate::{tabulate, units};
use reach_lab::Misses;
use std::collections::{BTreeMap, BTreeSet};

/// Stands for the ways of a fully associative array, so that its column comes last.
const FULL: u32 = u32::MAX;
/// Returns both tables.
pub fn tables(curve: &Misses) -> String {
    let mut cells: BTreeMap<(u32, u32), u64> = BTreeMap::new();
    for (geometry, misses) in &curve.misses {
        let ways = if geometry.ways == geometry.entries && geometry != &curve.own { FULL } else { geometry.ways };
        cells.insert((geometry.entries, ways), *misses);
    }
    let lookups = units::grouped(curve.lookups);
    let ratio = |misses: u64| match misses as f64 / curve.lookups.max(1) as f64 {
        0.0 => "0".into(),
        ratio => format!("{:.2}", 100.0 * ratio),
    };
    let title = format!("{}: misses, in % of {lookups} look-ups, by entries (rows) and ways (columns)", curve.array);
    let mut out = "\n".to_owned() + &tabulate::paragraph("", &title);
    out += &table(curve, &cells, ratio);
    out += &format!("\n{}: number of misses\n", curve.array);
    out += &table(curve, &cells, |misses| units::short(misses as f64));
    if curve.wakes > 0 {
        let times = units::plural(curve.wakes, "time", "times");
        let remark = format!("daemons woke {times}, by the clock of this machine and not by that of each geometry");
        out += &tabulate::paragraph("", &remark);
    }
    out
}

/// Returns one table, split into parts that fit.
fn table(curve: &Misses, cells: &BTreeMap<(u32, u32), u64>, show: impl Fn(u64) -> String) -> String {
    let ways: Vec<u32> = cells.keys().map(|(_, ways)| *ways).collect::<BTreeSet<_>>().into_iter().collect();
    let entries: BTreeSet<u32> = cells.keys().map(|(entries, _)| *entries).collect();
    let name = |ways: &u32| if *ways == FULL { "full".into() } else { ways.to_string() };
    let header: Vec<String> = ["entries".into()].into_iter().chain(ways.iter().map(name)).collect();
    let row = |&entries: &u32| {
        let cell = |&ways: &u32| match cells.get(&(entries, ways)) {
            Some(misses) if (entries, ways) == (curve.own.entries, curve.own.ways) => format!("*{}", show(*misses)),
            Some(misses) => show(*misses),
            None => String::new(),
        };
        [entries.to_string()].into_iter().chain(ways.iter().map(cell)).collect::<Vec<_>>()
    };
    let rows: Vec<_> = entries.iter().map(row).collect();
    tabulate::grid(&header, &rows) + "* the geometry of the machine\n"
}
