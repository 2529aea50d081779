//! Option values as people write them, on the command line and in Python. The messages complete "invalid value 'X' for '--option': ".

use reach_os::{Fragmentation, FreeBlocks, FreeMemory};
use reach_trace::FastForward;
use std::io::Read;

/// Parses a whole number with an optional suffix: the letters of `suffixes` stand for rising powers of `step`.
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

/// Parses a number of bytes: `512M`, `16G`, `1T` (powers of 1024).
pub fn bytes(text: &str) -> Result<u64, String> {
    let number = text.strip_suffix(['B', 'b']).unwrap_or(text);
    scaled(number, 1024, "KMGT").ok_or_else(|| "expected a number of bytes, such as 512M, 16G or 1T".into())
}

/// Parses a count of at least 1: `500000`, `200k`, `10M` (powers of 1000).
pub fn count(text: &str) -> Result<u64, String> {
    match scaled(text, 1000, "KMG") {
        Some(n @ 1..) => Ok(n),
        _ => Err("expected a count of at least 1, such as 500000, 200k or 10M".into()),
    }
}

/// Parses a precision, such as `1%` or `0.5%`, to a share.
pub fn precision(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim_end();
    let percent = number.parse::<f64>().ok().filter(|percent| (0.01..=50.0).contains(percent));
    percent.map(|percent| percent / 100.0).ok_or_else(|| "expected per cent from 0.01 to 50, such as 1% or 0.5%".into())
}

/// Parses what to fast-forward: a count of references, or the name of a phase.
pub fn fast_forward(text: &str) -> Result<FastForward, String> {
    match text.starts_with(|first: char| first.is_ascii_digit()) {
        true => count(text).map(FastForward::References),
        false if text.is_empty() => {
            Err("expected a count of references, such as 10M, or a phase of the program".into())
        }
        false => Ok(FastForward::Phase(text.into())),
    }
}

/// Parses the state of free memory at boot: a recipe for fragmentation, or a file with the free blocks of a Linux computer. Its seed is
/// set later, from `--seed`.
pub fn fragmentation(text: &str) -> Result<FreeMemory, String> {
    match text.strip_prefix("blocks=") {
        Some(file) => free_blocks(file).map(FreeMemory::Counted),
        None => recipe(text).map(FreeMemory::Broken),
    }
}

/// Reads the free blocks of a computer from a file such as `/proc/buddyinfo`.
fn free_blocks(file: &str) -> Result<FreeBlocks, String> {
    // A computer with a thousand zones has less.
    const MOST: u64 = 1 << 20;
    let mut text = String::new();
    let opened = std::fs::File::open(file).and_then(|from| from.take(MOST + 1).read_to_string(&mut text));
    if opened.map_err(|error| format!("{file}: {error}"))? as u64 > MOST {
        return Err(format!("{file}: it has more than 1 MB; expected a file like /proc/buddyinfo"));
    }
    text.parse().map_err(|error| format!("{file}: {error}"))
}

/// Parses a recipe for fragmentation.
fn recipe(text: &str) -> Result<Fragmentation, String> {
    const KEYS: &str = "the keys are scattered (0 to 1, required), order (1 to 63), hold (0 to 1) and grain (0 to 62); or \
                        give blocks=FILE, such as blocks=/proc/buddyinfo";
    let mut recipe =
        Fragmentation { order: 9, scattered: f64::NAN, hold: 0.1, grain: 0, first: false, stay: None, seed: 0 };
    for pair in text.split(',') {
        let (key, value) = pair.split_once('=').ok_or_else(|| format!("{pair:?}: expected key=value; {KEYS}"))?;
        let share = || match value.parse::<f64>() {
            Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
            _ => Err(format!("{key} {value:?}: expected a share from 0 to 1")),
        };
        let power = |from: u8, to: u8| match value.parse() {
            Ok(power) if (from..=to).contains(&power) => Ok(power),
            _ => Err(format!("{key} {value:?}: expected {from} to {to}, a power of two of base pages")),
        };
        match key {
            "scattered" => recipe.scattered = share()?,
            "hold" => recipe.hold = share()?,
            "grain" => recipe.grain = power(0, 62)?,
            "order" => recipe.order = power(1, 63)?,
            _ => return Err(format!("unknown key {key:?}; {KEYS}")),
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
    fn suffixes_scale_bytes_by_1024_and_counts_by_1000() {
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
    fn errors_of_fragmentation_name_the_key_and_its_range() {
        let recipe = Fragmentation { order: 9, scattered: 0.8, hold: 0.1, grain: 0, first: false, stay: None, seed: 0 };
        assert_eq!(fragmentation("scattered=0.8"), Ok(FreeMemory::Broken(recipe)));
        assert_eq!(fragmentation("order=9,hold=0.1,scattered=0.8"), Ok(FreeMemory::Broken(recipe)));
        for (text, part) in [
            ("", "key=value"),
            ("order=9", "scattered is missing"),
            ("scattered=2", "from 0 to 1"),
            ("scattered=NaN", "from 0 to 1"),
            ("scattered=0.5,order=0", "order \"0\": expected 1 to 63"),
            ("scattered=0.5,grain=63", "grain \"63\": expected 0 to 62"),
            ("scatered=0.5", "unknown key \"scatered\""),
            ("blocks=/no/file", "/no/file: No such file"),
            ("blocks=/proc/self/status", "/proc/self/status: line 1: expected `Node 0, zone NAME`"),
        ] {
            assert!(fragmentation(text).unwrap_err().contains(part), "{text}");
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        let option = format!("blocks={}", file.path().display());
        std::fs::write(&file, "Node 0, zone DMA 3 0 7\n").unwrap();
        let Ok(FreeMemory::Counted(blocks)) = fragmentation(&option) else { panic!("free blocks are not read") };
        assert_eq!(blocks.counts(), [3, 0, 7]);
        std::fs::write(&file, " ".repeat(1 << 21)).unwrap();
        assert!(fragmentation(&option).unwrap_err().contains("more than 1 MB"));
    }
}
