//! `reach where`: the cost of translation by owner.

mod compiled;
mod list;
pub mod names;
mod picture;
mod profile;

use crate::args::owners::{By, WhereArgs};
use crate::args::results::Format;
use crate::args::simulate::{Common, Timing};
use crate::compare::finish;
use crate::experiment::{self, Besides, Finished};
use crate::failure::{Failure, VerbResult, remark};
use crate::output::{self, Output};
use crate::page::{self, Content, HtmlFile};
use crate::{table, tabulate, units};
use list::{Entry, Owners, lists};
use names::Names;
use picture::picture;
use profile::profile;
use reach_core::Shown;
use reach_lab::attribution::Heat;
use reach_lab::machine::Resolved as Machine;
use reach_page::Table;
use reach_systems::Role;
use serde::Serialize;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Simulates the program and prints the lists.
pub fn owners(args: WhereArgs, quiet: bool) -> VerbResult {
    let WhereArgs { machine, system, mut by, top, folded, profile: profiled, mut common } = args;
    check(&common)?;
    let html = &common.output.html;
    output::refuse_same(&[("--folded", &folded), ("--profile", &profiled), ("--html", html)])?;
    let machine = match machine {
        Some(machine) => machine,
        None => experiment::nearest_machine(quiet)?,
    };
    let out = Output::open(&common.output)?;
    let html = HtmlFile::open(html, common.output.force)?;
    let [folded, profiled] = [folded, profiled].map(|path| path.map(|path| Output::create(&path, common.output.force)));
    let (folded, profiled) = (folded.transpose()?, profiled.transpose()?);
    common.conditions.whole = true;
    let besides = Besides { attribution: true, ..Besides::default() };
    let finished = experiment::run(vec![machine.clone()], vec![system], besides, &common, quiet)?;
    let outcome = &finished.report.outcomes[0];
    let attribution = outcome.attribution.as_ref().expect("it was requested");
    let execution = finished.report.ending.execution.as_ref();
    let names = Names::new(attribution, &outcome.names, outcome.processes.len() > 1, execution);
    if by.is_empty() {
        by = By::ALL.into();
        // Most programs run no script, and a list of one owner tells nothing.
        by.retain(|by| *by != By::Script || names.has_scripts());
    }
    let touched = Some(&attribution.touched).filter(|_| outcome.role == Role::Base);
    let owners = Owners::new(names.spent(outcome.total.translation()), touched, finished.timing != Timing::Counts);
    for path in names.changed() {
        let path = path.shown();
        remark(
            quiet,
            format!("{path} has changed since the program ran: its code has no names; record the program again"),
        );
    }
    let lists = lists(&owners, &by);
    let heat = Some(&attribution.heat).filter(|_| by.contains(&By::Time));
    let all_rows = || {
        let times = heat.into_iter().flat_map(|heat| times(&finished, &names, heat));
        lists.iter().flat_map(|(by, entries)| rows(&finished, *by, entries)).chain(times).collect::<Vec<_>>()
    };
    out.write(&match common.output.format() {
        Format::Table => {
            let picture = heat.map(|heat| picture(&names, heat));
            tabulate::fitted(&sheet(&machine, &finished, &lists, picture, top.into()))
        }
        Format::Jsonl => output::json(&finished.header) + "\n" + &output::json_lines(&all_rows()),
        Format::Csv => output::csv(&all_rows()),
    })?;
    if let Some(html) = html {
        html.write(&content(&machine, &finished, &lists, output::json_lines(&all_rows()), top.into()))?;
    }
    let stacks = list::stacks(&owners);
    folded.map(|file| file.write(&list::folded(&stacks))).transpose()?;
    profiled.map(|file| file.write(&profile(&finished.report.program, &stacks))).transpose()?;
    finish(finished, true)
}

/// Refuses options of results and samples that have no meaning here.
fn check(common: &Common) -> Result<(), Failure> {
    if !common.output.metrics.is_empty() {
        return Err(Failure::Usage("--metric is for compare and run; choose lists with --by".into()));
    }
    if common.conditions.sample.is_some() || common.conditions.precision.is_some() {
        let why = "costs are attributed of whole programs: leave out --sample and --precision, and use --limit or \
                   --fast-forward for a part of one";
        return Err(Failure::Usage(why.into()));
    }
    Ok(())
}

/// A row of results.
#[derive(Serialize)]
struct Row<'a> {
    machine: &'a str,
    system: &'a str,
    program: &'a str,
    by: &'static str,
    owner: Cow<'a, str>,
    /// Cycles that the core waits for translation; none where time is not simulated.
    cycles: Option<u64>,
    walk_cycles: Option<u64>,
    walks: Option<u64>,
    walk_accesses: Option<u64>,
    l1_tlb_misses: u64,
    /// Bytes of pages that were touched; of extents only, and under base pages only.
    touched_bytes: Option<u64>,
    /// Of rows by time: the first reference of the span, and the first behind it, counted from the start of measuring.
    from_reference: Option<u64>,
    to_reference: Option<u64>,
}

impl<'a> Row<'a> {
    /// Returns a row of `finished` that has misses and nothing else.
    fn new(finished: &'a Finished, by: By, owner: Cow<'a, str>, l1_tlb_misses: u64) -> Row<'a> {
        let outcome = &finished.report.outcomes[0];
        Row {
            machine: &outcome.machine,
            system: &outcome.system,
            program: &finished.report.program,
            by: by.name(),
            owner,
            cycles: None,
            walk_cycles: None,
            walks: None,
            walk_accesses: None,
            l1_tlb_misses,
            touched_bytes: None,
            from_reference: None,
            to_reference: None,
        }
    }
}

/// Returns the rows of a list.
fn rows<'a>(finished: &'a Finished, by: By, entries: &'a [Entry]) -> impl Iterator<Item = Row<'a>> {
    let timed = finished.timing != Timing::Counts;
    entries.iter().map(move |Entry { owner, spent, touched }| Row {
        cycles: timed.then_some(spent.cycles),
        walk_cycles: timed.then_some(spent.walk_cycles),
        walks: Some(spent.walks),
        walk_accesses: Some(spent.walk_accesses),
        touched_bytes: *touched,
        ..Row::new(finished, by, owner.into(), spent.misses)
    })
}

/// Returns the misses of each extent in each span of time, in the order of time and names.
fn times<'a>(finished: &'a Finished, names: &Names, heat: &Heat) -> Vec<Row<'a>> {
    let references = finished.report.outcomes[0].total.counts.references();
    let mut rows = Vec::new();
    for (from, span) in (0..).step_by(heat.references as usize).zip(&heat.spans) {
        let mut owners: BTreeMap<String, u64> = BTreeMap::new();
        span.iter().for_each(|(place, misses)| *owners.entry(names.extent(*place)).or_default() += misses);
        rows.extend(owners.into_iter().map(|(owner, misses)| Row {
            from_reference: Some(from),
            to_reference: Some((from + heat.references).min(references)),
            ..Row::new(finished, By::Time, owner.into(), misses)
        }));
    }
    rows
}

/// Returns the lists for people.
fn sheet(
    machine: &Machine,
    finished: &Finished,
    lists: &[(By, Vec<Entry>)],
    picture: Option<String>,
    top: usize,
) -> String {
    let mut out = table::heading(&finished.report) + &table::findings(&finished.report) + "\n";
    out += &tabulate::paragraph("", &summary(machine, finished));
    for (by, entries) in lists {
        let (header, rows) = one_list(*by, entries, top, cycles(finished));
        out += "\n";
        out += &tabulate::list_of_numbers(header, rows);
    }
    out += &picture.map(|picture| format!("\n{picture}")).unwrap_or_default();
    out += "\n";
    meanings(finished, lists).iter().for_each(|meaning| out += &tabulate::paragraph("", meaning));
    out + &table::closing(finished)
}

/// Returns the content of the page, with these rows.
fn content(machine: &Machine, finished: &Finished, lists: &[(By, Vec<Entry>)], rows: String, top: usize) -> Content {
    let table = |(by, entries): &(By, Vec<Entry>)| {
        let (header, rows) = one_list(*by, entries, top, cycles(finished));
        Table { caption: format!("Cost of translation by {}", by.name()), header, rows, notes: Vec::new() }
    };
    let mut content = Content { tables: lists.iter().map(table).collect(), rows, ..page::of_program(finished) };
    content.lead.push(summary(machine, finished));
    content.lead.extend(table::notes(&finished.report.outcomes).map(|(mark, text)| mark + text));
    content.lead.extend(meanings(finished, lists).into_iter().map(str::to_owned));
    content
}

/// Returns the cycles of the program; `None` where time is not simulated.
fn cycles(finished: &Finished) -> Option<u64> {
    (finished.timing != Timing::Counts).then(|| finished.report.outcomes[0].total.cycles())
}

/// Returns a sentence with the cost of all translations.
fn summary(machine: &Machine, finished: &Finished) -> String {
    let outcome = &finished.report.outcomes[0];
    let mut summary = format!("{} under {}: ", machine.name, outcome.system);
    if let Some(all) = cycles(finished) {
        let share = units::percent(table::translation(&outcome.total));
        summary += &format!("the core waits {share} of {} cycles for translation; ", units::short(all as f64));
    }
    summary + &format!("{} page walks", units::short(outcome.total.hardware.walks() as f64))
}

/// Returns what the columns of `lists` mean.
fn meanings(finished: &Finished, lists: &[(By, Vec<Entry>)]) -> Vec<&'static str> {
    let touched = lists.iter().any(|(_, entries)| entries.iter().any(|entry| entry.touched.is_some()));
    let touched =
        touched.then_some("pages touched: what a superpage of 2 MB would need; the rest of it would be wasted");
    let timed = cycles(finished).map(|_| {
        "% of cycles: of all cycles, those that the core waits for the translations of this owner; walk cycles: those of its \
         page walks, which other work may hide"
    });
    touched.into_iter().chain(timed).collect()
}

/// Returns the header and the lines of one list: its first `top` entries, and one for the rest. `cycles` are those of the program;
/// `None` where time is not simulated.
fn one_list(by: By, entries: &[Entry], top: usize, cycles: Option<u64>) -> (Vec<String>, Vec<Vec<String>>) {
    let (first, rest) = entries.split_at(top.min(entries.len()));
    let rest = Entry::sum(format!("{} more", units::grouped(rest.len() as u64)), rest);
    let shown = first.iter().chain((entries.len() > top).then_some(&rest));
    let short = |n: u64| units::short(n as f64);
    let timed = cycles.is_some();
    let row = |entry: &Entry| {
        let spent = &entry.spent;
        let mut cells = vec![entry.owner.clone()];
        if let Some(all) = cycles {
            cells.push(units::percent(spent.cycles as f64 / all.max(1) as f64));
            cells.push(short(spent.walk_cycles));
        }
        cells.extend([short(spent.walks), short(spent.misses)]);
        cells.extend(entry.touched.map(units::memory));
        cells
    };
    let time: &[&str] = if timed { &["% of\ncycles", "walk\ncycles"] } else { &[] };
    let touched = entries.iter().any(|entry| entry.touched.is_some()).then_some("pages\ntouched");
    let names = [by.name()].into_iter().chain(time.iter().copied()).chain(["walks", "L1 TLB\nmisses"]).chain(touched);
    (names.map(str::to_owned).collect(), shown.map(row).collect())
}
