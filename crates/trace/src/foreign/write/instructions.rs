//! The instructions of blocks, as far as their code tells.

use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction as Decoded, InstructionInfoFactory, OpAccess, Register as Name,
};
use reach_core::Block;

/// How an instruction continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// With the next one in memory.
    Next,
    Jump,
    IndirectJump,
    /// With one of two.
    Conditional,
    Call,
    IndirectCall,
    Return,
    /// The code is unknown.
    Unknown,
}

impl Flow {
    /// Returns whether the instruction names its target by a register or memory.
    pub fn is_indirect(self) -> bool {
        matches!(self, Flow::IndirectJump | Flow::IndirectCall | Flow::Return)
    }
}

/// A register, by a number of 1 to 16 (integers), 17 to 48 (vectors) or 49 ([`FLAGS`]).
pub type Register = u8;

/// The stack pointer.
pub const STACK: Register = 1 + 4;

/// The flags.
pub const FLAGS: Register = 49;

/// An instruction of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// The address.
    pub pc: u64,
    /// The length in bytes.
    pub len: u8,
    /// How it continues.
    pub flow: Flow,
    /// The registers that it reads, those of addresses too.
    pub reads: Vec<Register>,
    /// The registers that it writes.
    pub writes: Vec<Register>,
    /// The accesses of each repetition; 0 if it does not repeat.
    pub repeats: u8,
}

/// Returns the instructions of `block`. `None` if its code is unknown, or is not that of as many instructions.
pub fn decode(block: &Block) -> Option<Vec<Instruction>> {
    let mut decoder = Decoder::with_ip(64, &block.bytes, block.pc.0, DecoderOptions::NONE);
    let mut factory = InstructionInfoFactory::new();
    let mut instructions = Vec::with_capacity(block.instructions.into());
    while decoder.can_decode() {
        let decoded = decoder.decode();
        if decoded.is_invalid() {
            return None;
        }
        instructions.push(convert(&decoded, &mut factory));
    }
    (instructions.len() == usize::from(block.instructions)).then_some(instructions)
}

/// Returns as many instructions as `block` has, at even distances: its code is unknown.
pub fn divide(block: &Block) -> Vec<Instruction> {
    let (len, n) = (u64::from(block.len), u64::from(block.instructions));
    let place = |i: u64| block.pc.0 + i * len / n;
    let instruction = |i| Instruction {
        pc: place(i),
        len: (place(i + 1) - place(i)).clamp(1, 15) as u8,
        flow: if i + 1 == n { Flow::Unknown } else { Flow::Next },
        reads: Vec::new(),
        writes: Vec::new(),
        repeats: 0,
    };
    (0..n).map(instruction).collect()
}

fn convert(decoded: &Decoded, factory: &mut InstructionInfoFactory) -> Instruction {
    let info = factory.info(decoded);
    let (mut reads, mut writes) = (Vec::new(), Vec::new());
    let add = |list: &mut Vec<Register>, register| {
        if !list.contains(&register) {
            list.push(register);
        }
    };
    for used in info.used_registers() {
        let Some(register) = number(used.register()) else { continue };
        let access = used.access();
        if matches!(access, OpAccess::Read | OpAccess::CondRead | OpAccess::ReadWrite | OpAccess::ReadCondWrite) {
            add(&mut reads, register);
        }
        if matches!(access, OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite) {
            add(&mut writes, register);
        }
    }
    if decoded.rflags_read() != 0 {
        add(&mut reads, FLAGS);
    }
    if decoded.rflags_modified() != 0 {
        add(&mut writes, FLAGS);
    }
    let accesses = info.used_memory().iter().map(|memory| match memory.access() {
        OpAccess::ReadWrite | OpAccess::ReadCondWrite => 2,
        OpAccess::None | OpAccess::NoMemAccess => 0,
        _ => 1,
    });
    let is_repeated = decoded.is_string_instruction()
        && (decoded.has_rep_prefix() || decoded.has_repe_prefix() || decoded.has_repne_prefix());
    let repeats = if is_repeated { accesses.sum() } else { 0 };
    Instruction { pc: decoded.ip(), len: decoded.len() as u8, flow: flow(decoded), reads, writes, repeats }
}

fn flow(decoded: &Decoded) -> Flow {
    match decoded.flow_control() {
        FlowControl::UnconditionalBranch => Flow::Jump,
        FlowControl::IndirectBranch => Flow::IndirectJump,
        FlowControl::ConditionalBranch => Flow::Conditional,
        FlowControl::Return => Flow::Return,
        // System calls are calls in this sense, too.
        FlowControl::Call if decoded.is_call_near() || decoded.is_call_far() => Flow::Call,
        FlowControl::IndirectCall => Flow::IndirectCall,
        _ => Flow::Next,
    }
}

/// Returns the number of a register; `None` for those that no dependency goes through in practice.
fn number(name: Name) -> Option<Register> {
    let full = name.full_register();
    if full.is_gpr64() {
        return Some(1 + full.number() as u8);
    }
    full.is_zmm().then(|| 17 + full.number() as u8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use reach_core::VirtAddr;

    fn block(instructions: u16, bytes: &[u8]) -> Block {
        Block { pc: VirtAddr(0x1000), len: bytes.len() as u16, instructions, bytes: bytes.into() }
    }

    #[test]
    fn code_gives_lengths_flow_registers_and_repetitions() {
        // mov rax, [rdi+rsi*8]; rep movsq; cmp rax, rcx; jne +4.
        let code = [0x48, 0x8b, 0x04, 0xf7, 0xf3, 0x48, 0xa5, 0x48, 0x39, 0xc8, 0x75, 0x04];
        let found = decode(&block(4, &code)).unwrap();
        assert_eq!(
            found.iter().map(|i| (i.pc, i.len)).collect::<Vec<_>>(),
            [(0x1000, 4), (0x1004, 3), (0x1007, 3), (0x100a, 2)]
        );
        assert_eq!(
            found.iter().map(|i| i.flow).collect::<Vec<_>>(),
            [Flow::Next, Flow::Next, Flow::Next, Flow::Conditional]
        );
        assert_eq!((&found[0].reads[..], &found[0].writes[..]), (&[8, 7][..], &[1][..]));
        assert_eq!(found.iter().map(|i| i.repeats).collect::<Vec<_>>(), [0, 2, 0, 0]);
        assert_eq!((&found[3].reads[..], &found[3].writes[..]), (&[FLAGS][..], &[][..]));
        for (code, flow) in [
            (&[0xc3][..], Flow::Return),
            (&[0xe8, 0, 0, 0, 0], Flow::Call),
            (&[0xff, 0xd0], Flow::IndirectCall),
            (&[0xff, 0xe0], Flow::IndirectJump),
            (&[0xeb, 0], Flow::Jump),
            (&[0x0f, 0x05], Flow::Next),
        ] {
            assert_eq!(decode(&block(1, code)).unwrap()[0].flow, flow, "{code:x?}");
        }
    }

    #[test]
    fn code_of_another_number_of_instructions_is_not_believed() {
        assert_eq!(decode(&block(2, &[0x90])), None);
        assert_eq!(decode(&block(1, &[0x06])), None);
        assert_eq!(decode(&block(1, &[])), None);
    }

    #[test]
    fn unknown_code_is_divided_evenly() {
        let unknown = Block { bytes: Box::default(), ..block(3, &[0; 10]) };
        let places: Vec<_> = divide(&unknown).iter().map(|i| (i.pc, i.len, i.flow)).collect();
        let expected = [(0x1000, 3, Flow::Next), (0x1003, 3, Flow::Next), (0x1006, 4, Flow::Unknown)];
        assert_eq!(places, expected);
    }
}
