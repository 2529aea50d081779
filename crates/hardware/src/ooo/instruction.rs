//! Decoded instructions: their registers, execution class, branch kind and number of references.

/// A register's number: 0–15 general purpose, 16–47 vector, 48–55 mask, 56 flags, 57 the x87 stack.
pub type Register = u8;
/// The flags, which the model renames as one register.
pub(super) const FLAGS: Register = 56;
/// Marks an unused target: no instruction reads this register.
pub const NO_TARGET: Register = 62;
/// Marks an unused source: no instruction writes this register, so it is ready from cycle 0.
pub const NO_SOURCE: Register = 63;
/// The number of registers, both markers included.
pub const REGISTERS: usize = 64;

/// The cycle in which each register's last value is known.
#[derive(Clone, Copy, Debug)]
pub(super) struct RegisterTimes([u64; REGISTERS]);

impl RegisterTimes {
    pub const ZERO: RegisterTimes = RegisterTimes([0; REGISTERS]);

    /// Returns the latest of `earliest` and the cycles in which `registers` are known.
    #[inline(always)]
    pub fn all_known<const N: usize>(&self, registers: [Register; N], earliest: u64) -> u64 {
        // The remainder, which changes no register's number, is cheaper than a check.
        registers.into_iter().fold(earliest, |latest, register| latest.max(self.0[usize::from(register) % REGISTERS]))
    }

    /// Sets the cycle in which the values of `registers` are known.
    #[inline(always)]
    pub fn set<const N: usize>(&mut self, registers: [Register; N], known: u64) {
        registers.into_iter().for_each(|register| self.0[usize::from(register) % REGISTERS] = known);
    }
}

/// The stack pointer.
const STACK_POINTER: Register = 4;

/// A set of registers: bit `n` is register number `n`.
pub(super) type RegisterSet = u64;

/// Returns the set of these registers, without those that never differ between two paths of a program: calls and returns
/// between paths that meet are paired, so that the stack pointer is the same.
pub(super) fn register_set(registers: &[Register]) -> RegisterSet {
    let all = registers.iter().fold(0, |set, &register| set | 1 << register);
    all & !(1 << NO_SOURCE | 1 << NO_TARGET | 1 << STACK_POINTER)
}

/// The execution class of an instruction, which selects its latency. Loads and stores are timed apart from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum OpClass {
    /// Moves between registers and memory. With a reference it needs no execution port; else it takes one cycle.
    Move,
    /// Any other operation of one cycle.
    Simple,
    /// Integer multiplication.
    Multiply,
    /// Integer division.
    Divide,
    /// Floating-point arithmetic except division.
    Float,
    /// Floating-point division and square root.
    FloatDivide,
}

impl OpClass {
    /// The number of classes.
    pub const ALL: usize = 6;
}

/// How control leaves an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum BranchKind {
    /// Falls through to the next instruction.
    None,
    /// Jumps to a target in the instruction's bytes.
    Jump,
    /// Calls a target in the instruction's bytes and pushes a return address.
    Call,
    /// Jumps to a target in the instruction's bytes, or falls through.
    Conditional,
    /// Jumps to a target in a register or in memory.
    Indirect,
    /// Calls a target in a register or in memory and pushes a return address.
    IndirectCall,
    /// Returns to the address that the matching call pushed.
    Return,
}

/// The physical registers that an instruction takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Renamed {
    /// Integer registers.
    pub integer: u8,
    /// Vector registers.
    pub vector: u8,
    /// Whether it writes the flags and no integer register.
    pub only_flags: bool,
}

impl Renamed {
    /// Those of an instruction that writes nothing.
    pub const NONE: Renamed = Renamed { integer: 0, vector: 0, only_flags: false };
}

/// One decoded instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inst {
    /// The registers of its addresses; [`NO_SOURCE`] fills unused places.
    pub address: [Register; 2],
    /// The other registers that it reads, at most the first four; [`NO_SOURCE`] fills unused places.
    pub sources: [Register; 4],
    /// The registers that it writes, at most the first three; [`NO_TARGET`] fills unused places.
    pub targets: [Register; 3],
    /// The physical registers that it takes.
    pub renamed: Renamed,
    /// Its execution class.
    pub class: OpClass,
    /// How control leaves it.
    pub branch: BranchKind,
    /// How many memory operands it loads. A repeated string instruction counts as one iteration.
    pub loads: u8,
    /// How many memory operands it stores. A repeated string instruction counts as one iteration.
    pub stores: u8,
    /// The index of its first reference among those of its block; loads precede stores. [`Code`](super::Code) sets it.
    pub first_reference: u16,
}

impl Inst {
    /// An instruction without known operands: it depends on nothing, and nothing depends on it.
    pub const UNKNOWN: Inst = Inst {
        address: [NO_SOURCE; 2],
        sources: [NO_SOURCE; 4],
        targets: [NO_TARGET; 3],
        renamed: Renamed::NONE,
        class: OpClass::Move,
        branch: BranchKind::None,
        loads: 0,
        stores: 0,
        first_reference: 0,
    };
}
