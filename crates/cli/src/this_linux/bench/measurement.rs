//! What the runs in each state say: times, and whether they differ from those in base pages.

use reach_live::bench::{CODE_STATES, CodeState};
use reach_live::stage::Run;
use reach_live::statistics::{Effect, Median};
use std::time::Duration;

/// The clocks that time a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// Processor time in user mode.
    User,
    /// Time from start to end.
    Wall,
}

impl Clock {
    /// All clocks, in the order of the results.
    pub const ALL: [Clock; 2] = [Clock::User, Clock::Wall];

    /// Returns the name in rows, and before the word "time".
    pub const fn name(self) -> &'static str {
        match self {
            Clock::User => "user",
            Clock::Wall => "wall",
        }
    }

    fn of(self, run: &Run) -> Duration {
        match self {
            Clock::User => run.user,
            Clock::Wall => run.wall,
        }
    }

    /// Returns the least time to compare: the kernel may count shorter user times in whole ticks.
    const fn shortest(self) -> Duration {
        match self {
            Clock::User => SHORTEST,
            Clock::Wall => Duration::ZERO,
        }
    }
}

/// Least user time to compare.
pub const SHORTEST: Duration = Duration::from_millis(20);

/// The measurements with the code in one state.
pub struct Measurement {
    /// The state.
    pub state: CodeState,
    /// Median of the page faults of each run.
    pub faults: u64,
    /// Least bytes of code mapped with superpages in any run; `None` if not visible.
    pub superpages: Option<u64>,
    /// Median time of each clock.
    times: [Duration; 2],
    /// Times in base pages over times in this state; `None` if the runs are too short to compare.
    ratios: [Option<Median>; 2],
}

/// What a clock says about the effect of a state.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Answer {
    /// The program is this many times as fast as in base pages.
    Faster(f64),
    /// The program is this many times as slow.
    Slower(f64),
    /// No effect of more than this share.
    NoEffect(f64),
    /// An effect of up to this share is possible.
    Unknown(f64),
    /// The runs are too short for this clock.
    TooShort,
}

impl Answer {
    /// Returns the name in rows. `None` if there is no ratio to judge.
    pub const fn name(self) -> Option<&'static str> {
        match self {
            Answer::Faster(_) => Some("faster"),
            Answer::Slower(_) => Some("slower"),
            Answer::NoEffect(_) => Some("no effect"),
            Answer::Unknown(_) => Some("cannot tell"),
            Answer::TooShort => None,
        }
    }

    /// Returns whether the question is answered.
    pub const fn is_known(self) -> bool {
        matches!(self, Answer::Faster(_) | Answer::Slower(_) | Answer::NoEffect(_))
    }
}

impl Measurement {
    /// Evaluates the runs `own` in `state`. `base` are the runs in base pages of the same rounds.
    fn of(state: CodeState, base: &[Run], own: &[Run]) -> Measurement {
        let time = |clock: Clock| {
            let mut times: Vec<Duration> = own.iter().map(|run| clock.of(run)).collect();
            times.sort();
            times[times.len() / 2]
        };
        let ratio = |clock: Clock| {
            let seconds = |run| clock.of(run).as_secs_f64().max(1e-9);
            let ratios: Vec<f64> = base.iter().zip(own).map(|(base, own)| seconds(base) / seconds(own)).collect();
            Median::of(&ratios).filter(|_| time(clock) >= clock.shortest())
        };
        let mut faults: Vec<u64> = own.iter().map(|run| run.faults).collect();
        faults.sort();
        Measurement {
            state,
            faults: faults[faults.len() / 2],
            superpages: own.iter().map(|run| run.superpages).min().flatten(),
            times: Clock::ALL.map(time),
            ratios: Clock::ALL.map(ratio),
        }
    }

    /// Returns the name of the state.
    pub fn name(&self) -> &'static str {
        match self.state {
            CodeState::Base => "base pages",
            CodeState::BaseAgain => "base pages again",
            CodeState::Folios => "64 KB folios",
            CodeState::Superpages => "superpages",
        }
    }

    /// Returns the median time.
    pub fn time(&self, clock: Clock) -> Duration {
        self.times[clock as usize]
    }

    /// Returns the speedup over base pages; `None` if the runs are too short to compare.
    pub fn ratio(&self, clock: Clock) -> Option<Median> {
        self.ratios[clock as usize]
    }

    /// Judges the effect of this state. The noise is the difference of `again`, the second runs in base pages. `least` is the
    /// least effect that matters, as a share.
    pub fn answer(&self, clock: Clock, again: &Measurement, least: f64) -> Answer {
        let (Some(ratio), Some(again)) = (self.ratio(clock), again.ratio(clock)) else { return Answer::TooShort };
        match ratio.effect(again.noise(), least) {
            Effect::Present if ratio.value > 1.0 => Answer::Faster(ratio.value),
            Effect::Present => Answer::Slower(1.0 / ratio.value),
            Effect::Absent { within } => Answer::NoEffect(within),
            Effect::Unknown { within } => Answer::Unknown(within),
        }
    }
}

/// Formats the share of an effect that is not excluded: `±1.2 %`, `±27 %`.
pub fn around(share: f64) -> String {
    let percent = 100.0 * share;
    if percent < 9.95 { format!("±{percent:.1} %") } else { format!("±{percent:.0} %") }
}

/// Evaluates the runs in each state, in the order of [`CODE_STATES`].
pub fn all(runs: &[Vec<Run>; CODE_STATES.len()]) -> [Measurement; CODE_STATES.len()] {
    std::array::from_fn(|i| Measurement::of(CODE_STATES[i], &runs[0], &runs[i]))
}

/// Returns why no clock tells whether superpages have an effect. `None` if one does.
pub fn open_question(superpages: &Measurement, again: &Measurement, least: f64) -> Option<String> {
    let answers = Clock::ALL.map(|clock| superpages.answer(clock, again, least));
    if answers.into_iter().any(Answer::is_known) {
        return None;
    }
    let reason = |(clock, answer): (Clock, Answer)| match answer {
        Answer::Unknown(within) => Some(format!("{} in {} time", around(within), clock.name())),
        Answer::TooShort => Some(format!("{} time too short to compare", clock.name())),
        _ => None,
    };
    let reasons: Vec<String> = Clock::ALL.into_iter().zip(answers).filter_map(reason).collect();
    Some(format!("{}; more --rounds, longer runs or a quieter computer narrow this", reasons.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::ExitStatus;

    /// Returns one run for each pair of user and wall time, in milliseconds.
    fn runs(times: &[(u64, u64)]) -> Vec<Run> {
        let run = |&(user, wall): &(u64, u64)| Run {
            user: Duration::from_millis(user),
            system: Duration::ZERO,
            wall: Duration::from_millis(wall),
            faults: 100,
            superpages: Some(0),
            status: ExitStatus::default(),
        };
        times.iter().map(run).collect()
    }

    /// Evaluates runs whose times in 64 KB folios equal those in superpages.
    fn measured(base: &[(u64, u64)], again: &[(u64, u64)], superpages: &[(u64, u64)]) -> [Measurement; 4] {
        all(&[runs(base), runs(again), runs(superpages), runs(superpages)])
    }

    /// Returns the answers of both clocks, and the open question.
    fn answers([_, again, _, superpages]: &[Measurement; 4]) -> ([Answer; 2], Option<String>) {
        let answers = Clock::ALL.map(|clock| superpages.answer(clock, again, 0.05));
        (answers, open_question(superpages, again, 0.05))
    }

    #[test]
    fn noise_of_92_percent_is_no_evidence_of_no_effect() {
        let base = [(1000, 1000); 8];
        let again = [1000, 1920, 1100, 900, 1000, 1050, 980, 1020].map(|ms| (1000 * 1000 / ms, 1000 * 1000 / ms));
        let (clocks, open) = answers(&measured(&base, &again, &base));
        assert!(clocks.iter().all(|answer| matches!(answer, Answer::Unknown(within) if *within > 0.91)), "{clocks:?}");
        assert!(open.unwrap().starts_with("±92 % in user time, ±92 % in wall time; more --rounds"));
    }

    #[test]
    fn narrow_intervals_exclude_an_effect_and_user_time_alone_may_answer() {
        let quiet = [(1000, 1000), (1001, 1000), (999, 1001), (1000, 999), (1002, 1000), (1000, 1000)];
        let (both, open) = answers(&measured(&quiet, &quiet, &quiet));
        assert!(
            both.iter().all(|answer| matches!(answer, Answer::NoEffect(within) if *within < 0.01)) && open.is_none()
        );
        // The wall time is noisy; the user time tells.
        let noisy = [(1000, 700), (1001, 1000), (999, 2000), (1000, 999), (1002, 1000), (1000, 1300)];
        let (clocks, open) = answers(&measured(&quiet, &noisy, &noisy));
        assert!(matches!(clocks, [Answer::NoEffect(_), Answer::Unknown(_)]) && open.is_none(), "{clocks:?}");
    }

    #[test]
    fn effects_beyond_the_noise_are_told_in_both_directions() {
        let (base, fast, slow) = ([(1000, 1000); 6], [(500, 500); 6], [(2000, 2000); 6]);
        assert_eq!(answers(&measured(&base, &base, &fast)).0, [Answer::Faster(2.0); 2]);
        assert_eq!(answers(&measured(&base, &base, &slow)).0, [Answer::Slower(2.0); 2]);
    }

    #[test]
    fn runs_shorter_than_the_kernels_tick_are_not_compared() {
        let short = [(4, 5), (0, 9), (4, 6), (8, 20), (4, 5), (0, 5)];
        let (clocks, open) = answers(&measured(&short, &short, &short));
        assert_eq!(clocks, [Answer::TooShort, Answer::NoEffect(0.0)]);
        assert_eq!(open, None);
        let swapped = [(4, 20), (0, 5), (4, 9), (8, 5), (4, 6), (0, 5)];
        let open = answers(&measured(&short, &swapped, &swapped)).1.unwrap();
        assert!(open.starts_with("user time too short to compare, ±"), "{open}");
    }
}
