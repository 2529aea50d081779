//! Helpers for the tests of live capture: they compile small C programs and capture them.

pub mod space;

use reach_core::{Chunk, Event, Kind, Ref, Role, Span, ThreadId};
use reach_trace::live::{self, Live, Options};
use reach_trace::{Source, TraceError};
use space::Spaces;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, ExitStatus};

/// Returns whether programs can be captured here. Prints the reason where they cannot.
pub fn possible() -> bool {
    let compiler = Command::new("cc").arg("--version").output();
    match (live::emulator(None), compiler) {
        (Ok(_), Ok(_)) => true,
        (Err(why), _) => {
            eprintln!("skipped: {why}");
            false
        }
        (_, Err(why)) => {
            eprintln!("skipped: no C compiler: {why}");
            false
        }
    }
}

/// Returns the path of a file in a folder for these tests.
pub fn file(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("capture");
    std::fs::create_dir_all(&folder).unwrap();
    folder.join(name)
}

/// Compiles a C program. Returns the path of the executable.
pub fn compile(name: &str, source: &str, flags: &[&str]) -> PathBuf {
    let (text, program) = (file(&format!("{name}.c")), file(name));
    std::fs::write(&text, source).unwrap();
    let done = Command::new("cc").args(["-O1", "-o"]).arg(&program).arg(&text).args(flags).status().unwrap();
    assert!(done.success(), "cc {name}.c");
    program
}

/// Starts a program under capture, with default options.
pub fn launch(program: impl Into<OsString>, args: &[&str]) -> Result<Live, TraceError> {
    let args = args.iter().map(OsString::from).collect();
    Live::launch(Options { program: program.into(), args, ..Options::default() })
}

/// A whole capture.
#[derive(Default)]
pub struct Capture {
    pub refs: Vec<Ref>,
    pub events: Vec<(usize, Event)>,
    pub spaces: Spaces,
    pub instructions: u64,
    /// The number of stores of each thread to each address.
    pub stores: BTreeMap<ThreadId, BTreeMap<u64, u64>>,
    pub losses: Vec<String>,
    pub status: Option<ExitStatus>,
}

impl Capture {
    /// Returns the number of stores to `address` by all threads.
    pub fn stores_to(&self, address: u64) -> u64 {
        self.stores.values().filter_map(|stores| stores.get(&address)).sum()
    }

    /// Returns each reference as kind, size, instruction, and place in its mapping. These do not depend on the addresses of
    /// mappings.
    pub fn in_mappings(&self) -> Vec<(Kind, u64, u16, Role, u64)> {
        let mut maps = Vec::new();
        let mut events = self.events.iter().peekable();
        let place = |(at, r): (usize, &Ref)| {
            while let Some((_, event)) = events.next_if(|(before, _)| *before <= at) {
                if let Event::Map(map) = event {
                    maps.push((map.span, map.role));
                }
            }
            let holds = |(span, _): &&(Span, Role)| span.start <= r.addr() && r.addr() < span.end();
            let &(span, role) = maps.iter().rfind(holds).expect("each reference is in a mapping");
            (r.kind(), r.size(), r.index(), role, r.addr().0 - span.start.0)
        };
        self.refs.iter().enumerate().map(place).collect()
    }

    /// Returns the number of threads.
    pub fn threads(&self) -> usize {
        let threads = self.events.iter().filter_map(|(_, event)| match event {
            Event::Switch { thread, .. } => Some(*thread),
            _ => None,
        });
        let mut threads: Vec<_> = threads.collect();
        threads.sort();
        threads.dedup();
        threads.len()
    }
}

/// Captures a program to its end. Checks the laws of chunks, and that each reference is in a mapping that allows it.
pub fn capture(program: impl Into<OsString>, args: &[&str]) -> Capture {
    let mut live = launch(program, args).unwrap();
    let (mut all, mut chunk) = (Capture::default(), Chunk::default());
    let mut thread = ThreadId(0);
    while live.fill(&mut chunk).unwrap() {
        assert!(
            chunk.events.is_sorted_by_key(|(at, _)| *at)
                && chunk.events.iter().all(|&(at, _)| at as usize <= chunk.refs.len())
        );
        assert_eq!(chunk.refs.iter().filter(|r| r.kind() == Kind::Fetch).count(), chunk.fetched.len());
        let mut fetched = chunk.fetched.iter();
        let mut events = chunk.events.iter().peekable();
        for (i, r) in chunk.refs.iter().enumerate() {
            while let Some((_, event)) = events.next_if(|(at, _)| *at as usize <= i) {
                if let Event::Switch { thread: next, .. } = event {
                    thread = *next;
                }
            }
            match r.kind() {
                Kind::Fetch => {
                    let block = live.blocks().get(*fetched.next().unwrap());
                    assert_eq!((block.pc, block.bytes.len()), (r.addr(), block.len.into()));
                    all.instructions += u64::from(block.instructions);
                }
                Kind::Store => *all.stores.entry(thread).or_default().entry(r.addr().0).or_default() += 1,
                Kind::Load => {}
            }
        }
        for (_, event) in events {
            if let Event::Switch { thread: next, .. } = event {
                thread = *next;
            }
        }
        let before = all.refs.len();
        all.events.extend(chunk.events.iter().map(|(at, event)| (before + *at as usize, event.clone())));
        all.refs.extend(&chunk.refs);
        all.spaces.apply(&chunk);
    }
    assert_eq!(live.progress().done, all.refs.len() as u64);
    all.status = Some(live.wait().unwrap());
    all.losses = live.losses().to_vec();
    assert!(matches!(all.events.first(), Some((0, Event::Switch { .. }))));
    assert_eq!(
        all.spaces.first_violation,
        None,
        "{} of {} references without a mapping",
        all.spaces.violations,
        all.refs.len()
    );
    all
}
