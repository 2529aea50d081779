//! Part of systems that are told what a policy gains where: profiles of memory, by kind of mapping and address.
//!
//! The form is that of the CBMM kernel (`mmap_filters_write`), one line for each span of addresses:
//!
//! ```text
//! POLICY,SECTION,BENEFIT[,addr,>,FIRST][,addr,<,END]
//! huge,mmap,41534456,addr,>,0x7f0000000000,addr,<,0x7f0000200000
//! ```
//!
//! `huge` says what a huge page saves there, `eager` what a page saves that is there before its first touch; both in cycles. A section is
//! `code`, `data`, `heap` or `mmap`. Without addresses, the line is about all of the section. The first line that names an
//! address counts, and one with a benefit of 0 names none.
//!
//! In an option, a profile is the path of such a file, or its lines joined by `+`, with colons for commas. The option's value is always the
//! latter: so results name all that they depend on.

use reach_core::{Protection, Role, Span};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::ops::Range;

/// The most bytes of a file: 60,000 lines of the usual length.
const MAX_BYTES: u64 = 4 << 20;

/// The page of `addr,=`: the kernel compares in pages of 4 KB.
const PAGE: u64 = 4096;

/// A part of the address space, by what it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Section {
    Code,
    Data,
    Heap,
    Mmap,
}

impl Section {
    const ALL: [(&'static str, Section); 4] =
        [("code", Section::Code), ("data", Section::Data), ("heap", Section::Heap), ("mmap", Section::Mmap)];

    /// The section of memory with this role and these rights. `None`: stacks, which profiles do not name.
    pub(crate) fn of(role: Role, protection: Protection) -> Option<Section> {
        match role {
            Role::Mmap => Some(Section::Mmap),
            Role::Heap => Some(Section::Heap),
            Role::Image if protection.execute => Some(Section::Code),
            Role::Image => Some(Section::Data),
            Role::Stack => None,
        }
    }
}

/// The decision that a line is about.
#[derive(Clone, Copy)]
enum Policy {
    Huge,
    Eager,
}

/// Benefits by address: disjoint spans, each by its first byte with its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Spans(BTreeMap<u64, (u64, u64)>);

impl Spans {
    /// Gives `span` this benefit, whatever it had.
    fn overwrite(&mut self, span: Range<u64>, benefit: u64) {
        let before = self.0.range(..span.start).next_back().map(|(&start, &rest)| (start, rest));
        if let Some((start, (end, value))) = before.filter(|(_, (end, _))| *end > span.start) {
            self.0.insert(start, (span.start, value));
            self.0.insert(span.start, (end, value));
        }
        let covered: Vec<u64> = self.0.range(span.clone()).map(|(&start, _)| start).collect();
        for start in covered {
            let Some((end, value)) = self.0.remove(&start).filter(|(end, _)| *end > span.end) else { continue };
            self.0.insert(span.end, (end, value));
        }
        self.0.insert(span.start, (span.end, benefit));
    }

    fn at(&self, address: u64) -> u64 {
        let found = self.0.range(..=address).next_back().filter(|(_, (end, _))| *end > address);
        found.map_or(0, |(_, &(_, benefit))| benefit)
    }

    fn within(&self, span: Range<u64>) -> impl Iterator<Item = (Range<u64>, u64)> {
        let first = self.0.range(..=span.start).next_back().map_or(span.start, |(&start, _)| start);
        let cut =
            move |(&start, &(end, benefit)): (&u64, &(u64, u64))| (start.max(span.start)..end.min(span.end), benefit);
        self.0.range(first..span.end).map(cut).filter(|(part, _)| !part.is_empty())
    }
}

/// The benefits of both decisions, by section and address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Profile {
    huge: [Spans; 4],
    eager: [Spans; 4],
}

impl Profile {
    /// Reads the value of an option.
    ///
    /// # Errors
    /// When a line has another form; the message names it.
    pub(crate) fn parse(value: &str) -> Result<Profile, String> {
        let mut profile = Profile::default();
        if value == "none" {
            return Ok(profile);
        }
        let lines: Vec<Line> = value
            .split('+')
            .enumerate()
            .map(|(at, text)| Line::parse(text).map_err(|what| format!("line {}, {text:?}: {what}", at + 1)))
            .collect::<Result<_, _>>()?;
        // The first line counts, so it is written last.
        for line in lines.into_iter().rev().filter(|line| line.benefit > 0) {
            let sections = match line.policy {
                Policy::Huge => &mut profile.huge,
                Policy::Eager => &mut profile.eager,
            };
            sections[line.section as usize].overwrite(line.span, line.benefit);
        }
        Ok(profile)
    }

    /// Returns the cycles that a huge page at `address` saves; 0 where no line names it.
    pub(crate) fn of_huge_page(&self, section: Section, address: u64) -> u64 {
        self.huge[section as usize].at(address)
    }

    /// Returns the parts of `span` for which `eager` lines exist, with the cycles that a page saves there.
    pub(crate) fn of_eager_paging(&self, section: Section, span: Span) -> impl Iterator<Item = (Range<u64>, u64)> {
        self.eager[section as usize].within(span.start.0..span.end().0)
    }
}

/// A line of a profile.
struct Line {
    policy: Policy,
    section: Section,
    benefit: u64,
    span: Range<u64>,
}

impl Line {
    fn parse(text: &str) -> Result<Line, String> {
        let mut fields = text.split(':');
        let policy = match fields.next() {
            Some("huge") => Policy::Huge,
            Some("eager") => Policy::Eager,
            _ => return Err("expected huge or eager first".into()),
        };
        let name = fields.next().unwrap_or_default();
        let section = Section::ALL.iter().find(|(known, _)| *known == name);
        let Some(&(_, section)) = section else {
            return Err(format!("section {name:?}: expected code, data, heap or mmap"));
        };
        let benefit = number(fields.next().unwrap_or_default())?;
        let mut span = 0..u64::MAX;
        while let Some(quantity) = fields.next() {
            if quantity != "addr" {
                return Err(format!("{quantity:?}: expected addr; other properties of mappings are not compared"));
            }
            let comparison = fields.next().unwrap_or_default();
            let value = number(fields.next().unwrap_or_default())?;
            let named = match comparison {
                // As in the kernel, which splits mappings there: `>` takes in the address itself.
                ">" => value..u64::MAX,
                "<" => 0..value,
                "=" => value & !(PAGE - 1)..(value & !(PAGE - 1)).saturating_add(PAGE),
                _ => return Err(format!("{comparison:?}: expected >, < or =")),
            };
            span = span.start.max(named.start)..span.end.min(named.end);
        }
        if span.is_empty() { Err("no address is meant".into()) } else { Ok(Line { policy, section, benefit, span }) }
    }
}

/// Reads a number, decimal or hexadecimal with 0x.
fn number(text: &str) -> Result<u64, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_hexdigit()) => u64::from_str_radix(digits, 16).ok(),
        None if text.bytes().all(|byte| byte.is_ascii_digit()) => text.parse().ok(),
        _ => None,
    };
    parsed.ok_or_else(|| format!("{text:?}: expected a whole number below 2^64, decimal or with 0x"))
}

/// Whether `value` is a profile, not the path of one.
fn is_profile(value: &str) -> bool {
    value == "none" || value.starts_with("huge:") || value.starts_with("eager:")
}

/// Whether an option takes `value`, which is no path.
pub(crate) fn takes(value: &str) -> bool {
    is_profile(value) && Profile::parse(value).is_ok()
}

/// Returns the profile that the user means by `value`, a profile or the path of one, in the form of an option's value.
///
/// # Errors
/// When the file cannot be read, or a line has another form.
pub(crate) fn resolve(value: &str) -> Result<String, String> {
    let profile = if is_profile(value) { value.to_owned() } else { from_file(value)? };
    Profile::parse(&profile).map(|_| profile)
}

/// Reads the file at `path`. Empty lines, and lines that begin with `#`, say nothing.
fn from_file(path: &str) -> Result<String, String> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut bytes));
    read.map_err(|error| format!("{error}; give the path of a profile, or its lines as huge:SECTION:BENEFIT"))?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(format!("it has more than {} MB, which no profile has", MAX_BYTES >> 20));
    }
    let text = String::from_utf8(bytes).map_err(|_| "it is not a text file (UTF-8)".to_owned())?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let lines: Vec<String> = lines.map(|line| line.replace(',', ":")).collect();
    if lines.is_empty() { Err("it has no line".into()) } else { Ok(lines.join("+")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use reach_core::VirtAddr;

    fn error(value: &str) -> String {
        Profile::parse(value).unwrap_err()
    }

    #[test]
    fn the_first_line_that_names_an_address_counts() {
        let profile = Profile::parse(
            "huge:heap:0:addr:>:0x1000:addr:<:0x3000+huge:heap:7:addr:>:0x2000:addr:<:0x3000+huge:heap:5+eager:heap:3:addr:=:0x2fff",
        )
        .unwrap();
        let at = |address| profile.of_huge_page(Section::Heap, address);
        assert_eq!([at(0), at(0x1fff), at(0x2000), at(0x2fff), at(0x3000), at(1 << 60)], [5, 5, 7, 7, 5, 5]);
        assert_eq!(profile.of_huge_page(Section::Mmap, 0x2000), 0);
        let eager = |start, len| {
            let span = Span { start: VirtAddr(start), len };
            profile.of_eager_paging(Section::Heap, span).collect::<Vec<_>>()
        };
        assert_eq!(eager(0x1000, 0x1800), [(0x2000..0x2800, 3)]);
        assert_eq!(eager(0x2800, 0x8000), [(0x2800..0x3000, 3)]);
        assert_eq!(eager(0x3000, 0x8000), []);
    }

    #[test]
    fn errors_name_the_line_and_what_is_expected() {
        assert_eq!(
            error("huge:heap:1+huge:stack:1"),
            "line 2, \"huge:stack:1\": section \"stack\": expected code, data, heap or mmap"
        );
        assert!(error("large:heap:1").contains("expected huge or eager first"));
        assert!(error("huge:heap").contains("\"\": expected a whole number"));
        assert!(error("huge:heap:+1").contains("\"\": expected a whole number"));
        assert!(error("huge:heap:-1").contains("\"-1\": expected a whole number"));
        assert!(error("huge:heap:1:len:>:5").contains("\"len\": expected addr"));
        assert!(error("huge:heap:1:addr:!:5").contains("\"!\": expected >, < or ="));
        assert!(error("huge:heap:1:addr:>:5:addr:<:5").contains("no address is meant"));
        assert!(resolve("/nowhere/profile").unwrap_err().contains("give the path of a profile"));
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in "(huge|eager|none|heap|mmap|addr|[0-9x<>=:+,]){0,12}") {
            let _ = Profile::parse(&text);
        }

        #[test]
        fn spans_answer_as_a_list_of_lines_does(
            lines in proptest::collection::vec((0u64..40, 1u64..40, 0u64..4), 1..20),
            span in (0u64..50, 1u64..40),
        ) {
            let text: Vec<String> = lines.iter().map(|(start, len, benefit)| {
                format!("huge:mmap:{benefit}:addr:>:{start}:addr:<:{0}+eager:mmap:{benefit}:addr:>:{start}:addr:<:{0}", start + len)
            }).collect();
            let profile = Profile::parse(&text.join("+")).unwrap();
            let plain = |at: u64| {
                let named = |(start, len, benefit): &&(u64, u64, u64)| *benefit > 0 && (*start..start + len).contains(&at);
                lines.iter().find(named).map_or(0, |(_, _, benefit)| *benefit)
            };
            for at in 0..100 {
                prop_assert_eq!(profile.of_huge_page(Section::Mmap, at), plain(at));
            }
            let (start, len) = span;
            let parts = profile.of_eager_paging(Section::Mmap, Span { start: VirtAddr(start), len });
            let named: BTreeMap<u64, u64> = parts.flat_map(|(part, benefit)| part.map(move |at| (at, benefit))).collect();
            let expected = (start..start + len).map(|at| (at, plain(at))).filter(|(_, benefit)| *benefit > 0);
            prop_assert_eq!(named, expected.collect::<BTreeMap<_, _>>());
        }
    }
}
