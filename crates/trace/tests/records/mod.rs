//! Assembles traces of drmemtrace.

/// Records of a trace.
pub struct Records {
    bytes: Vec<u8>,
    thread: u64,
}

impl Records {
    /// Begins a trace of one thread, with the header that this version has.
    pub fn begin(version: u64, file_type: u64, process: u64, thread: u64) -> Records {
        let mut records = Records { bytes: Vec::new(), thread };
        records.typed(25, 0, version);
        if version >= 3 {
            records.marker(12, version).marker(9, file_type);
        }
        records.typed(22, 4, thread).typed(24, 4, process);
        records
    }

    /// Appends a record of a type, with its size and value.
    pub fn typed(&mut self, kind: u16, size: u16, value: u64) -> &mut Records {
        self.bytes.extend(kind.to_le_bytes());
        self.bytes.extend(size.to_le_bytes());
        self.bytes.extend(value.to_le_bytes());
        self
    }

    pub fn marker(&mut self, marker: u16, value: u64) -> &mut Records {
        self.typed(28, marker, value)
    }

    pub fn instruction(&mut self, pc: u64, len: u16) -> &mut Records {
        self.typed(10, len, pc)
    }

    pub fn load(&mut self, addr: u64, size: u16) -> &mut Records {
        self.typed(0, size, addr)
    }

    pub fn store(&mut self, addr: u64, size: u16) -> &mut Records {
        self.typed(1, size, addr)
    }

    /// Appends the code of the next instruction.
    pub fn encoding(&mut self, code: &[u8]) -> &mut Records {
        for piece in code.chunks(8) {
            let mut value = [0; 8];
            value[..piece.len()].copy_from_slice(piece);
            self.typed(47, piece.len() as u16, u64::from_le_bytes(value));
        }
        self
    }

    /// Returns the bytes so far, and begins anew.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }

    /// Ends the trace and returns its bytes.
    pub fn end(&mut self) -> Vec<u8> {
        self.typed(23, 4, self.thread).typed(26, 0, 0).take()
    }
}
