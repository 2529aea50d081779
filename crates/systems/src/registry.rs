//! All systems by name.

use crate::settings::near;
use crate::{
    Setting, Settings, System, SystemError, base, basu_2013_direct_segment, fang_1999, freebsd, hugetlb, ideal,
    karakostas_2015_rmm, linux_thp, navarro_2002, pham_2012_colt, pham_2014_clustered, romer_1995, talluri_hill_1994,
    zhou_2023,
};
use reach_core::PageShift;

/// The part that a system plays in a comparison, whatever it is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Demand paging with base pages: overheads are relative to it.
    Base,
    /// Superpages that stock Linux makes without being asked.
    Transparent,
    /// All anonymous memory on pages of this size, as stock Linux gives on request.
    Explicit(PageShift),
    /// Any other design, published or shipped.
    Design,
    /// A bound that no design can pass.
    Bound,
}

impl Role {
    /// Returns whether stock Linux does the same on today's processors, so that counters can measure its walk cycles.
    pub fn is_stock_linux(self) -> bool {
        matches!(self, Role::Base | Role::Transparent | Role::Explicit(_))
    }
}

/// A system as `reach system list` shows it.
pub struct Description {
    /// Its name.
    pub name: &'static str,
    /// What it is, on one line.
    pub summary: &'static str,
    /// Where it was published: authors, title, place and year. Nothing for what operating systems ship.
    pub published: Option<&'static str>,
    /// Its options.
    pub settings: &'static [Setting],
    /// Its part in a comparison.
    pub role: Role,
    /// Whether a comparison includes it when no systems are named. The order is that of the registry.
    pub compared: bool,
    build: fn(&Settings) -> Box<dyn System>,
}

static ALL: &[Description] = &[
    Description {
        name: "base",
        summary: "demand paging with base pages only",
        published: None,
        settings: base::SETTINGS,
        role: Role::Base,
        compared: true,
        build: |settings| Box::new(base::Base::new(settings)),
    },
    Description {
        name: "linux-thp",
        summary: "Linux's transparent huge pages: at first touch, and by khugepaged",
        published: None,
        settings: linux_thp::SETTINGS,
        role: Role::Transparent,
        compared: true,
        build: |settings| Box::new(linux_thp::LinuxThp::new(settings)),
    },
    Description {
        name: "hugetlb-2m",
        summary: "all anonymous memory on explicit 2 MB pages from its first touch",
        published: None,
        settings: hugetlb::SETTINGS,
        role: Role::Explicit(PageShift(21)),
        compared: true,
        build: |settings| Box::new(hugetlb::Hugetlb::new("hugetlb-2m", PageShift(21), settings)),
    },
    Description {
        name: "hugetlb-1g",
        summary: "all anonymous memory on explicit 1 GB pages from its first touch",
        published: None,
        settings: hugetlb::SETTINGS,
        role: Role::Explicit(PageShift(30)),
        compared: false,
        build: |settings| Box::new(hugetlb::Hugetlb::new("hugetlb-1g", PageShift(30), settings)),
    },
    Description {
        name: "freebsd",
        summary: "FreeBSD's reservations of 2 MB, promoted when full",
        published: None,
        settings: freebsd::SETTINGS,
        role: Role::Design,
        compared: false,
        build: |settings| Box::new(freebsd::FreeBsd::new(settings)),
    },
    Description {
        name: "talluri-hill-1994",
        summary: "reservations of 64 KB that become superpages when half of them is in use",
        published: Some(
            "Talluri and Hill: Surpassing the TLB Performance of Superpages with Less Operating System Support, \
             ASPLOS 1994",
        ),
        settings: talluri_hill_1994::SETTINGS,
        role: Role::Design,
        compared: true,
        build: |settings| Box::new(talluri_hill_1994::TalluriHill::new(settings)),
    },
    Description {
        name: "navarro-2002",
        summary: "superpages of all sizes by reservation, promoted and demoted a size at a time",
        published: Some(
            "Navarro, Iyer, Druschel and Cox: Practical, Transparent Operating System Support for Superpages, OSDI 2002",
        ),
        settings: navarro_2002::SETTINGS,
        role: Role::Design,
        compared: true,
        build: |settings| Box::new(navarro_2002::Navarro::new(settings)),
    },
    Description {
        name: "romer-1995",
        summary: "superpages promoted online by the TLB miss handler, copied at a fixed cost",
        published: Some(
            "Romer, Ohlrich, Karlin and Bershad: Reducing TLB and Memory Overhead Using Online Superpage Promotion, ISCA \
             1995",
        ),
        settings: romer_1995::SETTINGS,
        role: Role::Design,
        compared: true,
        build: |settings| Box::new(romer_1995::Romer::new(settings)),
    },
    Description {
        name: "fang-1999",
        summary: "superpages promoted online by the TLB miss handler, by copying or by remapping",
        published: Some(
            "Fang, Zhang, Carter, McKee and Hsieh: Online Superpage Promotion Revisited, University of Utah \
             UUCS-99-021, 1999",
        ),
        settings: fang_1999::SETTINGS,
        role: Role::Design,
        compared: true,
        build: |settings| Box::new(fang_1999::Fang::new(settings)),
    },
    Description {
        name: "basu-2013-direct-segment",
        summary: "one segment of memory in one piece, translated by three registers",
        published: Some(
            "Basu, Gandhi, Chang, Hill and Swift: Efficient Virtual Memory for Big Memory Servers, ISCA 2013",
        ),
        settings: basu_2013_direct_segment::SETTINGS,
        role: Role::Design,
        compared: true,
        build: |settings| Box::new(basu_2013_direct_segment::DirectSegment::new(settings)),
    },
    Description {
        name: "pham-2012-colt",
        summary: "last-level TLB entries for up to four pages that follow one another in memory",
        published: Some("Pham, Vaidyanathan, Jaleel and Bhattacharjee: CoLT: Coalesced Large-Reach TLBs, MICRO 2012"),
        settings: pham_2012_colt::SETTINGS,
        role: Role::Design,
        compared: true,
        build: |settings| Box::new(pham_2012_colt::Colt::new(settings)),
    },
    Description {
        name: "pham-2014-clustered",
        summary: "TLB entries for up to eight pages whose frames lie in one group",
        published: Some(
            "Pham, Bhattacharjee, Eckert and Loh: Increasing TLB Reach by Exploiting Clustering in Page Translations, HPCA \
             2014",
        ),
        settings: pham_2014_clustered::SETTINGS,
        role: Role::Design,
        compared: true,
        build: |settings| Box::new(pham_2014_clustered::Clustered::new(settings)),
    },
    Description {
        name: "karakostas-2015-rmm",
        summary: "eager paging in contiguous ranges, translated by a range TLB beside the last level of TLBs",
        published: Some(
            "Karakostas, Gandhi, Ayar, Cristal, Hill, McKinley, Nemirovsky, Swift and Ünsal: Redundant Memory Mappings for \
             Fast Access to Large Memories, ISCA 2015",
        ),
        settings: karakostas_2015_rmm::SETTINGS,
        role: Role::Design,
        compared: true,
        build: |settings| Box::new(karakostas_2015_rmm::Rmm::new(settings)),
    },
    Description {
        name: "zhou-2023",
        summary: "FreeBSD with superpages of code from files, made early and padded",
        published: Some(
            "Zhou, Cox, Dwarkadas and Dong: The Impact of Page Size and Microarchitecture on Instruction Address Translation \
             Overhead, ACM TACO 20(3), 2023",
        ),
        settings: zhou_2023::SETTINGS,
        role: Role::Design,
        compared: true,
        build: |settings| Box::new(zhou_2023::Zhou::new(settings)),
    },
    Description {
        name: "ideal",
        summary: "base pages and a TLB that never misses: the bound of what any remedy can gain",
        published: None,
        settings: base::SETTINGS,
        role: Role::Bound,
        compared: true,
        build: |settings| Box::new(ideal::Ideal::new(settings)),
    },
];

/// All systems, in the order in which results list them.
pub fn list() -> &'static [Description] {
    ALL
}

/// A system with all its options.
#[derive(Clone)]
pub struct Resolved {
    description: &'static Description,
    settings: Settings,
    spec: String,
}

impl Resolved {
    /// Its name without options.
    pub fn name(&self) -> &'static str {
        self.description.name
    }

    /// Name and options as they were asked for: what to call it in results.
    pub fn spec(&self) -> &str {
        &self.spec
    }

    /// Its part in a comparison.
    pub fn role(&self) -> Role {
        self.description.role
    }

    /// All options, given or not.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// A fresh instance. Every simulation needs its own.
    pub fn build(&self) -> Box<dyn System> {
        (self.description.build)(&self.settings)
    }
}

/// Reads `name` or `name:key=value,key=value`.
pub fn resolve(spec: &str) -> Result<Resolved, SystemError> {
    let (name, options) = match spec.split_once(':') {
        Some((name, options)) => (name, options),
        None => (spec, ""),
    };
    let description = ALL.iter().find(|description| description.name == name).ok_or_else(|| SystemError::Name {
        name: name.into(),
        near: near(name, ALL.iter().map(|description| description.name)),
    })?;
    let mut settings = Settings::defaults(description.settings);
    for text in options.split(',').filter(|text| !text.is_empty()) {
        let (option, value) =
            text.split_once('=').ok_or_else(|| SystemError::Form { system: name.into(), text: text.into() })?;
        settings.set(name, description.settings, option.trim(), value.trim())?;
    }
    Ok(Resolved { description, settings, spec: spec.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_system_is_found_by_its_name_and_has_valid_defaults() {
        for description in list() {
            let system = resolve(description.name).unwrap().build();
            assert_eq!(system.name(), description.name);
            let digits = |text: &str| text.split(|c: char| !c.is_ascii_digit()).any(|number| number.len() == 4);
            assert!(description.published.is_none_or(digits), "{}: its citation lacks the year", description.name);
            let settings = Settings::defaults(description.settings);
            for (name, value) in settings.iter() {
                let spec = format!("{}:{name}={value}", description.name);
                assert_eq!(resolve(&spec).unwrap().settings(), &settings, "{spec}");
            }
        }
    }

    /// Comparisons look for these roles and must find one system each, the base first.
    #[test]
    fn one_system_is_the_base_one_is_transparent_and_one_is_the_bound() {
        let names = |role| list().iter().filter(|d| d.role == role).map(|d| d.name).collect::<Vec<_>>();
        assert_eq!(names(Role::Base), ["base"]);
        assert_eq!(names(Role::Transparent), ["linux-thp"]);
        assert_eq!(names(Role::Bound), ["ideal"]);
        let compared: Vec<_> = list().iter().filter(|d| d.compared).collect();
        assert_eq!((compared[0].role, compared[compared.len() - 1].role), (Role::Base, Role::Bound));
        // Stock Linux and the bound frame everything that was published.
        assert!(list().iter().all(|d| d.published.is_none() || d.compared));
    }

    #[test]
    fn mistakes_are_named() {
        let message = |spec| resolve(spec).err().unwrap().to_string();
        assert_eq!(
            message("bsae"),
            "there is no system \"bsae\": did you mean \"base\"?; `reach system list` shows all"
        );
        assert!(message("base:x=1").contains("it has zero_page"));
        assert!(message("base:x").contains("key=value"));
    }
}
