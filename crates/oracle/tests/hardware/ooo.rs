//! The window's times against those of its plain twin, on random instructions.

use proptest::prelude::*;
use reach_core::{BlockId, Kind, Random};
use reach_hardware::config::{Latencies, OooCore as Config, Predictor, Prefetch};
use reach_hardware::ooo::{
    Branch, Class, Code, Found, Inst, Memory, NO_SOURCE, NO_TARGET, OooCore, Place, Translation, Walk,
};
use reach_oracle::ooo::{Beyond, PlainOoo, Touch};

/// Small enough for everything to be full now and then.
fn config(random: &mut Random) -> Config {
    let mut below = |most: u64| 1 + random.below(most) as u32;
    Config {
        rob: below(40),
        width: below(6),
        load_ports: below(3),
        store_ports: below(2),
        load_queue: below(20),
        store_queue: below(12),
        l1_mshrs: below(6),
        memory: below(40),
        line_interval: below(12).saturating_sub(4),
        itlb_walkers: 1,
        front_end_depth: below(15) - 1,
        fetch_queue: below(30),
        itlb_inclusion: false,
        latencies: Latencies { multiply: below(4), divide: below(30), float: below(5), float_divide: below(20) },
        itlb_replay: below(4) - 1,
        wrong_path: below(4) > 1,
        prefetch: Prefetch {
            streams: 0,
            distance: 0,
            degree: 0,
            adjacent_line: false,
            next_page: false,
            max_in_flight: 0,
        },
        predictor: Predictor { entries: 64, history: 8, return_stack: 1 },
    }
}

fn instruction(random: &mut Random) -> Inst {
    let mut register = |none: u8| if random.below(3) == 0 { none } else { random.below(6) as u8 };
    let (address, sources) =
        ([register(NO_SOURCE), register(NO_SOURCE)], [register(NO_SOURCE), register(NO_SOURCE), NO_SOURCE, NO_SOURCE]);
    let targets = [register(NO_TARGET), NO_TARGET, NO_TARGET];
    let classes =
        [Class::Move, Class::Simple, Class::Simple, Class::Multiply, Class::Divide, Class::Float, Class::FloatDivide];
    let class = classes[random.below(7) as usize];
    let [loads, stores] = [random.below(4) / 2, random.below(4) / 3].map(|number| number as u8);
    Inst { address, sources, targets, class, loads, stores, ..Inst::UNKNOWN }
}

/// Blocks of a hundred bytes, one behind the other, which end in any branch.
fn program(random: &mut Random) -> Vec<(Place, Vec<Inst>)> {
    let mut block = |number: u64| {
        let mut insts: Vec<Inst> = (0..1 + random.below(9)).map(|_| instruction(random)).collect();
        let branches =
            [Branch::None, Branch::Jump, Branch::Call, Branch::Indirect, Branch::IndirectCall, Branch::Return];
        let last = insts.last_mut().unwrap();
        last.branch = branches.get(random.below(12) as usize).copied().unwrap_or(Branch::Conditional);
        let named = matches!(last.branch, Branch::Jump | Branch::Call | Branch::Conditional);
        let target = named.then(|| random.below(6) * 100);
        (Place { start: number * 100, end: number * 100 + 100, target }, insts)
    };
    (0..5).map(&mut block).collect()
}

/// What lies beyond the window: it does not change, and says something else of each place.
#[derive(Clone, Copy)]
struct Somewhere(u64);

impl Somewhere {
    fn below(self, what: u64, at: u64, most: u64) -> u64 {
        Random::new(self.0 ^ what << 32 ^ at).below(most)
    }
}

impl Beyond for Somewhere {
    fn page(&self, at: u64) -> u64 {
        at / 64
    }
    fn maps(&self, at: u64) -> bool {
        self.below(1, at / 64, 4) > 0
    }
    fn look_up(&self, kind: Kind, at: u64, within: u64) -> Found {
        let later = self.below(2, at / 64, 2) * 7;
        match self.below(3, at / 64 * 4 + kind as u64, 8) {
            0 => Found::Nothing,
            _ if later > within => Found::Nothing,
            1..3 => Found::Missed(later),
            _ => Found::Known(later),
        }
    }
    fn walk(&self, kind: Kind, at: u64, within: u64) -> Walk {
        let cycles = 1 + self.below(4, at / 64 * 4 + kind as u64, 60);
        Walk { cycles: cycles.min(within), found: cycles <= within && Beyond::maps(self, at) }
    }
    fn is_near(&self, at: u64) -> bool {
        self.below(5, at / 64, 2) == 0
    }
    fn load(&self, at: u64) -> (u64, u32, u32) {
        (at / 64, 4, if Beyond::is_near(self, at) { 4 } else { [12, 200, 1500][self.below(6, at / 64, 3) as usize] })
    }
    fn fetch(&self, from: u64, to: u64) -> u64 {
        self.below(7, from + to, 20).saturating_sub(12)
    }
}

impl Memory for Somewhere {
    fn page(&self, at: u64) -> u64 {
        Beyond::page(self, at)
    }
    fn page_end(&self, at: u64) -> u64 {
        (at / 64 + 1) * 64
    }
    fn maps(&self, at: u64) -> bool {
        Beyond::maps(self, at)
    }
    fn look_up(&mut self, kind: Kind, at: u64, within: u64) -> Found {
        Beyond::look_up(self, kind, at, within)
    }
    fn walk(&mut self, kind: Kind, at: u64, within: u64) -> Walk {
        Beyond::walk(self, kind, at, within)
    }
    fn is_near(&self, at: u64) -> bool {
        Beyond::is_near(self, at)
    }
    fn load(&mut self, _: &mut OooCore, at: u64, _: u64) -> (u64, u32, u32) {
        Beyond::load(self, at)
    }
    fn fetch(&mut self, from: u64, to: u64) -> u64 {
        Beyond::fetch(self, from, to)
    }
}

/// Now and then one takes long.
fn translation(random: &mut Random, now_and_then: u64) -> Translation {
    let tlb = if random.below(now_and_then) == 0 { 7 } else { 0 };
    let walk = if random.below(now_and_then) == 0 { 1 + random.below(80) as u32 } else { 0 };
    let entries = if walk > 0 { random.below(3) as u32 } else { 0 };
    Translation { tlb, walk, entries, handler: 0 }
}

fn touch(random: &mut Random, store: bool, words: u64) -> Touch {
    let from = random.below(words) * 8 + random.below(8);
    let latency = match random.below(4) {
        0 => 12,
        1 if random.below(4) == 0 => 1500,
        1 => 200,
        _ if store => 0,
        _ => 4,
    };
    let (line, page) = (from / 64, from / 256);
    Touch { store, bytes: (from, from + 8), line, page, translation: translation(random, 8), near: 4, latency }
}

/// How many instructions were squashed, and how many loads were repeated.
fn compare(seed: u64) -> Result<[u64; 2], TestCaseError> {
    let mut random = Random::new(seed);
    let config = config(&mut random);
    let walkers = 1 + random.below(3) as u32;
    let blocks = program(&mut random);
    let code = Code::of_instructions(&blocks);
    let mut beyond = Somewhere(random.below(u64::MAX));
    let (mut ooo, mut plain) = (OooCore::new(config, walkers), PlainOoo::new(config, walkers, blocks.clone()));
    let mut last = None;
    // A few addresses for each of many references: some are runs.
    let (mut runs, words) = (0, 32 << random.below(8));
    for step in 0..150 {
        let number = random.below(5) as usize;
        let (start, fetch) = (blocks[number].0.start, translation(&mut random, 12));
        let lines = if random.below(10) == 0 { 1 + random.below(30) as u32 } else { 0 };
        ooo.end_block(ooo.instructions(&code));
        prop_assert_eq!(ooo.now(), plain.now(), "before block {} of seed {}", step, seed);
        if random.below(20) == 0 {
            ooo.serialise(&code, true);
            plain.serialise();
            last = None;
        }
        if let Some(wrong) = ooo.redirect(&code, start) {
            ooo.run_wrong_path(&code, &wrong, &mut beyond);
            ooo.resume(&wrong);
        }
        if let Some(last) = last {
            plain.redirect(last, start, &beyond);
        }
        ooo.fetch_page(start, fetch, None);
        ooo.fetch_lines(lines);
        plain.fetch(fetch, lines);
        // Numbers of blocks begin a piece of the code each.
        ooo.start_block(&code, BlockId((number << 10) as u32), start, start + 100);
        plain.start_block(number);
        last = Some(number);
        for (index, inst) in blocks[number].1.iter().enumerate() {
            // As many references as the instruction makes, or one more or fewer.
            let odd = random.below(8);
            let loads = u64::from(inst.loads).saturating_sub(u64::from(odd == 0)) + u64::from(odd == 1);
            let stores = u64::from(inst.stores).saturating_sub(u64::from(odd == 2)) + u64::from(odd == 3);
            let mut touches: Vec<Touch> =
                (0..loads + stores).map(|number| touch(&mut random, number >= loads, words)).collect();
            for touch in &mut touches {
                if random.below(2) == 0 {
                    runs += 8;
                    let from = runs % (words * 8);
                    touch.bytes = (from, from + 8);
                }
            }
            for touch in &touches {
                ooo.advance(ooo.instructions(&code), index as u32);
                let Touch { bytes, line, page, translation, near, latency, .. } = *touch;
                let kind = if touch.store { Kind::Store } else { Kind::Load };
                ooo.refer(kind);
                let done = match touch.store {
                    true => ooo.store(bytes, line, page, translation, latency),
                    false => ooo.load(bytes, line, page, translation, near, latency),
                };
                if let Some(again) = done.again {
                    ooo.go_on_in_vain(&code, again, &mut beyond);
                    ooo.repeat(bytes, again, near);
                }
                ooo.note(kind, bytes.0, translation != Translation::default());
            }
            plain.take((number, index), &touches, &beyond);
        }
    }
    ooo.serialise(&code, true);
    prop_assert_eq!(ooo.now(), plain.now());
    prop_assert_eq!(ooo.hand_over().total().0, plain.now(), "every cycle has a label");
    let counted = ooo.hand_over_counts();
    prop_assert_eq!([counted.squashed, counted.clears], plain.squashed);
    Ok(plain.squashed)
}

proptest! {
    #![proptest_config(crate::cases(200))]

    #[test]
    fn times_are_those_of_the_twin(seed in any::<u64>()) {
        compare(seed)?;
    }
}

/// The programs of the differential test do what it is about.
#[test]
fn random_programs_leave_the_path_and_repeat_loads() {
    let all: Vec<[u64; 2]> = (0..200).map(|seed| compare(seed).unwrap()).collect();
    let [squashed, repeated] = all.iter().fold([0; 2], |sum, of| [sum[0] + of[0], sum[1] + of[1]]);
    assert!(squashed > 5000 && repeated > 20, "{squashed} {repeated}");
}
