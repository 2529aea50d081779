//! What the table of systems says of each.

use crate::evidence::Criterion;
use crate::settings::{Accepts, Setting, Settings, choice};
use crate::system::System;
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
    /// The options that it takes besides [`PAGE_TABLE`] and [`PAGING`].
    pub settings: &'static [Setting],
    pub(crate) build: fn(&Settings) -> Box<dyn System>,
}

/// An option that every system takes; its default is [`Description::page_table`].
pub const PAGE_TABLE: Setting = Setting::new(
    "page_table",
    Accepts::Choice(&PageTableKind::NAMES),
    PageTableKind::Radix.name(),
    "the organization of page tables; all but radix need a machine whose hardware walks",
);

choice! {
    /// Who translates the addresses of a guest to those of its host.
    pub enum Paging {
        /// The processor, at each walk.
        Nested = "nested",
        /// A virtual machine monitor, in shadow page tables.
        Shadow = "shadow",
        /// A monitor where the guest's page table seldom changes, the processor elsewhere (Gandhi et al. 2016).
        Agile = "agile",
        /// Nobody: the same machine without a guest, to compare with.
        Native = "native",
    }
}

/// The other option that every system takes.
pub const PAGING: Setting = Setting::new(
    "guest_paging",
    Paging::ACCEPTS,
    "nested",
    "in a guest, who translates its addresses to the host's: the processor (nested), a monitor (shadow) or both (agile); \
     native is the machine without a guest",
);

impl Description {
    /// Returns all options, [`PAGE_TABLE`] and [`PAGING`] last.
    pub fn options(&self) -> Vec<Setting> {
        let page_table = Setting { default: self.page_table.name(), ..PAGE_TABLE };
        self.settings.iter().copied().chain([page_table, PAGING]).collect()
    }
}
