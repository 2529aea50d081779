//! The records of drmemtrace: 12 bytes each, little-endian, namely a type (u16), a size or marker type (u16), and a value (u64).

/// The bytes of a record.
pub const BYTES: usize = 12;

/// The newest version of the format that Reach reads.
pub const NEWEST: u64 = 7;

/// The most bytes of an instruction.
pub const MAX_INSTRUCTION_BYTES: usize = 15;

/// Types of records.
pub mod kind {
    pub const READ: u16 = 0;
    pub const WRITE: u16 = 1;
    pub const INSTRUCTION: u16 = 10;
    pub const DIRECT_JUMP: u16 = 11;
    pub const INDIRECT_JUMP: u16 = 12;
    pub const CONDITIONAL_JUMP: u16 = 13;
    pub const DIRECT_CALL: u16 = 14;
    pub const INDIRECT_CALL: u16 = 15;
    pub const RETURN: u16 = 16;
    pub const BUNDLE: u16 = 17;
    pub const THREAD: u16 = 22;
    pub const THREAD_EXIT: u16 = 23;
    pub const PROCESS: u16 = 24;
    pub const HEADER: u16 = 25;
    pub const FOOTER: u16 = 26;
    pub const MARKER: u16 = 28;
    pub const NOT_FETCHED: u16 = 29;
    pub const MAYBE_FETCHED: u16 = 30;
    pub const SYSENTER: u16 = 31;
    pub const ENCODING: u16 = 47;
    pub const TAKEN_JUMP: u16 = 48;
    pub const UNTAKEN_JUMP: u16 = 49;
    /// The types from this one on are none.
    pub const END: u16 = 50;
}

/// Types of markers.
pub mod marker {
    pub const TIMESTAMP: u16 = 2;
    pub const CPU: u16 = 3;
    pub const FILE_TYPE: u16 = 9;
    pub const CACHE_LINE: u16 = 10;
    pub const VERSION: u16 = 12;
    pub const WINDOW: u16 = 14;
    pub const PAGE_SIZE: u16 = 18;
    pub const CHUNK_FOOTER: u16 = 21;
    pub const SYSTEM_CALL: u16 = 25;
    pub const BRANCH_TARGET: u16 = 29;
}

/// Bits of the file type.
pub mod file_type {
    /// The tracer left out references that small caches of its own held: all, those of instructions, or those of data.
    pub const FILTERED: u64 = 0x01 | 0x80 | 0x100;
    pub const NO_DATA: u64 = 0x04;
    pub const X86_64: u64 = 0x40;
    pub const ENCODINGS: u64 = 0x200;
    pub const SYSTEM_CALL_NUMBERS: u64 = 0x400;
    /// The kernel's own instructions in system calls are in the trace.
    pub const KERNEL: u64 = 0x1000 | 0x8000;
    /// A file is a core, on which threads take turns.
    pub const CORES: u64 = 0x1_0000;
    /// The encodings are none of a processor, but say which registers an instruction depends on.
    pub const REGISTERS_ONLY: u64 = 0x2_0000;
}

/// A record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// The type, of [`kind`].
    pub kind: u16,
    /// The size of an access or instruction in bytes, the number of encoding bytes, or the type of a [`marker`].
    pub size: u16,
    /// The address, the encoding bytes, or the value of a marker.
    pub value: u64,
}

impl Record {
    /// Returns the record that these bytes are.
    pub fn parse(bytes: &[u8; BYTES]) -> Record {
        let [a, b, c, d, value @ ..] = *bytes;
        Record { kind: u16::from_le_bytes([a, b]), size: u16::from_le_bytes([c, d]), value: u64::from_le_bytes(value) }
    }

    /// Returns the bytes of the record.
    pub fn bytes(self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        bytes[..2].copy_from_slice(&self.kind.to_le_bytes());
        bytes[2..4].copy_from_slice(&self.size.to_le_bytes());
        bytes[4..].copy_from_slice(&self.value.to_le_bytes());
        bytes
    }

    /// Returns whether this is an instruction that was fetched. Those of [`kind::MAYBE_FETCHED`] depend on the one before.
    pub fn is_fetched(self) -> bool {
        matches!(self.kind, kind::INSTRUCTION..=kind::RETURN | kind::SYSENTER | kind::TAKEN_JUMP | kind::UNTAKEN_JUMP)
    }

    /// Returns whether the instruction that this is ends a block.
    pub fn is_branch(self) -> bool {
        self.is_fetched() && self.kind != kind::INSTRUCTION
    }
}
