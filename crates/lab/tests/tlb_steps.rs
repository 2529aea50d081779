//! TLB misses begin at the footprint that the machine file's entries and ways imply.
//!
//! `chase` follows a fixed random cycle through N pages. In a set that N pages overfill, LRU then evicts each page just
//! before its next use; in a set that they fit, it evicts none. So a lap misses once for every page in an overfull set. `gups` takes
//! pages at random; LRU keeps the last w distinct ones of the m that share a set and hits with probability w / m.

use crate::common::simulate;
use reach_hardware::Counters;
use reach_lab::{Timing, machine};

/// Skylake's arrays under LRU, and its second level without a hash.
const MACHINE: &str = "skylake-e3-1240v5:tlb.l1d_4k.replacement=lru,tlb.l1d_2m.replacement=lru,\
                       tlb.l2.replacement=lru,tlb.l2.index=low";

/// A page size, the system that uses it, and the first-level array that holds it.
struct Size {
    system: &'static str,
    bytes: u64,
    l1: &'static str,
}

const SMALL: Size = Size { system: "base", bytes: 4 << 10, l1: "l1d_4k" };
const LARGE: Size = Size { system: "hugetlb-2m", bytes: 2 << 20, l1: "l1d_2m" };

/// Returns the entries and ways of an array in the machine file.
fn geometry(array: &str) -> (u64, u64) {
    let machine = machine::resolve(MACHINE).unwrap();
    let tlb = machine.hardware.tlbs.iter().find(|tlb| tlb.name == array).unwrap();
    (u64::from(tlb.entries), u64::from(tlb.ways))
}

/// Returns the misses of one lap through `pages` adjacent pages.
fn lap(pages: u64, (entries, ways): (u64, u64)) -> u64 {
    let sets = entries / ways;
    // The first `pages % sets` sets hold one page more.
    let (fewer, more) = (pages / sets, pages % sets);
    (if fewer > ways { (sets - more) * fewer } else { 0 }) + if fewer + 1 > ways { more * (fewer + 1) } else { 0 }
}

/// Returns the counts of the second half of a run; the first half fills TLBs and page tables.
fn steady(size: &Size, program: impl Fn(u64) -> String) -> Counters {
    let run = |halves| simulate(MACHINE, size.system, &program(halves), Timing::Counts).total.hardware;
    run(2).since(&run(1))
}

fn chase(size: &Size, pages: u64, laps: u64) -> Counters {
    let (bytes, unit) = (pages * size.bytes, size.bytes);
    steady(size, |halves| format!("chase:bytes={bytes},unit={unit},steps={}", halves * laps * pages))
}

fn gups(size: &Size, pages: u64, updates: u64) -> Counters {
    let bytes = pages * size.bytes;
    steady(size, |halves| format!("gups:bytes={bytes},updates={}", halves * updates))
}

#[test]
fn a_lap_misses_every_page_of_overfull_sets() {
    assert_eq!([64, 65, 79, 80].map(|pages| lap(pages, (64, 4))), [0, 5, 75, 80]);
}

#[test]
fn chase_misses_begin_beyond_the_entries_of_each_level() {
    const LAPS: u64 = 3;
    let l2 = geometry("l2");
    assert_eq!((geometry(SMALL.l1).0, geometry(LARGE.l1).0, l2.0), (64, 32, 1536));
    for size in [SMALL, LARGE] {
        let l1 = geometry(size.l1);
        for (entries, ways) in [l1, l2] {
            let sets = entries / ways;
            for pages in [entries / 2, entries, entries + 1, entries + sets - 1, entries + sets] {
                let counted = chase(&size, pages, LAPS);
                let at = format!("{} with {pages} pages", size.system);
                assert_eq!(counted.l1d_tlb_misses, LAPS * lap(pages, l1), "{at}: first level");
                assert_eq!(counted.walks_data, LAPS * lap(pages, l2), "{at}: second level");
                assert_eq!((counted.walks_fetch, counted.walks_faulting), (0, 0), "{at}");
            }
        }
    }
}

/// Every 128th page falls into one set of the second level by the low bits of its number, and into another set each by Skylake's
/// hash.
#[test]
fn a_hashed_index_spreads_pages_that_low_bits_crowd_into_one_set() {
    let program = |laps: u64| format!("chase:bytes=64M,unit=512K,steps={}", 128 * laps);
    let walks = |machine: &str| {
        let run = |laps| simulate(machine, SMALL.system, &program(laps), Timing::Counts).total.hardware;
        run(4).since(&run(2)).walks_data
    };
    assert_eq!(walks("skylake-e3-1240v5"), 0);
    assert_eq!(walks("skylake-e3-1240v5:tlb.l2.replacement=lru,tlb.l2.index=low"), 2 * 128);
}

#[test]
fn superpages_multiply_the_reach_by_their_size() {
    // The reach is the largest footprint without walks, in bytes; both sizes share the array.
    let entries = geometry("l2").0;
    let reach = |size: &Size| {
        assert_eq!(chase(size, entries, 1).walks(), 0);
        assert!(chase(size, entries + 1, 1).walks() > 0);
        entries * size.bytes
    };
    assert_eq!((reach(&SMALL), reach(&LARGE)), (6 << 20, 512 * (6 << 20)));
}

#[test]
fn gups_misses_the_share_of_pages_that_does_not_fit() {
    const UPDATES: u64 = 60_000;
    let l2 = geometry("l2");
    for size in [SMALL, LARGE] {
        let l1 = geometry(size.l1);
        let share = |misses: u64| misses as f64 / UPDATES as f64;
        // A footprint of exactly all entries never misses.
        let fits = gups(&size, l1.0, UPDATES);
        assert_eq!((fits.l1d_tlb_misses, fits.walks()), (0, 0), "{}", size.system);
        let fits = gups(&size, l2.0, UPDATES);
        assert_eq!(fits.walks(), 0, "{}", size.system);
        // The load may miss; the store to the same word hits.
        for pages in [2 * l1.0, 8 * l1.0, l2.0] {
            let expected = 1.0 - l1.0 as f64 / pages as f64;
            let counted = share(gups(&size, pages, UPDATES).l1d_tlb_misses);
            // Four standard deviations of the share of misses.
            assert!((counted - expected).abs() < 0.009, "{} {pages}: {counted} for {expected}", size.system);
        }
    }
    // At twice the size of the second level, half of all updates walk.
    let counted = gups(&SMALL, 2 * l2.0, UPDATES).walks() as f64 / UPDATES as f64;
    assert!((counted - 0.5).abs() < 0.02, "{counted}");
}
