use super::*;
#[test]
fn presets_load() {
    for (name, text) in PRESETS {
        let problems = check(text);
        assert!(
            problems.is_empty(),
            "{name}: {}",
            problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
        );
    }
}
