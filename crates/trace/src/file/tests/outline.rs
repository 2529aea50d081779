//! Outlines against what they are outlines of.

use super::{cut, loops, open, program, take_apart, write};
use crate::file::forge::forge;
use crate::file::layout::STREAMS;
use crate::file::reader::Reader;
use crate::{Source, TraceError};
use proptest::collection::vec;
use proptest::prelude::*;
use reach_core::fold::{PageRef, outline};
use reach_core::{BlockTable, Chunk, Counts, Event, Random, Ref, Step, StepCutter};

/// What simulations see of a program: steps that belong together are one.
#[derive(Debug, Default, PartialEq)]
struct Seen {
    /// Reference and event at which each tick comes.
    ticks: Vec<(u64, usize)>,
    /// With the reference that each comes before.
    events: Vec<(u64, Event)>,
    counts: Counts,
}

impl Seen {
    fn take(&mut self, step: &Step, events: &[(u32, Event)]) {
        let at = self.counts.references();
        if step.tick {
            self.ticks.push((at, self.events.len()));
        }
        self.events.extend(events[step.events.clone()].iter().map(|(_, event)| (at, event.clone())));
        self.counts.absorb(&step.counts);
    }
}

/// Reads the outline to its end or to the first error, and compares entries with the references that they stand for.
fn read(reader: &mut Reader, refs: &[Ref]) -> (Seen, Option<TraceError>) {
    assert!(reader.outline(true).unwrap());
    let (mut seen, mut chunk) = (Seen::default(), Chunk::default());
    loop {
        match reader.fill(&mut chunk) {
            Ok(true) => assert!(chunk.is_outline() && chunk.refs.is_empty()),
            Ok(false) => return (seen, None),
            Err(error) => return (seen, Some(error)),
        }
        for step in &chunk.outline {
            let from = seen.counts.references() as usize;
            seen.take(step, &chunk.events);
            let Some(own) = refs.get(from..seen.counts.references() as usize) else { continue };
            let mut entries: Vec<PageRef> = Vec::new();
            outline(own, &mut entries);
            assert_eq!(&chunk.page_refs[step.page_refs.clone()], &entries);
        }
    }
}

fn expected(program: &Chunk, table: &BlockTable) -> Seen {
    let (mut cutter, mut seen) = (StepCutter::default(), Seen::default());
    cutter.learn(table);
    for step in cutter.cut(&program.refs, &program.fetched, &program.events) {
        seen.take(&step, &program.events);
    }
    seen
}

proptest! {
    #[test]
    fn an_outline_is_that_of_its_program((program, table) in program(), cuts in vec(any::<usize>(), 0..6), flushes in vec(0..6usize, 0..4)) {
        let file = write(&cut(&program, &cuts), &table, &flushes);
        let mut reader = open(&file).unwrap();
        let (seen, error) = read(&mut reader, &program.refs);
        prop_assert!(error.is_none(), "{error:?}");
        prop_assert_eq!(seen, expected(&program, &table));
        // And back: references again, from the start.
        prop_assert!(reader.outline(false).unwrap());
        let mut chunk = Chunk::default();
        prop_assert!(!reader.fill(&mut chunk).unwrap() || !chunk.is_outline() && program.refs.starts_with(&chunk.refs));
    }

    #[test]
    fn any_streams_are_outlined_or_refused(streams in vec(vec(any::<u8>(), 0..80), STREAMS), counts in any::<[u8; 7]>()) {
        let streams: Vec<&[u8]> = streams.iter().map(Vec::as_slice).collect();
        if let Ok(mut reader) = open(&forge(streams.try_into().unwrap(), counts.map(|c| (c % 8) as u32))) {
            read(&mut reader, &[]);
        }
    }
}

/// More segments than one, ticks, and more pages than have numbers.
#[test]
fn long_programs_are_outlined() {
    let (mut program, table) = loops(1_500_000, 7);
    let mut random = Random::new(8);
    program.refs.extend((0..150_000).map(|_| Ref(random.next_u64() >> 16 | 1 << 48)));
    let (seen, error) = read(&mut open(&write(std::slice::from_ref(&program), &table, &[])).unwrap(), &program.refs);
    assert!(error.is_none(), "{error:?}");
    assert!(seen.ticks.len() > 1);
    assert_eq!(seen, expected(&program, &table));
}

#[test]
fn flipped_bits_never_give_another_outline() {
    let (program, table) = loops(3000, 9);
    let file = write(&cut(&program, &[1000, 2000]), &table, &[0, 1]);
    let all = expected(&program, &table);
    let mut random = Random::new(10);
    for _ in 0..1000 {
        let mut damaged = file.clone();
        let at = random.below(file.len() as u64) as usize;
        damaged[at] ^= 1 << random.below(8);
        let Ok(mut reader) = open(&damaged) else { continue };
        let (seen, error) = read(&mut reader, &program.refs);
        assert!(all.events.starts_with(&seen.events), "byte {at}");
        assert!(error.is_some() || reader.index_was_rebuilt(), "byte {at}");
    }
}

/// With good checksums, so that the decoder sees them.
#[test]
fn mutated_outlines_are_read_or_refused() {
    let (program, table) = loops(2000, 11);
    let file = write(std::slice::from_ref(&program), &table, &[]);
    let (streams, counts) = take_apart(&file);
    let mut random = Random::new(12);
    let (mut good, mut refused) = (0, 0);
    for _ in 0..2000 {
        let mut streams = streams.clone();
        let stream = &mut streams[STREAMS - 1 - random.below(3) as usize];
        let at = random.below(stream.len() as u64) as usize;
        stream[at] = random.next_u64() as u8;
        let parts: Vec<&[u8]> = streams.iter().map(Vec::as_slice).collect();
        let outcome = open(&forge(parts.try_into().unwrap(), counts)).map(|mut reader| read(&mut reader, &[]).1);
        match outcome {
            Ok(None) => good += 1,
            Ok(Some(_)) | Err(_) => refused += 1,
        }
    }
    assert!(good > 100 && refused > 100, "{good} {refused}");
}
