//! The process of a synthetic program: the addresses of its code, heap, stack and mappings, and its loop bodies.
//!
//! The process is a small static executable with the usual layout of x86-64 Linux. Its parts begin at multiples of 64
//! KB, so that no two share a page on machines with base pages of up to that size.

use reach_core::{Asid, Backing, Block, BlockId, BlockTable, Chunk, Event, FileId, Kind, Map, Protection, Ref, Role};
use reach_core::{Span, ThreadId, VirtAddr};

pub(super) const GRAIN: u64 = 64 << 10;
const TEXT: u64 = 0x40_0000;
const TEXT_BYTES: u64 = 8 << 10;
const DATA: u64 = 0x41_0000;
const DATA_BYTES: u64 = 4 << 10;
const HEAP: u64 = 0x42_0000;
/// Start of additional code, far above any heap.
const EXTRA_TEXT: u64 = 0x5555_0000_0000;
/// Linux places mappings downwards from here. A mapping that could hold a page of 2 or 4 MB begins at a multiple of
/// that size, so that every machine can use superpages (Navarro et al. 2002 §5.3).
const MMAP_TOP: u64 = 0x7fff_f000_0000;
const HUGE: [u64; 2] = [4 << 20, 2 << 20];
const STACK_TOP: u64 = 0x7fff_ffff_0000;
const STACK_BYTES: u64 = 8 << 20;
/// Bytes of an instruction: the average of compiled programs, rounded.
const INSTRUCTION_BYTES: u16 = 4;

/// A block of the program's text, typically a loop body.
#[derive(Clone, Copy, Debug)]
pub(super) struct Code {
    pub id: BlockId,
    pub fetch: Ref,
}

/// A process under construction: its blocks, and the events before its first reference.
#[derive(Debug)]
pub(super) struct Process {
    pub blocks: BlockTable,
    pub events: Vec<Event>,
    next_pc: u64,
    next_heap: u64,
    next_mmap: u64,
    files: u32,
}

impl Process {
    pub fn new(program: &str) -> Process {
        let file = FileId(0);
        let image = |start, len, protection, offset| {
            Event::Map(Map {
                protection,
                backing: Backing::File { file, offset },
                role: Role::Image,
                ..Map::anonymous(VirtAddr(start), len)
            })
        };
        let stack = Map { role: Role::Stack, ..Map::anonymous(VirtAddr(STACK_TOP - STACK_BYTES), STACK_BYTES) };
        let events = vec![
            Event::Switch { asid: Asid(0), thread: ThreadId(0) },
            Event::File { file, path: format!("synthetic/{program}"), len: TEXT_BYTES + DATA_BYTES, in_memory: false },
            image(TEXT, TEXT_BYTES, Protection::READ_EXECUTE, 0),
            image(DATA, DATA_BYTES, Protection::READ_WRITE, TEXT_BYTES),
            Event::Map(stack),
        ];
        Process {
            blocks: BlockTable::default(),
            events,
            next_pc: TEXT + 0x1000,
            next_heap: HEAP,
            next_mmap: MMAP_TOP,
            files: 1,
        }
    }

    /// Adds a block of `instructions` instructions without machine code to the text. The `ooo` timing treats them as
    /// independent. Where dependences matter, use [`Process::coded`].
    pub fn block(&mut self, instructions: u16) -> Code {
        self.add(instructions, Box::default())
    }

    /// Adds a block of these instructions to the text.
    pub fn coded<const N: usize>(&mut self, instructions: [[u8; INSTRUCTION_BYTES as usize]; N]) -> Code {
        self.add(N as u16, instructions.as_flattened().into())
    }

    /// Adds consecutive blocks of these instructions to the text. Each falls through to the next.
    pub fn assembled<const N: usize>(&mut self, blocks: [&[&[u8]]; N]) -> [Code; N] {
        let codes = blocks.map(|block| {
            let bytes: Box<[u8]> = block.concat().into();
            let (pc, len) = (self.next_pc, bytes.len() as u16);
            self.next_pc += u64::from(len);
            self.put(Block { pc: VirtAddr(pc), len, instructions: block.len() as u16, bytes })
        });
        self.end_of_code();
        codes
    }

    fn add(&mut self, instructions: u16, bytes: Box<[u8]>) -> Code {
        let code = self.add_at(self.next_pc, instructions, bytes);
        self.next_pc += u64::from(instructions * INSTRUCTION_BYTES);
        self.end_of_code();
        code
    }

    fn end_of_code(&mut self) {
        self.next_pc = self.next_pc.next_multiple_of(16);
        assert!(self.next_pc <= TEXT + TEXT_BYTES, "the text of a synthetic program has {TEXT_BYTES} bytes at most");
    }

    /// Maps additional code of `len` bytes from a file of its own, at exec and at a multiple of 2 MB. Returns its
    /// address.
    pub fn text(&mut self, path: &str, len: u64) -> u64 {
        let file = self.file(path.into(), len);
        let backing = Backing::File { file, offset: 0 };
        let start = VirtAddr(EXTRA_TEXT);
        let protection = Protection::READ_EXECUTE;
        self.events.push(Event::Map(Map { protection, backing, role: Role::Image, ..Map::anonymous(start, len) }));
        start.0
    }

    /// Adds a block of `instructions` instructions without machine code at `pc`.
    pub fn block_at(&mut self, pc: u64, instructions: u16) -> Code {
        self.add_at(pc, instructions, Box::default())
    }

    fn add_at(&mut self, pc: u64, instructions: u16, bytes: Box<[u8]>) -> Code {
        let len = instructions * INSTRUCTION_BYTES;
        self.put(Block { pc: VirtAddr(pc), len, instructions, bytes })
    }

    fn put(&mut self, block: Block) -> Code {
        let id = self.blocks.push(block);
        Code { id, fetch: self.blocks.get(id).fetch() }
    }

    /// Maps zero-filled memory, as `mmap` does.
    pub fn mmap(&mut self, bytes: u64) -> VirtAddr {
        let start = self.reserve(bytes);
        self.events.push(Event::Map(Map::anonymous(start, bytes)));
        start
    }

    /// Reserves addresses for mappings that the program makes at run time.
    pub fn reserve(&mut self, bytes: u64) -> VirtAddr {
        let align = HUGE.into_iter().find(|&huge| bytes >= huge).unwrap_or(GRAIN);
        self.next_mmap = (self.next_mmap - bytes) / align * align;
        VirtAddr(self.next_mmap)
    }

    fn file(&mut self, path: String, len: u64) -> FileId {
        let file = FileId(self.files);
        self.files += 1;
        self.events.push(Event::File { file, path, len, in_memory: false });
        file
    }

    /// Maps a whole file of `bytes` bytes, shared.
    pub fn map_file(&mut self, path: String, bytes: u64, protection: Protection) -> VirtAddr {
        let file = self.file(path, bytes);
        let start = self.reserve(bytes);
        self.events.push(Event::Map(file_map(start, bytes, file, protection)));
        start
    }

    /// Extends the brk heap by `bytes`, rounded up to 64 KB. Returns the address of the new memory.
    pub fn heap(&mut self, bytes: u64) -> VirtAddr {
        let grown = bytes.next_multiple_of(GRAIN);
        let map = heap_growth(VirtAddr(self.next_heap), grown);
        self.next_heap += grown;
        self.events.push(Event::Map(map));
        map.span.start
    }

    /// Maps a zero-filled array of the image (.bss) at `start`.
    pub fn static_array(&mut self, start: VirtAddr, bytes: u64) {
        self.events.push(Event::Map(Map { role: Role::Image, ..Map::anonymous(start, bytes) }));
    }

    /// Returns the end of the heap.
    pub fn heap_end(&self) -> VirtAddr {
        VirtAddr(self.next_heap)
    }

    /// Returns the address after the stack, which grows downwards from there.
    pub fn stack_top(&self) -> VirtAddr {
        VirtAddr(STACK_TOP)
    }

    /// Returns the address of the static data, which has 4 KB.
    pub fn data(&self) -> VirtAddr {
        VirtAddr(DATA)
    }
}

/// Returns the mapping by which the brk heap grows by `bytes` at `end`.
pub(super) fn heap_growth(end: VirtAddr, bytes: u64) -> Map {
    let span = Span { start: end, len: bytes };
    Map { role: Role::Heap, ..Map::anonymous(span.start, span.len) }
}

/// Returns a shared mapping of a whole file.
pub(super) fn file_map(start: VirtAddr, bytes: u64, file: FileId, protection: Protection) -> Map {
    let backing = Backing::File { file, offset: 0 };
    Map { protection, backing, shared: true, ..Map::anonymous(start, bytes) }
}

/// Returns how many loop bodies of `per_body` references (including the fetch) bring `chunk` to `until` references, at
/// most `left`.
#[inline]
pub(super) fn room(chunk: &Chunk, until: usize, per_body: usize, left: u64) -> u64 {
    left.min(until.saturating_sub(chunk.refs.len()).div_ceil(per_body) as u64)
}

/// Appends `n` executions of the loop body `code`. `data` returns the `N` data references of each.
#[inline(always)]
pub(super) fn bodies<const N: usize>(chunk: &mut Chunk, code: Code, n: u64, mut data: impl FnMut() -> [Ref; N]) {
    let n = n as usize;
    chunk.fetched.resize(chunk.fetched.len() + n, code.id);
    // Resizing once and overwriting is faster than pushing one reference at a time.
    let first = chunk.refs.len();
    chunk.refs.resize(first + n * (N + 1), code.fetch);
    for body in chunk.refs[first..].chunks_exact_mut(N + 1) {
        body[1..].copy_from_slice(&data());
    }
}

/// Machine instructions of four bytes each, padded with prefixes without effect.
pub(super) mod code {
    /// mov rax, [rax]
    pub const FOLLOW: [u8; 4] = [0x48, 0x8b, 0x40, 0];
    /// mov rax, [rdx]
    pub const LOAD: [u8; 4] = [0x48, 0x8b, 0x42, 0];
    /// xor rax, rsi
    pub const CHANGE: [u8; 4] = [0x2e, 0x48, 0x31, 0xf0];
    /// mov [rdx], rax
    pub const STORE: [u8; 4] = [0x48, 0x89, 0x42, 0];
    /// shl rsi, 1
    pub const SHIFT: [u8; 4] = [0x2e, 0x48, 0xd1, 0xe6];
    /// xor rsi, rdi
    pub const MIX: [u8; 4] = [0x2e, 0x48, 0x31, 0xfe];
    /// mov rdx, rsi
    pub const COPY: [u8; 4] = [0x2e, 0x48, 0x89, 0xf2];
    /// and rdx, rbp
    pub const MASK: [u8; 4] = [0x2e, 0x48, 0x21, 0xea];
    /// sub rcx, 1
    pub const COUNT: [u8; 4] = [0x48, 0x83, 0xe9, 1];
    /// jnz backwards
    pub const AGAIN: [u8; 4] = [0x2e, 0x2e, 0x75, 0xf0];
}

/// Appends references one by one, for programs that are not plain loops.
pub(super) struct Emit<'a> {
    pub chunk: &'a mut Chunk,
}

impl Emit<'_> {
    /// Appends a fetch of `code`.
    #[inline(always)]
    pub fn fetch(&mut self, code: Code) {
        self.chunk.refs.push(code.fetch);
        self.chunk.fetched.push(code.id);
    }

    /// Appends a load of `1 << size` bytes by instruction number `index` of the block.
    #[inline(always)]
    pub fn load(&mut self, addr: u64, size: u8, index: u16) {
        self.chunk.refs.push(Ref::data(Kind::Load, VirtAddr(addr), size, index));
    }

    /// Appends a store of `1 << size` bytes by instruction number `index` of the block.
    #[inline(always)]
    pub fn store(&mut self, addr: u64, size: u8, index: u16) {
        self.chunk.refs.push(Ref::data(Kind::Store, VirtAddr(addr), size, index));
    }
}

/// Returns a load of eight bytes by instruction number `index` of its block.
#[inline(always)]
pub(super) fn load(addr: u64, index: u16) -> Ref {
    Ref::data(Kind::Load, VirtAddr(addr), 3, index)
}

/// Returns a store of eight bytes by instruction number `index` of its block.
#[inline(always)]
pub(super) fn store(addr: u64, index: u16) -> Ref {
    Ref::data(Kind::Store, VirtAddr(addr), 3, index)
}
