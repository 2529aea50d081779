//! `fang-1999`: online promotion by copying and by remapping.
//!
//! After: Fang, Zhang, Carter, McKee and Hsieh, "Online Superpage Promotion Revisited", University of Utah UUCS-99-021,
//! 1999; the policies are those of Romer, Ohlrich, Karlin and Bershad, ISCA 1995, the remapping hardware is Impulse
//! (Swanson, Stoller and Carter, ISCA 1998).
//!
//! | section | here |
//! |---|---|
//! | 3.1 asap, approx-online, tlbcount; online | `online.rs` and `online/` of `reach-os` |
//! | 3.1 the handler's counters and their cost | `online.rs` |
//! | 3.1 copying; 3.2 remapping to shadow addresses | `promotion/relocate.rs`, `memory/shadow.rs` of `reach-os` |
//! | 3.2 the memory controller | `cache/controller.rs` of `reach-hardware` |
//! | 5.3 promotion by hints at allocation (Swanson et al.) | `Fang::promote_hinted` |
//! | 6 further work: several programs; superpages demoted for demand paging | `online.rs`, `paging/` of `reach-os` |
//!
//! Readings, where the paper is silent. asap builds each level that becomes complete (`build=level`), or only the
//! largest (`build=largest`). Pages are copied even where their frames already form one block. A candidate becomes a
//! superpage only if all its pages are mapped, have equal rights and belong to one process; a candidate that is due and
//! cannot be built starts from zero charge again. Shadow space is allocated in blocks of the largest page, so that
//! pages that have moved there do not move again when their superpage grows.
//!
//! Beyond the paper. When memory is short, a page daemon as in BSD evicts pages that were not used for long, and demotes
//! the superpages that they belong to; a remapped page releases its shadow address. Demoted pages are promoted again
//! under asap when all have been referenced again, under approx-online when they have been charged again. No page is
//! evicted to make room for a copy.
//!
//! `bookkeeping` is inferred: with its loads and stores it makes 320 to 460 cycles a miss for approx-online on ten
//! levels, which the break-even points of figure 2 imply. `flush` and `entry_write` are estimates of an instruction
//! sequence and of an uncached store. The MTLB is an estimate, too. That a read of the controller's table brings a line
//! of 128 bytes, 16 entries, is inferred: with one read a page the microbenchmark would lose more than a TLB miss costs.

use crate::description::{self, Description};
use crate::error::SystemError;
use crate::evidence::{Criterion, Evidence};
use crate::online::{self, OnlinePromotion, Promoter};
use crate::settings::{Accepts, Setting, Settings, Unit, choice};
use crate::superpage;
use crate::system::System;
use reach_core::{Backing, Bytes, ControllerOptions, Cycles, Event, Fault, Map, PageTableKind, Role, TlbEvent, Vpn};
use reach_os::online::Policy;
use reach_os::{Mechanism, OutOfMemory, Paging, Populate, RemapCosts, Vm};

/// The entry of the table of systems.
pub(crate) const DESCRIPTION: Description = Description {
    name: "fang-1999",
    summary: "online promotion in the TLB miss handler, by copying or by remapping",
    role: description::Role::Design,
    compared: true,
    published: Some(
        "Fang, Zhang, Carter, McKee and Hsieh: Online Superpage Promotion Revisited, University of Utah \
         UUCS-99-021, 1999",
    ),
    criterion: Criterion::new(Evidence::Superpages, "never promoted: no superpage's misses reached the threshold"),
    page_table: PageTableKind::Radix,
    settings: SETTINGS,
    build: |settings| Box::new(Fang::new(settings)),
};

pub(crate) const SETTINGS: &[Setting] = &[
    Setting::new(
        "policy",
        FangPolicy::ACCEPTS,
        "asap",
        "the promotion policy: asap, approx-online (aol), Romer's full online, hints at allocation, never",
    ),
    Setting::new(
        "mechanism",
        FangMechanism::ACCEPTS,
        "remap",
        "how: copied to a block of memory, or remapped by the memory controller",
    ),
    online::THRESHOLD,
    Setting::new(
        "build",
        Build::ACCEPTS,
        "level",
        "asap builds each size that is complete (level), or only the largest",
    ),
    online::BOOKKEEPING,
    Setting::new(
        "flush",
        Accepts::number(0, 100_000, Unit::Cycles),
        "3",
        "remap: cycles for each 32 bytes flushed from the caches",
    ),
    Setting::new(
        "entry_write",
        Accepts::number(0, 100_000, Unit::Cycles),
        "30",
        "remap: cycles for each entry written to the memory controller's table",
    )
    .formerly("entry"),
    Setting::new(
        "mtlb",
        Accepts::number(2, 1 << 16, Unit::Count),
        "128",
        "remap: entries of the memory controller's own two-way TLB, a power of two",
    ),
    Setting::new(
        "mtlb_miss",
        Accepts::number(0, 100_000, Unit::Cycles),
        "60",
        "remap: cycles that a shadow address waits for the controller's table in memory",
    ),
    Setting::new(
        "mtlb_fill",
        Accepts::number(1, 64, Unit::Count),
        "16",
        "remap: entries that one read of that table brings into the MTLB, a power of two",
    )
    .formerly("mtlb_group"),
    Setting::new(
        "min_mapping",
        Accepts::number(0, 1 << 30, Unit::Kilobytes),
        "64",
        "hints: the smallest mapping that is promoted at its allocation",
    )
    .formerly("least"),
    Setting {
        accepts: FangPaging::ACCEPTS,
        summary: "when memory is short: a page daemon that demotes superpages (daemon), nothing (off); as-base: off if \
                  policy=never",
        default: "as-base",
        ..online::PAGING
    },
    superpage::LOW,
    online::DEMOTE,
    Setting::new(
        "zero_page",
        ZeroPage::ACCEPTS,
        "as-base",
        "whether first loads share a page of zeroes (off, as in BSD); as-base: on if policy=never, else off",
    ),
];

choice! {
    /// The promotion policy.
    enum FangPolicy {
        /// A superpage as soon as all its pages have been referenced.
        Asap = "asap",
        /// Approx-online: misses are charged to candidates that hold a page in the TLB.
        ApproxOnline = "aol",
        /// The full online policy.
        Online = "online",
        /// Promotion at allocation, of mappings of at least `min_mapping`.
        Hints = "hints",
        /// Base pages only.
        Never = "never",
    }
}

choice! {
    /// The promotion mechanism.
    enum FangMechanism {
        /// Pages are copied into a contiguous block.
        Copy = "copy",
        /// The memory controller maps contiguous shadow addresses to the pages.
        Remap = "remap",
    }
}

choice! {
    /// The sizes that asap builds.
    enum Build {
        /// Each size as it becomes complete.
        Level = "level",
        /// Only the largest complete size.
        Largest = "largest",
    }
}

choice! {
    /// The response to memory pressure.
    enum FangPaging {
        /// `off` where the policy is `never`, else `daemon`.
        AsBase = "as-base",
        /// A page daemon that demotes superpages.
        Daemon = "daemon",
        /// None.
        Off = "off",
    }
}

choice! {
    /// Whether first loads from untouched memory share a page of zeroes.
    enum ZeroPage {
        /// `on` where the policy is `never`, else `off`.
        AsBase = "as-base",
        /// They do.
        On = "on",
        /// They get a page of their own, as in BSD.
        Off = "off",
    }
}

/// Cycles that an MTLB hit adds: one of the memory bus.
const MTLB_HIT: u32 = 2;

/// The memory controller's TLB.
struct Mtlb {
    entries: u32,
    /// Cycles of a miss.
    miss: u32,
    /// Entries that a miss brings.
    fill: u32,
}

/// Online promotion.
pub(crate) struct Fang {
    /// The policy in the miss handler. `None`: hints or never.
    policy: Option<Policy>,
    /// The smallest mapping that is promoted at its allocation. `None`: hints are off.
    hints: Option<Bytes>,
    mechanism: Mechanism,
    bookkeeping: u64,
    costs: RemapCosts,
    mtlb: Mtlb,
    zero_page: bool,
    paging: Option<Paging>,
    online: OnlinePromotion,
}

impl Fang {
    pub(crate) fn new(settings: &Settings) -> Fang {
        let every_level = settings.choice::<Build>("build") == Build::Level;
        let name: FangPolicy = settings.choice("policy");
        let promotes = name != FangPolicy::Never;
        let pages_out = match settings.choice("paging") {
            FangPaging::AsBase => promotes,
            FangPaging::Daemon => true,
            FangPaging::Off => false,
        };
        Fang {
            policy: match name {
                FangPolicy::Asap => Some(Policy::Asap { every_level }),
                FangPolicy::ApproxOnline => Some(online::approx_online(settings)),
                FangPolicy::Online => Some(online::full_online(settings)),
                FangPolicy::Hints | FangPolicy::Never => None,
            },
            hints: (name == FangPolicy::Hints).then(|| settings.kilobytes("min_mapping")),
            mechanism: match settings.choice("mechanism") {
                FangMechanism::Copy => Mechanism::Copy,
                FangMechanism::Remap => Mechanism::Remap,
            },
            bookkeeping: settings.number(online::BOOKKEEPING.name),
            costs: RemapCosts { flush: settings.number("flush"), entry: settings.number("entry_write") },
            mtlb: Mtlb {
                entries: settings.number32("mtlb"),
                miss: settings.number32("mtlb_miss"),
                fill: settings.number32("mtlb_fill"),
            },
            zero_page: match settings.choice("zero_page") {
                ZeroPage::AsBase => !promotes,
                ZeroPage::On => true,
                ZeroPage::Off => false,
            },
            paging: pages_out.then(|| online::paging(settings)),
            online: OnlinePromotion::default(),
        }
    }

    fn promotes(&self) -> bool {
        self.policy.is_some() || self.hints.is_some()
    }

    /// Populates a new mapping and promotes it to the largest superpages that fit, if hints ask for it (5.3).
    fn promote_hinted(&mut self, map: &Map, vm: &mut Vm) -> Result<(), OutOfMemory> {
        let base = vm.base();
        let anonymous = matches!(map.backing, Backing::Anonymous) && !map.shared && map.role != Role::Stack;
        let min = self.hints.filter(|_| anonymous && map.protection.write && !map.no_reserve);
        if min.is_none_or(|Bytes(min)| map.span.len < min.max(base.bytes())) {
            return Ok(());
        }
        let (mut at, end) = (map.span.start.0.div_ceil(base.bytes()), map.span.end().0 >> base.0);
        self.populate(&Populate { pages: at..end, write: true }, vm)?;
        let asid = vm.current();
        while at < end {
            let sizes = vm.options().sizes.clone();
            let fits = |pages: u64| at.is_multiple_of(pages) && at + pages <= end;
            let mut next = at + 1;
            for &size in sizes[1..].iter().rev().filter(|size| fits(size.base_pages(base))) {
                if vm.build_superpage(asid, Vpn(at), size, self.mechanism)?.is_ok() {
                    next = at + size.base_pages(base);
                    break;
                }
            }
            at = next;
        }
        Ok(())
    }
}

impl System for Fang {
    fn name(&self) -> &str {
        "fang-1999"
    }

    fn boot(&mut self, vm: &mut Vm) -> Result<(), SystemError> {
        vm.share_zeroes(self.zero_page);
        if !self.promotes() {
            self.online = OnlinePromotion::new(None, self.paging.as_ref(), vm);
            return Ok(());
        }
        let largest = superpage::largest(self.name(), vm)?;
        if self.mechanism == Mechanism::Remap {
            for (option, value) in [("mtlb", self.mtlb.entries), ("mtlb_fill", self.mtlb.fill)] {
                if !value.is_power_of_two() {
                    let what = format!("{option}={value}: expected a power of two");
                    return Err(SystemError::Options { system: self.name().into(), what });
                }
            }
            vm.use_shadow(largest, self.costs);
        }
        let promoter = self.policy.map(|policy| Promoter::new(policy, self.mechanism, self.bookkeeping, vm));
        self.online = OnlinePromotion::new(promoter, self.paging.as_ref(), vm);
        Ok(())
    }

    fn event(&mut self, event: &Event, vm: &mut Vm) -> Result<(), OutOfMemory> {
        if let Some(populate) = vm.apply(event)? {
            self.populate(&populate, vm)?;
        }
        self.online.applied(event, vm);
        match event {
            Event::Map(map) if self.hints.is_some() => self.promote_hinted(map, vm),
            _ => Ok(()),
        }
    }

    fn fault(&mut self, fault: Fault, vm: &mut Vm) -> Result<(), OutOfMemory> {
        self.online.fault(fault, vm)
    }

    fn handle(&mut self, events: &[TlbEvent], vm: &mut Vm) -> Result<(), OutOfMemory> {
        self.online.handle(events, vm)
    }

    fn tick(&mut self, now: Cycles, vm: &mut Vm) -> Result<(), OutOfMemory> {
        self.online.tick(now, vm)
    }

    fn next_tick(&self) -> Option<Cycles> {
        self.online.next_tick()
    }

    fn handles_misses(&self) -> bool {
        self.policy.is_some()
    }

    fn controller(&self, vm: &Vm) -> Option<ControllerOptions> {
        (self.promotes() && self.mechanism == Mechanism::Remap).then(|| ControllerOptions {
            base: vm.shadow_start(),
            entries: self.mtlb.entries,
            ways: 2,
            hit: MTLB_HIT,
            miss: self.mtlb.miss,
            group: self.mtlb.fill,
        })
    }
}
