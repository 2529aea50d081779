//! The statistics of `reach try`.

use super::Side;
use crate::history::{Interval, Line};
use reach_live::native::Usage;
use reach_live::remedy::Remedy;
use reach_live::statistics::{Effect, Median};
use reach_live::stops::Stops;
use reach_live::trial::{Figure, Outcome, Trial};
use reach_live::watch::Watched;
use std::time::Duration;

/// The runs of one side, and the observations of it before.
pub struct Measurement<'a> {
    side: Side,
    seen: &'a Watched,
    runs: &'a [Outcome],
}

impl<'a> Measurement<'a> {
    /// Puts them together.
    pub fn new(side: Side, seen: &'a Watched, runs: &'a [Outcome]) -> Self {
        Measurement { side, seen, runs }
    }
}

/// The number by which runs are compared.
#[derive(Clone, Debug, PartialEq)]
pub enum Score {
    /// Processor time of the program, user and system together.
    Processor,
    /// The time of a server's load.
    Load,
    /// A figure in the output of a server's load.
    Figure(Figure),
}

/// The least time that is compared: the kernel may count shorter processor times in whole ticks.
pub const SHORTEST: Duration = Duration::from_millis(20);

impl Score {
    /// Returns the score of a trial.
    pub fn of(trial: &Trial) -> Score {
        match &trial.client {
            None => Score::Processor,
            Some(client) => client.figure.clone().map_or(Score::Load, Score::Figure),
        }
    }

    /// Returns the number of a run: seconds, or the figure.
    fn value(&self, run: &Outcome) -> f64 {
        let load = run.load.unwrap_or_default();
        match self {
            Score::Processor => run.usage.processor().as_secs_f64(),
            Score::Load => load.wall.as_secs_f64(),
            Score::Figure(_) => load.figure.unwrap_or(0.0),
        }
    }

    /// Returns by how many times `with` is faster than `plain`.
    fn ratio(&self, plain: &Outcome, with: &Outcome) -> f64 {
        let (plain, with) = (self.value(plain), self.value(with));
        if matches!(self, Score::Figure(Figure::Rate(_))) { with / plain } else { plain / with }
    }
}

/// The result of one side.
#[derive(Clone, Debug)]
pub struct SideResult {
    /// The remedy; `None` for the program as it is.
    pub remedy: Option<&'static Remedy>,
    /// The median of the score.
    pub score: f64,
    /// The median of wall time.
    pub wall: f64,
    /// The median of user time, and of the kernel's, in seconds.
    pub user: f64,
    /// As `user`.
    pub system: f64,
    /// The median of page faults.
    pub faults: u64,
    /// Peak of resident memory, in bytes.
    pub resident: u64,
    /// Peak of memory in huge pages, transparent and hugetlb, in bytes.
    pub huge: u64,
    /// How long page faults stopped the program, if the kernel tells.
    pub stops: Option<Stops>,
    /// The speedup over the program as it is; of the program as it is: over itself again.
    pub speedup: Option<Median>,
    /// What `reach advise` has predicted for it.
    pub predicted: Option<Interval>,
    /// The effect by the speedup. `None` for the program as it is, and where runs cannot be compared.
    pub effect: Option<Effect>,
    /// Rounds.
    pub rounds: usize,
}

impl SideResult {
    /// Returns half the width of the speedup's interval, as a share.
    pub fn half_width(&self) -> Option<f64> {
        self.speedup.map(|median| (median.high - median.low) / 2.0 / median.value)
    }

    /// Returns the line of the history: what was measured beside what was predicted. `None` without both.
    pub fn line(&self, program: &str) -> Option<Line> {
        let Median { value, low, high } = self.speedup?;
        Some(Line {
            program: program.to_owned(),
            remedy: self.remedy?.name.to_owned(),
            predicted: self.predicted?,
            measured: Some(Interval { value, low, high }),
        })
    }

    /// Returns whether the runs leave open what the remedy does.
    pub fn is_open(&self) -> bool {
        self.remedy.is_some() && !matches!(self.effect, Some(Effect::Present | Effect::Absent { .. }))
    }
}

/// Computes the results of all sides: the program as it is first, then again, then the remedies. Only one row is returned for
/// the program as it is; the difference of its runs is the noise. `least` is the least effect that matters, as a share.
pub fn results(sides: &[Measurement], score: &Score, least: f64) -> Vec<SideResult> {
    let [plain, again, remedies @ ..] = sides else { return Vec::new() };
    let first = SideResult { speedup: speedup(plain, again, score), effect: None, ..result(plain, score) };
    let noise = first.speedup.map(|median| median.noise());
    let remedies = remedies.iter().map(|side| {
        let speedup = speedup(plain, side, score);
        let effect = speedup.zip(noise).map(|(speedup, noise)| speedup.effect(noise, least));
        SideResult { speedup, effect, ..result(side, score) }
    });
    [first].into_iter().chain(remedies).collect()
}

/// Returns the speedup of a side, round by round. `None` for too few rounds or too short ones.
fn speedup(plain: &Measurement, with: &Measurement, score: &Score) -> Option<Median> {
    let short = |side: &Measurement| median(side, |run| score.value(run)) < SHORTEST.as_secs_f64();
    if *score == Score::Processor && (short(plain) || short(with)) {
        return None;
    }
    let ratios: Vec<f64> = plain.runs.iter().zip(with.runs).map(|(plain, with)| score.ratio(plain, with)).collect();
    match ratios.iter().all(|ratio| ratio.is_finite() && *ratio > 0.0) {
        true => Median::of(&ratios),
        false => None,
    }
}

/// Returns the numbers of a side, without those that compare it.
fn result(side: &Measurement, score: &Score) -> SideResult {
    let usage = |number: fn(&Usage) -> f64| median(side, |run| number(&run.usage));
    SideResult {
        remedy: side.side,
        score: median(side, |run| score.value(run)),
        wall: usage(|usage| usage.wall.as_secs_f64()),
        user: usage(|usage| usage.user.as_secs_f64()),
        system: usage(|usage| usage.system.as_secs_f64()),
        faults: usage(|usage| usage.faults as f64) as u64,
        resident: side.seen.resident,
        huge: side.seen.huge + side.seen.hugetlb,
        stops: side.seen.stops,
        speedup: None,
        predicted: None,
        effect: None,
        rounds: side.runs.len(),
    }
}

/// Returns the median of a number of the runs; 0 for too few runs to compare.
fn median(side: &Measurement, number: impl Fn(&Outcome) -> f64) -> f64 {
    let all: Vec<f64> = side.runs.iter().map(number).collect();
    Median::of(&all).map_or(0.0, |median| median.value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use reach_live::trial::Load;
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    fn runs(user: impl Fn(u64) -> u64, figure: f64) -> Vec<Outcome> {
        let run = |at| {
            let user = Duration::from_millis(user(at));
            let status = ExitStatus::from_raw(0);
            let usage = Usage { wall: user, user, system: Duration::ZERO, faults: 5, peak: 0, status };
            Outcome { usage, load: Some(Load { wall: user, figure: Some(figure) }) }
        };
        (0..9).map(run).collect()
    }

    fn compare(plain: &[Outcome], again: &[Outcome], with: &[Outcome], score: &Score) -> Vec<SideResult> {
        let (seen, remedy) = (Watched::default(), Remedy::named("glibc-thp"));
        let side = |remedy, runs| Measurement::new(remedy, &seen, runs);
        results(&[side(None, plain), side(None, again), side(remedy, with)], score, 0.01)
    }

    #[test]
    fn noise_of_equal_runs_hides_small_effects_and_not_large_ones() {
        let (plain, again) = (runs(|at| 1000 + at, 100.0), runs(|at| 1003 + at, 100.0));
        let faster = &compare(&plain, &again, &runs(|at| 800 + at, 125.0), &Score::Processor)[1];
        assert_eq!(faster.effect, Some(Effect::Present));
        assert!((faster.speedup.unwrap().value - 1.25).abs() < 0.01 && !faster.is_open());
        let same = &compare(&plain, &again, &runs(|at| 1001 + at, 100.0), &Score::Processor)[1];
        assert!(matches!(same.effect, Some(Effect::Absent { within }) if within <= 0.01), "{same:?}");
        let noisy = &compare(&plain, &runs(|at| 500 + 200 * at, 1.0), &runs(|at| 1100 + at, 1.0), &Score::Processor)[1];
        assert!(noisy.is_open(), "{noisy:?}");
    }

    #[test]
    fn figures_have_a_direction_and_short_programs_no_speedup() {
        let (plain, with) = (runs(|_| 10, 100.0), runs(|_| 5, 200.0));
        let of = |score| compare(&plain, &plain, &with, &score)[1].speedup.map(|speedup| speedup.value);
        assert_eq!(of(Score::Figure(Figure::Rate("x".into()))), Some(2.0));
        assert_eq!(of(Score::Figure(Figure::Latency("x".into()))), Some(0.5));
        assert_eq!(of(Score::Load), Some(2.0));
        assert_eq!(of(Score::Processor), None);
        assert!(compare(&plain, &plain, &with, &Score::Processor)[1].is_open());
    }
}
