//! Properties of every synthetic program.

use super::*;
use reach_core::{Asid, Chunk, Event, Kind, Ref};
use std::collections::BTreeMap;

/// Specifications of small runs, at least one for each program.
const SMALL: &[&str] = &[
    "touch:bytes=1M,passes=2",
    "touch:bytes=1M,access=load",
    "stream:bytes=1K,passes=3",
    "stride:bytes=10000,stride=24,passes=2",
    "chase:bytes=100K,steps=700",
    "gups:bytes=1M,updates=500",
    "gups:bytes=1K,updates=500,init=yes",
    "gups:bytes=100K,updates=500,init=pages",
    "random-reads:bytes=100K,steps=500",
    "random-reads:bytes=64K,pair=yes,steps=500",
    "bfs:bytes=40K,degree=6,searches=2,init=yes",
    "bfs:bytes=100K,init=pages",
    "bc:bytes=40K,degree=4,searches=3,init=yes",
    "bc:bytes=100K,init=pages",
    "pr:bytes=30K,iterations=2,init=yes",
    "tc:bytes=30K,degree=8,init=pages",
    "cg:bytes=9K,row=9,iterations=2,init=yes",
    "cg:bytes=100K,init=pages",
    "kv:bytes=100K,value=1K,records=120,requests=150,writes=30%,load=yes",
    "kv:bytes=100K,value=1K,requests=50,load=pages",
    "mix:refs=1000",
    "phases:sizes=1K/1M/64K,dwell=100/7/63,rounds=3",
    "phases:sizes=1K/1M,dwell=100,order=sequential",
    "matrix:n=20,passes=2",
    "fang-micro:pages=100,iterations=5",
    "tree:nodes=100,operations=200",
    "tree:nodes=1,operations=200,record=16",
    "matrix:n=20,init=yes",
    "cmp:bytes=1000",
    "code:regions=2,clusters=3,dwell=5,visits=100,data=8K",
    "code:regions=3,tail=5000,order=cycle,data=0,visits=100",
    "daemons:processes=3,private=64K,image=32K,wakings=20",
    "dirty:bytes=1M,page=4K,every=7",
    "fft3:n=5",
    "pulse:bytes=20K,page=4K,times=3",
    "web:files=50,least=100,most=9K,requests=70,rate=1,mapped=3",
];

/// Returns the data references of a program.
pub(super) fn data(spec: &str) -> Vec<Ref> {
    let (refs, _) = all(generator(spec, CHUNK_REFS).unwrap());
    refs.into_iter().filter(|r| r.kind() != Kind::Fetch).collect()
}

/// Returns the addresses of blocks in the order of execution.
pub(super) fn fetches(spec: &str) -> Vec<u64> {
    let (refs, _) = all(generator(spec, CHUNK_REFS).unwrap());
    refs.into_iter().filter(|r| r.kind() == Kind::Fetch).map(|r| r.addr().0).collect()
}

/// Returns the events of a program, each with the number of references before it.
pub(super) fn events(source: impl Source) -> Vec<(u64, Event)> {
    all(source).1
}

/// Returns all references and events of a program, and checks that each chunk is consistent.
fn all(mut source: impl Source) -> (Vec<Ref>, Vec<(u64, Event)>) {
    let (mut refs, mut events, mut chunk) = (Vec::new(), Vec::new(), Chunk::default());
    while source.fill(&mut chunk).unwrap() {
        assert!(!chunk.is_empty());
        let before = refs.len() as u64;
        events.extend(chunk.events.iter().map(|(at, event)| (before + u64::from(*at), event.clone())));
        refs.extend_from_slice(&chunk.refs);
        // Every fetch has its block, and data references index instructions of that block.
        let mut fetched = chunk.fetched.iter();
        let mut block = None;
        for r in &chunk.refs {
            if r.kind() == Kind::Fetch {
                let next = source.blocks().get(*fetched.next().unwrap());
                assert_eq!(next.pc, r.addr());
                assert!(next.bytes.is_empty() || next.bytes.len() == usize::from(next.len));
                block = Some(next);
            } else if let Some(block) = block {
                assert!(r.index() < block.instructions, "{r:?} is not an instruction of {block:?}");
            }
        }
        assert!(fetched.next().is_none());
    }
    assert!(chunk.is_empty() && !source.fill(&mut chunk).unwrap());
    (refs, events)
}

#[test]
fn every_program_has_small_runs_and_legal_defaults() {
    for about in list() {
        assert!(SMALL.iter().any(|spec| spec.split(':').next() == Some(about.name)), "{}", about.name);
        assert!(parse(about.name).is_ok(), "{}: a default is not accepted", about.name);
    }
}

#[test]
fn chunk_size_changes_nothing() {
    for spec in SMALL {
        let whole = all(generator(spec, CHUNK_REFS).unwrap());
        for chunk_refs in [1, 2, 3, 7, 100] {
            assert!(all(generator(spec, chunk_refs).unwrap()) == whole, "{spec} in chunks of {chunk_refs}");
        }
    }
}

#[test]
fn equal_seeds_give_equal_programs() {
    for name in [
        "chase:bytes=1M,steps=100",
        "code:visits=100",
        "bfs:bytes=100K",
        "bc:bytes=100K",
        "gups:updates=100",
        "kv:requests=100",
        "pr:bytes=100K",
        "tc:bytes=100K",
        "mix:refs=100",
        "phases:dwell=10",
        "tree:nodes=50",
        "web:requests=50",
    ] {
        let run = |seed| data(&format!("{name},seed={seed}"));
        assert_eq!(run(5), run(5));
        assert_ne!(run(5), run(6), "{name}");
    }
}

#[test]
fn references_stay_within_mappings() {
    for spec in SMALL {
        let (refs, events) = all(generator(spec, CHUNK_REFS).unwrap());
        assert!(matches!(events[0], (0, Event::Switch { .. })));
        assert!(matches!(events.last(), Some((at, Event::Exit)) if *at == refs.len() as u64));
        let mut events = events.into_iter().peekable();
        // Each address space has its own mappings.
        let mut spaces: BTreeMap<Asid, Vec<reach_core::Map>> = BTreeMap::new();
        let mut current = Asid(0);
        for (at, r) in refs.iter().enumerate() {
            while let Some((_, event)) = events.next_if(|(before, _)| *before <= at as u64) {
                if let Event::Switch { asid, .. } = &event {
                    current = *asid;
                }
                let maps = spaces.entry(current).or_default();
                if let Event::Unmap(span) = &event {
                    maps.retain(|m| m.span != *span);
                }
                if let Event::Map(map) = event {
                    let apart = |m: &reach_core::Map| m.span.end() <= map.span.start || map.span.end() <= m.span.start;
                    assert!(maps.iter().all(apart), "{spec}: {map:?} overlaps another");
                    maps.push(map);
                }
            }
            let of = spaces[&current].iter().find(|m| m.span.start <= r.addr() && r.addr() < m.span.end());
            let rights = of.unwrap_or_else(|| panic!("{spec}: {r:?} is not mapped")).protection;
            assert!(match r.kind() {
                Kind::Fetch => rights.execute,
                Kind::Load => rights.read,
                Kind::Store => rights.write,
            });
        }
    }
}

#[test]
fn progress_reaches_its_total() {
    for spec in SMALL {
        let mut source = parse(spec).unwrap();
        assert_eq!(source.progress().done, 0);
        let mut chunk = Chunk::default();
        while source.fill(&mut chunk).unwrap() {}
        assert_eq!(Some(source.progress().done), source.progress().total, "{spec}");
    }
}

#[test]
fn programs_of_a_terabyte_start_at_once() {
    for spec in ["gups:bytes=1T,updates=10", "chase:bytes=1T,steps=10", "mix:bytes=1T,refs=10", "stream:bytes=1T"] {
        let mut source = parse(spec).unwrap();
        assert!(source.fill(&mut Chunk::default()).unwrap());
    }
    let refs = data("gups:bytes=1T,updates=1000");
    let spread = refs.iter().map(|r| r.addr().0).max().unwrap() - refs.iter().map(|r| r.addr().0).min().unwrap();
    assert!(spread > 1 << 39 && spread < 1 << 40);
}

#[test]
fn names_are_canonical_specifications() {
    assert_eq!(parse("gups").unwrap().name(), "gups");
    assert_eq!(parse("gups:seed=3,bytes=1024M").unwrap().name(), "gups:bytes=1G,seed=3");
}

#[test]
fn errors_name_the_program_and_what_it_accepts() {
    let error = |spec: &str| parse(spec).err().unwrap().to_string();
    assert_eq!(error("gup"), "there is no synthetic program `gup`; did you mean `gups`?");
    assert!(error("").starts_with("there is no synthetic program ``; there are touch, stream"));
    assert_eq!(error("gups:byte=1"), "synthetic program gups: there is no parameter `byte`; did you mean `bytes`?");
    assert!(error("chase:bytes=64,unit=4K").contains("larger than the area"));
    assert!(error("mix:page=100").contains("not a power of two"));
    assert!(error("stride:bytes=1T,stride=8,passes=1024T").contains("give fewer"));
}

#[test]
fn tree_has_the_operations_of_the_paper() {
    let source = generator("tree:nodes=2000,operations=1000,seed=4", CHUNK_REFS).unwrap();
    let (refs, events) = all(source);
    let phases: Vec<u64> = events.iter().filter(|(_, e)| matches!(e, Event::Phase(_))).map(|(at, _)| *at).collect();
    let [build, operations] = phases[..] else { panic!("two phases") };
    assert_eq!(build, 0);
    // The build writes 2000 records of 16 words, and the headers and fields of nodes.
    let stores = refs[..operations as usize].iter().filter(|r| r.kind() == Kind::Store).count();
    assert!(stores > 2000 * (16 + 6 + 2));
    // Traversals dominate the loads: about 20 of them read half (eight words) of each of about 2000 records. 2 % of
    // 1000 operations have a standard deviation of 4.4.
    let loads = refs[operations as usize..].iter().filter(|r| r.kind() == Kind::Load).count();
    let per_traversal = 2000 * (8 + 1 + 3);
    assert!((8 * per_traversal..34 * per_traversal).contains(&loads), "{loads} loads");
}
