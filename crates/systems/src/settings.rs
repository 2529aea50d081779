//! Options of systems: named, typed, with no silent default.

use crate::SystemError;
use reach_core::PageShift;
use std::collections::BTreeMap;

/// What values an option takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepts {
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A whole number in this range.
    Number {
        /// The least.
        least: u64,
        /// The greatest.
        most: u64,
    },
    /// Page sizes joined by `+`, or `all` that the machine has.
    Sizes,
    /// The name of a file without its folder, or `all`.
    File,
}

impl Accepts {
    fn takes(self, value: &str) -> bool {
        match self {
            Accepts::Choice(words) => words.contains(&value),
            Accepts::Number { least, most } => value.parse().is_ok_and(|n: u64| (least..=most).contains(&n)),
            Accepts::File => !value.is_empty() && !value.contains('/'),
            Accepts::Sizes => value == "all" || value.split('+').all(|size| page_size(size).is_some()),
        }
    }
}

impl std::fmt::Display for Accepts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Accepts::Choice(words) => write!(f, "{}", words.join(" or ")),
            Accepts::Number { least, most } => write!(f, "a number from {least} to {most}"),
            Accepts::Sizes => write!(f, "all, or page sizes such as 64K+4M"),
            Accepts::File => write!(f, "all, or a file's name such as libc.so.6, without its folder"),
        }
    }
}

/// An option that a system has.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Its name.
    pub name: &'static str,
    /// What it does, on one line.
    pub summary: &'static str,
    /// What it takes.
    pub accepts: Accepts,
    /// What it is unless given.
    pub default: &'static str,
}

/// All options of one system with their values: checked, none missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings(BTreeMap<&'static str, String>);

impl Settings {
    pub(crate) fn defaults(known: &[Setting]) -> Settings {
        debug_assert!(known.iter().all(|setting| setting.accepts.takes(setting.default)));
        Settings(known.iter().map(|setting| (setting.name, setting.default.to_string())).collect())
    }

    pub(crate) fn set(
        &mut self,
        system: &str,
        known: &[Setting],
        option: &str,
        value: &str,
    ) -> Result<(), SystemError> {
        let Some(setting) = known.iter().find(|setting| setting.name == option) else {
            let names: Vec<&str> = known.iter().map(|setting| setting.name).collect();
            let has = if names.is_empty() { "it has none".into() } else { format!("it has {}", names.join(", ")) };
            let near = near(option, names.into_iter());
            return Err(SystemError::Option { system: system.into(), option: option.into(), near, known: has });
        };
        if !setting.accepts.takes(value) {
            let accepts = setting.accepts.to_string();
            let (option, value) = (option.into(), value.into());
            return Err(SystemError::Value { system: system.into(), option, value, accepts });
        }
        self.0.insert(setting.name, value.into());
        Ok(())
    }

    /// The names and values, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.0.iter().map(|(&name, value)| (name, value.as_str()))
    }

    /// The value of a [`Accepts::Choice`] option that the system has.
    pub(crate) fn choice(&self, name: &str) -> &str {
        &self.0[name]
    }

    /// The value of a [`Accepts::Number`] option that the system has.
    pub(crate) fn number(&self, name: &str) -> u64 {
        self.0[name].parse().expect("checked when it was set")
    }

    /// The value of an [`Accepts::File`] option that the system has; `None`: all.
    pub(crate) fn file(&self, name: &str) -> Option<&str> {
        Some(self.0[name].as_str()).filter(|&file| file != "all")
    }

    /// The value of an [`Accepts::Sizes`] option that the system has; `None`: all.
    pub(crate) fn sizes(&self, name: &str) -> Option<Vec<PageShift>> {
        let value = &self.0[name];
        (value != "all").then(|| value.split('+').filter_map(page_size).collect())
    }
}

/// A page size as people write it: a power of two with K, M or G.
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

/// `: did you mean "…"?` for the known name nearest to `wanted`, or nothing where none is near.
pub(crate) fn near<'a>(wanted: &str, known: impl Iterator<Item = &'a str>) -> String {
    let likeness = |name: &str| strsim::jaro_winkler(wanted, name);
    known
        .map(|name| (likeness(name), name))
        .filter(|&(likeness, _)| likeness > 0.7)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map_or(String::new(), |(_, name)| format!(": did you mean {name:?}?"))
}
