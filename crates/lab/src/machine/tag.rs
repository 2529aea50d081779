//! Provenance: the source of each number.
//!
//! Every fact in a machine file is an array of the value, a tag and, where the tag needs one, a reason:
//! `latency = [7, "E", "as on Skylake"]`.

use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};
use std::fmt;
use std::marker::PhantomData;

/// The source of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tag {
    /// Stated in the paper that the machine comes from.
    Paper,
    /// Derived from a paper's numbers by arithmetic; the reason shows it.
    Derived,
    /// Checked with a short calculation; the reason shows it.
    Calculated,
    /// A vendor's document, read for this file.
    VendorRead,
    /// A vendor's document, recalled; to be checked before it is published.
    Vendor,
    /// A third party's measurement, read for this file.
    ThirdPartyRead,
    /// A third party's measurement, recalled.
    ThirdParty,
    /// Measured on the machine that the file describes. Where `reach machine probe` did, the reason gives the interval.
    Measured,
    /// An estimate; the reason says why this one.
    Estimate,
    /// Set by the user in place of the file's value. Never written in a file.
    Override,
}

impl Tag {
    /// The tags that a file may use, in the order of the documentation.
    pub const IN_FILES: [Tag; 9] = [
        Tag::Paper,
        Tag::Derived,
        Tag::Calculated,
        Tag::VendorRead,
        Tag::Vendor,
        Tag::ThirdPartyRead,
        Tag::ThirdParty,
        Tag::Measured,
        Tag::Estimate,
    ];

    /// Returns the tag as files write it.
    pub const fn symbol(self) -> &'static str {
        match self {
            Tag::Paper => "P",
            Tag::Derived => "D",
            Tag::Calculated => "S",
            Tag::VendorRead => "V+",
            Tag::Vendor => "V",
            Tag::ThirdPartyRead => "T+",
            Tag::ThirdParty => "T",
            Tag::Measured => "M",
            Tag::Estimate => "E",
            Tag::Override => "set",
        }
    }

    /// Returns the tag's meaning, in a few words.
    pub const fn meaning(self) -> &'static str {
        match self {
            Tag::Paper => "stated in the paper",
            Tag::Derived => "derived from the paper's numbers",
            Tag::Calculated => "checked by calculation",
            Tag::VendorRead => "vendor's document, read",
            Tag::Vendor => "vendor's document, recalled",
            Tag::ThirdPartyRead => "third party's measurement, read",
            Tag::ThirdParty => "third party's measurement, recalled",
            Tag::Measured => "measured",
            Tag::Estimate => "estimate",
            Tag::Override => "set by the user",
        }
    }

    /// Returns the tag that files write as `symbol`. `None`: no tag has this symbol.
    pub fn parse(symbol: &str) -> Option<Tag> {
        Tag::IN_FILES.into_iter().chain([Tag::Override]).find(|tag| tag.symbol() == symbol)
    }

    /// Whether a value with this tag must carry a reason, because no document has it.
    pub const fn needs_reason(self) -> bool {
        matches!(self, Tag::Derived | Tag::Calculated | Tag::Estimate)
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.symbol())
    }
}

/// A value with its provenance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tagged<T> {
    /// The value.
    pub value: T,
    /// The source of the value.
    pub tag: Tag,
    /// Why the file gives this value. Present and not empty where [`Tag::needs_reason`].
    pub reason: Option<String>,
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Tagged<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(TaggedVisitor(PhantomData))
    }
}

struct TaggedVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for TaggedVisitor<T> {
    type Value = Tagged<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value with its provenance, such as [64, \"P\"] or [64, \"E\", \"reason\"]")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Tagged<T>, A::Error> {
        let value = seq.next_element()?.ok_or_else(|| A::Error::invalid_length(0, &self))?;
        let symbol: String = seq.next_element()?.ok_or_else(|| A::Error::invalid_length(1, &self))?;
        let reason: Option<String> = seq.next_element()?;
        if seq.next_element::<serde::de::IgnoredAny>()?.is_some() {
            return Err(A::Error::invalid_length(4, &self));
        }
        let Some(tag) = Tag::parse(&symbol) else {
            let known: Vec<_> = Tag::IN_FILES.iter().map(|tag| tag.symbol()).collect();
            return Err(A::Error::custom(format!("no provenance tag {symbol:?}; use one of {}", known.join(" "))));
        };
        if tag.needs_reason() && reason.as_ref().is_none_or(|reason| reason.trim().is_empty()) {
            let meaning = tag.meaning();
            return Err(A::Error::custom(format!(
                "tag {symbol:?} ({meaning}) needs a reason: [value, {symbol:?}, \"reason\"]"
            )));
        }
        Ok(Tagged { value, tag, reason })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(serde::Deserialize, Debug)]
    struct One {
        x: Tagged<u32>,
    }

    #[test]
    fn every_value_needs_a_tag_and_every_estimate_a_reason() {
        let one: One = toml::from_str("x = [7, \"E\", \"guess\"]").unwrap();
        assert_eq!(one.x, Tagged { value: 7, tag: Tag::Estimate, reason: Some("guess".into()) });
        for (text, message) in [
            ("x = 7", "a value with its provenance"),
            ("x = [7]", "invalid length 1"),
            ("x = [7, \"Q\"]", "no provenance tag \"Q\"; use one of P D S V+ V T+ T M E"),
            ("x = [7, \"E\"]", "needs a reason"),
            ("x = [7, \"D\", \" \"]", "needs a reason"),
            ("x = [7, \"P\", \"a\", \"b\"]", "invalid length 4"),
            ("x = [\"7\", \"P\"]", "invalid type: string"),
        ] {
            let error = toml::from_str::<One>(text).unwrap_err().to_string();
            assert!(error.contains(message), "{text}: {error}");
        }
    }

    #[test]
    fn every_symbol_reads_back_as_its_tag() {
        for tag in Tag::IN_FILES {
            assert_eq!(Tag::parse(tag.symbol()), Some(tag));
        }
    }
}
