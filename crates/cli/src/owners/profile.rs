//! The profile for viewers, in the processed format of the Firefox Profiler.
//!
//! The format is described at <https://github.com/firefox-devtools/profiler/blob/main/docs-developer/processed-profile-format.md>.
//! Tables are structures of columns, and name each other's rows by number. A process is a thread of the profile, and each stack of
//! owners is one sample, whose weight is its cost. The time of samples means nothing: they are one millisecond apart.

use super::names::{NamedFrame, Stack};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

/// The version of the format. The viewer upgrades older versions than its own.
const VERSION: u32 = 55;

/// Returns the profile of `program`, with these stacks and their weights.
pub fn profile(program: &str, stacks: &BTreeMap<&Stack, u64>) -> String {
    let mut processes: BTreeMap<&str, Vec<(&Stack, u64)>> = BTreeMap::new();
    for (stack, weight) in stacks {
        processes.entry(&stack.process).or_default().push((stack, *weight));
    }
    let threads = processes.into_iter().enumerate().map(|(number, (process, stacks))| {
        let mut thread = Thread::default();
        let samples: Vec<(usize, u64)> = stacks.iter().map(|(stack, weight)| (thread.stack(stack), *weight)).collect();
        thread.value(number, process, &samples)
    });
    let profile = json!({
        "meta": {
            "categories": [{ "name": "Other", "color": "grey", "subcategories": ["Other"] }],
            "debug": false,
            "extensions": { "length": 0, "baseURL": [], "id": [], "name": [] },
            "interval": 1,
            "markerSchema": [],
            "pausedRanges": [],
            "preprocessedProfileVersion": VERSION,
            "processType": 0,
            "product": format!("reach where: {program}"),
            "sampleUnits": { "time": "ms", "eventDelay": "ms", "threadCPUDelta": "µs" },
            "sourceCodeIsNotOnSearchfox": true,
            "startTime": 0,
            "symbolicated": true,
            "usesOnlyOneStackType": true,
            "version": 24,
        },
        "libs": [],
        "threads": threads.collect::<Vec<_>>(),
        "pages": [],
        "profilerOverhead": [],
        "counters": [],
    });
    profile.to_string() + "\n"
}

/// Rows, each once, in the order in which they were asked for first.
struct Table<T> {
    rows: Vec<T>,
    numbers: HashMap<T, usize>,
}

impl<T> Default for Table<T> {
    fn default() -> Table<T> {
        Table { rows: Vec::new(), numbers: HashMap::new() }
    }
}

impl<T: Clone + Eq + Hash> Table<T> {
    /// Returns the number of a row.
    fn number(&mut self, row: T) -> usize {
        *self.numbers.entry(row).or_insert_with_key(|row| {
            self.rows.push(row.clone());
            self.rows.len() - 1
        })
    }

    fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns a column of the table.
    fn column<V: Into<Value>>(&self, field: impl Fn(&T) -> V) -> Vec<Value> {
        self.rows.iter().map(|row| field(row).into()).collect()
    }

    /// Returns a column of the same value in each row.
    fn all(&self, value: impl Into<Value>) -> Vec<Value> {
        vec![value.into(); self.len()]
    }
}

/// A function, with the numbers of its strings.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Function {
    name: usize,
    /// The file that contains its code; `None` for the frame of that file itself.
    resource: Option<usize>,
    source: Option<usize>,
}

/// The tables of a thread.
#[derive(Default)]
struct Thread {
    strings: Table<String>,
    /// Files with code, by their names.
    resources: Table<usize>,
    functions: Table<Function>,
    /// Functions and lines in them.
    frames: Table<(usize, Option<u32>)>,
    /// The stack that calls, and the frame.
    stacks: Table<(Option<usize>, usize)>,
}

impl Thread {
    fn string(&mut self, text: &str) -> usize {
        self.strings.number(text.to_owned())
    }

    /// Returns the number of a stack.
    fn stack(&mut self, stack: &Stack) -> usize {
        let file = self.string(stack.file.as_deref().unwrap_or(&stack.process));
        let root = self.functions.number(Function { name: file, resource: None, source: None });
        let frame = self.frames.number((root, None));
        let mut top = self.stacks.number((None, frame));
        for NamedFrame { function, source, line } in &stack.frames {
            let name = self.string(function);
            let source = source.as_ref().map(|source| self.string(source));
            let resource = Some(self.resources.number(file));
            let function = self.functions.number(Function { name, resource, source });
            let frame = self.frames.number((function, *line));
            top = self.stacks.number((Some(top), frame));
        }
        top
    }

    /// Returns the thread that has these samples: stacks and weights.
    fn value(&self, number: usize, process: &str, samples: &[(usize, u64)]) -> Value {
        let Thread { strings, resources, functions, frames, stacks } = self;
        let (of_stack, weights): (Vec<usize>, Vec<u64>) = samples.iter().copied().unzip();
        json!({
            "name": process,
            "processName": process,
            "processType": "default",
            "isMainThread": true,
            "pid": number.to_string(),
            "tid": number.to_string(),
            "processStartupTime": 0,
            "processShutdownTime": null,
            "registerTime": 0,
            "unregisterTime": null,
            "pausedRanges": [],
            "showMarkersInTimeline": false,
            "stringArray": strings.rows,
            "samples": {
                "length": samples.len(),
                "stack": of_stack,
                "timeDeltas": vec![1; samples.len()],
                "weight": weights,
                "weightType": "samples",
            },
            "stackTable": {
                "length": stacks.len(),
                "prefix": stacks.column(|(prefix, _)| *prefix),
                "frame": stacks.column(|(_, frame)| *frame),
            },
            "frameTable": {
                "length": frames.len(),
                "address": frames.all(-1),
                "inlineDepth": frames.all(0),
                "category": frames.all(0),
                "subcategory": frames.all(0),
                "func": frames.column(|(function, _)| *function),
                "nativeSymbol": frames.all(Value::Null),
                "innerWindowID": frames.all(0),
                "line": frames.column(|(_, line)| *line),
                "column": frames.all(Value::Null),
            },
            "funcTable": {
                "length": functions.len(),
                "name": functions.column(|function| function.name),
                "isJS": functions.all(false),
                "relevantForJS": functions.all(false),
                "resource": functions.column(|function| function.resource.map_or(-1, |resource| resource as i64)),
                "fileName": functions.column(|function| function.source),
                "lineNumber": functions.all(Value::Null),
                "columnNumber": functions.all(Value::Null),
            },
            "resourceTable": {
                "length": resources.len(),
                "lib": resources.all(Value::Null),
                "name": resources.column(|name| *name),
                "host": resources.all(Value::Null),
                // A library.
                "type": resources.all(1),
            },
            "nativeSymbols": { "length": 0, "address": [], "functionSize": [], "libIndex": [], "name": [] },
            "markers": {
                "length": 0, "category": [], "data": [], "endTime": [], "name": [], "phase": [], "startTime": [],
            },
        })
    }
}
