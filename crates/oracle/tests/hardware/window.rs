//! The window's times against those of its plain twin, on random instructions.

use proptest::prelude::*;
use reach_core::{BlockId, Random};
use reach_hardware::config::{Latencies, Predictor, Prefetch, Window as Config};
use reach_hardware::window::{Branch, Class, Code, Inst, NO_SOURCE, NO_TARGET, Translation, Window};
use reach_oracle::window::{PlainWindow, Touch};

/// Small enough for everything to be full now and then.
fn config(random: &mut Random) -> Config {
    let mut below = |most: u64| 1 + random.below(most) as u32;
    Config {
        rob: below(40),
        issue: below(6),
        load_ports: below(3),
        store_ports: below(2),
        load_queue: below(20),
        store_queue: below(12),
        l1_mshrs: below(6),
        itlb_walkers: 1,
        front_end: below(15) - 1,
        fetch_queue: below(30),
        itlb_inclusion: false,
        latencies: Latencies { multiply: below(4), divide: below(30), float: below(5), float_divide: below(20) },
        itlb_replay: below(4) - 1,
        prefetch: Prefetch { streams: 0, ahead: 0, degree: 0, pairs: false, next_page: false, most: 0 },
        predictor: Predictor { entries: 64, history: 8, returns: 1 },
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
    Inst { address, sources, targets, class, branch: Branch::None }
}

/// Now and then one takes long.
fn translation(random: &mut Random, now_and_then: u64) -> Translation {
    let tlb = if random.below(now_and_then) == 0 { 7 } else { 0 };
    let walk = if random.below(now_and_then) == 0 { 1 + random.below(80) as u32 } else { 0 };
    Translation { tlb, walk, handler: 0 }
}

fn touch(random: &mut Random, store: bool) -> Touch {
    let from = random.below(64) * 8 + random.below(8);
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

fn compare(seed: u64) -> Result<(), TestCaseError> {
    let mut random = Random::new(seed);
    let config = config(&mut random);
    let walkers = 1 + random.below(3) as u32;
    let blocks: Vec<Vec<Inst>> =
        (0..5).map(|_| (0..1 + random.below(9)).map(|_| instruction(&mut random)).collect()).collect();
    let code = Code::of_instructions(&blocks);
    let (mut window, mut plain) = (Window::new(config, walkers), PlainWindow::new(config, walkers));
    let mut fall = None;
    for step in 0..60 {
        let number = random.below(5) as usize;
        let (start, fetch) = (random.below(3) * 100, translation(&mut random, 12));
        let lines = if random.below(10) == 0 { 1 + random.below(30) as u32 } else { 0 };
        window.end_block(&code);
        prop_assert_eq!(window.now(), plain.now(), "before block {} of seed {}", step, seed);
        if random.below(20) == 0 {
            window.serialise(&code, true);
            plain.serialise();
            fall = None;
        }
        if fall.is_some_and(|fall| fall != start) {
            plain.end_fetch();
        }
        window.redirect(start);
        window.fetch_page(start, fetch, None);
        window.fetch_lines(lines);
        plain.fetch(fetch, lines);
        // Numbers of blocks begin a piece of the code each.
        window.start_block(BlockId((number << 10) as u32), start, start + 100);
        fall = Some(start + 100);
        for (index, inst) in blocks[number].iter().enumerate() {
            let touches: Vec<Touch> = match random.below(4) {
                0 => vec![touch(&mut random, false)],
                1 => vec![touch(&mut random, true)],
                2 if random.below(2) == 0 => vec![touch(&mut random, false), touch(&mut random, true)],
                _ => Vec::new(),
            };
            for touch in &touches {
                window.advance(&code, index as u32);
                let Touch { bytes, line, page, translation, near, latency, .. } = *touch;
                let _translated = match touch.store {
                    true => window.store(bytes, line, page, translation, latency),
                    false => window.load(bytes, line, page, translation, near, latency),
                };
            }
            plain.take(*inst, &touches);
        }
    }
    window.serialise(&code, true);
    prop_assert_eq!(window.now(), plain.now());
    prop_assert_eq!(window.hand_over().total().0, plain.now(), "every cycle has a label");
    Ok(())
}

proptest! {
    #![proptest_config(crate::cases(200))]

    #[test]
    fn times_are_those_of_the_twin(seed in any::<u64>()) {
        compare(seed)?;
    }
}
