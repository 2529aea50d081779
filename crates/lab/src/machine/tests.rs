//! Presets against published figures, impossible machines, overrides, and randomly damaged text.

use super::*;
use proptest::prelude::*;
use reach_core::{PageShift, Random};
use reach_hardware::config::{Replacement, Tlb, Walker};
use toml::Value;

fn text_of(name: &str) -> &'static str {
    PRESETS.iter().find(|(preset, _)| *preset == name).unwrap().1
}

fn hardware(spec: &str) -> Machine {
    resolve(spec).unwrap_or_else(|error| panic!("{error}")).hardware
}

fn tlb<'a>(machine: &'a Machine, name: &str) -> &'a Tlb {
    machine.tlbs.iter().find(|tlb| tlb.name == name).unwrap_or_else(|| panic!("no {name}"))
}

#[test]
fn a_file_need_not_tell_what_a_monitor_costs() {
    let without = |text: &str| {
        let kept = text.lines().filter(|line| !line.starts_with("trap = [2500") && !line.starts_with("interval_ms"));
        kept.map(|line| format!("{line}\n")).collect::<String>()
    };
    let text = text_of("zen4").replace(r#"host_page = ["none""#, r#"host_page = ["4K""#);
    assert!(resolve_text(&text).unwrap().os.monitor.is_some());
    assert_eq!(resolve_text(&without(&text)).unwrap().os.monitor, None);
}

#[test]
fn every_preset_has_no_errors() {
    assert_eq!(PRESETS.len(), 38);
    assert_eq!(list().count(), 38);
    for (name, text) in PRESETS {
        let problems: Vec<_> = check(text).iter().map(Problem::to_string).collect();
        assert!(problems.is_empty(), "{name}: {}", problems.join("\n"));
        let machine = resolve(name).unwrap();
        assert_eq!(machine.name, *name);
        assert!(!machine.about.is_empty() && !machine.about.contains('\n'));
        assert_eq!(machine.hash.len(), 64);
    }
}

/// `--cores` is checked against them; the paper of zenplus-2700x uses four.
#[test]
fn every_preset_tells_its_cores_and_they_change_no_configuration() {
    let cores = |name: &str| resolve(name).unwrap().cores;
    assert!(list().all(|preset| cores(preset.name).is_some()));
    let known = ["skylake-e3-1240v5", "zenplus-2700x", "sandybridge-e5-2430", "haswell-e5-2680v3", "zen4"];
    assert_eq!(known.map(cores), [Some(4), Some(4), Some(6), Some(12), Some(8)]);
    let more = resolve("zen4:processor.cores=64").unwrap();
    assert_eq!((more.cores, more.hash), (Some(64), resolve("zen4").unwrap().hash));
    let untold: String =
        text_of("zen4").lines().filter(|line| !line.starts_with("cores =")).collect::<Vec<_>>().join("\n");
    assert!(check(&untold).is_empty(), "files of earlier versions do not tell cores");
    let none = text_of("zen4").replace("cores = [8,", "cores = [0,");
    assert!(check(&none)[0].to_string().contains("processor.cores: 0: expected at least 1"), "{:?}", check(&none));
}

/// Every leaf of every section is a fact with a tag, whether it is a number or not.
#[test]
fn every_value_has_a_tag() {
    for (name, text) in PRESETS {
        let (table, _) = parse(text).unwrap();
        let mut leaves = 0;
        facts::walk(&table, &mut |path, value| {
            assert!(facts::is_fact(value), "{name}: {path} has no provenance");
            leaves += 1;
        });
        assert_eq!(show(name).unwrap().len(), leaves);
        assert!(leaves > 60, "{name} has {leaves} facts");
        for (key, value) in table.iter().filter(|(_, value)| !value.is_table()) {
            let texts = value.as_str().is_some() || value.as_array().is_some_and(|v| v.iter().all(Value::is_str));
            assert!(texts, "{name}: {key} is more than text");
        }
    }
}

/// Every array of every preset as its sources publish it: name, level, entries, ways, sizes, cycles.
#[test]
fn tlbs_match_published_figures() {
    for (preset, published) in [
        ("alpha-21264", "itlb 1 128x128 8K+64K+512K+4M 0, dtlb 1 128x128 8K+64K+512K+4M 0"),
        (
            "paint-parisc",
            "micro_itlb 0 1x1 4K+8K+16K+32K+64K+128K+256K+512K+1M+2M+4M 0, \
             unified 1 32x32 4K+8K+16K+32K+64K+128K+256K+512K+1M+2M+4M 0",
        ),
        (
            "sandybridge-e5-2430",
            "l1i_4k 1 128x4 4K 0, l1i_2m 1 8x8 2M 0, l1d_4k 1 64x4 4K 0, l1d_2m 1 32x4 2M 0, l1d_1g 1 4x4 1G 0, \
             l2 2 512x4 4K 7",
        ),
        (
            "haswell-e5-2680v3",
            "l1i_4k 1 128x8 4K 0, l1i_2m 1 8x8 2M 0, l1d_4k 1 64x4 4K 0, l1d_2m 1 32x4 2M 0, l1d_1g 1 4x4 1G 0, \
             l2 2 1024x8 4K+2M 8",
        ),
        (
            "skylake-e3-1240v5",
            "l1i_4k 1 128x8 4K 0, l1i_2m 1 8x8 2M 0, l1d_4k 1 64x4 4K 0, l1d_2m 1 32x4 2M 0, l1d_1g 1 4x4 1G 0, \
             l2 2 1536x12 4K+2M 9, l2_1g 2 16x4 1G 9",
        ),
        (
            "zenplus-2700x",
            "l0i 0 8x8 4K+2M+1G 0, l1i 1 64x64 4K+2M+1G 0, l1d 1 64x64 4K+2M+1G 0, l2i 2 512x8 4K+2M 7, \
             l2d 2 1536x12 4K+2M 7",
        ),
        (
            "icelake-sp",
            "l1i_4k 1 128x8 4K 0, l1i_2m 1 16x16 2M 0, l1ld_4k 1 64x4 4K 0, l1ld_2m 1 32x4 2M 0, l1ld_1g 1 8x8 1G 0, \
             l1st 1 16x16 4K+2M+1G 0, l2_2m 2 1024x8 4K+2M 7, l2_1g 2 1024x8 4K+1G 7",
        ),
        (
            "sapphire-rapids",
            "l1i_4k 1 256x8 4K 0, l1i_2m 1 32x8 2M 0, l1ld_4k 1 96x96 4K 0, l1ld_2m 1 32x32 2M 0, l1ld_1g 1 8x8 1G 0, \
             l1st 1 16x16 4K+2M+1G 0, l2_2m 2 1024x8 4K+2M 7, l2_1g 2 1024x8 4K+1G 7",
        ),
        ("zen3", "l1i 1 64x64 4K+2M+1G 0, l1d 1 64x64 4K+2M+1G 0, l2i 2 512x8 4K+2M 7, l2d 2 2048x16 4K+2M 7"),
        ("zen4", "l1i 1 64x64 4K+2M+1G 0, l1d 1 72x72 4K+2M+1G 0, l2i 2 512x8 4K+2M 7, l2d 2 3072x24 4K+2M 7"),
        ("zen5", "l1i 1 64x64 4K+2M+1G 0, l1d 1 96x96 4K+2M+1G 0, l2i 2 2048x8 4K+2M 7, l2d 2 4096x16 4K+2M 7"),
        ("neoverse-n1", "l1i 1 48x48 4K+64K+2M+32M 0, l1d 1 48x48 4K+64K+2M 0, l2 2 1280x5 4K+64K+2M+32M+1G 5"),
        ("neoverse-v1", "l1i 1 48x48 4K+64K+2M+32M 0, l1d 1 40x40 4K+64K+2M 0, l2 2 2048x4 4K+64K+2M+32M+1G 5"),
        ("neoverse-v2", "l1i 1 48x48 4K+64K+2M+32M 0, l1d 1 48x48 4K+64K+2M 0, l2 2 2048x8 4K+64K+2M+32M+1G 5"),
        (
            "lion-cove",
            "l1i_4k 1 256x8 4K 0, l1i_2m 1 32x8 2M 0, l1ld_4k 1 128x8 4K 0, l1ld_2m 1 32x4 2M 0, l1ld_1g 1 8x8 1G 0, \
             l1st 1 16x16 4K+2M+1G 0, l2_2m 2 1024x8 4K+2M 7, l2_1g 2 1024x8 4K+1G 7",
        ),
        ("neoverse-n2", "l1i 1 48x48 4K+64K+2M+32M 0, l1d 1 44x44 4K+64K+2M 0, l2 2 1280x5 4K+64K+2M+32M+1G 5"),
        ("neoverse-v3", "l1i 1 48x48 4K+64K+2M 0, l1d 1 96x96 4K+64K+2M 0, l2 2 2048x8 4K+64K+2M+32M+1G 6"),
        (
            "ampereone",
            "l1i 1 64x4 4K+64K+2M+32M+1G 0, l1d 1 64x64 4K+64K+2M+32M+1G 0, l2i 2 768x6 4K+64K+2M+32M+1G 5, \
             l2d 2 1536x6 4K+64K+2M+32M+1G 5",
        ),
        ("apple-m1", "l1i 1 192x192 16K+2M+32M 0, l1d 1 160x160 16K+2M+32M 0, l2 2 3072x12 16K+2M+32M 6"),
        ("apple-m2", "l1i 1 192x192 16K+2M+32M 0, l1d 1 256x256 16K+2M+32M 0, l2 2 3072x12 16K+2M+32M 6"),
        (
            "xiangshan-sv48",
            "l1i 1 48x48 4K+64K+2M+1G 0, l1ld 1 48x48 4K+64K+2M+1G 0, l1st 1 48x48 4K+64K+2M+1G 0, \
             l2_4k 2 2048x4 4K+64K 12, l2_sp 2 16x16 2M+1G 12",
        ),
    ] {
        let machine = hardware(preset);
        let one = |tlb: &Tlb| {
            let sizes: Vec<_> = tlb.sizes.iter().map(PageShift::to_string).collect();
            let Tlb { name, level, entries, ways, latency, .. } = tlb;
            format!("{name} {level} {entries}x{ways} {} {latency}", sizes.join("+"))
        };
        let ours: Vec<_> = machine.tlbs.iter().map(one).collect();
        assert_eq!(ours.join(", "), published, "{preset}");
    }
}

/// Walkers, data caches (size, ways, cycles) and memory latency in cycles, as published.
#[test]
fn walkers_and_caches_match_published_figures() {
    for (preset, walkers, caches, memory) in [
        ("alpha-21264", 0, "64K 2 3, 4M 1 14", 70),
        ("paint-parisc", 0, "64K 1 1, 512K 2 8", 60),
        ("sandybridge-e5-2430", 1, "32K 8 4, 256K 8 12, 15M 20 32", 165),
        ("haswell-e5-2680v3", 1, "32K 8 4, 256K 8 12, 30M 20 52", 238),
        ("skylake-e3-1240v5", 2, "32K 8 4, 256K 4 12, 8M 16 42", 42 + 179),
        ("zenplus-2700x", 2, "32K 8 4, 512K 8 12, 8M 16 38", 280),
        ("icelake-sp", 2, "48K 12 5, 1280K 20 14, 60M 12 68", 207),
        ("sapphire-rapids", 4, "48K 12 5, 2M 16 15, 105M 15 72", 220),
        ("zen3", 6, "32K 8 4, 512K 8 12, 32M 16 46", 46 + 228),
        ("zen4", 6, "32K 8 4, 1M 8 14, 32M 16 50", 50 + 293),
        ("zen5", 6, "48K 12 4, 1M 16 14, 32M 16 50", 50 + 266),
        ("neoverse-n1", 2, "64K 4 4, 1M 8 11, 32M 16 70", 250),
        ("neoverse-v1", 2, "64K 4 4, 1M 8 10, 32M 16 70", 286),
        ("neoverse-v2", 3, "64K 4 4, 2M 8 10, 36M 16 75", 308),
        ("lion-cove", 4, "48K 12 4, 192K 12 9, 3M 12 17, 30M 10 80", 398),
        ("lunar-lake", 4, "48K 12 4, 192K 12 9, 2560K 10 17, 12M 12 65", 429),
        ("neoverse-n2", 2, "64K 4 4, 1M 8 11, 64M 16 75", 352),
        ("neoverse-v3", 3, "64K 4 4, 2M 8 10, 180M 16 85", 345),
        ("ampereone", 8, "64K 4 4, 2M 8 11, 64M 16 129", 480),
        ("apple-m1", 2, "128K 8 3, 12M 12 17, 8M 16 60", 320),
        ("apple-m2", 2, "128K 8 3, 16M 16 17, 8M 16 60", 349),
        ("apple-m4", 2, "128K 8 3, 16M 16 17, 8M 16 60", 440),
        ("xiangshan-sv48", 6, "64K 4 4, 1M 8 15, 16M 16 40", 330),
    ] {
        let machine = hardware(preset);
        let ours = match machine.walker {
            Walker::Hardware { walkers, .. } => walkers,
            Walker::Software { .. } => 0,
        };
        assert_eq!(ours, walkers, "{preset}");
        let data = machine.caches.iter().filter(|cache| cache.data);
        let ours: Vec<_> = data.map(|c| format!("{} {} {}", reach_core::Bytes(c.bytes), c.ways, c.latency)).collect();
        assert_eq!(ours.join(", "), caches, "{preset}");
        assert_eq!(machine.memory, memory, "{preset}");
    }
}

#[test]
fn machines_of_papers_have_the_details_that_the_papers_state() {
    let paint = hardware("paint-parisc");
    assert_eq!(paint.walker, Walker::Software { cycles: 52, instructions: 30, loads: 4, stores: 1 });
    assert_eq!(tlb(&paint, "unified").replacement, Replacement::Nru);
    // Navarro, section 5: the promotion of 64 KB, 512 KB and 4 MB rewrites 8, 64 and 512 entries at the leaf level.
    let alpha = hardware("alpha-21264");
    let places: Vec<_> = alpha.sizes.iter().map(|&size| alpha.layout.placement(size)).collect();
    assert_eq!(places, [(0, 1), (0, 8), (0, 64), (0, 512)]);
    // Fang, section 3: a superpage of 2^n pages rewrites 2^n entries.
    let last = *paint.sizes.last().unwrap();
    assert_eq!(paint.layout.placement(last), (0, 1024));
    let skylake = resolve("skylake-e3-1240v5").unwrap().ooo.unwrap();
    assert_eq!((skylake.core.rob, skylake.core.itlb_inclusion), (224, true));
    assert_eq!(skylake.smt["l1i_2m"], Sharing::Replicated);
    for preset in ["zenplus-2700x", "zen3", "zen4", "zen5"] {
        let Walker::Hardware { caches, .. } = hardware(preset).walker else { panic!("{preset}") };
        assert_eq!((caches[0].within.as_deref(), caches[1].entries), (Some("l2d"), 64), "{preset}");
    }
    for preset in ["neoverse-n1", "neoverse-v1", "neoverse-v2", "apple-m1"] {
        let Walker::Hardware { caches, .. } = hardware(preset).walker else { panic!("{preset}") };
        assert_eq!(caches[0].within.as_deref(), Some("l2"), "{preset}");
    }
}

#[test]
fn overrides_change_their_key_and_nothing_else() {
    let plain = resolve("skylake-e3-1240v5").unwrap();
    let spec = "skylake-e3-1240v5:tlb.l2.entries=3072,caches.l3.bytes=16M,memory.latency=80ns";
    let changed = resolve(spec).unwrap();
    assert_eq!(changed.name, spec);
    assert_ne!(changed.hash, plain.hash);
    let mut expected = plain.hardware.clone();
    expected.tlbs.iter_mut().find(|tlb| tlb.name == "l2").unwrap().entries = 3072;
    expected.caches.iter_mut().find(|cache| cache.name == "l3").unwrap().bytes = 16 << 20;
    expected.memory = 280;
    assert_eq!(changed.hardware, expected);
    let mut ooo = plain.ooo.clone().unwrap();
    ooo.core.memory = 280;
    assert_eq!((changed.os, changed.ooo), (plain.os, Some(ooo)));
    let row = show(spec).unwrap().into_iter().find(|row| row.path == "tlb.l2.entries").unwrap();
    assert_eq!((row.value.as_str(), row.tag), ("3072", Tag::Override));
    // An override that changes nothing leaves the same machine.
    assert_eq!(resolve("skylake-e3-1240v5:tlb.l2.entries=1536").unwrap().hash, plain.hash);
    let fully = hardware("paint-parisc:tlb.unified.entries=128");
    assert_eq!((tlb(&fully, "unified").entries, tlb(&fully, "unified").ways), (128, 128));
    let lists = hardware("skylake-e3-1240v5:tlb.l2.sizes=4K,tlb.l1d_4k.ways=full,tlb.l2.smash=true");
    assert_eq!(tlb(&lists, "l2").sizes, [PageShift(12)]);
    assert_eq!((tlb(&lists, "l1d_4k").ways, tlb(&lists, "l2").smash), (64, true));
    let split = hardware("skylake-e3-1240v5:tlb.l2.serves=load+store");
    assert!(!tlb(&split, "l2").serves.fetch && tlb(&split, "l2").serves.store);
}

#[test]
fn errors_of_specifications_name_what_is_near_or_expected() {
    for (spec, message) in [
        ("skylak", "no machine \"skylak\"; did you mean skylake-e3-1240v5 or skylake-sp?"),
        ("zen", "did you mean zen2 or zen2-epyc-7742 or zen3?"),
        ("vax", "`reach machine list` lists them all"),
        ("", "no machine \"\""),
        ("zen3:tlb.l2.entries=1", "no key \"tlb.l2.entries\"; did you mean tlb.l2d.entries"),
        ("zen3:tlb.l2d.entires=1", "did you mean tlb.l2d.entries"),
        ("zen3:tlb.l2d=1", "no key \"tlb.l2d\""),
        ("zen3:name=x", "no key \"name\""),
        ("zen3:tlb.l2d.entries", "write an override as key=value"),
        ("zen3:=4", "write an override as key=value"),
        ("zen3:tlb.l2d.entries=many", "invalid type: string \"many\""),
        ("zen3:tlb.l2d.entries=-1", "invalid value"),
        ("zen3:caches.l3.bytes=16Q", "\"16Q\" is not a size"),
        (
            "zen3:tlb.l2d.ways=12",
            "tlb.l2d: 2048 entries in 12 ways is not a power-of-two number of sets: 16 ways would be",
        ),
        ("zen3:memory.latency=1ns", "memory.latency: 4 cycles: expected more than the 46 of l3"),
        ("/nonexistent/machine.toml", "/nonexistent/machine.toml: No such file"),
        ("/nonexistent/machine.tomlx", "overrides must start with a colon"),
    ] {
        let error = resolve(spec).unwrap_err().to_string();
        assert!(error.contains(message), "{spec}: {error}");
    }
}

#[test]
fn a_file_equal_to_a_preset_gives_the_same_machine() {
    let path = std::env::temp_dir().join(format!("reach-machine-{}.toml", std::process::id()));
    std::fs::write(&path, text_of("zen3")).unwrap();
    let spec = path.to_str().unwrap();
    assert_eq!(resolve(spec).unwrap().hash, resolve("zen3").unwrap().hash);
    assert_eq!(resolve(&format!("{spec}:tlb.l2d.entries=4096")).unwrap().name, "zen3:tlb.l2d.entries=4096");
    assert_eq!(check_path(&path).unwrap(), []);
    std::fs::write(&path, text_of("zen3").replace("entries = [2048", "entries = [2049")).unwrap();
    let error = resolve(spec).unwrap_err().to_string();
    assert!(error.starts_with(&format!("{spec}: line ")), "{error}");
    std::fs::remove_file(&path).unwrap();
}

/// Each edit of the Skylake file makes one impossible machine; the error names the part and its line.
#[test]
fn impossible_machines_are_refused_with_part_and_line() {
    let text = text_of("skylake-e3-1240v5");
    for (old, new, message) in [
        (
            "[1536, \"P\"]",
            "[2048, \"P\"]",
            "tlb.l2: 2048 entries in 12 ways is not a power-of-two number of sets: 16 ways",
        ),
        ("[1536, \"P\"]", "[4294967295, \"P\"]", "tlb.l2: 4294967295 entries in 12 ways"),
        ("[1536, \"P\"]", "[0, \"P\"]", "tlb.l2: 0 entries in 12 ways hold nothing"),
        ("[1536, \"P\"]", "[4, \"P\"]", "tlb.l2: 12 ways are more than the 4 entries"),
        (
            "[\"rotating-plru\", ",
            "[\"tree-plru\", ",
            "tlb.l2.replacement: tree-PLRU over 12 ways: expected a power of two",
        ),
        ("[12, \"P\"]", "[16, \"P\"]", "tlb.l2.replacement: rotating tree-PLRU over 16 ways: expected three times"),
        ("index = [\"low\"", "index = [\"xor\"", "tlb.l1i_4k.index: a hash in the first level"),
        ("index = [\"low\", \"T+\"]\n", "", "missing field `index`"),
        ("cache_level = [1,", "cache_level = [4,", "walker.hardware.cache_level: level 4: expected 1 to 3"),
        ("cache_level = [1,", "cache_level = [0,", "walker.hardware.cache_level: level 0: expected 1 to 3"),
        (
            "[[\"4K\", \"2M\"], \"P\"]",
            "[[\"2M\", \"4K\"], \"P\"]",
            "tlb.l2.sizes: expected at least one size, ascending",
        ),
        ("[[\"4K\", \"2M\"], \"P\"]", "[[\"8K\"], \"P\"]", "tlb.l2.sizes: the machine has no pages of 8K"),
        ("[[\"4K\", \"2M\"], \"P\"]", "[[\"12K\"], \"P\"]", "a page of 12K is not a power of two"),
        ("[[\"fetch\"], \"P\"]", "[[\"load\"], \"P\"]", "tlb: no first-level array holds 4K pages for fetch"),
        ("[\"4K\", \"2M\", \"1G\"]", "[\"4K\", \"1G\", \"2M\"]", "page_table.sizes: sizes must ascend"),
        ("[\"4K\", \"2M\", \"1G\"]", "[\"2M\", \"1G\"]", "page_table.sizes: the first size must be the base page, 4K"),
        ("[9, 9, 9, 9]", "[9, 9, 9]", "page_table.bits: translates 39-bit addresses"),
        ("[9, 9, 9, 9]", "[9, 9, 9, 9, 9, 9]", "page_table.bits: 6 levels"),
        ("[9, 9, 9, 9]", "[9, 0, 9, 18]", "page_table.bits: a level of 0 index bits"),
        ("[9, 9, 9, 9]", "[255, 255, 255, 255]", "page_table.bits: a level of 255 index bits"),
        ("base = [\"4K\"", "base = [\"512\"", "page_table.base: base pages of 2^9 bytes"),
        ("levels = [[3]", "levels = [[4]", "walker.hardware.caches.pml4e.levels: level 4: expected 1 to 3"),
        ("levels = [[3]", "levels = [[2]", "walker.hardware.caches.pml4e.levels: level 2 is in an earlier walk cache"),
        (
            "levels = [[1], \"V+\"]\nentries",
            "levels = [[1], \"V+\"]\nwithin = [\"l9\", \"P\"]\n#",
            "expected either entries and ways, or within",
        ),
        ("walkers = [2,", "walkers = [0,", "walker.hardware.walkers: 0: expected at least 1"),
        ("latency = [42,", "latency = [11,", "caches.l3.latency: 11 cycles: expected more than the 12 of l2"),
        ("42 cycles + 51 ns", "42 cycles", "memory.latency: 42 cycles: expected more than the 42 of l3"),
        (
            "bytes = [\"256K\"",
            "bytes = [\"192K\"",
            "caches.l2: 3072 lines in 4 ways is not a power-of-two number of sets",
        ),
        ("bytes = [\"256K\"", "bytes = [\"255\"", "caches.l2: 255 bytes are not 4 ways of whole 64-byte lines"),
        ("line = [\"64\"", "line = [\"48\"", "lines of 48 bytes"),
        ("shared = [true", "shared = [1", "invalid type: integer `1`"),
        ("itlb_replay = [", "itlb_walkers = [1, \"E\"]\nitlb_replay = [", "unknown field `itlb_walkers`"),
        (
            "serves = [[\"integer\", \"float\", \"load\", \"store\"]",
            "serves = [[\"integer\", \"float\", \"load\"]",
            "ooo.schedulers: expected exactly one that serves \"store\"",
        ),
        ("entries = [97,", "entries = [0,", "ooo.schedulers.unified.entries: 0: expected 1 to 65535"),
        ("integer = [132,", "integer = [2,", "ooo.registers.integer: 2: expected at least 3"),
        ("l1i_2m = [\"replicated\", \"P\"]\n", "", "ooo.smt: l1i_2m is missing: expected shared"),
        ("GenuineIntel-6-4E", "Intel", "processor.exact: \"Intel\" is no processor"),
        ("mhz = [3500, \"P\"]", "mhz = [3500, \"set\"]", "core.mhz: tag \"set\" is for overrides"),
        ("mhz = [3500, \"P\"]", "mhz = [0, \"P\"]", "core.mhz: 0: expected at least 1"),
        ("mhz = [3500, \"P\"]", "mhz = 3500", "a value with its provenance"),
        ("mhz = [3500, \"P\"]\n", "", "missing field `mhz`"),
        ("[memory]", "[memroy]", "unknown field `memroy`, expected one of"),
        ("[tlb.l2]", "[tlb.L2]", "tlb.L2: the name \"L2\": expected only a-z, 0-9 and _"),
        ("[tlb.l2_1g]", "[tlb.l2]", "duplicate key"),
    ] {
        let bad = match old {
            "[[\"fetch\"], \"P\"]" => text.replace(old, new),
            _ => text.replacen(old, new, 1),
        };
        assert_ne!(bad, text, "{old} is not in the file");
        let problems = check(&bad);
        let all: Vec<_> = problems.iter().map(Problem::to_string).collect();
        let found = problems.iter().find(|problem| problem.to_string().contains(message));
        let found = found.unwrap_or_else(|| panic!("{new}: expected {message:?} in {all:?}"));
        assert!(found.line.is_some(), "{found}");
    }
}

#[test]
fn errors_that_no_file_can_express_are_refused_too() {
    let skylake = hardware("skylake-e3-1240v5");
    let refused = |change: &dyn Fn(&mut Machine), message: &str| {
        let mut machine = skylake.clone();
        change(&mut machine);
        let problems = check_hardware(&machine);
        let all: Vec<_> = problems.iter().map(Problem::to_string).collect();
        assert!(all.iter().any(|problem| problem.contains(message)), "expected {message:?} in {all:?}");
    };
    refused(&|m| m.tlbs[1].name = m.tlbs[0].name.clone(), "a second array with this name");
    refused(&|m| m.tlbs[0].latency = 1, "tlb.l1i_4k.latency: 1 cycles: expected 0, as fetch looks it up first");
    refused(&|m| (m.tlbs[0].level, m.tlbs[1].level) = (0, 0), "fetch has a level 0 but no level 1 behind it");
    refused(
        &|m| (m.tlbs[6].level, m.tlbs[6].latency) = (3, 6),
        "tlb.l2_1g.latency: 6 cycles for fetch: expected at least the 9",
    );
    refused(&|m| m.tlbs.iter_mut().filter(|t| t.level == 2).for_each(|t| t.level = 3), "but no level 2");
    refused(&|m| m.tlbs[2].entries = 1 << 30, "expected at most 1048576");
    refused(&|m| m.caches[3].level = 2, "a second cache for instructions at level 2");
    refused(&|m| m.caches[3].level = 4, "caches.l3: no level 3 between l2 and l3 for instructions; leave no gap");
    refused(&|m| m.caches[1].shared = true, "caches.l2.shared: private behind l1d");
    refused(&|m| m.caches.swap(0, 3), "caches must be listed nearest first");
    refused(&|m| m.caches[3].line = 32, "shorter than the 64 bytes of l2");
    refused(&|m| m.caches[1].data = false, "holds nothing");
    refused(&|m| m.caches[1].data = false, "no level 1 holds data");
    refused(&|m| m.sizes = (12..29).map(PageShift).collect(), "17 page sizes: expected at most 16");
    refused(&|m| m.sizes[2] = PageShift(48), "a page of 2^48 bytes does not fit");
    // Array 1 of this machine is for pages of 2 MB.
    let coalesce = |m: &mut Machine, array: usize, span| m.tlbs[array].coalesce = Some(PageShift(span));
    refused(&|m| coalesce(m, 0, 21), "tlb.l1i_4k.coalesce: 2M: expected 2, 4 or 8 pages of 4K");
    refused(&|m| coalesce(m, 1, 14), "tlb.l1i_2m.coalesce: an array without pages of 4K");
    let differing = |m: &mut Machine| {
        coalesce(m, 0, 14);
        coalesce(m, 2, 15);
    };
    refused(&differing, "tlb.l1d_4k.coalesce: 32K: an earlier array coalesces another span");
    let sixteen_sizes = |m: &mut Machine| {
        m.sizes = [12].into_iter().chain(15..30).map(PageShift).collect();
        coalesce(m, 0, 14);
    };
    refused(&sixteen_sizes, "16 page sizes: expected at most 15 with coalesced entries");
}

/// The hash covers the machine, not its file: comments, provenance and the preset's name do not count.
#[test]
fn provenance_does_not_change_the_hash() {
    let text = text_of("zen4");
    let configuration = |text: &str| facts::configuration(&text.parse().unwrap()).to_string();
    let plain = configuration(text);
    assert_eq!(configuration(&text.replace("\"V\"", "\"T\"").replace("zen4", "other")), plain);
    assert_ne!(configuration(&text.replace("[3072,", "[1536,")), plain);
    // Arrays of one level are probed in the order of the file, so it counts.
    let swapped = text.replace("tlb.l1d", "tlb.x").replace("tlb.l1i", "tlb.l1d").replace("tlb.x", "tlb.l1i");
    assert_ne!(configuration(&swapped), plain);
    assert!(plain.contains("\"entries\":3072") && !plain.contains('\n'));
    // A guest is another machine.
    assert_ne!(resolve("zen4:nested.host_page=4K").unwrap().hash, resolve("zen4").unwrap().hash);
}

#[test]
fn no_two_presets_have_the_same_hash() {
    let mut hashes: Vec<_> = list().map(|machine| resolve(machine.name).unwrap().hash).collect();
    hashes.sort();
    hashes.dedup();
    assert_eq!(hashes.len(), PRESETS.len());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Randomly damaged text is refused or accepted, without a panic.
    #[test]
    fn damaged_text_never_panics(preset in 0..PRESETS.len(), seed: u64, edits in 1..6usize) {
        let mut random = Random::new(seed);
        let mut text = PRESETS[preset].1.to_owned();
        let pieces = ["0", "4294967295", "-1", "\"\"", "[", "]", "\n", "\"P\"", "64", "9999999999999999999999", "true", "255", "é"];
        for _ in 0..edits {
            let spots: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
            let at = spots[random.below(spots.len() as u64) as usize];
            let piece = pieces[random.below(pieces.len() as u64) as usize];
            match random.below(3) {
                0 => text.insert_str(at, piece),
                1 => { text.remove(at); }
                _ => {
                    // Replace one whole number by another: the syntax stays valid.
                    let numbers: Vec<_> = text.match_indices(|c: char| c.is_ascii_digit()).map(|(at, _)| at).collect();
                    if !numbers.is_empty() {
                        let at = numbers[random.below(numbers.len() as u64) as usize];
                        let end = at + text[at..].find(|c: char| !c.is_ascii_digit()).unwrap_or(0);
                        text.replace_range(at..end, piece);
                    }
                }
            }
        }
        for problem in check(&text) {
            prop_assert!(!problem.to_string().is_empty());
        }
    }

    #[test]
    fn any_specification_gives_a_machine_or_an_error(spec in "(zen3|paint-parisc|x)(:[a-z0-9.=,+]{0,40})?") {
        if let Err(error) = resolve(&spec) {
            prop_assert!(!error.to_string().is_empty());
        }
    }
}
