//! Miss curves: which TLB array to observe, and at which geometries.

use reach_hardware::config::{Machine, Tlb};
use reach_hardware::{CurveCounts, Geometry};
use std::str::FromStr;

/// A miss curve as requested: `l2`, or `l2_tlb:entries=64..4096/1536,ways=4..16/full`.
///
/// ```
/// use reach_lab::{Curve, machine};
///
/// let machine = machine::resolve("skylake-e3-1240v5").unwrap().hardware;
/// let curve: Curve = "l2_tlb:entries=768/1536,ways=12".parse()?;
/// let l2 = &machine.tlbs[curve.array(&machine)?];
/// let entries: Vec<u32> = curve.geometries(l2)?.iter().map(|geometry| geometry.entries).collect();
/// assert_eq!(entries, [768, 1536]);
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Curve {
    /// The array's name in the machine file, or `NAME_tlb` for the array whose name is or begins with `NAME`.
    array: String,
    entries: Vec<Numbers>,
    ways: Vec<Numbers>,
}

/// An element of a list of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Numbers {
    One(u32),
    /// A range; both ends are included.
    Between(u32, u32),
    /// As many ways as entries: a fully associative array.
    Full,
}

/// The numbers of ways that a range may include.
const WAYS: [u32; 12] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64];
/// The most entries of an array.
const MAX_ENTRIES: u32 = 1 << 20;
/// The most geometries of a curve.
const MAX_GEOMETRIES: usize = 4096;

impl FromStr for Curve {
    type Err = String;

    fn from_str(text: &str) -> Result<Curve, String> {
        let (array, options) = text.split_once(':').unwrap_or((text, ""));
        let mut curve = Curve {
            array: array.into(),
            entries: vec![Numbers::Between(16, 1 << 14)],
            ways: vec![Numbers::Between(1, 16), Numbers::Full],
        };
        for pair in options.split(',').filter(|pair| !pair.is_empty()) {
            let Some((key, value)) = pair.split_once('=') else {
                return Err(format!("curve option {pair:?}: expected key=value; {KEYS}"));
            };
            match key {
                "entries" => curve.entries = numbers(key, value, false)?,
                "ways" => curve.ways = numbers(key, value, true)?,
                _ => return Err(format!("curves have no option {key:?}; {KEYS}")),
            }
        }
        Ok(curve)
    }
}

const KEYS: &str =
    "give entries=LIST and ways=LIST, lists of numbers and ranges such as 64..4096/1536; ways may be full";

/// Reads a list of numbers, with `full` among them if that is allowed.
fn numbers(key: &str, list: &str, allow_full: bool) -> Result<Vec<Numbers>, String> {
    let number = |text: &str| match text.parse::<u32>() {
        Ok(n @ 1..=MAX_ENTRIES) => Ok(n),
        _ => Err(format!("{key}={text}: expected a number from 1 to {MAX_ENTRIES}; {KEYS}")),
    };
    let element = |text: &str| match text.split_once("..") {
        Some((from, to)) => match (number(from)?, number(to)?) {
            (from, to) if from <= to => Ok(Numbers::Between(from, to)),
            _ => Err(format!("{key}={text}: the range is empty; {KEYS}")),
        },
        None if allow_full && text == "full" => Ok(Numbers::Full),
        None => number(text).map(Numbers::One),
    };
    list.split('/').map(element).collect()
}

impl Curve {
    /// Returns the index of the array among those of `machine`.
    ///
    /// # Errors
    /// When there is no such array; the error names those that exist.
    pub fn array(&self, machine: &Machine) -> Result<usize, String> {
        let tlbs = || machine.tlbs.iter().enumerate();
        let stem = self.array.strip_suffix("_tlb");
        let exact = tlbs().find(|(_, tlb)| tlb.name == self.array || Some(tlb.name.as_str()) == stem);
        // Among several arrays of a level, prefer the one for base pages, and data over instructions.
        let begins = |tlb: &Tlb, end| stem.is_some_and(|stem| tlb.name.starts_with(&format!("{stem}{end}")));
        let for_base_pages = |end| tlbs().find(|(_, tlb)| begins(tlb, end) && tlb.sizes.contains(&machine.sizes[0]));
        let found = exact.or_else(|| for_base_pages("_")).or_else(|| for_base_pages("d"));
        found.map(|(at, _)| at).ok_or_else(|| {
            let names: Vec<_> = machine.tlbs.iter().map(|tlb| tlb.name.as_str()).collect();
            format!("no curve of {}: there is no such TLB array; there are {}", self.array, names.join(", "))
        })
    }

    /// Returns all requested geometries and that of `tlb`, in ascending order.
    ///
    /// # Errors
    /// When no geometry is possible, or more than 4096 are.
    pub fn geometries(&self, tlb: &Tlb) -> Result<Vec<Geometry>, String> {
        let mut all = Vec::new();
        for &ways in &self.ways {
            match ways {
                Numbers::One(ways) => self.set_associative(ways, &mut all),
                Numbers::Between(from, to) => WAYS
                    .into_iter()
                    .filter(|ways| (from..=to).contains(ways))
                    .for_each(|ways| self.set_associative(ways, &mut all)),
                Numbers::Full => self.fully_associative(&mut all),
            }
        }
        // Ranges leave out what the replacement policy cannot do; a number of ways given alone is refused later.
        let given_alone = |geometry: &Geometry| self.ways.contains(&Numbers::One(geometry.ways));
        all.retain(|geometry| tlb.replacement.takes(geometry.ways) || given_alone(geometry));
        if all.is_empty() {
            let why = "no number of entries is a power of two times a number of ways";
            return Err(format!("no curve of {}: {why}", tlb.name));
        }
        all.push(Geometry { entries: tlb.entries, ways: tlb.ways });
        all.sort_unstable();
        all.dedup();
        match all.len() {
            n if n > MAX_GEOMETRIES => {
                Err(format!("no curve of {}: expected at most {MAX_GEOMETRIES} geometries, found {n}", tlb.name))
            }
            _ => Ok(all),
        }
    }

    /// Adds geometries of `ways` ways; ranges of entries give all powers of two of sets.
    fn set_associative(&self, ways: u32, all: &mut Vec<Geometry>) {
        for &entries in &self.entries {
            let (from, to) = match entries {
                Numbers::One(entries) => (entries, entries),
                Numbers::Between(from, to) => (from, to),
                Numbers::Full => continue,
            };
            let sizes = (0..32).filter_map(|log2| ways.checked_mul(1 << log2)).take_while(|&entries| entries <= to);
            all.extend(sizes.filter(|&entries| entries >= from).map(|entries| Geometry { entries, ways }));
        }
    }

    /// Adds fully associative geometries; ranges of entries give all powers of two.
    fn fully_associative(&self, all: &mut Vec<Geometry>) {
        for &entries in &self.entries {
            match entries {
                Numbers::One(entries) => all.push(Geometry { entries, ways: entries }),
                Numbers::Between(from, to) => {
                    let powers = (0..32).map(|log2| 1 << log2).filter(|entries| (from..=to).contains(entries));
                    all.extend(powers.map(|entries| Geometry { entries, ways: entries }));
                }
                Numbers::Full => {}
            }
        }
    }
}

/// A miss curve: the misses of a TLB array's level at every requested geometry of the array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misses {
    /// The array's name in the machine file.
    pub array: String,
    /// The array's own geometry.
    pub own: Geometry,
    /// Look-ups of its level, of the kinds that it serves.
    pub lookups: u64,
    /// Look-ups that no array of the level answered, by the geometry of this one, in ascending order.
    pub misses: Vec<(Geometry, u64)>,
    /// How often the clock woke a daemon. Simulations of other geometries may wake them at other times.
    pub wakes: u64,
}

impl Misses {
    /// Makes the curve of the array `tlb`. `references` are the look-ups of a first level, which every reference makes.
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
        let machine = machine::resolve("skylake-e3-1240v5:tlb.l2.replacement=lru").unwrap().hardware;
        let curve: Curve = spec.parse()?;
        curve.geometries(&machine.tlbs[curve.array(&machine)?])
    }

    #[test]
    fn an_array_is_found_by_its_name_and_by_its_metrics_name() {
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
    fn lists_give_all_geometries_with_a_power_of_two_of_sets() {
        let of = |entries, ways| Geometry { entries, ways };
        let some = geometries("l2:entries=64..128/96,ways=2/3").unwrap();
        assert_eq!(some, [of(64, 2), of(96, 3), of(128, 2), of(1536, 12)]);
        assert_eq!(geometries("l2:entries=1536,ways=12").unwrap(), [of(1536, 12)]);
        let full = geometries("l2:entries=64..200/100,ways=full").unwrap();
        assert_eq!(full, [of(64, 64), of(100, 100), of(128, 128), of(1536, 12)]);
        let usual = geometries("l2").unwrap().len();
        assert!((90..=110).contains(&usual), "{usual}");
        for (wrong, part) in [
            ("l2:sets=4", "no option \"sets\""),
            ("l2:ways", "key=value"),
            ("l2:ways=0", "expected a number from 1"),
            ("l2:entries=full", "expected a number from 1"),
            ("l2:entries=8..4", "the range is empty"),
            ("l2:entries=100,ways=8", "power of two"),
        ] {
            let error = geometries(wrong).unwrap_err();
            assert!(error.contains(part), "{wrong}: {error}");
        }
    }
}
