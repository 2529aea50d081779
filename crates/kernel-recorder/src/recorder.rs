//! What happens in the guest: which block runs, and what is recorded of it.

use crate::marker;
use crate::passages::{Entry, Passage};
use std::path::PathBuf;

/// The number in markers that ends what the program provokes.
const QUIET: usize = 0xffff;
/// A passage with more entries than this is no passage but a program that sleeps.
const MAX_ENTRIES: usize = 1 << 20;

/// Returns whether `address` lies in the kernel's half.
pub fn is_kernel(address: u64) -> bool {
    address >> 63 == 1
}

/// A block of instructions.
pub enum Block {
    /// The kernel's.
    Kernel {
        /// Address of the first instruction.
        pc: u64,
        /// The bytes of each instruction.
        instructions: Vec<Vec<u8>>,
    },
    /// A program's; some contain a marker.
    Program {
        /// Its number.
        marker: Option<usize>,
    },
}

impl Block {
    /// Returns whether this is one repeated string instruction of the kernel.
    pub fn is_string(&self) -> bool {
        let Block::Kernel { instructions, .. } = self else { return false };
        let [instruction] = instructions.as_slice() else { return false };
        let Some((0xf2 | 0xf3, opcode)) = instruction.split_first() else { return false };
        let opcode = opcode.strip_prefix(&[0x48]).unwrap_or(opcode);
        matches!(opcode, [0xa4..=0xa7 | 0xaa..=0xaf])
    }
}

/// The state of the recording.
pub struct Recorder {
    /// The names of markers 1, 2, …
    pub names: Vec<String>,
    /// Where the trace goes.
    pub out: PathBuf,
    /// All blocks, by number.
    pub blocks: Vec<Block>,
    /// What was recorded, with the marker's number.
    pub passages: Vec<(usize, Passage)>,
    /// The marker that holds.
    announced: Option<usize>,
    /// Whether the kernel runs, entered after the marker.
    inside: bool,
    current: Passage,
}

impl Recorder {
    /// Makes a recorder from the plugin's arguments.
    pub fn new(args: &[String]) -> Result<Recorder, String> {
        let value = |key: &str| {
            let value = args.iter().find_map(|arg| arg.strip_prefix(key)?.strip_prefix('='));
            value.ok_or_else(|| format!("{key}=… is missing"))
        };
        Ok(Recorder {
            names: value("names")?.split(':').map(String::from).collect(),
            out: value("out")?.into(),
            blocks: Vec::new(),
            passages: Vec::new(),
            announced: None,
            inside: false,
            current: Passage::default(),
        })
    }

    /// Adds a block and returns its number; `None` if it has no instructions.
    pub fn define(&mut self, pc: u64, instructions: &[Vec<u8>]) -> Option<usize> {
        if instructions.is_empty() {
            return None;
        }
        self.blocks.push(match is_kernel(pc) {
            true => Block::Kernel { pc, instructions: instructions.to_vec() },
            false => Block::Program { marker: instructions.iter().find_map(|bytes| marker::number(bytes)) },
        });
        Some(self.blocks.len() - 1)
    }

    /// Takes the start of block `number`.
    pub fn enter(&mut self, number: usize) {
        match (&self.blocks[number], self.announced) {
            (Block::Kernel { .. }, Some(_)) => {
                self.inside = true;
                if self.current.entries.len() < MAX_ENTRIES {
                    self.current.entries.push(Entry::Block(number));
                }
            }
            (Block::Kernel { .. }, None) => {}
            (Block::Program { marker }, announced) => {
                if let Some(kind) = announced.filter(|_| self.inside) {
                    self.passages.push((kind, std::mem::take(&mut self.current)));
                    self.announced = None;
                    self.inside = false;
                }
                if let &Some(marker) = marker {
                    self.announced = Some(marker).filter(|&marker| marker != QUIET);
                }
            }
        }
    }

    /// Takes an access by instruction `index` of the current block.
    pub fn access(&mut self, address: u64, size_log2: u8, store: bool, index: u16) {
        // Programs' memory is theirs: the simulator brings their buffers in.
        if self.inside && is_kernel(address) && self.current.entries.len() < MAX_ENTRIES {
            self.current.entries.push(Entry::Access { address, size_log2, store, index });
        }
    }
}
