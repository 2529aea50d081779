//! Options of systems: each has a name, a type and a default, and is read as that type.
//!
//! A system declares its options as a table of [`Setting`]s. [`Settings`] holds one checked value for each, so that
//! reading cannot fail. Options whose values are words are enums made by [`choice!`]: the words that an option takes
//! and the variants that the system matches come from one definition.

use crate::error::SystemError;
use crate::profile::{self, Profile};
use reach_core::{Bytes, PageShift, Span, VirtAddr};
use std::collections::BTreeMap;
use std::fmt;

/// The unit of an option's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A plain count.
    Count,
    /// Processor cycles.
    Cycles,
    /// Thousandths of a processor cycle.
    Millicycles,
    /// Milliseconds of simulated time.
    Milliseconds,
    /// Microseconds of simulated time.
    Microseconds,
    /// 2^10 bytes.
    Kilobytes,
    /// 2^20 bytes.
    Megabytes,
    /// Hundredths.
    Percent,
    /// Thousandths.
    Permille,
    /// Ten-thousandths.
    BasisPoints,
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unit::Count => "",
            Unit::Cycles => " cycles",
            Unit::Millicycles => " thousandths of a cycle",
            Unit::Milliseconds => " ms",
            Unit::Microseconds => " µs",
            Unit::Kilobytes => " KB",
            Unit::Megabytes => " MB",
            Unit::Percent => " percent",
            Unit::Permille => " permille",
            Unit::BasisPoints => " ten-thousandths",
        })
    }
}

/// The values that an option takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepts {
    /// `on` or `off`.
    Switch,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A whole number in this range, without its unit.
    Number {
        /// The smallest value.
        min: u64,
        /// The largest value.
        max: u64,
        /// The unit of the number.
        unit: Unit,
    },
    /// Page sizes joined by `+`, or `all` that the machine has.
    Sizes,
    /// Sizes of blocks joined by `+`, or `none`.
    Blocks,
    /// The name of a file without its folder, or `all`.
    File,
    /// Spans of addresses, `START-END` in hexadecimal, joined by `+`; or `none`.
    Spans,
    /// A profile of memory, or the path of one; or `none`.
    Profile,
}

impl Accepts {
    /// A number of `unit` from `min` to `max`.
    pub(crate) const fn number(min: u64, max: u64, unit: Unit) -> Accepts {
        Accepts::Number { min, max, unit }
    }

    fn takes(self, value: &str) -> bool {
        match self {
            Accepts::Switch => matches!(value, "on" | "off"),
            Accepts::Choice(words) => words.contains(&value),
            Accepts::Number { min, max, .. } => value.parse().is_ok_and(|n: u64| (min..=max).contains(&n)),
            Accepts::File => !value.is_empty() && !value.contains('/'),
            Accepts::Sizes => value == "all" || is_sizes(value),
            Accepts::Blocks => value == "none" || is_sizes(value),
            Accepts::Spans => value == "none" || value.split('+').all(|span| address_span(span).is_some()),
            Accepts::Profile => profile::takes(value),
        }
    }

    /// The word that options of this type use today for `value`, an earlier or common spelling of on or off.
    fn respelled(self, value: &str) -> Option<&'static str> {
        let word = match value {
            "1" | "true" | "yes" => "on",
            "0" | "false" | "no" => "off",
            _ => return None,
        };
        (self.takes(word) && !matches!(self, Accepts::File)).then_some(word)
    }
}

impl fmt::Display for Accepts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Accepts::Switch => write!(f, "on or off"),
            Accepts::Choice(words) => write!(f, "{}", words.join(" or ")),
            Accepts::Number { min, max, unit } => write!(f, "{min} to {max}{unit}"),
            Accepts::Sizes => write!(f, "all, or page sizes such as 64K+4M"),
            Accepts::Blocks => write!(f, "none, or sizes such as 16K+64K"),
            Accepts::File => write!(f, "all, or a file's name such as libc.so.6, without its folder"),
            Accepts::Spans => write!(f, "none, or spans of addresses such as 7f0000000000-7f0000200000, joined by +"),
            Accepts::Profile => {
                write!(f, "none, the path of a profile, or its lines such as huge:heap:41534456, joined by +")
            }
        }
    }
}

/// One option of a system.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// The option's name.
    pub name: &'static str,
    /// A description of the option, on one line.
    pub summary: &'static str,
    /// The values that it takes.
    pub accepts: Accepts,
    /// The value unless the user gives one.
    pub default: &'static str,
    /// The name that the option had in earlier versions. `None` where it never changed.
    pub formerly: Option<&'static str>,
}

impl Setting {
    pub(crate) const fn new(
        name: &'static str,
        accepts: Accepts,
        default: &'static str,
        summary: &'static str,
    ) -> Setting {
        Setting { name, summary, accepts, default, formerly: None }
    }

    /// The same option, of which `old` was the name in earlier versions.
    pub(crate) const fn formerly(self, old: &'static str) -> Setting {
        Setting { formerly: Some(old), ..self }
    }
}

/// An enum that an option reads, with the word for each variant.
pub(crate) trait Choice: Copy + 'static {
    /// All words and their variants.
    const WORDS: &'static [(&'static str, Self)];
}

/// Defines the enum of an option whose values are words: `Variant = "word"`. Its `ACCEPTS` goes into the [`Setting`].
macro_rules! choice {
    ($(#[$about:meta])* $vis:vis enum $name:ident { $($(#[$doc:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $vis enum $name { $($(#[$doc])* $variant,)+ }

        impl $name {
            /// The words that the option takes.
            $vis const ACCEPTS: $crate::settings::Accepts = $crate::settings::Accepts::Choice(&[$($word),+]);
        }

        impl $crate::settings::Choice for $name {
            const WORDS: &'static [(&'static str, $name)] = &[$(($word, $name::$variant)),+];
        }
    };
}
pub(crate) use choice;

/// The values of all options of one system: checked, none missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings(BTreeMap<&'static str, String>);

impl FromIterator<(&'static str, String)> for Settings {
    fn from_iter<I: IntoIterator<Item = (&'static str, String)>>(values: I) -> Settings {
        Settings(values.into_iter().collect())
    }
}

impl Settings {
    pub(crate) fn defaults(known: &[Setting]) -> Settings {
        debug_assert!(known.iter().all(|setting| setting.accepts.takes(setting.default)));
        Settings(known.iter().map(|setting| (setting.name, setting.default.to_string())).collect())
    }

    /// Sets one of the `known` options of `system`.
    ///
    /// # Errors
    /// When there is no such option, when it has another name today, and when it does not take `value`.
    pub(crate) fn set(
        &mut self,
        system: &str,
        known: &[Setting],
        option: &str,
        value: &str,
    ) -> Result<(), SystemError> {
        let Some(setting) = known.iter().find(|setting| setting.name == option) else {
            return Err(unknown(system, known, option, value));
        };
        if setting.accepts == Accepts::Profile {
            let profile = profile::resolve(value).map_err(|what| {
                let what = format!("{option}={value}: {what}");
                SystemError::Options { system: system.into(), what }
            })?;
            self.0.insert(setting.name, profile);
            return Ok(());
        }
        if !setting.accepts.takes(value) {
            let hint =
                setting.accepts.respelled(value).map_or(String::new(), |word| format!("; write {option}={word}"));
            let accepts = setting.accepts.to_string();
            let (system, option, value) = (system.into(), option.into(), value.into());
            return Err(SystemError::Value { system, option, value, accepts, hint });
        }
        self.0.insert(setting.name, value.into());
        Ok(())
    }

    /// Gives the option `name` a value that it takes.
    pub(crate) fn replace(&mut self, name: &'static str, value: &str) {
        self.0.insert(name, value.into());
    }

    /// All names and values, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.0.iter().map(|(&name, value)| (name, value.as_str()))
    }

    /// The value of an option whose [`Setting`] has `T::ACCEPTS`.
    pub(crate) fn choice<T: Choice>(&self, name: &str) -> T {
        let word = self.0[name].as_str();
        let found = T::WORDS.iter().find(|(known, _)| *known == word);
        found.map(|&(_, value)| value).expect("checked when it was set")
    }

    /// Whether an [`Accepts::Switch`] option is on.
    pub(crate) fn is_on(&self, name: &str) -> bool {
        self.0[name] == "on"
    }

    /// The value of an [`Accepts::Number`] option, in the option's unit.
    pub(crate) fn number(&self, name: &str) -> u64 {
        self.0[name].parse().expect("checked when it was set")
    }

    /// The value of an [`Accepts::Number`] option whose range fits into 32 bits.
    pub(crate) fn number32(&self, name: &str) -> u32 {
        self.number(name).try_into().expect("the option's range fits into 32 bits")
    }

    /// The value of an [`Accepts::Number`] option in [`Unit::Kilobytes`].
    pub(crate) fn kilobytes(&self, name: &str) -> Bytes {
        Bytes(self.number(name) << 10)
    }

    /// The value of an [`Accepts::Number`] option in [`Unit::Megabytes`].
    pub(crate) fn megabytes(&self, name: &str) -> Bytes {
        Bytes(self.number(name) << 20)
    }

    /// The value of an [`Accepts::File`] option. `None`: all files.
    pub(crate) fn file(&self, name: &str) -> Option<&str> {
        Some(self.0[name].as_str()).filter(|&file| file != "all")
    }

    /// The value of an [`Accepts::Sizes`] option. `None`: all sizes of the machine.
    pub(crate) fn sizes(&self, name: &str) -> Option<Vec<PageShift>> {
        let value = &self.0[name];
        (value != "all").then(|| sizes(value).collect())
    }

    /// The sizes of an [`Accepts::Blocks`] option.
    pub(crate) fn blocks(&self, name: &str) -> Vec<PageShift> {
        sizes(&self.0[name]).collect()
    }

    /// The spans of an [`Accepts::Spans`] option.
    pub(crate) fn spans(&self, name: &str) -> Vec<Span> {
        self.0[name].split('+').filter_map(address_span).collect()
    }

    /// The value of an [`Accepts::Profile`] option.
    pub(crate) fn profile(&self, name: &str) -> Profile {
        Profile::parse(&self.0[name]).expect("checked when it was set")
    }
}

/// The error for an option name that is not among `known`.
fn unknown(system: &str, known: &[Setting], option: &str, value: &str) -> SystemError {
    if let Some(setting) = known.iter().find(|setting| setting.formerly == Some(option)) {
        return SystemError::Renamed {
            system: system.into(),
            old: option.into(),
            new: setting.name,
            value: setting.accepts.respelled(value).unwrap_or(value).into(),
        };
    }
    let names: Vec<&str> = known.iter().map(|setting| setting.name).collect();
    let known = if names.is_empty() { "it has none".into() } else { format!("it has {}", names.join(", ")) };
    SystemError::Option { system: system.into(), option: option.into(), near: near(option, names.into_iter()), known }
}

/// Whether `value` is page sizes joined by `+`.
fn is_sizes(value: &str) -> bool {
    value.split('+').all(|size| page_size(size).is_some())
}

/// Reads page sizes joined by `+`. A word is none.
fn sizes(value: &str) -> impl Iterator<Item = PageShift> {
    value.split('+').filter_map(page_size)
}

/// Reads a page size as people write it: a power of two with K, M or G.
fn page_size(text: &str) -> Option<PageShift> {
    let unit = match text.chars().last()? {
        'K' => 10,
        'M' => 20,
        'G' => 30,
        _ => return None,
    };
    let count: u64 = text[..text.len() - 1].parse().ok()?;
    (count.is_power_of_two() && count < 1 << 20).then(|| PageShift(unit + count.ilog2() as u8))
}

/// Reads a span of addresses as `/proc/PID/maps` writes it: `START-END` in hexadecimal. A word is none.
fn address_span(text: &str) -> Option<Span> {
    let address = |text: &str| {
        let digits = text.strip_prefix("0x").unwrap_or(text);
        let all_digits = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        all_digits.then(|| u64::from_str_radix(digits, 16).ok()).flatten()
    };
    let (start, end) = text.split_once('-')?;
    let (start, end) = (address(start)?, address(end)?);
    (start < end).then(|| Span { start: VirtAddr(start), len: end - start })
}

/// Returns `: did you mean "…"?` for the known name nearest to `wanted`, or an empty text where none is near.
pub(crate) fn near<'a>(wanted: &str, known: impl Iterator<Item = &'a str>) -> String {
    let likeness = |name: &str| strsim::jaro_winkler(wanted, name);
    known
        .map(|name| (likeness(name), name))
        .filter(|&(likeness, _)| likeness > 0.7)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map_or(String::new(), |(_, name)| format!(": did you mean {name:?}?"))
}
