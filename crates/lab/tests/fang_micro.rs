//! The microbenchmark of Fang et al. (1999, §4.1) on their machine. It sums a column of 4096 rows of one page each, so every
//! reference to the array misses a TLB of any size and costs a run of the miss handler.

use crate::common::simulate;
use reach_core::Label;
use reach_lab::{Tally, Timing};

const ROWS: u64 = 4096;
const SWEEPS: u64 = 4;
const MACHINES: [&str; 2] = ["paint-parisc", "paint-parisc:tlb.unified.entries=128"];

/// Returns the counts of `SWEEPS` sweeps after every page has been faulted in.
fn steady(machine: &str, timing: Timing) -> Tally {
    let run = |sweeps: u64| simulate(machine, "base", &format!("fang-micro:iterations={sweeps}"), timing).total;
    let (short, long) = (run(SWEEPS), run(2 * SWEEPS));
    Tally {
        counts: long.counts.since(&short.counts),
        hardware: long.hardware.since(&short.hardware),
        ledger: long.ledger.since(&short.ledger),
        ..long
    }
}

#[test]
fn every_reference_misses_and_costs_the_handler() {
    for machine in MACHINES {
        let tally = steady(machine, Timing::Counts);
        let loads = SWEEPS * ROWS;
        assert_eq!((tally.counts.loads, tally.counts.instructions), (loads, 4 * loads), "{machine}");
        // Fetches stay on one page, which the micro-ITLB holds: only the array misses.
        let h = tally.hardware;
        assert_eq!((h.walks_data, h.walks_fetch, h.walks_faulting), (loads, 0, 0), "{machine}");
        assert_eq!(h.walk_cycles, 52 * loads, "{machine}");
        assert_eq!(tally.ledger.charged(Label::Handler).0, 52 * loads, "{machine}");
        assert_eq!(tally.ledger.total().0, (4 + 52) * loads, "{machine}: only instructions and handlers take time");
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
        // No row is written, so all rows are the zero page. Its line and a line that the handler reads evict each other
        // from the direct-mapped cache, and both take the 7 cycles to the second level. Only first uses of lines may add
        // to that.
        assert!((59.0..59.1).contains(&per_miss), "{machine}: {per_miss} cycles a miss");
    }
}

#[test]
fn a_tlb_that_holds_the_array_never_misses() {
    // Shows that the misses above are capacity misses.
    let h = steady("paint-parisc:tlb.unified.entries=8192", Timing::Counts).hardware;
    assert_eq!((h.walks(), h.walk_cycles), (0, 0));
}

#[test]
fn results_do_not_depend_on_the_size_of_the_tlb() {
    for timing in [Timing::Counts, Timing::InOrder] {
        let [small, large] = MACHINES.map(|machine| steady(machine, timing));
        assert_eq!(small.hardware, large.hardware, "{}", timing.name());
        assert_eq!(small.ledger, large.ledger, "{}", timing.name());
    }
}
