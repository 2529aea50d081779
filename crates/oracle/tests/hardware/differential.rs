//! Random programs under a random operating system, on random machines and on those that machine files can describe.

use crate::cases;
use crate::lockstep::{Cuts, Lockstep, Setup};
use crate::random_machine::machine;
use crate::random_program::program;
use proptest::prelude::*;
use reach_core::{AuxLookup, AuxTlbOptions, ClusterFrames, ClusterTlbOptions, PageTableKind, RangeTlbOptions};
use reach_hardware::config::Machine;
use reach_lab::machine::testing::arbitrary_machine;

fn setup(machine: impl Strategy<Value = Machine>) -> impl Strategy<Value = Setup> {
    let assist = prop::bool::weighted(0.4);
    let monitor = proptest::option::of(prop::bool::weighted(0.7));
    (machine, prop::bool::weighted(0.1), any::<bool>(), aux_tlb(), assist, monitor, any::<u64>()).prop_map(
        |(machine, perfect, cached, aux_tlb, assist, monitor, seed)| {
            // Walk assists are not modelled where a monitor shadows page tables, and only radix trees are shadowed.
            let radix = machine.layout.kind == PageTableKind::Radix;
            let monitor = monitor.filter(|_| machine.nested.is_some() && radix && !assist);
            Setup { machine, perfect, cached, aux_tlb, assist, monitor, seed }
        },
    )
}

/// Draws no auxiliary TLB, a range TLB of a few entries, a cluster TLB, or segments.
fn aux_tlb() -> impl Strategy<Value = Option<AuxTlbOptions>> {
    let lookup = prop_oneof![Just(AuxLookup::InParallel), Just(AuxLookup::AfterMiss)];
    let ranges = (1..5u32, 0..8u32, lookup.clone(), 0..9u32).prop_map(|(entries, sweep_entries, lookup, latency)| {
        AuxTlbOptions::Ranges(RangeTlbOptions { entries, sweep_entries, mru: false, lookup, latency })
    });
    let frames = [ClusterFrames::Consecutive, ClusterFrames::SameGroup, ClusterFrames::Anywhere];
    let clusters = (0..2u32, 1..4u32, 1..4u32, prop::sample::select(frames.to_vec()), 1..4u32, lookup, 0..9u32);
    let clusters = clusters.prop_map(|(sets, ways, order, frames, min_pages, lookup, latency)| {
        let (entries, pages) = (ways << sets, 1 << order);
        AuxTlbOptions::Clusters(ClusterTlbOptions { entries, ways, pages, frames, min_pages, lookup, latency })
    });
    proptest::option::weighted(0.7, prop_oneof![3 => ranges, 2 => clusters, 1 => Just(AuxTlbOptions::Segments)])
}

/// Draws a machine that a machine file can describe. Page tables of few levels are left out: their nodes are too large
/// to be compared again and again.
fn describable() -> impl Strategy<Value = Machine> {
    arbitrary_machine().prop_filter("large nodes", |machine| machine.layout.bits.iter().all(|&bits| bits <= 12))
}

/// Draws a preset, or a preset in a guest.
fn presets() -> impl Strategy<Value = Machine> {
    let native = reach_lab::machine::list().map(|listed| reach_lab::machine::resolve(listed.name).expect("listed"));
    let guests =
        ["skylake-e3-1240v5:nested.host_page=4K", "zen4:nested.host_page=2M", "neoverse-v2:nested.host_page=64K"];
    let guests = guests.map(|guest| reach_lab::machine::resolve(guest).expect("a machine"));
    prop::sample::select(native.chain(guests).map(|machine| machine.hardware).collect::<Vec<_>>())
}

proptest! {
    #![proptest_config(cases(2000))]

    #[test]
    fn random_machines_equal_their_twins(setup in setup(machine()), program in program(400)) {
        Lockstep::new(&setup).run(&setup.machine, &program, Cuts::Heed);
    }
}

proptest! {
    #![proptest_config(cases(100))]

    #[test]
    fn describable_machines_equal_their_twins(setup in setup(describable()), program in program(300)) {
        Lockstep::new(&setup).run(&setup.machine, &program, Cuts::Heed);
    }

    #[test]
    fn presets_equal_their_twins(setup in setup(presets()), program in program(400)) {
        Lockstep::new(&setup).run(&setup.machine, &program, Cuts::Heed);
    }
}
