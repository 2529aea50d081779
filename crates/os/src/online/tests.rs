use super::*;
use reach_core::{Asid, Kind, PageShift, PhysAddr, TlbEvent, Vpn};

const ASID: Asid = Asid(1);
const BASE: PageShift = PageShift(12);

/// Returns the policy for the paper's sizes, 1 to 64 pages of 4 KB, with a tree at 0x60000.
fn online(policy: Policy) -> Online {
    let sizes: Vec<PageShift> = (12..=18).map(PageShift).collect();
    let mut online = Online::new(policy, &sizes);
    online.candidates().add(ASID, Vpn(0x60000), PhysAddr(0));
    online
}

fn enter(online: &mut Online, vpn: u64) {
    online.handle(&TlbEvent::Inserted { asid: ASID, vpn: Vpn(vpn), shift: BASE }, &mut Vec::new());
}

fn leave(online: &mut Online, vpn: u64) {
    let event = TlbEvent::Removed { asid: ASID, vpn: Vpn(vpn), shift: BASE, evicted: true };
    online.handle(&event, &mut Vec::new());
}

/// Misses, and enters the page. Returns the first page and the level of the candidates that are due.
fn miss(online: &mut Online, vpn: u64, shift: PageShift) -> Vec<(u64, usize)> {
    let mut due = Vec::new();
    online.handle(&TlbEvent::Miss { asid: ASID, vpn: Vpn(vpn), kind: Kind::Load, shift }, &mut due);
    enter(online, vpn);
    due.into_iter().map(|candidate| (candidate.vpn.0, candidate.level)).collect()
}

fn charge(online: &mut Online, vpn: u64, level: usize) -> u32 {
    let around = online.candidates().around(ASID, level, Vpn(vpn));
    assert_eq!(around.vpn, Vpn(vpn), "no candidate of level {level} begins there");
    online.charges(around).0
}

/// Section 3.1: a miss at 0x60005023 while 0x60006 is in the TLB and 0x60004 is not. (The text calls the entry 0x60004 the
/// second time, which it has just said is not there.)
#[test]
fn charges_are_those_of_the_papers_example() {
    let mut online = online(Policy::ApproxOnline { threshold: 1000 });
    enter(&mut online, 0x60006);
    assert_eq!(miss(&mut online, 0x60005023 >> 12, BASE), []);
    assert_eq!(charge(&mut online, 0x60004, 1), 0, "0x60004 is not in the TLB: a page of two would have missed, too");
    let larger = [(0x60004, 2), (0x60000, 3), (0x60000, 4), (0x60000, 5), (0x60000, 6)];
    for (vpn, level) in larger {
        assert_eq!(charge(&mut online, vpn, level), 1, "({vpn:#x}, {level})");
    }
    // "If (0x60004, 2).prefetch has reached the threshold ..., the counters of the containing superpages are decremented."
    leave(&mut online, 0x60005);
    miss(&mut online, 0x60005, BASE);
    leave(&mut online, 0x60006);
    leave(&mut online, 0x60005);
    enter(&mut online, 0x60010);
    miss(&mut online, 0x60005, BASE);
    assert_eq!(larger.map(|(vpn, level)| charge(&mut online, vpn, level)), [2, 2, 2, 3, 3]);
    let promoted = online.candidates().around(ASID, 2, Vpn(0x60004));
    online.promoted(promoted);
    assert_eq!(larger.map(|(vpn, level)| charge(&mut online, vpn, level)), [0, 0, 0, 1, 1]);
}

#[test]
fn thresholds_double_with_the_size_and_the_largest_comes_first() {
    let mut online = online(Policy::ApproxOnline { threshold: 2 });
    let mut first = [None; 7];
    for n in 1..200 {
        enter(&mut online, 0x60005);
        let due = miss(&mut online, 0x60004, BASE);
        assert!(due.is_sorted_by(|a, b| a.1 > b.1), "{due:?}");
        for &(vpn, level) in &due {
            assert_eq!(vpn, 0x60004 >> level << level);
            first[level].get_or_insert(n);
        }
        leave(&mut online, 0x60004);
        leave(&mut online, 0x60005);
    }
    // Every candidate is charged at each miss: t, 2t, 4t, …
    assert_eq!(first, [None, Some(2), Some(4), Some(8), Some(16), Some(32), Some(64)]);
}

#[test]
fn asap_promotes_touched_candidates_level_by_level() {
    for (every_level, expected) in [(true, vec![(0x60002, 1), (0x60000, 2)]), (false, vec![(0x60000, 2), (0x60002, 1)])]
    {
        let mut online = online(Policy::Asap { every_level });
        assert_eq!(miss(&mut online, 0x60000, BASE), []);
        assert_eq!(miss(&mut online, 0x60001, BASE), [(0x60000, 1)]);
        assert_eq!(miss(&mut online, 0x60003, BASE), []);
        assert_eq!(miss(&mut online, 0x60003, BASE), [], "the page was touched before");
        assert_eq!(miss(&mut online, 0x60002, BASE), expected);
        // Within a page of four, nothing is left to promote.
        assert_eq!(miss(&mut online, 0x60001, PageShift(14)), []);
        online.mapping_changes(ASID, Vpn(0x60001), 1);
        for vpn in 0x60004..0x60008 {
            miss(&mut online, vpn, BASE);
        }
        assert_eq!(miss(&mut online, 0x60000, BASE), [], "a page of four has a hole");
        assert_eq!(miss(&mut online, 0x60001, BASE).len(), 3);
    }
}

#[test]
fn the_full_policy_charges_evictions_to_unrelated_candidates() {
    let mut online = online(Policy::Online { threshold: 2 });
    let unrelated = online.candidates().around(ASID, 1, Vpn(0x60010));
    let related = online.candidates().around(ASID, 6, Vpn(0x60000));
    for vpn in [0x60000, 0x60010, 0x60011] {
        enter(&mut online, vpn);
    }
    for n in 1..=2 {
        leave(&mut online, 0x60000);
        assert_eq!(online.charges(unrelated).1, n - 1, "an eviction alone does no harm");
        let due = miss(&mut online, 0x60000, BASE);
        assert_eq!(online.charges(unrelated), (0, n));
        assert_eq!(online.charges(related).1, 0, "candidates that contain the page are charged for its miss");
        assert_eq!(due.contains(&(0x60010, 1)), n == 2);
    }
}

#[test]
fn an_event_visits_at_most_one_node_per_size() {
    let mut online = online(Policy::ApproxOnline { threshold: 1000 });
    let steps = |online: &mut Online| online.visits().count();
    enter(&mut online, 0x60000);
    assert_eq!(steps(&mut online), 7, "the first entry of all");
    enter(&mut online, 0x60001);
    assert_eq!(steps(&mut online), 2, "its neighbour: the nodes above have an entry already");
    miss(&mut online, 0x60002, BASE);
    assert_eq!(steps(&mut online), 6 + 3, "every candidate is charged, and a new one of two pages has an entry");
    leave(&mut online, 0x60002);
    assert_eq!(steps(&mut online), 3);
}
