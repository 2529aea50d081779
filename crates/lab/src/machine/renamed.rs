//! Keys of machine files that had another name in earlier versions.

use super::error::Problem;
use toml::{Table, Value};

/// A section of earlier versions, and its name today.
const SECTION: (&str, &str) = ("window", "ooo");

/// Earlier and present paths of keys. Both are in the sections of today.
const KEYS: &[(&str, &str)] = &[
    ("core.contexts", "core.asids"),
    ("nested.host", "nested.host_page"),
    ("nested.tables", "nested.walk_cache_entries"),
    ("nested.tlb", "nested.tlb_entries"),
    ("ooo.front_end", "ooo.front_end_depth"),
    ("ooo.issue", "ooo.width"),
    ("ooo.predictor.returns", "ooo.predictor.return_stack"),
    ("ooo.prefetch.ahead", "ooo.prefetch.distance"),
    ("ooo.prefetch.most", "ooo.prefetch.max_in_flight"),
    ("ooo.prefetch.next_page", "ooo.prefetch.page_end"),
    ("ooo.prefetch.pairs", "ooo.prefetch.adjacent_line"),
    ("os.read_in", "os.file_read"),
    ("os.read_in_per_byte", "os.file_read_per_byte"),
    ("walker.hardware.consult", "walker.hardware.lookup"),
];

/// Returns the path that the section or key at `path` has today. `None`: it never had another name.
pub(super) fn present_path(path: &str) -> Option<String> {
    let (old, new) = SECTION;
    let rest = path.strip_prefix(old).filter(|rest| rest.is_empty() || rest.starts_with('.'));
    let moved = rest.map(|rest| format!("{new}{rest}"));
    let key = moved.as_deref().unwrap_or(path);
    KEYS.iter().find(|(old, _)| *old == key).map(|(_, new)| (*new).to_owned()).or(moved)
}

/// Returns a problem for each section and key of a file that has an earlier name.
pub(super) fn check(file: &Table) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (key, value) in file {
        check_key(key, value, &mut problems);
    }
    problems
}

fn check_key(path: &str, value: &Value, problems: &mut Vec<Problem>) {
    let last = |path: &str| path.rsplit('.').next().map(str::to_owned);
    // Keys whose section alone has another name are covered by the problem of the section.
    if let Some(present) = present_path(path).filter(|present| last(present) != last(path)) {
        problems.push(Problem::new(path, format!("this key is now {present}; rename it")));
    }
    for (key, value) in value.as_table().into_iter().flatten() {
        check_key(&format!("{path}.{key}"), value, problems);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{check as check_text, presets::PRESETS, resolve};
    use super::*;

    fn skylake() -> &'static str {
        PRESETS.iter().find(|(name, _)| *name == "skylake-e3-1240v5").unwrap().1
    }

    /// Returns `text` with the key at path `new` under the last part of `old`.
    fn with_old_key(text: &str, old: &str, new: &str) -> String {
        let (section, key) = new.rsplit_once('.').unwrap();
        let old_key = old.rsplit('.').next().unwrap();
        let start = text.find(&format!("[{section}]")).unwrap();
        let at = start + text[start..].find(&format!("\n{key} =")).unwrap() + 1;
        format!("{}{old_key}{}", &text[..at], &text[at + key.len()..])
    }

    #[test]
    fn every_earlier_key_of_a_file_names_the_present_one() {
        for (old, new) in KEYS {
            let text = with_old_key(skylake(), old, new);
            let problems = check_text(&text);
            assert_eq!(problems.len(), 1, "{old}: {problems:?}");
            assert_eq!(problems[0].at, *old);
            assert!(problems[0].line.is_some() && problems[0].what.contains(&format!("is now {new};")), "{problems:?}");
        }
    }

    #[test]
    fn every_earlier_key_of_an_override_names_the_present_one() {
        for (old, new) in KEYS {
            let error = resolve(&format!("skylake-e3-1240v5:{old}=1")).unwrap_err().to_string();
            assert_eq!(error, format!("{old}=1: key {old} is now {new}; write {new}=1"));
            assert!(present_path(new).is_none(), "{new} is an earlier name too");
        }
    }

    #[test]
    fn the_earlier_section_is_named_once_with_the_keys_that_changed_in_it() {
        let text = with_old_key(skylake(), "ooo.issue", "ooo.width").replace("[ooo", "[window");
        let problems: Vec<_> = check_text(&text).iter().map(Problem::to_string).collect();
        assert_eq!(problems.len(), 2, "{problems:?}");
        assert!(problems[0].contains("window: this key is now ooo; rename it"), "{problems:?}");
        assert!(problems[1].contains("window.issue: this key is now ooo.width; rename it"), "{problems:?}");
        for (old, new) in [("window.rob", "ooo.rob"), ("window.prefetch.most", "ooo.prefetch.max_in_flight")] {
            let error = resolve(&format!("haswell-e5-2680v3:{old}=1")).unwrap_err().to_string();
            assert_eq!(error, format!("{old}=1: key {old} is now {new}; write {new}=1"));
        }
    }
}
