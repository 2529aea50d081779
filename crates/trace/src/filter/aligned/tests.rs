use super::super::testing::OneChunk;
use super::*;
use reach_core::{Block, Protection, ThreadId};

const K: u64 = 1 << 10;
/// The address of a library, which is not a multiple of a superpage.
const LIBRARY: u64 = 0x7f12_3451_7000;
/// The address of a position-independent executable.
const PROGRAM: u64 = 0x5555_5555_4000;

fn map(file: u32, start: u64, len: u64, offset: u64, rights: &str, role: Role) -> Event {
    let has = |right| rights.contains(right);
    Event::Map(Map {
        protection: Protection { read: has('r'), write: has('w'), execute: has('x') },
        backing: Backing::File { file: FileId(file), offset },
        role,
        ..Map::anonymous(VirtAddr(start), len)
    })
}

fn span(start: u64, len: u64) -> Span {
    Span { start: VirtAddr(start), len }
}

/// Returns the events of Linux's loader: it maps the whole library, then code, data and zeroes over it, and then protects
/// relocated data.
fn library() -> Vec<Event> {
    let zeroes = Map { role: Role::Mmap, ..Map::anonymous(VirtAddr(LIBRARY + 1800 * K), 20 * K) };
    vec![
        Event::File { file: FileId(1), path: "/lib/libc.so.6".into(), len: 1780 * K, in_memory: false },
        map(1, LIBRARY, 1820 * K, 0, "r", Role::Mmap),
        map(1, LIBRARY + 160 * K, 1300 * K, 160 * K, "rx", Role::Mmap),
        map(1, LIBRARY + 1460 * K, 300 * K, 1460 * K, "r", Role::Mmap),
        map(1, LIBRARY + 1764 * K, 36 * K, 1760 * K, "rw", Role::Mmap),
        Event::Map(zeroes),
        Event::Protect(span(LIBRARY + 1764 * K, 16 * K), Protection::READ),
    ]
}

fn program() -> Vec<Event> {
    let zeroes = Map { role: Role::Image, ..Map::anonymous(VirtAddr(PROGRAM + 3096 * K), 8 * K) };
    vec![
        Event::Switch { asid: Asid(1), thread: ThreadId(1) },
        Event::File { file: FileId(0), path: "/usr/bin/program".into(), len: 3088 * K, in_memory: false },
        Event::Exec { path: "/usr/bin/program".into() },
        map(0, PROGRAM, 12 * K, 0, "r", Role::Image),
        map(0, PROGRAM + 12 * K, 3000 * K, 12 * K, "rx", Role::Image),
        map(0, PROGRAM + 3016 * K, 80 * K, 3012 * K, "rw", Role::Image),
        Event::Map(zeroes),
    ]
}

/// Aligns a program with these events, and then a fetch of and a load from each of these addresses.
fn aligned(alignment: Alignment, events: Vec<Event>, at: &[u64]) -> (Chunk, BlockTable) {
    let (mut chunk, mut blocks) = (Chunk::default(), BlockTable::default());
    events.into_iter().for_each(|event| chunk.push_event(event));
    for &at in at {
        let block = Block { pc: VirtAddr(at), len: 8, instructions: 2, bytes: Box::new([]) };
        let id = blocks.push(block.clone());
        chunk.push_fetch(id, &block);
        chunk.refs.push(Ref::load(VirtAddr(at)));
    }
    let mut source = Aligned::new(OneChunk::new(chunk, blocks), alignment);
    let mut chunk = Chunk::default();
    assert!(source.fill(&mut chunk).unwrap());
    assert!(!source.fill(&mut Chunk::default()).unwrap());
    (chunk, source.blocks)
}

/// Returns the new address of each address, with all code moved.
fn new_addresses(events: Vec<Event>, at: &[u64]) -> Vec<u64> {
    new_addresses_with(Alignment::All, events, at)
}

fn new_addresses_with(alignment: Alignment, events: Vec<Event>, at: &[u64]) -> Vec<u64> {
    let (chunk, blocks) = aligned(alignment, events, at);
    let fetches = chunk.refs.iter().step_by(2);
    for (fetch, &id) in fetches.zip(&chunk.fetched) {
        assert_eq!(*fetch, blocks.get(id).fetch(), "a fetch equals that of its block");
    }
    chunk.refs.chunks(2).map(|pair| pair[0].addr().0.max(pair[1].addr().0)).collect()
}

#[test]
fn code_moves_to_the_superpage_offset_that_it_has_in_its_file() {
    let events = [program(), library()].concat();
    let (code, data) = (LIBRARY + 200 * K, LIBRARY + 1770 * K);
    let places =
        new_addresses(events.clone(), &[code, data, LIBRARY + 1810 * K, PROGRAM + 40 * K, PROGRAM + 3100 * K, 0x1000]);
    assert_eq!(places[0] % SUPERPAGE, 200 * K);
    let start = places[0] - 200 * K;
    assert_eq!(places[1], start + 1770 * K + SUPERPAGE, "written data is one superpage further");
    assert_eq!(places[2], start + 1810 * K + SUPERPAGE, "and so are the zeroes after it");
    assert_eq!(places[3] % SUPERPAGE, 40 * K);
    assert_eq!(places[4], places[3] + 3060 * K + SUPERPAGE);
    assert_eq!(places[5], 0x1000, "other memory does not move");
    let at = [code, PROGRAM + 40 * K];
    assert_eq!(
        new_addresses_with(Alignment::Programs, events, &at),
        [code, places[3]],
        "Alignment::Programs does not move libraries"
    );
}

#[test]
fn no_superpage_has_both_code_and_written_data() {
    let (chunk, _) = aligned(Alignment::All, [program(), library()].concat(), &[]);
    let mut pages = std::collections::BTreeMap::new();
    for (_, event) in &chunk.events {
        match event {
            Event::Map(map) => {
                let page = |page| (page, map.protection.write);
                pages.extend((map.span.start.0 / 4096..map.span.end().0 / 4096).map(page));
            }
            Event::Unmap(span) => pages.retain(|page, _| !(span.start.0..span.end().0).contains(&(page * 4096))),
            _ => {}
        }
    }
    assert_eq!(pages.len() as u64 * 4, 1820 + (12 + 3000 + 80 + 8), "mappings neither overlap nor vanish");
    for (page, written) in &pages {
        let superpage = page / 512 * 512;
        assert!(pages.range(superpage..superpage + 512).all(|(_, other)| other == written), "page {page:#x}");
    }
}

#[test]
fn spans_over_several_pieces_are_split_and_unmapped_code_is_dropped() {
    let whole = span(LIBRARY - 4 * K, 1828 * K);
    let protect = Event::Protect(whole, Protection::NONE);
    let unmap = vec![protect, Event::Unmap(whole)];
    let (chunk, _) = aligned(Alignment::All, [program(), library(), unmap].concat(), &[LIBRARY]);
    let spans = |wanted: fn(&Event) -> Option<Span>| -> Vec<u64> {
        chunk.events.iter().filter_map(|(_, event)| wanted(event)).map(|span| span.len / K).collect()
    };
    let protected = spans(|event| match event {
        Event::Protect(span, rights) if *rights == Protection::NONE => Some(*span),
        _ => None,
    });
    assert_eq!(protected, [4, 1764, 56, 4]);
    let unmapped = spans(|event| if let Event::Unmap(span) = event { Some(*span) } else { None });
    assert_eq!(unmapped[2..], protected, "after the two that the library itself causes");
    assert_eq!(chunk.refs[0].addr().0, LIBRARY);
}

#[test]
fn forks_inherit_moved_code_and_execs_drop_it() {
    let child = |asid| Event::Switch { asid: Asid(asid), thread: ThreadId(asid) };
    let fork = vec![Event::Fork { child: Asid(2), shares_memory: false }, child(2)];
    let parents = new_addresses([program(), library()].concat(), &[LIBRARY]);
    assert_eq!(new_addresses([program(), library(), fork.clone()].concat(), &[LIBRARY]), parents);
    let exec = vec![Event::Exec { path: "/usr/bin/other".into() }];
    assert_eq!(new_addresses([program(), library(), fork.clone(), exec.clone()].concat(), &[LIBRARY]), [LIBRARY]);
    let again = library().split_off(1);
    assert_eq!(
        new_addresses([program(), library(), fork, exec, again].concat(), &[LIBRARY]),
        parents,
        "a file has one place in all processes"
    );
}

#[test]
fn a_mapping_at_the_target_addresses_is_an_error() {
    let mut chunk = Chunk::default();
    program().into_iter().for_each(|event| chunk.push_event(event));
    chunk.push_event(Event::Map(Map::anonymous(VirtAddr(TARGET.start + 4096), 4096)));
    let mut aligned = Aligned::new(OneChunk::new(chunk, BlockTable::default()), Alignment::All);
    let error = aligned.fill(&mut Chunk::default()).unwrap_err();
    assert!(error.to_string().starts_with("one chunk: maps memory at 0x900000001000, where moved code"), "{error}");
}
