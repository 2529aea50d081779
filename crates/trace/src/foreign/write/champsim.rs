//! Writes ChampSim's records.
//!
//! A record holds four loads and two stores. An instruction with more becomes several records, as ChampSim's own tracers have one for
//! each repetition of a string instruction. Sizes are lost, and an access to address 0, which means none, is written as one to
//! address 1. Threads are one stream, in the order in which they ran.
//!
//! ChampSim tells kinds of branches by the registers that they read and write: 6 is the stack pointer, 25 are the flags, and 26
//! is the instruction pointer.

use super::instructions::{FLAGS, Flow, Instruction, Register, STACK};
use super::unroll::{Executed, Sink, signed};
use reach_core::{Asid, Kind, Ref, ThreadId};
use std::io::{self, Error, ErrorKind, Write};

/// ChampSim's numbers of registers.
const STACK_POINTER: u8 = 6;
const FLAG_REGISTER: u8 = 25;
const INSTRUCTION_POINTER: u8 = 26;
/// Stands for memory that gives the target of a branch.
const TARGET: u8 = 90;

/// Loads and stores of a record.
const LOADS: usize = 4;
const STORES: usize = 2;

/// Writes records to `out`.
pub struct ChampSimWriter<W> {
    pub out: W,
}

/// What a record says about its instruction, without the accesses.
struct Branch {
    is_branch: bool,
    taken: bool,
    reads: Vec<u8>,
    writes: Vec<u8>,
}

impl<W: Write> Sink for ChampSimWriter<W> {
    fn thread(&mut self, _: Asid, _: ThreadId) -> io::Result<()> {
        Ok(())
    }

    fn system_call(&mut self, _: u32) -> io::Result<()> {
        Ok(())
    }

    fn instruction(&mut self, executed: &Executed) -> io::Result<()> {
        let Some(instruction) = executed.instruction else {
            let what = "accesses without an instruction, which ChampSim's records cannot hold";
            return Err(Error::new(ErrorKind::InvalidInput, what));
        };
        let branch = branch(instruction, executed.next);
        let of = |kind| executed.accesses.iter().filter(move |access| access.kind() == kind).map(address);
        let (mut loads, mut stores) = (of(Kind::Load), of(Kind::Store));
        let mut left = executed.accesses.len();
        loop {
            let mut record = [0; 64];
            record[..8].copy_from_slice(&signed(instruction.pc).to_le_bytes());
            (record[8], record[9]) = (branch.is_branch.into(), branch.taken.into());
            copy(&mut record[10..12], &branch.writes);
            copy(&mut record[12..16], &branch.reads);
            let places = record[16..].chunks_exact_mut(8);
            let next = (0..STORES).map(|_| stores.next()).chain((0..LOADS).map(|_| loads.next()));
            for (place, addr) in places.zip(next) {
                if let Some(addr) = addr {
                    place.copy_from_slice(&addr.to_le_bytes());
                    left -= 1;
                }
            }
            self.out.write_all(&record)?;
            if left == 0 {
                return Ok(());
            }
        }
    }
}

/// Returns the address of an access, which is not 0.
fn address(access: &Ref) -> u64 {
    signed(access.addr().0).max(1)
}

/// Copies as many registers as there is room for.
fn copy(place: &mut [u8], registers: &[u8]) {
    let n = registers.len().min(place.len());
    place[..n].copy_from_slice(&registers[..n]);
}

fn branch(instruction: &Instruction, next: u64) -> Branch {
    let taken = next != instruction.pc + u64::from(instruction.len);
    let registers = |list: &[Register]| list.iter().map(|&register| champsims(register)).collect::<Vec<_>>();
    let of_address = || {
        let mut list = registers(&instruction.reads);
        list.retain(|&register| register != STACK_POINTER && register != FLAG_REGISTER);
        if list.is_empty() {
            list.push(TARGET);
        }
        list
    };
    let with = |first: &[u8], rest: Vec<u8>| [first, &rest].concat();
    const IP: u8 = INSTRUCTION_POINTER;
    const SP: u8 = STACK_POINTER;
    let (reads, writes) = match instruction.flow {
        Flow::Next => {
            return Branch {
                is_branch: false,
                taken: false,
                reads: registers(&instruction.reads),
                writes: registers(&instruction.writes),
            };
        }
        Flow::Unknown if !taken => {
            return Branch { is_branch: false, taken: false, reads: Vec::new(), writes: Vec::new() };
        }
        Flow::Jump | Flow::Unknown => (vec![IP], vec![IP]),
        Flow::IndirectJump => (of_address(), vec![IP]),
        Flow::Conditional => (vec![IP, FLAG_REGISTER], vec![IP]),
        Flow::Call => (vec![SP, IP], vec![SP, IP]),
        Flow::IndirectCall => (with(&[SP, IP], of_address()), vec![SP, IP]),
        Flow::Return => (vec![SP], vec![SP, IP]),
    };
    Branch { is_branch: true, taken: taken || instruction.flow != Flow::Conditional, reads, writes }
}

/// Returns ChampSim's number of a register: of its own for those that it knows, any other for the rest.
fn champsims(register: Register) -> u8 {
    match register {
        STACK => STACK_POINTER,
        FLAGS => FLAG_REGISTER,
        integer @ 1..=16 => 6 + integer,
        vector => 15 + vector,
    }
}
