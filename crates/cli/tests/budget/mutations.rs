//! Files that are good but for some bytes: the seeds of the fuzz targets, changed at random.

use super::cost::{assert_within_budget, folder, path};
use reach_core::Random;
use std::fs;
use std::path::Path;

/// The mutants of each seed.
const MUTANTS: usize = 15;

/// Changes, repeats, or removes a few pieces of a file.
fn mutate(bytes: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len() as u64 + 1) as usize;
        let end = (at + random.below(64) as usize).min(bytes.len());
        match random.below(4) {
            0 if at < bytes.len() => bytes[at] = random.next_u64() as u8,
            1 => drop(bytes.drain(at..end)),
            2 => bytes.splice(at..at, [0xff; 8]).for_each(drop),
            _ => {
                // To a megabyte at most.
                let piece = bytes[at..end].repeat(1 + (random.below(1 << 19) as usize) / (end - at + 1));
                bytes.splice(at..at, piece).for_each(drop);
            }
        }
        bytes.truncate(1 << 20);
    }
}

#[test]
fn mutated_files_stay_within_the_budget() {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds");
    let (folder, mut random, mut failed, mut runs) = (folder(), Random::new(22), 0, 0);
    let file = path(&folder, "paper.toml");
    let paper = folder.path().to_str().unwrap();
    for (format, args) in [
        ("reach_file", &["trace", "check", &file][..]),
        ("champsim", &["trace", "check", &file]),
        ("lackey", &["trace", "check", &file]),
        ("drmemtrace", &["trace", "check", &file]),
        ("text", &["trace", "check", &file]),
        ("compressed", &["trace", "check", &file]),
        ("perf", &["stat", "--read", &file]),
        ("machine", &["machine", "check", &file]),
        ("paper", &["paper", "run", paper, "no such experiment"]),
        ("scenario", &["run", "--machine", "zen4", "--timing", "counts", "--limit", "1000", "--scenario", &file]),
    ] {
        let mut names: Vec<_> = fs::read_dir(seeds.join(format)).unwrap().map(|seed| seed.unwrap().path()).collect();
        names.sort();
        for seed in names {
            for _ in 0..MUTANTS {
                let mut bytes = fs::read(&seed).unwrap();
                mutate(&mut bytes, &mut random);
                fs::write(&file, &bytes).unwrap();
                let place = if format == "paper" { Path::new("") } else { Path::new(&file) };
                failed += i32::from(assert_within_budget(args, place).status != 0);
                runs += 1;
            }
        }
    }
    assert!(runs > 150 && failed > runs / 2 && failed < runs, "{failed} of {runs}");
}
