//! This Linux, as the simulator knows it: its settings as options of the system `linux-thp`.

use reach_live::huge_pages::HugePages;
use reach_live::native::Thp;
use reach_live::remedy::Remedy;
use std::collections::BTreeMap;

/// The numbers of khugepaged that the simulated one has, too.
const KHUGEPAGED: [&str; 5] =
    ["pages_to_scan", "scan_sleep_millisecs", "alloc_sleep_millisecs", "max_ptes_none", "max_ptes_shared"];

/// Returns the system that stands for a Linux with these settings.
pub fn system(pages: &HugePages) -> String {
    let Some(enabled) = &pages.enabled else { return "linux-thp:enabled=never".into() };
    let mut options: BTreeMap<&str, String> = BTreeMap::new();
    options.insert("enabled", enabled.clone());
    // Faults that leave compaction to daemons do none themselves.
    let defrag = match pages.defrag.as_deref() {
        Some("always") => "always",
        Some("madvise" | "defer+madvise") => "madvise",
        _ => "never",
    };
    options.insert("defrag", defrag.into());
    options.insert("use_zero_page", if pages.use_zero_page { "on" } else { "off" }.into());
    // The words for tests of the kernel are left out.
    if let Some(word @ ("always" | "within_size" | "advise")) = pages.shmem_enabled.as_deref() {
        options.insert("shmem_enabled", word.into());
    }
    if let Some((sizes, scope)) = multi_size(pages) {
        options.insert("mthp", sizes);
        options.insert("mthp_enabled", scope);
    }
    if pages.collapses_blocks {
        options.insert("version", "7.2".into());
    }
    for name in KHUGEPAGED {
        if let Some(value) = pages.khugepaged.get(name) {
            // 0 turns the sleep off, and no limit is beyond a page less than all.
            let value = if name.starts_with("max_ptes") { (*value).min(511) } else { (*value).max(1) };
            options.insert(name, value.to_string());
        }
    }
    let options: Vec<_> = options.iter().map(|(name, value)| format!("{name}={value}")).collect();
    format!("linux-thp:{}", options.join(","))
}

/// Returns the sizes of blocks and the memory that has them. The system has one scope for all sizes: the widest that any has.
fn multi_size(pages: &HugePages) -> Option<(String, String)> {
    let scope =
        ["always", "inherit", "madvise"].into_iter().find(|scope| pages.multi_size.values().any(|on| on == scope))?;
    let sizes = pages.multi_size.iter().filter(|(_, on)| *on == scope);
    let names: Vec<_> =
        sizes.map(|(size, _)| if *size >= 1024 { format!("{}M", size / 1024) } else { format!("{size}K") }).collect();
    Some((names.join("+"), scope.to_owned()))
}

/// Returns the settings under which the program runs with a remedy.
pub fn under(pages: &HugePages, remedy: &Remedy) -> HugePages {
    let mut changed = pages.clone();
    for (setting, value) in remedy.settings {
        changed = changed.with(*setting, &value(0));
    }
    match remedy.thp {
        Thp::Inherited | Thp::Allowed => {}
        Thp::Disabled => {
            changed.enabled = changed.enabled.map(|_| "never".into());
            changed.multi_size.clear();
        }
        Thp::ExceptAdvised => {
            changed.enabled = changed.enabled.map(|on| if on == "never" { on } else { "madvise".into() });
            changed.multi_size.values_mut().filter(|on| *on == "always").for_each(|on| *on = "madvise".into());
        }
    }
    changed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(enabled: &str) -> HugePages {
        HugePages {
            enabled: Some(enabled.into()),
            defrag: Some("defer+madvise".into()),
            use_zero_page: true,
            khugepaged: [("max_ptes_none".to_owned(), 511), ("scan_sleep_millisecs".to_owned(), 0)].into(),
            ..HugePages::default()
        }
    }

    #[test]
    fn every_setting_of_this_linux_and_every_remedy_makes_a_system() {
        for enabled in ["always", "madvise", "never"] {
            let mut pages = pages(enabled);
            for blocks in [vec![], vec![(64, "always")], vec![(16, "inherit"), (1024, "madvise"), (64, "inherit")]] {
                pages.collapses_blocks = blocks.len() == 1;
                pages.multi_size = blocks.iter().map(|(size, on)| (*size, on.to_string())).collect();
                reach_systems::resolve(&system(&pages)).unwrap();
                for remedy in reach_live::remedy::REMEDIES {
                    reach_systems::resolve(&system(&under(&pages, remedy))).unwrap();
                }
            }
        }
        let plain = system(&pages("madvise"));
        assert_eq!(
            plain,
            "linux-thp:defrag=madvise,enabled=madvise,max_ptes_none=511,scan_sleep_millisecs=1,use_zero_page=on"
        );
        reach_systems::resolve(&system(&HugePages::default())).unwrap();
    }

    #[test]
    fn a_remedy_changes_the_setting_that_it_is_about() {
        let of = |enabled: &str, remedy: &str| system(&under(&pages(enabled), Remedy::named(remedy).unwrap()));
        assert!(of("madvise", "thp-always").contains("enabled=always"));
        assert!(of("always", "no-thp").contains("enabled=never"));
        assert!(of("always", "advised-thp").contains("enabled=madvise"));
        assert!(of("never", "advised-thp").contains("enabled=never"));
        assert!(of("madvise", "mthp-64k").contains("mthp=64K,mthp_enabled=always"));
        assert_eq!(of("madvise", "glibc-thp"), system(&pages("madvise")));
    }
}
