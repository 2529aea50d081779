//! Block definitions as bytes: distance from the end of the previous block, length, instruction count, code.

use super::bytes::{Cursor, put_signed, put_varint};
use super::error::Damage;
use reach_core::{Block, BlockTable, VirtAddr};

/// Appends blocks. The start of each is stored relative to the end of the previous one.
#[derive(Default)]
pub(super) struct BlockEncoder {
    pub bytes: Vec<u8>,
    pub count: u32,
    last_end: u64,
}

impl BlockEncoder {
    /// Appends a block. Fails with the law that the block breaks.
    pub fn put(&mut self, block: &Block) -> Result<(), &'static str> {
        let has_bytes = !block.bytes.is_empty();
        if block.len == 0 || block.instructions == 0 {
            return Err("a block without instructions");
        }
        if has_bytes && block.bytes.len() != block.len as usize {
            return Err("a block whose code has another length than the block");
        }
        put_signed(&mut self.bytes, block.pc.0.wrapping_sub(self.last_end) as i64);
        put_varint(&mut self.bytes, (block.len as u64) << 1 | has_bytes as u64);
        put_varint(&mut self.bytes, block.instructions as u64);
        self.bytes.extend_from_slice(&block.bytes);
        self.last_end = block.pc.0.wrapping_add(block.len as u64);
        self.count += 1;
        Ok(())
    }
}

/// Reads the `count` blocks of a segment into `table`.
pub(super) fn decode(bytes: &[u8], count: u32, table: &mut BlockTable) -> Result<(), Damage> {
    let mut cursor = Cursor(bytes);
    let mut last_end = 0u64;
    for _ in 0..count {
        let pc = last_end.wrapping_add(cursor.signed()? as u64);
        let word = cursor.varint()?;
        let len = u16::try_from(word >> 1).map_err(|_| Damage("a block that is too long"))?;
        let instructions = cursor.narrow::<u16>()?;
        if len == 0 || instructions == 0 {
            return Err(Damage("a block without instructions"));
        }
        let code = cursor.take(if word & 1 == 1 { len as usize } else { 0 })?;
        table.push(Block { pc: VirtAddr(pc), len, instructions, bytes: code.into() });
        last_end = pc.wrapping_add(len as u64);
    }
    if !cursor.is_empty() {
        return Err(Damage("more blocks than announced"));
    }
    Ok(())
}
