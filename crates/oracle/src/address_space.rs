//! The twin of address spaces and demand paging: a record for each page, and a number for each copy of its contents.
//!
//! It keeps what a program can observe: which pages it may use and how, and which of its private pages share a frame
//! with a relative's. Translations to the zero page and to cached pages of files may come and go unobserved. Where they
//! exist, they must be right. All sizes are in base pages of 4 KB.

mod operation;

pub use operation::{FIRST_PAGE, Op, PAGES};

use reach_core::{Asid, Kind, Protection};
use std::collections::BTreeMap;

/// The backing of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum PageBacking {
    /// Private anonymous memory.
    Private,
    /// A shared object of anonymous memory, by number.
    Shared(u64),
    /// A private mapping of a file.
    FilePrivate(u32),
    /// A shared mapping of a file.
    FileShared(u32),
}

/// A page of an address space.
#[derive(Clone, Copy, Debug)]
struct Page {
    backing: PageBacking,
    /// Its page in the backing.
    index: u64,
    rights: Protection,
}

/// A base page as a page table of the system under test translates it.
#[derive(Clone, Copy, Debug)]
pub struct MappedPage {
    /// The address space.
    pub asid: Asid,
    /// The base page.
    pub vpn: u64,
    /// Its frame.
    pub pfn: u64,
    /// Whether stores are permitted.
    pub writable: bool,
}

/// The address spaces of all processes.
#[derive(Clone, Debug, Default)]
pub struct NaiveAddressSpaces {
    /// The process that runs.
    running: Asid,
    /// The process whose pages it uses.
    current: Asid,
    /// Processes without pages of their own, and those whose pages they use.
    borrowers: BTreeMap<Asid, Asid>,
    pages: BTreeMap<(Asid, u64), Page>,
    /// By page, the number of its private contents. Pages with equal numbers share a frame.
    contents: BTreeMap<(Asid, u64), u64>,
    /// The last number given to contents or to a shared object.
    last_number: u64,
}

impl NaiveAddressSpaces {
    /// Does `op`, which [`NaiveAddressSpaces::allows`].
    pub fn apply(&mut self, op: Op) {
        let me = self.current;
        let vpns = |at: u64, len: u64| (at..at + len).map(|page| FIRST_PAGE + page);
        match op {
            Op::Map { at, len, backing, shared, write } => {
                self.last_number += 1;
                for (i, vpn) in vpns(at, len).enumerate() {
                    let index = if backing == 0 { i as u64 } else { at + i as u64 };
                    let backing = match (backing, shared) {
                        (0, false) => PageBacking::Private,
                        (0, true) => PageBacking::Shared(self.last_number),
                        (file, false) => PageBacking::FilePrivate(file as u32),
                        (file, true) => PageBacking::FileShared(file as u32),
                    };
                    let rights = if write { Protection::READ_WRITE } else { Protection::READ };
                    self.contents.remove(&(me, vpn));
                    self.pages.insert((me, vpn), Page { backing, index, rights });
                }
            }
            Op::Unmap { at, len } => vpns(at, len).for_each(|vpn| self.remove(vpn)),
            Op::Protect { at, len, write } => {
                for vpn in vpns(at, len) {
                    if let Some(page) = self.pages.get_mut(&(me, vpn)) {
                        page.rights = if write { Protection::READ_WRITE } else { Protection::READ };
                    }
                }
            }
            Op::Remap { from, len, to, new_len } => self.remap(from, len, to, new_len),
            Op::DontNeed { at, len } => vpns(at, len).for_each(|vpn| {
                self.contents.remove(&(me, vpn));
            }),
            Op::Fork { child, shares } => {
                let child = Asid(child);
                if child == me || child == self.running {
                    return;
                }
                self.stop_sharing(child);
                self.clear(child);
                if shares {
                    self.borrowers.insert(child, me);
                } else {
                    let pages: Vec<_> = self.pages.range((me, 0)..=(me, u64::MAX)).map(|(&k, &v)| (k.1, v)).collect();
                    self.pages.extend(pages.into_iter().map(|(vpn, page)| ((child, vpn), page)));
                    let own: Vec<_> = self.contents.range((me, 0)..=(me, u64::MAX)).map(|(&k, &v)| (k.1, v)).collect();
                    self.contents.extend(own.into_iter().map(|(vpn, number)| ((child, vpn), number)));
                }
            }
            Op::Switch { asid } => {
                self.running = Asid(asid);
                self.current = *self.borrowers.get(&self.running).unwrap_or(&self.running);
            }
            Op::Exit => {
                self.stop_sharing(self.running);
                self.current = self.running;
                if self.current == me {
                    self.clear(me);
                }
            }
            Op::Touch { at, store } => self.touch(FIRST_PAGE + at, store),
        }
    }

    /// Returns whether Linux would do `op`: a touch needs the right, and a move needs one mapping without holes.
    pub fn allows(&self, op: Op) -> bool {
        let page = |at: u64| self.pages.get(&(self.current, FIRST_PAGE + at));
        match op {
            Op::Touch { at, store } => page(at).is_none_or(|page| !store || page.rights.write),
            Op::Remap { from, len, to, new_len } => {
                let Some(first) = page(from) else { return false };
                let is_alike = |page: &Page| page.backing == first.backing && page.rights == first.rights;
                let continues = |at: u64| {
                    page(from + at).is_some_and(|page| {
                        let is_next = first.backing == PageBacking::Private || page.index == first.index + at;
                        is_alike(page) && is_next
                    })
                };
                // Growing in place needs room.
                let has_room = to != from || (len..new_len).all(|at| page(from + at).is_none());
                (0..len).all(continues) && has_room
            }
            _ => true,
        }
    }

    /// Returns the pages with contents of their own, which no kernel may lose.
    pub fn written_pages(&self) -> impl Iterator<Item = (Asid, u64)> {
        self.contents.keys().copied()
    }

    /// Returns the kind of reference of a touch.
    pub fn kind(store: bool) -> Kind {
        if store { Kind::Store } else { Kind::Load }
    }

    fn remove(&mut self, vpn: u64) {
        self.pages.remove(&(self.current, vpn));
        self.contents.remove(&(self.current, vpn));
    }

    /// Ends all sharing of address spaces by `process`, as a borrower and as a lender.
    fn stop_sharing(&mut self, process: Asid) {
        self.borrowers.remove(&process);
        self.borrowers.retain(|_, lender| *lender != process);
    }

    fn clear(&mut self, asid: Asid) {
        self.pages.retain(|key, _| key.0 != asid);
        self.contents.retain(|key, _| key.0 != asid);
    }

    fn remap(&mut self, from: u64, len: u64, to: u64, new_len: u64) {
        let me = self.current;
        let moved: Vec<(Page, Option<u64>)> = (0..len)
            .map(|i| {
                let key = (me, FIRST_PAGE + from + i);
                (self.pages[&key], self.contents.get(&key).copied())
            })
            .collect();
        (0..len).for_each(|i| self.remove(FIRST_PAGE + from + i));
        (0..new_len).for_each(|i| self.remove(FIRST_PAGE + to + i));
        for i in 0..new_len {
            let key = (me, FIRST_PAGE + to + i);
            let (page, own) = match moved.get(i as usize) {
                Some(&(page, own)) => (page, own),
                None => {
                    let last = moved[moved.len() - 1].0;
                    (Page { index: last.index + 1 + (i - len), ..last }, None)
                }
            };
            self.pages.insert(key, page);
            if let Some(number) = own {
                self.contents.insert(key, number);
            }
        }
    }

    fn touch(&mut self, vpn: u64, store: bool) {
        let key = (self.current, vpn);
        // A touch outside all mappings makes the system map private memory there.
        let unmapped = Page { backing: PageBacking::Private, index: 0, rights: Protection::READ_WRITE };
        let page = *self.pages.entry(key).or_insert(unmapped);
        if !store || matches!(page.backing, PageBacking::Shared(_) | PageBacking::FileShared(_)) {
            return;
        }
        let users = |number: &u64| self.contents.values().filter(|&other| other == number).count();
        if self.contents.get(&key).is_none_or(|number| users(number) > 1) {
            self.last_number += 1;
            self.contents.insert(key, self.last_number);
        }
    }

    /// Compares with the page tables of the system under test. Returns the first difference, `None` if there is none.
    ///
    /// `zero_page` is the frame of zeroes. With `superpages`, anonymous pages that were never written may have frames
    /// of their own.
    pub fn difference(&self, mapped: &[MappedPage], zero_page: u64, superpages: bool) -> Option<String> {
        let by_page: BTreeMap<(Asid, u64), &MappedPage> =
            mapped.iter().map(|page| ((page.asid, page.vpn), page)).collect();
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
            let contents = match (self.contents.get(key), page.backing) {
                (Some(&number), _) => (0, number, 0),
                (None, PageBacking::Private) if real.pfn == zero_page => (1, 0, 0),
                (None, PageBacking::Private) if superpages => continue,
                (None, PageBacking::Private) => {
                    return Some(format!("{real:x?} was never written but has a frame"));
                }
                (None, PageBacking::Shared(object)) => (2, object, page.index),
                (None, PageBacking::FilePrivate(file) | PageBacking::FileShared(file)) => (3, file as u64, page.index),
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
