//! The results of `reach try`, as a table and as rows.

use super::measurement::{SHORTEST, Score, SideResult};
use super::{Memory, Phase};
use crate::args::trial::TryArgs;
use crate::tabulate;
use crate::units::{decimal, grouped, memory, percent, plural, stop, time};
use reach_core::Shown;
use reach_live::fragmented::Broken;
use reach_live::layout::SUPERPAGE;
use reach_live::remedy::REMEDIES;
use reach_live::statistics::{Effect, MIN_VALUES, Median};
use reach_live::stops::Stops;
use serde::Serialize;
use std::time::Duration;

/// Lists the remedies for people.
pub fn list() -> String {
    let lines = REMEDIES.iter().map(|remedy| {
        let system = if remedy.settings.is_empty() { "" } else { " (--change-system)" };
        (remedy.name, format!("{}{system}", remedy.about))
    });
    let lines: Vec<_> = lines.collect();
    tabulate::fitted(&tabulate::definitions(lines.iter().map(|(name, about)| (*name, about.as_str()))))
}

/// Formats the results for people.
pub fn table(args: &TryArgs, score: &Score, phases: &[Phase]) -> String {
    let command: Vec<_> = args.command.iter().map(|word| word.to_string_lossy()).collect();
    let mut out = tabulate::clipped(&command.join(" ").shown()) + "\n";
    for (at, phase) in phases.iter().enumerate() {
        if let Some(text) = broken(&phase.memory) {
            out += &format!("\n{text}\n");
        }
        out += &measured(score, &phase.results);
        let before = phases[..at].last().map(|before| &before.results[..]);
        let answers = answers(score, phase, before);
        out += &tabulate::definitions(answers.iter().map(|(name, text)| (name.as_str(), text.as_str())));
    }
    out
}

/// Returns the tables of one phase: what was measured in all rounds, and what the kernel showed of one run. Nothing if no remedy
/// was measured.
fn measured(score: &Score, results: &[SideResult]) -> String {
    let [plain, _, ..] = results else { return String::new() };
    let rounds = plural(plain.rounds as u64, "round", "rounds");
    let predicted = results.iter().any(|result| result.predicted.is_some());
    let header = header(score).into_iter().chain(predicted.then_some("predicted"));
    let lines = results.iter().map(|result| {
        let predicted = predicted.then(|| result.predicted.map_or("–".into(), |p| format!("{:.3}", p.value)));
        line(result, score).into_iter().chain(predicted).collect()
    });
    let times = tabulate::list_of_numbers(header.map(str::to_owned).collect(), lines.collect());
    let seen = ["remedy", "peak\nmemory", "in huge\npages", "stop of\n99 %", "longest\nstop"].map(str::to_owned);
    let seen = tabulate::list_of_numbers(seen.into(), results.iter().map(seen_line).collect());
    format!(
        "{rounds}; medians, with the 95 % intervals of speedups\n{times}\none run of each, as the kernel shows it; stops are \
         page faults\n{seen}\n"
    )
}

/// Says what was broken up. `None` for memory as it is.
fn broken(memory: &Memory) -> Option<String> {
    let (Broken { blocks, fixed }, before) = memory.broken?;
    let size = |blocks: u64| self::memory(blocks * SUPERPAGE);
    let mut text = format!("In memory that is broken up ({} of it", size(blocks));
    if let (Some(before), Some(now)) = (before, memory.whole) {
        text += &format!("; huge pages of free memory: {} before, {} now", percent(before), percent(now));
    }
    text += "):";
    if fixed < blocks {
        let most = size(fixed);
        text += &format!(
            " only {most} stay so for sure; root, or a larger /proc/sys/fs/pipe-user-pages-soft, lifts this limit"
        );
    }
    Some(text)
}

fn header(score: &Score) -> [&'static str; 5] {
    let scored = match score {
        Score::Processor => "processor\ntime",
        Score::Load => "load's\ntime",
        Score::Figure(_) => "client's\nfigure",
    };
    ["remedy", scored, "in the\nkernel", "page\nfaults", "speedup"]
}

fn name(result: &SideResult) -> String {
    result.remedy.map_or("as it is", |remedy| remedy.name).into()
}

fn line(result: &SideResult, score: &Score) -> [String; 5] {
    let seconds = |seconds: f64| time(Duration::from_secs_f64(seconds));
    [
        name(result),
        match score {
            Score::Figure(_) if result.score >= 1000.0 => grouped(result.score.round() as u64),
            Score::Figure(_) => decimal(result.score, 3),
            Score::Processor | Score::Load => seconds(result.score),
        },
        seconds(result.system),
        grouped(result.faults),
        match (result.remedy, result.speedup) {
            (None, _) => "1".into(),
            (_, Some(Median { value, low, high })) => format!("{value:.3} ({low:.3}–{high:.3})"),
            (_, None) => "–".into(),
        },
    ]
}

fn seen_line(result: &SideResult) -> Vec<String> {
    let shown =
        |of: fn(&Stops) -> Duration| result.stops.as_ref().map_or("–".into(), |stops| stop(micros(of(stops))));
    vec![
        name(result),
        memory(result.resident),
        if result.huge == 0 { "0".into() } else { memory(result.huge) },
        shown(|stops| stops.p99),
        shown(|stops| stops.longest),
    ]
}

/// Returns a sentence for each remedy, the most useful one first, and one for all if none helps. `before` are the results in memory
/// as it is.
fn answers(score: &Score, phase: &Phase, before: Option<&[SideResult]>) -> Vec<(String, String)> {
    let Phase { results, left, .. } = phase;
    let mut remedies: Vec<_> = results.iter().filter(|result| result.remedy.is_some()).collect();
    let gain = |result: &SideResult| result.speedup.map_or(0.0, |speedup| speedup.value);
    remedies.sort_by(|a, b| gain(b).total_cmp(&gain(a)));
    let mut all: Vec<_> = remedies.iter().map(|result| answer(score, result, before)).collect();
    all.extend(left.iter().map(|left| (left.remedy.name.into(), format!("not measured: {}", left.why.shown()))));
    let helps = |result: &&SideResult| result.effect == Some(Effect::Present) && gain(result) > 1.0;
    let open = remedies.iter().any(|result| result.is_open());
    if remedies.is_empty() {
        all.insert(0, ("answer".into(), "no remedy could be measured".into()));
    } else if !open && !remedies.iter().any(helps) {
        all.insert(0, ("answer".into(), "nothing that was measured makes this program faster".into()));
    }
    all
}

fn answer(score: &Score, result: &SideResult, before: Option<&[SideResult]>) -> (String, String) {
    let remedy = result.remedy.map_or("", |remedy| remedy.name).to_owned();
    let keep = result.remedy.map_or("", |remedy| remedy.keep);
    let speedup = result.speedup.map_or(1.0, |speedup| speedup.value);
    let text = match result.effect {
        Some(Effect::Present) if speedup > 1.0 => match before {
            None => format!("{speedup:.3} times as fast; to keep it, {keep}"),
            Some(before) => format!("{speedup:.3} times as fast{}", gain_left(result, before)),
        },
        Some(Effect::Present) => format!("{:.3} times as slow", 1.0 / speedup),
        Some(Effect::Absent { within }) => format!("no effect (within {})", percent(within)),
        Some(Effect::Unknown { within }) => {
            format!("cannot tell: up to {} either way; give it an idle computer, or more --rounds", percent(within))
        }
        None if result.rounds < MIN_VALUES => format!("cannot tell: fewer than {MIN_VALUES} rounds"),
        None if *score == Score::Processor => {
            format!("cannot tell: runs take less than {} of processor time; give it more work", time(SHORTEST))
        }
        None => "cannot tell: the client's figure is not a number above 0 in every run".into(),
    };
    (remedy, text)
}

/// Returns the end of a sentence that compares a speedup with that in memory as it is; nothing where there was none.
fn gain_left(result: &SideResult, before: &[SideResult]) -> String {
    let gain = |result: &SideResult| result.speedup.map(|speedup| speedup.value - 1.0);
    let same =
        before.iter().find(|other| other.remedy.map(|remedy| remedy.name) == result.remedy.map(|remedy| remedy.name));
    match (gain(result), same.filter(|same| same.effect == Some(Effect::Present)).and_then(gain)) {
        (Some(left), Some(whole)) if whole > 0.0 => format!("; {} of the gain is left", percent(left / whole)),
        _ => String::new(),
    }
}

/// A row of the results: one remedy, or `none`, the program as it is.
#[derive(Serialize)]
pub struct Row {
    remedy: &'static str,
    /// `as it is`, or `broken up` by `--fragmented`.
    memory: &'static str,
    /// The share of free memory that was in whole huge pages before the first run.
    free_huge_share: Option<f64>,
    /// `faster`, `slower`, `no effect`, `cannot tell` or `not measured`; empty for the program as it is.
    answer: &'static str,
    speedup: Option<f64>,
    speedup_low: Option<f64>,
    speedup_high: Option<f64>,
    /// What `reach advise` has predicted, if it has.
    predicted: Option<f64>,
    rounds: usize,
    /// Seconds, or the figure of the client.
    score: Option<f64>,
    user_seconds: Option<f64>,
    system_seconds: Option<f64>,
    wall_seconds: Option<f64>,
    page_faults: Option<u64>,
    peak_resident_bytes: Option<u64>,
    huge_bytes: Option<u64>,
    stop_p99_microseconds: Option<f64>,
    stop_longest_microseconds: Option<f64>,
    /// Why the remedy was not measured, or how to keep it.
    note: String,
}

fn micros(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1000.0
}

/// Returns the rows of all remedies.
pub fn rows(phases: &[Phase]) -> Vec<Row> {
    phases.iter().flat_map(rows_of).collect()
}

fn rows_of(phase: &Phase) -> Vec<Row> {
    let Phase { memory: Memory { broken, whole }, results, left } = phase;
    let memory = if broken.is_some() { "broken up" } else { "as it is" };
    let measured = results.iter().filter(|result| result.rounds > 0).map(|result| Row {
        remedy: result.remedy.map_or("none", |remedy| remedy.name),
        memory,
        free_huge_share: *whole,
        answer: match (result.remedy, result.effect, result.speedup) {
            (None, ..) => "",
            (_, Some(Effect::Present), Some(speedup)) if speedup.value > 1.0 => "faster",
            (_, Some(Effect::Present), _) => "slower",
            (_, Some(Effect::Absent { .. }), _) => "no effect",
            _ => "cannot tell",
        },
        speedup: result.speedup.map(|speedup| speedup.value),
        speedup_low: result.speedup.map(|speedup| speedup.low),
        speedup_high: result.speedup.map(|speedup| speedup.high),
        predicted: result.predicted.map(|predicted| predicted.value),
        rounds: result.rounds,
        score: Some(result.score),
        user_seconds: Some(result.user),
        system_seconds: Some(result.system),
        wall_seconds: Some(result.wall),
        page_faults: Some(result.faults),
        peak_resident_bytes: Some(result.resident),
        huge_bytes: Some(result.huge),
        stop_p99_microseconds: result.stops.map(|stops| micros(stops.p99)),
        stop_longest_microseconds: result.stops.map(|stops| micros(stops.longest)),
        note: result.remedy.map_or("", |remedy| remedy.keep).into(),
    });
    let left = left.iter().map(|left| Row {
        remedy: left.remedy.name,
        memory,
        free_huge_share: *whole,
        answer: "not measured",
        speedup: None,
        speedup_low: None,
        speedup_high: None,
        predicted: None,
        rounds: 0,
        score: None,
        user_seconds: None,
        system_seconds: None,
        wall_seconds: None,
        page_faults: None,
        peak_resident_bytes: None,
        huge_bytes: None,
        stop_p99_microseconds: None,
        stop_longest_microseconds: None,
        note: left.why.clone(),
    });
    measured.chain(left).collect()
}
