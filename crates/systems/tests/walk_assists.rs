//! Walk assists against their twins: the same misses, evictions and changes of pages, and every answer and every request equal.

use proptest::prelude::*;
use reach_core::{Asid, AssistAnswer, Kind, Layout, PageShift, Pfn, Pte, Random, TlbMiss, Vpn, WalkAssist};
use reach_oracle::assist::{Bench, NaiveAtp, NaiveMorrigan, NaivePomTlb, NaivePrefetcher, NaiveVictima, Rule};
use reach_os::{Options, Vm};
use reach_systems::resolve;
use std::collections::BTreeMap;

const BASE: PageShift = PageShift(12);
const SIZES: [PageShift; 3] = [BASE, PageShift(15), PageShift(18)];
/// Base pages of an address space.
const PAGES: u64 = 512;

/// Makes the assist of a system on a machine with [`SIZES`].
fn assist(spec: &str) -> Box<dyn WalkAssist> {
    let mut vm = Vm::new(Options::linux(Layout::x86_64(), SIZES.to_vec(), 64 << 20)).unwrap();
    let mut system = resolve(spec).unwrap().build();
    system.boot(&mut vm).unwrap();
    system.walk_assist(&vm).expect("the system has an assist")
}

/// An assist on its bench.
struct Side {
    assist: Box<dyn WalkAssist>,
    bench: Bench,
    /// The pages of the address space that does not run.
    other: BTreeMap<u64, Pte>,
}

impl Side {
    fn new(assist: Box<dyn WalkAssist>) -> Side {
        Side { assist, bench: Bench::new(BASE, 6), other: BTreeMap::new() }
    }

    fn switch(&mut self) {
        std::mem::swap(&mut self.bench.pages, &mut self.other);
    }

    /// Maps a page, in place of those that overlap it.
    fn map(&mut self, asid: Asid, first: Vpn, pte: Pte) {
        let pages = pte.shift().base_pages(BASE);
        let old: Vec<(u64, u64)> =
            self.bench.pages.iter().map(|(&at, pte)| (at, pte.shift().base_pages(BASE))).collect();
        for (at, size) in old.into_iter().filter(|&(at, size)| at < first.0 + pages && first.0 < at + size) {
            self.bench.pages.remove(&at);
            self.assist.invalidate(asid, Vpn(at), size);
        }
        self.bench.pages.insert(first.0, pte);
    }

    /// Runs a miss of a page that is mapped.
    fn miss(&mut self, miss: TlbMiss) -> AssistAnswer {
        let answer = self.assist.search(miss, &mut self.bench);
        if !matches!(answer, AssistAnswer::Hit(_)) {
            let walk = self.bench.walk_for(miss.vpn).expect("it is mapped");
            let (first, _) = self.bench.page(miss.vpn).expect("it is mapped");
            self.bench.pages.insert(first.0, walk.pte);
            self.assist.walked(miss, walk, &mut self.bench);
        }
        answer
    }
}

/// Does the same on both sides.
fn both(fast: &mut Side, slow: &mut Side, act: impl Fn(&mut Side)) {
    act(fast);
    act(slow);
}

/// Runs random operations on an assist and its twin.
fn compare(mut fast: Side, mut slow: Side, seed: u64, steps: usize) {
    let mut random = Random::new(seed);
    let (mut asid, mut vpn, mut stride) = (Asid(1), Vpn(0), 1);
    for step in 0..steps {
        match random.below(40) {
            0 => {
                asid = Asid(3 - asid.0);
                both(&mut fast, &mut slow, Side::switch);
            }
            1 => {
                let (at, pages) = (Vpn(random.below(PAGES)), [1, 8, 100, u64::MAX][random.below(4) as usize]);
                both(&mut fast, &mut slow, |side| side.assist.invalidate(asid, at, pages));
            }
            2..5 => both(&mut fast, &mut slow, |side| side.bench.evict()),
            5..8 => {
                let at = fast.bench.page(Vpn(random.below(PAGES)));
                if let Some((first, pte)) = at {
                    both(&mut fast, &mut slow, |side| side.assist.evicted(asid, first, pte.shift(), &mut side.bench));
                }
            }
            8..11 => stride = random.below(9) as i64 - 4,
            _ => {}
        }
        vpn = match random.below(4) {
            0 => Vpn(random.below(PAGES)),
            _ => Vpn(vpn.0.wrapping_add_signed(stride) % PAGES),
        };
        if fast.bench.page(vpn).is_none() || random.below(200) == 0 {
            let shift = SIZES[(random.below(6) / 2).saturating_sub(random.below(2)) as usize % SIZES.len()];
            let frame = Pfn(random.below(16) * shift.base_pages(BASE));
            let pte = Pte::new(frame, shift).with_writable(random.below(2) == 0).with_executable(random.below(4) > 0);
            let first = vpn.align_down(shift, BASE);
            both(&mut fast, &mut slow, |side| side.map(asid, first, pte));
        }
        let kind = [Kind::Load, Kind::Store, Kind::Fetch][random.below(3) as usize];
        let miss = TlbMiss { asid, vpn, kind, instruction: 0x1000 + 13 * random.below(5), offset: 0 };
        let answers = [&mut fast, &mut slow].map(|side| side.miss(miss));
        assert_eq!(answers[0], answers[1], "step {step} of seed {seed}: {miss:?}");
        assert_eq!(fast.bench.asked, slow.bench.asked, "step {step} of seed {seed}: {miss:?}");
        both(&mut fast, &mut slow, |side| side.bench.asked.clear());
        let held = [&fast, &slow].map(|side| {
            let mut held = side.assist.translations(asid);
            held.sort_by_key(|&(vpn, pte)| (vpn, pte.0));
            held
        });
        assert_eq!(held[0], held[1], "step {step} of seed {seed}: {miss:?}");
        // What it holds is in the page table. A processor would have set the accessed bit.
        for (vpn, held) in &held[0] {
            let real = fast.bench.page(*vpn).map(|(_, pte)| pte);
            assert!(real.is_some_and(|real| real.writable() == held.writable()), "{vpn:?}: {held:?}, {real:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_tlb_in_memory_equals_its_twin(seed: u64) {
        // A small one, so that sets fill up: the smallest that the option allows is too large for this test.
        let slow = NaivePomTlb::new(1 << 20, &SIZES);
        compare(Side::new(assist("ryoo-2017-pom-tlb:size=1")), Side::new(Box::new(slow)), seed, 400);
    }

    #[test]
    fn translations_in_the_second_level_cache_equal_their_twin(seed: u64, frequency in 0..3u64, cost in 0..3u64) {
        let spec = format!("kanellopoulos-2023-victima:frequency={frequency},cost={cost}");
        compare(Side::new(assist(&spec)), Side::new(Box::new(NaiveVictima::new(frequency, cost, &SIZES))), seed, 400);
    }

    #[test]
    fn prefetchers_equal_their_twins(seed: u64, rows in 1..40u64, buffer in 1..20usize) {
        for (name, rule) in [("distance", Rule::Distance), ("sequential", Rule::Sequential), ("stride", Rule::Stride)] {
            let spec = format!("kandiraju-2002-prefetch:prefetcher={name},rows={rows},buffer={buffer}");
            let slow = NaivePrefetcher::new(rule, rows, buffer, BASE);
            compare(Side::new(assist(&spec)), Side::new(Box::new(slow)), seed, 300);
        }
    }

    #[test]
    fn prefetching_of_instructions_equals_its_twin(seed: u64) {
        let slow = NaiveMorrigan::new(BASE);
        compare(Side::new(assist("vavouliotis-2021-morrigan")), Side::new(Box::new(slow)), seed, 1500);
    }

    #[test]
    fn agile_prefetching_equals_its_twin(seed: u64) {
        for (atp, sbfp) in [(true, true), (true, false), (false, true)] {
            let word = |on| if on { "on" } else { "off" };
            let spec = format!("vavouliotis-2021-atp:atp={},sbfp={}", word(atp), word(sbfp));
            compare(Side::new(assist(&spec)), Side::new(Box::new(NaiveAtp::new(atp, sbfp, BASE))), seed, 600);
        }
    }
}
