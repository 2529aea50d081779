//! The report of `reach run`: everything that one simulation knows, in groups.

use crate::args::simulate::Timing;
use crate::experiment::Finished;
use crate::{curve, table, tabulate, units};
use reach_core::{Label, PageShift};
use reach_hardware::config::Tlb;
use reach_hardware::{CacheCounters, Counters};
use reach_lab::machine::Resolved;
use reach_lab::{Outcome, Tally};

/// Processes beyond these, by cycles, are not listed one by one.
const PROCESSES: usize = 20;

/// The report.
pub fn report(machine: &Resolved, finished: &Finished) -> String {
    let outcome = &finished.report.outcomes[0];
    let timing = match finished.timing {
        Timing::Counts => "counts: translation work at fixed costs, no caches",
        Timing::InOrder => "inorder: a blocking core that executes in order, with caches",
        Timing::Ooo => "ooo: a core that executes out of order, with caches",
    };
    let mut sheet = Sheet::default();
    cycles(&mut sheet, outcome);
    translation(&mut sheet, outcome, finished.timing);
    wcpi(&mut sheet, outcome);
    faults(&mut sheet, outcome);
    memory(&mut sheet, outcome);
    [
        table::heading(&finished.report),
        "\n".into(),
        tabulate::definitions([
            ("machine", machine.name.as_str()),
            ("", &machine.about),
            ("system", &outcome.system),
            ("timing", timing),
        ]),
        sheet.0,
        arrays(machine),
        outcome.curve.as_ref().map_or_else(String::new, curve::tables),
        caches(outcome),
        processes(outcome),
        "\n".into(),
        table::sampled(&finished.report),
        table::closing(finished),
    ]
    .concat()
}

/// Facts in groups: a name, a number, a remark.
#[derive(Default)]
struct Sheet(String);

impl Sheet {
    fn group(&mut self, title: &str) {
        self.0 += &format!("\n{title}\n");
    }

    fn fact(&mut self, name: &str, value: impl AsRef<str>, remark: impl AsRef<str>) {
        let line = format!("  {name:<28}{:>15}  {}", value.as_ref(), remark.as_ref());
        self.0 += line.trim_end();
        self.0.push('\n');
    }

    fn count(&mut self, name: &str, n: u64, remark: impl AsRef<str>) {
        self.fact(name, units::grouped(n), remark);
    }

    /// A count that is left out where there is none.
    fn some(&mut self, name: &str, n: u64) {
        if n > 0 {
            self.count(name, n, "");
        }
    }
}

fn cycles(sheet: &mut Sheet, outcome: &Outcome) {
    let tally = &outcome.total;
    let (all, instructions) = (tally.ledger.total().0, tally.counts.instructions);
    sheet.group("cycles");
    let error = outcome.error(&|t| (t.cycles(), t.counts.instructions));
    let each = all as f64 / instructions.max(1) as f64;
    sheet.count("all", all, format!("{} an instruction", units::decimal_within(each, error, 2)));
    let meaning = |label| match label {
        Label::Compute => "executing instructions",
        Label::Cache => "caches and memory",
        Label::L2TlbHit => "hits in later TLB levels",
        Label::Walk => "page walks",
        Label::Handler => "TLB miss handlers",
        Label::Copy => "copying for promotion",
        Label::Remap => "remapping and shootdowns",
        Label::Fault => "page faults and zeroing",
        Label::Daemon => "daemons",
        Label::ItlbStall => "ITLB entries still in use",
        Label::ItlbWalk => "page walks for fetches",
        Label::ItlbL2TlbHit => "ITLB hits in later levels",
        Label::Branch => "branches guessed wrong",
    };
    for label in Label::ALL {
        let cycles = tally.ledger.charged(label).0;
        if cycles > 0 {
            let error = outcome.error(&|t| (t.ledger.charged(label).0, t.cycles()));
            // An error takes the room of what the label means.
            let meaning = if error.is_some() { "" } else { meaning(label) };
            sheet.count(label.name(), cycles, format!("{}  {meaning}", share(cycles, all, error)));
        }
    }
    let error = outcome.error(&|t| (t.translation(), t.cycles()));
    let meaning = if error.is_some() { "" } else { "TLB hits, walks, stalls" };
    sheet.fact("translation", "", format!("{}  {meaning}", share(tally.translation(), all, error)));
}

/// A share of cycles in per cent, with its error where that is known.
fn share(cycles: u64, all: u64, error: Option<f64>) -> String {
    let share = 100.0 * cycles as f64 / all.max(1) as f64;
    let error = error.map_or(String::new(), |error| format!(" ±{:<4.1}", 100.0 * error));
    format!("{share:>5.1}{error} %")
}

fn translation(sheet: &mut Sheet, outcome: &Outcome, timing: Timing) {
    let tally = &outcome.total;
    let (c, h) = (&tally.counts, &tally.hardware);
    sheet.group("translation");
    let mut count = |name: &str, of: fn(&Counters) -> u64| {
        let per = 1000.0 * of(h) as f64 / c.instructions.max(1) as f64;
        let error = outcome.error(&|t| (of(&t.hardware), t.counts.instructions)).map(|error| 1000.0 * error);
        sheet.count(name, of(h), format!("{} per 1000 instr", units::decimal_within(per, error, 3)));
    };
    count("L1 misses of fetches", |h| h.l1i_tlb_misses);
    count("L1 misses of data", |h| h.l1d_tlb_misses);
    count("held by a later level", Counters::l2_tlb_hits);
    count("walks", Counters::walks);
    count("walks for fetches", |h| h.walks_fetch);
    count("walks for data", |h| h.walks_data);
    count("walks that ended in a fault", |h| h.walks_faulting);
    let estimated = if timing == Timing::Counts { "estimated: fixed cost an entry" } else { "" };
    sheet.count("page-table entries read", h.walk_accesses, "");
    sheet.count("walk cycles", h.walk_cycles, estimated);
    sheet.count("dirty bits set", h.dirty_updates, "");
    if timing == Timing::Ooo {
        let hidden = "whether or not it was hidden";
        sheet.count("front end waited", h.itlb_stall(), hidden);
        sheet.count("  for walks", h.itlb_stall_walk, "");
        sheet.count("  for later levels", h.itlb_stall_l2_tlb_hit, "");
        sheet.count("  for entries still in use", h.itlb_stall_inclusion, "");
        let share = 100.0 * h.mispredictions as f64 / h.branches.max(1) as f64;
        let error = outcome.error(&|t| (t.hardware.mispredictions, t.hardware.branches)).map(|error| 100.0 * error);
        let share = units::decimal_within(share, error, 2);
        sheet.count("branches guessed wrong", h.mispredictions, format!("{share} % of {}", units::grouped(h.branches)));
    }
}

/// The factors of Lindsay and Bhattacharjee §IV.
fn wcpi(sheet: &mut Sheet, outcome: &Outcome) {
    sheet.group("WCPI");
    let mut fact = |name: &str, of: fn(&Tally) -> (u64, u64), decimals: usize| {
        let (a, b) = of(&outcome.total);
        let x = if b == 0 { 0.0 } else { a as f64 / b as f64 };
        let error = outcome.error(&of).map_or(String::new(), |error| format!("±{error:.decimals$}"));
        sheet.fact(name, units::decimal(x, decimals), error);
    };
    fact("walk cycles per instruction", |t| (t.hardware.walk_cycles, t.counts.instructions), 6);
    fact("= references per instruction", |t| (t.counts.references(), t.counts.instructions), 6);
    fact("× misses per reference", |t| (t.hardware.walks(), t.counts.references()), 6);
    fact("× entries read per miss", |t| (t.hardware.walk_accesses, t.hardware.walks()), 3);
    fact("× cycles per entry read", |t| (t.hardware.walk_cycles, t.hardware.walk_accesses), 3);
}

fn faults(sheet: &mut Sheet, outcome: &Outcome) {
    let os = &outcome.os;
    sheet.group("page faults");
    sheet.count("all", os.page_faults, "");
    sheet.some("first touch, anonymous", os.anonymous_faults);
    sheet.some("answered with the zero page", os.zero_page_faults);
    sheet.some("first touch, files", os.file_faults);
    sheet.some("copy on write", os.cow_faults);
    sheet.some("shared-file store, noticed", os.write_notify_faults);
    sheet.some("nothing to do", os.spurious_faults);
    sheet.some("that waited for a file", os.major_faults);
    sheet.some("pages mapped around faults", os.fault_around_pages);
    sheet.some("references to no mapping", os.stray);
    sheet.some("forbidden, let through", os.violations);
}

fn memory(sheet: &mut Sheet, outcome: &Outcome) {
    let os = &outcome.os;
    sheet.group("memory");
    let mut bytes = |name: &str, bytes: u64| sheet.fact(name, units::memory(bytes), "");
    bytes("resident at most", os.resident_bytes.peak);
    bytes("page tables at most", os.page_table_bytes.peak);
    bytes("zeroed", os.bytes_zeroed);
    bytes("copied", os.bytes_copied);
    bytes("read in from files", os.bytes_read_in);
    for (size, gauge) in outcome.sizes.iter().skip(1).zip(&os.superpages) {
        sheet.some(&format!("superpages of {size} at most"), gauge.peak);
    }
    sheet.some("promotions", os.promotions);
    sheet.some("demotions", os.demotions);
    sheet.some("reservations", os.reservations);
    sheet.some("reservations preempted", os.preemptions);
    sheet.some("superpages not to be had", os.superpage_fallbacks);
    if os.padded_bytes > 0 {
        sheet.fact("code padded by", units::memory(os.padded_bytes), "");
    }
    sheet.some("shootdowns", os.shootdowns);
    sheet.some("forks", os.forks);
    sheet.fact("contiguity of what is free", units::decimal(outcome.contiguity, 3), "0 to 1");
}

/// The TLB arrays, with the memory that each can map.
fn arrays(machine: &Resolved) -> String {
    let rows = machine.hardware.tlbs.iter().map(|tlb| {
        let sizes: Vec<_> = tlb.sizes.iter().map(PageShift::to_string).collect();
        let reach = |size: &PageShift| units::memory(u64::from(tlb.entries) * size.bytes());
        let reach = match (tlb.sizes.first(), tlb.sizes.last()) {
            (Some(least), Some(most)) if least != most => format!("{} to {}", reach(least), reach(most)),
            (least, _) => least.map_or(String::new(), reach),
        };
        [
            format!("  {}", tlb.name),
            tlb.level.to_string(),
            serves(tlb),
            tlb.entries.to_string(),
            if tlb.ways == tlb.entries { "full".into() } else { tlb.ways.to_string() },
            sizes.join("+"),
            tlb.latency.to_string(),
            reach,
        ]
    });
    let header = ["  TLB array", "level", "serves", "entries", "ways", "sizes", "cycles", "reach"];
    format!("\n{}", tabulate::numbers(header, rows))
}

fn serves(tlb: &Tlb) -> String {
    let serves = &tlb.serves;
    let all = [(serves.fetch, "fetch"), (serves.load, "load"), (serves.store, "store")];
    match (serves.fetch, serves.load, serves.store) {
        (true, true, true) => "all".into(),
        (false, true, true) => "data".into(),
        _ => all.iter().filter(|(yes, _)| *yes).map(|(_, name)| *name).collect::<Vec<_>>().join("+"),
    }
}

/// The caches, where they were simulated.
fn caches(outcome: &Outcome) -> String {
    if outcome.caches.is_empty() {
        return String::new();
    }
    let rows = outcome.caches.iter().enumerate().map(|(at, (name, c))| {
        let share = |of: fn(&CacheCounters) -> (u64, u64)| {
            let (misses, all) = of(c);
            units::percent_within(misses as f64 / all.max(1) as f64, outcome.cache_error(at, &of))
        };
        [
            format!("  {name}"),
            units::short((c.fetches + c.loads + c.stores + c.walks) as f64),
            share(|c| (c.fetch_misses, c.fetches)),
            share(|c| (c.load_misses, c.loads)),
            share(|c| (c.store_misses, c.stores)),
            units::short(c.write_backs as f64),
        ]
    });
    let header = ["  cache", "accesses", "fetch misses", "load misses", "store misses", "write-backs"];
    format!("\n{}", tabulate::numbers(header, rows))
}

/// Each process, where there are several; the costliest where there are many.
fn processes(outcome: &Outcome) -> String {
    if outcome.processes.len() < 2 {
        return String::new();
    }
    let mut all: Vec<_> = outcome.processes.iter().collect();
    let left = all.len().saturating_sub(PROCESSES);
    all.sort_by_key(|(asid, tally)| (std::cmp::Reverse(tally.ledger.total()), **asid));
    all.truncate(PROCESSES);
    all.sort_by_key(|(asid, _)| **asid);
    let rows = all.into_iter().map(|(asid, tally)| {
        let (c, h) = (&tally.counts, &tally.hardware);
        let instructions = c.instructions.max(1) as f64;
        let os = outcome.os_processes.get(asid);
        let walks = outcome.process_error(*asid, &|t| (t.hardware.walks(), t.counts.instructions));
        let wcpi = outcome.process_error(*asid, &|t| (t.hardware.walk_cycles, t.counts.instructions));
        let translation = outcome.process_error(*asid, &|t| (t.translation(), t.cycles()));
        [
            format!("  {} {}", asid.0, outcome.names.get(asid).map_or("", String::as_str)),
            units::short(c.instructions as f64),
            units::decimal_within(1000.0 * h.walks() as f64 / instructions, walks.map(|error| 1000.0 * error), 2),
            units::decimal_within(h.walk_cycles as f64 / instructions, wcpi, 3),
            units::percent_within(table::translation(tally), translation),
            units::grouped(os.map_or(0, |os| os.page_faults)),
            units::memory(os.map_or(0, |os| os.resident_bytes.peak)),
        ]
    });
    let header =
        ["  process", "instructions", "walks\nper 1000", "WCPI", "translation\n% of cycles", "faults", "memory"];
    let mut out = match outcome.sample {
        None => format!("\n{}", tabulate::numbers(header, rows)),
        // Errors take the room of what is of the whole program.
        Some(_) => {
            let five = |[a, b, c, d, e, ..]: [String; 7]| [a, b, c, d, e];
            let [a, b, c, d, e, ..] = header;
            format!("\n{}", tabulate::numbers([a, b, c, d, e], rows.map(five)))
        }
    };
    if left > 0 {
        out += &format!("  and {} that took fewer cycles\n", units::plural(left as u64, "other", "others"));
    }
    out
}
