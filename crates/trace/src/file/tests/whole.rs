//! Tests of what a file says about its end: finished, cut, never finished, on a full disk.

use super::*;
use crate::file::Recording;
use crate::{Execution, ProgramExit};
use std::os::unix::fs::FileExt;
use std::path::Path;
use tempfile::TempDir;

/// A file of several segments, and where they end.
struct Sample {
    program: Program,
    folder: TempDir,
    bytes: Vec<u8>,
    ends: Vec<u64>,
    ending: Ending,
}

impl Sample {
    fn new() -> Sample {
        let (folder, program) = (TempDir::new().unwrap(), loops(600, 4));
        let path = folder.path().join("whole.reach");
        let crash = ProgramExit { program: "a".into(), exit: Exit::Signal(11), cause: None };
        let execution = Some(Execution { from: 1, to: u64::MAX, pids: [(0, 1234), (7, 1240)].into() });
        let stopped = Some(Stop::Limit(600));
        let ending = Ending { exits: vec![crash], stopped, execution, ..Ending::default() };
        let metadata = Metadata { tool: "reach 1.0".into(), ..Metadata::default() };
        let mut writer = Writer::create(&path, &metadata).unwrap();
        for chunk in cut(&program.0, &[200, 400]) {
            writer.write(&chunk, &program.1).unwrap();
            writer.flush().unwrap();
        }
        writer.finish(&ending).unwrap();
        let mut reader = Reader::open(&path).unwrap();
        let ends = (0..reader.segments()).map(|i| reader.segment(i).map(|s| s.at + s.bytes).unwrap()).collect();
        Sample { program, folder, bytes: std::fs::read(path).unwrap(), ends, ending }
    }

    /// Reads a file with these bytes.
    fn read(&self, bytes: &[u8]) -> (Option<Reader>, Chunk, Option<TraceError>) {
        let path = self.folder.path().join("other.reach");
        std::fs::write(&path, bytes).unwrap();
        match Reader::open(&path) {
            Err(error) => (None, Chunk::default(), Some(error)),
            Ok(mut reader) => {
                let (chunk, error) = drain(&mut reader);
                assert!(starts_with(&self.program.0, &chunk));
                (Some(reader), chunk, error)
            }
        }
    }
}

#[test]
fn a_finished_file_keeps_the_ending_of_its_program() {
    let sample = Sample::new();
    let (reader, chunk, error) = sample.read(&sample.bytes);
    let mut reader = reader.unwrap();
    assert!(same(&chunk, &sample.program.0) && error.is_none());
    assert_eq!((reader.ending(), reader.recording()), (sample.ending.clone(), Recording::Finished));
}

#[test]
fn a_cut_file_knows_how_much_it_has_lost() {
    let sample = Sample::new();
    let total = sample.program.0.refs.len() as u64;
    for len in 0..sample.bytes.len() {
        let (reader, chunk, error) = sample.read(&sample.bytes[..len]);
        let Some(reader) = reader else {
            assert!(error.is_some() && (len as u64) < sample.ends[0], "{len}");
            continue;
        };
        assert_eq!(reader.recording(), Recording::Finished);
        let Some(TraceError::Incomplete(missing)) = error else { panic!("{len}: {error:?}") };
        let part = Part::Rest { read: chunk.refs.len() as u64, whole: Some(total) };
        assert_eq!(missing.part, part, "{len}");
        let lost = sample.bytes.len() as u64 - sample.ends.iter().filter(|&&end| end <= len as u64).max().unwrap_or(&0);
        let text = missing.to_string();
        assert!(text.contains("was cut after it was finished"), "{text}");
        assert!(chunk.is_empty() || text.contains(&Missing::bytes(lost)), "{len}: {text}");
    }
}

#[test]
fn every_flipped_byte_of_a_file_is_noticed() {
    let sample = Sample::new();
    for at in 0..sample.bytes.len() {
        let mut damaged = sample.bytes.clone();
        damaged[at] ^= 0x40;
        assert!(sample.read(&damaged).2.is_some(), "byte {at}");
    }
}

#[test]
fn bytes_after_the_end_and_lost_ones_within_are_noticed() {
    let sample = Sample::new();
    let longer = [&sample.bytes[..], b"more"].concat();
    let text = sample.read(&longer).2.unwrap().to_string();
    assert!(text.contains("4 bytes follow the end"), "{text}");
    let shorter = [&sample.bytes[..sample.ends[0] as usize], &sample.bytes[sample.ends[1] as usize..]].concat();
    let (_, chunk, error) = sample.read(&shorter);
    assert!(error.is_some() && !chunk.is_empty() && chunk.refs.len() < sample.program.0.refs.len());
}

#[test]
fn a_file_whose_recorder_was_killed_says_that_it_was_never_finished() {
    let sample = Sample::new();
    let path = sample.folder.path().join("killed.reach");
    let metadata = Metadata { tool: "reach 1.0".into(), ..Metadata::default() };
    let mut writer = Writer::create(&path, &metadata).unwrap();
    let chunks = cut(&sample.program.0, &[200, 400]);
    let read = |path: &Path| {
        let mut reader = Reader::open(path).unwrap();
        let (chunk, error) = drain(&mut reader);
        (reader.recording(), chunk.refs.len(), error.map(|error| error.to_string()))
    };
    let (recording, refs, error) = read(&path);
    assert_eq!((recording, refs), (Recording::Unfinished, 0));
    assert!(error.unwrap().contains("the recorder (reach 1.0) never finished"));
    writer.write(&chunks[0], &sample.program.1).unwrap();
    writer.flush().unwrap();
    writer.write(&chunks[1], &sample.program.1).unwrap();
    let (recording, refs, error) = read(&path);
    assert_eq!((recording, refs), (Recording::Unfinished, chunks[0].refs.len()));
    assert!(error.unwrap().contains("references can be read, of an unknown number"));
    writer.finish(&Ending::default()).unwrap();
    assert_eq!(read(&path), (Recording::Finished, 400, None));
    // Killed between the trailer and the state: the trailer suffices.
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    let at = std::fs::read(&path).unwrap().windows(4).position(|magic| magic == b"Stat").unwrap();
    file.write_all_at(&super::super::state::State::Open.encode(), at as u64).unwrap();
    assert_eq!(read(&path), (Recording::Finished, 400, None));
}

#[test]
fn a_recorder_that_could_not_write_notes_how_much_it_was_given() {
    let sample = Sample::new();
    let path = sample.folder.path().join("failed.reach");
    let mut writer = Writer::create(&path, &Metadata::default()).unwrap();
    let chunks = cut(&sample.program.0, &[200, 400]);
    writer.write(&chunks[0], &sample.program.1).unwrap();
    writer.flush().unwrap();
    writer.fail();
    for chunk in &chunks[1..] {
        assert!(writer.write(chunk, &sample.program.1).is_err());
    }
    assert!(writer.finish(&Ending::default()).is_err());
    let mut reader = Reader::open(&path).unwrap();
    let Some(TraceError::Incomplete(missing)) = drain(&mut reader).1 else { panic!("a whole file") };
    let whole = Some(sample.program.0.refs.len() as u64);
    assert_eq!(missing.part, Part::Rest { read: chunks[0].refs.len() as u64, whole });
    assert_eq!(reader.recording(), Recording::Failed);
    assert!(missing.why.contains("could not write the rest"), "{missing}");
}
