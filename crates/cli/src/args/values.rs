//! Values of options. Messages complete "invalid value 'X' for '--option': ".

use reach_lab::machine::MachineError;
use reach_lab::paper::{Paper, PaperError};
use reach_os::Fragmentation;
use reach_trace::synthetic::{self, Description};
use reach_trace::{Between, FastForward, Sampling, TraceError};

/// The spec of a synthetic program, which is good.
pub fn program(spec: &str) -> Result<String, TraceError> {
    synthetic::parse(spec).map(|_| spec.to_owned())
}

/// The name of a synthetic program.
pub fn program_name(name: &str) -> Result<&'static Description, TraceError> {
    // Parameters are no part of a name, but whoever gives some wants to know about the same program.
    synthetic::parse(name)?;
    let name = name.split(':').next().unwrap_or(name);
    let found = synthetic::list().iter().find(|program| program.name == name);
    found.ok_or_else(|| TraceError::Invalid(format!("there is no synthetic program `{name}`")))
}

/// The spec of a machine, which is good.
pub fn machine(spec: &str) -> Result<String, MachineError> {
    reach_lab::machine::resolve(spec).map(|_| spec.to_owned())
}

/// A paper by name or folder, which is good.
pub fn paper(name: &str) -> Result<Paper, PaperError> {
    Paper::open(name)
}

/// A sample that is to be recorded: of what is between its intervals only what the operating system would notice.
pub fn recorded_sample(text: &str) -> Result<Sampling, String> {
    let sampling: Sampling = text.parse()?;
    if text.contains("between=") && sampling.between != Between::FastForward {
        return Err(
            "of what is between intervals a recording has only what between=fast-forward leaves; leave between out"
                .into(),
        );
    }
    Ok(Sampling { between: Between::FastForward, ..sampling })
}

/// A number with an optional suffix: powers of `step`, by the letters of `suffixes`.
fn scaled(text: &str, step: u64, suffixes: &str) -> Option<u64> {
    let upper = text.to_ascii_uppercase();
    let last = upper.chars().last()?;
    let (digits, power) = match suffixes.find(last) {
        Some(at) => (&upper[..upper.len() - 1], at as u32 + 1),
        None => (&upper[..], 0),
    };
    let whole = digits.bytes().all(|b| b.is_ascii_digit());
    digits.parse::<u64>().ok().filter(|_| whole)?.checked_mul(step.checked_pow(power)?)
}

/// Bytes: `512M`, `16G`, `1T` (powers of 1024).
pub fn bytes(text: &str) -> Result<u64, String> {
    let number = text.strip_suffix(['B', 'b']).unwrap_or(text);
    scaled(number, 1024, "KMGT").ok_or_else(|| "give bytes, such as 512M, 16G or 1T".into())
}

/// A count: `500000`, `200k`, `10M` (powers of 1000).
pub fn count(text: &str) -> Result<u64, String> {
    match scaled(text, 1000, "KMG") {
        Some(n @ 1..) => Ok(n),
        _ => Err("give a count from 1, such as 500000, 200k or 10M".into()),
    }
}

/// What is fast-forwarded: a count, or the name of a phase.
pub fn fast_forward(text: &str) -> Result<FastForward, String> {
    match text.starts_with(|first: char| first.is_ascii_digit()) {
        true => count(text).map(FastForward::References),
        false if text.is_empty() => Err("give a count of references, or a phase of the program".into()),
        false => Ok(FastForward::Phase(text.into())),
    }
}

/// A recipe for fragmentation; its seed is filled in later.
pub fn fragmentation(text: &str) -> Result<Fragmentation, String> {
    const KEYS: &str = "give scattered=SHARE, order=N, hold=SHARE and grain=N, with shares from 0 to 1";
    let mut recipe = Fragmentation { order: 9, scattered: f64::NAN, hold: 0.1, grain: 0, seed: 0 };
    for pair in text.split(',') {
        let (key, value) =
            pair.split_once('=').ok_or_else(|| format!("{pair:?} is not of the form key=value; {KEYS}"))?;
        let share = || match value.parse::<f64>() {
            Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
            _ => Err(format!("{key} of {value} is no share; give one from 0 to 1")),
        };
        match key {
            "scattered" => recipe.scattered = share()?,
            "hold" => recipe.hold = share()?,
            "grain" => {
                let grain = value.parse().ok().filter(|&grain| grain < 63);
                recipe.grain = grain.ok_or_else(|| format!("grain of {value} is none; give a number of doublings"))?;
            }
            "order" => match value.parse() {
                Ok(order @ 1..=63) => recipe.order = order,
                _ => return Err(format!("order of {value} is none; give a number of doublings, such as 9")),
            },
            _ => return Err(format!("there is no key {key:?}; {KEYS}")),
        }
    }
    if recipe.scattered.is_nan() {
        return Err(format!("scattered is missing; {KEYS}"));
    }
    Ok(recipe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_suffixes() {
        assert_eq!(bytes("16G"), Ok(16 << 30));
        assert_eq!(bytes("512mb"), Ok(512 << 20));
        assert_eq!(bytes("4096"), Ok(4096));
        assert_eq!(count("10M"), Ok(10_000_000));
        for wrong in ["", "G", "-1", "+1", "1.5G", "16X", "99999999T", "é"] {
            assert!(bytes(wrong).is_err(), "{wrong}");
            assert!(count(wrong).is_err(), "{wrong}");
        }
        assert!(count("0").is_err());
    }

    #[test]
    fn fragmentation_names_what_is_wrong() {
        let recipe = Fragmentation { order: 9, scattered: 0.8, hold: 0.1, grain: 0, seed: 0 };
        assert_eq!(fragmentation("scattered=0.8"), Ok(recipe));
        assert_eq!(fragmentation("order=9,hold=0.1,scattered=0.8"), Ok(recipe));
        for (text, part) in [
            ("", "key=value"),
            ("order=9", "scattered is missing"),
            ("scattered=2", "from 0 to 1"),
            ("scattered=NaN", "from 0 to 1"),
            ("scattered=0.5,order=0", "order of 0"),
            ("scatered=0.5", "no key \"scatered\""),
        ] {
            assert!(fragmentation(text).unwrap_err().contains(part), "{text}");
        }
    }
}
