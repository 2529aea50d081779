//! Parsers of option values. Their messages complete "invalid value 'X' for '--option': ".

pub use reach_lab::values::{bytes, count, fast_forward, fragmentation, precision};

use crate::probe;
use reach_lab::machine::{Resolved, resolve};
use reach_lab::paper::{Paper, PaperError};
use reach_live::collapse::What;
use reach_trace::synthetic::{self, Description};
use reach_trace::{Between, Sampling, TraceError};

/// Checks the specification of a synthetic program, `NAME[:KEY=VALUE,…]`, and returns it unchanged.
pub fn program(spec: &str) -> Result<String, TraceError> {
    synthetic::parse(spec).map(|_| spec.to_owned())
}

/// Finds a synthetic program by name.
pub fn program_name(name: &str) -> Result<&'static Description, TraceError> {
    // Parameters are checked and then dropped: they do not change which program is described.
    synthetic::parse(name)?;
    let name = name.split(':').next().unwrap_or(name);
    let found = synthetic::list().iter().find(|program| program.name == name);
    found.ok_or_else(|| TraceError::Invalid(format!("there is no synthetic program `{name}`")))
}

/// Reads a machine: a preset, a file, or `this-computer`.
pub fn machine(spec: &str) -> Result<Resolved, String> {
    resolve(&probe::located(spec)?).map_err(|error| error.to_string())
}

/// Checks the specification of a machine. Returns it with the file of `this-computer` in place of that name.
pub fn machine_spec(spec: &str) -> Result<String, String> {
    let spec = probe::located(spec)?;
    resolve(&spec).map(|_| spec).map_err(|error| error.to_string())
}

/// Opens a paper by name or folder.
pub fn paper(name: &str) -> Result<Paper, PaperError> {
    Paper::open(name)
}

/// Parses a sample to record. It is always fast-forwarded between intervals: a trace of a sample holds nothing else there.
pub fn recorded_sample(text: &str) -> Result<Sampling, String> {
    let sampling = Sampling::parse(text, Sampling::RECORDED)?;
    if sampling.between != Between::FastForward {
        return Err("a recorded sample is fast-forwarded between intervals; leave out between".into());
    }
    Ok(sampling)
}

/// Reads a kind of memory of a process, or an address.
pub fn memory_kind(text: &str) -> Result<What, String> {
    let address = || u64::from_str_radix(text.strip_prefix("0x")?, 16).ok();
    match text {
        "anon" => Ok(What::Anonymous),
        "heap" => Ok(What::Heap),
        _ => address().map(What::At).ok_or_else(|| "expected anon, heap or an address such as 0x7f0000000000".into()),
    }
}

/// Parses a percentage above 0, at most 100.
pub fn percent(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(percent) if percent > 0.0 && percent <= 100.0 => Ok(percent),
        _ => Err("expected a percentage above 0, at most 100, such as 5 or 0.5".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_are_above_0_and_at_most_100() {
        assert_eq!(["0.5", "5", "100"].map(percent), [Ok(0.5), Ok(5.0), Ok(100.0)]);
        for wrong in ["0", "-1", "101", "NaN", "inf", "5%", ""] {
            assert!(percent(wrong).is_err(), "{wrong}");
        }
    }
}
