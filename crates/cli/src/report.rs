//! Prints the report of `reach run`: all counters of one simulation, in groups.

use crate::args::simulate::Timing;
use crate::experiment::Finished;
use crate::{curve, table, tabulate, units};
use reach_core::{Label, PageShift};
use reach_hardware::config::Tlb;
use reach_hardware::{CacheCounters, Counters};
use reach_lab::machine::Resolved;
use reach_lab::metrics::{self, Estimate, Rate};
use reach_lab::{Outcome, Tally};

/// Greatest number of processes listed: those with the most cycles.
const PROCESSES: usize = 20;

/// Returns the report.
pub fn report(machine: &Resolved, finished: &Finished) -> String {
    let outcome = &finished.report.outcomes[0];
    let timing = match finished.timing {
        Timing::Counts => "counts: events only; no caches and no cycles",
        Timing::InOrder => "inorder: a blocking in-order core with caches; every miss costs all of its latency",
        Timing::Ooo => "ooo: an out-of-order core with caches",
    };
    let mut sheet = Sheet::default();
    let timed = finished.timing != Timing::Counts;
    if timed {
        cycles(&mut sheet, outcome);
    }
    translation(&mut sheet, outcome, finished.timing);
    if timed {
        wcpi(&mut sheet, outcome);
    }
    if outcome.kernel_code {
        kernel_code(&mut sheet, outcome);
    }
    faults(&mut sheet, outcome);
    memory(&mut sheet, outcome);
    [
        table::heading(&finished.report),
        table::findings(&finished.report),
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
        processes(outcome, timed),
        "\n".into(),
        table::sampled(&finished.report),
        table::closing(finished),
    ]
    .concat()
}

/// Lines in groups: a name, a number, a remark.
#[derive(Default)]
struct Sheet(String);

impl Sheet {
    fn group(&mut self, title: &str) {
        self.0 += "\n";
        self.0 += &tabulate::paragraph("", title);
    }

    fn fact(&mut self, name: &str, value: impl AsRef<str>, remark: impl AsRef<str>) {
        self.0 += &tabulate::fact(name, value.as_ref(), remark.as_ref().trim_end());
    }

    fn count(&mut self, name: &str, n: u64, remark: impl AsRef<str>) {
        self.fact(name, units::grouped(n), remark);
    }

    /// Adds a count unless it is zero.
    fn count_if_any(&mut self, name: &str, n: u64) {
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
    sheet.count("total", all, format!("{} per instruction", units::decimal_within(each, error, 2)));
    let meaning = |label| match label {
        Label::Compute => "executing instructions",
        Label::Cache => "caches and memory",
        Label::L2TlbHit => "later TLB levels: hits",
        Label::Walk => "page walks",
        Label::Handler => "TLB miss handlers",
        Label::Copy => "copying for promotion",
        Label::Remap => "remaps, TLB shootdowns",
        Label::Fault => "page faults and zeroing",
        Label::Daemon => "background daemons",
        Label::ItlbStall => "ITLB entries in use",
        Label::ItlbWalk => "page walks for fetches",
        Label::ItlbL2TlbHit => "later levels: ITLB hits",
        Label::Branch => "branch mispredictions",
        Label::Kernel => "the kernel's own code",
    };
    for label in Label::ALL {
        let cycles = tally.ledger.charged(label).0;
        if cycles > 0 {
            let error = outcome.error(&|t| (t.ledger.charged(label).0, t.cycles()));
            // An error bar needs the room of the meaning.
            let meaning = if error.is_some() { "" } else { meaning(label) };
            sheet.count(label.name(), cycles, format!("{}  {meaning}", share(cycles, all, error)));
        }
    }
    let error = outcome.error(&|t| (t.translation(), t.cycles()));
    let meaning = if error.is_some() { "" } else { "TLB hits, walks, stalls" };
    sheet.fact("translation", "", format!("{}  {meaning}", share(tally.translation(), all, error)));
}

fn kernel_code(sheet: &mut Sheet, outcome: &Outcome) {
    let kernel = &outcome.total.kernel;
    sheet.group("the kernel's own code");
    let unrecorded = match kernel.unrecorded {
        0 => String::new(),
        calls => format!("{} of kinds that were not recorded", units::grouped(calls)),
    };
    sheet.count("system calls", kernel.system_calls, unrecorded);
    sheet.count("page faults", kernel.faults, "");
    sheet.count_if_any("forks, execs, exits", kernel.processes);
    sheet.count_if_any("switches", kernel.switches);
    sheet.count_if_any("timer interrupts", kernel.interrupts);
    let all = kernel.instructions + outcome.total.counts.instructions;
    sheet.count("instructions", kernel.instructions, format!("{} of all", share(kernel.instructions, all, None)));
    sheet.count("walks", kernel.hardware.walks(), "");
}

/// Formats a share of cycles as a percentage of fixed width, with its error if known.
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
    count("L1 TLB misses, fetches", |h| h.l1i_tlb_misses);
    count("L1 TLB misses, data", |h| h.l1d_tlb_misses);
    count("hits in later TLB levels", Counters::l2_tlb_hits);
    count("page walks", Counters::walks);
    count("page walks, fetches", |h| h.walks_fetch);
    count("page walks, data", |h| h.walks_data);
    count("page walks ending in a fault", |h| h.walks_faulting);
    sheet.count("page-table entries read", h.walk_accesses, "");
    if timing != Timing::Counts {
        sheet.count("walk cycles", h.walk_cycles, "");
    }
    sheet.count("dirty bits set", h.dirty_updates, "");
    if timing == Timing::Ooo {
        sheet.count("ITLB stall cycles", h.itlb_stall(), "overlapped cycles included");
        sheet.count("  page walks", h.itlb_stall_walk, "");
        sheet.count("  hits in later TLB levels", h.itlb_stall_l2_tlb_hit, "");
        sheet.count("  ITLB entries in use", h.itlb_stall_inclusion, "");
        let share = 100.0 * h.mispredictions as f64 / h.branches.max(1) as f64;
        let error = outcome.error(&|t| (t.hardware.mispredictions, t.hardware.branches)).map(|error| 100.0 * error);
        let share = units::decimal_within(share, error, 2);
        sheet.count("branch mispredictions", h.mispredictions, format!("{share} % of {}", units::grouped(h.branches)));
    }
}

/// WCPI as a product of four factors (Lindsay and Bhattacharjee 2024, section IV).
fn wcpi(sheet: &mut Sheet, outcome: &Outcome) {
    sheet.group("WCPI: walk cycles per instruction, of all page walks");
    let mut fact = |name: &str, rate: &Rate, decimals: usize| {
        let Estimate { value, error } = outcome.rate(rate);
        let error = error.map_or(String::new(), |error| format!("±{error:.decimals$}"));
        sheet.fact(name, units::decimal(value, decimals), error);
    };
    let [references, misses, entries, cycles] = &metrics::WCPI_FACTORS;
    fact("WCPI", &metrics::WCPI, 6);
    fact("= references per instruction", references, 6);
    fact("× misses per reference", misses, 6);
    fact("× entries read per miss", entries, 3);
    fact("× cycles per entry read", cycles, 3);
}

fn faults(sheet: &mut Sheet, outcome: &Outcome) {
    let os = &outcome.os;
    sheet.group("page faults");
    sheet.count("total", os.page_faults, "");
    sheet.count_if_any("first touch, anonymous", os.anonymous_faults);
    sheet.count_if_any("zero page mapped", os.zero_page_faults);
    sheet.count_if_any("first touch, files", os.file_faults);
    sheet.count_if_any("copy on write", os.cow_faults);
    sheet.count_if_any("first store to a shared file", os.write_notify_faults);
    sheet.count_if_any("spurious", os.spurious_faults);
    sheet.count_if_any("of these, new superpages", os.superpage_faults);
    sheet.count_if_any("of these, new multi-size blocks", os.folio_faults);
    sheet.count_if_any("major: waited for a file", os.major_faults);
    sheet.count_if_any("pages mapped by fault-around", os.fault_around_pages);
    sheet.count_if_any("references outside mappings", os.implicit_mappings);
    sheet.count_if_any("access violations, allowed", os.violations);
}

fn memory(sheet: &mut Sheet, outcome: &Outcome) {
    let os = &outcome.os;
    sheet.group("memory");
    let mut bytes = |name: &str, bytes: u64| sheet.fact(name, units::memory(bytes), "");
    bytes("peak resident", os.resident_bytes.peak);
    bytes("peak page tables", os.page_table_bytes.peak);
    bytes("zeroed", os.bytes_zeroed);
    bytes("copied", os.bytes_copied);
    bytes("read from files", os.bytes_read_in);
    for (size, gauge) in outcome.sizes.iter().skip(1).zip(&os.superpages) {
        sheet.count_if_any(&format!("peak superpages of {size}"), gauge.peak);
    }
    sheet.count_if_any("promotions", os.promotions);
    sheet.count_if_any("demotions", os.demotions);
    sheet.count_if_any("reservations", os.reservations);
    sheet.count_if_any("reservations preempted", os.preemptions);
    sheet.count_if_any("superpage allocation failures", os.superpage_fallbacks);
    if os.padded_bytes > 0 {
        sheet.fact("padding of code", units::memory(os.padded_bytes), "");
    }
    sheet.count_if_any("shootdowns", os.shootdowns);
    sheet.count_if_any("forks", os.forks);
    sheet.fact("contiguity of free memory", units::decimal(outcome.contiguity, 3), "0 to 1");
}

/// The TLB arrays, each with its reach: the memory that it maps without a miss.
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
    let header = ["  TLB array", "level", "serves", "entries", "ways", "page sizes", "cycles", "reach"];
    format!("\n{}", tabulate::numbers(header, rows))
}

/// Names the kinds of reference that look up the array.
fn serves(tlb: &Tlb) -> String {
    let serves = &tlb.serves;
    let all = [(serves.fetch, "fetch"), (serves.load, "load"), (serves.store, "store")];
    match (serves.fetch, serves.load, serves.store) {
        (true, true, true) => "all".into(),
        (false, true, true) => "data".into(),
        _ => all.iter().filter(|(yes, _)| *yes).map(|(_, name)| *name).collect::<Vec<_>>().join("+"),
    }
}

/// The data and instruction caches; empty if the timing simulates none.
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

/// The processes, if there are several: the [`PROCESSES`] with the most cycles, or the most instructions unless `timed`.
fn processes(outcome: &Outcome, timed: bool) -> String {
    if outcome.processes.len() < 2 {
        return String::new();
    }
    let mut all: Vec<_> = outcome.processes.iter().collect();
    let left = all.len().saturating_sub(PROCESSES);
    let work = |tally: &Tally| if timed { tally.cycles() } else { tally.counts.instructions };
    all.sort_by_key(|(asid, tally)| (std::cmp::Reverse(work(tally)), **asid));
    all.truncate(PROCESSES);
    all.sort_by_key(|(asid, _)| **asid);
    let rows = all.into_iter().map(|(asid, tally)| {
        let (c, h) = (&tally.counts, &tally.hardware);
        let instructions = c.instructions.max(1) as f64;
        let os = outcome.os_processes.get(asid);
        let walks = outcome.process_error(*asid, &|t| (t.hardware.walks(), t.counts.instructions));
        let mut cells = vec![
            format!("  {} {}", asid.0, outcome.names.get(asid).map_or("", String::as_str)),
            units::short(c.instructions as f64),
            units::decimal_within(1000.0 * h.walks() as f64 / instructions, walks.map(|error| 1000.0 * error), 2),
        ];
        if timed {
            let wcpi = outcome.process_error(*asid, &metrics::WCPI.of);
            let translation = outcome.process_error(*asid, &|t| (t.translation(), t.cycles()));
            cells.push(units::decimal_within(h.walk_cycles as f64 / instructions, wcpi, 3));
            cells.push(units::percent_within(table::translation(tally), translation));
        }
        cells.push(units::grouped(os.map_or(0, |os| os.page_faults)));
        cells.push(units::memory(os.map_or(0, |os| os.resident_bytes.peak)));
        cells
    });
    let times: &[&str] = if timed { &["WCPI", "translation\n% of cycles"] } else { &[] };
    let titles = [&["  process", "instr", "walks per\n1000 instr"], times, &["page\nfaults", "peak\nmemory"]].concat();
    let header: Vec<String> = titles.into_iter().map(str::to_owned).collect();
    let rows: Vec<Vec<String>> = rows.collect();
    // Without room, the last two columns go: they are of the operating system, and in the groups above.
    let fewer = |row: &Vec<String>| row[..row.len() - 2].to_vec();
    let (some, few) = (fewer(&header), rows.iter().map(fewer).collect::<Vec<_>>());
    let all = tabulate::numbers_fit(&header, &rows) || !tabulate::numbers_fit(&some, &few);
    let (header, rows) = if all { (header, rows) } else { (some, few) };
    let mut out = "\n".to_owned() + &tabulate::list_of_numbers(header, rows);
    if left > 0 {
        let others = units::plural(left as u64, "other", "others");
        out += &tabulate::paragraph(
            "  ",
            &format!("and {others} with fewer {}", if timed { "cycles" } else { "instructions" }),
        );
    }
    out
}
