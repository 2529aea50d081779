//! `zhou-2023`: code superpages on ordinary files, promoted early and padded, on FreeBSD's reservations.
//!
//! After: Zhou, Cox, Dwarkadas and Dong, "The Impact of Page Size and Microarchitecture on Instruction Address
//! Translation Overhead", ACM TACO 20(3), article 38, 2023.
//!
//! | paper | here |
//! |---|---|
//! | §2: reservations behind files, populated by clusters of 64 KB, promoted when full, mapped at once by later processes | [`freebsd`](crate::freebsd) |
//! | §5: after a hard fault with `threshold` clusters resident, the rest is read and the extent promoted | `Vm::code_fault` of `reach-os` |
//! | §5: 32 is stock FreeBSD; 1 is first touch; 33 means no code superpages (figures 4 and 5) | `threshold` |
//! | §5: code that a program writes itself is private memory, promoted when full | `Vm::code_fault`; not at 33 |
//! | §6: residual code is padded to 2 MB with the file's next bytes, then no-ops; mapped twice | `padding`; `code.rs` of `reach-os` |
//! | §7.4: the most aggressive policy for data, or none | `data` |
//! | §9, Table 6: fork copies entries of code, and exec and exit tear them down: time by their number | `process/fork.rs`, `process.rs` of `reach-os` |
//! | §9: each new process copies its whole superpages of code to private memory; children inherit them | `copy_code=on` |
//!
//! Padding also covers read-only data that precedes code in the file, since linkers put it there today; it becomes
//! executable. A program lies where the capture saw it. Libraries that are not aligned to 2 MB can be padded in place
//! only where their neighbours leave room, so §6's alignment needs aligned copies of them.
//!
//! `share_tables=on` adds the authors' earlier work: processes that map the same part of a file alike share page-table
//! pages (`translation/sharing.rs` of `reach-os`).
//!
//! Deviations: pages beyond the end of a file need no reading, and count as resident.

use crate::description::{Description, Role};
use crate::error::SystemError;
use crate::evidence::{Criterion, Evidence};
use crate::freebsd::FreeBsd;
use crate::settings::{Accepts, Setting, Settings, Unit, choice};
use crate::superpage;
use crate::system::System;
use reach_core::{Cycles, Fault, PageTableKind, Vpn};
use reach_os::{CodePages, OutOfMemory, Vm};

/// The entry of the table of systems.
pub(crate) const DESCRIPTION: Description = Description {
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
    settings: SETTINGS,
    build: |settings| Box::new(Zhou::new(settings)),
};

/// Clusters of 64 KB in a superpage of 2 MB.
const CLUSTERS: u64 = 32;

pub(crate) const SETTINGS: &[Setting] = &[
    Setting::new(
        "threshold",
        Accepts::number(1, CLUSTERS + 1, Unit::Count),
        "1",
        "clusters of 64 KB, of 32, that must be resident for the promotion of code; 33: never",
    ),
    Setting::new("padding", Accepts::Switch, "on", "whether residual code is padded to whole superpages"),
    Setting::new("libraries", Accepts::Switch, "on", "whether shared libraries get code superpages, too"),
    Setting::new("file", Accepts::File, "all", "the only files to get code superpages, by name"),
    Setting::new(
        "copy_code",
        Accepts::Switch,
        "off",
        "instead: whether each new process copies its whole superpages of code to private memory",
    )
    .formerly("copy"),
    Setting::new(
        "share_tables",
        Accepts::Switch,
        "off",
        "whether processes share page-table pages of files that they map alike",
    )
    .formerly("share"),
    Setting::new("data", Data::ACCEPTS, "full", "superpages of private memory: when full, at first touch, or none"),
    superpage::STEP,
    superpage::LOW,
];

choice! {
    /// The promotion of private memory.
    enum Data {
        /// When all pages are in use, as FreeBSD does.
        Full = "full",
        /// At the first touch.
        FirstTouch = "first-touch",
        /// Never.
        None = "none",
    }
}

/// FreeBSD with another promotion policy for code.
pub(crate) struct Zhou {
    freebsd: FreeBsd,
    code: CodePages,
    /// The only file to get code superpages. `None`: all files.
    file: Option<String>,
    data: Data,
}

impl Zhou {
    pub(crate) fn new(settings: &Settings) -> Zhou {
        let data = settings.choice("data");
        let copy = settings.is_on("copy_code");
        let threshold = settings.number("threshold");
        let percent = match data {
            Data::FirstTouch => 0,
            Data::Full | Data::None => 100,
        };
        Zhou {
            freebsd: FreeBsd::with_threshold(settings, percent),
            code: CodePages {
                threshold: (threshold <= CLUSTERS && !copy).then_some(threshold),
                padding: settings.is_on("padding"),
                libraries: settings.is_on("libraries"),
                copy,
                share: settings.is_on("share_tables"),
            },
            file: settings.file("file").map(str::to_owned),
            data,
        }
    }
}

impl System for Zhou {
    fn name(&self) -> &str {
        "zhou-2023"
    }

    fn boot(&mut self, vm: &mut Vm) -> Result<(), SystemError> {
        self.freebsd.boot(vm)?;
        if self.code.share && vm.options().layout.kind != PageTableKind::Radix {
            let what = "share_tables=on shares nodes of radix trees; leave it out, or page_table".into();
            return Err(SystemError::Options { system: self.name().into(), what });
        }
        vm.use_code_superpages(self.code, self.file.as_deref());
        Ok(())
    }

    fn fault(&mut self, fault: Fault, vm: &mut Vm) -> Result<(), OutOfMemory> {
        vm.code_fault(fault, self.data != Data::None)?;
        self.freebsd.after_fault(vm)
    }

    fn first_write(&mut self, vpn: Vpn, vm: &mut Vm) -> Result<(), OutOfMemory> {
        self.freebsd.first_write(vpn, vm)
    }

    fn tick(&mut self, now: Cycles, vm: &mut Vm) -> Result<(), OutOfMemory> {
        self.freebsd.tick(now, vm)
    }

    fn next_tick(&self) -> Option<Cycles> {
        self.freebsd.next_tick()
    }
}
