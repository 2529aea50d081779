//! Decodes x86-64 instructions into what the core needs to time them.
//!
//! Deliberate simplifications:
//! - An instruction is one operation besides its loads and stores, whatever its microcode.
//! - The flags are one register.
//! - Pushes, pops, calls and returns do not write the stack pointer: stack engines make it available at once.
//! - String instructions do not write their pointers and counters.

use super::instruction::{BranchKind, FLAGS, Inst, NO_SOURCE, NO_TARGET, OpClass, Register, Renamed};
use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, Register as Name,
    UsedMemory,
};
use reach_core::Block;
use std::ops::Range;

/// Appends the instructions of `block` to `decoded`, up to the first invalid one.
///
/// Returns the target of the branch that ends the block. `None` without such a branch, for indirect branches, for a
/// block without bytes and for invalid bytes.
pub(super) fn decode_block(block: &Block, decoded: &mut Vec<Inst>) -> Option<u64> {
    if block.bytes.is_empty() {
        return None;
    }
    let mut decoder = Decoder::with_ip(64, &block.bytes, block.pc.0, DecoderOptions::NONE);
    let mut factory = InstructionInfoFactory::new();
    let mut instruction = Instruction::default();
    while decoder.can_decode() {
        decoder.decode_out(&mut instruction);
        if instruction.is_invalid() {
            return None;
        }
        decoded.push(convert(&instruction, &mut factory));
    }
    let is_direct = matches!(branch_kind(&instruction), BranchKind::Jump | BranchKind::Call | BranchKind::Conditional);
    is_direct.then(|| instruction.near_branch_target())
}

fn convert(instruction: &Instruction, factory: &mut InstructionInfoFactory) -> Inst {
    let mut inst = Inst { class: op_class(instruction), branch: branch_kind(instruction), ..Inst::UNKNOWN };
    let info = factory.info(instruction);
    let is_accessed = |memory: &&UsedMemory| memory.access() != OpAccess::NoMemAccess;
    let names = info.used_memory().iter().filter(is_accessed).flat_map(|memory| [memory.base(), memory.index()]);
    for register in names.filter_map(register_number) {
        add_register(&mut inst.address, register, NO_SOURCE);
    }
    for memory in info.used_memory().iter().filter(is_accessed) {
        let access = memory.access();
        inst.loads += u8::from(!matches!(access, OpAccess::Write | OpAccess::CondWrite));
        inst.stores += u8::from(!matches!(access, OpAccess::Read | OpAccess::CondRead));
    }
    let is_implicit = |name: Name| {
        name.full_register() == Name::RSP && instruction.is_stack_instruction()
            || instruction.is_string_instruction() && matches!(name.full_register(), Name::RSI | Name::RDI | Name::RCX)
    };
    for used in info.used_registers() {
        let Some(register) = register_number(used.register()) else { continue };
        let access = used.access();
        let reads = !matches!(access, OpAccess::Write | OpAccess::None | OpAccess::NoMemAccess);
        let writes = !matches!(access, OpAccess::Read | OpAccess::CondRead | OpAccess::None | OpAccess::NoMemAccess);
        if reads && !inst.address.contains(&register) {
            add_register(&mut inst.sources, register, NO_SOURCE);
        }
        if writes && !is_implicit(used.register()) {
            add_register(&mut inst.targets, register, NO_TARGET);
        }
    }
    if instruction.rflags_read() != 0 {
        add_register(&mut inst.sources, FLAGS, NO_SOURCE);
    }
    if instruction.rflags_modified() != 0 {
        add_register(&mut inst.targets, FLAGS, NO_TARGET);
    }
    inst.renamed = renamed(&inst);
    inst
}

/// Returns the physical registers that `inst` takes.
///
/// Moves between registers and zeroing idioms take none: they are done by renaming (Intel, Optimization Reference Manual:
/// move elimination and zero idioms; AMD's guides say the same).
fn renamed(inst: &Inst) -> Renamed {
    let is_zeroing = inst.class == OpClass::Simple && inst.sources[0] == NO_SOURCE;
    let is_move = inst.class == OpClass::Move && inst.sources[0] != NO_SOURCE;
    if inst.loads + inst.stores == 0 && (is_zeroing || is_move) {
        return Renamed::NONE;
    }
    let count = |registers: Range<Register>| inst.targets.iter().filter(|target| registers.contains(target)).count();
    let [integer, vector] = [0..16, 16..48].map(|registers| count(registers) as u8);
    Renamed { integer, vector, only_flags: integer == 0 && inst.targets.contains(&FLAGS) }
}

/// Adds `register` to `list`, whose unused places hold `unused`. Drops it if the list is full or has it already.
fn add_register<const N: usize>(list: &mut [Register; N], register: Register, unused: Register) {
    if list.contains(&register) {
        return;
    }
    if let Some(free) = list.iter_mut().find(|slot| **slot == unused) {
        *free = register;
    }
}

/// Returns the number of the register that renames `name`. `None` for registers that the model ignores, such as RIP and
/// segments.
fn register_number(name: Name) -> Option<Register> {
    let full = name.full_register();
    if full.is_gpr64() {
        Some(full.number() as u8)
    } else if full.is_zmm() {
        Some(16 + full.number() as u8)
    } else if full.is_k() {
        Some(48 + full.number() as u8)
    } else if full.is_st() || full.is_mm() {
        Some(57)
    } else {
        None
    }
}

fn branch_kind(instruction: &Instruction) -> BranchKind {
    match instruction.flow_control() {
        FlowControl::UnconditionalBranch => BranchKind::Jump,
        FlowControl::ConditionalBranch => BranchKind::Conditional,
        FlowControl::IndirectBranch => BranchKind::Indirect,
        FlowControl::Return => BranchKind::Return,
        // In user mode, a system call falls through.
        FlowControl::Call if matches!(instruction.mnemonic(), Mnemonic::Syscall | Mnemonic::Sysenter) => {
            BranchKind::None
        }
        FlowControl::Call => BranchKind::Call,
        FlowControl::IndirectCall => BranchKind::IndirectCall,
        _ => BranchKind::None,
    }
}

fn op_class(instruction: &Instruction) -> OpClass {
    use Mnemonic as M;
    let mnemonic = instruction.mnemonic();
    match mnemonic {
        M::Mul | M::Imul | M::Mulx => return OpClass::Multiply,
        M::Div | M::Idiv => return OpClass::Divide,
        M::Mov | M::Movzx | M::Movsx | M::Movsxd | M::Push | M::Pop | M::Call | M::Ret => return OpClass::Move,
        // String instructions that share their mnemonics with vector instructions.
        M::Movsd | M::Cmpsd | M::Movss if instruction.is_string_instruction() => return OpClass::Simple,
        _ => {}
    }
    let name = format!("{mnemonic:?}").to_lowercase();
    let is_x87 = name.starts_with('f');
    let plain = if is_x87 { &name } else { name.strip_prefix('v').unwrap_or(&name) };
    let starts_with = |prefixes: &[&str]| prefixes.iter().any(|prefix| plain.starts_with(prefix));
    let is_float = ["ss", "sd", "ps", "pd"].iter().any(|suffix| plain.ends_with(suffix));
    match () {
        () if is_x87 && starts_with(&["fdiv", "fidiv", "fsqrt", "fprem"]) => OpClass::FloatDivide,
        () if is_x87 && starts_with(&["fld", "fst", "fild", "fist", "fxch"]) => OpClass::Move,
        () if is_x87 => OpClass::Float,
        () if starts_with(&["movap", "movup", "movdq", "movnt", "movq", "movd", "movss", "movsd", "lddqu"]) => {
            OpClass::Move
        }
        () if starts_with(&["pmul", "pmadd"]) => OpClass::Multiply,
        () if is_float && starts_with(&["div", "sqrt"]) => OpClass::FloatDivide,
        () if is_float
            && starts_with(&["add", "sub", "mul", "fm", "fnm", "hadd", "hsub", "dp", "round", "rndscale"]) =>
        {
            OpClass::Float
        }
        () if starts_with(&["cvt", "min", "max", "comis", "ucomis"]) => OpClass::Float,
        () => OpClass::Simple,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reach_core::VirtAddr;

    fn decode(bytes: &[u8]) -> Vec<Inst> {
        let (len, bytes) = (bytes.len() as u16, bytes.into());
        let mut all = Vec::new();
        decode_block(&Block { pc: VirtAddr(0x40_0000), len, instructions: 1, bytes }, &mut all);
        all
    }

    #[test]
    fn loads_read_address_registers_and_write_targets() {
        // mov rax, [rax + 8]; add rcx, [rbx + rdx*8]; mov [rdi], rsi
        let all = decode(&[0x48, 0x8b, 0x40, 8, 0x48, 3, 0x0c, 0xd3, 0x48, 0x89, 0x37]);
        assert_eq!(all.len(), 3);
        assert_eq!((all[0].address[0], all[0].sources[0], all[0].targets[0]), (0, NO_SOURCE, 0));
        assert_eq!(all[0].class, OpClass::Move);
        assert_eq!((all[1].address, all[1].sources[0]), ([3, 2], 1));
        assert_eq!((all[1].targets, all[1].class), ([1, FLAGS, NO_TARGET], OpClass::Simple));
        assert_eq!((all[2].address[0], all[2].sources[0], all[2].targets[0]), (7, 6, NO_TARGET));
        assert_eq!(all.iter().map(|inst| (inst.loads, inst.stores)).collect::<Vec<_>>(), [(1, 0), (1, 0), (0, 1)]);
    }

    #[test]
    fn zeroing_idioms_have_no_sources_and_stack_instructions_do_not_write_rsp() {
        // xor eax, eax; push rbx; pop rcx; lea rdx, [rsi + 4]
        let all = decode(&[0x31, 0xc0, 0x53, 0x59, 0x48, 0x8d, 0x56, 4]);
        assert_eq!((all[0].sources[0], all[0].targets[0]), (NO_SOURCE, 0));
        assert_eq!((all[1].address[0], all[1].sources[0], all[1].targets[0]), (4, 3, NO_TARGET));
        assert_eq!((all[2].address[0], all[2].targets), (4, [1, NO_TARGET, NO_TARGET]));
        assert_eq!((all[3].address[0], all[3].sources[0], all[3].targets[0]), (NO_SOURCE, 6, 2));
    }

    #[test]
    fn instructions_take_a_register_for_each_that_they_write() {
        let taken = |bytes: &[u8]| {
            let Renamed { integer, vector, only_flags } = decode(bytes)[0].renamed;
            (integer, vector, only_flags)
        };
        assert_eq!(taken(&[0x48, 3, 0x0c, 0xd3]), (1, 0, false), "add rcx, [rbx + rdx*8]");
        assert_eq!(taken(&[0x48, 0x39, 0xc8]), (0, 0, true), "cmp rax, rcx");
        assert_eq!(taken(&[0x48, 0xf7, 0xe1]), (2, 0, false), "mul rcx");
        assert_eq!(taken(&[0x0f, 0x58, 0xc1]), (0, 1, false), "addps xmm0, xmm1");
        assert_eq!(taken(&[0x48, 0x8b, 0x07]), (1, 0, false), "mov rax, [rdi]");
        assert_eq!(taken(&[0xb8, 1, 0, 0, 0]), (1, 0, false), "mov eax, 1");
        // mov [rdi], rsi; mov rax, rcx; xor eax, eax; jne
        for none in [&[0x48, 0x89, 0x37][..], &[0x48, 0x89, 0xc8], &[0x31, 0xc0], &[0x75, 0x10]] {
            assert_eq!(taken(none), (0, 0, false), "{none:x?}");
        }
    }

    #[test]
    fn direct_branches_have_targets_and_memory_operands_are_counted() {
        let target = |bytes: &[u8]| {
            let (len, bytes) = (bytes.len() as u16, bytes.into());
            decode_block(&Block { pc: VirtAddr(0x40_0000), len, instructions: 1, bytes }, &mut Vec::new())
        };
        assert_eq!(target(&[0x75, 0x10]), Some(0x40_0012));
        assert_eq!(target(&[0xe8, 0, 1, 0, 0]), Some(0x40_0105));
        assert_eq!((target(&[0xff, 0xe0]), target(&[0xc3]), target(&[0x90])), (None, None, None));
        // add [rax], rcx; rep movsb; lea rax, [rbx]; call [rax]
        let references = |bytes: &[u8]| (decode(bytes)[0].loads, decode(bytes)[0].stores);
        assert_eq!(references(&[0x48, 1, 8]), (1, 1));
        assert_eq!(references(&[0xf3, 0xa4]), (1, 1));
        assert_eq!(references(&[0x48, 0x8d, 3]), (0, 0));
        assert_eq!(references(&[0xff, 0x10]), (1, 1));
    }

    #[test]
    fn mnemonics_map_to_classes_and_branch_kinds() {
        let one = |bytes: &[u8]| decode(bytes)[0];
        assert_eq!(one(&[0x48, 0x0f, 0xaf, 0xc3]).class, OpClass::Multiply);
        assert_eq!(one(&[0x48, 0xf7, 0xf3]).class, OpClass::Divide);
        // addsd xmm0, xmm1; vdivpd ymm0, ymm1, ymm2; movsd xmm0, [rax]; movsq
        assert_eq!(one(&[0xf2, 0x0f, 0x58, 0xc1]).class, OpClass::Float);
        assert_eq!(one(&[0xc5, 0xf5, 0x5e, 0xc2]).class, OpClass::FloatDivide);
        assert_eq!(one(&[0xf2, 0x0f, 0x10, 0]).class, OpClass::Move);
        assert_eq!(one(&[0xa5]).class, OpClass::Simple);
        let branches = [
            (&[0xeb, 0xfe][..], BranchKind::Jump),
            (&[0x75, 0xfe], BranchKind::Conditional),
            (&[0xe8, 0, 0, 0, 0], BranchKind::Call),
            (&[0xff, 0xe0], BranchKind::Indirect),
            (&[0xff, 0xd0], BranchKind::IndirectCall),
            (&[0xc3], BranchKind::Return),
            (&[0x0f, 5], BranchKind::None),
        ];
        for (bytes, branch) in branches {
            assert_eq!(one(bytes).branch, branch);
        }
    }
}
