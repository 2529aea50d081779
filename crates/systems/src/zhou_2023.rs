//! `zhou-2023`: code superpages on ordinary files, made early and padded, on FreeBSD's reservations.
//!
//! After: Zhou, Cox, Dwarkadas and Dong, "The Impact of Page Size and Microarchitecture on Instruction Address
//! Translation Overhead", ACM TACO 20(3), article 38, 2023.
//!
//! | paper | here |
//! |---|---|
//! | §2: reservations behind files, populated by clusters of 64 KB, promoted when full, mapped at once by processes that come later | [`freebsd`](crate::freebsd) |
//! | §5: after a hard fault, `threshold` clusters resident: the rest is read, the extent promoted | `Vm::code_fault` of `reach-os` |
//! | §5: 32 is stock FreeBSD; 1 is first touch; 33 stands for no code superpages (figures 4 and 5) | `threshold` |
//! | §5: code that a program writes itself is private memory, promoted when full | `Vm::code_fault`; not at 33 |
//! | §6: residual code reaches to the next 2 MB, with what follows in the file, then no-ops; mapped twice | `padding`, `code.rs` |
//! | §7.4: the most aggressive policy for data, or none | `data` |
//! | §9, Table 6: fork copies entries of code, too, and exec and exit tear them down: time by their number | `Vm::fork`, `discard` |
//! | §9: each new process copies its whole superpages of code to private memory; children inherit them | `copy=on` |
//!
//! Padding takes in read-only data of the file before code as well, since linkers put it there today; it can be executed
//! then. Where a program lies is what the capture saw: libraries that are not aligned to 2 MB can be padded in place only
//! where their neighbours leave room, so that §6's alignment is had by aligned copies of them.
//!
//! The authors' earlier work, page-table pages that processes share where they map the same part of a file alike, is
//! `share=on` (`sharing.rs` of `reach-os`).
//!
//! Deviations: what is beyond the end of a file needs no reading, and counts as resident.

use crate::freebsd::FreeBsd;
use crate::{Accepts, Setting, Settings, System, SystemError, superpage};
use reach_core::{Cycles, Fault, Vpn};
use reach_os::{CodePages, OutOfMemory, Vm};

pub(crate) const SETTINGS: &[Setting] = &[
    Setting {
        name: "threshold",
        summary: "clusters of 64 KB, of 32, that must be in memory for code to become a superpage; 33: never",
        accepts: Accepts::Number { least: 1, most: 33 },
        default: "1",
    },
    Setting {
        name: "padding",
        summary: "residual code becomes whole superpages",
        accepts: Accepts::Choice(&["on", "off"]),
        default: "on",
    },
    Setting {
        name: "libraries",
        summary: "code superpages for shared libraries, too",
        accepts: Accepts::Choice(&["on", "off"]),
        default: "on",
    },
    Setting {
        name: "file",
        summary: "code superpages for files of this name only",
        accepts: Accepts::File,
        default: "all",
    },
    Setting {
        name: "copy",
        summary: "instead: copy whole superpages of code to private memory in each new process",
        accepts: Accepts::Choice(&["off", "on"]),
        default: "off",
    },
    Setting {
        name: "share",
        summary: "processes share the page-table pages of what they map alike from files",
        accepts: Accepts::Choice(&["off", "on"]),
        default: "off",
    },
    Setting {
        name: "data",
        summary: "superpages of private memory: when full, at first touch, or none",
        accepts: Accepts::Choice(&["full", "first-touch", "none"]),
        default: "full",
    },
    superpage::STEP,
    superpage::LOW,
];

/// FreeBSD, with another rule for code.
pub(crate) struct Zhou {
    freebsd: FreeBsd,
    code: CodePages,
    /// Whose code, where it is not all.
    file: Option<String>,
    data: bool,
}

impl Zhou {
    pub(crate) fn new(settings: &Settings) -> Zhou {
        let on = |name| settings.choice(name) == "on";
        let data = settings.choice("data");
        Zhou {
            freebsd: FreeBsd::with_threshold(settings, if data == "first-touch" { 0 } else { 100 }),
            code: CodePages {
                threshold: Some(settings.number("threshold")).filter(|&threshold| threshold <= 32 && !on("copy")),
                padding: on("padding"),
                libraries: on("libraries"),
                copy: on("copy"),
                share: on("share"),
            },
            file: settings.file("file").map(str::to_owned),
            data: data != "none",
        }
    }
}

impl System for Zhou {
    fn name(&self) -> &str {
        "zhou-2023"
    }

    fn boot(&mut self, vm: &mut Vm) -> Result<(), SystemError> {
        self.freebsd.boot(vm)?;
        vm.use_code_superpages(self.code);
        if let Some(name) = &self.file {
            vm.use_code_superpages_of(name);
        }
        Ok(())
    }

    fn fault(&mut self, fault: Fault, vm: &mut Vm) -> Result<(), OutOfMemory> {
        vm.code_fault(fault, self.data)?;
        self.freebsd.after_fault(vm)
    }

    fn wake(&self) -> Option<Cycles> {
        self.freebsd.wake()
    }

    fn tick(&mut self, now: Cycles, vm: &mut Vm) -> Result<(), OutOfMemory> {
        self.freebsd.tick(now, vm)
    }

    fn first_write(&mut self, vpn: Vpn, vm: &mut Vm) -> Result<(), OutOfMemory> {
        self.freebsd.first_write(vpn, vm)
    }
}
