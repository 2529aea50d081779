//! Values of machine files as they are written: `"64K"`, `"full"`, `"lru"`, `"42 cycles + 51 ns"`.

use reach_core::{Bytes, PageShift, ReuseSignature};
use reach_hardware::config::{Index, Operation, PageEnd, Replacement, Sharing, Writes};
use serde::de::{Deserialize, Deserializer, Error, Visitor};
use std::fmt;

/// A size in bytes, written with a unit: `"4K"`, `"1.25M"`, `"30M"`, `"128"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(pub u64);

/// A page size, written as a [`Size`] that must be a power of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageSize(pub PageShift);

/// A page size, or `"none"` (`None`): of the host below a guest, of coalesced entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeOrNone(pub Option<PageShift>);

/// The number of ways of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ways {
    /// `"full"`: fully associative, as many ways as entries.
    Full,
    /// A number.
    Of(u32),
}

impl Ways {
    /// Returns the number of ways of an array with `entries`.
    pub fn of(self, entries: u32) -> u32 {
        match self {
            Ways::Full => entries,
            Ways::Of(ways) => ways,
        }
    }
}

/// A time, partly in processor cycles and partly in nanoseconds: `"60 cycles"`, `"75 ns"`, `"42 cycles + 51 ns"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delay {
    /// Processor cycles.
    pub cycles: u32,
    /// Nanoseconds.
    pub nanoseconds: u32,
}

impl Delay {
    /// Returns the whole in cycles of a clock of `mhz` MHz, rounded to the nearest.
    pub fn at(self, mhz: u32) -> u64 {
        u64::from(self.cycles) + (u64::from(self.nanoseconds) * u64::from(mhz) + 500) / 1000
    }
}

fn parse_size(text: &str) -> Result<Size, String> {
    let bad = || format!("{text:?} is not a size; write it like \"64K\" or \"1.25M\"");
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit: u64 = match &text[digits.len()..] {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        _ => return Err(bad()),
    };
    // Fractions are exact: 1.875M is 1.875 · 2^20 bytes; a fraction that leaves part of a byte is refused.
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if fraction.len() > 6 || whole.is_empty() || !whole.bytes().chain(fraction.bytes()).all(|b| b.is_ascii_digit()) {
        return Err(bad());
    }
    let scale = 10u64.pow(fraction.len() as u32);
    let scaled: u64 = format!("{whole}{fraction}").parse().map_err(|_| bad())?;
    let bytes = scaled.checked_mul(unit).ok_or_else(bad)?;
    if bytes % scale != 0 || digits.ends_with('.') {
        return Err(bad());
    }
    Ok(Size(bytes / scale))
}

fn parse_page_size(text: &str) -> Result<PageSize, String> {
    let Size(bytes) = parse_size(text)?;
    if !bytes.is_power_of_two() {
        return Err(format!("a page of {text} is not a power of two"));
    }
    Ok(PageSize(PageShift(bytes.trailing_zeros() as u8)))
}

fn parse_size_or_none(text: &str) -> Result<SizeOrNone, String> {
    match text {
        "none" => Ok(SizeOrNone(None)),
        _ => parse_page_size(text).map(|size| SizeOrNone(Some(size.0))),
    }
}

fn parse_ways(text: &str) -> Result<Ways, String> {
    match text {
        "full" => Ok(Ways::Full),
        _ => text.parse().map(Ways::Of).map_err(|_| format!("{text:?} is not a number of ways, nor \"full\"")),
    }
}

fn parse_delay(text: &str) -> Result<Delay, String> {
    let bad = || format!("{text:?} is not a time; write it like \"60 cycles\", \"75 ns\" or \"42 cycles + 51 ns\"");
    let mut delay = Delay { cycles: 0, nanoseconds: 0 };
    for term in text.split('+') {
        let term = term.trim();
        let digits = term.trim_end_matches(|c: char| !c.is_ascii_digit());
        let number: u32 = digits.parse().map_err(|_| bad())?;
        let place = match term[digits.len()..].trim() {
            "cycles" => &mut delay.cycles,
            "ns" => &mut delay.nanoseconds,
            _ => return Err(bad()),
        };
        if *place != 0 {
            return Err(bad());
        }
        *place = number;
    }
    Ok(delay)
}

/// A value that is written as a word from a fixed list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word<T>(pub T);

/// The words of a type in machine files.
pub trait Words: Copy + 'static {
    /// Each word and its value.
    const WORDS: &'static [(&'static str, Self)];
}

impl Words for Index {
    const WORDS: &'static [(&'static str, Index)] = &[("low", Index::Low), ("xor", Index::Xor)];
}

impl Words for Replacement {
    const WORDS: &'static [(&'static str, Replacement)] = &[
        ("lru", Replacement::Lru),
        ("tree-plru", Replacement::TreePlru),
        ("nru", Replacement::Nru),
        ("random", Replacement::Random),
        ("rotating-plru", Replacement::RotatingPlru),
        ("quad-age-lru", Replacement::QuadAgeLru),
        ("itp", Replacement::InstructionAware),
        ("chirp", Replacement::ReusePrediction(ReuseSignature::ControlFlow)),
        ("chirp-instruction", Replacement::ReusePrediction(ReuseSignature::Instruction)),
        ("xptp", Replacement::PageTableAware),
    ];
}

impl Words for Writes {
    const WORDS: &'static [(&'static str, Writes)] =
        &[("back", Writes::Back), ("around", Writes::Around), ("through", Writes::Through)];
}

impl Words for Sharing {
    const WORDS: &'static [(&'static str, Sharing)] =
        &[("shared", Sharing::Shared), ("partitioned", Sharing::Partitioned), ("replicated", Sharing::Replicated)];
}

impl Words for PageEnd {
    const WORDS: &'static [(&'static str, PageEnd)] =
        &[("stop", PageEnd::Stop), ("first-line", PageEnd::FirstLine), ("continue", PageEnd::Continue)];
}

impl Words for Operation {
    const WORDS: &'static [(&'static str, Operation)] = &[
        ("integer", Operation::Integer),
        ("float", Operation::Float),
        ("load", Operation::Load),
        ("store", Operation::Store),
    ];
}

impl<'de, T: Words> Deserialize<'de> for Word<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let word = String::deserialize(deserializer)?;
        let known = || T::WORDS.iter().map(|(known, _)| *known).collect::<Vec<_>>().join(", ");
        let found = T::WORDS.iter().find(|(known, _)| *known == word);
        found
            .map(|&(_, value)| Word(value))
            .ok_or_else(|| D::Error::custom(format!("{word:?}: expected one of {}", known())))
    }
}

/// Reads a value that is written as a string, or for some types as an integer.
struct Text<T> {
    parse: fn(&str) -> Result<T, String>,
    integer: fn(u32) -> Option<T>,
    expecting: &'static str,
}

impl<T> Visitor<'_> for Text<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expecting)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        (self.parse)(text).map_err(E::custom)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<T, E> {
        u32::try_from(number)
            .ok()
            .and_then(self.integer)
            .ok_or_else(|| E::invalid_value(serde::de::Unexpected::Signed(number), &self))
    }
}

macro_rules! from_text {
    ($($t:ident: $parse:ident, $integer:expr, $expecting:literal;)*) => {$(
        impl<'de> Deserialize<'de> for $t {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = Text { parse: $parse, integer: $integer, expecting: $expecting };
                deserializer.deserialize_any(text)
            }
        }
    )*};
}
from_text! {
    Size: parse_size, |_| None, "a size in a string, such as \"64K\"";
    PageSize: parse_page_size, |_| None, "a page size in a string, such as \"4K\"";
    SizeOrNone: parse_size_or_none, |_| None, "a page size in a string, such as \"4K\", or \"none\"";
    Ways: parse_ways, |ways| Some(Ways::Of(ways)), "a number of ways or \"full\"";
    Delay: parse_delay, |_| None, "a time in a string, such as \"60 cycles\" or \"75 ns\"";
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Bytes(self.0).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_exact_or_refused() {
        for (text, bytes) in
            [("128", 128), ("4K", 4096), ("1.25M", 1280 << 10), ("1.875M", 1920 << 10), ("1G", 1 << 30)]
        {
            assert_eq!(parse_size(text), Ok(Size(bytes)), "{text}");
        }
        for text in ["", "K", "4k", "4KB", "-4K", "1.K", ".5K", "1.3333", "0.1", "99999999999999999999", "99999999999G"]
        {
            assert!(parse_size(text).is_err(), "{text}");
        }
        assert!(parse_page_size("12K").unwrap_err().contains("power of two"));
    }

    #[test]
    fn delays_add_cycles_and_nanoseconds() {
        assert_eq!(parse_delay("60 cycles").unwrap().at(240), 60);
        assert_eq!(parse_delay("42 cycles + 51 ns").unwrap().at(3500), 42 + 179);
        assert_eq!(parse_delay("75ns").unwrap().at(2200), 165);
        for text in ["", "60", "60 c", "1 ns + 2 ns", "ns", "-1 ns", "1 ns +"] {
            assert!(parse_delay(text).is_err(), "{text}");
        }
    }

    #[test]
    fn each_word_has_one_value_and_others_are_refused_with_the_list() {
        #[derive(serde::Deserialize)]
        struct One {
            x: Word<Replacement>,
        }
        for (word, value) in Replacement::WORDS {
            let one: One = toml::from_str(&format!("x = {word:?}")).unwrap();
            assert_eq!(one.x, Word(*value));
        }
        let error = toml::from_str::<One>("x = \"fifo\"").err().unwrap().to_string();
        assert!(error.contains("\"fifo\": expected one of lru, tree-plru, nru, random"), "{error}");
    }
}
