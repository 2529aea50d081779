//! One pass: all that one process measures.

use crate::bench::{Bench, BenchError};
use crate::infer::{self, Point, Ways};
use crate::pattern::{LINE, Page};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A hit in the second level takes less than this many times what it takes with small pages; a walk takes more.
const WALK: f64 = 2.5;

/// Lines that displace others from the first-level data cache where its size was not found: 128 KB.
const FILLER_LINES: u64 = 2048;

/// What one process has measured.
///
/// Names are `tlb.first.4k.entries`, `tlb.second.2m.latency`, `cache.1.bytes`, `memory.latency`, `os.fault.4k`
/// and so on.
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
        match infer::caches(bench) {
            Ok(caches) => {
                let bytes = caches.levels.first().and_then(|first| first.bytes);
                // Twice as many as fit, because pages of filler are scattered over the sets.
                filler = bytes.map_or(FILLER_LINES, |bytes| 2 * bytes / LINE);
                self.take_caches(&caches);
            }
            Err(error) => self.lack("cache", &error),
        }
        for page in [Page::Small, Page::Huge] {
            match infer::tlbs(bench, page, filler) {
                Ok(tlbs) => self.take_tlbs(page, &tlbs),
                Err(error) => self.lack(&format!("tlb.{}", page.name()), &error),
            }
        }
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

    fn take_tlbs(&mut self, page: Page, tlbs: &infer::Tlbs) {
        let size = page.name();
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
            let ways = level.ways.map(|ways| match ways {
                Ways::Full => level.entries.unwrap_or(0) as f64,
                Ways::Of(ways) => ways.into(),
            });
            self.enter_or(
                format!("tlb.{name}.{size}.ways"),
                ways,
                "no two strides agree on how many pages share a set, or memory holds too few pages",
            );
            self.enter_or(
                format!("tlb.{name}.{size}.entries"),
                level.entries.map(|entries| entries as f64),
                "ways and steps do not agree, or memory holds too few pages",
            );
            if name == "second" {
                self.enter(format!("tlb.{name}.{size}.latency"), level.latency);
            }
        }
    }

    fn take_caches(&mut self, caches: &infer::Caches) {
        self.curves.insert("cache".into(), Curve::new("pairs of lines (128 bytes)", &caches.curve));
        for (i, cache) in caches.levels.iter().enumerate() {
            let name = format!("cache.{}", i + 1);
            self.enter(format!("{name}.latency"), cache.latency);
            if i >= 2 {
                self.enter(format!("{name}.bytes"), cache.reach as f64);
                continue;
            }
            let why = "no two strides agree on how many lines share a set";
            self.enter_or(format!("{name}.ways"), cache.ways.map(f64::from), why);
            let bytes = cache.bytes.map(|bytes| bytes as f64);
            self.enter_or(format!("{name}.bytes"), bytes, "ways and steps do not agree");
        }
        self.enter_or(
            "memory.latency".into(),
            caches.memory,
            "the cycles of a line have no flat part beyond the caches",
        );
    }
}
