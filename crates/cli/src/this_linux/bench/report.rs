//! The results of `reach text bench`, as a table and as rows.

use super::measurement::{Answer, Clock, Measurement, SHORTEST, around};
use crate::args::this_linux::BenchArgs;
use crate::tabulate;
use crate::units::{grouped, memory, time};
use reach_live::bench::{Bench, CODE_STATES, CodeState};
use reach_live::statistics::Median;
use serde::Serialize;

/// Formats the results for people. `least` is the least effect that matters, as a share.
pub fn table(args: &BenchArgs, bench: &Bench, results: &[Measurement; CODE_STATES.len()], least: f64) -> String {
    let command: Vec<_> = args.command.iter().map(|word| word.to_string_lossy()).collect();
    let aligned = if bench.aligned { ", in an aligned copy" } else { "" };
    let heading = format!(
        "{}\n{} of code in regions of 2 MB{aligned}; {} rounds\n",
        tabulate::clipped(&command.join(" ")),
        memory(bench.code),
        args.rounds
    );
    heading + &times(results) + "\n" + &answers(results, least)
}

/// Formats the medians of each state.
fn times(results: &[Measurement]) -> String {
    let ratio = |ratio: Option<Median>| match ratio {
        Some(ratio) => format!("{:.2} ({:.2}–{:.2})", ratio.value, ratio.low, ratio.high),
        None => "too short".into(),
    };
    let lines = results.iter().map(|result| {
        let [user, wall] = Clock::ALL.map(|clock| match result.state {
            CodeState::Base => "1".into(),
            _ => ratio(result.ratio(clock)),
        });
        [
            result.name().to_owned(),
            time(result.time(Clock::User)),
            time(result.time(Clock::Wall)),
            grouped(result.faults),
            result.superpages.map_or("–".into(), |bytes| if bytes == 0 { "0".into() } else { memory(bytes) }),
            user,
            wall,
        ]
    });
    let header = [
        "code in",
        "user\ntime",
        "wall\ntime",
        "page\nfaults",
        "super-\npages",
        "user time\nspeedup",
        "wall time\nspeedup",
    ];
    tabulate::numbers(header, lines)
}

/// Formats the effect of each state that is compared with base pages, by clock.
fn answers(results: &[Measurement; CODE_STATES.len()], least: f64) -> String {
    let [_, again, folios, superpages] = results;
    let line = |result: &Measurement, clock: Clock| {
        let effect = match result.answer(clock, again, least) {
            Answer::Faster(times) => format!("{times:.2} times as fast"),
            Answer::Slower(times) => format!("{times:.2} times as slow"),
            Answer::NoEffect(within) => format!("no effect (within {})", around(within)),
            Answer::Unknown(within) => format!("cannot tell: {}", around(within)),
            Answer::TooShort => format!("cannot tell: less than {}", time(SHORTEST)),
        };
        (format!("{}, {} time", result.name(), clock.name()), effect)
    };
    let lines: Vec<_> =
        [folios, superpages].into_iter().flat_map(|result| Clock::ALL.map(|clock| line(result, clock))).collect();
    let lines = tabulate::definitions(lines.iter().map(|(name, effect)| (name.as_str(), effect.as_str())));
    let meaning = format!(
        "\n± is the largest effect that these runs do not exclude: the end of the 95 %\n\
         interval, or the difference of equal runs. \"No effect\" needs {} or less (--within).\n",
        around(least)
    );
    lines + &meaning
}

/// A row of the results: one metric of one state.
#[derive(Serialize)]
pub struct Row {
    code: &'static str,
    metric: String,
    unit: &'static str,
    value: f64,
    /// What a speedup says: `faster`, `slower`, `no effect` or `cannot tell`. `None` for other metrics.
    answer: Option<&'static str>,
}

/// Returns the rows of all states. `least` is the least effect that matters, as a share.
pub fn rows(results: &[Measurement; CODE_STATES.len()], least: f64) -> Vec<Row> {
    let mut rows = Vec::new();
    let [_, again, _, _] = results;
    for result in results {
        let mut add = |metric: String, unit, value, answer| {
            rows.push(Row { code: result.name(), metric, unit, value, answer });
        };
        add("user_time".into(), "s", result.time(Clock::User).as_secs_f64(), None);
        add("wall_time".into(), "s", result.time(Clock::Wall).as_secs_f64(), None);
        add("page_faults".into(), "faults", result.faults as f64, None);
        if let Some(bytes) = result.superpages {
            add("superpages.2M".into(), "bytes", bytes as f64, None);
        }
        for clock in Clock::ALL {
            let (Some(ratio), name) = (result.ratio(clock), clock.name()) else { continue };
            let compared = matches!(result.state, CodeState::Folios | CodeState::Superpages);
            let answer = result.answer(clock, again, least).name().filter(|_| compared);
            add(format!("speedup_{name}"), "ratio", ratio.value, answer);
            add(format!("speedup_{name}_low"), "ratio", ratio.low, None);
            add(format!("speedup_{name}_high"), "ratio", ratio.high, None);
        }
    }
    rows
}
