//! The twin of address spaces and demand paging: one record a page, one number a copy of its contents.
//!
//! It keeps what a program can tell: which pages it may use and how, and which of its private pages are one with those
//! of a relative. Translations to the page of zeroes and to cached pages of files may come and go unseen; where they
//! are, they must be the right ones. All sizes are in base pages of 4 KB.

use reach_core::{Advice, Asid, Backing, Event, FileId, Kind, Map, Protection, Remap, Span, ThreadId, VirtAddr};
use std::collections::BTreeMap;

const PAGE: u64 = 4096;

/// What stands behind a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Behind {
    /// Private memory.
    Private,
    /// Memory of a shared object.
    Shared(u64),
    /// A file, privately.
    FilePrivate(u32),
    /// A file, shared.
    FileShared(u32),
}

/// A page of an address space.
#[derive(Clone, Copy, Debug)]
struct Page {
    behind: Behind,
    index: u64,
    rights: Protection,
}

/// What happens, small enough to be decoded from a random word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Op {
    Map { at: u64, len: u64, backing: u8, shared: bool, write: bool },
    Unmap { at: u64, len: u64 },
    Protect { at: u64, len: u64, write: bool },
    Remap { from: u64, len: u64, to: u64, new_len: u64 },
    DontNeed { at: u64, len: u64 },
    Fork { child: u32, shares: bool },
    Switch { asid: u32 },
    Exit,
    Touch { at: u64, store: bool },
}

/// How many pages of each address space are used, from [`FIRST`] on.
pub const PAGES: u64 = 32;
/// The first page used.
pub const FIRST: u64 = 0x40_0000;

impl Op {
    /// Some operation for every word. Touches are as likely as all others together.
    pub fn decode(word: u64) -> Op {
        let mut rest = word >> 5;
        let mut below = |n: u64| {
            let value = rest % n;
            rest /= n;
            value
        };
        let (at, len) = (below(PAGES), 1 + below(8));
        let len = len.min(PAGES - at);
        match word % 32 {
            0..5 => {
                let (backing, shared, write) = (below(3) as u8, below(3) == 0, below(4) > 0);
                Op::Map { at, len, backing, shared, write }
            }
            5..7 => Op::Unmap { at, len },
            7..9 => Op::Protect { at, len, write: below(2) == 0 },
            9..11 => {
                let to = below(PAGES);
                let new_len = (1 + below(8)).min(PAGES - to);
                let (apart, same) = (to >= at + len || at >= to + new_len, at + new_len <= PAGES && below(3) == 0);
                if same {
                    Op::Remap { from: at, len, to: at, new_len }
                } else if apart {
                    Op::Remap { from: at, len, to, new_len }
                } else {
                    Op::Touch { at, store: true }
                }
            }
            11 => Op::DontNeed { at, len },
            12 => Op::Fork { child: below(3) as u32 + 1, shares: below(2) == 0 },
            13..15 => Op::Switch { asid: below(3) as u32 + 1 },
            15 => Op::Exit,
            _ => Op::Touch { at, store: below(2) == 0 },
        }
    }

    /// The event that a program would send; `None` for a touch.
    pub fn event(self) -> Option<Event> {
        let address = |at: u64| VirtAddr((FIRST + at) * PAGE);
        let span = |at: u64, len: u64| Span { start: address(at), len: len * PAGE };
        let rights = |write| if write { Protection::READ_WRITE } else { Protection::READ };
        Some(match self {
            Op::Map { at, len, backing, shared, write } => Event::Map(Map {
                protection: rights(write),
                shared,
                backing: match backing {
                    0 => Backing::Anonymous,
                    file => Backing::File { file: FileId(file as u32), offset: at * PAGE },
                },
                ..Map::anonymous(address(at), len * PAGE)
            }),
            Op::Unmap { at, len } => Event::Unmap(span(at, len)),
            Op::Protect { at, len, write } => Event::Protect(span(at, len), rights(write)),
            Op::Remap { from, len, to, new_len } => {
                Event::Remap(Remap { from: span(from, len), to: span(to, new_len), keep: false })
            }
            Op::DontNeed { at, len } => Event::Advise(span(at, len), Advice::DontNeed),
            Op::Fork { child, shares } => Event::Fork { child: Asid(child), shares_memory: shares },
            Op::Switch { asid } => Event::Switch { asid: Asid(asid), thread: ThreadId(asid) },
            Op::Exit => Event::Exit,
            Op::Touch { .. } => return None,
        })
    }
}

/// A base page as a real page table translates it.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// Whose.
    pub asid: Asid,
    /// Which page.
    pub vpn: u64,
    /// Its frame.
    pub pfn: u64,
    /// Stores are allowed.
    pub writable: bool,
}

/// All address spaces.
#[derive(Clone, Debug, Default)]
pub struct NaiveSpaces {
    /// Which process runs.
    running: Asid,
    /// In whose pages.
    current: Asid,
    /// Processes that have no pages of their own, and whose they use.
    guests: BTreeMap<Asid, Asid>,
    pages: BTreeMap<(Asid, u64), Page>,
    /// Private contents by page. Equal numbers: one frame.
    contents: BTreeMap<(Asid, u64), u64>,
    next: u64,
}

impl NaiveSpaces {
    /// Does what `op` says. A mapping that is moved must be a whole region or free of holes, as Linux demands;
    /// [`NaiveSpaces::allows`] says whether it is.
    pub fn apply(&mut self, op: Op) {
        let me = self.current;
        let all = |at: u64, len: u64| (at..at + len).map(|page| FIRST + page);
        match op {
            Op::Map { at, len, backing, shared, write } => {
                self.next += 1;
                for (i, vpn) in all(at, len).enumerate() {
                    let behind = match (backing, shared) {
                        (0, false) => Behind::Private,
                        (0, true) => Behind::Shared(self.next),
                        (file, false) => Behind::FilePrivate(file as u32),
                        (file, true) => Behind::FileShared(file as u32),
                    };
                    let index = if backing == 0 { i as u64 } else { at + i as u64 };
                    let rights = if write { Protection::READ_WRITE } else { Protection::READ };
                    self.contents.remove(&(me, vpn));
                    self.pages.insert((me, vpn), Page { behind, index, rights });
                }
            }
            Op::Unmap { at, len } => all(at, len).for_each(|vpn| self.remove(vpn)),
            Op::Protect { at, len, write } => {
                for vpn in all(at, len) {
                    if let Some(page) = self.pages.get_mut(&(me, vpn)) {
                        page.rights = if write { Protection::READ_WRITE } else { Protection::READ };
                    }
                }
            }
            Op::Remap { from, len, to, new_len } => self.remap(from, len, to, new_len),
            Op::DontNeed { at, len } => all(at, len).for_each(|vpn| {
                self.contents.remove(&(me, vpn));
            }),
            Op::Fork { child, shares } => {
                let child = Asid(child);
                if child == me || child == self.running {
                    return;
                }
                self.part(child);
                self.clear(child);
                if shares {
                    self.guests.insert(child, me);
                } else {
                    let pages: Vec<_> = self.pages.range((me, 0)..=(me, u64::MAX)).map(|(&k, &v)| (k.1, v)).collect();
                    self.pages.extend(pages.into_iter().map(|(vpn, page)| ((child, vpn), page)));
                    let own: Vec<_> = self.contents.range((me, 0)..=(me, u64::MAX)).map(|(&k, &v)| (k.1, v)).collect();
                    self.contents.extend(own.into_iter().map(|(vpn, id)| ((child, vpn), id)));
                }
            }
            Op::Switch { asid } => {
                self.running = Asid(asid);
                self.current = *self.guests.get(&self.running).unwrap_or(&self.running);
            }
            Op::Exit => {
                self.part(self.running);
                self.current = self.running;
                if self.current == me {
                    self.clear(me);
                }
            }
            Op::Touch { at, store } => self.touch(FIRST + at, store),
        }
    }

    /// Whether a real kernel would do this: touches need the right, moves need a mapping of one kind without holes.
    pub fn allows(&self, op: Op) -> bool {
        let page = |at: u64| self.pages.get(&(self.current, FIRST + at));
        match op {
            Op::Touch { at, store } => page(at).is_none_or(|page| !store || page.rights.write),
            Op::Remap { from, len, to, new_len } => {
                let Some(first) = page(from) else { return false };
                let like = |at: u64| {
                    let one = |page: &Page| page.behind == first.behind && page.rights == first.rights;
                    page(from + at).is_some_and(|page| one(page) && page.index == first.index + at)
                };
                // Growing in place needs room.
                let room = to != from || (len..new_len).all(|at| page(from + at).is_none());
                (0..len).all(|at| {
                    first.behind == Behind::Private
                        && page(from + at).is_some_and(|p| p.behind == Behind::Private && p.rights == first.rights)
                        || like(at)
                }) && room
            }
            _ => true,
        }
    }

    /// Pages that hold something of their own, which no kernel may lose.
    pub fn written(&self) -> impl Iterator<Item = (Asid, u64)> {
        self.contents.keys().copied()
    }

    /// The kind of reference that a touch makes.
    pub fn kind(store: bool) -> Kind {
        if store { Kind::Store } else { Kind::Load }
    }

    fn remove(&mut self, vpn: u64) {
        self.pages.remove(&(self.current, vpn));
        self.contents.remove(&(self.current, vpn));
    }

    /// Ends whatever `process` shares, as guest or as host.
    fn part(&mut self, process: Asid) {
        self.guests.remove(&process);
        self.guests.retain(|_, host| *host != process);
    }

    fn clear(&mut self, asid: Asid) {
        self.pages.retain(|key, _| key.0 != asid);
        self.contents.retain(|key, _| key.0 != asid);
    }

    fn remap(&mut self, from: u64, len: u64, to: u64, new_len: u64) {
        let me = self.current;
        let moved: Vec<(Page, Option<u64>)> = (0..len)
            .map(|i| {
                let key = (me, FIRST + from + i);
                (self.pages[&key], self.contents.get(&key).copied())
            })
            .collect();
        (0..len).for_each(|i| self.remove(FIRST + from + i));
        (0..new_len).for_each(|i| self.remove(FIRST + to + i));
        for i in 0..new_len {
            let key = (me, FIRST + to + i);
            let (page, own) = match moved.get(i as usize) {
                Some(&(page, own)) => (page, own),
                None => {
                    let last = moved[moved.len() - 1].0;
                    (Page { index: last.index + 1 + (i - len), ..last }, None)
                }
            };
            self.pages.insert(key, page);
            if let Some(id) = own {
                self.contents.insert(key, id);
            }
        }
    }

    fn touch(&mut self, vpn: u64, store: bool) {
        let key = (self.current, vpn);
        let stray = Page { behind: Behind::Private, index: 0, rights: Protection::READ_WRITE };
        let page = *self.pages.entry(key).or_insert(stray);
        if !store || matches!(page.behind, Behind::Shared(_) | Behind::FileShared(_)) {
            return;
        }
        let shared =
            self.contents.get(&key).is_none_or(|id| self.contents.values().filter(|&other| other == id).count() > 1);
        if shared {
            self.next += 1;
            self.contents.insert(key, self.next);
        }
    }

    /// Compares with what real page tables hold; returns the first difference. `zero` is the frame of zeroes.
    /// `superpages`: anonymous pages that were never touched may have frames of their own.
    pub fn differs(&self, seen: &[Seen], zero: u64, superpages: bool) -> Option<String> {
        let by_page: BTreeMap<(Asid, u64), &Seen> = seen.iter().map(|page| ((page.asid, page.vpn), page)).collect();
        for key in self.contents.keys() {
            if !by_page.contains_key(key) {
                return Some(format!("{key:x?} was written but is not mapped"));
            }
        }
        let mut frame_of: BTreeMap<(u8, u64, u64), u64> = BTreeMap::new();
        let mut holder: BTreeMap<u64, (u8, u64, u64)> = BTreeMap::new();
        for (key, real) in &by_page {
            let Some(page) = self.pages.get(key) else { return Some(format!("{real:x?} is mapped but in no mapping")) };
            if real.writable && !page.rights.write {
                return Some(format!("{real:x?} is writable, its mapping is not"));
            }
            let contents = match (self.contents.get(key), page.behind) {
                (Some(&id), _) => (0, id, 0),
                (None, Behind::Private) if real.pfn == zero => (1, 0, 0),
                (None, Behind::Private) if superpages => continue,
                (None, Behind::Private) => return Some(format!("{real:x?} was never written but has a frame")),
                (None, Behind::Shared(object)) => (2, object, page.index),
                (None, Behind::FilePrivate(file) | Behind::FileShared(file)) => (3, file as u64, page.index),
            };
            if *frame_of.entry(contents).or_insert(real.pfn) != real.pfn {
                return Some(format!("{real:x?}: contents {contents:?} are also in {:#x}", frame_of[&contents]));
            }
            if *holder.entry(real.pfn).or_insert(contents) != contents {
                return Some(format!("{real:x?}: its frame holds {:?} as well as {contents:?}", holder[&real.pfn]));
            }
        }
        None
    }
}
