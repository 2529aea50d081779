//! Which mapping an address belongs to, and what mappings are called.

use super::MappingId;
use super::callers::Caller;
use reach_core::{Asid, Backing, Event, FileId, Map, Remap, Role, Span, VirtAddr};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// What a mapping is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MappingKind {
    /// The heap that `brk` grows.
    Heap,
    /// A stack.
    Stack,
    /// Zero-filled memory that the program mapped.
    Anonymous,
    /// The zero-filled data of an executable or library: its .bss.
    Zeroed {
        /// The file.
        file: FileId,
    },
    /// A file, from `offset` bytes on.
    File {
        /// The file, of [`super::Attribution::files`].
        file: FileId,
        /// The place in the file where the mapping starts, in bytes.
        offset: u64,
        /// Whether it is code.
        code: bool,
    },
    /// Whatever instructions on a wrong path access: they do not retire, and their addresses are not the program's.
    WrongPath,
    /// No mapping that the program announced.
    Unknown,
}

/// A mapping, with all that it grew to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// The process that mapped it.
    pub asid: Asid,
    /// Its addresses, the most that it ever had.
    pub span: Span,
    /// What it is.
    pub kind: MappingKind,
    /// The calls that led to it, by their number in [`super::Attribution::calls`]; number 0 has none.
    pub made_by: usize,
}

impl Mapping {
    /// Returns the file that contains `address`, and its place there in bytes; `None` where no file does.
    pub(super) fn place(&self, address: VirtAddr) -> Option<(FileId, u64)> {
        let MappingKind::File { file, offset, .. } = self.kind else { return None };
        Some((file, offset.checked_add(address.0.checked_sub(self.span.start.0)?)?))
    }
}

/// A file of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Its path, as the program saw it.
    pub path: String,
    /// Its length in bytes then.
    pub len: u64,
}

/// Which processes may have compiled the code of mappings.
#[derive(Clone, Debug, Default)]
pub(super) struct Origins {
    /// The mappings that others are copies of, by fork.
    copied_from: FxHashMap<MappingId, MappingId>,
    /// The first mapping of each process since its last exec.
    first: FxHashMap<Asid, MappingId>,
}

impl Origins {
    /// Returns the processes that may have compiled the code of mapping `code`, of `all`: the one that mapped it, then the
    /// ancestors that had it before. A process that has executed another program since is none.
    pub fn compilers(&self, code: MappingId, all: &[Mapping]) -> Vec<Asid> {
        let chain = std::iter::successors(Some(code), |copy| self.copied_from.get(copy).copied());
        let process = |id: MappingId| {
            let asid = all[id.0 as usize].asid;
            self.first.get(&asid).is_none_or(|first| *first <= id).then_some(asid)
        };
        chain.map_while(process).collect()
    }
}

/// The part of a mapping that has not been unmapped or replaced.
#[derive(Clone, Copy, Debug)]
struct Part {
    end: u64,
    id: MappingId,
}

/// The parts of one process, by their first addresses.
type Space = BTreeMap<u64, Part>;

/// The mappings of all processes.
#[derive(Debug)]
pub(super) struct Mappings {
    all: Vec<Mapping>,
    files: FxHashMap<FileId, File>,
    /// Blocks that may have made the calls that led to mappings; each list once, the empty one first.
    callers: Vec<Vec<Caller>>,
    numbers: FxHashMap<Vec<Caller>, usize>,
    spaces: FxHashMap<Asid, Space>,
    /// Children of vfork that still use the memory of another process.
    borrowers: FxHashMap<Asid, Asid>,
    origins: Origins,
    current: Asid,
    /// The part that was found last.
    recent: Option<(u64, Part)>,
}

impl Default for Mappings {
    fn default() -> Mappings {
        let nothing = |kind| Mapping { asid: Asid(0), span: Span { start: VirtAddr(0), len: 0 }, kind, made_by: 0 };
        Mappings {
            all: [MappingKind::Unknown, MappingKind::WrongPath].map(nothing).into(),
            files: FxHashMap::default(),
            callers: vec![Vec::new()],
            numbers: FxHashMap::from_iter([(Vec::new(), 0)]),
            spaces: FxHashMap::default(),
            borrowers: FxHashMap::default(),
            origins: Origins::default(),
            current: Asid(0),
            recent: None,
        }
    }
}

impl Mappings {
    /// Addresses without a mapping.
    pub const UNKNOWN: MappingId = MappingId(0);
    /// What wrong paths access.
    pub const WRONG_PATH: MappingId = MappingId(1);

    /// Returns the address space of the process that runs.
    pub fn current(&self) -> Asid {
        self.current
    }

    /// Returns the mapping of `address` in the process that runs.
    pub fn find(&mut self, address: VirtAddr) -> MappingId {
        if let Some((start, part)) = self.recent
            && (start..part.end).contains(&address.0)
        {
            return part.id;
        }
        let found = self.spaces.get(&self.owner()).and_then(|space| space.range(..=address.0).next_back());
        match found {
            Some((&start, &part)) if address.0 < part.end => {
                self.recent = Some((start, part));
                part.id
            }
            _ => Mappings::UNKNOWN,
        }
    }

    /// Returns what the mapping of `address` is, in the process that runs.
    pub fn kind_at(&mut self, address: VirtAddr) -> MappingKind {
        let id = self.find(address);
        self.all[id.0 as usize].kind
    }

    /// Returns the file that contains the code at `pc`, and its place there in bytes.
    pub fn place(&mut self, pc: VirtAddr) -> Option<(FileId, u64)> {
        let id = self.find(pc);
        self.all[id.0 as usize].place(pc)
    }

    /// Takes an event of the program, to which `callers` have led.
    pub fn notice(&mut self, event: &Event, callers: Vec<Caller>) {
        self.recent = None;
        match event {
            Event::File { file, path, len, .. } => {
                self.files.insert(*file, File { path: path.clone(), len: *len });
            }
            Event::Map(map) => self.map(map, callers),
            Event::Unmap(span) => cut(self.space(), *span),
            Event::Remap(remap) => self.remap(remap),
            Event::Fork { child, shares_memory: true } => drop(self.borrowers.insert(*child, self.owner())),
            Event::Fork { child, .. } => {
                let copy = self.copy(*child);
                self.spaces.insert(*child, copy);
            }
            Event::Exec { .. } | Event::Exit => {
                let borrows = self.borrowers.remove(&self.current).is_some();
                if !borrows {
                    self.spaces.remove(&self.current);
                }
                if let Event::Exec { .. } = event {
                    self.origins.first.insert(self.current, MappingId(self.all.len() as u32));
                }
            }
            Event::Switch { asid, .. } => self.current = *asid,
            _ => {}
        }
    }

    /// Returns the process whose memory the current process uses.
    fn owner(&self) -> Asid {
        self.borrowers.get(&self.current).copied().unwrap_or(self.current)
    }

    fn space(&mut self) -> &mut Space {
        self.spaces.entry(self.owner()).or_default()
    }

    /// Returns a copy of the current process's memory for `child`, as mappings of its own.
    fn copy(&mut self, child: Asid) -> Space {
        let mut copy = self.space().clone();
        let mut copies: FxHashMap<MappingId, MappingId> = FxHashMap::default();
        for part in copy.values_mut() {
            let (all, origins) = (&mut self.all, &mut self.origins);
            part.id = *copies.entry(part.id).or_insert_with(|| {
                let copy = MappingId(all.len() as u32);
                all.push(Mapping { asid: child, ..all[part.id.0 as usize] });
                origins.copied_from.insert(copy, part.id);
                copy
            });
        }
        copy
    }

    fn map(&mut self, map: &Map, callers: Vec<Caller>) {
        // The loader maps the .bss of a file behind its data.
        let below = self.find(VirtAddr(map.span.start.0.saturating_sub(1)));
        self.recent = None;
        let data = match self.all[below.0 as usize].kind {
            MappingKind::File { file, code: false, .. } | MappingKind::Zeroed { file } => Some(file),
            _ => None,
        };
        let made_by = self.number(callers);
        let kind = match (map.role, map.backing) {
            (Role::Heap, _) => MappingKind::Heap,
            (Role::Stack, _) => MappingKind::Stack,
            (_, Backing::Anonymous) => match data.filter(|_| made_by == 0) {
                Some(file) => MappingKind::Zeroed { file },
                None => MappingKind::Anonymous,
            },
            (_, Backing::File { file, offset }) => MappingKind::File { file, offset, code: map.protection.execute },
        };
        self.insert(map.span, kind, made_by);
    }

    /// Adds a mapping, or lets one grow that it continues, above or below, and that the same call has made.
    fn insert(&mut self, span: Span, kind: MappingKind, made_by: usize) {
        let (owner, (start, end)) = (self.owner(), (span.start.0, span.end().0));
        if start == end {
            return;
        }
        cut(self.space(), span);
        let grows = matches!(kind, MappingKind::Heap | MappingKind::Anonymous);
        let space = self.spaces.entry(owner).or_default();
        let below = space.range(..start).next_back().filter(|(_, part)| part.end == start).map(|(_, part)| part.id);
        let above = space.get(&end).map(|part| part.id);
        let continues = |mapping: &Mapping| mapping.kind == kind && mapping.made_by == made_by;
        let grown = [below, above].into_iter().flatten().find(|id| grows && continues(&self.all[id.0 as usize]));
        let id = grown.unwrap_or(MappingId(self.all.len() as u32));
        match self.all.get_mut(id.0 as usize) {
            Some(mapping) => {
                let (from, to) = (mapping.span.start.0.min(start), mapping.span.end().0.max(end));
                mapping.span = Span { start: VirtAddr(from), len: to - from };
            }
            None => self.all.push(Mapping { asid: owner, span, kind, made_by }),
        }
        space.insert(start, Part { end, id });
    }

    fn remap(&mut self, remap: &Remap) {
        let found = self.find(remap.from.start);
        let mapping = self.all[found.0 as usize];
        let kind = match (mapping.kind, mapping.place(remap.from.start)) {
            (MappingKind::File { code, .. }, Some((file, offset))) => MappingKind::File { file, offset, code },
            (kind, _) => kind,
        };
        self.recent = None;
        if !remap.keep {
            cut(self.space(), remap.from);
        }
        self.insert(remap.to, kind, mapping.made_by);
    }

    /// Returns the number of a list of callers.
    fn number(&mut self, callers: Vec<Caller>) -> usize {
        let all = &mut self.callers;
        *self.numbers.entry(callers).or_insert_with_key(|callers| {
            all.push(callers.clone());
            all.len() - 1
        })
    }

    /// Returns all mappings, their origins, files, and lists of callers.
    pub fn finish(self) -> (Vec<Mapping>, Origins, FxHashMap<FileId, File>, Vec<Vec<Caller>>) {
        (self.all, self.origins, self.files, self.callers)
    }
}

/// Removes `span` from `space`.
fn cut(space: &mut Space, span: Span) {
    let (start, end) = (span.start.0, span.end().0);
    let before = space.range(..start).next_back().map(|(&from, &part)| (from, part));
    if let Some((from, part)) = before.filter(|(_, part)| part.end > start) {
        space.insert(from, Part { end: start, ..part });
        if part.end > end {
            space.insert(end, part);
        }
    }
    let inside: Vec<(u64, Part)> = space.range(start..end).map(|(&from, &part)| (from, part)).collect();
    for (from, part) in inside {
        space.remove(&from);
        if part.end > end {
            space.insert(end, part);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reach_core::ThreadId;

    fn map(start: u64, len: u64) -> Event {
        Event::Map(Map::anonymous(VirtAddr(start), len))
    }

    fn switch(asid: u32) -> Event {
        Event::Switch { asid: Asid(asid), thread: ThreadId(0) }
    }

    #[test]
    fn a_mapping_keeps_its_number_while_it_grows_and_is_cut() {
        let mut mappings = Mappings::default();
        [switch(0), map(0x4000, 0x4000), map(0x8000, 0x1000), map(0x3000, 0x1000)]
            .iter()
            .for_each(|e| mappings.notice(e, Vec::new()));
        let id = mappings.find(VirtAddr(0x4000));
        assert!(id != Mappings::UNKNOWN);
        assert_eq!([0x3000, 0x8fff].map(|at| mappings.find(VirtAddr(at))), [id, id]);
        assert_eq!(mappings.all[id.0 as usize].span, Span { start: VirtAddr(0x3000), len: 0x6000 });
        mappings.notice(&Event::Unmap(Span { start: VirtAddr(0x5000), len: 0x1000 }), Vec::new());
        assert_eq!(
            [0x4fff, 0x5000, 0x5fff, 0x6000].map(|at| mappings.find(VirtAddr(at)) == id),
            [true, false, false, true]
        );
        // Something else in the hole is another mapping.
        mappings.notice(&Event::Map(Map { role: Role::Stack, ..Map::anonymous(VirtAddr(0x5000), 0x1000) }), Vec::new());
        assert!(![id, Mappings::UNKNOWN].contains(&mappings.find(VirtAddr(0x5800))));
    }

    #[test]
    fn a_child_has_its_parents_mappings_until_it_executes_another_program() {
        let mut mappings = Mappings::default();
        [switch(0), map(0x4000, 0x1000)].iter().for_each(|e| mappings.notice(e, Vec::new()));
        let id = mappings.find(VirtAddr(0x4000));
        for shares_memory in [false, true] {
            let child = 1 + u32::from(shares_memory);
            mappings.notice(&switch(0), Vec::new());
            mappings.notice(&Event::Fork { child: Asid(child), shares_memory }, Vec::new());
            mappings.notice(&switch(child), Vec::new());
            let found = mappings.find(VirtAddr(0x4000));
            // A copy is its own; what is lent is the parent's.
            let (owner, span) = (mappings.all[found.0 as usize].asid, mappings.all[found.0 as usize].span);
            assert_eq!((owner.0, span.len), (if shares_memory { 0 } else { child }, 0x1000));
            mappings.notice(&Event::Exec { path: "/bin/true".into() }, Vec::new());
            assert_eq!(mappings.find(VirtAddr(0x4000)), Mappings::UNKNOWN);
            mappings.notice(&switch(0), Vec::new());
            assert_eq!(mappings.find(VirtAddr(0x4000)), id);
        }
    }

    #[test]
    fn code_has_its_names_from_those_who_have_had_it_and_run_the_same_program() {
        let mut mappings = Mappings::default();
        let fork = |child| Event::Fork { child: Asid(child), shares_memory: false };
        let events = [switch(0), map(0x4000, 0x1000), fork(1), switch(1), map(0x8000, 0x1000), fork(2), switch(2)];
        events.iter().for_each(|e| mappings.notice(e, Vec::new()));
        let [inherited, own] = [0x4000, 0x8000].map(|at| mappings.find(VirtAddr(at)));
        let compilers = |mappings: &Mappings, id| mappings.origins.compilers(id, &mappings.all);
        assert_eq!(compilers(&mappings, inherited), [Asid(2), Asid(1), Asid(0)]);
        assert_eq!(compilers(&mappings, own), [Asid(2), Asid(1)]);
        // The parent's names are of another program now, and so are those of a process that has executed one.
        let exec = || Event::Exec { path: "/bin/true".into() };
        [switch(1), exec()].iter().for_each(|e| mappings.notice(e, Vec::new()));
        assert_eq!(compilers(&mappings, inherited), [Asid(2)]);
        [switch(2), exec(), map(0x4000, 0x1000)].iter().for_each(|e| mappings.notice(e, Vec::new()));
        assert!(compilers(&mappings, inherited).is_empty());
        let new = mappings.find(VirtAddr(0x4000));
        assert_eq!(compilers(&mappings, new), [Asid(2)]);
    }

    #[test]
    fn a_mapping_that_moves_keeps_what_it_is() {
        let mut mappings = Mappings::default();
        let file = Map {
            backing: Backing::File { file: FileId(0), offset: 0x1000 },
            ..Map::anonymous(VirtAddr(0x4000), 0x3000)
        };
        [switch(0), Event::Map(file)].iter().for_each(|e| mappings.notice(e, Vec::new()));
        let from = Span { start: VirtAddr(0x5000), len: 0x1000 };
        let to = Span { start: VirtAddr(0x9000), len: 0x2000 };
        mappings.notice(&Event::Remap(Remap { from, to, keep: false }), Vec::new());
        let id = mappings.find(VirtAddr(0x9000));
        let kind = MappingKind::File { file: FileId(0), offset: 0x2000, code: false };
        assert_eq!((mappings.all[id.0 as usize].span, mappings.all[id.0 as usize].kind), (to, kind));
        assert_eq!(mappings.find(VirtAddr(0x5000)), Mappings::UNKNOWN);
    }
}
