//! `reach pages`: shows the pages of a running process, and changes them.

mod collapse;

use super::show::no_process;
use crate::args::results::Format;
use crate::args::this_linux::{PagesArgs, PagesVerb};
use crate::failure::{Failure, VerbResult};
use crate::units::{grouped, memory, percent};
use crate::{output, tabulate};
use reach_core::Shown;
use reach_live::pages::{Area, Pages};
use serde::Serialize;

/// Examines the process and prints its pages.
pub fn pages(args: &PagesArgs) -> VerbResult {
    if let Some(PagesVerb::Collapse(args)) = &args.verb {
        return collapse::collapse(args);
    }
    let Some(pid) = args.pid else { return Err(Failure::Usage("expected a process ID".into())) };
    let pages = Pages::of(pid).map_err(|error| Failure::Failed(no_process(pid, &error)))?;
    output::print(&match args.format {
        Format::Table => tabulate::fitted(&table(pid, args.all, &pages)),
        Format::Jsonl => rows(pid, &pages).iter().map(|row| output::json(row) + "\n").collect(),
        Format::Csv => output::csv(&rows(pid, &pages)),
    })?;
    Ok(0)
}

fn table(pid: i32, all: bool, pages: &Pages) -> String {
    let total: u64 = pages.areas.iter().map(|area| area.resident).sum();
    let mut shown: Vec<&Area> = pages.areas.iter().collect();
    shown.sort_by_key(|area| std::cmp::Reverse(area.resident));
    let large = if all { shown.len() } else { shown.iter().take_while(|area| 100 * area.resident >= total).count() };
    let mut lines: Vec<[String; 6]> = shown[..large].iter().map(|area| line(&label(area), &[area])).collect();
    if large < shown.len() {
        lines.push(line(&format!("{} smaller mappings", shown.len() - large), &shown[large..]));
    }
    lines.push(line("total", &shown));
    let header = ["mapping", "resident", "base\npages", "larger\nfolios", "super-\npages", "bloat"];
    let heading = format!("{} ({}): {} resident\n", pages.name.shown(), pid, memory(total));
    heading + &tabulate::numbers(header, lines) + &contiguity(pages)
}

fn label(area: &Area) -> String {
    let name = match area.name.rsplit_once('/') {
        Some((_, file)) => file,
        None => &area.name,
    };
    format!("{:012x} {} {}", area.addresses.start, area.permissions, name.shown())
}

fn line(name: &str, areas: &[&Area]) -> [String; 6] {
    let sum = |of: &dyn Fn(&Area) -> Option<u64>| areas.iter().map(|area| of(area)).sum::<Option<u64>>();
    let shown =
        |bytes: Option<u64>| bytes.map_or("–".to_owned(), |bytes| if bytes == 0 { "0".into() } else { memory(bytes) });
    [
        name.to_owned(),
        shown(sum(&|area| Some(area.resident))),
        shown(sum(&base)),
        shown(sum(&larger)),
        shown(sum(&|area| Some(area.superpages + area.hugetlb))),
        shown(sum(&|area| area.bloat)),
    ]
}

/// Returns the bytes in folios of one base page; `None` if frames are hidden.
fn base(area: &Area) -> Option<u64> {
    area.by_order.map(|by_order| by_order[0])
}

/// Returns the bytes in larger folios that are not mapped as superpages; `None` if frames are hidden.
fn larger(area: &Area) -> Option<u64> {
    area.by_order.map(|by_order| by_order[1..].iter().sum::<u64>().saturating_sub(area.superpages + area.hugetlb))
}

fn contiguity(pages: &Pages) -> String {
    let Some(contiguity) = &pages.contiguity else {
        return "\nBase pages, larger folios, bloat and contiguity are visible to root only.\n".into();
    };
    let ranges = |percent| grouped(contiguity.ranges_for(percent) as u64);
    let longest = contiguity.ranges.first().copied().unwrap_or(0);
    format!(
        "\nlarger folios: units of several base pages that are mapped one by one\n\
         bloat: base pages of zeroes in superpages\n\
         contiguous ranges: {} hold 90 % of the memory, {} hold 99 %, {} hold all\n\
         longest range: {}, {} of the memory\n",
        ranges(90),
        ranges(99),
        grouped(contiguity.ranges.len() as u64),
        memory(4096 * longest),
        percent(longest as f64 / contiguity.pages().max(1) as f64),
    )
}

/// A row of the results: one metric of one mapping, or of all.
#[derive(Serialize)]
struct Row {
    pid: i32,
    mapping: String,
    metric: String,
    unit: &'static str,
    value: u64,
}

fn rows(pid: i32, pages: &Pages) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut add = |mapping: &str, metric: &str, unit, value: Option<u64>| {
        rows.extend(value.map(|value| Row { pid, mapping: mapping.into(), metric: metric.into(), unit, value }));
    };
    for area in &pages.areas {
        let name = format!("{:x}-{:x} {} {}", area.addresses.start, area.addresses.end, area.permissions, area.name);
        add(&name, "resident_bytes", "bytes", Some(area.resident));
        add(&name, "superpages.2M", "bytes", Some(area.superpages));
        add(&name, "superpages.hugetlb", "bytes", Some(area.hugetlb));
        add(&name, "bloat_bytes", "bytes", area.bloat);
        for (order, bytes) in area.by_order.iter().flatten().enumerate().filter(|(_, bytes)| **bytes > 0) {
            add(&name, &format!("folios.{}K", 4 << order), "bytes", Some(*bytes));
        }
    }
    if let Some(contiguity) = &pages.contiguity {
        add("all", "ranges", "ranges", Some(contiguity.ranges.len() as u64));
        add("all", "ranges_for_90_percent", "ranges", Some(contiguity.ranges_for(90) as u64));
        add("all", "ranges_for_99_percent", "ranges", Some(contiguity.ranges_for(99) as u64));
    }
    rows
}
