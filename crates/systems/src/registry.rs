//! The table of all systems, by name.

use crate::description::Description;
use crate::error::SystemError;
use crate::resolved::Resolved;
use crate::settings::{Settings, near};
use crate::{
    alverti_2020_spot, barr_2011_spectlb, base, basu_2013_direct_segment, chasapis_2025_itp, fang_1999, freebsd,
    gosakan_2023_mosaic, gupta_2021_midgard, hugetlb, ideal, jia_2023_gemini, kandiraju_2002_prefetch,
    kanellopoulos_2023_utopia, kanellopoulos_2023_victima, kanellopoulos_2025_revelator, karakostas_2015_rmm,
    kwon_2016_ingens, linux_thp, manocha_2023_pcc, mansi_2022_cbmm, margaritov_2019_asap, margaritov_2021_ptemagnet,
    mirbagher_2020_chirp, navarro_2002, panwar_2019_hawkeye, park_2022_flattened, pham_2012_colt, pham_2014_clustered,
    psomadakis_2024_elastic, ram_2021_trident, romer_1995, ryoo_2017_pom_tlb, skarlatos_2020_ecpt, talluri_hill_1994,
    vavouliotis_2021_atp, vavouliotis_2021_morrigan, yaniv_2016_hashed, zhang_2024_dmt, zhao_2023_contiguitas,
    zhao_2025_lvm, zhou_2023,
};

/// In the order in which results list them: base pages first, the bound last.
static ALL: &[Description] = &[
    base::DESCRIPTION,
    linux_thp::DESCRIPTION,
    hugetlb::DESCRIPTION_2M,
    hugetlb::DESCRIPTION_1G,
    freebsd::DESCRIPTION,
    talluri_hill_1994::DESCRIPTION,
    navarro_2002::DESCRIPTION,
    romer_1995::DESCRIPTION,
    fang_1999::DESCRIPTION,
    basu_2013_direct_segment::DESCRIPTION,
    pham_2012_colt::DESCRIPTION,
    pham_2014_clustered::DESCRIPTION,
    gosakan_2023_mosaic::DESCRIPTION,
    karakostas_2015_rmm::DESCRIPTION,
    yaniv_2016_hashed::DESCRIPTION,
    skarlatos_2020_ecpt::DESCRIPTION,
    park_2022_flattened::DESCRIPTION,
    zhao_2025_lvm::DESCRIPTION,
    ryoo_2017_pom_tlb::DESCRIPTION,
    kanellopoulos_2023_victima::DESCRIPTION,
    kanellopoulos_2023_utopia::DESCRIPTION,
    zhang_2024_dmt::DESCRIPTION,
    gupta_2021_midgard::DESCRIPTION,
    margaritov_2019_asap::DESCRIPTION,
    kandiraju_2002_prefetch::DESCRIPTION,
    vavouliotis_2021_atp::DESCRIPTION,
    vavouliotis_2021_morrigan::DESCRIPTION,
    mirbagher_2020_chirp::DESCRIPTION,
    chasapis_2025_itp::DESCRIPTION,
    barr_2011_spectlb::DESCRIPTION,
    alverti_2020_spot::DESCRIPTION,
    kanellopoulos_2025_revelator::DESCRIPTION,
    kwon_2016_ingens::DESCRIPTION,
    panwar_2019_hawkeye::DESCRIPTION,
    ram_2021_trident::DESCRIPTION,
    mansi_2022_cbmm::DESCRIPTION,
    manocha_2023_pcc::DESCRIPTION,
    psomadakis_2024_elastic::DESCRIPTION,
    zhao_2023_contiguitas::DESCRIPTION,
    margaritov_2021_ptemagnet::DESCRIPTION,
    jia_2023_gemini::DESCRIPTION,
    zhou_2023::DESCRIPTION,
    ideal::DESCRIPTION,
];

/// Returns all systems, in the order in which results list them.
pub fn list() -> &'static [Description] {
    ALL
}

/// Reads `name` or `name:key=value,key=value`.
///
/// ```
/// use reach_systems::{Role, list, resolve};
///
/// let system = resolve("fang-1999:policy=aol,mechanism=copy")?;
/// assert_eq!(system.name(), "fang-1999");
/// assert_eq!(system.role(), Role::Design);
/// let threshold = system.settings().iter().find(|(name, _)| *name == "threshold");
/// assert_eq!(threshold, Some(("threshold", "16")));
/// assert_eq!(system.build().name(), "fang-1999");
///
/// let error = resolve("base:zero_page=0").err().unwrap();
/// assert_eq!(error.to_string(), "base: zero_page=0: expected on or off; write zero_page=off");
///
/// let published = list().iter().filter(|system| system.role == Role::Design);
/// assert!(published.count() > 5);
/// # Ok::<(), reach_systems::SystemError>(())
/// ```
///
/// # Errors
/// When there is no such system, when it has no such option, and when the option does not take the value.
pub fn resolve(spec: &str) -> Result<Resolved, SystemError> {
    let (name, options) = match spec.split_once(':') {
        Some((name, options)) => (name, options),
        None => (spec, ""),
    };
    let description = ALL.iter().find(|description| description.name == name).ok_or_else(|| SystemError::Name {
        name: name.into(),
        near: near(name, ALL.iter().map(|description| description.name)),
    })?;
    let known = description.options();
    let mut settings = Settings::defaults(&known);
    for text in options.split(',').filter(|text| !text.is_empty()) {
        let (option, value) =
            text.split_once('=').ok_or_else(|| SystemError::Form { system: name.into(), text: text.into() })?;
        settings.set(name, &known, option.trim(), value.trim())?;
    }
    Ok(Resolved::of(description, settings, spec))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::description::Role;
    use crate::settings::Accepts;

    #[test]
    fn every_system_is_found_by_its_name_and_has_valid_defaults() {
        for description in list() {
            let system = resolve(description.name).unwrap().build();
            assert_eq!(system.name(), description.name);
            let has_year = |text: &str| text.split(|c: char| !c.is_ascii_digit()).any(|number| number.len() == 4);
            assert!(description.published.is_none_or(has_year), "{}: its citation lacks the year", description.name);
            let settings = Settings::defaults(&description.options());
            for (name, value) in settings.iter() {
                let spec = format!("{}:{name}={value}", description.name);
                assert_eq!(resolve(&spec).unwrap().settings(), &settings, "{spec}");
            }
        }
    }

    /// Reading an option as an enum that lacks one of its words would panic here.
    #[test]
    fn every_word_and_both_ends_of_every_range_build() {
        for description in list() {
            for setting in description.options() {
                let values = match setting.accepts {
                    Accepts::Switch => vec!["on".to_owned(), "off".to_owned()],
                    Accepts::Choice(words) => words.iter().map(|word| (*word).to_owned()).collect(),
                    Accepts::Number { min, max, .. } => vec![min.to_string(), max.to_string()],
                    Accepts::Sizes => vec!["all".to_owned(), "64K+4M".to_owned()],
                    Accepts::Blocks => vec!["none".to_owned(), "64K+128K".to_owned()],
                    Accepts::File => vec!["all".to_owned(), "libc.so.6".to_owned()],
                    Accepts::Spans => vec!["none".to_owned(), "1000-2000+0x3000-0xf000".to_owned()],
                    Accepts::Profile => vec!["none".to_owned(), "huge:heap:5+eager:mmap:7:addr:>:0x1000".to_owned()],
                };
                for value in values {
                    let spec = format!("{}:{}={value}", description.name, setting.name);
                    assert_eq!(resolve(&spec).unwrap().build().name(), description.name, "{spec}");
                }
            }
        }
    }

    /// Comparisons look systems up by role.
    #[test]
    fn one_system_is_the_base_one_is_transparent_and_one_is_the_bound() {
        let names = |role| list().iter().filter(|d| d.role == role).map(|d| d.name).collect::<Vec<_>>();
        assert_eq!(names(Role::Base), ["base"]);
        assert_eq!(names(Role::Transparent), ["linux-thp"]);
        assert_eq!(names(Role::Bound), ["ideal"]);
    }

    #[test]
    fn every_design_has_a_criterion_of_having_acted() {
        for system in list() {
            let expected = matches!(system.role, Role::Design | Role::Transparent);
            assert_eq!(system.criterion.is_some(), expected, "{}", system.name);
        }
    }

    /// The default comparison is part of the command line's contract.
    #[test]
    fn stock_linux_and_the_bound_frame_published_systems_in_the_default_comparison() {
        let compared: Vec<_> = list().iter().filter(|system| system.compared).collect();
        let names: Vec<_> = compared.iter().map(|system| system.name).collect();
        assert!(names.starts_with(&["base", "linux-thp", "hugetlb-2m"]), "{names:?}");
        assert_eq!(names.last(), Some(&"ideal"));
        assert!(compared[3..names.len() - 1].iter().all(|system| system.published.is_some()));
        for backbone in ["navarro-2002", "romer-1995", "fang-1999", "karakostas-2015-rmm", "zhou-2023"] {
            assert!(names.contains(&backbone), "{backbone}");
        }
    }

    fn message(spec: &str) -> String {
        resolve(spec).err().unwrap_or_else(|| panic!("{spec} was taken")).to_string()
    }

    #[test]
    fn errors_name_what_is_near_and_what_is_expected() {
        assert_eq!(
            message("bsae"),
            "there is no system \"bsae\": did you mean \"base\"?; `reach system list` shows all"
        );
        assert!(message("base:x=1").contains("it has zero_page"));
        assert!(message("base:x").contains("key=value"));
        assert_eq!(message("zhou-2023:threshold=34"), "zhou-2023: threshold=34: expected 1 to 33");
        let basu = message("basu-2013-direct-segment:min_segment=0");
        assert_eq!(basu, "basu-2013-direct-segment: min_segment=0: expected 1 to 1048576 MB");
    }

    #[test]
    fn old_spellings_of_on_and_off_name_the_new_ones() {
        for (old, new) in [("0", "off"), ("1", "on"), ("false", "off"), ("true", "on")] {
            assert_eq!(
                message(&format!("base:zero_page={old}")),
                format!("base: zero_page={old}: expected on or off; write zero_page={new}")
            );
        }
        assert!(message("fang-1999:zero_page=0").ends_with("expected as-base or on or off; write zero_page=off"));
        assert!(message("pham-2014-clustered:eager=1").ends_with("write eager=on"));
    }

    #[test]
    fn no_option_has_the_name_of_another() {
        for description in list() {
            let names: Vec<&str> = description.options().iter().map(|setting| setting.name).collect();
            let unique: std::collections::BTreeSet<_> = names.iter().collect();
            assert_eq!(unique.len(), names.len(), "{}: {names:?}", description.name);
        }
    }

    #[test]
    fn old_names_of_options_name_the_new_ones() {
        let mut renamed = 0;
        for description in list() {
            for setting in description.settings {
                let Some(old) = setting.formerly else { continue };
                renamed += 1;
                assert!(description.settings.iter().all(|other| other.name != old), "{old} is a name today");
                let spec = format!("{}:{old}={}", description.name, setting.default);
                let new = format!("option {old:?} is now {:?}; write {}:", setting.name, description.name);
                assert!(message(&spec).contains(&new), "{spec}: {}", message(&spec));
            }
        }
        assert!(renamed > 15);
        assert_eq!(
            message("karakostas-2015-rmm:larger=1"),
            "system karakostas-2015-rmm: option \"larger\" is now \"round_up\"; write karakostas-2015-rmm:round_up=on"
        );
    }
}
