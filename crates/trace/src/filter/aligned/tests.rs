use super::*;
use reach_core::{Block, Protection, ThreadId};

const K: u64 = 1 << 10;
/// Where the loader put a library: not at a multiple of a superpage.
const LIBRARY: u64 = 0x7f12_3451_7000;
/// An executable that can be anywhere.
const PROGRAM: u64 = 0x5555_5555_4000;

/// A program of one piece.
struct Given(Option<Chunk>, BlockTable);

impl Source for Given {
    fn fill(&mut self, chunk: &mut Chunk) -> Result<bool, TraceError> {
        let given = self.0.take();
        *chunk = given.clone().unwrap_or_default();
        Ok(given.is_some())
    }

    fn blocks(&self) -> &BlockTable {
        &self.1
    }

    fn name(&self) -> &str {
        "given"
    }

    fn progress(&self) -> Progress {
        Progress::default()
    }
}

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

/// As the loader of Linux maps: the whole library first, then code, data and zeroes over it; then relocated data is
/// protected.
fn library() -> Vec<Event> {
    let zeroes = Map { role: Role::Mmap, ..Map::anonymous(VirtAddr(LIBRARY + 1800 * K), 20 * K) };
    vec![
        Event::File { file: FileId(1), path: "/lib/libc.so.6".into(), len: 1780 * K },
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
        Event::File { file: FileId(0), path: "/usr/bin/program".into(), len: 3088 * K },
        Event::Exec { path: "/usr/bin/program".into() },
        map(0, PROGRAM, 12 * K, 0, "r", Role::Image),
        map(0, PROGRAM + 12 * K, 3000 * K, 12 * K, "rx", Role::Image),
        map(0, PROGRAM + 3016 * K, 80 * K, 3012 * K, "rw", Role::Image),
        Event::Map(zeroes),
    ]
}

/// The chunk of these events and, behind them, references to these addresses.
fn aligned(alignment: Alignment, events: Vec<Event>, at: &[u64]) -> (Chunk, BlockTable) {
    let (mut chunk, mut blocks) = (Chunk::default(), BlockTable::default());
    events.into_iter().for_each(|event| chunk.push_event(event));
    for &at in at {
        let block = Block { pc: VirtAddr(at), len: 8, instructions: 2, bytes: Box::new([]) };
        let id = blocks.push(block.clone());
        chunk.push_fetch(id, &block);
        chunk.refs.push(Ref::load(VirtAddr(at)));
    }
    let mut source = Aligned::new(Given(Some(chunk), blocks), alignment);
    let mut chunk = Chunk::default();
    assert!(source.fill(&mut chunk).unwrap());
    assert!(!source.fill(&mut Chunk::default()).unwrap());
    (chunk, source.blocks)
}

/// Where references went.
fn went(events: Vec<Event>, at: &[u64]) -> Vec<u64> {
    went_where(Alignment::All, events, at)
}

fn went_where(alignment: Alignment, events: Vec<Event>, at: &[u64]) -> Vec<u64> {
    let (chunk, blocks) = aligned(alignment, events, at);
    let fetches = chunk.refs.iter().step_by(2);
    for (fetch, &id) in fetches.zip(&chunk.fetched) {
        assert_eq!(*fetch, blocks.get(id).fetch(), "a fetch is of its block");
    }
    chunk.refs.chunks(2).map(|pair| pair[0].addr().0.max(pair[1].addr().0)).collect()
}

#[test]
fn superpages_of_a_library_begin_where_those_of_its_file_do() {
    let events = [program(), library()].concat();
    let (code, data) = (LIBRARY + 200 * K, LIBRARY + 1770 * K);
    let places = went(events.clone(), &[code, data, LIBRARY + 1810 * K, PROGRAM + 40 * K, PROGRAM + 3100 * K, 0x1000]);
    assert_eq!(places[0] % SUPERPAGE, 200 * K);
    let start = places[0] - 200 * K;
    assert_eq!(places[1], start + 1770 * K + SUPERPAGE, "what is written is one superpage further");
    assert_eq!(places[2], start + 1810 * K + SUPERPAGE, "and so are the zeroes behind it");
    assert_eq!(places[3] % SUPERPAGE, 40 * K);
    assert_eq!(places[4], places[3] + 3060 * K + SUPERPAGE);
    assert_eq!(places[5], 0x1000, "other memory stays");
    let at = [code, PROGRAM + 40 * K];
    assert_eq!(went_where(Alignment::Programs, events, &at), [code, places[3]], "libraries stay, too, when told to");
}

#[test]
fn what_may_be_written_is_not_beside_code_and_nothing_lies_twice() {
    let (chunk, _) = aligned(Alignment::All, [program(), library()].concat(), &[]);
    let mut pages = std::collections::BTreeMap::new();
    for (_, event) in &chunk.events {
        match event {
            Event::Map(map) => {
                let may = |page| (page, map.protection.write);
                pages.extend((map.span.start.0 / 4096..map.span.end().0 / 4096).map(may));
            }
            Event::Unmap(gone) => pages.retain(|page, _| !(gone.start.0..gone.end().0).contains(&(page * 4096))),
            _ => {}
        }
    }
    assert_eq!(pages.len() as u64 * 4, 1820 + (12 + 3000 + 80 + 8), "as many as before");
    for (page, written) in &pages {
        let superpage = page / 512 * 512;
        assert!(pages.range(superpage..superpage + 512).all(|(_, other)| other == written), "page {page:#x}");
    }
}

#[test]
fn spans_over_several_places_come_apart_and_unmapped_code_is_forgotten() {
    let whole = span(LIBRARY - 4 * K, 1828 * K);
    let protect = Event::Protect(whole, Protection::NONE);
    let gone = vec![protect, Event::Unmap(whole)];
    let (chunk, _) = aligned(Alignment::All, [program(), library(), gone].concat(), &[LIBRARY]);
    let spans = |wanted: fn(&Event) -> Option<Span>| -> Vec<u64> {
        chunk.events.iter().filter_map(|(_, event)| wanted(event)).map(|span| span.len / K).collect()
    };
    let protected = spans(|event| match event {
        Event::Protect(span, rights) if *rights == Protection::NONE => Some(*span),
        _ => None,
    });
    assert_eq!(protected, [4, 1764, 56, 4]);
    let unmapped = spans(|event| if let Event::Unmap(span) = event { Some(*span) } else { None });
    assert_eq!(unmapped[2..], protected, "behind what was the library's first, and nothing");
    assert_eq!(chunk.refs[0].addr().0, LIBRARY);
}

#[test]
fn children_find_code_where_their_parents_do_and_new_programs_do_not() {
    let child = |asid| Event::Switch { asid: Asid(asid), thread: ThreadId(asid) };
    let fork = vec![Event::Fork { child: Asid(2), shares_memory: false }, child(2)];
    let parents = went([program(), library()].concat(), &[LIBRARY]);
    assert_eq!(went([program(), library(), fork.clone()].concat(), &[LIBRARY]), parents);
    let exec = vec![Event::Exec { path: "/usr/bin/other".into() }];
    assert_eq!(went([program(), library(), fork.clone(), exec.clone()].concat(), &[LIBRARY]), [LIBRARY]);
    let again = library().split_off(1);
    assert_eq!(went([program(), library(), fork, exec, again].concat(), &[LIBRARY]), parents, "a file has one place");
}

#[test]
fn memory_where_code_would_go_is_refused() {
    let mut chunk = Chunk::default();
    program().into_iter().for_each(|event| chunk.push_event(event));
    chunk.push_event(Event::Map(Map::anonymous(VirtAddr(PLACES.start + 4096), 4096)));
    let mut error = Aligned::new(Given(Some(chunk), BlockTable::default()), Alignment::All);
    let error = error.fill(&mut Chunk::default()).unwrap_err();
    assert!(error.to_string().starts_with("given: it maps memory at 0x900000001000, where its code"), "{error}");
}
