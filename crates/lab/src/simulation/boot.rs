//! Booting: makes the parts of a simulation and refuses what does not fit together.

use super::accounts::Accounts;
use super::error::Names;
use super::guests::{self, Guests};
use super::hardware::Hardware;
use super::host::Host;
use super::kernel::{Kernel, NO_GUEST};
use super::over_time::OverTime;
use super::passages::Passages;
use super::rounds::Rounds;
use super::stops::Stops;
use super::{Simulation, SimulationError};
use crate::conditions::{Conditions, Placement, Timing};
use crate::machine;
use reach_core::{AuxTlbOptions, ClusterFrames, PageTableKind, ReplacementOptions, WalkAssist};
use reach_hardware::config::{Machine, OooCore, Replacement, Serves, Tlb, Walker};
use reach_hardware::ooo::Code;
use reach_hardware::{BackSide, Controller, MOST_GUESTS, Processor, Topology};
use reach_systems::Paging;

impl Simulation {
    /// Returns whether `system` needs a TLB miss handler and hardware fills the TLB of `machine`.
    pub fn lacks_handler(machine: &machine::Resolved, system: &reach_systems::Resolved) -> bool {
        matches!(machine.hardware.walker, Walker::Hardware { .. }) && system.build().handles_misses()
    }

    /// Boots `system` on `machine`.
    ///
    /// # Errors
    /// When machine, system and conditions do not fit together: [`SimulationError::Placement`] and [`SimulationError::Boot`]
    /// say why and what to do.
    pub fn new(
        machine: &machine::Resolved,
        system: &reach_systems::Resolved,
        conditions: &Conditions,
    ) -> Result<Simulation, SimulationError> {
        let names = Names::new(machine, system);
        let refuse = |what: String| names.refusal(what);
        let machine = &with_page_table(machine, system.page_table()).map_err(refuse)?;
        let machine = &with_paging(machine, system.paging()).map_err(refuse)?;
        let ooo = ooo_core(machine, conditions.timing).map_err(refuse)?;
        machine.check_placement(&conditions.placement).map_err(SimulationError::Placement)?;
        let shape = shape(machine, &conditions.placement);
        let kernel = Kernel::boot(machine, system, conditions).map_err(refuse)?;
        check(machine, system, &kernel, &shape, conditions).map_err(refuse)?;
        let machine = &with_replacement(machine, kernel.system.replacement()).map_err(refuse)?;
        let spec = conditions.host.as_deref().filter(|_| system.paging() != Paging::Native);
        let spec = spec.map(|spec| if spec == "same" { system.spec() } else { spec });
        let host = spec.map(|spec| host(machine, spec, &shape, conditions)).transpose().map_err(refuse)?;
        let guests = several_guests(machine, system, &kernel, conditions).map_err(refuse)?;
        let hardware = hardware(machine, &shape, ooo, conditions, &kernel);
        let passages =
            conditions.kernel.then(|| Passages::new(machine, conditions.memory)).transpose().map_err(refuse)?;
        Ok(Simulation {
            names,
            role: system.role(),
            criterion: system.criterion(),
            hardware,
            kernel,
            host,
            guests,
            accounts: Accounts::new(shape.hardware_threads()),
            rounds: Rounds::on(shape.hardware_threads()),
            stops: Stops::default(),
            over_time: OverTime::default(),
            passages: passages.map(Box::new),
            sampling: None,
            attributor: None,
            observed: None,
            checks_laws: false,
        })
    }
}

/// Returns `machine` with page tables of this organization.
fn with_page_table(machine: &machine::Resolved, kind: PageTableKind) -> Result<machine::Resolved, String> {
    if kind != PageTableKind::Radix && matches!(machine.hardware.walker, Walker::Software { .. }) {
        let kind = kind.name();
        return Err(format!(
            "its page table is {kind}, and software fills the TLB of this machine; use a machine whose hardware walks, or \
             page_table=radix"
        ));
    }
    let mut machine = machine.clone();
    machine.hardware.layout.kind = kind;
    Ok(machine)
}

/// Returns `machine` with the guest's programs outside it, if that is the paging.
fn with_paging(machine: &machine::Resolved, paging: Paging) -> Result<machine::Resolved, String> {
    let mut machine = machine.clone();
    if paging == Paging::Native && machine.hardware.nested.take().is_none() {
        return Err(NO_GUEST.into());
    }
    Ok(machine)
}

/// Returns `machine` with the replacement policies that the system has in place of the machine's.
fn with_replacement(
    machine: &machine::Resolved,
    options: Option<ReplacementOptions>,
) -> Result<machine::Resolved, String> {
    let mut machine = machine.clone();
    let Some(ReplacementOptions { instructions, page_tables, reuse }) = options else { return Ok(machine) };
    let hardware = &mut machine.hardware;
    if instructions {
        replace_in_last_level(hardware, Replacement::InstructionAware, "itp=off, or ")?;
    }
    if let Some(signature) = reuse {
        replace_in_last_level(hardware, Replacement::ReusePrediction(signature), "")?;
    }
    if page_tables {
        let Some(cache) = hardware.caches.iter_mut().find(|cache| cache.level == 2 && cache.data) else {
            return Err("this machine has no second-level data cache; use xptp=off, or a machine with one".into());
        };
        cache.replacement = Replacement::PageTableAware;
    }
    Ok(machine)
}

/// Gives the last level of TLBs this policy. `instead` is what a machine with one level takes, for the error.
fn replace_in_last_level(hardware: &mut Machine, policy: Replacement, instead: &str) -> Result<(), String> {
    let last = hardware.tlbs.iter().map(|tlb| tlb.level).max().filter(|&level| level >= 2);
    let Some(last) = last else {
        return Err(format!("the TLB of this machine has one level; use {instead}a machine with two"));
    };
    for tlb in hardware.tlbs.iter_mut().filter(|tlb| tlb.level == last) {
        tlb.replacement = policy;
    }
    Ok(())
}

/// Returns the out-of-order core and its number of page walkers, if the timing needs one.
fn ooo_core(machine: &machine::Resolved, timing: Timing) -> Result<Option<(OooCore, u32)>, String> {
    if timing != Timing::Ooo {
        return Ok(None);
    }
    let Some(ooo) = &machine.ooo else {
        return Err(
            "its machine file has no [ooo] table, so it has no out-of-order core; use --timing inorder, or add \
                    the table (docs/machines.md)"
                .into(),
        );
    };
    let walkers = match machine.hardware.walker {
        Walker::Hardware { walkers, .. } => walkers,
        Walker::Software { .. } => 1,
    };
    Ok(Some((ooo.core, walkers)))
}

/// Returns the hardware threads of `placement`, which `machine` has.
fn shape(machine: &machine::Resolved, placement: &Placement) -> Topology {
    let smt = machine.ooo.as_ref().map(|ooo| &ooo.smt);
    let sharing = |tlb: &Tlb| {
        let sharing = smt.and_then(|smt| smt.get(&tlb.name)).copied();
        sharing.expect("a machine with several hardware threads says how they divide each array")
    };
    let sharing = if placement.threads > 1 { machine.hardware.tlbs.iter().map(sharing).collect() } else { Vec::new() };
    Topology { cores: placement.cores as usize, threads: placement.threads as usize, sharing }
}

/// Refuses systems that need other hardware than `machine` has.
fn check(
    machine: &machine::Resolved,
    system: &reach_systems::Resolved,
    kernel: &Kernel,
    shape: &Topology,
    conditions: &Conditions,
) -> Result<(), String> {
    let (kernel_code, cached) = (conditions.kernel, conditions.timing.has_caches());
    if kernel.system.handles_misses() {
        if Simulation::lacks_handler(machine, system) {
            return Err("its policy runs in the TLB miss handler, and hardware fills this TLB; use a machine with a \
                        software-managed TLB, such as paint-parisc or alpha-21264"
                .into());
        }
        if shape.hardware_threads() > 1 {
            return Err("its policy tracks the contents of one TLB; use one core with one hardware thread".into());
        }
    }
    if machine.hardware.nested.is_some()
        && let Some(options) = kernel.system.aux_tlb(&kernel.vm)
    {
        check_aux_in_guest(options, kernel)?;
    }
    if let Some(assist) = kernel.system.walk_assist(&kernel.vm) {
        check_assist(machine, &*assist, cached)?;
    }
    if kernel.vm.options().monitor.is_some() {
        check_shadowed(machine, kernel)?;
    }
    if let Some(AuxTlbOptions::Ranges(options)) = kernel.system.aux_tlb(&kernel.vm)
        && options.sweep_entries > 0
    {
        let cannot = "sweep cannot count range TLBs of other sizes exactly, because";
        if let Some(why) = reach_hardware::cannot_sweep(&machine.hardware) {
            return Err(format!("{cannot} {why}; use another machine"));
        }
        if kernel_code {
            return Err(format!("{cannot} misses decide when the timer interrupts; leave out --kernel"));
        }
    }
    if kernel_code && shape.hardware_threads() > 1 {
        return Err(
            "the kernel's own code is simulated on one hardware thread only; leave out --kernel, or --cores and --smt"
                .into(),
        );
    }
    if kernel_code && kernel.system.handles_misses() {
        return Err(
            "its policy tracks the contents of the TLB, which the kernel's own code would change; leave out --kernel"
                .into(),
        );
    }
    Ok(())
}

/// Boots the host that `spec` names, where its table can be walked.
fn host(
    machine: &machine::Resolved,
    spec: &str,
    shape: &Topology,
    conditions: &Conditions,
) -> Result<Box<Host>, String> {
    let Some(nested) = &machine.hardware.nested else {
        return Err("--host is for a guest, and this machine is none; add nested.host_page with its base page to the machine, as \
                    in skylake-sp:nested.host_page=4K"
            .into());
    };
    if nested.host_page != machine.hardware.sizes[0] {
        return Err(
            "the host's operating system chooses the sizes of its pages; set nested.host_page to the base page".into(),
        );
    }
    if machine.hardware.layout.kind != PageTableKind::Radix {
        return Err(
            "a host with an operating system has radix page tables, as its guest must; leave out the page table".into(),
        );
    }
    if shape.hardware_threads() > 1 {
        return Err(
            "a host with an operating system is simulated on one hardware thread only; leave out --cores and --smt"
                .into(),
        );
    }
    Host::boot(machine, spec, conditions).map(Box::new)
}

/// Boots the guests beside the first, whose `kernel` has booted. `None` without others, and outside guests.
fn several_guests(
    machine: &machine::Resolved,
    system: &reach_systems::Resolved,
    kernel: &Kernel,
    conditions: &Conditions,
) -> Result<Option<Box<Guests>>, String> {
    if conditions.guests <= 1 {
        return Ok(None);
    }
    if conditions.guests > MOST_GUESTS {
        return Err(format!("--guests {}: expected at most {MOST_GUESTS}", conditions.guests));
    }
    if conditions.host.is_none() {
        return Err("several guests share a host with an operating system; give --host".into());
    }
    if conditions.kernel {
        return Err("the kernel's own code is simulated for one guest only; leave out --kernel, or --guests".into());
    }
    // All programs of a machine that is no guest run on it.
    if system.paging() == Paging::Native {
        return Ok(None);
    }
    guests::check(kernel)?;
    Guests::boot(machine, system, conditions).map(Box::new).map(Some)
}

/// Refuses an auxiliary TLB whose entries a guest alone cannot make, or that no shadow table has.
fn check_aux_in_guest(options: AuxTlbOptions, kernel: &Kernel) -> Result<(), String> {
    let outside = "use a machine without nested.host_page";
    if kernel.vm.options().monitor.is_some() {
        return Err(format!(
            "its auxiliary TLB is not modelled where a monitor shadows page tables; use guest_paging=nested, or {outside}"
        ));
    }
    match options {
        AuxTlbOptions::Segments => Err(format!("its segments are not modelled in a guest; {outside}")),
        AuxTlbOptions::Clusters(clusters) if clusters.frames == ClusterFrames::Anywhere => {
            Err(format!("its entries name frames by hashes, which no host keeps; {outside}"))
        }
        _ => Ok(()),
    }
}

/// Refuses a walk assist where nothing walks in hardware, or where what it uses is not modelled.
fn check_assist(machine: &machine::Resolved, assist: &dyn WalkAssist, cached: bool) -> Result<(), String> {
    if matches!(machine.hardware.walker, Walker::Software { .. }) {
        return Err(
            "its hardware assists the page walker, and software fills the TLB of this machine; use a machine whose \
                    hardware walks"
                .into(),
        );
    }
    if assist.needs_caches() && !cached {
        return Err(
            "it keeps TLB entries in the data caches, which this timing does not model; use --timing ooo or inorder"
                .into(),
        );
    }
    Ok(())
}

/// Refuses what is not modelled where a monitor shadows the guest's page tables.
fn check_shadowed(machine: &machine::Resolved, kernel: &Kernel) -> Result<(), String> {
    if machine.hardware.layout.kind != PageTableKind::Radix {
        return Err("a monitor shadows radix page tables only; use page_table=radix, or guest_paging=nested".into());
    }
    if kernel.system.walk_assist(&kernel.vm).is_some() {
        return Err(
            "its hardware assists the page walker, which is not modelled where a monitor shadows page tables; use \
                    guest_paging=nested"
                .into(),
        );
    }
    Ok(())
}

/// Makes the processor and attaches what the system needs.
fn hardware(
    machine: &machine::Resolved,
    shape: &Topology,
    ooo: Option<(OooCore, u32)>,
    conditions: &Conditions,
    kernel: &Kernel,
) -> Hardware {
    let (system, hardware) = (&kernel.system, &machine.hardware);
    let cached = conditions.timing.has_caches();
    let mut processor = Processor::new(hardware, shape, cached, system.perfect_tlb(), conditions.seed);
    if system.handles_misses() {
        processor.mmu().enable_event_log();
    }
    let aux_tlb = system.aux_tlb(&kernel.vm).map(|aux_tlb| reach_hardware::resolve_aux_tlb(aux_tlb, hardware));
    let notes_victims = ooo.is_some_and(|(core, _)| core.itlb_inclusion);
    for (hw, mmu) in processor.mmus().enumerate() {
        // The threads of a core share one auxiliary TLB; the first thread holds it at boot.
        aux_tlb.into_iter().filter(|_| hw % shape.threads == 0).for_each(|aux_tlb| mmu.attach_aux_tlb(aux_tlb));
        if hw % shape.threads == 0 {
            system.walk_assist(&kernel.vm).into_iter().for_each(|assist| mmu.attach_walk_assist(assist));
        }
        if kernel.reads_counters {
            mmu.set_aux_tlb_enabled(kernel.enables_aux_tlb());
        }
        if notes_victims {
            mmu.enable_itlb_victims();
        }
    }
    if let Some((core, walkers)) = ooo {
        processor.add_ooo_cores(core, walkers);
    }
    if let Some(caches) = processor.caches() {
        let page = hardware.sizes[0];
        caches.back_side = system.back_side(&kernel.vm).map(|options| Box::new(BackSide::new(options, page)));
        caches.controller = system.controller(&kernel.vm).map(|options| Controller::new(options, page));
    }
    let has_second_level =
        |serves: fn(&Serves) -> bool| hardware.tlbs.iter().any(|tlb| tlb.level >= 2 && serves(&tlb.serves));
    Hardware {
        processor,
        code: Code::default(),
        out_of_order: ooo.is_some(),
        millicycles_per_instruction: u64::from(hardware.core.millicycles_per_instruction),
        invalidate: u64::from(hardware.core.invalidate),
        interrupt: u64::from(machine.os.trap),
        aux_tlb,
        assisted: system.walk_assist(&kernel.vm).is_some(),
        passed: 0,
        second_level: [has_second_level(|serves| serves.fetch), has_second_level(|serves| serves.load || serves.store)],
    }
}
