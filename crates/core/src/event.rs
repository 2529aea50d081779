//! Events: changes to address spaces, and marks for the simulator, between references. Capture writes them, traces
//! store them, `os` applies them, `lab` obeys the marks.

use crate::{Asid, VirtAddr};

/// Identifies a file within one program. Numbers are dense and assigned by [`Event::File`] before the first use. All
/// processes that map a file see the same number, so they can share a page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(pub u32);

/// Identifies a thread of the traced program. Numbers are dense and never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ThreadId(pub u32);

/// A span of virtual addresses, in bytes. Neither end needs to be aligned to the simulated machine's pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Span {
    /// The first byte.
    pub start: VirtAddr,
    /// The length in bytes; 0 is allowed.
    pub len: u64,
}

impl Span {
    /// Returns the address one past the last byte.
    pub fn end(self) -> VirtAddr {
        self.start + self.len
    }
}

/// The access rights of a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Protection {
    /// Loads are allowed.
    pub read: bool,
    /// Stores are allowed.
    pub write: bool,
    /// Fetches are allowed.
    pub execute: bool,
}

impl Protection {
    /// Loads and stores, no fetches.
    pub const READ_WRITE: Protection = Protection { read: true, write: true, execute: false };
    /// Loads and fetches, no stores.
    pub const READ_EXECUTE: Protection = Protection { read: true, write: false, execute: true };
    /// Loads only.
    pub const READ: Protection = Protection { read: true, write: false, execute: false };
    /// No access: the mapping only reserves addresses (PROT_NONE).
    pub const NONE: Protection = Protection { read: false, write: false, execute: false };
}

/// The contents of a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Backing {
    /// Zero-filled memory.
    Anonymous,
    /// A file, from `offset` bytes on.
    File {
        /// The file.
        file: FileId,
        /// The place in the file where the mapping starts, in bytes.
        offset: u64,
    },
}

/// The purpose of a mapping, as far as the source knows it. Policies for growing objects need it (Navarro §4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// The program mapped it by a system call.
    Mmap,
    /// The brk heap. Growth arrives as a further `Map` that starts where the heap ended.
    Heap,
    /// A stack, which grows downwards within its span.
    Stack,
    /// A part of an executable or of the loader, mapped at exec.
    Image,
}

/// A new mapping. It replaces all earlier mappings of its span, as MAP_FIXED does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Map {
    /// The addresses.
    pub span: Span,
    /// The access rights.
    pub protection: Protection,
    /// The contents.
    pub backing: Backing,
    /// Whether stores go to the object itself (MAP_SHARED) rather than to a private copy.
    pub shared: bool,
    /// The purpose.
    pub role: Role,
    /// Whether the program asked for all pages at once (MAP_POPULATE, MAP_LOCKED).
    pub populate: bool,
    /// Whether no swap space is accounted for it (MAP_NORESERVE); large sparse areas carry this flag.
    pub no_reserve: bool,
    /// The binary logarithm of the superpage size that the program asked for (MAP_HUGETLB); 0 without MAP_HUGETLB.
    pub huge_shift: u8,
}

impl Map {
    /// Returns a private, zero-filled, read-write mapping, as `mmap` makes it.
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

/// A mapping that moves or changes its size (mremap).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Remap {
    /// The old span. Its length may be zero: Linux then duplicates a shared mapping.
    pub from: Span,
    /// The new span. Addresses beyond the old length continue the same object.
    pub to: Span,
    /// Whether the old span stays mapped, without its pages (MREMAP_DONTUNMAP).
    pub keep: bool,
}

/// A program's advice about a span (madvise).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Advice {
    /// MADV_HUGEPAGE.
    Huge,
    /// MADV_NOHUGEPAGE.
    NoHuge,
    /// MADV_DONTNEED: drops private pages; the next access reads zeros, or the file.
    DontNeed,
    /// MADV_FREE: pages may be dropped. Handled lazily, as Linux does without memory pressure.
    Free,
    /// MADV_POPULATE_READ. Also represents reads by the kernel on the program's behalf, such as of a system call's path
    /// or buffer.
    PopulateRead,
    /// MADV_POPULATE_WRITE. Also represents writes by the kernel on the program's behalf, such as to a system call's
    /// buffer or to the rest of an image's last data page.
    PopulateWrite,
    /// MADV_COLLAPSE.
    Collapse,
    /// MADV_DONTFORK.
    DontFork,
    /// MADV_WILLNEED.
    WillNeed,
}

/// An instruction to the simulator about the references that follow. Sampling and fast-forward put marks into a
/// program; the program itself has none.
///
/// A sample begins with `Sample`. Each of its intervals has `Detailed` (the detailed warm-up), `IntervalBegin` or
/// `FirstRunBegin`, and `IntervalEnd`; `WarmTlbs` or `WarmCaches` covers the references up to the next interval.
/// Between intervals, `FirstRunUnmeasured` and `IntervalEnd` enclose code that a stratum of the sample stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mark {
    /// Fast-forward begins: up to [`Mark::Measure`] or [`Mark::Detailed`], the source leaves out references that the
    /// operating system would not notice. The rest updates the state and is not measured.
    FastForward,
    /// Measurement begins: results do not count what came before.
    Measure,
    /// The program is a systematic sample.
    Sample {
        /// The distance from the start of one interval to the start of the next, in references.
        every: u64,
    },
    /// A measured interval begins.
    IntervalBegin,
    /// A measured interval of code that runs for the first time begins.
    FirstRunBegin,
    /// Code that runs for the first time begins, which is not measured, whatever the detail. Only its length counts.
    FirstRunUnmeasured,
    /// The measured interval ends.
    IntervalEnd,
    /// Functional warming begins: references update TLBs and the operating system only.
    WarmTlbs,
    /// Functional warming begins: references update TLBs, the operating system and caches.
    WarmCaches,
    /// Detailed simulation begins: references also take time.
    Detailed,
    /// The processes that run from here on are in another guest of the machine, where that has several.
    Guest {
        /// The guest's number, from 0.
        number: u32,
    },
}

/// An event, which comes before a certain reference. Unless it names an address space, it concerns the one of the last
/// `Switch`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// A file gets its number. Each file has one such event, before any other use of the number.
    File {
        /// The number.
        file: FileId,
        /// The path, as the program sees it.
        path: String,
        /// The length in bytes when the source first saw the file.
        len: u64,
        /// Whether the file is memory that only looks like a file (tmpfs, memfd, hugetlbfs). Shared mappings of it are shared
        /// memory, which is never written back.
        in_memory: bool,
    },
    /// A mapping appears.
    Map(Map),
    /// Mappings disappear; parts of the span may be unmapped already.
    Unmap(Span),
    /// Access rights change.
    Protect(Span, Protection),
    /// A mapping moves or changes its size.
    Remap(Remap),
    /// The program gives advice about a span.
    Advise(Span, Advice),
    /// The current process forks. `child` starts as a copy-on-write duplicate; a `Switch` to it comes later.
    Fork {
        /// The new address space.
        child: Asid,
        /// Whether it is a vfork: the child has no duplicate but borrows the parent's memory until it execs or exits.
        shares_memory: bool,
    },
    /// The current process replaces its image: all mappings go. `Map` events of the new image follow.
    Exec {
        /// The path of the new program.
        path: String,
    },
    /// The current process ends.
    Exit,
    /// The references that follow are those of this thread in this address space. The first event of every program.
    Switch {
        /// The address space. A number that was not used before is a new, empty one.
        asid: Asid,
        /// The thread.
        thread: ThreadId,
    },
    /// The program enters a phase. It chooses the name, which has no meaning for the simulator.
    Phase(String),
    /// The simulator changes how it treats the references that follow.
    Mark(Mark),
    /// The program makes a system call, with Linux's number on x86-64. Calls that other events stand for have none: fork, exec
    /// and the end of a process.
    SystemCall(u32),
}
