//! The probe finds the numbers of simulated presets. It gets cycles of patterns only; the presets are read here, to compare.

use reach_hardware::config::{Machine, Tlb, Walker};
use reach_lab::machine;
use reach_probe::infer::{Ways, fetch_tlbs};
use reach_probe::{Pass, Simulated};
use std::collections::BTreeMap;

/// Returns what the preset says about everything that a pass finds on it, by the pass's names.
fn expected(preset: &str) -> BTreeMap<String, f64> {
    let machine = machine::resolve(preset).unwrap().hardware;
    let mut all = BTreeMap::new();
    // Entries span the smaller of the guest's page and the host's.
    let part = machine.nested.as_ref().map_or(21, |nested| nested.host_page.0.min(21));
    all.insert("tlb.part.2m.bytes".into(), f64::from(1 << part));
    let sizes = [("4k", 12), ("2m", 21)];
    for (size, shift) in sizes.into_iter().filter(|&(_, shift)| shift == 12 || shift == part) {
        for (name, level) in [("first", 1), ("second", 2)] {
            let takes =
                |tlb: &&Tlb| tlb.level == level && tlb.serves.load && tlb.sizes.iter().any(|size| size.0 == shift);
            let arrays: Vec<_> = machine.tlbs.iter().filter(takes).collect();
            let [array] = arrays[..] else { panic!("{preset}: one array of level {level} for {size}") };
            let mut expect = |key, value: u32| all.insert(format!("tlb.{name}.{size}.{key}"), f64::from(value));
            expect("entries", array.entries);
            expect("ways", array.ways);
            if level == 2 {
                expect("latency", array.latency);
            }
        }
    }
    expect_fetches(&machine, &mut all);
    for cache in machine.caches.iter().filter(|cache| cache.data) {
        let mut expect = |key, value: f64| all.insert(format!("cache.{}.{key}", cache.level), value);
        expect("latency", f64::from(cache.latency));
        // The host's small pages lie scattered over the sets of the second level: no stride finds its ways.
        if cache.level == 2 && part == 12 {
            continue;
        }
        expect("bytes", cache.bytes as f64);
        if cache.level < 3 {
            expect("ways", f64::from(cache.ways));
        }
    }
    all.insert("memory.latency".into(), f64::from(machine.memory));
    if part == 21 && machine.nested.as_ref().is_none() {
        expect_walks(&machine, &mut all);
    }
    all
}

/// Enters the first level of TLBs that fetches from pages of 4 KB look up, and the latency of the second.
fn expect_fetches(machine: &Machine, all: &mut BTreeMap<String, f64>) {
    let array = |level| {
        let takes = |tlb: &&Tlb| tlb.level == level && tlb.serves.fetch && tlb.sizes.iter().any(|size| size.0 == 12);
        let arrays: Vec<_> = machine.tlbs.iter().filter(takes).collect();
        let [array] = arrays[..] else { panic!("one array of level {level} for fetches") };
        array
    };
    all.insert("tlb.first.fetch.4k.entries".into(), array(1).entries.into());
    all.insert("tlb.first.fetch.4k.ways".into(), array(1).ways.into());
    all.insert("tlb.second.fetch.4k.latency".into(), array(2).latency.into());
}

/// Enters what walks of `machine` take, in cycles beyond a hit in the first level of TLBs, and how many walks are in flight.
fn expect_walks(machine: &Machine, all: &mut BTreeMap<String, f64>) {
    let Walker::Hardware { walkers, lookup, cache_level, caches } = &machine.walker else {
        panic!("a software handler")
    };
    let latency = |name: &String| machine.tlbs.iter().find(|tlb| tlb.name == *name).unwrap().latency;
    let lender = caches.iter().filter_map(|cache| cache.within.as_ref()).map(latency).max().unwrap_or(0);
    let second = machine.tlbs.iter().find(|tlb| tlb.level == 2 && tlb.serves.load).unwrap();
    let lookup = f64::from(lookup + lender);
    let beside = f64::from(second.latency) + lookup;
    let mut nearest = 0.0;
    for cache in machine.caches.iter().filter(|cache| cache.data).rev() {
        if cache.level >= *cache_level {
            nearest = f64::from(cache.latency);
        }
        all.insert(format!("walk.l{}", cache.level), beside + nearest);
    }
    let last = machine.caches.iter().map(|cache| cache.bytes).max().unwrap_or(0);
    // The entries of so many pages overflow the last cache that larger ones take too long to simulate.
    if last <= 8 << 20 {
        all.insert("walk.memory".into(), beside + f64::from(machine.memory));
    }
    all.insert("walk.lookup".into(), lookup);
    all.insert("walk.cache_level".into(), f64::from(*cache_level));
    all.insert("walk.parallel".into(), f64::from(*walkers));
    if let Some(pde) = caches.iter().find(|cache| cache.levels == [1] && cache.within.is_none()) {
        all.insert("walk.pde.entries".into(), f64::from(pde.entries));
    }
}

/// Probes a simulated preset, and compares all numbers: exact ones exactly, latencies and walks within two cycles, walkers within
/// a quarter, and the size of the last cache within a tenth.
fn finds(preset: &str) {
    compare(preset, &expected(preset));
}

/// Probes a simulated preset, and compares what it finds with `expected`.
fn compare(preset: &str, expected: &BTreeMap<String, f64>) {
    let mut pass = Pass::of(&mut Simulated::new(machine::resolve(preset).unwrap()).unwrap());
    // No preset says what a single thread reads at most, nor what walks take that read the host's table, too.
    pass.numbers.remove("memory.bandwidth.one");
    if preset.contains("host_page") {
        pass.numbers.retain(|name, _| !name.starts_with("walk."));
    }
    compare_numbers(preset, &pass, expected);
}

fn compare_numbers(preset: &str, pass: &Pass, expected: &BTreeMap<String, f64>) {
    let mut wrong = Vec::new();
    for (name, &value) in expected {
        let tolerance = match name.rsplit('.').next() {
            Some("latency") => 2.0,
            _ if name == "cache.3.bytes" => value / 10.0,
            Some("parallel") => 0.25,
            Some("entries" | "cache_level") => 0.0,
            _ if name.starts_with("walk.") => f64::max(2.0, value * 0.03),
            _ => 0.0,
        };
        let found = pass.numbers.get(name).copied();
        if found.is_none_or(|found| (found - value).abs() > tolerance) {
            wrong.push(format!("{name}: found {found:?}, the preset has {value}"));
        }
    }
    assert!(wrong.is_empty(), "{preset}:\n{}\nnot found: {:#?}", wrong.join("\n"), pass.missing);
    // Nothing was found that the preset does not have.
    let more: Vec<_> = pass.numbers.keys().filter(|name| !expected.contains_key(*name)).collect();
    assert!(more.is_empty(), "{preset}: {more:?}");
}

#[test]
#[ignore = "takes 35 seconds"]
fn zen4_is_found_again() {
    finds("zen4");
}

#[test]
fn skylake_is_found_again() {
    finds("skylake-e3-1240v5");
}

#[test]
#[ignore = "takes 22 seconds"]
fn neoverse_n1_is_found_again() {
    finds("neoverse-n1");
}

#[test]
#[ignore = "takes 10 seconds"]
fn zenplus_is_found_again() {
    finds("zenplus-2700x");
}

/// Numbers that no preset has, so that no inference can know them.
#[test]
fn a_changed_machine_is_found_as_changed() {
    finds(
        "zen4:tlb.l1d.entries=40,tlb.l1d.ways=full,tlb.l2d.entries=1280,tlb.l2d.ways=10,tlb.l2d.latency=11,caches.l1d.bytes=24K,\
           caches.l1d.ways=6,caches.l2.latency=19,caches.l3.bytes=16M,tlb.l1i.entries=24,tlb.l1i.ways=3,tlb.l2i.latency=12",
    );
}

/// Splintered entries are recognised, and nothing is said of the arrays for whole pages of 2 MB, which they do not use.
#[test]
fn a_host_with_small_pages_is_found_in_a_guest() {
    finds("skylake-e3-1240v5:nested.host_page=4K");
}

#[test]
#[ignore = "takes 37 seconds"]
fn a_host_with_pages_of_2_mb_is_found_in_a_guest() {
    finds("zen4:nested.host_page=2M");
}

/// As many walkers as they have: more, fewer, and one. Zen 3's six are not busy before ten chains walk.
#[test]
#[ignore = "takes 50 seconds"]
fn the_walkers_of_other_presets_are_found_again() {
    // With smaller caches, which take less time.
    finds("zen3:caches.l3.bytes=8M");
    finds("haswell-e5-2680v3:caches.l3.bytes=5M");
    // Its second level consists of two arrays, which act as one for pages of 4 KB.
    let preset = "sapphire-rapids:caches.l3.bytes=30M";
    let mut walks = BTreeMap::new();
    expect_walks(&machine::resolve(preset).unwrap().hardware, &mut walks);
    let mut pass = Pass::of(&mut Simulated::new(machine::resolve(preset).unwrap()).unwrap());
    pass.numbers.retain(|name, _| name.starts_with("walk."));
    compare_numbers(preset, &pass, &walks);
}

/// With more walkers, and MSHRs for their reads, than sixteen chains occupy, no number is found, but how many are busy.
#[test]
fn more_walkers_than_chains_occupy_show_a_bound() {
    let machine =
        machine::resolve("haswell-e5-2680v3:caches.l3.bytes=5M,walker.hardware.walkers=32,ooo.l1_mshrs=64").unwrap();
    let pass = Pass::of(&mut Simulated::new(machine).unwrap());
    assert!(!pass.numbers.contains_key("walk.parallel"), "{:?}", pass.numbers);
    let least = pass.numbers["walk.parallel.least"];
    assert!(least > 6.0 && least <= 16.0, "{least}");
}

/// Where memory gives little, a single thread gets all of it.
#[test]
fn the_bandwidth_of_memory_is_found_again() {
    let pass = Pass::of(
        &mut Simulated::new(machine::resolve("haswell-e5-2680v3:memory.bandwidth=4267,caches.l3.bytes=5M").unwrap())
            .unwrap(),
    );
    let found = pass.numbers["memory.bandwidth.one"];
    assert!((found - 4267.0).abs() < 427.0, "{found}");
}

/// The first level of fetches on other presets, with 256 entries, and with sets.
#[test]
fn the_first_level_of_fetches_of_other_presets_is_found_again() {
    for preset in ["sapphire-rapids", "haswell-e5-2680v3", "zen5", "neoverse-v2", "xiangshan-sv48"] {
        let machine = machine::resolve(preset).unwrap();
        let takes = |tlb: &&Tlb| tlb.level == 1 && tlb.serves.fetch && tlb.sizes.iter().any(|size| size.0 == 12);
        let array = machine.hardware.tlbs.iter().find(takes).cloned().unwrap();
        let found = fetch_tlbs(&mut Simulated::new(machine).unwrap()).unwrap().first.unwrap();
        let ways = if array.ways == array.entries { Ways::Full } else { Ways::Of(array.ways) };
        assert_eq!((found.entries, found.ways), (Some(array.entries.into()), Some(ways)), "{preset}");
    }
}

/// An array before the first level has the first step if its misses take time.
#[test]
fn the_first_step_of_fetches_is_that_of_the_first_array_whose_misses_take_time() {
    let preset = "zenplus-2700x:tlb.l1i.latency=4";
    let found = fetch_tlbs(&mut Simulated::new(machine::resolve(preset).unwrap()).unwrap()).unwrap();
    assert_eq!(found.first.unwrap().entries, Some(8));
    let latency = found.second.unwrap().latency;
    assert!((latency - 4.0).abs() < 1.0, "{latency}");
}
