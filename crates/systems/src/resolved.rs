//! A system that was chosen: one of the table with its options, or one that a program brings.

use crate::description::{Description, PAGE_TABLE, PAGING, Paging, Role};
use crate::evidence::Criterion;
use crate::settings::{Choice, Settings};
use crate::system::System;
use reach_core::PageTableKind;
use std::borrow::Cow;
use std::sync::Arc;

/// Makes instances of a system that is not in the table.
type Make = Arc<dyn Fn() -> Box<dyn System> + Send + Sync>;

/// A system with a value for each of its options.
#[derive(Clone)]
pub struct Resolved {
    name: Cow<'static, str>,
    role: Role,
    criterion: Option<Criterion>,
    settings: Settings,
    spec: String,
    build: Build,
}

/// Where instances come from.
#[derive(Clone)]
enum Build {
    Table(fn(&Settings) -> Box<dyn System>),
    Custom(Make),
}

impl Resolved {
    /// Returns the system of the table that `description` describes.
    pub(crate) fn of(description: &Description, settings: Settings, spec: &str) -> Resolved {
        Resolved {
            name: description.name.into(),
            role: description.role,
            criterion: description.criterion,
            settings,
            spec: spec.into(),
            build: Build::Table(description.build),
        }
    }

    /// Returns a system that is not in the table, of which `make` makes each instance. `settings` are the names and values by
    /// which results tell it from others of its name.
    ///
    /// ```
    /// use reach_systems::{Resolved, System, resolve};
    ///
    /// let named = Resolved::custom("mine", [("step", "4".into())], || resolve("base").unwrap().build());
    /// assert_eq!((named.name(), named.spec()), ("mine", "mine"));
    /// assert_eq!(named.settings().iter().next(), Some(("step", "4")));
    /// assert_eq!(named.build().name(), "base");
    /// ```
    pub fn custom(
        name: &str,
        settings: impl IntoIterator<Item = (&'static str, String)>,
        make: impl Fn() -> Box<dyn System> + Send + Sync + 'static,
    ) -> Resolved {
        Resolved {
            name: name.to_owned().into(),
            role: Role::Design,
            criterion: None,
            settings: settings.into_iter().collect(),
            spec: name.into(),
            build: Build::Custom(Arc::new(make)),
        }
    }

    /// Returns the system's name, without options.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns name and options as the user wrote them, which is the system's name in results.
    pub fn spec(&self) -> &str {
        &self.spec
    }

    /// Returns the values of all options, defaults included.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns the part that the system plays in a comparison.
    pub fn role(&self) -> Role {
        self.role
    }

    /// Returns how results show that the system acted. `None`: there is nothing to show.
    pub fn criterion(&self) -> Option<Criterion> {
        self.criterion
    }

    /// Returns the organization of its page tables.
    pub fn page_table(&self) -> PageTableKind {
        let value = self.settings.iter().find(|(name, _)| *name == PAGE_TABLE.name).map(|(_, value)| value);
        value.and_then(|name| name.parse().ok()).unwrap_or_default()
    }

    /// Returns who translates a guest's addresses to its host's.
    pub fn paging(&self) -> Paging {
        let value = self.settings.iter().find(|(name, _)| *name == PAGING.name).map(|(_, value)| value);
        let known = Paging::WORDS.iter().find(|(word, _)| Some(*word) == value);
        known.map_or(Paging::Nested, |&(_, paging)| paging)
    }

    /// Returns the same system on page tables of this organization, unless it brings its own or its options name one. The
    /// option becomes part of [`Resolved::spec`].
    ///
    /// ```
    /// use reach_core::PageTableKind;
    /// use reach_systems::resolve;
    ///
    /// let on_cuckoo = |spec| resolve(spec).unwrap().on_page_table(PageTableKind::Cuckoo);
    /// assert_eq!(on_cuckoo("linux-thp:defrag=always").spec(), "linux-thp:defrag=always,page_table=cuckoo");
    /// assert_eq!(on_cuckoo("base").page_table(), PageTableKind::Cuckoo);
    /// assert_eq!(on_cuckoo("yaniv-2016-hashed").page_table(), PageTableKind::Hashed);
    /// ```
    pub fn on_page_table(mut self, kind: PageTableKind) -> Resolved {
        let option = format!("{}=", PAGE_TABLE.name);
        if kind == self.page_table() || self.page_table() != PageTableKind::Radix || self.spec.contains(&option) {
            return self;
        }
        let between = if self.spec.contains(':') { ',' } else { ':' };
        self.spec += &format!("{between}{option}{}", kind.name());
        self.settings.replace(PAGE_TABLE.name, kind.name());
        self
    }

    /// Returns whether the system's kernel places shared memory so that it can have huge pages, as Linux does where a setting
    /// allows these. A captured program's addresses should then be such.
    pub fn aligns_shared_memory(&self) -> bool {
        self.settings
            .iter()
            .any(|(name, value)| matches!((name, value), ("shmem_enabled" | "tmpfs_huge", value) if value != "never"))
    }

    /// Builds an instance. Each simulation needs its own.
    pub fn build(&self) -> Box<dyn System> {
        match &self.build {
            Build::Table(build) => build(&self.settings),
            Build::Custom(make) => make(),
        }
    }
}
