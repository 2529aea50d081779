//! Physical frames: their users, their mappings, and the allocator below.

use super::queues::{Queue, Queues};
use super::rmap::ReverseMap;
use super::shadow::{Shadow, is_shadow};
use super::wired::WiredPool;
use crate::reservation::{Freed, Reservations};
use crate::{Buddy, ListOrder, ObjectId, Operation};
use packed::{FrameMut, FrameStates};
use reach_core::{Asid, PageShift, Pfn, PhysAddr, Pte, Vpn};

mod packed;

/// The use of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum FrameKind {
    /// Free: in the allocator, or vacant in a reservation.
    #[default]
    Free,
    /// Private or shared memory without a file.
    Anonymous,
    /// A page of a file.
    File,
    /// Free as [`FrameKind::Free`], but it still holds a page of a file, which can be reactivated.
    Cache,
    /// A page-table node.
    Table,
    /// Kernel memory, which stays where it is.
    Wired,
    /// A page of zeroes, shared by all first loads from untouched memory; never freed.
    Zero,
}

/// The state of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Frame {
    /// Its use.
    pub kind: FrameKind,
    /// It is in the page cache, as a page of a file or of shared memory, so it stays when nothing maps it.
    pub cached: bool,
    /// Its page was written through a translation that is gone. Kept only where there is a page daemon.
    pub dirty: bool,
    /// A store to it was noticed since it was read in. Kept only where digests are; of a superpage, only the page of the first
    /// store has it.
    pub written: bool,
    /// It was used through a translation that is gone (FreeBSD's `PG_REFERENCED`). Kept only where there is a page daemon.
    pub referenced: bool,
    /// The page daemon has skipped it once because it is dirty (`PG_WINATCFLS`).
    pub passed: bool,
    /// Recent use, as the page daemon counts it (`act_count`).
    pub activity: u8,
    /// Number of translations that point to it; a superpage counts once for each frame that it covers.
    pub maps: u32,
    /// The object whose page it holds, for anonymous and file frames.
    pub object: ObjectId,
    /// Index of the page in that object, in base pages.
    pub index: u64,
}

/// All frames of the machine.
pub struct Frames {
    pub(crate) buddy: Buddy,
    frames: FrameStates,
    /// Reservations. `None` where the system makes none.
    pub(crate) reservations: Option<Reservations>,
    /// The page daemon's lists. `None` where there is no daemon.
    pub(crate) queues: Option<Queues>,
    /// The reverse map. `None` where there is no page daemon.
    pub(crate) rmap: Option<ReverseMap>,
    /// The pool of kernel pages. `None` where they are not clustered.
    pub(crate) wired: Option<WiredPool>,
    /// Frames for the nodes that the page daemon needs to demote superpages when there is no other memory.
    pub(crate) emergency: Vec<Pfn>,
    /// Page-table nodes larger than a page that are not in use, with their orders.
    pub(crate) spare_roots: Vec<(Pfn, u8)>,
    /// Work that is not charged yet, where the system makes reservations: operation, level of the page, and steps.
    pub(crate) work: Vec<(Operation, u8, u64)>,
    pub(crate) cache_pages: u64,
    /// Cache pages whose frames were allocated to others.
    pub(crate) dropped: Vec<(ObjectId, u64)>,
    /// Shadow space. `None` where pages are not remapped.
    pub(crate) shadow: Option<Shadow>,
    pub(crate) base: PageShift,
    resident: u64,
    /// Number of translations, each counted for every frame that it covers.
    pub(crate) translated: u64,
    pub(crate) tables: u64,
    /// Page-table nodes that several page tables use, with the number of users beyond the first.
    pub(crate) shared_tables: std::collections::BTreeMap<PhysAddr, u32>,
    /// Page-table nodes that are not zeroed yet, with their bytes.
    pub(crate) new_tables: Vec<(PhysAddr, u64)>,
}

/// Activity of a page that becomes active (FreeBSD 4's `ACT_INIT`).
const INITIAL_ACTIVITY: u8 = 5;

/// Binary logarithm of the largest block in bytes: 2 GB, for eager paging (Karakostas §4.3).
const MAX_BLOCK: u8 = 31;

impl Frames {
    /// Returns `memory` bytes of free frames of size `base`.
    pub fn new(memory: u64, base: PageShift, lists: ListOrder) -> Frames {
        let count = memory >> base.0;
        Frames {
            buddy: Buddy::new(count, MAX_BLOCK - base.0, lists),
            frames: FrameStates::new(count),
            reservations: None,
            queues: None,
            rmap: None,
            wired: None,
            emergency: Vec::new(),
            spare_roots: Vec::new(),
            work: Vec::new(),
            cache_pages: 0,
            dropped: Vec::new(),
            shadow: None,
            base,
            resident: 0,
            translated: 0,
            tables: 0,
            shared_tables: Default::default(),
            new_tables: Vec::new(),
        }
    }

    /// Returns the allocator.
    pub fn buddy(&self) -> &Buddy {
        &self.buddy
    }

    /// Returns the size of a frame.
    pub fn base(&self) -> PageShift {
        self.base
    }

    /// Returns the state of `pfn`.
    #[inline]
    pub fn get(&self, pfn: Pfn) -> Frame {
        self.frames.get(self.real(pfn).0)
    }

    /// Returns `pfn` itself, or the real frame of a shadow frame.
    #[inline]
    pub fn real(&self, pfn: Pfn) -> Pfn {
        match &self.shadow {
            Some(shadow) if is_shadow(pfn) => shadow.real(pfn),
            _ => pfn,
        }
    }

    /// Returns the number of frames with at least one translation, pages of zeroes aside.
    pub fn resident(&self) -> u64 {
        self.resident
    }

    /// Returns the bytes of page-table nodes.
    pub fn table_bytes(&self) -> u64 {
        self.tables
    }

    /// Allocates a block of `2^order` frames for pages `index..` of `object`, preempting reservations if it must. Returns the
    /// first frame, or `None` when memory has no block so large.
    pub fn allocate(&mut self, order: u8, kind: FrameKind, object: ObjectId, index: u64) -> Option<Pfn> {
        let pfn = self.take_block(order)?;
        self.assign(pfn, 1 << order, kind, object, index);
        Some(pfn)
    }

    /// Allocates the first `pages` frames of a block of `2^order`; the rest stays free. Returns `None` when memory has no block
    /// so large.
    pub(crate) fn allocate_part(&mut self, order: u8, pages: u64, object: ObjectId, index: u64) -> Option<Pfn> {
        let pfn = self.take_block(order)?;
        self.assign(pfn, pages, FrameKind::Anonymous, object, index);
        self.buddy.free_range(pfn + pages, (1 << order) - pages);
        Some(pfn)
    }

    /// Allocates as [`Frames::allocate`] does, but the block at `pfn`. Returns `None` unless all of it is free.
    pub fn allocate_at(&mut self, pfn: Pfn, order: u8, kind: FrameKind, object: ObjectId, index: u64) -> Option<Pfn> {
        self.buddy.allocate_at(pfn, order)?;
        self.assign(pfn, 1 << order, kind, object, index);
        Some(pfn)
    }

    /// Frees frames that [`Frames::allocate`] returned and that were never mapped or cached.
    pub fn free(&mut self, pfn: Pfn, frames: u64) {
        for at in pfn.0..pfn.0 + frames {
            let frame = self.frames.set(at, Frame::default());
            debug_assert!(frame.maps == 0 && !frame.cached && frame.kind != FrameKind::Free, "{at:#x} {frame:?}");
        }
        self.buddy.free_range(pfn, frames);
    }

    /// Returns the state of `pfn`, to be changed.
    pub(crate) fn get_mut(&mut self, pfn: Pfn) -> FrameMut<'_> {
        let real = self.real(pfn);
        self.frames.get_mut(real.0)
    }

    /// Assigns `frames` frames, just taken from the allocator or a reservation, to pages `index..` of `object`.
    pub(crate) fn assign(&mut self, pfn: Pfn, frames: u64, kind: FrameKind, object: ObjectId, index: u64) {
        for i in 0..frames {
            let mut frame = self.frames.get_mut(pfn.0 + i);
            debug_assert!(matches!(frame.kind, FrameKind::Free | FrameKind::Cache), "{frame:?}");
            if frame.kind == FrameKind::Cache {
                self.dropped.push((frame.object, frame.index));
                self.cache_pages -= 1;
            }
            *frame = Frame { kind, object, index: index + i, ..Frame::default() };
            drop(frame);
            if matches!(kind, FrameKind::Anonymous | FrameKind::File) {
                self.activate(pfn + i);
            }
        }
    }

    /// Records that `pte` translates the page that starts at `vpn`.
    pub(crate) fn add_map(&mut self, asid: Asid, vpn: Vpn, pte: Pte) {
        let pfn = pte.pfn();
        for named in pfn.0..pfn.0 + pte.shift().base_pages(self.base) {
            let at = self.real(Pfn(named)).0;
            if let Some(shadow) = self.shadow.as_mut().filter(|_| is_shadow(pfn)) {
                shadow.add_translation(Pfn(named));
            }
            if let Some(rmap) = &mut self.rmap {
                rmap.add(at, asid, vpn + (named - pfn.0));
            }
            let mut frame = self.frames.get_mut(at);
            debug_assert_ne!(frame.kind, FrameKind::Free, "{at:#x} is mapped while free");
            frame.maps += 1;
            self.translated += 1;
            self.resident += u64::from(frame.maps == 1 && frame.kind != FrameKind::Zero);
        }
    }

    /// Records that `pte` does not translate that page any more. Frees frames without a user, in blocks as large as possible.
    /// Returns whether all of the page's frames are without a user.
    pub(crate) fn drop_map(&mut self, asid: Asid, vpn: Vpn, pte: Pte) -> bool {
        let (pfn, before) = (pte.pfn(), self.buddy.steps());
        let end = pfn.0 + pte.shift().base_pages(self.base);
        let mut idle = pfn.0;
        let mut unused = true;
        for named in pfn.0..end {
            let (Pfn(at), last) = match self.shadow.as_mut().filter(|_| is_shadow(pfn)) {
                Some(shadow) => shadow.remove_translation(Pfn(named)),
                None => (Pfn(named), false),
            };
            if is_shadow(pfn) {
                // Frames that lie apart are freed one by one.
                idle = at;
            }
            let mut frame = self.frames.get_mut(at);
            frame.maps -= 1;
            self.translated -= 1;
            if let Some(rmap) = &mut self.rmap {
                rmap.remove(at, asid, vpn + (named - pfn.0));
                frame.dirty |= pte.dirty();
                frame.referenced |= pte.accessed();
            }
            let user = matches!(frame.kind, FrameKind::Anonymous | FrameKind::File);
            self.resident -= u64::from(frame.maps == 0 && frame.kind != FrameKind::Zero);
            let needed = frame.maps > 0 || !user || frame.cached;
            drop(frame);
            unused &= !needed;
            let kept = needed || !self.clear(Pfn(at));
            if kept {
                self.buddy.free_range(Pfn(idle), at - idle);
                idle = at + 1;
            } else if is_shadow(pfn) {
                self.buddy.free(Pfn(at), 0);
            }
            if let Some(shadow) = self.shadow.as_mut().filter(|_| last) {
                shadow.release(Pfn(named), kept);
            }
        }
        if !is_shadow(pfn) {
            self.buddy.free_range(Pfn(idle), end - idle);
        }
        self.note_buddy_work(Operation::Join, pte.shift().order(self.base), before);
        unused
    }

    /// Clears the state of a frame without a user. Returns whether the caller must free it to the allocator; if not, its
    /// reservation holds it, or has ended and freed all its frames.
    fn clear(&mut self, pfn: Pfn) -> bool {
        let frame = self.frames.set(pfn.0, Frame::default());
        self.unqueue(pfn);
        match self.reservations.as_mut().filter(|_| frame.object != ObjectId::NONE) {
            None => true,
            Some(reservations) => {
                let freed = reservations.depopulate(frame.object, frame.index, pfn);
                self.note_work(Operation::Update, 0);
                match freed {
                    Freed::Plain => true,
                    Freed::Kept => false,
                    Freed::Block(block, order) => {
                        self.release(block, order);
                        false
                    }
                }
            }
        }
    }

    /// Removes the page at `pfn` from its object's population map, and frees the frame to its reservation or the allocator.
    pub(super) fn leave_population_map(&mut self, object: ObjectId, index: u64, pfn: Pfn) {
        let freed = self.reservations.as_mut().map_or(Freed::Plain, |r| r.depopulate(object, index, pfn));
        self.note_work(Operation::Update, 0);
        match freed {
            Freed::Plain => self.release(pfn, 0),
            Freed::Kept => {}
            Freed::Block(block, order) => self.release(block, order),
        }
    }

    /// Moves `pfn`, which is in use, to the end of the active list (`vm_page_activate`).
    pub(crate) fn activate(&mut self, pfn: Pfn) {
        if let Some(queues) = &mut self.queues {
            queues.push(Queue::Active, pfn.0);
            let mut frame = self.frames.get_mut(pfn.0);
            frame.activity = frame.activity.max(INITIAL_ACTIVITY);
            frame.passed = false;
        }
    }

    /// Moves `pfn`, which has not been used for long, to the end of the inactive list (`vm_page_deactivate`).
    pub(crate) fn deactivate(&mut self, pfn: Pfn) {
        if let Some(queues) = &mut self.queues {
            queues.push(Queue::Inactive, pfn.0);
            let mut frame = self.frames.get_mut(pfn.0);
            (frame.activity, frame.referenced, frame.passed) = (0, false, false);
        }
    }

    /// Moves `pfn` to the end of the active list, but keeps its activity.
    pub(crate) fn rotate(&mut self, pfn: Pfn) {
        if let Some(queues) = &mut self.queues {
            queues.push(Queue::Active, pfn.0);
        }
    }

    /// Removes `pfn` from the page daemon's lists.
    pub(crate) fn unqueue(&mut self, pfn: Pfn) {
        if let Some(queues) = &mut self.queues {
            queues.remove(pfn.0);
        }
    }

    /// Returns the page daemon's list that `pfn` is on.
    pub(crate) fn queued(&self, pfn: Pfn) -> Option<Queue> {
        self.queues.as_ref()?.of(pfn.0)
    }

    /// Returns all translations to `pfn`; none without a page daemon.
    pub(crate) fn translations(&self, pfn: Pfn) -> Vec<(Asid, Vpn)> {
        self.rmap.as_ref().map(|rmap| rmap.of(pfn.0)).unwrap_or_default()
    }

    /// Records that the disk has the contents of `pfn`.
    pub(crate) fn mark_clean(&mut self, pfn: Pfn) {
        let mut frame = self.get_mut(pfn);
        (frame.dirty, frame.written, frame.passed) = (false, false, false);
    }

    /// Records that `pfn` stays in use but belongs to no object any more.
    pub(crate) fn disown(&mut self, pfn: Pfn) {
        self.frames.get_mut(pfn.0).object = ObjectId::NONE;
    }

    /// Adds `pfn` to the page cache.
    pub(crate) fn cache(&mut self, pfn: Pfn) {
        self.frames.get_mut(pfn.0).cached = true;
    }

    /// Moves the page of a file in `old`, which nothing maps any more, to `new` in the page cache.
    pub(crate) fn move_cached(&mut self, old: Pfn, new: Pfn) {
        let Frame { kind, object, index, .. } = self.get(old);
        let mut frame = self.get_mut(new);
        (frame.kind, frame.object, frame.index, frame.cached) = (kind, object, index, true);
        drop(frame);
        self.uncache(old);
    }

    /// Removes `pfn` from the page cache, and frees it unless something still maps it.
    pub(crate) fn uncache(&mut self, pfn: Pfn) {
        let mut frame = self.frames.get_mut(pfn.0);
        debug_assert!(frame.cached);
        if frame.kind == FrameKind::Cache {
            // The allocator or a reservation holds the frame already.
            *frame = Frame::default();
            self.cache_pages -= 1;
            return;
        }
        frame.cached = false;
        let idle = frame.maps == 0;
        drop(frame);
        if idle && self.clear(pfn) {
            self.buddy.free(pfn, 0);
        }
    }

    /// Removes `pfn` from the page cache without freeing it.
    #[cfg(test)]
    pub(crate) fn uncache_in_use(&mut self, pfn: Pfn) {
        self.frames.get_mut(pfn.0).cached = false;
    }

    /// Returns the number of frames by kind: anonymous, file, table, wired, zero. Takes time linear in memory; for tests.
    pub fn census(&self) -> [u64; 5] {
        let mut counts = [0; 5];
        for at in 0..self.buddy.frames() {
            match self.get(Pfn(at)).kind {
                FrameKind::Free | FrameKind::Cache => {}
                FrameKind::Anonymous => counts[0] += 1,
                FrameKind::File => counts[1] += 1,
                FrameKind::Table => counts[2] += 1,
                FrameKind::Wired => counts[3] += 1,
                FrameKind::Zero => counts[4] += 1,
            }
        }
        counts
    }

    /// Checks that each frame that is not in use is in the allocator or in a reservation, and not in both. Takes time linear
    /// in memory; for tests.
    ///
    /// # Panics
    /// When that does not hold, or when a count is wrong.
    pub fn check(&self) {
        self.buddy.check();
        let account = self.reservations.as_ref().map(Reservations::check).unwrap_or_default();
        let waiting: std::collections::BTreeSet<u64> = account.vacant.iter().copied().collect();
        let (mut resident, mut cache_pages, mut translated) = (0, 0, 0);
        for at in 0..self.buddy.frames() {
            let frame = self.get(Pfn(at));
            let (free, reserved) = (self.buddy.free_block(Pfn(at)).is_some(), waiting.contains(&at));
            assert!(!(free && reserved), "frame {at:#x} is free and reserved");
            let empty = matches!(frame.kind, FrameKind::Free | FrameKind::Cache);
            assert_eq!(free || reserved, empty, "frame {at:#x}: {frame:?}");
            cache_pages += u64::from(frame.kind == FrameKind::Cache);
            assert!(frame.kind != FrameKind::Cache || frame.cached && frame.maps == 0 && !frame.dirty, "{frame:?}");
            let pageable = matches!(frame.kind, FrameKind::Anonymous | FrameKind::File);
            let queued = self.queued(Pfn(at)).is_some();
            assert_eq!(queued, pageable && self.queues.is_some(), "{at:#x}: {frame:?} and its list");
            if self.rmap.is_some() {
                assert_eq!(self.translations(Pfn(at)).len(), frame.maps as usize, "{at:#x}: {frame:?}");
            }
            assert!(frame.kind != FrameKind::Free || frame == Frame::default(), "free frame {at:#x}: {frame:?}");
            resident += u64::from(frame.maps > 0 && frame.kind != FrameKind::Zero);
            translated += u64::from(frame.maps);
            if let Some(reservations) = &self.reservations {
                let owned = (frame.object != ObjectId::NONE && !empty)
                    .then(|| (frame.object, reservations.place(frame.object, frame.index)));
                assert_eq!(owned, account.populated.get(&at).copied(), "{at:#x}: {frame:?} and its population map");
            }
        }
        assert_eq!((resident, translated), (self.resident, self.translated), "resident frames, translations");
        assert_eq!(cache_pages, self.cache_pages, "cache pages");
        let used: u64 = self.census().iter().sum();
        let all = self.buddy.free_frames() + account.vacant.len() as u64 + used;
        assert_eq!(all, self.buddy.frames(), "free, reserved and used frames");
    }
}
