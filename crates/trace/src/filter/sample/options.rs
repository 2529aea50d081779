//! The settings of a sample, and how users write them.

use super::first_run::{IN_FULL, SEGMENT};
use std::str::FromStr;

/// How a program is sampled. Lengths are in references.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampling {
    /// The distance from the start of one interval to the start of the next, at least `warm + measure`.
    pub every: u64,
    /// The length of an interval, at least 1.
    pub measure: u64,
    /// The length of the detailed warm-up before each interval: simulated in detail and not measured.
    pub warm: u64,
    /// How the references between intervals are simulated.
    pub between: Between,
}

/// How references between intervals are simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Between {
    /// Functional warming of TLBs and the operating system.
    Tlbs,
    /// Functional warming of TLBs, the operating system and data caches.
    Caches,
    /// Fast-forward: only references that the operating system would notice stay.
    FastForward,
}

impl Between {
    const ALL: [Between; 3] = [Between::Tlbs, Between::Caches, Between::FastForward];

    /// Returns the name that users write.
    pub fn name(self) -> &'static str {
        match self {
            Between::Tlbs => "tlbs",
            Between::Caches => "caches",
            Between::FastForward => "fast-forward",
        }
    }
}

impl Default for Sampling {
    /// Measures 2,000 references of every 400,000, after 4,000 of detailed warm-up; caches are kept warm.
    ///
    /// Many short intervals find phases that few long ones miss (Wunderlich et al. 2003, §3.3).
    fn default() -> Sampling {
        Sampling { every: 400_000, measure: 2_000, warm: 4_000, between: Between::Caches }
    }
}

impl Sampling {
    /// The length in references of the segments into which code that runs for the first time is cut.
    pub const FIRST_RUN_SEGMENT: u64 = SEGMENT;

    /// The number of first segments of such code, all of which are measured.
    pub const FIRST_RUN_IN_FULL: u64 = IN_FULL;

    /// Returns of how many segments of code that runs for the first time one is measured after the first ones: of 4 where less than one reference
    /// in 64 of the rest is simulated in detail, of 1 (so all are) where it is more than one in 32.
    ///
    /// The best share of a stratum grows with its spread (Cochran 1977, §5.5). Cycles of new code vary several times as much as
    /// those of other code, and its share of detailed simulation is 16 times as large.
    pub(super) fn first_run_one_of(&self) -> u64 {
        (self.every / (self.warm.saturating_add(self.measure)) / 16).clamp(1, 4)
    }

    /// Returns how many references at most count as new because of new memory alone: two periods. What takes longer has intervals
    /// of its own.
    pub(super) fn most_new_memory(&self) -> u64 {
        self.every.saturating_mul(2)
    }

    /// The default of recorded samples, which leave out references between intervals: 100,000 references of every 10 million,
    /// after 200,000 that warm TLBs and caches.
    pub const RECORDED: Sampling =
        Sampling { every: 10_000_000, measure: 100_000, warm: 200_000, between: Between::FastForward };

    /// Reads `key=value,key=value`. Keys that are not given keep their value in `default`.
    pub fn parse(text: &str, default: Sampling) -> Result<Sampling, String> {
        let mut sampling = default;
        for pair in text.split(',').filter(|pair| !pair.is_empty()) {
            let Some((key, value)) = pair.split_once('=') else {
                return Err(format!("{pair:?} is not of the form key=value; {KEYS}"));
            };
            if key == "between" {
                sampling.between = between(value)?;
                continue;
            }
            let field = match key {
                "every" => &mut sampling.every,
                "measure" => &mut sampling.measure,
                "warm" => &mut sampling.warm,
                _ => return Err(format!("unknown key {key:?}; {KEYS}")),
            };
            *field = count(value).ok_or_else(|| format!("{key}={value:?}: expected a count; {KEYS}"))?;
        }
        match sampling {
            Sampling { measure: 0, .. } => Err(format!("measure=0: expected at least 1 reference; {KEYS}")),
            Sampling { every, measure, warm, .. } if warm.saturating_add(measure) > every => {
                Err(format!("every={every}: expected at least warm + measure, {warm} + {measure}; {KEYS}"))
            }
            _ => Ok(sampling),
        }
    }
}

const KEYS: &str = "give every=N, measure=N and warm=N, counts of references such as 10M, 100k or 0, and between=tlbs, \
                    caches or fast-forward";

impl FromStr for Sampling {
    type Err = String;

    /// Reads `key=value,key=value`. Keys that are not given keep their default.
    fn from_str(text: &str) -> Result<Sampling, String> {
        Sampling::parse(text, Sampling::default())
    }
}

fn between(value: &str) -> Result<Between, String> {
    let renamed = match value {
        "follow" => Some(Between::Tlbs),
        "skim" => Some(Between::FastForward),
        _ => None,
    };
    if let Some(between) = renamed {
        return Err(format!("between={value} is now called between={}", between.name()));
    }
    let named = Between::ALL.into_iter().find(|between| between.name() == value);
    named.ok_or_else(|| format!("between={value:?}: expected tlbs, caches or fast-forward"))
}

/// Reads a count with an optional suffix: k, m or g, for powers of 1000.
fn count(text: &str) -> Option<u64> {
    let (digits, unit) = match text.as_bytes().last()?.to_ascii_lowercase() {
        b'k' => (&text[..text.len() - 1], 1_000),
        b'm' => (&text[..text.len() - 1], 1_000_000),
        b'g' => (&text[..text.len() - 1], 1_000_000_000),
        _ => (text, 1),
    };
    let only_digits = digits.bytes().all(|digit| digit.is_ascii_digit());
    digits.parse::<u64>().ok().filter(|_| only_digits)?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dense_samples_measure_all_new_code() {
        let one_of = |text: &str| text.parse::<Sampling>().unwrap().first_run_one_of();
        assert_eq!(
            ["", "every=200k", "every=190k", "every=60M", "every=5k,measure=5k,warm=0"].map(one_of),
            [4, 2, 1, 4, 1]
        );
    }

    #[test]
    fn keys_that_are_not_given_keep_their_default() {
        assert_eq!("".parse(), Ok(Sampling::default()));
        let expected = Sampling { every: 1_000_000, measure: 2_000, warm: 0, between: Between::Caches };
        assert_eq!("every=1M,warm=0".parse(), Ok(expected));
    }

    #[test]
    fn mistakes_are_explained() {
        for (text, part) in [
            ("every", "key=value"),
            ("evry=1", "unknown key"),
            ("every=-1", "expected a count"),
            ("every=1x", "expected a count"),
            ("measure=0", "at least 1 reference"),
            ("every=1k", "at least warm + measure"),
            ("between=cache", "expected tlbs, caches or fast-forward"),
            ("between=follow", "now called between=tlbs"),
            ("between=skim", "now called between=fast-forward"),
        ] {
            let error = text.parse::<Sampling>().unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
