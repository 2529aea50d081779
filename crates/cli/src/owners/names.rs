//! What the owners of costs are called.

use super::compiled::CompiledCode;
use crate::units;
use reach_core::{Asid, FileId, Shown, VirtAddr};
use reach_hardware::TranslationSpent;
use reach_lab::attribution::{Attribution, EXTENT_SHIFT, File, Mapping, MappingId, MappingKind, Site};
use reach_symbols::{Frame, Symbols};
use reach_trace::Execution;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

/// A cost with the names of its owners.
pub struct Named {
    pub mapping: String,
    pub function: String,
    pub line: String,
    pub script: String,
    pub extent: String,
    /// The frames of a flame graph.
    pub stack: Stack,
    pub spent: TranslationSpent,
    /// The extent, by which the memory that was touched is known.
    pub place: Option<(MappingId, u64)>,
}

/// The owners of a cost, each within the one before: process, file, functions.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stack {
    /// The process, or what works for none.
    pub process: String,
    /// What the code is in; `None` where no code of the program has caused the cost.
    pub file: Option<String>,
    /// The functions, the inlined ones inside those that contain them; empty where they have no names.
    pub frames: Vec<NamedFrame>,
}

/// A function and the place in it, as terminals may show them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NamedFrame {
    pub function: String,
    /// The path of the source file; `None` if it is not known.
    pub source: Option<String>,
    pub line: Option<u32>,
}

/// Names the owners of an attribution.
pub struct Names<'a> {
    attribution: &'a Attribution,
    processes: &'a BTreeMap<Asid, String>,
    /// Whether there are several processes, so that private memory needs the name of its process.
    several: bool,
    /// The names of all mappings, by number.
    mappings: Vec<String>,
    symbols: RefCell<Symbols>,
    compiled: RefCell<CompiledCode<'a>>,
    changed: RefCell<BTreeSet<String>>,
}

impl<'a> Names<'a> {
    /// Names the owners of `attribution`, of a program with these `processes`, by name, that ran as `execution`.
    pub fn new(
        attribution: &'a Attribution,
        processes: &'a BTreeMap<Asid, String>,
        several: bool,
        execution: Option<&'a Execution>,
    ) -> Names<'a> {
        let mut names = Names {
            attribution,
            processes,
            several,
            mappings: Vec::new(),
            symbols: RefCell::default(),
            compiled: RefCell::new(CompiledCode::new(attribution, execution)),
            changed: RefCell::default(),
        };
        names.mappings = attribution.mappings.iter().map(|mapping| names.mapping(mapping)).collect();
        names
    }

    /// Returns all costs with their names. `cycles` are those that the core waited for translation in all: what no reference has
    /// caused is the work of a policy in the miss handler.
    pub fn spent(&self, cycles: u64) -> Vec<Named> {
        let mut frames = HashMap::new();
        let mut costs: Vec<Named> = Vec::with_capacity(self.attribution.sites.len());
        for (site, spent) in &self.attribution.sites {
            let frames = frames.entry((site.block, site.instruction, site.code)).or_insert_with(|| {
                let place = self.attribution.place(site);
                let known = place.map(|(file, offset)| self.frames(file, offset)).unwrap_or_default();
                if known.is_empty() { self.compiled(site) } else { known }
            });
            costs.push(self.name(site, frames, *spent));
        }
        let cycles = cycles.saturating_sub(self.attribution.total().cycles);
        if cycles > 0 {
            let name = || "(policy in the miss handler)".to_owned();
            let spent = TranslationSpent { cycles, ..TranslationSpent::default() };
            costs.push(Named {
                mapping: name(),
                function: name(),
                line: name(),
                script: name(),
                extent: name(),
                stack: Stack { process: name(), file: None, frames: Vec::new() },
                spent,
                place: None,
            });
        }
        costs
    }

    fn name(&self, site: &Site, frames: &[Frame], spent: TranslationSpent) -> Named {
        let file = &self.mappings[site.code.0 as usize];
        let unnamed = || format!("(no symbol) in {file}");
        let function = |frame: &Frame| frame.function.as_ref().map_or_else(unnamed, |name| name.shown().to_string());
        let line = frames.first().and_then(|frame| Some((frame.source.as_deref()?, frame.line?)));
        let mapping = &self.mappings[site.mapping.0 as usize];
        let named = |frame: &Frame| NamedFrame {
            function: function(frame),
            source: frame.source.as_ref().map(|source| source.shown().to_string()),
            line: frame.line,
        };
        let frames_outermost_first = frames.iter().rev().map(named).collect();
        Named {
            function: frames.first().map_or_else(unnamed, function),
            line: match line {
                Some((source, line)) => format!("{}:{line}", base_name(source)),
                None => format!("(no line) {}", frames.first().map_or_else(unnamed, function)),
            },
            script: site.script.map_or_else(|| "(no script)".into(), |(code, at)| self.script(code, at)),
            extent: self.extent((site.mapping, site.extent)),
            mapping: mapping.clone(),
            stack: Stack { process: self.process(site.asid), file: Some(file.clone()), frames: frames_outermost_first },
            spent,
            place: Some((site.mapping, site.extent)),
        }
    }

    /// Returns whether the functions of a script have names.
    pub fn has_scripts(&self) -> bool {
        let mut scripts = self.attribution.sites.keys().filter_map(|site| site.script);
        scripts.any(|(code, at)| self.compiled.borrow_mut().name(code, at).is_some())
    }

    /// Returns the name of the script's function at `address`.
    fn script(&self, code: MappingId, address: VirtAddr) -> String {
        let name = self.compiled.borrow_mut().name(code, address);
        name.map_or_else(|| format!("(no symbol) in {}", self.mapping_of(code)), |name| name.shown().to_string())
    }

    /// Returns the name of an extent of a mapping.
    pub fn extent(&self, (id, extent): (MappingId, u64)) -> String {
        let mapping = self.mapping_of(id);
        match extent {
            0 if self.is_nowhere(id) => mapping.to_owned(),
            extent => format!("{:#x} in {mapping}", extent << EXTENT_SHIFT),
        }
    }

    /// Returns whether a mapping stands for accesses that have no address.
    pub fn is_nowhere(&self, id: MappingId) -> bool {
        matches!(self.attribution.mapping(id).kind, MappingKind::WrongPath | MappingKind::Unknown)
    }

    /// Returns the name of a mapping.
    pub fn mapping_of(&self, id: MappingId) -> &str {
        &self.mappings[id.0 as usize]
    }

    /// Returns the call that led to anonymous memory: the last one with a source line, or else with a name.
    fn maker(&self, mapping: &Mapping) -> Option<String> {
        let file = |file: &FileId| self.attribution.files.get(file);
        let frames = self
            .attribution
            .calls
            .get(mapping.made_by)?
            .iter()
            .filter_map(|(id, offset)| Some(self.frames(file(id)?, *offset)));
        let calls: Vec<Frame> = frames.filter_map(|frames| frames.into_iter().next()).collect();
        let call = calls.iter().find(|call| call.line.is_some()).or_else(|| calls.first())?;
        Some(match (&call.function, &call.source, call.line) {
            (Some(function), Some(source), Some(line)) => {
                format!("{} ({}:{line})", function.shown(), base_name(source))
            }
            (_, Some(source), Some(line)) => format!("{}:{line}", base_name(source)),
            (function, ..) => function.as_ref()?.shown().to_string(),
        })
    }

    /// Returns the frames of a place in a file; none where it is not the file that the program ran.
    fn frames(&self, file: &File, offset: u64) -> Vec<Frame> {
        let is_same = std::fs::metadata(&file.path).map(|now| now.len() == file.len);
        if let Ok(false) = is_same {
            self.changed.borrow_mut().insert(file.path.clone());
            return Vec::new();
        }
        self.symbols.borrow_mut().frames(&file.path, offset)
    }

    /// Returns the frame of code that was compiled at run time; none where its process does not name it.
    fn compiled(&self, site: &Site) -> Vec<Frame> {
        let address = site.block.and_then(|block| self.attribution.instructions.get(&(block, site.instruction)));
        let function = address.and_then(|&address| self.compiled.borrow_mut().name(site.code, address));
        function.map(|name| Frame { function: Some(name), ..Frame::default() }).into_iter().collect()
    }

    /// Returns the files that have changed since the program ran, of those that were asked for.
    pub fn changed(&self) -> Vec<String> {
        self.changed.borrow().iter().cloned().collect()
    }

    fn process(&self, asid: Asid) -> String {
        let Some(path) = self.processes.get(&asid) else { return format!("process {}", asid.0) };
        let name = base_name(path);
        let others = self.processes.iter().any(|(other, path)| *other != asid && base_name(path) == name);
        if others { format!("{name} {}", asid.0) } else { name }
    }

    fn file(&self, file: FileId) -> String {
        self.attribution.files.get(&file).map_or_else(|| "a file".into(), |file| base_name(&file.path))
    }

    fn mapping(&self, mapping: &Mapping) -> String {
        let private = match mapping.kind {
            MappingKind::Heap => "[heap]".to_owned(),
            MappingKind::Stack => "[stack]".to_owned(),
            MappingKind::Anonymous => match self.maker(mapping) {
                Some(maker) => format!("[anonymous] {maker}"),
                None => format!("[anonymous {:#x}, {}]", mapping.span.start.0, units::memory(mapping.span.len)),
            },
            MappingKind::File { file, code, .. } => {
                return format!("{} ({})", self.file(file), if code { "code" } else { "data" });
            }
            MappingKind::Zeroed { file } => format!("{} (bss)", self.file(file)),
            MappingKind::WrongPath => return "(wrong path)".into(),
            MappingKind::Unknown => return "(no mapping)".into(),
        };
        if self.several { format!("{private} of {}", self.process(mapping.asid)) } else { private }
    }
}

/// Returns the last part of a path, as terminals may show it.
fn base_name(path: &str) -> String {
    Path::new(path).file_name().and_then(|name| name.to_str()).unwrap_or(path).shown().to_string()
}
