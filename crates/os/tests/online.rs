//! Online promotion against its twin, which searches the whole TLB, and against the optimal policy.

use proptest::prelude::*;
use reach_core::{Asid, Kind, PageShift, PhysAddr, TlbEvent, Vpn};
use reach_oracle::online_promotion::{Extent, NaiveOnlinePromotion, minimal_cost};
use reach_os::online::{Candidate, Online, Policy};

/// An LRU TLB and a policy that promotes its entries, without memory, for several programs.
struct World {
    online: Online,
    entries: usize,
    /// The running program.
    asid: Asid,
    /// Entries, the least recently used first.
    tlb: Vec<(Asid, Extent)>,
    /// Superpages.
    built: Vec<(Asid, Extent)>,
    misses: u64,
}

/// Largest number of programs.
const PROGRAMS: u32 = 3;

impl World {
    fn new(policy: Policy, top: u32, entries: usize) -> World {
        let sizes: Vec<PageShift> = (0..=top).map(|order| PageShift(12 + order as u8)).collect();
        let mut online = Online::new(policy, &sizes);
        for (asid, tree) in (0..PROGRAMS).flat_map(|asid| (0..64).map(move |tree| (asid, tree))) {
            online.candidates().add(Asid(asid), Vpn(tree << top), PhysAddr(tree << 20));
        }
        World { online, entries, asid: Asid(0), tlb: Vec::new(), built: Vec::new(), misses: 0 }
    }

    /// Returns the largest superpage that holds base page `page`, or the base page.
    fn page(&self, page: u64) -> Extent {
        let built = self.built.iter().filter(|(asid, _)| *asid == self.asid).map(|(_, extent)| *extent);
        built
            .filter(|&(first, order)| page >> order << order == first)
            .max_by_key(|extent| extent.1)
            .unwrap_or((page, 0))
    }

    /// Returns the entries of the running program.
    fn own(&self) -> Vec<Extent> {
        self.tlb.iter().filter(|(asid, _)| *asid == self.asid).map(|(_, extent)| *extent).collect()
    }

    fn candidate(&self, (first, order): Extent) -> Candidate {
        Candidate { asid: self.asid, level: order as usize, vpn: Vpn(first) }
    }

    /// Passes an event to the policy. Returns the candidates that are due.
    fn log(&mut self, event: TlbEvent) -> Vec<Extent> {
        let mut due = Vec::new();
        self.online.handle(&event, &mut due);
        due.into_iter().map(|candidate| (candidate.vpn.0, candidate.level as u32)).collect()
    }

    /// Removes the entry at `at` from the TLB.
    fn remove(&mut self, at: usize, evicted: bool) {
        let (asid, (first, order)) = self.tlb.remove(at);
        self.log(TlbEvent::Removed { asid, vpn: Vpn(first), shift: PageShift(12 + order as u8), evicted });
    }

    fn flush(&mut self) {
        while !self.tlb.is_empty() {
            self.remove(0, false);
        }
    }

    /// Inserts an entry, and evicts the least recently used one if the TLB is full.
    fn insert(&mut self, entry: Extent) {
        if self.tlb.len() == self.entries {
            self.remove(0, true);
        }
        self.tlb.push((self.asid, entry));
        let shift = PageShift(12 + entry.1 as u8);
        self.log(TlbEvent::Inserted { asid: self.asid, vpn: Vpn(entry.0), shift });
    }

    /// References a base page. Returns the candidates that are due after the miss, or `None` after a hit.
    fn touch(&mut self, page: u64) -> Option<Vec<Extent>> {
        let entry = self.page(page);
        if let Some(at) = self.tlb.iter().position(|&held| held == (self.asid, entry)) {
            self.tlb[at..].rotate_left(1);
            return None;
        }
        self.misses += 1;
        let shift = PageShift(12 + entry.1 as u8);
        let due = self.log(TlbEvent::Miss { asid: self.asid, vpn: Vpn(page), kind: Kind::Load, shift });
        self.insert(entry);
        Some(due)
    }

    /// Promotes a candidate.
    fn promote(&mut self, extent: Extent) {
        self.online.promoted(self.candidate(extent));
        self.built.push((self.asid, extent));
        let own = self.asid;
        let within = |&(asid, held): &(Asid, Extent)| asid == own && held.0 >> extent.1 << extent.1 == extent.0;
        while let Some(at) = self.tlb.iter().position(within) {
            self.remove(at, false);
        }
        self.insert(extent);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    /// Programs take turns, with and without a flush of the TLB between them, and superpages are demoted.
    #[test]
    fn counting_entries_equals_searching_the_tlb(
        pages in prop::collection::vec(0u64..96, 1..400),
        (threshold, entries, top) in (1u32..6, 1usize..9, 1u32..6),
        turns in prop::collection::btree_map(0usize..400, 0..PROGRAMS, 0..12),
        demotions in prop::collection::btree_set(0usize..400, 0..6),
        tagged: bool,
    ) {
        let mut world = World::new(Policy::ApproxOnline { threshold }, top, entries);
        let mut twins: Vec<NaiveOnlinePromotion> = (0..PROGRAMS).map(|_| NaiveOnlinePromotion::new(top)).collect();
        for (n, &page) in pages.iter().enumerate() {
            if let Some(&program) = turns.get(&n).filter(|&&program| Asid(program) != world.asid) {
                world.asid = Asid(program);
                if !tagged {
                    world.flush();
                }
            }
            let (asid, entry) = (world.asid, world.page(page));
            if demotions.contains(&n) && entry.1 > 0 {
                world.built.retain(|&built| built != (asid, entry));
                if let Some(at) = world.tlb.iter().position(|&held| held == (asid, entry)) {
                    world.remove(at, false);
                }
                world.online.mapping_changes(asid, Vpn(entry.0), 1 << entry.1);
            }
            let (order, tlb, twin) = (world.page(page).1, world.own(), &mut twins[asid.0 as usize]);
            let Some(due) = world.touch(page) else { continue };
            prop_assert_eq!(&due, &twin.miss_approx_online(page, order, &tlb, threshold.into()), "reference {} to {}", n, page);
            if let Some(&extent) = due.first() {
                world.promote(extent);
                twin.promote(extent);
            }
            for (&extent, &charge) in &twin.prefetch_charges {
                prop_assert_eq!(u64::from(world.online.charges(world.candidate(extent)).0), charge, "{:?}", extent);
            }
        }
    }

    #[test]
    fn asap_promotes_exactly_the_touched_candidates(
        steps in prop::collection::vec((0u64..48, 0u8..12), 1..300),
        (every_level, top) in (any::<bool>(), 1u32..6),
    ) {
        let mut world = World::new(Policy::Asap { every_level }, top, 4);
        let mut twin = NaiveOnlinePromotion::new(top);
        for (page, operation) in steps {
            if operation == 0 {
                // Three pages are unmapped, and the superpages that held them end.
                world.online.mapping_changes(world.asid, Vpn(page), 3);
                twin.unmap(page, 3);
                world.built.retain(|&(_, (first, order))| first + (1 << order) <= page || first >= page + 3);
                world.flush();
                continue;
            }
            let order = world.page(page).1;
            let Some(mut due) = world.touch(page) else { continue };
            let mut expected = twin.miss_asap(page, order);
            due.sort_by_key(|extent| extent.1);
            expected.sort_by_key(|extent| extent.1);
            prop_assert_eq!(&due, &expected);
            for extent in due {
                world.promote(extent);
            }
        }
    }
}

/// Returns the cycles that the policy takes: `miss` for each miss, and for each promotion of 2^n base pages 2^(n-1) times `two`.
fn policy_cycles(references: &[u64], top: u32, entries: usize, miss: u64, two: u64) -> u64 {
    let threshold = (two / miss) as u32;
    let mut world = World::new(Policy::ApproxOnline { threshold }, top, entries);
    let mut promotions = 0;
    for &page in references {
        if let Some(&extent) = world.touch(page).as_ref().and_then(|due| due.first()) {
            world.promote(extent);
            promotions += two << (extent.1 - 1);
        }
    }
    world.misses * miss + promotions
}

const MISS: u64 = 40;

/// Returns the cycles of the policy and of the optimal one, where a promotion of two pages costs `threshold` misses: the
/// theoretical threshold.
fn policy_and_optimum(references: &[u64], top: u32, entries: usize, threshold: u64) -> (u64, u64) {
    let two = MISS * threshold;
    let least = minimal_cost(references, entries, top, MISS, |order| two << (order - 1));
    (policy_cycles(references, top, entries, MISS, two), least)
}

/// The bound of section 3.1, at most twice the optimum, holds where the optimal policy also has every miss that is not charged to a
/// candidate: with one superpage size, and one entry besides the page in use. Then pairs of pages are independent. Until its
/// promotion a pair costs as many charged misses as the promotion, and the optimal policy has as many misses or pays for it.
#[test]
fn with_two_page_sizes_and_one_entry_the_policy_takes_at_most_twice_the_optimum() {
    // All sequences of references to four pages, two pairs, that start with page 0: the others are symmetric.
    for length in 1..=7 {
        for code in 0..4u64.pow(length - 1) {
            let references: Vec<u64> = (0..length).rev().map(|at| code / 4u64.pow(at) % 4).collect();
            for threshold in 1..=3 {
                let (paid, least) = policy_and_optimum(&references, 1, 1, threshold);
                assert!(paid <= 2 * least, "{references:?}, threshold {threshold}: {paid} against {least}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn longer_sequences_are_within_the_bound(
        references in prop::collection::vec(0u64..6, 1..24),
        threshold in 1u64..8,
    ) {
        let (paid, least) = policy_and_optimum(&references, 1, 1, threshold);
        prop_assert!(paid <= 2 * least, "{} against {}", paid, least);
    }
}

#[test]
fn an_adversary_that_stops_after_a_promotion_comes_near_the_bound() {
    let mut worst: f64 = 0.0;
    for threshold in 1..16 {
        let references: Vec<u64> = [0, 1].into_iter().cycle().take(threshold as usize + 1).collect();
        let (paid, least) = policy_and_optimum(&references, 1, 1, threshold);
        assert!(paid <= 2 * least, "threshold {threshold}: {paid} against {least}");
        worst = worst.max(paid as f64 / least as f64);
    }
    assert!(worst > 1.8, "the worst ratio is only {worst}");
}

/// The policy promotes nested sizes one after the other and pays for each, where the optimal policy promotes to the largest size at
/// once. Charges subtracted from the larger candidate delay it further.
#[test]
fn nested_sizes_exceed_the_bound() {
    // Pages 0 and 1 are promoted at the third miss, all four at the seventh. That is 7 misses and promotions worth 2 + 4 misses; one
    // miss and one promotion of four pages would do.
    let (paid, least) = policy_and_optimum(&[0, 1, 0, 2, 0, 2, 0], 2, 1, 2);
    assert_eq!((paid, least), (13 * MISS, 5 * MISS));
}

/// With several entries, a miss on an entry that a promotion elsewhere would have kept is not charged to that promotion; for this
/// the full policy has its blame. Here 2 and 3 as one page would leave room for page 0. Moreover, the optimal policy is free to
/// choose what it evicts, and does without a promotion here.
#[test]
fn evictions_by_other_entries_exceed_the_bound() {
    let references: Vec<u64> = [0, 2, 3].into_iter().cycle().take(20).collect();
    let (paid, least) = policy_and_optimum(&references, 1, 2, 12);
    // Twenty misses, of which twelve are charged, and the promotion.
    assert_eq!((paid, least), (32 * MISS, 11 * MISS));
}
