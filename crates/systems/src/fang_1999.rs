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
//!
//! Readings, where the paper is silent. asap builds each level that becomes complete (`build=level`; only the largest
//! with `build=largest`). Pages are copied even where their frames happen to be one block. Only candidates whose pages
//! are all mapped, alike and used by nobody else become superpages; one that is due and cannot be built has to earn its
//! charge anew. Shadow space is given out in blocks of the largest page, so that pages which have moved there do not
//! move again when their superpage grows.
//!
//! `bookkeeping` is inferred: with its loads and stores it makes 320 to 460 cycles a miss for approx-online on ten levels,
//! which the break-even points of figure 2 imply. `flush` and `entry` are estimates of an instruction sequence and of an
//! uncached store. The MTLB is an estimate, too: that a read of the controller's table brings a line of 128 bytes, 16
//! entries, is inferred, for with a read for each page the microbenchmark would lose more than a TLB miss costs.

use crate::online::Promoter;
use crate::{Accepts, Setting, Settings, System, SystemError, superpage};
use reach_core::{Backing, ControllerOptions, Event, Fault, Map, Role, TlbEvent, Vpn};
use reach_os::online::Policy;
use reach_os::{Mechanism, OutOfMemory, Populate, RemapCosts, Vm};

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
    Setting {
        name: "threshold",
        summary: "misses that are charged to two base pages before they become one (aol, online); doubled with each size",
        accepts: Accepts::Number { least: 1, most: 1 << 20 },
        default: "16",
    },
    Setting {
        name: "build",
        summary: "asap builds each size that is complete (level), or only the largest",
        accepts: Accepts::Choice(&["level", "largest"]),
        default: "level",
    },
    Setting {
        name: "bookkeeping",
        summary: "cycles for each candidate's counters that the handler looks at, besides its loads and stores",
        accepts: Accepts::Number { least: 0, most: 100_000 },
        default: "20",
    },
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
    promoter: Option<Promoter>,
}

impl Fang {
    pub(crate) fn new(settings: &Settings) -> Fang {
        let threshold = settings.number("threshold") as u32;
        let name = settings.choice("policy");
        let policy = match name {
            "asap" => Some(Policy::Asap { every_level: settings.choice("build") == "level" }),
            "aol" => Some(Policy::ApproxOnline { threshold }),
            "online" => Some(Policy::Online { threshold }),
            _ => None,
        };
        Fang {
            policy,
            hints: (name == "hints").then(|| settings.number("least") << 10),
            mechanism: if settings.choice("mechanism") == "copy" { Mechanism::Copy } else { Mechanism::Remap },
            bookkeeping: settings.number("bookkeeping"),
            costs: RemapCosts { flush: settings.number("flush"), entry: settings.number("entry") },
            mtlb: ["mtlb", "mtlb_miss", "mtlb_group"].map(|name| settings.number(name) as u32),
            zero_page: match settings.choice("zero_page") {
                "as-base" => name == "never",
                given => given == "1",
            },
            promoter: None,
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
        self.promoter = self.policy.map(|policy| Promoter::new(policy, self.mechanism, self.bookkeeping, vm));
        Ok(())
    }

    fn event(&mut self, event: &Event, vm: &mut Vm) -> Result<(), OutOfMemory> {
        let asid = vm.current();
        if let Some(populate) = vm.apply(event)? {
            self.populate(&populate, vm)?;
        }
        if let Some(promoter) = &mut self.promoter {
            promoter.note(event, asid, vm);
        }
        match event {
            Event::Map(map) if self.hints.is_some() => self.hint(map, vm),
            _ => Ok(()),
        }
    }

    fn fault(&mut self, fault: Fault, vm: &mut Vm) -> Result<(), OutOfMemory> {
        vm.demand_fault(fault)
    }

    fn sees_misses(&self) -> bool {
        self.policy.is_some()
    }

    fn handle(&mut self, events: &[TlbEvent], vm: &mut Vm) -> Result<(), OutOfMemory> {
        match &mut self.promoter {
            Some(promoter) => promoter.handle(events, vm),
            None => Ok(()),
        }
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
