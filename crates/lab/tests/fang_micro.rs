//! The microbenchmark of Fang et al. (1999, §4.1) on their machine: a column of 4096 rows, one page each, is summed, so
//! that every reference to the array misses the TLB whatever its size, and costs what the miss handler costs.

mod common;

use common::simulate;
use reach_core::Label;
use reach_lab::{Tally, Timing};

const ROWS: u64 = 4096;
const SWEEPS: u64 = 4;
const MACHINES: [&str; 2] = ["paint-parisc", "paint-parisc:tlb.unified.entries=128"];

/// What `SWEEPS` sweeps bring once every page has been faulted in.
fn steady(machine: &str, timing: Timing) -> Tally {
    let run = |sweeps: u64| simulate(machine, "base", &format!("fang-micro:iterations={sweeps}"), timing).total;
    let (short, long) = (run(SWEEPS), run(2 * SWEEPS));
    Tally {
        counts: long.counts.since(&short.counts),
        hardware: long.hardware.since(&short.hardware),
        ledger: long.ledger.since(&short.ledger),
    }
}

#[test]
fn every_reference_misses_and_costs_the_handler() {
    for machine in MACHINES {
        let tally = steady(machine, Timing::Counts);
        let loads = SWEEPS * ROWS;
        assert_eq!((tally.counts.loads, tally.counts.instructions), (loads, 4 * loads), "{machine}");
        // Fetches stay on their page and in the micro-ITLB: all misses are the array's.
        let h = tally.hardware;
        assert_eq!((h.walks_data, h.walks_fetch, h.walks_faulting), (loads, 0, 0), "{machine}");
        assert_eq!(h.walk_cycles, 52 * loads, "{machine}");
        assert_eq!(tally.ledger.charged(Label::Handler).0, 52 * loads, "{machine}");
        assert_eq!(tally.ledger.total().0, (4 + 52) * loads, "{machine}: nothing else takes time");
    }
}

#[test]
fn with_caches_the_handler_also_waits_for_its_loads() {
    for machine in MACHINES {
        let tally = steady(machine, Timing::InOrder);
        let loads = SWEEPS * ROWS;
        assert_eq!(tally.hardware.walks(), loads, "{machine}");
        let per_miss = tally.hardware.walk_cycles as f64 / loads as f64;
        println!("{machine}: {per_miss:.2} cycles a miss");
        // All rows are the zero page, for none is ever written: its line and one that the handler reads displace each
        // other in the direct-mapped cache, which costs both sides the 7 cycles to the second level. Nothing else but
        // first uses of lines may add to that.
        assert!((59.0..59.1).contains(&per_miss), "{machine}: {per_miss} cycles a miss");
    }
}

#[test]
fn a_tlb_that_holds_the_array_never_misses() {
    // Without this, the counts above could be those of something else than capacity.
    let h = steady("paint-parisc:tlb.unified.entries=8192", Timing::Counts).hardware;
    assert_eq!((h.walks(), h.walk_cycles), (0, 0));
}

#[test]
fn both_sizes_of_tlb_give_the_same() {
    for timing in [Timing::Counts, Timing::InOrder] {
        let [small, large] = MACHINES.map(|machine| steady(machine, timing));
        assert_eq!(small.hardware, large.hardware, "{}", timing.name());
        assert_eq!(small.ledger, large.ledger, "{}", timing.name());
    }
}
