//! A trace in memory, as columns of numbers: what NumPy and its like hold.
//!
//! Each element is an instruction, a load or a store, in program order, as a line of the text form is (`text.rs`). Where the
//! instructions' addresses are unknown, a column may say how many ran; they are then fetched from a loop in a page of its own.

use super::assembler::{ADDR_MASK, Assembler};
use super::threads::Threads;
use super::{CHUNK_EVENTS, CHUNK_REFS};
use crate::{Ending, Progress, Source, TraceError};
use reach_core::{BlockTable, Chunk, Kind};
use std::sync::Arc;

/// The most bytes of an instruction, and of an access.
const MOST: [u32; 2] = [64, 1 << 16];

/// The address of the loop from which instructions of unknown address are fetched, and its length in instructions of
/// [`LOOP_BYTES`] bytes each.
const LOOP: u64 = 0x40_0000;
const LOOP_INSTRUCTIONS: u32 = 1024;
const LOOP_BYTES: u8 = 4;

/// Bytes that somebody owns and nobody changes.
pub type Bytes = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// A trace as columns of little-endian numbers. Each is as long as `kinds`.
///
/// ```
/// use reach_core::Chunk;
/// use reach_trace::Source;
/// use reach_trace::foreign::{Arrays, Columns};
/// use std::sync::Arc;
///
/// let (addresses, sizes) = ([0x40_1000_u64, 0x7f_0000], [4_u32, 8]);
/// let bytes = |bytes: Vec<u8>| Arc::new(bytes) as reach_trace::foreign::Bytes;
/// let columns = Columns {
///     addresses: bytes(addresses.iter().flat_map(|n| n.to_le_bytes()).collect()),
///     kinds: bytes(vec![0, 1]),
///     sizes: bytes(sizes.iter().flat_map(|n| n.to_le_bytes()).collect()),
///     instructions: None,
///     processes: None,
///     threads: None,
/// };
/// let mut program = Arrays::new("two", columns.checked()?);
/// let mut chunk = Chunk::default();
/// assert!(program.fill(&mut chunk)? && chunk.refs.len() == 2);
/// # Ok::<(), reach_trace::TraceError>(())
/// ```
#[derive(Clone)]
pub struct Columns {
    /// Virtual addresses in bytes, 64 bits each. Bits above 48 are ignored.
    pub addresses: Bytes,
    /// 8 bits each: 0 for an instruction, 1 for a load, 2 for a store.
    pub kinds: Bytes,
    /// Bytes of each instruction (1 to 64) or access (1 to 65536), 32 bits each.
    pub sizes: Bytes,
    /// Instructions that ran since the element before, up to and including the one that accesses; 32 bits each. `None` where
    /// instructions are elements.
    pub instructions: Option<Bytes>,
    /// Numbers of processes, 64 bits each. `None`: one process.
    pub processes: Option<Bytes>,
    /// Numbers of threads, 64 bits each. `None`: one thread.
    pub threads: Option<Bytes>,
}

/// Returns number `at` of a column whose numbers have `N` bytes.
fn number<const N: usize>(column: &Bytes, at: usize) -> [u8; N] {
    let bytes = &(**column).as_ref()[at * N..][..N];
    bytes.try_into().expect("a slice of this length")
}

impl Columns {
    /// Returns the number of elements.
    fn len(&self) -> usize {
        (*self.kinds).as_ref().len()
    }

    fn size(&self, at: usize) -> u32 {
        u32::from_le_bytes(number(&self.sizes, at))
    }

    fn instructions(&self, at: usize) -> Option<u32> {
        self.instructions.as_ref().map(|column| u32::from_le_bytes(number(column, at)))
    }

    /// Checks lengths and ranges of all columns, and returns them.
    ///
    /// # Errors
    /// [`TraceError::Invalid`] with the first element that cannot be.
    pub fn checked(self) -> Result<Columns, TraceError> {
        let invalid = |what: String| Err(TraceError::Invalid(what));
        let len = self.len();
        let columns = [
            ("addresses", Some(&self.addresses), 8),
            ("sizes", Some(&self.sizes), 4),
            ("instructions", self.instructions.as_ref(), 4),
            ("processes", self.processes.as_ref(), 8),
            ("threads", self.threads.as_ref(), 8),
        ];
        for (name, column, bytes) in columns {
            let Some(column) = column else { continue };
            let (found, expected) = ((**column).as_ref().len(), len * bytes);
            if found != expected {
                let found = found / bytes;
                return invalid(format!("{name}: {found} elements, expected {len}, as kinds has"));
            }
        }
        for at in 0..len {
            let (kind, size) = ((*self.kinds).as_ref()[at], self.size(at));
            let most = match kind {
                0 if self.instructions.is_some() => {
                    let what = "is an instruction, and instructions are counted, too";
                    return invalid(format!("kinds[{at}]: 0 {what}; leave one of both out"));
                }
                0 => MOST[0],
                1 | 2 => MOST[1],
                kind => {
                    return invalid(format!("kinds[{at}]: {kind}, expected 0 (instruction), 1 (load) or 2 (store)"));
                }
            };
            if !(1..=most).contains(&size) {
                return invalid(format!("sizes[{at}]: {size}, expected 1 to {most} bytes"));
            }
        }
        Ok(self)
    }
}

/// Reads a trace in memory.
pub struct Arrays {
    name: String,
    columns: Columns,
    /// The next element.
    next: usize,
    /// Instructions of that element that were given already.
    given: u32,
    assembler: Assembler,
    threads: Threads,
}

impl Arrays {
    /// Reads `columns`, which were checked, as the program `name`.
    pub fn new(name: &str, columns: Columns) -> Arrays {
        let name = name.replace(char::is_control, " ");
        Arrays { name, columns, next: 0, given: 0, assembler: Assembler::default(), threads: Threads::default() }
    }

    /// Appends the next element to `chunk`, or the next part of its instructions.
    fn read(&mut self, chunk: &mut Chunk) -> Result<(), TraceError> {
        let (columns, at) = (&self.columns, self.next);
        let id = |column: &Option<Bytes>| column.as_ref().map_or(0, |column| u64::from_le_bytes(number(column, at)));
        let Some((asid, thread)) = self.threads.of(id(&columns.processes), id(&columns.threads)) else {
            return Err(TraceError::Invalid(format!("threads[{at}]: more threads than a trace may have")));
        };
        self.assembler.switch(asid, thread, chunk);
        if let Some(all) = columns.instructions(at) {
            let part = (all - self.given).min(LOOP_INSTRUCTIONS);
            for instruction in 0..part {
                let pc = LOOP + u64::from(instruction) * u64::from(LOOP_BYTES);
                self.assembler.instruction(pc, LOOP_BYTES, chunk);
            }
            self.given += part;
            if self.given < all {
                self.assembler.end_block();
                return Ok(());
            }
        }
        let address = u64::from_le_bytes(number(&columns.addresses, at)) & ADDR_MASK;
        let size = columns.size(at);
        match (*columns.kinds).as_ref()[at] {
            0 => self.assembler.instruction(address, size as u8, chunk),
            1 => self.assembler.data(Kind::Load, address, size, chunk),
            _ => self.assembler.data(Kind::Store, address, size, chunk),
        }
        if columns.instructions.is_some() {
            self.assembler.end_block();
        }
        (self.next, self.given) = (at + 1, 0);
        Ok(())
    }
}

impl Source for Arrays {
    fn fill(&mut self, chunk: &mut Chunk) -> Result<bool, TraceError> {
        chunk.clear();
        let is_full = |chunk: &Chunk, pending: usize| {
            chunk.refs.len() + pending >= CHUNK_REFS || chunk.events.len() >= CHUNK_EVENTS
        };
        while self.next < self.columns.len() && !is_full(chunk, self.assembler.pending()) {
            self.read(chunk)?;
        }
        if self.next == self.columns.len() {
            self.assembler.flush(chunk);
        }
        Ok(!chunk.is_empty())
    }

    fn blocks(&self) -> &BlockTable {
        self.assembler.table()
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn progress(&self) -> Progress {
        Progress { done: self.next as u64, total: Some(self.columns.len() as u64) }
    }

    fn ending(&mut self) -> Ending {
        Ending::default()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Text;
    use super::*;
    use std::io::Cursor;

    fn read_all(source: &mut dyn Source) -> Chunk {
        let (mut chunk, mut all) = (Chunk::default(), Chunk::default());
        while source.fill(&mut chunk).unwrap() {
            all.append(&chunk);
        }
        all
    }

    fn column<const N: usize>(numbers: impl IntoIterator<Item = [u8; N]>) -> Bytes {
        Arc::new(numbers.into_iter().flatten().collect::<Vec<u8>>())
    }

    /// Elements as kind, address, size and thread.
    fn columns(elements: &[(u8, u64, u32, u64)]) -> Columns {
        Columns {
            addresses: column(elements.iter().map(|element| element.1.to_le_bytes())),
            kinds: column(elements.iter().map(|element| [element.0])),
            sizes: column(elements.iter().map(|element| element.2.to_le_bytes())),
            instructions: None,
            processes: None,
            threads: Some(column(elements.iter().map(|element| element.3.to_le_bytes()))),
        }
    }

    #[test]
    fn arrays_give_what_the_same_trace_in_text_form_gives() {
        let elements: Vec<_> = (0..400_000_u64)
            .map(|at| match at % 4 {
                0 => (0, 0x40_1000 + at / 4 % 1000 * 3, 3, at / 1000 % 3),
                1 => (1, at * 4097 % (1 << 30), 8, at / 1000 % 3),
                2 => (2, at * 31, 300, at / 1000 % 3),
                _ => (0, 0x40_9000, 5, at / 1000 % 3),
            })
            .collect();
        let mut text = "# reach-text 1\n".to_owned();
        for (kind, address, size, thread) in &elements {
            text += &format!("T 0 {thread}\n{} {address:x} {size}\n", ["I", "L", "S"][*kind as usize]);
        }
        text += "E\n";
        let arrays = read_all(&mut Arrays::new("arrays", columns(&elements).checked().unwrap()));
        let text = read_all(&mut Text::new(Cursor::new(text), "text"));
        assert!(arrays.refs == text.refs && arrays.fetched == text.fetched && arrays.events == text.events);
    }

    #[test]
    fn counted_instructions_run_before_their_access() {
        let counted = |counts: &[u32]| {
            let elements = counts.iter().map(|_| (1, 4096, 8, 0)).collect::<Vec<_>>();
            let instructions = Some(column(counts.iter().map(|count| count.to_le_bytes())));
            Arrays::new("counted", Columns { instructions, ..columns(&elements) }.checked().unwrap())
        };
        let mut program = counted(&[1, 0, 5, 3000]);
        let chunk = read_all(&mut program);
        let instructions: Vec<_> =
            chunk.fetched.iter().map(|&id| u32::from(program.blocks().get(id).instructions)).collect();
        assert_eq!(instructions.iter().sum::<u32>(), 3006);
        assert_eq!(instructions[..2], [1, 5]);
        assert_eq!(chunk.refs.iter().filter(|r| r.kind() == Kind::Load).count(), 4);
        assert_eq!(chunk.refs.last().unwrap().kind(), Kind::Load);
        // Few distinct blocks, however many instructions.
        assert!(program.blocks().len() < 70, "{}", program.blocks().len());
    }

    #[test]
    fn what_cannot_be_is_named_with_its_place() {
        let error = |columns: Columns| columns.checked().err().unwrap().to_string();
        assert!(error(columns(&[(0, 0, 4, 0), (3, 0, 4, 0)])).starts_with("kinds[1]: 3, expected 0"));
        assert!(error(columns(&[(1, 0, 0, 0)])).starts_with("sizes[0]: 0, expected 1 to 65536"));
        assert!(error(columns(&[(0, 0, 65, 0)])).starts_with("sizes[0]: 65, expected 1 to 64"));
        let short = Columns { sizes: column([[0; 4]]), ..columns(&[(1, 0, 1, 0), (1, 0, 1, 0)]) };
        assert!(error(short).starts_with("sizes: 1 elements, expected 2"));
        let both = Columns { instructions: Some(column([[1, 0, 0, 0]])), ..columns(&[(0, 0, 4, 0)]) };
        assert!(error(both).contains("leave one of both out"));
    }
}
