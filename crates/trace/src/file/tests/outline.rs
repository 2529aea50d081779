//! Compares outlines with the programs that they outline.

use super::{cut, disassemble, loops, open, program, write};
use crate::file::forge::forge;
use crate::file::reader::Reader;
use crate::file::stream::STREAMS;
use crate::{Source, TraceError};
use proptest::collection::vec;
use proptest::prelude::*;
use reach_core::fold::{PageRef, outline};
use reach_core::{BlockTable, Chunk, Counts, Event, Random, Ref, Step, StepCutter};

/// A program as simulations see it, however it is cut into steps.
#[derive(Debug, Default, PartialEq)]
struct Observed {
    /// The numbers of the reference and of the event that follow each tick.
    ticks: Vec<(u64, usize)>,
    /// Each with the number of the reference that it precedes.
    events: Vec<(u64, Event)>,
    counts: Counts,
}

impl Observed {
    fn add(&mut self, step: &Step, events: &[(u32, Event)]) {
        let at = self.counts.references();
        if step.tick {
            self.ticks.push((at, self.events.len()));
        }
        self.events.extend(events[step.events.clone()].iter().map(|(_, event)| (at, event.clone())));
        self.counts.absorb(&step.counts);
    }
}

/// Reads the outline up to its end or the first error. Compares the entries with those of the references `refs`.
fn read(reader: &mut Reader, refs: &[Ref]) -> (Observed, Option<TraceError>) {
    assert!(reader.outline(true).unwrap());
    let (mut observed, mut chunk) = (Observed::default(), Chunk::default());
    loop {
        match reader.fill(&mut chunk) {
            Ok(true) => assert!(chunk.is_outline() && chunk.refs.is_empty()),
            Ok(false) => return (observed, None),
            Err(error) => return (observed, Some(error)),
        }
        for step in &chunk.outline {
            let from = observed.counts.references() as usize;
            observed.add(step, &chunk.events);
            let Some(step_refs) = refs.get(from..observed.counts.references() as usize) else { continue };
            let mut entries: Vec<PageRef> = Vec::new();
            outline(step_refs, &mut entries);
            assert_eq!(&chunk.page_refs[step.page_refs.clone()], &entries);
        }
    }
}

fn expected(program: &Chunk, table: &BlockTable) -> Observed {
    let (mut cutter, mut observed) = (StepCutter::default(), Observed::default());
    cutter.learn(table);
    for step in cutter.cut(&program.refs, &program.fetched, &program.events) {
        observed.add(&step, &program.events);
    }
    observed
}

proptest! {
    #[test]
    fn an_outline_equals_the_folded_program((program, table) in program(), cuts in vec(any::<usize>(), 0..6), flushes in vec(0..6usize, 0..4)) {
        let file = write(&cut(&program, &cuts), &table, &flushes);
        let mut reader = open(&file).unwrap();
        let (observed, error) = read(&mut reader, &program.refs);
        prop_assert!(error.is_none(), "{error:?}");
        prop_assert_eq!(observed, expected(&program, &table));
        // The reader can give references again, from the start.
        prop_assert!(reader.outline(false).unwrap());
        let mut chunk = Chunk::default();
        prop_assert!(!reader.fill(&mut chunk).unwrap() || !chunk.is_outline() && program.refs.starts_with(&chunk.refs));
    }

    #[test]
    fn arbitrary_streams_never_panic(streams in vec(vec(any::<u8>(), 0..80), STREAMS), counts in any::<[u8; 7]>()) {
        let streams: Vec<&[u8]> = streams.iter().map(Vec::as_slice).collect();
        if let Ok(mut reader) = open(&forge(streams.try_into().unwrap(), counts.map(|c| (c % 8) as u32))) {
            read(&mut reader, &[]);
        }
    }
}

/// The program has several segments, ticks, and more pages than numbers for them.
#[test]
fn an_outline_of_a_long_program_equals_the_folded_program() {
    let (mut program, table) = loops(1_500_000, 7);
    let mut random = Random::new(8);
    program.refs.extend((0..150_000).map(|_| Ref(random.next_u64() >> 16 | 1 << 48)));
    let (observed, error) =
        read(&mut open(&write(std::slice::from_ref(&program), &table, &[])).unwrap(), &program.refs);
    assert!(error.is_none(), "{error:?}");
    assert!(observed.ticks.len() > 1);
    assert_eq!(observed, expected(&program, &table));
}

#[test]
fn flipped_bits_never_change_an_outline() {
    let (program, table) = loops(3000, 9);
    let file = write(&cut(&program, &[1000, 2000]), &table, &[0, 1]);
    let all = expected(&program, &table);
    let mut random = Random::new(10);
    for _ in 0..1000 {
        let mut damaged = file.clone();
        let at = random.below(file.len() as u64) as usize;
        damaged[at] ^= 1 << random.below(8);
        let Ok(mut reader) = open(&damaged) else { continue };
        let (observed, error) = read(&mut reader, &program.refs);
        assert!(all.events.starts_with(&observed.events), "byte {at}");
        assert!(error.is_some() || !reader.ending().missing.is_empty(), "byte {at}");
    }
}

/// Checksums are good, so that the decoder sees the damage.
#[test]
fn mutated_outlines_never_panic() {
    let (program, table) = loops(2000, 11);
    let file = write(std::slice::from_ref(&program), &table, &[]);
    let (streams, counts) = disassemble(&file);
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
