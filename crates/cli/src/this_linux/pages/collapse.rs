//! `reach pages collapse`: huge pages for the memory of a running process.

use super::super::show::no_process;
use crate::args::results::Format;
use crate::args::this_linux::CollapseArgs;
use crate::failure::{Failure, VerbResult, print_error};
use crate::units::{grouped, memory};
use crate::{output, tabulate};
use reach_core::Shown;
use reach_live::collapse::{Action, Change, CollapseError, change};
use reach_live::keep::EndSignals;
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// Collapses or splits, and prints what the kernel says of it. Returns 1 if nothing was gained.
pub fn collapse(args: &CollapseArgs) -> VerbResult {
    let signals = EndSignals::block().map_err(Failure::failed)?;
    let action = if args.undo { Action::Split } else { Action::Collapse { least: args.least } };
    let changes = change(args.pid, args.what, action, || signals.wait(Duration::ZERO)).map_err(|error| {
        Failure::Failed(match error {
            CollapseError::Process(error) => no_process(args.pid, &error),
            error => format!("process {} {error}", args.pid),
        })
    })?;
    output::print(&match args.format {
        Format::Table => tabulate::fitted(&table(args, &changes)),
        Format::Jsonl => rows(args.pid, &changes).iter().map(|row| output::json(row) + "\n").collect(),
        Format::Csv => output::csv(&rows(args.pid, &changes)),
    })?;
    let mut refused: BTreeMap<_, u64> = BTreeMap::new();
    for (refusal, extents) in changes.iter().flat_map(|change| &change.refused) {
        *refused.entry(refusal).or_default() += extents;
    }
    for (refusal, extents) in refused {
        print_error(format!("{} extents of 2 MB were not collapsed: {refusal}", grouped(extents)));
    }
    let [before, after] = [0, 1].map(|at| changes.iter().map(|change| change.huge[at]).sum::<u64>());
    Ok(u8::from(if args.undo { after > 0 } else { after <= before }))
}

fn table(args: &CollapseArgs, changes: &[Change]) -> String {
    let shown = |bytes: u64| if bytes == 0 { "0".into() } else { memory(bytes) };
    let sum = |of: fn(&Change) -> u64| changes.iter().map(of).sum::<u64>();
    let line = |name: String, of: &dyn Fn(fn(&Change) -> u64) -> u64| {
        [
            name,
            shown(of(|change| change.resident[0])),
            shown(of(|change| change.resident[1])),
            shown(of(|change| change.huge[0])),
            shown(of(|change| change.huge[1])),
            grouped(of(|change| change.tried)),
            grouped(of(|change| change.sparse)),
        ]
    };
    let touched = changes.iter().filter(|change| change.tried + change.sparse > 0);
    let mut lines: Vec<_> = touched
        .map(|change| line(format!("{:012x} {}", change.addresses.start, change.name.shown()), &|of| of(change)))
        .collect();
    lines.push(line("total".into(), &sum));
    let header = [
        "mapping",
        "resident\nbefore",
        "after",
        "huge\nbefore",
        "after",
        if args.undo { "huge pages\nto split" } else { "extents\ntried" },
        "too\nsparse",
    ];
    tabulate::numbers(header, lines)
}

/// A row of the results: a mapping.
#[derive(Serialize)]
struct Row<'a> {
    pid: i32,
    start: String,
    end: String,
    name: &'a str,
    resident_before: u64,
    resident_after: u64,
    huge_before: u64,
    huge_after: u64,
    extents_tried: u64,
    extents_sparse: u64,
    extents_refused: u64,
}

fn rows(pid: i32, changes: &[Change]) -> Vec<Row<'_>> {
    let rows = changes.iter().map(|change| Row {
        pid,
        start: format!("{:#x}", change.addresses.start),
        end: format!("{:#x}", change.addresses.end),
        name: &change.name,
        resident_before: change.resident[0],
        resident_after: change.resident[1],
        huge_before: change.huge[0],
        huge_after: change.huge[1],
        extents_tried: change.tried,
        extents_sparse: change.sparse,
        extents_refused: change.refused.values().sum(),
    });
    rows.collect()
}
