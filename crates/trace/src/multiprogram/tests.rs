use super::*;
use crate::{scenario, synthetic};
use proptest::prelude::*;
use reach_core::{Block, Kind, Map, Ref, VirtAddr};
use std::collections::{BTreeMap, BTreeSet};

/// An event, or a reference with its block if it is a fetch.
#[derive(Clone, Debug, PartialEq)]
enum Item {
    Event(Event),
    Ref(Ref, Option<Block>),
}

fn items(mut source: impl Source) -> Vec<Item> {
    let (mut items, mut chunk) = (Vec::new(), Chunk::default());
    while source.fill(&mut chunk).unwrap() {
        let (mut events, mut fetched) = (chunk.events.iter().peekable(), chunk.fetched.iter());
        for at in 0..=chunk.refs.len() {
            while let Some((_, event)) = events.next_if(|(before, _)| *before as usize == at) {
                items.push(Item::Event(event.clone()));
            }
            if let Some(&r) = chunk.refs.get(at) {
                let fetch = r.kind() == Kind::Fetch;
                let block = fetch.then(|| source.blocks().get(*fetched.next().unwrap()).clone());
                assert!(block.as_ref().is_none_or(|block| block.fetch() == r));
                items.push(Item::Ref(r, block));
            }
        }
        assert!(events.next().is_none() && fetched.next().is_none());
    }
    assert!(chunk.is_empty());
    items
}

fn member(spec: &str, chunk_refs: usize) -> Member {
    let (spec, name) = (spec.to_owned(), spec.split(':').next().unwrap().to_owned());
    let open = move || synthetic::generator(&spec, chunk_refs).map(|source| Box::new(source) as Box<dyn Source>);
    Member::new(name, Box::new(open))
}

fn multiprogram(members: Vec<Member>, quantum: Option<u64>, chunk_refs: usize) -> Multiprogram {
    Multiprogram { chunk_refs, ..Multiprogram::new("test".into(), members, quantum) }
}

/// Returns the items of each address space in order, without switches and execs, and the order in which the address spaces
/// began.
fn by_space(items: &[Item]) -> (BTreeMap<Asid, Vec<Item>>, Vec<Asid>) {
    let (mut spaces, mut order, mut current) = (BTreeMap::<_, Vec<_>>::new(), Vec::new(), None);
    for item in items {
        match item {
            Item::Event(Event::Switch { asid, .. }) => {
                current = Some(*asid);
                if !order.contains(asid) {
                    order.push(*asid);
                }
            }
            Item::Event(Event::Exec { .. }) => {}
            item => spaces.entry(current.unwrap()).or_default().push(item.clone()),
        }
    }
    (spaces, order)
}

/// Returns the items of a program that runs alone, as [`by_space`] does.
fn alone(spec: &str) -> Vec<Item> {
    by_space(&items(synthetic::generator(spec, CHUNK_REFS).unwrap())).0.remove(&Asid(0)).unwrap()
}

fn refs(items: &[Item]) -> Vec<&Item> {
    items.iter().filter(|item| matches!(item, Item::Ref(..))).collect()
}

#[test]
fn without_a_quantum_each_program_runs_to_its_end() {
    let specs = ["touch:bytes=64K", "tree:nodes=50,operations=30", "matrix:n=9"];
    let all = items(multiprogram(specs.map(|spec| member(spec, 7)).into(), None, 100));
    let (spaces, order) = by_space(&all);
    assert_eq!(order, [Asid(0), Asid(1), Asid(2)]);
    let names = all.iter().filter_map(|item| match item {
        Item::Event(Event::Exec { path }) => Some(path.as_str()),
        _ => None,
    });
    assert!(names.eq(["touch", "tree", "matrix"]));
    for (asid, spec) in order.into_iter().zip(specs) {
        assert_eq!(refs(&spaces[&asid]), refs(&alone(spec)), "{spec}");
        assert_eq!(spaces[&asid].last(), Some(&Item::Event(Event::Exit)));
    }
    let expected: Vec<Item> = specs.iter().flat_map(|spec| alone(spec)).collect();
    assert_eq!(refs(&all), refs(&expected), "programs do not overlap");
}

#[test]
fn turns_end_at_the_first_fetch_past_the_quantum() {
    // A loop body has four instructions, so the third one uses up a quantum of ten.
    let all =
        items(multiprogram(vec![member("touch:bytes=32K", 3), member("stride:bytes=1K,passes=1", 5)], Some(10), 64));
    let (mut turns, mut current) = (Vec::<(Asid, u64)>::new(), Asid(0));
    for item in &all {
        match item {
            Item::Event(Event::Switch { asid, .. }) => current = *asid,
            Item::Ref(_, Some(_)) => match turns.last_mut() {
                Some((asid, bodies)) if *asid == current => *bodies += 1,
                _ => turns.push((current, 1)),
            },
            _ => {}
        }
    }
    let (a, b) = (Asid(0), Asid(1));
    assert_eq!(turns, [(a, 3), (b, 3), (a, 3), (b, 3), (a, 2), (b, 10)]);
}

#[test]
fn programs_share_files_by_path_and_nothing_else() {
    let specs = ["touch:bytes=4K", "touch:bytes=8K", "stream:bytes=1K"];
    let all = items(multiprogram(specs.map(|spec| member(spec, 100)).into(), Some(1), 100));
    let files: Vec<_> = all
        .iter()
        .filter_map(|item| match item {
            Item::Event(Event::File { file, path, .. }) => Some((file.0, path.as_str())),
            _ => None,
        })
        .collect();
    assert_eq!(files, [(0, "synthetic/touch"), (1, "synthetic/stream")]);
    let mut mapped = BTreeMap::<u32, BTreeSet<u32>>::new();
    let (mut current, mut threads) = (Asid(0), BTreeMap::new());
    for item in &all {
        match item {
            Item::Event(Event::Switch { asid, thread }) => {
                current = *asid;
                assert_eq!(*threads.entry(*thread).or_insert(*asid), *asid, "threads of two programs have two numbers");
            }
            Item::Event(Event::Map(Map { backing: reach_core::Backing::File { file, .. }, .. })) => {
                mapped.entry(current.0).or_default().insert(file.0);
            }
            _ => {}
        }
    }
    assert_eq!(threads.len(), 3);
    assert_eq!(mapped, BTreeMap::from([(0, [0].into()), (1, [0].into()), (2, [1].into())]));
}

#[test]
fn programs_start_when_the_scenario_says() {
    let text = "quantum = 40\n\
        [[program]]\nname = 'first'\nrun = 'touch:bytes=400K'\n\
        [[program]]\nname = 'late'\nrun = 'touch:bytes=4K'\nat = 100\nrepeat = 3\nevery = 80\n\
        [[program]]\nname = 'last'\nrun = 'matrix:n=2'\nafter = 'first'\nrepeat = 2\n";
    let all = items(scenario::read(text, "s.toml", std::path::Path::new("")).unwrap());
    let (mut instructions, mut starts) = (0, Vec::new());
    for item in &all {
        match item {
            Item::Event(Event::Exec { path }) => starts.push((path.as_str(), instructions)),
            Item::Ref(_, Some(block)) => instructions += u64::from(block.instructions),
            _ => {}
        }
    }
    // `late` is due at 100 and waits for the quantum from 80 to 120 to end. It is due again 80 after each start.
    assert_eq!(starts, [("first", 0), ("late", 120), ("late", 204), ("late", 288), ("last", 412), ("last", 436)]);
}

#[test]
fn all_processes_of_a_truncated_trace_end() {
    struct Cut(BlockTable, Option<()>);
    impl Source for Cut {
        fn fill(&mut self, chunk: &mut Chunk) -> Result<bool, TraceError> {
            chunk.clear();
            if self.1.take().is_none() {
                return Ok(false);
            }
            chunk.push_event(Event::Switch { asid: Asid(5), thread: ThreadId(9) });
            chunk.push_event(Event::Fork { child: Asid(6), shares_memory: false });
            chunk.refs.push(Ref::load(VirtAddr(8)));
            Ok(true)
        }
        fn blocks(&self) -> &BlockTable {
            &self.0
        }
        fn name(&self) -> &str {
            "cut"
        }
        fn progress(&self) -> Progress {
            Progress::default()
        }
        fn ending(&mut self) -> Ending {
            Ending::default()
        }
    }
    let open: Open = Box::new(|| Ok(Box::new(Cut(BlockTable::default(), Some(())))));
    let member = Member { repeat: 2, ..Member::new("cut".into(), open) };
    let all = items(multiprogram(vec![member], None, 10));
    let switch = |asid, thread| Item::Event(Event::Switch { asid: Asid(asid), thread: ThreadId(thread) });
    let run = |first: u32, thread| {
        [
            switch(first, thread),
            Item::Event(Event::Exec { path: "cut".into() }),
            Item::Event(Event::Fork { child: Asid(first + 1), shares_memory: false }),
            Item::Ref(Ref::load(VirtAddr(8)), None),
            Item::Event(Event::Exit),
            switch(first + 1, thread),
            Item::Event(Event::Exit),
        ]
    };
    assert_eq!(all, [run(0, 0), run(2, 1)].concat());
}

proptest! {
    /// The stream does not depend on chunks, and each program does in it what it does alone.
    #[test]
    fn chunk_boundaries_change_nothing(
        chosen in proptest::collection::vec((0usize..5, 1usize..300, 0u64..2000, 1u64..3, any::<bool>()), 1..5),
        quantum in proptest::option::of(1u64..700),
        chunk_refs in 1usize..400,
    ) {
        const SPECS: [&str; 5] =
            ["touch:bytes=300K", "tree:nodes=20,operations=20", "matrix:n=8", "gups:bytes=1K,updates=50,init=yes",
             "phases:sizes=1K/4K,dwell=30,rounds=2"];
        let members = |cut: bool| -> Vec<Member> {
            let one = |(at, &(spec, size, start, repeat, after)): (usize, &(usize, usize, u64, u64, bool))| Member {
                start: if after && at > 0 { Start::After(at / 2) } else { Start::At(start) },
                repeat,
                every: after.then_some(start),
                ..member(SPECS[spec], if cut { size } else { CHUNK_REFS })
            };
            chosen.iter().enumerate().map(one).collect()
        };
        let whole = items(multiprogram(members(false), quantum, CHUNK_REFS));
        prop_assert!(items(multiprogram(members(true), quantum, chunk_refs)) == whole);
        let (spaces, _) = by_space(&whole);
        prop_assert_eq!(spaces.len() as u64, chosen.iter().map(|m| m.3).sum::<u64>());
        let mut left: Vec<_> = chosen.iter().flat_map(|m| vec![alone(SPECS[m.0]); m.3 as usize]).collect();
        for space in spaces.values() {
            let at = left.iter().position(|alone| refs(alone) == refs(space));
            prop_assert!(at.is_some());
            left.swap_remove(at.unwrap());
        }
    }
}

#[test]
fn background_programs_have_their_own_turns_and_end_with_the_last_program() {
    for chunk_refs in [1, 17, 1000] {
        let spec = "daemons:processes=2,private=64K,image=64K,page=64K";
        let waiting = Member { background: true, turn: Some(8), ..member(spec, 9) };
        let all =
            items(multiprogram(vec![waiting, member("stride:bytes=1K,stride=32,passes=1", 5)], Some(40), chunk_refs));
        assert_eq!(all.last(), Some(&Item::Event(Event::Exit)));
        let exits = all.iter().filter(|item| matches!(item, Item::Event(Event::Exit))).count();
        assert_eq!(exits, 3, "the processes of both programs end");
        // The process starts with an exec, right after the switch to it.
        let own = all.windows(2).find_map(|two| match two {
            [Item::Event(Event::Switch { asid, .. }), Item::Event(Event::Exec { path })] if path == "stride" => {
                Some(*asid)
            }
            _ => None,
        });
        let own = own.unwrap();
        let (mut turns, mut ours) = (Vec::new(), false);
        for item in &all {
            match item {
                Item::Event(Event::Switch { asid, .. }) if ours != (*asid == own) => {
                    ours = !ours;
                    turns.push(0);
                }
                Item::Ref(_, Some(block)) => match turns.last_mut() {
                    Some(turn) => *turn += block.instructions,
                    None => turns.push(block.instructions),
                },
                _ => {}
            }
        }
        assert!(turns.iter().step_by(2).all(|&turn| turn <= 8), "{turns:?}");
        assert!(turns.len() >= 4 && (40..48).contains(&turns[1]), "{turns:?}");
    }
}

#[test]
fn a_sample_cannot_run_with_other_programs() {
    let open = || {
        let source = synthetic::generator("touch:bytes=64K", 100)?;
        let sampled = crate::Sampled::new(source, crate::Sampling::default(), crate::FastForward::default(), 1);
        Ok(Box::new(sampled) as Box<dyn Source>)
    };
    let mut both =
        multiprogram(vec![member("touch:bytes=64K", 100), Member::new("part".into(), Box::new(open))], None, 100);
    let mut chunk = Chunk::default();
    let error = std::iter::repeat_with(|| both.fill(&mut chunk)).find_map(Result::err).unwrap().to_string();
    assert_eq!(error, "part: a sample cannot run with other programs; record the whole program");
}

#[test]
fn programs_go_to_guests_in_turn_and_marks_are_all_that_this_adds() {
    let specs = ["touch:bytes=256K", "tree:nodes=50,operations=300", "matrix:n=9"];
    let programs = |quantum, chunk_refs| multiprogram(specs.map(|spec| member(spec, 7)).into(), quantum, chunk_refs);
    for quantum in [None, Some(100)] {
        let plain = items(programs(quantum, 100));
        for guests in 1..=3 {
            let all = items(programs(quantum, 100).in_guests(guests));
            assert_eq!(all, items(programs(quantum, 9).in_guests(guests)), "where chunks are cut");
            let (mut guest, mut entered) = (0, 0);
            for item in &all {
                match item {
                    Item::Event(Event::Mark(Mark::Guest { number })) => (guest, entered) = (*number, entered + 1),
                    // The members begin in this order, so that address spaces have their numbers.
                    Item::Event(Event::Switch { asid, .. }) => assert_eq!(guest, asid.0 % guests),
                    _ => {}
                }
            }
            assert_eq!(entered > 0, guests > 1, "{guests}");
            let without = all.into_iter().filter(|item| !matches!(item, Item::Event(Event::Mark(Mark::Guest { .. }))));
            assert!(without.eq(plain.iter().cloned()), "{guests} guests");
        }
    }
}
