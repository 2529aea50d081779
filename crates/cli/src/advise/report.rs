//! The answer of `reach advise`, as a table and as rows.

use super::{Advice, Figures, LEAST, Plain, Prediction, available};
use crate::history::Interval;
use crate::tabulate;
use crate::units::{grouped, memory, percent, percent_within, plural, stop, time};
use reach_core::Shown;
use reach_lab::machine::Resolved as Machine;
use reach_live::control_group::Limits;
use reach_live::huge_pages::HugePages;
use serde::Serialize;
use std::time::Duration;

/// All that is to be said.
pub struct Answer<'a> {
    pub program: &'a str,
    pub machine: &'a Machine,
    pub linux: &'a HugePages,
    /// Of the control group.
    pub limits: Limits,
    pub plain: Plain,
    pub advice: &'a Advice,
    /// How many predictions were measured here, and how many of them were right.
    pub score: Option<(usize, usize)>,
}

/// Returns the speedup of a prediction with its interval.
pub fn interval(prediction: &Prediction) -> Interval {
    let (low, high) = prediction.interval();
    Interval { value: prediction.speedup.value, low, high }
}

/// What a prediction says.
fn answer(prediction: &Prediction) -> &'static str {
    let (low, high) = prediction.interval();
    match () {
        () if low > 1.0 && prediction.speedup.value >= 1.0 + LEAST / 2.0 => "faster",
        () if high < 1.0 && prediction.speedup.value <= 1.0 - LEAST / 2.0 => "slower",
        () if low > 1.0 - LEAST && high < 1.0 + LEAST => "no effect",
        () => "uncertain",
    }
}

impl Answer<'_> {
    /// Formats the answer for people.
    pub fn table(&self) -> String {
        let mut out = tabulate::clipped(self.program) + "\n";
        out += &tabulate::paragraph(
            "",
            &format!("{}; {}{}", self.machine.name.shown(), settings(self.linux), self.limited()),
        );
        let translation = percent_within(self.plain.translation.value, self.plain.translation.error);
        let kernel = percent(self.plain.kernel);
        out += &tabulate::paragraph(
            "",
            &format!(
                "address translation takes {translation} of the time, memory management in the kernel {kernel}; {} page faults, \
                 {} resident",
                grouped(self.plain.figures.faults),
                memory(self.plain.figures.resident)
            ),
        );
        if let Some(native) = &self.plain.native {
            let kernel = percent_within(native.kernel.value, native.kernel.error);
            let runs = plural(native.runs as u64, "run", "runs");
            out += &tabulate::paragraph(
                "",
                &format!(
                    "here it takes {} of processor time, {kernel} of it in the kernel (mean of {runs}); predictions are \
                     relative to that",
                    time(Duration::from_secs_f64(native.time))
                ),
            );
        }
        out += "\n";
        if self.plain.hopeless {
            let most = self.plain.translation.value + self.plain.translation.error.unwrap_or(0.0) + self.plain.kernel;
            let sentence = format!("nothing will help: {} at most, if both were free", percent(most));
            return out + &tabulate::paragraph("", &sentence);
        }
        let predictions = &self.advice.predictions;
        if !predictions.is_empty() {
            let header = ["remedy", "speedup", "memory", "MB for\n1 %", "stop of\n99 %", "longest\nstop"];
            let lines = std::iter::once(self.line("as it is", None, &self.plain.figures, &self.plain.figures))
                .chain(predictions.iter().map(|p| self.line(&p.name, Some(p), &p.figures, &p.plain)));
            out += &tabulate::numbers(header, lines);
            out += "\n";
        }
        for (at, prediction) in predictions.iter().enumerate() {
            let text = format!("{}: {}", prediction.name.shown(), self.sentence(prediction));
            out += &tabulate::paragraph(&format!("{:>2}. ", at + 1), &text);
        }
        out += &self.left();
        let helps = predictions.iter().any(|prediction| answer(prediction) == "faster");
        if !helps {
            let most = predictions.iter().map(|p| p.interval().1 - 1.0).fold(0.0, f64::max);
            let sentence = match predictions.is_empty() {
                true => "no remedy could be predicted".to_owned(),
                false => format!("nothing of this will help: {} at most", percent(most)),
            };
            out += &format!("\n{}", tabulate::paragraph("", &sentence));
        }
        out += &self.closing();
        out
    }

    /// Says why remedies have no prediction, in a paragraph.
    fn left(&self) -> String {
        let mut whys: Vec<(&str, Vec<&str>)> = Vec::new();
        for left in &self.advice.left {
            match whys.iter_mut().find(|(why, _)| *why == left.why) {
                Some((_, names)) => names.push(&left.name),
                None => whys.push((&left.why, vec![&left.name])),
            }
        }
        let whys: Vec<_> = whys.iter().map(|(why, names)| format!("{} ({})", names.join(", "), why.shown())).collect();
        if whys.is_empty() {
            return String::new();
        }
        "\n".to_owned() + &tabulate::paragraph("", &format!("not predicted: {}", whys.join("; ")))
    }

    fn closing(&self) -> String {
        let mut out = String::from("\n");
        let sentence = "predictions are for a program that starts anew: `reach try` measures them here, and `reach pages collapse \
                        PID` gives huge pages to one that runs";
        out += &tabulate::paragraph("", sentence);
        if let Some((measured, right)) = self.score {
            let sentence = format!(
                "of {} that `reach try` has measured here, {right} lay in the measured interval or within 5 %",
                plural(measured as u64, "earlier prediction", "earlier predictions")
            );
            out += &tabulate::paragraph("", &sentence);
        }
        out
    }

    fn line(&self, name: &str, prediction: Option<&Prediction>, figures: &Figures, plain: &Figures) -> [String; 6] {
        let more = figures.resident as i64 - plain.resident as i64;
        let speedup = match prediction {
            None => "1".into(),
            Some(prediction) => {
                let (low, high) = prediction.interval();
                let value = format!("{:.3}", prediction.speedup.value);
                if low < high { format!("{value} ({low:.3}–{high:.3})") } else { value }
            }
        };
        let gain = prediction.map_or(0.0, |prediction| 100.0 * (prediction.speedup.value - 1.0));
        let price = match () {
            () if prediction.is_none_or(|prediction| answer(prediction) != "faster") => "–".into(),
            () if more <= 0 => "0".into(),
            () => format!("{:.1}", more as f64 / f64::from(1 << 20) / gain),
        };
        let signed = match more {
            _ if prediction.is_none() => memory(figures.resident),
            0 => "0".into(),
            more => format!("{}{}", if more > 0 { '+' } else { '−' }, memory(more.unsigned_abs())),
        };
        [name.shown().into_owned(), speedup, signed, price, self.micros(figures.p99), self.micros(figures.longest)]
    }

    /// Formats a time of this machine in microseconds.
    fn micros(&self, cycles: u64) -> String {
        stop(self.microseconds(cycles))
    }

    fn microseconds(&self, cycles: u64) -> f64 {
        cycles as f64 / self.machine.hardware.core.hertz as f64 * 1e6
    }

    fn sentence(&self, prediction: &Prediction) -> String {
        let (low, high) = prediction.interval();
        let value = prediction.speedup.value;
        let mut text = match answer(prediction) {
            "faster" => format!("{value:.3} times as fast; to have it, {}", prediction.todo),
            "slower" => format!("{:.3} times as slow", 1.0 / value),
            "no effect" => format!("no effect: {} at most", percent((high - 1.0).max(1.0 - low))),
            _ => format!("uncertain: {} to {}; give a smaller --precision", signed(low - 1.0), signed(high - 1.0)),
        };
        let more = prediction.figures.resident.saturating_sub(prediction.plain.resident);
        let free = available();
        if more > free && free > 0 {
            text += &format!("; it takes {} more memory, and {} are available", memory(more), memory(free));
        }
        text += &self.exceeded(prediction.figures.resident);
        text
    }

    /// Says what the control group may have, after the kernel's settings. Nothing where that is all of the memory.
    fn limited(&self) -> String {
        let of = |what: &str, limit: Option<u64>| limit.map(|bytes| format!("{} of {what}", memory(bytes)));
        let limits: Vec<_> = [of("memory", self.limits.memory), of("hugetlb pages", self.limits.hugetlb)]
            .into_iter()
            .flatten()
            .collect();
        if limits.is_empty() { String::new() } else { format!("; at most {} (control group)", limits.join(", ")) }
    }

    /// Says that a program with so much resident memory is beyond the limit of the control group, if it is.
    fn exceeded(&self, resident: u64) -> String {
        match self.limits.memory.filter(|&limit| resident > limit) {
            Some(limit) => {
                format!("; it needs {}, and the control group may have {}", memory(resident), memory(limit))
            }
            None => String::new(),
        }
    }

    /// Returns the rows of all remedies; the first is the program as it is.
    pub fn rows(&self) -> Vec<Row> {
        let row = |remedy: &str, answer, figures: &Figures, note: String| Row {
            remedy: remedy.into(),
            answer,
            speedup: None,
            speedup_low: None,
            speedup_high: None,
            translation: None,
            kernel: None,
            native_seconds: None,
            native_kernel: None,
            page_faults: Some(figures.faults),
            peak_resident_bytes: Some(figures.resident),
            more_resident_bytes: None,
            huge_bytes: Some(figures.huge),
            stop_p99_microseconds: Some(self.microseconds(figures.p99)),
            stop_longest_microseconds: Some(self.microseconds(figures.longest)),
            note,
        };
        let plain = Row {
            translation: Some(self.plain.translation.value),
            kernel: Some(self.plain.kernel),
            native_seconds: self.plain.native.map(|native| native.time),
            native_kernel: self.plain.native.map(|native| native.kernel.value),
            ..row(
                "none",
                if self.plain.hopeless { "nothing will help" } else { "" },
                &self.plain.figures,
                String::new(),
            )
        };
        let predicted = self.advice.predictions.iter().map(|p| Row {
            speedup: Some(p.speedup.value),
            speedup_low: Some(p.interval().0),
            speedup_high: Some(p.interval().1),
            more_resident_bytes: Some(p.figures.resident as i64 - p.plain.resident as i64),
            ..row(&p.name, answer(p), &p.figures, p.todo.clone())
        });
        let left = self.advice.left.iter().map(|left| Row {
            remedy: left.name.clone(),
            answer: "not predicted",
            note: left.why.clone(),
            ..Row::default()
        });
        [plain].into_iter().chain(predicted).chain(left).collect()
    }
}

/// Says what this Linux gives.
fn settings(linux: &HugePages) -> String {
    let Some(enabled) = &linux.enabled else { return "this Linux has no transparent huge pages".into() };
    let defrag = linux.defrag.as_deref().unwrap_or("never");
    let blocks: Vec<_> = linux.multi_size.iter().map(|(size, on)| format!("{size} KB {on}")).collect();
    let blocks = if blocks.is_empty() { "none".into() } else { blocks.join(", ") };
    format!("this Linux: transparent huge pages {enabled}, defrag {defrag}, smaller blocks {blocks}")
        .shown()
        .into_owned()
}

/// Formats a gain with its sign.
fn signed(share: f64) -> String {
    format!("{}{}", if share < 0.0 { "−" } else { "+" }, percent(share.abs()))
}

/// A row of the results: one remedy, or `none`, the program as it is.
#[derive(Serialize, Default)]
pub struct Row {
    remedy: String,
    /// `faster`, `slower`, `no effect`, `uncertain` or `not predicted`; of the program as it is: empty, or `nothing will help`.
    answer: &'static str,
    speedup: Option<f64>,
    speedup_low: Option<f64>,
    speedup_high: Option<f64>,
    /// The share of the time that address translation takes, and that memory management in the kernel does; of the program as it
    /// is.
    translation: Option<f64>,
    kernel: Option<f64>,
    /// The processor time on this computer, and the share of it in the kernel, where they were measured; of the program as it is.
    native_seconds: Option<f64>,
    native_kernel: Option<f64>,
    page_faults: Option<u64>,
    peak_resident_bytes: Option<u64>,
    more_resident_bytes: Option<i64>,
    huge_bytes: Option<u64>,
    stop_p99_microseconds: Option<f64>,
    stop_longest_microseconds: Option<f64>,
    /// The exact thing to do, or why there is no prediction.
    note: String,
}
