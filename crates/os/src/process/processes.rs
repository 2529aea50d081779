//! All processes, and which of them runs.

use crate::process::space::Space;
use crate::translation::Translations;
use reach_core::{Asid, PageTable, ThreadId};
use std::collections::{BTreeMap, BTreeSet};

/// A process: an address space with its translations.
pub struct Process {
    pub(crate) space: Space,
    pub(crate) translations: Translations,
    /// Private pages that are in swap, by base page number.
    pub(crate) swapped: BTreeSet<u64>,
    /// The program has mapped something by an event, so its mappings are known.
    pub(crate) maps_seen: bool,
    /// The process has replaced its image and has no stack yet.
    pub(crate) awaits_stack: bool,
    /// The thread that ran in it first. `None`: no thread has.
    first_thread: Option<ThreadId>,
    /// Whether other threads have run in it, too, so that other processors may have its entries.
    several_threads: bool,
}

impl Process {
    /// Returns a process that has no region yet.
    pub(crate) fn new(translations: Translations) -> Process {
        Process {
            space: Space::default(),
            translations,
            swapped: BTreeSet::new(),
            maps_seen: false,
            awaits_stack: false,
            first_thread: None,
            several_threads: false,
        }
    }

    /// Records that `thread` runs in the address space.
    pub(crate) fn run_by(&mut self, thread: ThreadId) {
        self.several_threads |= *self.first_thread.get_or_insert(thread) != thread;
    }

    /// Forgets all threads but this one, as exec ends the others.
    pub(crate) fn begin_with(&mut self, thread: Option<ThreadId>) {
        (self.first_thread, self.several_threads) = (thread, false);
    }

    /// Returns whether several threads have run in the address space.
    pub(crate) fn has_several_threads(&self) -> bool {
        self.several_threads
    }

    /// Returns the regions of the address space.
    pub fn space(&self) -> &Space {
        &self.space
    }

    /// Returns the page table.
    pub fn table(&self) -> &PageTable {
        self.translations.table()
    }
}

/// All live processes, which of them runs, and in whose address space.
#[derive(Default)]
pub(crate) struct Processes {
    all: BTreeMap<Asid, Process>,
    running: Asid,
    /// The address space that the running process uses: its own, or after vfork its parent's.
    current: Asid,
    /// Children of vfork, each with the process whose address space it uses.
    borrowed: BTreeMap<Asid, Asid>,
    thread: ThreadId,
}

impl Processes {
    /// Returns the address space in use.
    pub(crate) fn current(&self) -> Asid {
        self.current
    }

    /// Returns the running process. After vfork it may differ from [`Processes::current`].
    pub(crate) fn running(&self) -> Asid {
        self.running
    }

    /// Returns the running thread.
    pub(crate) fn thread(&self) -> ThreadId {
        self.thread
    }

    /// Returns a live process.
    pub(crate) fn get(&self, asid: Asid) -> Option<&Process> {
        self.all.get(&asid)
    }

    /// Returns a live process, to be changed.
    pub(crate) fn get_mut(&mut self, asid: Asid) -> Option<&mut Process> {
        self.all.get_mut(&asid)
    }

    /// Returns all live processes by address space.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Asid, &Process)> {
        self.all.iter().map(|(&asid, process)| (asid, process))
    }

    /// Returns the number of live processes.
    pub(crate) fn count(&self) -> usize {
        self.all.len()
    }

    /// Adds a process.
    pub(crate) fn insert(&mut self, asid: Asid, process: Process) {
        self.all.insert(asid, process);
    }

    /// Removes a process.
    pub(crate) fn remove(&mut self, asid: Asid) -> Option<Process> {
        self.all.remove(&asid)
    }

    /// Makes `process` the running one, in its own address space or the one that it borrows.
    pub(crate) fn switch_to(&mut self, process: Asid) {
        self.running = process;
        self.current = self.borrowed.get(&process).copied().unwrap_or(process);
    }

    /// Makes `thread` the running one.
    pub(crate) fn set_thread(&mut self, thread: ThreadId) {
        self.thread = thread;
    }

    /// Lets `child` use the address space of `lender` (vfork).
    pub(crate) fn lend(&mut self, lender: Asid, child: Asid) {
        self.borrowed.insert(child, lender);
    }

    /// Ends the sharing of `process`: it gives back what it borrows, and those that borrow from it lose that. As a rule
    /// they have replaced their images by then, and their events come later; if not, they start empty.
    pub(crate) fn end_sharing(&mut self, process: Asid) {
        self.borrowed.retain(|&borrower, &mut lender| borrower != process && lender != process);
    }

    /// Returns the running process to its own address space, which is returned, and ends all its sharing.
    pub(crate) fn leave_shared(&mut self) -> Asid {
        self.end_sharing(self.running);
        self.current = self.running;
        self.current
    }
}
