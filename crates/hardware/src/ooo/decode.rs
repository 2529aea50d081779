//! From the bytes of x86-64 instructions to what the window needs of them.
//!
//! Where that is less than what real cores do, it is so on purpose: an instruction is one operation beside its loads and
//! stores, whatever the microcode; flags are one register; the stack pointer is ready at once where pushes, pops, calls and
//! returns move it, as stack engines have it, and so are the pointers and counters of string instructions.

use super::code::{Branch, Class, Inst, NO_SOURCE, NO_TARGET, Register};
use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, Register as Name,
    UsedMemory,
};
use reach_core::Block;

/// The register of flags.
const FLAGS: Register = 56;

/// Appends the instructions of `block`, as far as its bytes can be decoded. Returns where its last one leads, if that is a
/// branch that says so.
pub(super) fn block(block: &Block, to: &mut Vec<Inst>) -> Option<u64> {
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
        to.push(convert(&instruction, &mut factory));
    }
    let named = matches!(branch(&instruction), Branch::Jump | Branch::Call | Branch::Conditional);
    named.then(|| instruction.near_branch_target())
}

fn convert(instruction: &Instruction, factory: &mut InstructionInfoFactory) -> Inst {
    let mut inst = Inst { class: class(instruction), branch: branch(instruction), ..Inst::UNKNOWN };
    let info = factory.info(instruction);
    let touches = |memory: &&UsedMemory| memory.access() != OpAccess::NoMemAccess;
    let names = info.used_memory().iter().filter(touches).flat_map(|memory| [memory.base(), memory.index()]);
    for register in names.filter_map(number) {
        put(&mut inst.address, register, NO_SOURCE);
    }
    for memory in info.used_memory().iter().filter(touches) {
        let access = memory.access();
        inst.loads += u8::from(!matches!(access, OpAccess::Write | OpAccess::CondWrite));
        inst.stores += u8::from(!matches!(access, OpAccess::Read | OpAccess::CondRead));
    }
    let implicit = |name: Name| {
        name.full_register() == Name::RSP && instruction.is_stack_instruction()
            || instruction.is_string_instruction() && matches!(name.full_register(), Name::RSI | Name::RDI | Name::RCX)
    };
    for used in info.used_registers() {
        let Some(register) = number(used.register()) else { continue };
        let access = used.access();
        let reads = !matches!(access, OpAccess::Write | OpAccess::None | OpAccess::NoMemAccess);
        let writes = !matches!(access, OpAccess::Read | OpAccess::CondRead | OpAccess::None | OpAccess::NoMemAccess);
        if reads && !inst.address.contains(&register) {
            put(&mut inst.sources, register, NO_SOURCE);
        }
        if writes && !implicit(used.register()) {
            put(&mut inst.targets, register, NO_TARGET);
        }
    }
    if instruction.rflags_read() != 0 {
        put(&mut inst.sources, FLAGS, NO_SOURCE);
    }
    if instruction.rflags_modified() != 0 {
        put(&mut inst.targets, FLAGS, NO_TARGET);
    }
    inst
}

/// Adds `register` to `list` where there is room and it does not stand there.
fn put<const N: usize>(list: &mut [Register; N], register: Register, none: Register) {
    if list.contains(&register) {
        return;
    }
    if let Some(free) = list.iter_mut().find(|slot| **slot == none) {
        *free = register;
    }
}

/// The number of a register that instructions wait for.
fn number(name: Name) -> Option<Register> {
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

fn branch(instruction: &Instruction) -> Branch {
    match instruction.flow_control() {
        FlowControl::UnconditionalBranch => Branch::Jump,
        FlowControl::ConditionalBranch => Branch::Conditional,
        FlowControl::IndirectBranch => Branch::Indirect,
        FlowControl::Return => Branch::Return,
        // A system call goes on behind itself.
        FlowControl::Call if matches!(instruction.mnemonic(), Mnemonic::Syscall | Mnemonic::Sysenter) => Branch::None,
        FlowControl::Call => Branch::Call,
        FlowControl::IndirectCall => Branch::IndirectCall,
        _ => Branch::None,
    }
}

fn class(instruction: &Instruction) -> Class {
    use Mnemonic as M;
    let mnemonic = instruction.mnemonic();
    match mnemonic {
        M::Mul | M::Imul | M::Mulx => return Class::Multiply,
        M::Div | M::Idiv => return Class::Divide,
        M::Mov | M::Movzx | M::Movsx | M::Movsxd | M::Push | M::Pop | M::Call | M::Ret => return Class::Move,
        // These have names of vector instructions.
        M::Movsd | M::Cmpsd | M::Movss if instruction.is_string_instruction() => return Class::Simple,
        _ => {}
    }
    let name = format!("{mnemonic:?}").to_lowercase();
    let is_x87 = name.starts_with('f');
    let plain = if is_x87 { &name } else { name.strip_prefix('v').unwrap_or(&name) };
    let starts = |any: &[&str]| any.iter().any(|start| plain.starts_with(start));
    let of_floats = ["ss", "sd", "ps", "pd"].iter().any(|end| plain.ends_with(end));
    match () {
        () if is_x87 && starts(&["fdiv", "fidiv", "fsqrt", "fprem"]) => Class::FloatDivide,
        () if is_x87 && starts(&["fld", "fst", "fild", "fist", "fxch"]) => Class::Move,
        () if is_x87 => Class::Float,
        () if starts(&["movap", "movup", "movdq", "movnt", "movq", "movd", "movss", "movsd", "lddqu"]) => Class::Move,
        () if starts(&["pmul", "pmadd"]) => Class::Multiply,
        () if of_floats && starts(&["div", "sqrt"]) => Class::FloatDivide,
        () if of_floats && starts(&["add", "sub", "mul", "fm", "fnm", "hadd", "hsub", "dp", "round", "rndscale"]) => {
            Class::Float
        }
        () if starts(&["cvt", "min", "max", "comis", "ucomis"]) => Class::Float,
        () => Class::Simple,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reach_core::VirtAddr;

    fn decoded(bytes: &[u8]) -> Vec<Inst> {
        let (len, bytes) = (bytes.len() as u16, bytes.into());
        let mut all = Vec::new();
        block(&Block { pc: VirtAddr(0x40_0000), len, instructions: 1, bytes }, &mut all);
        all
    }

    #[test]
    fn loads_wait_for_addresses_and_give_registers() {
        // mov rax, [rax + 8]; add rcx, [rbx + rdx*8]; mov [rdi], rsi
        let all = decoded(&[0x48, 0x8b, 0x40, 8, 0x48, 3, 0x0c, 0xd3, 0x48, 0x89, 0x37]);
        assert_eq!(all.len(), 3);
        assert_eq!((all[0].address[0], all[0].sources[0], all[0].targets[0]), (0, NO_SOURCE, 0));
        assert_eq!(all[0].class, Class::Move);
        assert_eq!((all[1].address, all[1].sources[0]), ([3, 2], 1));
        assert_eq!((all[1].targets, all[1].class), ([1, FLAGS, NO_TARGET], Class::Simple));
        assert_eq!((all[2].address[0], all[2].sources[0], all[2].targets[0]), (7, 6, NO_TARGET));
        assert_eq!(all.iter().map(|inst| (inst.loads, inst.stores)).collect::<Vec<_>>(), [(1, 0), (1, 0), (0, 1)]);
    }

    #[test]
    fn idioms_that_clear_wait_for_nothing_and_the_stack_pointer_is_ready() {
        // xor eax, eax; push rbx; pop rcx; lea rdx, [rsi + 4]
        let all = decoded(&[0x31, 0xc0, 0x53, 0x59, 0x48, 0x8d, 0x56, 4]);
        assert_eq!((all[0].sources[0], all[0].targets[0]), (NO_SOURCE, 0));
        assert_eq!((all[1].address[0], all[1].sources[0], all[1].targets[0]), (4, 3, NO_TARGET));
        assert_eq!((all[2].address[0], all[2].targets), (4, [1, NO_TARGET, NO_TARGET]));
        assert_eq!((all[3].address[0], all[3].sources[0], all[3].targets[0]), (NO_SOURCE, 6, 2));
    }

    #[test]
    fn what_branches_name_and_how_often_memory_is_touched() {
        let target = |bytes: &[u8]| {
            let (len, bytes) = (bytes.len() as u16, bytes.into());
            block(&Block { pc: VirtAddr(0x40_0000), len, instructions: 1, bytes }, &mut Vec::new())
        };
        assert_eq!(target(&[0x75, 0x10]), Some(0x40_0012));
        assert_eq!(target(&[0xe8, 0, 1, 0, 0]), Some(0x40_0105));
        assert_eq!((target(&[0xff, 0xe0]), target(&[0xc3]), target(&[0x90])), (None, None, None));
        // add [rax], rcx; rep movsb; lea rax, [rbx]; call [rax]
        let touched = |bytes: &[u8]| (decoded(bytes)[0].loads, decoded(bytes)[0].stores);
        assert_eq!(touched(&[0x48, 1, 8]), (1, 1));
        assert_eq!(touched(&[0xf3, 0xa4]), (1, 1));
        assert_eq!(touched(&[0x48, 0x8d, 3]), (0, 0));
        assert_eq!(touched(&[0xff, 0x10]), (1, 1));
    }

    #[test]
    fn classes_and_branches() {
        let one = |bytes: &[u8]| decoded(bytes)[0];
        assert_eq!(one(&[0x48, 0x0f, 0xaf, 0xc3]).class, Class::Multiply);
        assert_eq!(one(&[0x48, 0xf7, 0xf3]).class, Class::Divide);
        // addsd xmm0, xmm1; vdivpd ymm0, ymm1, ymm2; movsd xmm0, [rax]; movsq
        assert_eq!(one(&[0xf2, 0x0f, 0x58, 0xc1]).class, Class::Float);
        assert_eq!(one(&[0xc5, 0xf5, 0x5e, 0xc2]).class, Class::FloatDivide);
        assert_eq!(one(&[0xf2, 0x0f, 0x10, 0]).class, Class::Move);
        assert_eq!(one(&[0xa5]).class, Class::Simple);
        let branches = [
            (&[0xeb, 0xfe][..], Branch::Jump),
            (&[0x75, 0xfe], Branch::Conditional),
            (&[0xe8, 0, 0, 0, 0], Branch::Call),
            (&[0xff, 0xe0], Branch::Indirect),
            (&[0xff, 0xd0], Branch::IndirectCall),
            (&[0xc3], Branch::Return),
            (&[0x0f, 5], Branch::None),
        ];
        for (bytes, branch) in branches {
            assert_eq!(one(bytes).branch, branch);
        }
    }
}
