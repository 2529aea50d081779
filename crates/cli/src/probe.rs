//! `reach machine probe`: measures this computer in fresh processes, and writes a machine file.

mod plot;
mod store;

pub use store::{located, probed};

use crate::args::catalog::ProbeArgs;
use crate::failure::{Failure, VerbResult, print_error, remark};
use crate::{output, tabulate};
use reach_core::Shown;
use reach_lab::machine;
use reach_probe::file::{MachineText, machine_text};
use reach_probe::stability::{self, LEAST, Measured};
use reach_probe::{Native, Pass};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Measures this computer, prints what was found, and writes the machine file.
pub fn probe(args: &ProbeArgs, quiet: bool) -> VerbResult {
    let (begin, limit) = (Instant::now(), Duration::from_secs(args.seconds.into()));
    if args.once {
        return once(begin + limit);
    }
    // A file that cannot be written is found before three minutes of work.
    let (path, file) = store::create(args)?;
    let passes = passes(begin, limit, quiet)?;
    let numbers = stability::combine(&passes);
    output::print(&table(&numbers, &passes))?;
    if args.plot {
        output::print(&plot::curves(&passes))?;
    }
    let made = made(&numbers)?;
    if made.measured.is_empty() {
        let why = "no number was stable, so there is no machine file; try again when this computer is idle, or allow more --seconds";
        return Err(Failure::Failed(why.into()));
    }
    file.write(&made.text)?;
    for (name, why) in &made.left_out {
        remark(quiet, format!("{name} is not in the file: {why}"));
    }
    let used = if args.output.is_none() { "; it is the default machine on this processor now" } else { "" };
    remark(quiet, format!("{}: {} measured values{used}", path.shown(), made.measured.len()));
    Ok(0)
}

/// Measures in this process, and prints what it has found as JSON.
fn once(deadline: Instant) -> VerbResult {
    let mut bench = Native::new(deadline).map_err(Failure::failed)?;
    output::print(&(serde_json::to_string(&bench.pass()).map_err(Failure::failed)? + "\n"))?;
    Ok(0)
}

/// Measures in fresh processes until all numbers are stable, or no further process would end in time.
fn passes(begin: Instant, limit: Duration, quiet: bool) -> Result<Vec<Pass>, Failure> {
    let (mut passes, mut longest) = (Vec::new(), Duration::ZERO);
    loop {
        let left = limit.saturating_sub(begin.elapsed());
        if left < longest || left.is_zero() {
            break;
        }
        let started = Instant::now();
        passes.push(pass(left.as_secs().max(1))?);
        longest = longest.max(started.elapsed());
        let unstable = stability::combine(&passes).iter().filter(|number| number.unstable.is_some()).count();
        remark(
            quiet,
            format!(
                "process {} measured for {:.0} s; {unstable} numbers are not stable",
                passes.len(),
                started.elapsed().as_secs_f64()
            ),
        );
        if unstable == 0 && passes.len() >= LEAST {
            break;
        }
    }
    if passes.len() < LEAST {
        print_error(format!("only {} processes could measure in the time; allow more with --seconds", passes.len()));
    }
    Ok(passes)
}

/// Measures in a fresh process.
fn pass(seconds: u64) -> Result<Pass, Failure> {
    let executable = std::env::current_exe().map_err(|error| Failure::failed(format!("the path of reach: {error}")))?;
    let mut command = Command::new(executable);
    command.args(["machine", "probe", "--once", "--seconds", &seconds.to_string()]);
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| Failure::failed(format!("a measuring process cannot be started: {error}")))?;
    if !output.status.success() {
        return Err(Failure::Failed(format!("a measuring process failed: {}", output.status)));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| Failure::failed(format!("a measuring process: {error}")))
}

/// Makes the machine file of this processor.
fn made(numbers: &[Measured]) -> Result<MachineText, Failure> {
    let (preset, _) = machine::nearest_host();
    let cpu = store::processor()?;
    let about = format!("this computer, {cpu}, as measured by reach machine probe; preset {preset} for the rest");
    machine_text(preset, &cpu, &about, numbers).map_err(Failure::failed)
}

/// Lays out what was found, and what was not.
fn table(numbers: &[Measured], passes: &[Pass]) -> String {
    let rows = numbers.iter().map(|number| {
        let places = usize::from(!number.is_exact() && number.value < 1000.0);
        let show = |value: f64| format!("{value:.places$}");
        let interval = format!("{} to {}", show(number.low), show(number.high));
        let why = number.unstable.clone().map_or_else(|| "stable".into(), |why| format!("not stable: {why}"));
        [number.name.clone(), show(number.value), interval, why]
    });
    let mut out = tabulate::columns(["number", "value", "interval", "verdict"], rows);
    let missing = stability::missing(passes);
    if !missing.is_empty() {
        out += "\nnot found:\n";
        out += &tabulate::definitions(missing.iter().map(|(name, why)| (name.as_str(), why.as_str())));
    }
    out + &format!("\n{} processes; latencies in cycles of the core, sizes in bytes\n", passes.len())
}
