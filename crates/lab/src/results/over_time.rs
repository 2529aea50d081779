//! Rows of memory over time. Pages have them; other formats do not, because there are hundreds for each simulation.

use crate::simulation::{MemoryPoint, Outcome};
use reach_core::PageShift;
use serde::Serialize;
use std::collections::BTreeMap;

/// The state of memory after a number of instructions.
#[derive(Serialize)]
pub struct MemoryRow<'a> {
    machine: &'a str,
    system: &'a str,
    program: &'a str,
    instructions: u64,
    resident_bytes: u64,
    page_table_bytes: u64,
    /// `superpages.<size>`: superpages mapped.
    #[serde(flatten)]
    superpages: BTreeMap<String, u64>,
}

/// Returns the rows of a simulation of `program`.
pub fn memory_rows<'a>(outcome: &'a Outcome, program: &'a str) -> impl Iterator<Item = MemoryRow<'a>> {
    let name = |(size, count): (&PageShift, &u64)| (format!("superpages.{size}"), *count);
    let row = move |point: &MemoryPoint| MemoryRow {
        machine: &outcome.machine,
        system: &outcome.system,
        program,
        instructions: point.instructions,
        resident_bytes: point.resident_bytes,
        page_table_bytes: point.page_table_bytes,
        superpages: outcome.sizes.iter().skip(1).zip(&point.superpages).map(name).collect(),
    };
    outcome.over_time.iter().map(row)
}
