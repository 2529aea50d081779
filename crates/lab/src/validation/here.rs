//! Real programs for the test against the clock of this computer, and the verdicts on their predicted speedups.

use crate::paper::files::{PaperFiles, Texts};
use crate::paper::{Command, SharedInput, Verdict};
use reach_os::Scatter;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::path::PathBuf;
use tempfile::TempDir;

/// The greatest distance of a prediction from the median, as a share, where the interval is narrower.
const WITHIN: f64 = 0.05;

/// The greatest width of an interval that decides anything, as a share of the median.
pub const WIDEST: f64 = 0.05;

/// The programs and their files.
const FILES: Texts = &[
    ("programs.toml", include_str!("../../../../validation/here/programs.toml")),
    ("programs/work.c", include_str!("../../../../validation/here/programs/work.c")),
    ("programs/script.py", include_str!("../../../../validation/here/programs/script.py")),
    ("programs/script.js", include_str!("../../../../validation/here/programs/script.js")),
    ("programs/table.sql", include_str!("../../../../validation/here/programs/table.sql")),
    ("programs/redis.sh", include_str!("../../../../validation/here/programs/redis.sh")),
];

/// A real program.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HereProgram {
    /// Its name on the command line.
    pub name: String,
    /// What it does, in one line.
    pub about: String,
    command: Command,
}

/// A program whose input is made, in a folder that goes away with this value.
pub struct Prepared {
    /// The folder to run it in.
    pub folder: TempDir,
    /// The program: a path, or a name to look for in `PATH`.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
}

/// `programs.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    program: Vec<HereProgram>,
}

/// Returns all programs.
pub fn programs() -> Vec<HereProgram> {
    let (_, text) = FILES[0];
    let file: File = toml::from_str(text).expect("a test reads the file");
    file.program
}

impl HereProgram {
    /// Makes the input of the program.
    ///
    /// # Errors
    /// When something that it needs is not installed, with the packages to install; and when its input cannot be made.
    pub fn prepare(&self) -> Result<Prepared, String> {
        let files = PaperFiles::Embedded(FILES);
        let folder = self.command.prepared(&SharedInput::default(), &|name| files.text(name))?;
        let (program, args) = self.command.program(folder.path())?;
        Ok(Prepared { folder, program, args })
    }
}

/// Processor time of a run, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Seconds {
    /// In user mode.
    pub user: f64,
    /// In the kernel.
    pub system: f64,
}

/// A measured speedup: the median of pairs of runs, and its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// The median.
    pub median: f64,
    /// The lower end of the interval.
    pub low: f64,
    /// The upper end of the interval.
    pub high: f64,
    /// The number of pairs.
    pub pairs: usize,
    /// Medians of the times on base pages.
    pub base: Seconds,
    /// Medians of the times with huge pages.
    pub huge: Seconds,
}

/// A predicted speedup.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Predicted {
    /// The speedup.
    pub speedup: f64,
    /// Half the width of its 95 % interval; `None` if the whole program was simulated.
    pub error: Option<f64>,
    /// Times on base pages. The kernel's are those of its memory management only.
    pub base: Seconds,
    /// Times with huge pages.
    pub huge: Seconds,
}

impl Measured {
    /// Returns what a row says was measured. `None` if nothing was.
    pub fn of(row: &HereRow) -> Option<Self> {
        Some(Measured {
            median: row.measured?,
            low: row.low?,
            high: row.high?,
            pairs: row.pairs?,
            base: Seconds { user: row.user_base?, system: row.system_base? },
            huge: Seconds { user: row.user_huge?, system: row.system_huge? },
        })
    }

    /// Returns the width of the interval, as a share of the median.
    pub fn width(&self) -> f64 {
        (self.high - self.low) / self.median
    }

    /// Returns whether a prediction lies in the interval, or near enough to the median.
    fn allows(&self, speedup: f64) -> bool {
        (self.low..=self.high).contains(&speedup) || (speedup / self.median - 1.0).abs() <= WITHIN
    }

    /// Judges a predicted speedup. Where the interval is too wide, this computer cannot tell.
    fn verdict(&self, predicted: f64) -> Verdict {
        match (self.width() <= WIDEST, self.allows(predicted), self.allows(1.0)) {
            (false, ..) => Verdict::NotMeasurable,
            (true, false, _) => Verdict::Missed,
            (true, true, true) => Verdict::NotDecisive,
            (true, true, false) => Verdict::Met,
        }
    }
}

/// A measured speedup beside the predicted one, as `reach validate --here` gives it. Times are in seconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HereRow {
    /// `here`.
    pub set: String,
    /// The program.
    pub item: String,
    /// The unit of the speedups.
    pub unit: String,
    /// The median of the measured speedups; `None` if nothing was measured.
    pub measured: Option<f64>,
    /// The lower end of its 95 % interval.
    pub low: Option<f64>,
    /// The upper end of its 95 % interval.
    pub high: Option<f64>,
    /// Pairs of runs.
    pub pairs: Option<usize>,
    /// The predicted speedup.
    pub ours: Option<f64>,
    /// Half the width of its 95 % interval; `None` if the whole program was simulated.
    pub error: Option<f64>,
    /// How far they may be apart.
    pub tolerance: String,
    /// Whether ours is near enough.
    pub verdict: Verdict,
    /// Median time in user mode on base pages.
    pub user_base: Option<f64>,
    /// Median time in the kernel on base pages.
    pub system_base: Option<f64>,
    /// Median time in user mode with huge pages.
    pub user_huge: Option<f64>,
    /// Median time in the kernel with huge pages.
    pub system_huge: Option<f64>,
    /// Predicted time in user mode on base pages.
    pub ours_user_base: Option<f64>,
    /// Predicted time on base pages that the kernel's memory management takes. Other system calls are not predicted.
    pub ours_system_base: Option<f64>,
    /// Predicted time in user mode with huge pages.
    pub ours_user_huge: Option<f64>,
    /// Predicted time with huge pages that the kernel's memory management takes.
    pub ours_system_huge: Option<f64>,
    /// The aligned groups of eight frames that base pages lie in, for each page; `None` if the kernel hid frames.
    #[serde(default)]
    pub groups_per_page: Option<f64>,
    /// The share of base pages whose frame lies in another aligned 2 MB than that of the page before; `None` if the kernel hid
    /// frames.
    #[serde(default)]
    pub jumps_per_page: Option<f64>,
    /// The machine that predicts.
    pub machine: String,
    /// Why there is no verdict; empty if there is one.
    pub reason: String,
}

impl HereRow {
    /// Returns how scattered the frames of base pages were; `None` if that is not known.
    pub fn scatter(&self) -> Option<Scatter> {
        Some(Scatter { groups: self.groups_per_page?, jumps: self.jumps_per_page })
    }
}

/// Returns the row of a program. `machine` is the machine that predicts, with frames as scattered as `scatter` says.
pub fn row(
    program: &HereProgram,
    machine: &str,
    scatter: Option<Scatter>,
    measured: Result<Measured, String>,
    predicted: Result<Predicted, String>,
) -> HereRow {
    let (verdict, reason) = match (&measured, &predicted) {
        (Ok(measured), Ok(predicted)) => match measured.verdict(predicted.speedup) {
            Verdict::NotMeasurable => {
                let width = 100.0 * measured.width();
                let wide = format!("this computer cannot tell: the interval is {width:.0} % wide");
                (Verdict::NotMeasurable, wide)
            }
            verdict => (verdict, String::new()),
        },
        (Err(why), _) | (_, Err(why)) => (Verdict::NotMeasurable, why.clone()),
    };
    let (measured, predicted) = (measured.ok(), predicted.ok());
    HereRow {
        set: "here".into(),
        item: program.name.clone(),
        unit: "x".into(),
        measured: measured.map(|m| m.median),
        low: measured.map(|m| m.low),
        high: measured.map(|m| m.high),
        pairs: measured.map(|m| m.pairs),
        ours: predicted.map(|p| p.speedup),
        error: predicted.and_then(|p| p.error),
        tolerance: "in the interval, or within 5 % of the median".into(),
        verdict,
        user_base: measured.map(|m| m.base.user),
        system_base: measured.map(|m| m.base.system),
        user_huge: measured.map(|m| m.huge.user),
        system_huge: measured.map(|m| m.huge.system),
        ours_user_base: predicted.map(|p| p.base.user),
        ours_system_base: predicted.map(|p| p.base.system),
        ours_user_huge: predicted.map(|p| p.huge.user),
        ours_system_huge: predicted.map(|p| p.huge.system),
        groups_per_page: scatter.map(|scatter| scatter.groups),
        jumps_per_page: scatter.and_then(|scatter| scatter.jumps),
        machine: machine.into(),
        reason,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_fourteen_programs_and_all_their_files_exist() {
        let all = programs();
        assert!(all.len() >= 14, "{}", all.len());
        for program in &all {
            let missing = program.command.files().find(|name| FILES.iter().all(|(known, _)| known != name));
            assert_eq!(missing, None, "{}", program.name);
            assert!(!program.about.is_empty());
        }
    }

    #[test]
    fn predictions_are_judged_on_both_sides_and_noise_decides_nothing() {
        let of = |median, low, high| {
            let zero = Seconds::default();
            Measured { median, low, high, pairs: 9, base: zero, huge: zero }
        };
        let (narrow, wide, none) = (of(1.20, 1.19, 1.22), of(1.20, 1.10, 1.40), of(1.01, 1.00, 1.02));
        let zero = Seconds::default();
        let predict = |speedup| Ok(Predicted { speedup, error: None, base: zero, huge: zero });
        for (measured, speedup, expected) in [
            (narrow, 1.20, Verdict::Met),
            (narrow, 1.255, Verdict::Met),
            (narrow, 1.28, Verdict::Missed),
            (narrow, 1.13, Verdict::Missed),
            (wide, 1.20, Verdict::NotMeasurable),
            (none, 1.02, Verdict::NotDecisive),
            (none, 1.09, Verdict::Missed),
        ] {
            let row = row(&programs()[0], "m", None, Ok(measured), predict(speedup));
            assert_eq!(row.verdict, expected, "{measured:?} {speedup}");
        }
        let row = row(&programs()[0], "m", None, Err("install gcc".into()), predict(1.0));
        assert_eq!((row.verdict, row.reason.as_str(), row.measured), (Verdict::NotMeasurable, "install gcc", None));
    }

    #[test]
    fn a_saved_row_gives_back_what_was_measured() {
        let (base, huge) = (Seconds { user: 0.3, system: 0.1 }, Seconds { user: 0.25, system: 0.0 });
        let measured = Measured { median: 1.6, low: 1.5, high: 1.7, pairs: 18, base, huge };
        let predicted = Predicted { speedup: 1.5, error: Some(0.01), base, huge };
        let saved = serde_json::to_string(&row(&programs()[0], "m", None, Ok(measured), Ok(predicted))).unwrap();
        let read: HereRow = serde_json::from_str(&saved).unwrap();
        assert_eq!(Measured::of(&read), Some(measured));
        assert_eq!((read.ours_user_base, read.ours_system_base), (Some(0.3), Some(0.1)));
        assert_eq!(Measured::of(&row(&programs()[0], "m", None, Err("noise".into()), Ok(predicted))), None);
    }
}
