//! `fang-1999`: online promotion by copying and by remapping.
//!
//! After: Fang, Zhang, Carter, McKee and Hsieh, "Online Superpage Promotion Revisited", University of Utah UUCS-99-021,
//! 1999; the policies are those of Romer, Ohlrich, Karlin and Bershad, ISCA 1995, the remapping hardware is Impulse
//! (Swanson, Stoller and Carter, ISCA 1998).
//!
//! | section | here |
//! |---|---|
//! | 3.1 asap, approx-online, tlbcount; online | `online/` of `reach-os` |
//! | 3.1 what the handler looks at, and what it costs | `online.rs` |
//! | 3.1 copying; 3.2 remapping to shadow addresses | `relocate.rs`, `shadow.rs` of `reach-os` |
//! | 3.2 the memory controller | `controller.rs` of `reach-hardware` |
//! | 5.3 promotion by hints at allocation (Swanson et al.) | `Fang::hint` |
//! | 6 further work: several programs; superpages mapping_changes down to support demand paging | `online.rs`, `paging/` of `reach-os` |
//!
//! Readings, where the paper is silent. asap builds each level that becomes complete (`build=level`; only the largest
//! with `build=largest`). Pages are copied even where their frames happen to be one block. Only candidates whose pages
//! are all mapped, alike and used by nobody else become superpages; one that is due and cannot be built has to earn its
//! charge anew. Shadow space is given out in blocks of the largest page, so that pages which have moved there do not
//! move again when their superpage grows.
//!
//! Beyond the paper. Where memory is short, a page daemon as in BSD pages out what was not used for long, and takes the
//! superpages apart that it was part of; a remapped page gives its shadow address back. What was taken apart becomes
//! one again under asap when all of it has been touched again, under approx-online when it has been charged again. No
//! page is paged out to make room for a copy.
//!
//! `bookkeeping` is inferred: with its loads and stores it makes 320 to 460 cycles a miss for approx-online on ten levels,
//! which the break-even points of figure 2 imply. `flush` and `entry` are estimates of an instruction sequence and of an
//! uncached store. The MTLB is an estimate, too: that a read of the controller's table brings a line of 128 bytes, 16
//! entries, is inferred, for with a read for each page the microbenchmark would lose more than a TLB miss costs.

use crate::online::{self, Online, Promoter};
use crate::{Accepts, Setting, Settings, System, SystemError, superpage};
use reach_core::{Backing, ControllerOptions, Cycles, Event, Fault, Map, Role, TlbEvent, Vpn};
use reach_os::online::Policy;
use reach_os::{Mechanism, OutOfMemory, Paging, Populate, RemapCosts, Vm};

pub(crate) const SETTINGS: &[Setting] = &[
    Setting {
        name: "policy",
        summary: "when pages become one: asap, approx-online (aol), Romer's full online, by hints at allocation, never",
        accepts: Accepts::Choice(&["asap", "aol", "online", "hints", "never"]),
        default: "asap",
    },
    Setting {
        name: "mechanism",
        summary: "how: copied to a block of memory, or remapped by the memory controller",
        accepts: Accepts::Choice(&["copy", "remap"]),
        default: "remap",
    },
    online::THRESHOLD,
    Setting {
        name: "build",
        summary: "asap builds each size that is complete (level), or only the largest",
        accepts: Accepts::Choice(&["level", "largest"]),
        default: "level",
    },
    online::BOOKKEEPING,
    Setting {
        name: "flush",
        summary: "remap: cycles for each 32 bytes flushed from the caches",
        accepts: Accepts::Number { least: 0, most: 100_000 },
        default: "3",
    },
    Setting {
        name: "entry",
        summary: "remap: cycles for each entry written in the memory controller's table",
        accepts: Accepts::Number { least: 0, most: 100_000 },
        default: "30",
    },
    Setting {
        name: "mtlb",
        summary: "remap: entries of the memory controller's own two-way TLB, a power of two",
        accepts: Accepts::Number { least: 2, most: 1 << 16 },
        default: "128",
    },
    Setting {
        name: "mtlb_miss",
        summary: "remap: cycles that a shadow address waits for the controller's table in memory",
        accepts: Accepts::Number { least: 0, most: 100_000 },
        default: "60",
    },
    Setting {
        name: "mtlb_group",
        summary: "remap: entries that a read of that table brings, a power of two",
        accepts: Accepts::Number { least: 1, most: 64 },
        default: "16",
    },
    Setting {
        name: "least",
        summary: "hints: the smallest mapping that is promoted at its allocation, in KB",
        accepts: Accepts::Number { least: 0, most: 1 << 30 },
        default: "64",
    },
    Setting {
        summary: "when memory is short: a page daemon that takes superpages apart (daemon), nothing (off); as-base: off if policy=never",
        accepts: Accepts::Choice(&["as-base", "daemon", "off"]),
        default: "as-base",
        ..online::PAGING
    },
    superpage::LOW,
    online::DEMOTE,
    Setting {
        name: "zero_page",
        summary: "first loads share a page of zeroes (1) or not (0, as in BSD); as-base: 0 unless policy=never",
        accepts: Accepts::Choice(&["as-base", "0", "1"]),
        default: "as-base",
    },
];

/// Cycles that an MTLB hit adds: one of the memory bus.
const MTLB_HIT: u32 = 2;

/// Online promotion.
pub(crate) struct Fang {
    policy: Option<Policy>,
    /// Mappings from so many bytes on are promoted at their allocation.
    hints: Option<u64>,
    mechanism: Mechanism,
    bookkeeping: u64,
    costs: RemapCosts,
    mtlb: [u32; 3],
    zero_page: bool,
    paging: Option<Paging>,
    online: Online,
}

impl Fang {
    pub(crate) fn new(settings: &Settings) -> Fang {
        let name = settings.choice("policy");
        let pages_out = match settings.choice("paging") {
            "as-base" => name != "never",
            given => given == "daemon",
        };
        Fang {
            policy: online::policy(settings, settings.choice("build") == "level"),
            hints: (name == "hints").then(|| settings.number("least") << 10),
            mechanism: if settings.choice("mechanism") == "copy" { Mechanism::Copy } else { Mechanism::Remap },
            bookkeeping: settings.number("bookkeeping"),
            costs: RemapCosts { flush: settings.number("flush"), entry: settings.number("entry") },
            mtlb: ["mtlb", "mtlb_miss", "mtlb_group"].map(|name| settings.number(name) as u32),
            zero_page: match settings.choice("zero_page") {
                "as-base" => name == "never",
                given => given == "1",
            },
            paging: pages_out.then(|| online::paging(settings)),
            online: Online::default(),
        }
    }

    fn promotes(&self) -> bool {
        self.policy.is_some() || self.hints.is_some()
    }

    /// Populates what has been mapped and makes it superpages, the largest that fit.
    fn hint(&mut self, map: &Map, vm: &mut Vm) -> Result<(), OutOfMemory> {
        let base = vm.base();
        let anonymous = matches!(map.backing, Backing::Anonymous) && !map.shared && map.role != Role::Stack;
        let least = self.hints.filter(|_| anonymous && map.protection.write && !map.no_reserve);
        if least.is_none_or(|least| map.span.len < least.max(base.bytes())) {
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
            self.online = Online::new(None, self.paging.as_ref(), vm);
            return Ok(());
        }
        let largest = superpage::largest(self.name(), vm)?;
        if self.mechanism == Mechanism::Remap {
            let [entries, _, group] = self.mtlb;
            if let Some(odd) = [entries, group].into_iter().find(|number| !number.is_power_of_two()) {
                let what = format!("its MTLB works with powers of two; {odd} is none");
                return Err(SystemError::Machine { system: self.name().into(), what });
            }
            vm.use_shadow(largest, self.costs);
        }
        let promoter = self.policy.map(|policy| Promoter::new(policy, self.mechanism, self.bookkeeping, vm));
        self.online = Online::new(promoter, self.paging.as_ref(), vm);
        Ok(())
    }

    fn event(&mut self, event: &Event, vm: &mut Vm) -> Result<(), OutOfMemory> {
        if let Some(populate) = vm.apply(event)? {
            self.populate(&populate, vm)?;
        }
        self.online.applied(event, vm);
        match event {
            Event::Map(map) if self.hints.is_some() => self.hint(map, vm),
            _ => Ok(()),
        }
    }

    fn fault(&mut self, fault: Fault, vm: &mut Vm) -> Result<(), OutOfMemory> {
        self.online.fault(fault, vm)
    }

    fn sees_misses(&self) -> bool {
        self.policy.is_some()
    }

    fn handle(&mut self, events: &[TlbEvent], vm: &mut Vm) -> Result<(), OutOfMemory> {
        self.online.handle(events, vm)
    }

    fn wake(&self) -> Option<Cycles> {
        self.online.wake()
    }

    fn tick(&mut self, now: Cycles, vm: &mut Vm) -> Result<(), OutOfMemory> {
        self.online.tick(now, vm)
    }

    fn controller(&self, vm: &Vm) -> Option<ControllerOptions> {
        let [entries, miss, group] = self.mtlb;
        (self.promotes() && self.mechanism == Mechanism::Remap).then(|| ControllerOptions {
            base: vm.shadow_start(),
            entries,
            ways: 2,
            hit: MTLB_HIT,
            miss,
            group,
        })
    }
}
