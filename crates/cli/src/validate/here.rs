//! `reach validate --here`: predicted speedups beside those that the clock of this computer gives.

mod measure;
mod plot;

use crate::args::results::Format;
use crate::args::validate::ValidateArgs;
use crate::captured::{self, MEMORY};
use crate::experiment::{nearest_machine, threads};
use crate::failure::{Failure, VerbResult, remark};
use crate::output;
use crate::page::Content;
use crate::program::interrupted_status;
use crate::tabulate;
use crate::units;
use crate::verdicts;
use reach_core::Shown;
use reach_lab::machine::{self, Resolved as Machine};
use reach_lab::paper::Verdict;
use reach_lab::validation::here::{HereRow, Measured, Predicted, Prepared, Seconds, programs, row};
use reach_lab::{ALL, Conditions, Experiment, Timing};
use reach_live::native::TUNABLES;
use reach_page::Table;
use reach_trace::live::Options;
use reach_trace::{Interruption, text};
use std::path::{Path, PathBuf};

/// The systems: 4 KB pages, and huge pages where the allocator asks for them, as in the native runs.
const SYSTEMS: [&str; 2] = ["base", "linux-thp:enabled=madvise"];

/// How long programs are sampled: as by `--sample` without a value.
const SAMPLE: &str = "every=200k";

/// Labels of cycles that the kernel takes.
const KERNEL: [&str; 4] = ["fault", "copy", "remap", "daemon"];

/// Measures and predicts the programs named; all of them if none is. Measures all before it predicts any: predictions may run on
/// a busy computer, and `--measured` takes the measurements of an earlier run.
pub fn here(args: ValidateArgs, quiet: bool) -> VerbResult {
    let all = programs();
    let known = || all.iter().map(|program| program.name.as_str()).collect::<Vec<_>>().join(", ");
    if let Some(name) = args.names.iter().find(|&name| all.iter().all(|program| program.name != *name)) {
        return Err(Failure::Usage(format!("there is no program {name:?}; there are {}", known())));
    }
    let chosen: Vec<_> = all.iter().filter(|p| args.names.is_empty() || args.names.contains(&p.name)).collect();
    let machine = match &args.machine {
        Some(name) => machine::resolve(name).map_err(Failure::failed)?,
        None => nearest_machine(quiet)?,
    };
    let earlier = args.measured.as_deref().map(earlier).transpose()?;
    let html = super::html(&args)?;
    let force = args.force || args.output.is_none();
    let path = args.output.unwrap_or_else(|| PathBuf::from("target/validation/here.jsonl"));
    let file = verdicts::create(&path, force)?;
    let threads = threads(args.threads);
    let mut interruption = Interruption::default();
    let mut programs = Vec::new();
    for (at, &program) in chosen.iter().enumerate() {
        let prepared = program.prepare();
        let of_earlier = earlier.as_ref().map(|rows| rows.iter().find(|row| row.item == program.name));
        // The programs before change which frames are free.
        let scatter = of_earlier.map_or_else(captured::frames_here, |row| row?.scatter());
        let measured = match (&prepared, of_earlier) {
            (Err(why), _) => Err(why.clone()),
            (Ok(_), Some(row)) => measured_in(row),
            (Ok(prepared), None) => {
                remark(quiet, format!("measuring program {} of {}: {}", at + 1, chosen.len(), program.name));
                measure::measure(prepared, || interruption.came().is_some())
            }
        };
        programs.push((program, prepared, measured, scatter));
    }
    if programs.iter().all(|(.., scatter)| scatter.is_none()) {
        remark(
            quiet,
            "the kernel hides page frames from this user: predictions are for the machine's, contiguous unless the probe measured them; run it as root",
        );
    }
    let mut rows: Vec<HereRow> = Vec::new();
    for (at, (program, prepared, measured, scatter)) in programs.into_iter().enumerate() {
        if interruption.came().is_some() {
            break;
        }
        remark(quiet, format!("predicting program {} of {}: {}", at + 1, chosen.len(), program.name));
        let machine = captured::with_frames(machine.clone(), scatter);
        let predicted = prepared.and_then(|prepared| predict(&prepared, &machine, threads, &mut interruption));
        if interruption.came().is_none() {
            rows.push(row(program, &machine.name, scatter, measured, predicted));
        }
    }
    let interrupted = interruption.came();
    let lines = output::json_lines(&rows);
    file.write(&if Format::of_name(&path) == Format::Csv { output::csv(&rows) } else { lines.clone() })?;
    output::print(&match args.format {
        Format::Table => tabulate::fitted(&table(&rows, &machine.name)),
        Format::Jsonl => lines,
        Format::Csv => output::csv(&rows),
    })?;
    if let Some(html) = html {
        html.write(&content(&rows, &machine))?;
    }
    remark(quiet, format!("saved {} to {}", units::plural(rows.len() as u64, "row", "rows"), path.shown()));
    if interrupted.is_some() {
        remark(quiet, "interrupted: the rows cover the finished programs only");
    }
    Ok(interrupted.map_or(0, interrupted_status))
}

/// Reads the rows of an earlier run.
fn earlier(path: &Path) -> Result<Vec<HereRow>, Failure> {
    let refused = |why: String| Failure::Usage(format!("--measured {}: {why}", path.shown()));
    let text = text::read(path, text::MAX_BYTES).map_err(|error| refused(error.to_string()))?;
    let read = |(at, line)| {
        serde_json::from_str(line).map_err(|error| {
            refused(format!("line {}: expected a row that `validate --here` has saved as JSON: {error}", at + 1))
        })
    };
    text.lines().enumerate().map(read).collect()
}

/// Returns what was measured of a program in an earlier run.
fn measured_in(row: Option<&HereRow>) -> Result<Measured, String> {
    let row = row.ok_or("--measured has no row of it")?;
    Measured::of(row).ok_or_else(|| format!("not measured: {}", row.reason))
}

/// Captures the program once, and simulates it on `machine` without and with huge pages.
fn predict(
    prepared: &Prepared,
    machine: &Machine,
    threads: usize,
    interruption: &mut Interruption,
) -> Result<Predicted, String> {
    let folder = prepared.folder.path();
    let options = Options {
        program: prepared.program.clone().into(),
        args: prepared.args.clone(),
        environment: vec![(TUNABLES.0.into(), TUNABLES.1.into())],
        folder: Some(folder.to_owned()),
        output: Some(folder.join("captured.txt")),
        own_group: true,
        ..Options::default()
    };
    let systems = SYSTEMS.map(|name| reach_systems::resolve(name).map_err(|error| error.to_string()));
    let systems = systems.into_iter().collect::<Result<Vec<_>, _>>()?;
    let conditions = Conditions { timing: Timing::Ooo, ..Conditions::new(MEMORY) };
    let experiment = Experiment {
        threads,
        sample: Some(SAMPLE.parse()?),
        ..Experiment::new(vec![machine.clone()], systems, conditions)
    };
    let report = captured::simulate(options, None, &experiment, interruption, |_| {})?.report;
    let rows = report.rows();
    let of = |system: &str, metric: &str| {
        let found = rows.iter().find(|row| row.metric == metric && row.process == ALL && row.system == system);
        found.ok_or_else(|| format!("the simulation gives no {metric}"))
    };
    let seconds = |system: &str| -> Result<Seconds, String> {
        let cycles = |metric: &str| of(system, metric).map_or(0.0, |row| row.value.as_f64());
        let all = of(system, "cycles")?.value.as_f64();
        let kernel: f64 = KERNEL.iter().map(|label| cycles(&format!("cycles.{label}"))).sum();
        let hertz = machine.hardware.core.hertz as f64;
        Ok(Seconds { user: (all - kernel) / hertz, system: kernel / hertz })
    };
    let [base, huge] = SYSTEMS.map(seconds);
    let speedup = of(SYSTEMS[1], "speedup")?;
    Ok(Predicted { speedup: speedup.value.as_f64(), error: speedup.error, base: base?, huge: huge? })
}

/// Returns the content of the page.
fn content(rows: &[HereRow], machine: &Machine) -> Content {
    let (header, lines) = lines(rows);
    let reasons = rows.iter().filter(|row| !row.reason.is_empty());
    let reasons = reasons.map(|row| format!("{}: {}: {}", row.verdict.name(), row.item, row.reason));
    Content {
        title: "The clock of this computer and Reach".into(),
        lead: vec![MEANING.into(), format!("predicted on {}: {}", machine.name, machine.about), totals(rows)],
        tables: vec![Table { caption: "speedups by huge pages".into(), header, rows: lines, notes: reasons.collect() }],
        rows: output::json_lines(rows),
        configuration: machine.configuration.clone(),
    }
}

/// What the table of a run shows.
const MEANING: &str =
    "processor time in seconds, user + system, medians; speedup: 95 % interval of the median of pairs";

/// Returns the header and the line of each program.
fn lines(rows: &[HereRow]) -> (Vec<String>, Vec<Vec<String>>) {
    let number = |x: Option<f64>| x.map_or("-".into(), |x| units::decimal(x, 3));
    let seconds = |user: Option<f64>, system: Option<f64>| match (user, system) {
        (Some(user), Some(system)) => format!("{} + {}", units::decimal(user, 2), units::decimal(system, 2)),
        _ => "-".into(),
    };
    let line = |row: &HereRow| {
        let interval = match (row.low, row.high) {
            (Some(low), Some(high)) => format!("{} to {}", units::decimal(low, 3), units::decimal(high, 3)),
            _ => "-".into(),
        };
        vec![
            row.item.clone(),
            seconds(row.user_base, row.system_base),
            seconds(row.user_huge, row.system_huge),
            interval,
            number(row.ours),
            row.verdict.name().into(),
        ]
    };
    let header = ["program", "4 KB pages", "huge pages", "speedup", "predicted", "verdict"].map(String::from);
    (header.into(), rows.iter().map(line).collect())
}

/// Formats the rows for people: a line and a plot of each program, then reasons and totals.
fn table(rows: &[HereRow], machine: &str) -> String {
    let (header, lines) = lines(rows);
    let mut out = tabulate::grid(&header, &lines);
    out += &format!("\n{MEANING}\n");
    out += &format!("predicted on {machine}\n\n{}", plot::plot(rows));
    let unmeasured: Vec<_> = rows.iter().filter(|row| !row.reason.is_empty()).collect();
    if !unmeasured.is_empty() {
        out += "\nnot measurable\n";
        out += &tabulate::definitions(unmeasured.iter().map(|row| (row.item.as_str(), row.reason.as_str())));
    }
    out + &format!("\n{}\n", totals(rows))
}

/// Formats how many programs have each verdict.
fn totals(rows: &[HereRow]) -> String {
    let of =
        |verdict: Verdict| format!("{} {}", rows.iter().filter(|row| row.verdict == verdict).count(), verdict.name());
    let all = [Verdict::Met, Verdict::Missed, Verdict::NotDecisive, Verdict::NotMeasurable].map(of);
    all.join(", ")
}
