//! Which TLB array a curve is of, and at which sizes and numbers of ways.

use reach_hardware::config::{Machine, Tlb};
use reach_hardware::{CurveCounts, Geometry};
use std::str::FromStr;

/// A curve as it was asked for: `l2`, `l2_tlb:entries=64..4096/1536,ways=4..16/full`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Curve {
    /// The array, by its name in the machine file, or with `_tlb` behind that or its beginning.
    array: String,
    entries: Vec<Item>,
    ways: Vec<Item>,
}

/// Part of a list of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Item {
    One(u32),
    Between(u32, u32),
    Full,
}

/// What ranges of ways stand for.
const WAYS: [u32; 12] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64];
/// The most entries, and the most geometries.
const MOST: u32 = 1 << 20;
const MOST_GEOMETRIES: usize = 4096;

impl FromStr for Curve {
    type Err = String;

    fn from_str(text: &str) -> Result<Curve, String> {
        let (array, options) = text.split_once(':').unwrap_or((text, ""));
        let mut curve = Curve {
            array: array.into(),
            entries: vec![Item::Between(16, 1 << 14)],
            ways: vec![Item::Between(1, 16), Item::Full],
        };
        for pair in options.split(',').filter(|pair| !pair.is_empty()) {
            let Some((key, value)) = pair.split_once('=') else {
                return Err(format!("{pair:?} is not of the form key=value; {KEYS}"));
            };
            match key {
                "entries" => curve.entries = items(key, value, false)?,
                "ways" => curve.ways = items(key, value, true)?,
                _ => return Err(format!("there is no key {key:?}; {KEYS}")),
            }
        }
        Ok(curve)
    }
}

const KEYS: &str = "give entries=LIST and ways=LIST, of numbers and ranges such as 64..4096/1536, ways also full";

fn items(key: &str, list: &str, full: bool) -> Result<Vec<Item>, String> {
    let number = |text: &str| match text.parse::<u32>() {
        Ok(n @ 1..=MOST) => Ok(n),
        _ => Err(format!("{key} of {text:?} is no number from 1 to {MOST}; {KEYS}")),
    };
    let item = |text: &str| match text.split_once("..") {
        Some((from, to)) => match (number(from)?, number(to)?) {
            (from, to) if from <= to => Ok(Item::Between(from, to)),
            _ => Err(format!("{key} of {text:?} is a range without numbers; {KEYS}")),
        },
        None if full && text == "full" => Ok(Item::Full),
        None => number(text).map(Item::One),
    };
    list.split('/').map(item).collect()
}

impl Curve {
    /// The array of `machine` that is meant, by its number. The error says which there are.
    pub fn array(&self, machine: &Machine) -> Result<usize, String> {
        let tlbs = || machine.tlbs.iter().enumerate();
        let stem = self.array.strip_suffix("_tlb");
        let exact = tlbs().find(|(_, tlb)| tlb.name == self.array || Some(tlb.name.as_str()) == stem);
        // Of several that begin so, the one for base pages; of two sides, that of data.
        let begins = |tlb: &Tlb, end| stem.is_some_and(|stem| tlb.name.starts_with(&format!("{stem}{end}")));
        let of_base = |end| tlbs().find(|(_, tlb)| begins(tlb, end) && tlb.sizes.contains(&machine.sizes[0]));
        let found = exact.or_else(|| of_base("_")).or_else(|| of_base("d"));
        found.map(|(at, _)| at).ok_or_else(|| {
            let names: Vec<_> = machine.tlbs.iter().map(|tlb| tlb.name.as_str()).collect();
            format!("no curve of {}: there is no such TLB array; there are {}", self.array, names.join(", "))
        })
    }

    /// All that is asked for, and that of `tlb` as it is.
    pub fn geometries(&self, tlb: &Tlb) -> Result<Vec<Geometry>, String> {
        let mut all = Vec::new();
        for &ways in &self.ways {
            match ways {
                Item::One(ways) => self.of_ways(ways, &mut all),
                Item::Between(from, to) => {
                    WAYS.into_iter().filter(|ways| (from..=to).contains(ways)).for_each(|w| self.of_ways(w, &mut all))
                }
                Item::Full => self.full(&mut all),
            }
        }
        // What is named alone is refused, but of ranges only what there can be is meant.
        let named = |geometry: &Geometry| self.ways.contains(&Item::One(geometry.ways));
        all.retain(|geometry| tlb.replacement.takes(geometry.ways) || named(geometry));
        if all.is_empty() {
            let why = "none of these entries make a power of two of sets of these ways";
            return Err(format!("no curve of {}: {why}", tlb.name));
        }
        all.push(Geometry { entries: tlb.entries, ways: tlb.ways });
        all.sort_unstable();
        all.dedup();
        match all.len() {
            n if n > MOST_GEOMETRIES => {
                Err(format!("no curve of {}: these are {n} geometries, and {MOST_GEOMETRIES} are the most", tlb.name))
            }
            _ => Ok(all),
        }
    }

    /// Of ranges of entries, all that powers of two of sets give.
    fn of_ways(&self, ways: u32, all: &mut Vec<Geometry>) {
        for &entries in &self.entries {
            let (from, to) = match entries {
                Item::One(entries) => (entries, entries),
                Item::Between(from, to) => (from, to),
                Item::Full => continue,
            };
            let sizes = (0..32).filter_map(|log2| ways.checked_mul(1 << log2)).take_while(|&entries| entries <= to);
            all.extend(sizes.filter(|&entries| entries >= from).map(|entries| Geometry { entries, ways }));
        }
    }

    /// Of ranges of entries, the powers of two.
    fn full(&self, all: &mut Vec<Geometry>) {
        for &entries in &self.entries {
            match entries {
                Item::One(entries) => all.push(Geometry { entries, ways: entries }),
                Item::Between(from, to) => {
                    let powers = (0..32).map(|log2| 1 << log2).filter(|entries| (from..=to).contains(entries));
                    all.extend(powers.map(|entries| Geometry { entries, ways: entries }));
                }
                Item::Full => {}
            }
        }
    }
}

/// The misses of a TLB array's level at every geometry that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misses {
    /// The array's name in the machine file.
    pub array: String,
    /// The array as it is.
    pub own: Geometry,
    /// Look-ups of its level, of the kinds that it serves.
    pub lookups: u64,
    /// Those that no array of the level answered, by the geometry of this one, ascending.
    pub misses: Vec<(Geometry, u64)>,
    /// How often a daemon was woken by the clock, which in a simulation of another geometry would go otherwise.
    pub wakes: u64,
}

impl Misses {
    /// What was counted for the array `tlb`, where a level that is asked first is asked by all of `references`.
    pub(crate) fn new(tlb: &Tlb, counts: CurveCounts, references: u64, wakes: u64) -> Misses {
        Misses {
            array: tlb.name.clone(),
            own: Geometry { entries: tlb.entries, ways: tlb.ways },
            lookups: counts.lookups.unwrap_or(references),
            misses: counts.misses,
            wakes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine;

    fn geometries(spec: &str) -> Result<Vec<Geometry>, String> {
        let machine = machine::resolve("skylake-e3-1240v5").unwrap().hardware;
        let curve: Curve = spec.parse()?;
        curve.geometries(&machine.tlbs[curve.array(&machine)?])
    }

    #[test]
    fn arrays_go_by_their_names_and_by_those_of_metrics() {
        let machine = machine::resolve("skylake-e3-1240v5").unwrap().hardware;
        let named = |name: &str| Ok::<_, String>(machine.tlbs[name.parse::<Curve>()?.array(&machine)?].name.clone());
        assert_eq!(named("l2"), Ok("l2".into()));
        assert_eq!(named("l2_tlb"), Ok("l2".into()));
        assert_eq!(named("l2_1g"), Ok("l2_1g".into()));
        assert_eq!(named("l1d_tlb"), Ok("l1d_4k".into()));
        let zen = machine::resolve("zen3").unwrap().hardware;
        assert_eq!(
            "l2_tlb".parse::<Curve>().unwrap().array(&zen).map(|at| zen.tlbs[at].name.clone()),
            Ok("l2d".into())
        );
        assert!(named("l3_tlb").unwrap_err().contains("there are l1i_4k, "));
    }

    #[test]
    fn lists_stand_for_all_that_make_sets() {
        let of = |entries, ways| Geometry { entries, ways };
        let some = geometries("l2:entries=64..128/96,ways=2/3").unwrap();
        assert_eq!(some, [of(64, 2), of(96, 3), of(128, 2), of(1536, 12)]);
        assert_eq!(geometries("l2:entries=1536,ways=12").unwrap(), [of(1536, 12)]);
        let full = geometries("l2:entries=64..200/100,ways=full").unwrap();
        assert_eq!(full, [of(64, 64), of(100, 100), of(128, 128), of(1536, 12)]);
        let usual = geometries("l2").unwrap().len();
        assert!((90..=110).contains(&usual), "{usual}");
        for (wrong, part) in [
            ("l2:sets=4", "no key \"sets\""),
            ("l2:ways", "key=value"),
            ("l2:ways=0", "no number from 1"),
            ("l2:entries=full", "no number from 1"),
            ("l2:entries=8..4", "without numbers"),
            ("l2:entries=100,ways=8", "power of two"),
        ] {
            let error = geometries(wrong).unwrap_err();
            assert!(error.contains(part), "{wrong}: {error}");
        }
    }
}
