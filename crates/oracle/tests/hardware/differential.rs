//! Random programs and a random operating system on random machines, and on those that machine files describe.

use crate::cases;
use crate::lockstep::{Lockstep, Setup};
use crate::random_machine::machine;
use crate::random_program::steps;
use proptest::prelude::*;
use reach_core::{AuxLookup, AuxTlbOptions, ClusterTlbOptions, RangeTlbOptions};
use reach_hardware::config::Machine;
use reach_lab::machine::testing::arbitrary_machine;

fn setup(machine: impl Strategy<Value = Machine>) -> impl Strategy<Value = Setup> {
    (machine, prop::bool::weighted(0.1), any::<bool>(), aux_tlb(), any::<u64>()).prop_map(
        |(machine, perfect, cached, aux_tlb, seed)| {
            // Nothing stands beside the TLB of a guest.
            let aux_tlb = aux_tlb.filter(|_| machine.nested.is_none());
            Setup { machine, perfect, cached, aux_tlb, seed }
        },
    )
}

/// Nothing, a range TLB of a few entries, a TLB of clusters, or segments.
fn aux_tlb() -> impl Strategy<Value = Option<AuxTlbOptions>> {
    let lookup = prop_oneof![Just(AuxLookup::InParallel), Just(AuxLookup::AfterMiss)];
    let ranges = (1..5u32, 0..8u32, lookup.clone(), 0..9u32).prop_map(|(entries, sweep_entries, lookup, latency)| {
        AuxTlbOptions::Ranges(RangeTlbOptions { entries, sweep_entries, mru: false, lookup, latency })
    });
    let clusters = (0..2u32, 1..4u32, 1..4u32, any::<bool>(), 1..4u32, lookup, 0..9u32);
    let clusters = clusters.prop_map(|(sets, ways, order, contiguous, min_pages, lookup, latency)| {
        let (entries, pages) = (ways << sets, 1 << order);
        AuxTlbOptions::Clusters(ClusterTlbOptions { entries, ways, pages, contiguous, min_pages, lookup, latency })
    });
    proptest::option::weighted(0.7, prop_oneof![3 => ranges, 2 => clusters, 1 => Just(AuxTlbOptions::Segments)])
}

/// Page tables of few levels have nodes too large to be compared at every turn.
fn schema() -> impl Strategy<Value = Machine> {
    arbitrary_machine().prop_filter("large nodes", |m| m.layout.bits.iter().all(|&bits| bits <= 12))
}

fn presets() -> impl Strategy<Value = Machine> {
    let plain = reach_lab::machine::list().map(|listed| reach_lab::machine::resolve(listed.name).expect("listed"));
    let guests =
        ["skylake-e3-1240v5:nested.host_page=4K", "zen4:nested.host_page=2M", "neoverse-v2:nested.host_page=64K"];
    let guests = guests.map(|guest| reach_lab::machine::resolve(guest).expect("a machine"));
    prop::sample::select(plain.chain(guests).map(|machine| machine.hardware).collect::<Vec<_>>())
}

proptest! {
    #![proptest_config(cases(2000))]

    #[test]
    fn any_machine_does_as_its_twin(setup in setup(machine()), steps in steps(400)) {
        Lockstep::new(&setup).run(&setup.machine, &steps, true);
    }
}

proptest! {
    #![proptest_config(cases(100))]

    #[test]
    fn machines_of_the_schema_do_as_their_twins(setup in setup(schema()), steps in steps(300)) {
        Lockstep::new(&setup).run(&setup.machine, &steps, true);
    }

    #[test]
    fn presets_do_as_their_twins(setup in setup(presets()), steps in steps(400)) {
        Lockstep::new(&setup).run(&setup.machine, &steps, true);
    }
}
