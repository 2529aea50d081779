//! What happens to address spaces between references. Capture writes these, traces keep them, `os` acts on them.

use crate::{Asid, VirtAddr};

/// A file's identity within one program: dense, given out by the source with [`Event::File`] before its first use. Two
/// processes that map the same file see the same number, so a page cache can be shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(pub u32);

/// A thread of the traced program: dense, never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ThreadId(pub u32);

/// A span of virtual addresses in bytes. Neither end need be aligned to the simulated machine's pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Span {
    /// First byte.
    pub start: VirtAddr,
    /// Length in bytes.
    pub len: u64,
}

impl Span {
    /// One past the last byte.
    pub fn end(self) -> VirtAddr {
        self.start + self.len
    }
}

/// Access rights of a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Protection {
    /// Loads allowed.
    pub read: bool,
    /// Stores allowed.
    pub write: bool,
    /// Fetches allowed.
    pub execute: bool,
}

impl Protection {
    /// Loads and stores, no fetches.
    pub const READ_WRITE: Protection = Protection { read: true, write: true, execute: false };
    /// Loads and fetches, no stores.
    pub const READ_EXECUTE: Protection = Protection { read: true, write: false, execute: true };
    /// Loads only.
    pub const READ: Protection = Protection { read: true, write: false, execute: false };
    /// Nothing: an address range that is only held.
    pub const NONE: Protection = Protection { read: false, write: false, execute: false };
}

/// What stands behind a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Backing {
    /// Zero-filled memory.
    Anonymous,
    /// A file from `offset` bytes on.
    File {
        /// Which file.
        file: FileId,
        /// Where in the file the mapping starts, in bytes.
        offset: u64,
    },
}

/// What a mapping is for, as far as the source can tell. Policies for growing objects (Navarro §4.2) need it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Mapped by a system call of the program.
    Mmap,
    /// The brk heap. Growth arrives as a further `Map` that starts where the heap ended.
    Heap,
    /// A stack that grows downwards within its span.
    Stack,
    /// Part of an executable or of the loader, mapped at exec.
    Image,
}

/// A new mapping. It replaces whatever stood in its span (as MAP_FIXED does).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Map {
    /// Where.
    pub span: Span,
    /// Access rights.
    pub protection: Protection,
    /// Contents.
    pub backing: Backing,
    /// Stores go to the object itself (MAP_SHARED) rather than to a private copy.
    pub shared: bool,
    /// What it is for.
    pub role: Role,
    /// The program asked for its pages at once (MAP_POPULATE, MAP_LOCKED).
    pub populate: bool,
    /// Swap space is not accounted (MAP_NORESERVE); large sparse areas carry it.
    pub no_reserve: bool,
    /// The program itself asked for superpages of this size (MAP_HUGETLB); 0 when it did not.
    pub huge_shift: u8,
}

impl Map {
    /// Private zero-filled memory, read-write, mapped by the program.
    pub fn anonymous(start: VirtAddr, len: u64) -> Map {
        Map {
            span: Span { start, len },
            protection: Protection::READ_WRITE,
            backing: Backing::Anonymous,
            shared: false,
            role: Role::Mmap,
            populate: false,
            no_reserve: false,
            huge_shift: 0,
        }
    }
}

/// A mapping moved or resized (mremap).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Remap {
    /// The old span. Zero length (Linux's duplication of a shared mapping) is allowed.
    pub from: Span,
    /// The new span. What is new beyond the old length continues the same object.
    pub to: Span,
    /// The old span stays mapped, emptied of its pages (MREMAP_DONTUNMAP).
    pub keep: bool,
}

/// What a program advised (madvise).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Advice {
    /// MADV_HUGEPAGE.
    Huge,
    /// MADV_NOHUGEPAGE.
    NoHuge,
    /// MADV_DONTNEED: private pages are dropped and read as zero (or as the file) next time.
    DontNeed,
    /// MADV_FREE: pages may be dropped. Treated lazily, as Linux does without memory pressure.
    Free,
    /// MADV_POPULATE_READ; also: the kernel itself reads there for the program (a system call's path or buffer).
    PopulateRead,
    /// MADV_POPULATE_WRITE; also: the kernel itself writes there for the program (a system call's buffer, the rest of
    /// an image's last page of data).
    PopulateWrite,
    /// MADV_COLLAPSE.
    Collapse,
    /// MADV_DONTFORK.
    DontFork,
    /// MADV_WILLNEED.
    WillNeed,
}

/// Something that happens before a certain reference. Unless it names an address space itself, it concerns the one of
/// the last `Switch`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// A file gets its number. Comes once for each file, before any other use of it.
    File {
        /// The number.
        file: FileId,
        /// Its path as the program would see it.
        path: String,
        /// Its length in bytes when first seen.
        len: u64,
    },
    /// A mapping appears.
    Map(Map),
    /// Mappings disappear; parts of the span may hold none.
    Unmap(Span),
    /// Access rights change.
    Protect(Span, Protection),
    /// A mapping moves or changes its size.
    Remap(Remap),
    /// The program advises.
    Advise(Span, Advice),
    /// The current process forks; `child` starts as a copy-on-write duplicate. A `Switch` to it comes later.
    Fork {
        /// The new address space.
        child: Asid,
        /// vfork: there is no duplicate, the child borrows the parent's memory until it execs or exits.
        shares_memory: bool,
    },
    /// The current process replaces its image: everything is unmapped. `Map` events of the new image follow.
    Exec {
        /// Path of the new program.
        path: String,
    },
    /// The current process is gone.
    Exit,
    /// From here on references are those of this thread in this address space. The first event of every program.
    Switch {
        /// Address space. Unknown numbers are new, empty ones.
        asid: Asid,
        /// Thread.
        thread: ThreadId,
    },
    /// The program enters a named phase (synthetic programs and marked captures); results may be split by it.
    Phase(String),
}

impl Event {
    /// The phase from which on results count. What is before it only makes the state that it meets.
    pub const MEASURED: &str = "measured";
    /// From here on only what an operating system would notice is there, until [`Event::MEASURED`] or [`Event::SIMULATED`];
    /// or nothing of it is measured at least.
    pub const SKIMMED: &str = "skimmed";
    /// How the phase is called that says that what follows is a sample, with the distance of its intervals behind it.
    pub const SAMPLED: &str = "sampled every ";
    /// The phases that begin and end an interval that is measured, where a program is sampled.
    pub const INTERVAL: &str = "interval";
    /// The end of one.
    pub const INTERVAL_END: &str = "interval ends";
    /// From here on references only keep TLBs and the operating system where they would be, where a program is sampled.
    pub const FOLLOWED: &str = "followed";
    /// The same, and what they do to caches is followed too.
    pub const FOLLOWED_IN_CACHES: &str = "followed in caches";
    /// From here on they are simulated in full again.
    pub const SIMULATED: &str = "simulated";

    /// Whether the phase of this name is none of the program's own.
    pub fn is_mark(phase: &str) -> bool {
        let of_samples =
            [Event::INTERVAL, Event::INTERVAL_END, Event::FOLLOWED, Event::FOLLOWED_IN_CACHES, Event::SIMULATED];
        let marks = [Event::MEASURED, Event::SKIMMED];
        marks.contains(&phase) || of_samples.contains(&phase) || phase.starts_with(Event::SAMPLED)
    }
}
