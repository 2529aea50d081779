//! A plain model of address spaces, made from events only.

use reach_core::{Asid, Chunk, Event, Kind, Protection, Span};
use std::collections::BTreeMap;

/// The end and the rights of each mapping, by its start.
type Maps = BTreeMap<u64, (u64, Protection)>;

/// Applies events, and counts references that no mapping allows.
#[derive(Default)]
pub struct Spaces {
    spaces: BTreeMap<Asid, Maps>,
    pub current: Option<Asid>,
    /// References that no mapping allows.
    pub violations: u64,
    pub first_violation: Option<String>,
    pub references: u64,
    pub exits: u64,
    pub forks: u64,
    /// Forks that share memory.
    pub vforks: u64,
    pub execs: Vec<String>,
    /// The mapping of the last reference.
    last: Option<(u64, u64, Protection)>,
}

impl Spaces {
    /// Applies the events of `chunk` and checks its references.
    pub fn apply(&mut self, chunk: &Chunk) {
        let mut events = chunk.events.iter().peekable();
        for (i, r) in chunk.refs.iter().enumerate() {
            while let Some((_, event)) = events.next_if(|(at, _)| *at as usize <= i) {
                self.apply_event(event);
            }
            self.references += 1;
            let addr = r.addr().0;
            if !self.last.is_some_and(|(start, end, _)| start <= addr && addr < end) {
                let maps = self.current.and_then(|asid| self.spaces.get(&asid));
                let found = maps.and_then(|maps| maps.range(..=addr).next_back());
                self.last =
                    found.map(|(&start, &(end, rights))| (start, end, rights)).filter(|&(_, end, _)| addr < end);
            }
            let allowed = self.last.is_some_and(|(_, _, rights)| match r.kind() {
                Kind::Fetch => rights.execute,
                Kind::Load => rights.read,
                Kind::Store => rights.write,
            });
            if !allowed {
                self.violations += 1;
                let (current, last) = (self.current, self.last);
                self.first_violation.get_or_insert_with(|| format!("{r:?} of {current:?} in {last:x?}"));
            }
        }
        events.for_each(|(_, event)| self.apply_event(event));
    }

    /// Returns the mappings of the current address space.
    fn maps(&mut self) -> &mut Maps {
        self.last = None;
        let asid = self.current.expect("a switch comes first");
        self.spaces.entry(asid).or_default()
    }

    fn apply_event(&mut self, event: &Event) {
        self.last = None;
        match event {
            Event::Switch { asid, .. } => self.current = Some(*asid),
            Event::Map(map) => {
                remove(self.maps(), map.span);
                self.maps().insert(map.span.start.0, (map.span.end().0, map.protection));
            }
            Event::Unmap(span) => drop(remove(self.maps(), *span)),
            Event::Protect(span, rights) => {
                for (start, end, _) in remove(self.maps(), *span) {
                    self.maps().insert(start, (end, *rights));
                }
            }
            Event::Remap(remap) => {
                let (from, to) = (remap.from, remap.to);
                let old = if remap.keep { self.maps().clone() } else { BTreeMap::new() };
                let pieces = remove(self.maps(), from);
                if remap.keep {
                    *self.maps() = old;
                }
                let rights = pieces.first().map_or(Protection::NONE, |&(_, _, rights)| rights);
                remove(self.maps(), to);
                self.maps().insert(to.start.0, (to.end().0, rights));
            }
            // The emulator forks for vfork too, so the child really has a copy.
            Event::Fork { child, shares_memory } => {
                let copy = self.maps().clone();
                self.spaces.insert(*child, copy);
                self.forks += 1;
                self.vforks += u64::from(*shares_memory);
            }
            Event::Exec { path } => {
                self.maps().clear();
                self.execs.push(path.clone());
            }
            Event::Exit => {
                self.maps().clear();
                self.exits += 1;
            }
            Event::Advise(..) | Event::File { .. } | Event::Phase(_) | Event::Mark(_) | Event::SystemCall(_) => {}
        }
    }
}

/// Removes a span. Returns the parts of mappings that were in it.
fn remove(maps: &mut Maps, span: Span) -> Vec<(u64, u64, Protection)> {
    let (from, to) = (span.start.0, span.end().0);
    let overlapping: Vec<_> =
        maps.range(..to).filter(|(_, (end, _))| *end > from).map(|(&s, &(e, r))| (s, e, r)).collect();
    for &(start, end, rights) in &overlapping {
        maps.remove(&start);
        if start < from {
            maps.insert(start, (from, rights));
        }
        if end > to {
            maps.insert(to, (end, rights));
        }
    }
    overlapping.into_iter().map(|(start, end, rights)| (start.max(from), end.min(to), rights)).collect()
}
