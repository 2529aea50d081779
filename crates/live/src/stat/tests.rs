//! Tests on recorded outputs of perf. The expected values are computed by hand.

use super::models::{MODELS, Role, named};
use super::{Answer, ReadError, counts, identify, rename_events};

/// Derives the answer from a recorded output, with the model identified by its events.
fn answer(recorded: &str) -> Answer {
    let mut counts = counts(recorded).expect("perf wrote this");
    let identified = identify(&counts).expect("its events identify the model");
    let model = identified.model;
    rename_events(&mut counts, model);
    let answer = Answer::of(model, &counts);
    assert_identity(&answer);
    answer
}

/// Asserts that the factors multiply to `wcpi_data` exactly (the dividend of each is the divisor of the next), and that `wcpi` adds
/// the walks of fetches.
fn assert_identity(answer: &Answer) {
    for pair in answer.factors.windows(2) {
        assert_eq!(pair[0].over, pair[1].under, "{} and {}", pair[0].name, pair[1].name);
    }
    if let (Some(data), Some(first), Some(last)) =
        (answer.value("wcpi_data"), answer.factors.first(), answer.factors.last())
    {
        assert_eq!(Some(first.under as f64), answer.value("instructions"));
        assert_eq!(Some(last.over as f64), answer.value("walk_cycles.data"));
        assert_eq!(data, last.over as f64 / first.under as f64);
    }
    if let (Some(wcpi), Some(data), Some(fetch), Some(instructions)) = (
        answer.value("wcpi"),
        answer.value("walk_cycles.data"),
        answer.value("walk_cycles.fetch"),
        answer.value("instructions"),
    ) {
        assert_eq!(wcpi, (data + fetch) / instructions);
    }
}

fn assert_values(answer: &Answer, values: &[(&str, f64)]) {
    for (name, value) in values {
        assert_eq!(answer.value(name), Some(*value), "{name} on {}", answer.model.name);
    }
}

fn assert_none(answer: &Answer, names: &[&str]) {
    for name in names {
        assert_eq!(answer.value(name), None, "{name} on {}", answer.model.name);
    }
}

#[test]
fn haswell_counts_all_four_factors() {
    let answer = answer(include_str!("recorded/haswell.csv"));
    assert_eq!(answer.model.name, "haswell");
    assert_values(
        &answer,
        &[
            ("accesses", 6e9),
            ("walks.initiated", 120e6),
            ("walks.completed", 100e6),
            ("walks.retired", 80e6),
            ("walks.aborted", 20e6),
            ("walks.wrong_path", 20e6),
            ("walk_accesses.data", 180e6),
            ("walk_cycles", 3.609e9),
            ("walk_cycles.data", 3.6e9),
            ("wcpi", 0.18045),
            ("wcpi_data", 0.18),
            ("wcpi_data.accesses_per_instruction", 0.3),
            ("wcpi_data.misses_per_access", 0.02),
            ("wcpi_data.walk_accesses_per_miss", 1.5),
            ("wcpi_data.cycles_per_walk_access", 20.0),
            ("walk_cycles.share", 0.14436),
            ("walks.fetch", 400_000.0),
            ("l2_tlb_hits.data", 15e6),
        ],
    );
    assert!((answer.least_share - 0.3077).abs() < 1e-9);
    assert_eq!(answer.missing, []);
}

#[test]
fn skylake_combines_two_factors_and_splits_itlb_stalls() {
    let answer = answer(include_str!("recorded/skylake.jsonl"));
    assert_eq!(answer.model.name, "skylake");
    assert_values(
        &answer,
        &[
            ("wcpi", 0.1625),
            ("wcpi_data", 0.15),
            ("wcpi_data.accesses_per_instruction", 0.4),
            ("wcpi_data.misses_per_access", 0.0125),
            ("wcpi_data.cycles_per_miss", 30.0),
            ("walks.aborted", 5e6),
            // More loads wait for walks than there are walks.
            ("walks.wrong_path", -2e6),
            ("itlb_stall", 800e6),
            ("itlb_stall.walk", 100e6),
            ("itlb_stall.l2_tlb_hit", 140e6),
            ("itlb_stall.inclusion", 560e6),
        ],
    );
    assert_none(&answer, &["wcpi_data.walk_accesses_per_miss", "walk_accesses.data", "walk_cycles.host"]);
    assert_eq!((&answer.absent[..], &answer.unused[..]), (&["ept.walk_pending"][..], &[][..]));
}

#[test]
fn ice_lake_counts_completed_walks_only() {
    let answer = answer(include_str!("recorded/ice-lake.csv"));
    assert_eq!(answer.model.name, "ice-lake");
    assert_values(
        &answer,
        &[
            ("wcpi", 0.124),
            ("wcpi_data", 0.12),
            ("wcpi_data.accesses_per_instruction", 0.4),
            ("wcpi_data.misses_per_access", 0.01),
            ("wcpi_data.cycles_per_miss", 30.0),
            ("walks.wrong_path", 1e6),
            ("itlb_stall.inclusion", 12e6 - 4e6 - 3.5e6),
        ],
    );
    assert_none(&answer, &["walks.initiated", "walks.aborted"]);
}

/// Recordings of perf may hold events of loads and stores only.
#[test]
fn without_walk_cycles_of_fetches_there_is_no_wcpi_and_the_answer_says_so() {
    let recorded = include_str!("recorded/ice-lake.csv");
    let data_only: Vec<&str> = recorded.lines().filter(|line| !line.contains("itlb_misses.walk_pending")).collect();
    let answer = answer(&data_only.join("\n"));
    assert_values(&answer, &[("wcpi_data", 0.12), ("walk_cycles.data", 120e6), ("walk_cycles.share", 0.096)]);
    assert_none(&answer, &["wcpi", "walk_cycles", "walk_cycles.fetch"]);
    let (_, why) = answer.missing.iter().find(|(what, _)| what == "wcpi and walk_cycles").unwrap();
    assert!(why.contains("fetches") && why.contains("itlb_misses.walk_pending") && why.contains("wcpi_data"), "{why}");
}

/// The recording has raw encodings, the kernel's names, and deviations of several runs.
#[test]
fn golden_cove_is_identified_by_raw_encodings() {
    let answer = answer(include_str!("recorded/golden-cove.csv"));
    assert_eq!(answer.model.name, "golden-cove");
    assert_values(
        &answer,
        &[
            ("instructions", 4e9),
            ("wcpi", 0.1015),
            ("wcpi_data", 0.1),
            ("wcpi_data.accesses_per_instruction", 0.4),
            ("wcpi_data.misses_per_access", 0.01),
            ("wcpi_data.cycles_per_miss", 25.0),
            ("walk_cycles.share", 0.1624),
            ("itlb_stall.inclusion", 7e6),
        ],
    );
    assert!((answer.least_share - 0.375).abs() < 1e-9);
}

#[test]
fn zen_has_no_walk_cycles() {
    let answer = answer(include_str!("recorded/zen-1.csv"));
    assert_eq!(answer.model.name, "zen-1");
    assert_values(
        &answer,
        &[
            ("accesses", 1.5e9),
            ("walks.initiated", 12e6),
            ("walks.completed", 11.5e6),
            ("walks.aborted", 0.5e6),
            ("wcpi_data.accesses_per_instruction", 0.5),
            ("wcpi_data.misses_per_access", 0.008),
            ("l2_tlb_hits.data", 25e6),
            ("walks.fetch", 310_000.0),
        ],
    );
    assert_none(&answer, &["wcpi", "walk_cycles", "walks.retired", "walks.wrong_path"]);
    assert!(answer.missing.iter().any(|(what, why)| what.contains("wcpi") && why.contains("IBS")));
}

#[test]
fn zen_3_adds_misses_of_coalesced_pages() {
    let answer = answer(include_str!("recorded/zen-3.jsonl"));
    assert_eq!(answer.model.name, "zen-3");
    assert_values(
        &answer,
        &[("walks.initiated", 8e6), ("wcpi_data.misses_per_access", 0.004), ("walks.aborted", 0.4e6)],
    );
    // One event is not in the recording, one has no count there.
    assert!(answer.absent.contains(&"ls_l1_d_tlb_miss.tlb_reload_4k_l2_hit"), "{:?}", answer.absent);
    assert!(answer.absent.contains(&"ls_tablewalker.iside"), "{:?}", answer.absent);
    assert_none(&answer, &["wcpi", "l2_tlb_hits.data"]);
}

/// The recording has intervals (`-I`).
#[test]
fn zen_4_has_no_table_walker_events_and_intervals_are_added() {
    let answer = answer(include_str!("recorded/zen-4.csv"));
    assert_eq!(answer.model.name, "zen-4");
    assert_values(
        &answer,
        &[
            ("instructions", 4e9),
            ("cycles", 3.2e9),
            ("accesses", 1.6e9),
            ("walks.initiated", 4e6),
            ("wcpi_data.accesses_per_instruction", 0.4),
            ("wcpi_data.misses_per_access", 0.0025),
            ("walks.fetch", 50_000.0),
        ],
    );
    assert_none(&answer, &["walks.completed", "wcpi"]);
}

#[test]
fn neoverse_counts_walks_and_not_their_cycles() {
    let answer = answer(include_str!("recorded/neoverse.csv"));
    assert_eq!(answer.model.name, "neoverse");
    assert_values(&answer, &[("wcpi_data.accesses_per_instruction", 0.4), ("wcpi_data.misses_per_access", 0.005)]);
    assert_eq!(answer.value("walks.fetch"), Some(500_000.0));
    assert_none(&answer, &["wcpi", "walks.aborted"]);
}

#[test]
fn invalid_lines_are_refused_by_number() {
    assert_eq!(counts("").unwrap_err(), ReadError::Nothing);
    assert_eq!(counts("# started\n\n").unwrap_err(), ReadError::Nothing);
    for (text, line) in [("hello", 1), ("1,,cycles,1,100.00,,\n{\"counter-value\"", 2), ("a,b,c,d", 1)] {
        match counts(text).unwrap_err() {
            ReadError::Line { line: at, .. } => assert_eq!(at, line, "{text}"),
            ReadError::Nothing => panic!("{text}"),
        }
    }
    assert!(counts("99999999999999999999999,,cycles,1,100.00,,").is_err());
    assert!(counts("-5,,cycles,1,100.00,,").is_err());
}

#[test]
fn counts_are_scaled_to_the_whole_time() {
    use super::counters::scale;
    assert_eq!(scale(1000, 300, 100), Some((3000, 100.0 / 300.0)));
    assert_eq!(scale(7, 5, 5), Some((7, 1.0)));
    assert_eq!(scale(7, 5, 0), None);
    assert_eq!(scale(u64::MAX, 2, 1), Some((u64::MAX, 0.5)));
}

#[test]
fn every_model_counts_the_required_roles_with_distinct_events() {
    for model in MODELS {
        for role in [Role::Instructions, Role::Cycles, Role::Accesses] {
            assert!(model.events.iter().any(|event| event.role == role), "{}", model.name);
        }
        let mut seen = std::collections::BTreeSet::new();
        for event in model.events {
            assert!(seen.insert(event.name) && seen.len() <= 32, "{} twice on {}", event.name, model.name);
            let same = model.events.iter().filter(|other| other.config == event.config).count();
            assert_eq!(same, 1, "{} on {}", event.name, model.name);
        }
        assert_eq!(named(model.name).map(|found| found.name), Some(model.name));
    }
}

#[test]
fn models_are_found_from_cpuinfo() {
    let of = |text: &str| super::Model::of(text).map(|model| model.name);
    let x86 = |vendor: &str, family: u32, model: u32| {
        of(&format!(
            "processor\t: 0\nvendor_id\t: {vendor}\ncpu family\t: {family}\nmodel\t\t: {model}\nmodel name\t: any\n"
        ))
    };
    assert_eq!(x86("GenuineIntel", 6, 63), Some("haswell"));
    assert_eq!(x86("GenuineIntel", 6, 94), Some("skylake"));
    assert_eq!(x86("GenuineIntel", 6, 106), Some("ice-lake"));
    assert_eq!(x86("GenuineIntel", 6, 207), Some("golden-cove"));
    assert_eq!(x86("AuthenticAMD", 23, 8), Some("zen-1"));
    assert_eq!(x86("AuthenticAMD", 23, 49), Some("zen-2"));
    assert_eq!(x86("AuthenticAMD", 25, 33), Some("zen-3"));
    assert_eq!(x86("AuthenticAMD", 25, 97), Some("zen-4"));
    assert_eq!(x86("AuthenticAMD", 26, 2), Some("zen-4"));
    assert_eq!(of("processor : 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd40\n"), Some("neoverse"));
    assert_eq!(x86("GenuineIntel", 5, 4), None);
    assert_eq!(of(""), None);
}

/// The events of Ice Lake are among those of Skylake, but a file with all of them and no others is no guess.
#[test]
fn whole_recordings_tell_their_processors() {
    for (model, recorded) in [
        ("haswell", include_str!("recorded/haswell.csv")),
        ("skylake", include_str!("recorded/skylake.jsonl")),
        ("ice-lake", include_str!("recorded/ice-lake.csv")),
        ("golden-cove", include_str!("recorded/golden-cove.csv")),
        ("zen-1", include_str!("recorded/zen-1.csv")),
        ("zen-3", include_str!("recorded/zen-3.jsonl")),
        ("zen-4", include_str!("recorded/zen-4.csv")),
        ("neoverse", include_str!("recorded/neoverse.csv")),
    ] {
        let identified = identify(&counts(recorded).unwrap()).unwrap();
        let others: Vec<&str> = identified.others.iter().map(|model| model.name).collect();
        assert_eq!((identified.model.name, &others[..]), (model, &[][..]));
    }
}

#[test]
fn events_that_several_models_have_are_a_guess_and_unused_counts_are_named() {
    let recorded = "5000,,instructions,1,100.00,,\n70,,page-faults,1,100.00,,\n9,,dtlb_load_misses.walk_completed,1,100.00,,\n\
                    8,,dtlb_load_misses.walk_completed,1,100.00,,\n3,,cpu_atom/dtlb_load_misses.walk_completed/u,1,100.00,,\n\
                    <not counted>,,branches,0,0.00,,\n";
    let counts = counts(recorded).unwrap();
    let identified = identify(&counts).unwrap();
    let mut models: Vec<&str> = identified.others.iter().map(|model| model.name).collect();
    models.push(identified.model.name);
    models.sort();
    assert_eq!((identified.events, &models[..]), (1, &["golden-cove", "haswell", "ice-lake", "skylake"][..]));
    let answer = Answer::of(identified.model, &counts);
    let completed = counts.iter().find(|count| count.name == "dtlb_load_misses.walk_completed").unwrap();
    assert_eq!(completed.value, Some(17), "efficiency cores are not added");
    let reasons: Vec<(&str, &str)> = answer.unused.iter().map(|(name, why)| (name.as_str(), why.as_str())).collect();
    let name = identified.model.name;
    assert_eq!(
        reasons,
        [
            ("page-faults", format!("no metric of {name} uses it").as_str()),
            ("dtlb_load_misses.walk_completed", "means nothing without dtlb_store_misses.walk_completed"),
            ("cpu_atom/dtlb_load_misses.walk_completed/", "efficiency cores have events of another meaning"),
        ]
    );
}
