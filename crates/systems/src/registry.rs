//! The table of all systems, by name.

use crate::error::SystemError;
use crate::evidence::{Criterion, Evidence};
use crate::resolved::Resolved;
use crate::settings::{Accepts, Setting, Settings, near};
use crate::system::System;
use crate::{
    base, basu_2013_direct_segment, fang_1999, freebsd, hugetlb, ideal, karakostas_2015_rmm, linux_thp, navarro_2002,
    park_2022_flattened, pham_2012_colt, pham_2014_clustered, romer_1995, skarlatos_2020_ecpt, talluri_hill_1994,
    yaniv_2016_hashed, zhou_2023,
};
use reach_core::{PageShift, PageTableKind};

/// The part that a system plays in a comparison, whatever its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Demand paging with base pages, to which other systems are compared.
    Base,
    /// Huge pages that stock Linux gives transparently.
    Transparent,
    /// Pages of this size for all anonymous memory, as stock Linux gives on request.
    Explicit(PageShift),
    /// Any other design, published or shipped.
    Design,
    /// Translation that costs nothing, with base pages: the bound for translation alone. A design with fewer page faults can
    /// pass it.
    Bound,
}

impl Role {
    /// Whether stock Linux does the same on today's processors, so that counters can measure its walk cycles.
    pub fn is_stock_linux(self) -> bool {
        matches!(self, Role::Base | Role::Transparent | Role::Explicit(_))
    }
}

/// An entry of the table, as `reach system list` shows it.
pub struct Description {
    /// The system's name.
    pub name: &'static str,
    /// A description of the system, on one line.
    pub summary: &'static str,
    /// The part that it plays in a comparison.
    pub role: Role,
    /// Whether `reach compare` takes it without being asked to.
    pub compared: bool,
    /// The citation: authors, title, venue and year. `None` for what operating systems ship.
    pub published: Option<&'static str>,
    /// How results show that it acted. `None`: there is nothing to show (base pages, the bound), or the operating system
    /// counts what was asked for itself ([`reach_os::ExplicitCounts`]).
    pub criterion: Option<Criterion>,
    /// The organization of page tables, unless the option `page_table` names another.
    pub page_table: PageTableKind,
    /// The options that it takes besides [`PAGE_TABLE`].
    pub settings: &'static [Setting],
    pub(crate) build: fn(&Settings) -> Box<dyn System>,
}

/// The option that every system takes; its default is [`Description::page_table`].
pub const PAGE_TABLE: Setting = Setting::new(
    "page_table",
    Accepts::Choice(&PageTableKind::NAMES),
    PageTableKind::Radix.name(),
    "the organization of page tables; all but radix need a machine whose hardware walks",
);

impl Description {
    /// Returns all options, [`PAGE_TABLE`] last.
    pub fn options(&self) -> Vec<Setting> {
        let page_table = Setting { default: self.page_table.name(), ..PAGE_TABLE };
        self.settings.iter().copied().chain([page_table]).collect()
    }
}

static ALL: &[Description] = &[
    Description {
        name: "base",
        summary: "demand paging with base pages only",
        role: Role::Base,
        compared: true,
        published: None,
        criterion: None,
        page_table: PageTableKind::Radix,
        settings: base::SETTINGS,
        build: |settings| Box::new(base::Base::new("base", settings)),
    },
    Description {
        name: "linux-thp",
        summary: "Linux's transparent huge pages, at first touch and by khugepaged",
        role: Role::Transparent,
        compared: true,
        published: None,
        criterion: Criterion::new(Evidence::Superpages, "mapped no huge page, neither at a fault nor by khugepaged"),
        page_table: PageTableKind::Radix,
        settings: linux_thp::SETTINGS,
        build: |settings| Box::new(linux_thp::LinuxThp::new(settings)),
    },
    Description {
        name: "hugetlb-2m",
        summary: "all anonymous memory on explicit 2 MB pages from its first touch",
        role: Role::Explicit(PageShift(21)),
        compared: true,
        published: None,
        criterion: None,
        page_table: PageTableKind::Radix,
        settings: hugetlb::SETTINGS,
        build: |settings| Box::new(hugetlb::Hugetlb::new("hugetlb-2m", PageShift(21), settings)),
    },
    Description {
        name: "hugetlb-1g",
        summary: "all anonymous memory on explicit 1 GB pages from its first touch",
        role: Role::Explicit(PageShift(30)),
        compared: false,
        published: None,
        criterion: None,
        page_table: PageTableKind::Radix,
        settings: hugetlb::SETTINGS,
        build: |settings| Box::new(hugetlb::Hugetlb::new("hugetlb-1g", PageShift(30), settings)),
    },
    Description {
        name: "freebsd",
        summary: "FreeBSD's reservations of 2 MB, promoted when fully populated",
        role: Role::Design,
        compared: false,
        published: None,
        criterion: Criterion::new(Evidence::Superpages, "never promoted: no reservation of 2 MB was fully populated"),
        page_table: PageTableKind::Radix,
        settings: freebsd::SETTINGS,
        build: |settings| Box::new(freebsd::FreeBsd::new(settings)),
    },
    Description {
        name: "talluri-hill-1994",
        summary: "reservations of 64 KB, promoted when half of their pages are in use",
        role: Role::Design,
        compared: true,
        published: Some(
            "Talluri and Hill: Surpassing the TLB Performance of Superpages with Less Operating System Support, \
             ASPLOS 1994",
        ),
        criterion: Criterion::new(
            Evidence::Superpages,
            "never promoted: no reservation was populated to the threshold",
        ),
        page_table: PageTableKind::Radix,
        settings: talluri_hill_1994::SETTINGS,
        build: |settings| Box::new(talluri_hill_1994::TalluriHill::new(settings)),
    },
    Description {
        name: "navarro-2002",
        summary: "reservations for all superpage sizes, promoted and demoted one size at a time",
        role: Role::Design,
        compared: true,
        published: Some(
            "Navarro, Iyer, Druschel and Cox: Practical, Transparent Operating System Support for Superpages, OSDI 2002",
        ),
        criterion: Criterion::new(Evidence::Superpages, "never promoted: no reservation was fully populated"),
        page_table: PageTableKind::Radix,
        settings: navarro_2002::SETTINGS,
        build: |settings| Box::new(navarro_2002::Navarro::new(settings)),
    },
    Description {
        name: "romer-1995",
        summary: "online promotion in the TLB miss handler, by copying at a fixed cost",
        role: Role::Design,
        compared: true,
        published: Some(
            "Romer, Ohlrich, Karlin and Bershad: Reducing TLB and Memory Overhead Using Online Superpage Promotion, ISCA \
             1995",
        ),
        criterion: Criterion::new(Evidence::Superpages, "never promoted: no superpage's misses reached the threshold"),
        page_table: PageTableKind::Radix,
        settings: romer_1995::SETTINGS,
        build: |settings| Box::new(romer_1995::Romer::new(settings)),
    },
    Description {
        name: "fang-1999",
        summary: "online promotion in the TLB miss handler, by copying or by remapping",
        role: Role::Design,
        compared: true,
        published: Some(
            "Fang, Zhang, Carter, McKee and Hsieh: Online Superpage Promotion Revisited, University of Utah \
             UUCS-99-021, 1999",
        ),
        criterion: Criterion::new(Evidence::Superpages, "never promoted: no superpage's misses reached the threshold"),
        page_table: PageTableKind::Radix,
        settings: fang_1999::SETTINGS,
        build: |settings| Box::new(fang_1999::Fang::new(settings)),
    },
    Description {
        name: "basu-2013-direct-segment",
        summary: "one contiguous segment, translated by base, limit and offset registers",
        role: Role::Design,
        compared: true,
        published: Some(
            "Basu, Gandhi, Chang, Hill and Swift: Efficient Virtual Memory for Big Memory Servers, ISCA 2013",
        ),
        criterion: Criterion::new(Evidence::Segments, "had no segment: no mapping was large enough"),
        page_table: PageTableKind::Radix,
        settings: basu_2013_direct_segment::SETTINGS,
        build: |settings| Box::new(basu_2013_direct_segment::DirectSegment::new(settings)),
    },
    Description {
        name: "pham-2012-colt",
        summary: "coalesced last-level TLB entries for up to four contiguous pages",
        role: Role::Design,
        compared: true,
        published: Some("Pham, Vaidyanathan, Jaleel and Bhattacharjee: CoLT: Coalesced Large-Reach TLBs, MICRO 2012"),
        criterion: Criterion::new(
            Evidence::CoalescedEntries,
            "coalesced no entries: no neighbouring pages had neighbouring frames",
        ),
        page_table: PageTableKind::Radix,
        settings: pham_2012_colt::SETTINGS,
        build: |settings| Box::new(pham_2012_colt::Colt::new(settings)),
    },
    Description {
        name: "pham-2014-clustered",
        summary: "clustered TLB entries for up to eight pages in one group of frames",
        role: Role::Design,
        compared: true,
        published: Some(
            "Pham, Bhattacharjee, Eckert and Loh: Increasing TLB Reach by Exploiting Clustering in Page Translations, HPCA \
             2014",
        ),
        criterion: Criterion::new(
            Evidence::CoalescedEntries,
            "clustered no entries: no neighbouring pages had frames in one group",
        ),
        page_table: PageTableKind::Radix,
        settings: pham_2014_clustered::SETTINGS,
        build: |settings| Box::new(pham_2014_clustered::Clustered::new(settings)),
    },
    Description {
        name: "karakostas-2015-rmm",
        summary: "eager paging in contiguous ranges, translated by a range TLB",
        role: Role::Design,
        compared: true,
        published: Some(
            "Karakostas, Gandhi, Ayar, Cristal, Hill, McKinley, Nemirovsky, Swift and Ünsal: Redundant Memory Mappings for \
             Fast Access to Large Memories, ISCA 2015",
        ),
        criterion: Criterion::new(Evidence::Ranges, "made no range: no request was paged eagerly"),
        page_table: PageTableKind::Radix,
        settings: karakostas_2015_rmm::SETTINGS,
        build: |settings| Box::new(karakostas_2015_rmm::Rmm::new(settings)),
    },
    Description {
        name: "yaniv-2016-hashed",
        summary: "hashed page tables with open addressing, without walk caches",
        role: Role::Design,
        compared: true,
        published: Some("Yaniv and Tsafrir: Hash, Don't Cache (the Page Table), SIGMETRICS 2016"),
        criterion: Criterion::new(Evidence::Walks, "walked no page table"),
        page_table: PageTableKind::Hashed,
        settings: base::SETTINGS,
        build: yaniv_2016_hashed::build,
    },
    Description {
        name: "skarlatos-2020-ecpt",
        summary: "elastic cuckoo page tables, walked in parallel",
        role: Role::Design,
        compared: true,
        published: Some(
            "Skarlatos, Kokolis, Xu and Torrellas: Elastic Cuckoo Page Tables: Rethinking Virtual Memory Translation for \
             Parallelism, ASPLOS 2020",
        ),
        criterion: Criterion::new(Evidence::Walks, "walked no page table"),
        page_table: PageTableKind::Cuckoo,
        settings: base::SETTINGS,
        build: skarlatos_2020_ecpt::build,
    },
    Description {
        name: "park-2022-flattened",
        summary: "radix page tables of which two levels at a time are one node",
        role: Role::Design,
        compared: true,
        published: Some(
            "Park, Vougioukas, Sandberg and Black-Schaffer: Every Walk's a Hit: Making Page Walks Single-Access Cache Hits, \
             ASPLOS 2022",
        ),
        criterion: Criterion::new(Evidence::Walks, "walked no page table"),
        page_table: PageTableKind::Flattened,
        settings: base::SETTINGS,
        build: park_2022_flattened::build,
    },
    Description {
        name: "zhou-2023",
        summary: "FreeBSD with superpages for code in files, promoted early and padded",
        role: Role::Design,
        compared: true,
        published: Some(
            "Zhou, Cox, Dwarkadas and Dong: The Impact of Page Size and Microarchitecture on Instruction Address Translation \
             Overhead, ACM TACO 20(3), 2023",
        ),
        criterion: Criterion::new(Evidence::CodeSuperpages, "made no superpage of code in a file"),
        page_table: PageTableKind::Radix,
        settings: zhou_2023::SETTINGS,
        build: |settings| Box::new(zhou_2023::Zhou::new(settings)),
    },
    Description {
        name: "ideal",
        summary: "base pages and a TLB that never misses: the bound for translation alone; fewer page faults can beat it",
        role: Role::Bound,
        compared: true,
        published: None,
        criterion: None,
        page_table: PageTableKind::Radix,
        settings: base::SETTINGS,
        build: |settings| Box::new(ideal::Ideal::new(settings)),
    },
];

/// Returns all systems, in the order in which results list them: base pages first, the bound last.
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
    fn stock_linux_and_the_bound_frame_the_published_systems_in_the_default_comparison() {
        let compared: Vec<_> = list().iter().filter(|system| system.compared).map(|system| system.name).collect();
        let published = list().iter().filter(|system| system.published.is_some()).map(|system| system.name);
        let expected: Vec<_> =
            ["base", "linux-thp", "hugetlb-2m"].into_iter().chain(published).chain(["ideal"]).collect();
        assert_eq!(compared, expected);
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
