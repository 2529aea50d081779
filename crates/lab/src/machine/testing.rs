//! Random machines for property tests: small, of every shape that the schema allows, and always valid.

use proptest::prelude::*;
use reach_core::{Layout, PageShift, ReuseSignature};
use reach_hardware::config::{
    Cache, Core, Index, Machine, Nested, Replacement, Serves, Tlb, WalkCache, Walker, Writes,
};

/// Returns a strategy for machines of one to five page-table levels, one to four page sizes, one to three TLB levels (with or without a level
/// 0 in front) split or unified by class of reference and by page size, every replacement, hardware and software
/// walkers, walk caches of their own and within TLB arrays, and none to three levels of caches.
///
/// [`super::check_hardware`] accepts all of them. They shrink towards the simplest machine.
pub fn arbitrary_machine() -> impl Strategy<Value = Machine> {
    prop::collection::vec(any::<u8>(), 0..160).prop_map(|choices| machine_from(&choices))
}

/// Builds the machine that a sequence of choices selects, one byte a choice; missing bytes count as 0. All zeros give
/// one fully associative array of four entries with one page size, and no caches.
pub fn machine_from(choices: &[u8]) -> Machine {
    let mut draw = Draw(choices.iter());
    let layout = layout(&mut draw);
    let sizes = sizes(&mut draw, &layout);
    let mut tlbs = tlbs(&mut draw, &sizes);
    let mut walker = walker(&mut draw, layout.levels(), &tlbs);
    let caches = caches(&mut draw);
    if let Walker::Hardware { cache_level, .. } = &mut walker {
        let farthest = caches.iter().filter(|cache| cache.data).map(|cache| cache.level).max().unwrap_or(1);
        *cache_level = 1 + draw.below(farthest.into()) as u8;
    }
    let far = caches.iter().map(|cache| cache.latency).max().unwrap_or(0);
    let memory = far + 1 + draw.below(100);
    let core = Core {
        millicycles_per_instruction: 1 + draw.below(256) * 8,
        hertz: 1_000_000_000,
        walk_access: 1 + draw.below(40),
        invalidate: draw.below(200),
        asids: 1 + draw.below(10_000),
    };
    let nested = nested(&mut draw, &layout, &sizes, &walker);
    if matches!(walker, Walker::Hardware { .. }) {
        coalesce(&mut draw, &layout, &sizes, &mut tlbs);
    }
    Machine { layout, sizes, tlbs, walker, nested, caches, memory, core }
}

/// A sequence of choices, continued by zeros.
struct Draw<'a>(std::slice::Iter<'a, u8>);

impl Draw<'_> {
    fn below(&mut self, bound: u32) -> u32 {
        u32::from(self.0.next().copied().unwrap_or(0)) % bound
    }

    fn one_of<T: Copy>(&mut self, options: &[T]) -> T {
        options[self.below(options.len() as u32) as usize]
    }

    fn one_in(&mut self, n: u32) -> bool {
        self.below(n) == n - 1
    }
}

fn layout(draw: &mut Draw) -> Layout {
    // A table of one level that holds 48 bits is huge, so it is rare.
    let levels = draw.one_of(&[4, 3, 2, 5, 3, 4, 2, 5, 3, 4, 2, 5, 3, 4, 2, 1]);
    let base = match levels {
        1 => 24,
        2 => 14 + draw.below(5) as u8,
        _ => 12 + draw.below(4) as u8,
    };
    let need = 48 - base;
    let mut bits = vec![need / levels; usize::from(levels)];
    let last = bits.len() - 1;
    bits[last] += need % levels;
    for level in 0..last {
        let moved = draw.below(3) as u8;
        bits[level] -= moved;
        bits[last] += moved;
    }
    Layout::radix(PageShift(base), bits)
}

fn sizes(draw: &mut Draw, layout: &Layout) -> Vec<PageShift> {
    let mut sizes = vec![layout.base];
    for _ in 0..draw.below(4) {
        // Sizes that one entry of a level maps, and sizes between them that need replicated entries.
        let level = draw.below(layout.levels().min(3) as u32) as usize;
        let size = PageShift(layout.span(level).0 + draw.below(5) as u8);
        if size.0 < layout.address_bits().min(34) {
            sizes.push(size);
        }
    }
    sizes.sort();
    sizes.dedup();
    sizes
}

const FETCH: Serves = Serves { fetch: true, load: false, store: false };
const LOAD: Serves = Serves { fetch: false, load: true, store: false };
const STORE: Serves = Serves { fetch: false, load: false, store: true };
const DATA: Serves = Serves { fetch: false, load: true, store: true };
const ALL: Serves = Serves { fetch: true, load: true, store: true };

/// Policies that only TLB arrays have.
const OF_TLBS: [Replacement; 2] =
    [Replacement::InstructionAware, Replacement::ReusePrediction(ReuseSignature::ControlFlow)];

fn replacement(draw: &mut Draw, ways: u32, own: &[Replacement]) -> Replacement {
    use Replacement::{Lru, Nru, QuadAgeLru, Random, RotatingPlru, TreePlru};
    let all = [Lru, Nru, Random, TreePlru, RotatingPlru, QuadAgeLru].into_iter().chain(own.iter().copied());
    draw.one_of(&all.filter(|policy| policy.takes(ways)).collect::<Vec<_>>())
}

fn array(draw: &mut Draw, number: usize, level: u8, serves: Serves, sizes: Vec<PageShift>, latency: u32) -> Tlb {
    let ways = draw.one_of(&[4, 1, 2, 3, 6, 8]);
    let sets = draw.one_of(&[1, 2, 4, 8]);
    let class = match serves {
        FETCH => "i",
        LOAD => "ld",
        STORE => "st",
        DATA => "d",
        _ => "",
    };
    Tlb {
        name: format!("l{level}{class}{number}"),
        level,
        serves,
        entries: ways * sets,
        ways,
        replacement: replacement(draw, ways, &OF_TLBS),
        sizes,
        index: if level >= 2 && draw.one_in(3) { Index::Xor } else { Index::Low },
        latency,
        probe: draw.below(2),
        smash: draw.one_in(2),
        coalesce: None,
    }
}

/// Appends the arrays of one level for one class: all sizes in one array, split in two, overlapping, or some sizes only.
fn level_of_class(draw: &mut Draw, level: u8, serves: Serves, sizes: &[PageShift], latency: u32, tlbs: &mut Vec<Tlb>) {
    let cut = 1 + draw.below(sizes.len() as u32) as usize;
    let (small, large) = sizes.split_at(cut);
    let parts: &[&[PageShift]] = match draw.below(6) {
        1 if !large.is_empty() => &[small, large],
        2 => &[small],
        // After the first level, arrays need not hold base pages.
        3 if level >= 2 && !large.is_empty() => &[large],
        4 => &[sizes, small],
        _ => &[sizes],
    };
    for part in parts {
        tlbs.push(array(draw, tlbs.len(), level, serves, part.to_vec(), latency));
    }
}

fn tlbs(draw: &mut Draw, sizes: &[PageShift]) -> Vec<Tlb> {
    let mut tlbs = Vec::new();
    let mut latency = 0;
    let top = 1 + draw.below(3) as u8;
    for level in 1..=top {
        let classes: &[Serves] = draw.one_of(&[&[ALL] as &[Serves], &[FETCH, DATA], &[FETCH, LOAD, STORE]]);
        if level >= 2 {
            latency += draw.below(8);
        }
        for &serves in classes {
            if level == 1 && draw.one_in(4) {
                tlbs.push(array(draw, tlbs.len(), 0, serves, sizes.to_vec(), 0));
            }
            // The last level need not serve every class.
            let left_out = level == top && level >= 2 && classes.len() > 1 && draw.one_in(6);
            if !left_out {
                level_of_class(draw, level, serves, sizes, latency, &mut tlbs);
            }
        }
    }
    tlbs
}

/// Makes some arrays coalesce two to eight pages.
fn coalesce(draw: &mut Draw, layout: &Layout, sizes: &[PageShift], tlbs: &mut [Tlb]) {
    let order = draw.below(4) as u8;
    let span = PageShift(layout.base.0 + order);
    if order > 0 && order <= layout.bits[0] && !sizes.contains(&span) {
        for tlb in tlbs.iter_mut().filter(|tlb| tlb.sizes.contains(&layout.base)) {
            tlb.coalesce = draw.one_in(2).then_some(span);
        }
    }
}

fn walker(draw: &mut Draw, levels: usize, tlbs: &[Tlb]) -> Walker {
    if draw.one_in(4) {
        return Walker::Software {
            cycles: 1 + draw.below(60),
            instructions: 1 + draw.below(40),
            loads: levels as u32 + draw.below(3),
            stores: draw.below(3),
        };
    }
    let mut caches: Vec<WalkCache> = Vec::new();
    for level in 1..levels as u8 {
        let name = format!("level_{level}");
        match draw.below(4) {
            0 => {}
            1 => {
                let ways = draw.one_of(&[2, 1, 3, 4]);
                let entries = ways * draw.one_of(&[1, 2, 4]);
                caches.push(WalkCache { name, levels: vec![level], entries, ways, within: None });
            }
            2 => {
                let within = Some(tlbs[draw.below(tlbs.len() as u32) as usize].name.clone());
                caches.push(WalkCache { name, levels: vec![level], entries: 0, ways: 0, within });
            }
            _ => match caches.last_mut() {
                Some(cache) => cache.levels.push(level),
                None => caches.push(WalkCache { name, levels: vec![level], entries: 2, ways: 2, within: None }),
            },
        }
    }
    Walker::Hardware { walkers: 1 + draw.below(4), lookup: draw.below(3), cache_level: 1, caches }
}

fn nested(draw: &mut Draw, layout: &Layout, sizes: &[PageShift], walker: &Walker) -> Option<Nested> {
    let guest = draw.one_in(4) && matches!(walker, Walker::Hardware { .. });
    guest.then(|| Nested {
        host_page: draw.one_of(sizes),
        tlb_entries: draw.below(4),
        walk_cache_entries: (1..layout.levels()).map(|_| draw.below(3)).collect(),
    })
}

fn caches(draw: &mut Draw) -> Vec<Cache> {
    let mut caches = Vec::new();
    let (mut line, mut latency, mut shared) = (16, 0, false);
    let depth = draw.below(4) as u8;
    let mut instructions = true;
    for level in 1..=depth {
        line *= draw.one_of(&[1, 2]);
        latency += 1 + draw.below(12);
        shared |= draw.one_in(3);
        let mut cache = |draw: &mut Draw, name: String, instructions, data| {
            let ways = draw.one_of(&[2, 1, 3, 4]);
            let sets = draw.one_of(&[2, 1, 4, 16]);
            let writes = draw.one_of(&[Writes::Back, Writes::Around, Writes::Through]);
            let bytes = u64::from(line * ways * sets);
            let replacement = replacement(draw, ways, &[Replacement::PageTableAware]);
            caches.push(Cache {
                name,
                level,
                instructions,
                data,
                bytes,
                ways,
                line,
                latency,
                writes,
                replacement,
                shared,
                others: 0,
            });
        };
        // Once a level holds data only, fetches do not wait beyond it.
        match draw.below(3) {
            1 if level == 1 => {
                cache(draw, "c1i".to_owned(), true, false);
                cache(draw, "c1d".to_owned(), false, true);
            }
            2 => {
                instructions = false;
                cache(draw, format!("c{level}d"), false, true);
            }
            _ => cache(draw, format!("c{level}"), instructions, true),
        }
    }
    caches
}

#[cfg(test)]
mod tests {
    use super::super::check_hardware;
    use super::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn random_machines_are_valid(machine in arbitrary_machine()) {
            prop_assert_eq!(check_hardware(&machine), vec![]);
        }
    }

    #[test]
    fn all_zero_choices_give_one_array_and_no_caches() {
        let machine = machine_from(&[]);
        assert_eq!(check_hardware(&machine), []);
        assert_eq!((machine.tlbs.len(), machine.tlbs[0].entries, machine.tlbs[0].ways), (1, 4, 4));
        assert_eq!((machine.sizes.len(), machine.caches.len()), (1, 0));
    }

    /// A property test proves nothing about shapes that the generator never draws.
    #[test]
    fn two_thousand_draws_cover_every_shape() {
        let mut random = reach_core::Random::new(1);
        let mut seen = BTreeSet::new();
        for _ in 0..2000 {
            let choices: Vec<u8> = (0..160).map(|_| random.below(256) as u8).collect();
            let machine = machine_from(&choices);
            seen.insert(format!("{} page-table levels", machine.layout.levels()));
            seen.insert(format!("{} sizes", machine.sizes.len()));
            seen.insert(format!("{} cache levels", machine.caches.iter().map(|c| c.level).max().unwrap_or(0)));
            for tlb in &machine.tlbs {
                seen.insert(format!("tlb level {}", tlb.level));
                seen.insert(format!("{:?}", tlb.replacement));
                seen.insert(format!("{:?}", tlb.index));
                seen.insert(format!("coalesces {}", tlb.coalesce.is_some()));
                seen.insert(format!("{:?}", tlb.serves));
            }
            match &machine.walker {
                Walker::Software { .. } => seen.insert("software".to_owned()),
                Walker::Hardware { caches, cache_level, .. } => {
                    if *cache_level > 1 {
                        seen.insert("walks beyond L1".to_owned());
                    }
                    seen.insert(format!("within {}", caches.iter().any(|c| c.within.is_some())))
                }
            };
        }
        let count = |end: &str| seen.iter().filter(|shape| shape.ends_with(end)).count();
        assert_eq!((count("page-table levels"), count("sizes"), count("cache levels")), (5, 4, 4));
        for level in 0..=3 {
            assert!(seen.contains(&format!("tlb level {level}")));
        }
        for shape in [
            "Lru",
            "TreePlru",
            "RotatingPlru",
            "QuadAgeLru",
            "Nru",
            "Random",
            "Xor",
            "coalesces true",
            "coalesces false",
            "walks beyond L1",
            "software",
            "within true",
            "within false",
        ] {
            assert!(seen.contains(shape), "{shape}");
        }
        assert_eq!(seen.iter().filter(|shape| shape.starts_with("Serves")).count(), 5);
    }
}
