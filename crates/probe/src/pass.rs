//! One pass: all that one process measures.

mod walks;

use crate::bench::{Bench, BenchError};
use crate::infer::{self, Point, Ways};
use crate::pattern::{Access, LINE, Page};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

pub(crate) use walks::LEAST_PARALLEL;

/// A hit in the second level takes less than this many times what it takes with small pages; a walk takes more.
const WALK: f64 = 2.5;

/// The name of the bytes of the host's page.
pub(crate) const HOST_PAGE: &str = "nested.host_page";

/// The name of the bytes of a page of 2 MB that a TLB entry spans.
const PART: &str = "tlb.part.2m.bytes";

/// Lines that displace others from the first-level data cache where its size was not found: 128 KB.
const FILLER_LINES: u64 = 2048;

/// What one process has measured.
///
/// Names are `tlb.first.4k.entries`, `tlb.first.fetch.4k.entries`, `tlb.second.2m.latency`, `cache.1.bytes`, `memory.latency`,
/// `os.fault.4k` and so on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Pass {
    /// Numbers by name. Latencies are in core cycles, sizes in bytes.
    pub numbers: BTreeMap<String, f64>,
    /// Why a number was not found, by name, as a clause.
    pub missing: BTreeMap<String, String>,
    /// Curves by name.
    pub curves: BTreeMap<String, Curve>,
}

/// A curve that has steps where something is full.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// The unit of the counts: `pages of 4 KB`.
    pub unit: String,
    /// Count and cycles of each point, by rising count.
    pub points: Vec<(u64, f64)>,
}

impl Curve {
    fn new(unit: &str, points: &[Point]) -> Curve {
        Curve { unit: unit.to_owned(), points: points.iter().map(|point| (point.count, point.cycles)).collect() }
    }
}

impl Pass {
    /// Measures all that any bench can show. What it cannot is said in [`Pass::missing`].
    pub fn of(bench: &mut dyn Bench) -> Pass {
        let mut pass = Pass::default();
        pass.measure(bench);
        pass
    }

    /// Adds what [`Pass::of`] measures.
    pub(crate) fn measure(&mut self, bench: &mut dyn Bench) {
        let mut filler = FILLER_LINES;
        let splinter = infer::splinter(bench);
        if let Ok(splinter) = &splinter {
            self.curves.insert("tlb.part.2m".into(), Curve::new("parts of 4 KB of pages of 2 MB", &splinter.curve));
        }
        let caches = splinter.as_ref().map_err(Clone::clone).and_then(|splinter| infer::caches(bench, splinter));
        match &caches {
            Ok(caches) => {
                let bytes = caches.levels.first().and_then(|first| first.bytes);
                // Twice as many as fit, because pages of filler are scattered over the sets.
                filler = bytes.map_or(FILLER_LINES, |bytes| 2 * bytes / LINE);
                self.take_caches(caches, splinter.as_ref().is_ok_and(|splinter| splinter.reach.is_some()));
            }
            Err(error) => self.lack("cache", error),
        }
        let held = caches.as_ref().ok().and_then(|caches| caches.levels.last()).map_or(0, |last| last.reach);
        match infer::stream(bench, held) {
            Ok(rate) => {
                let why = "no cache was found, or memory holds too few pages of 2 MB to read beyond it";
                self.enter_or("memory.bandwidth.one".into(), rate, why);
            }
            Err(error) => self.lack("memory.bandwidth.one", &error),
        }
        let small = infer::tlbs(bench, Page::Small, filler);
        let reach = small.as_ref().ok().and_then(|tlbs| tlbs.first?.reach);
        let second = small.as_ref().ok().and_then(|tlbs| tlbs.second);
        self.take_tlbs(Page::Small, Access::Load, small);
        let fetched = infer::fetch_tlbs(bench);
        self.take_tlbs(Page::Small, Access::Fetch, fetched);
        let part = match reach {
            Some(reach) => self.take_splinter(splinter, reach),
            None => {
                let why = "the first level of TLBs, which it is compared with, was not found for pages of 4 KB";
                self.missing.insert(PART.into(), why.into());
                None
            }
        };
        match part {
            Some(part) if part < Page::Huge.bytes() => {
                let why = format!(
                    "entries for pages of 2 MB hold parts of {} KB, as the host's pages are; the arrays for whole ones are not in use",
                    part >> 10
                );
                for level in ["first", "second"] {
                    self.missing.insert(format!("tlb.{level}.2m"), why.clone());
                }
            }
            _ => {
                let huge = infer::tlbs(bench, Page::Huge, filler);
                self.take_tlbs(Page::Huge, Access::Load, huge);
            }
        }
        self.measure_walks(bench, caches.as_ref().ok(), second);
    }

    /// Enters a number.
    pub fn enter(&mut self, name: impl Into<String>, value: f64) {
        self.numbers.insert(name.into(), value);
    }

    /// Notes why a number was not found.
    pub(crate) fn lack(&mut self, name: &str, error: &BenchError) {
        self.missing.insert(name.to_owned(), error.to_string());
    }

    fn enter_or(&mut self, name: String, value: Option<f64>, why: &str) {
        match value {
            Some(value) => self.enter(name, value),
            None => {
                self.missing.insert(name, why.to_owned());
            }
        }
    }

    /// Enters the host's page size, 0 for none, from what the entries for pages of 2 MB span and from `is_guest`: whether this
    /// computer says that it is a guest. `None`: it does not say.
    pub(crate) fn take_guest(&mut self, is_guest: Option<bool>) {
        let part = self.numbers.get(PART).copied();
        let whole = Page::Huge.bytes() as f64;
        let host_page = match (is_guest, part) {
            (Some(false), Some(part)) if part < whole => {
                Err("this computer does not say that it is a guest, yet its TLB entries hold parts of pages of 2 MB")
            }
            (Some(false), _) => Ok(0.0),
            (Some(true), Some(part)) => Ok(part),
            (None, Some(part)) if part < whole => Ok(part),
            (None, Some(_)) => {
                Err("this computer does not say whether it is a guest, and the host's pages would be at least 2 MB")
            }
            (_, None) => {
                Err("this computer may be a guest, but the part of a page of 2 MB that a TLB entry holds was not found")
            }
        };
        match host_page {
            Ok(bytes) => {
                self.enter(HOST_PAGE, bytes);
                if bytes > 0.0 {
                    self.lack_parts();
                }
            }
            Err(why) => {
                self.missing.insert(HOST_PAGE.into(), why.into());
            }
        }
    }

    /// Enters what the entries for pages of 2 MB span, and returns it.
    fn take_splinter(&mut self, splinter: Result<infer::Splinter, BenchError>, reach: u64) -> Option<u64> {
        let bytes = splinter.map_err(|error| self.lack(PART, &error)).ok()?.bytes(reach);
        let why = "the cycles of parts of a page of 2 MB have a step, but not where any part's size would have it";
        self.enter_or(PART.into(), bytes.map(|bytes| bytes as f64), why);
        bytes
    }

    fn take_tlbs(&mut self, page: Page, access: Access, tlbs: Result<infer::Tlbs, BenchError>) {
        let size = match access {
            Access::Load => page.name().to_owned(),
            Access::Fetch => format!("fetch.{}", page.name()),
        };
        let tlbs = match tlbs {
            Ok(tlbs) => tlbs,
            Err(error) => return self.lack(&format!("tlb.{size}"), &error),
        };
        let unit = format!("pages of {}", if page == Page::Small { "4 KB" } else { "2 MB" });
        self.curves.insert(format!("tlb.{size}"), Curve::new(&unit, &tlbs.curve));
        let usual = self.numbers.get("tlb.second.4k.latency").copied().unwrap_or(f64::INFINITY);
        for (name, level) in [("first", tlbs.first), ("second", tlbs.second)] {
            let Some(level) = level else {
                let why = "the cycles of a page have no step up to the most pages that were tried";
                self.missing.insert(format!("tlb.{name}.{size}"), why.to_owned());
                continue;
            };
            if page == Page::Huge && name == "second" && level.latency > WALK * usual {
                let why =
                    "a miss of the first level takes as long as a walk; in a guest, small pages of the host do that";
                self.missing.insert(format!("tlb.{name}.{size}"), why.to_owned());
                continue;
            }
            // How many pages the second level holds, fetches do not show.
            if name == "first" || access == Access::Load {
                self.take_size(&format!("tlb.{name}.{size}"), level);
            }
            if name == "second" {
                self.enter(format!("tlb.{name}.{size}.latency"), level.latency);
            }
        }
    }

    /// Enters the ways and entries of a level of TLBs, or the reasons.
    fn take_size(&mut self, name: &str, level: infer::Level) {
        let ways = level.ways.map(|ways| match ways {
            Ways::Full => level.entries.unwrap_or(0) as f64,
            Ways::Of(ways) => ways.into(),
        });
        let why = "no two strides agree on how many pages share a set, or memory holds too few pages";
        self.enter_or(format!("{name}.ways"), ways, why);
        let why = "ways and steps do not agree, or memory holds too few pages";
        self.enter_or(format!("{name}.entries"), level.entries.map(|entries| entries as f64), why);
    }

    fn take_caches(&mut self, caches: &infer::Caches, is_splintered: bool) {
        self.curves.insert("cache".into(), Curve::new("pairs of lines (128 bytes)", &caches.curve));
        for (i, cache) in caches.levels.iter().enumerate() {
            let name = format!("cache.{}", i + 1);
            self.enter_or(format!("{name}.latency"), cache.latency, "its part of the curve is not flat");
            if i >= 2 {
                self.enter(format!("{name}.bytes"), cache.reach as f64);
                continue;
            }
            let why = match i {
                1 if is_splintered => {
                    "the host's frames are scattered over the sets, so that no stride leaves the set unchanged"
                }
                _ => "no two strides agree on how many lines share a set",
            };
            self.enter_or(format!("{name}.ways"), cache.ways.map(f64::from), why);
            let bytes = cache.bytes.map(|bytes| bytes as f64);
            let why = if i == 1 && is_splintered { why } else { "ways and steps do not agree" };
            self.enter_or(format!("{name}.bytes"), bytes, why);
        }
        self.enter_or(
            "memory.latency".into(),
            caches.memory,
            "the cycles of a line have no flat part beyond the caches",
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host_page(is_guest: Option<bool>, part: Option<u64>) -> Result<f64, String> {
        let mut pass = Pass::default();
        if let Some(part) = part {
            pass.enter(PART, part as f64);
        }
        pass.take_guest(is_guest);
        pass.numbers.get(HOST_PAGE).copied().ok_or_else(|| pass.missing[HOST_PAGE].clone())
    }

    #[test]
    fn the_host_page_is_what_entries_span_in_a_guest_and_none_elsewhere() {
        let (small, whole) = (Some(4 << 10), Some(2 << 20));
        assert_eq!(host_page(Some(true), small), Ok(4096.0));
        assert_eq!(host_page(Some(true), whole), Ok(2_097_152.0));
        assert_eq!(host_page(Some(false), whole), Ok(0.0));
        assert_eq!(host_page(Some(false), None), Ok(0.0));
        assert_eq!(host_page(None, small), Ok(4096.0), "only hosts have splintered pages");
        assert!(host_page(None, whole).unwrap_err().contains("does not say whether"));
        assert!(host_page(Some(false), small).unwrap_err().contains("does not say that"));
        assert!(host_page(Some(true), None).unwrap_err().contains("was not found"));
    }
}
