//! Random programs of a small footprint: references with the locality that folding exploits, and events between them.

use proptest::collection::vec;
use proptest::prelude::*;
use reach_core::{Asid, Kind, Ref, VirtAddr};
use reach_hardware::config::Machine;

/// The number of address spaces that a program switches between.
pub const PROCESSES: u32 = 3;

/// A step of a program. [`ReferenceBuilder`] makes addresses for a machine from it.
#[derive(Clone, Debug)]
pub enum ProgramStep {
    /// References a page.
    Visit(Kind, Page, Bytes),
    /// References the last page of its kind, code or data.
    Revisit(Kind, Bytes),
    /// Ends a step of the run loop.
    Cut,
    /// Ends a step, and the operating system changes something unasked.
    Interfere,
    /// Ends a step, and switches to another process, or to the kernel.
    Switch(Asid),
}

/// A page, in parts that every machine can interpret.
#[derive(Clone, Copy, Debug)]
pub struct Page {
    /// A part of the address space, far from the others.
    region: u8,
    /// The index of a page in the region, whose size is number `size` of the machine's.
    large: u8,
    size: u8,
    /// The index of the base page in that.
    base: u8,
}

/// The bytes of a reference in its page.
#[derive(Clone, Copy, Debug)]
pub struct Bytes {
    /// The offset counts from the page's end, so that many references cross it.
    near_end: bool,
    offset: u16,
    /// The bytes of a fetch.
    len: u16,
    /// The bytes of a load or store.
    size_log2: u8,
}

/// Draws a program of fewer than `length` steps.
pub fn program(length: usize) -> impl Strategy<Value = Vec<ProgramStep>> {
    let step = prop_oneof![
        20 => (kind(), page(), bytes()).prop_map(|(kind, page, bytes)| ProgramStep::Visit(kind, page, bytes)),
        20 => (kind(), bytes()).prop_map(|(kind, bytes)| ProgramStep::Revisit(kind, bytes)),
        1 => Just(ProgramStep::Cut),
        1 => Just(ProgramStep::Interfere),
        1 => (0..PROCESSES).prop_map(|process| ProgramStep::Switch(Asid(process))),
        1 => Just(ProgramStep::Switch(Asid::KERNEL)),
    ];
    vec(step, 1..length)
}

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![Just(Kind::Fetch), Just(Kind::Load), Just(Kind::Store)]
}

fn page() -> impl Strategy<Value = Page> {
    (0..3u8, 0..3u8, 0..4u8, 0..4u8).prop_map(|(region, large, size, base)| Page { region, large, size, base })
}

fn bytes() -> impl Strategy<Value = Bytes> {
    let len = prop_oneof![9 => 0..64u16, 1 => 64..4096u16];
    (prop::bool::weighted(0.2), any::<u16>(), len, 0..8u8).prop_map(|(near_end, offset, len, size_log2)| Bytes {
        near_end,
        offset,
        len,
        size_log2,
    })
}

/// Makes the references of a program for one machine.
pub struct ReferenceBuilder<'a> {
    machine: &'a Machine,
    /// The address of the last page of code, and of data.
    last: [u64; 2],
}

impl<'a> ReferenceBuilder<'a> {
    pub fn new(machine: &'a Machine) -> ReferenceBuilder<'a> {
        ReferenceBuilder { machine, last: [0; 2] }
    }

    /// Returns the reference of a step. `None` for steps without one.
    pub fn reference(&mut self, step: &ProgramStep) -> Option<Ref> {
        let (kind, bytes) = match *step {
            ProgramStep::Visit(kind, page, bytes) => {
                self.last[usize::from(kind != Kind::Fetch)] = self.address(page);
                (kind, bytes)
            }
            ProgramStep::Revisit(kind, bytes) => (kind, bytes),
            _ => return None,
        };
        let length = self.machine.sizes[0].bytes();
        let offset =
            if bytes.near_end { length - 1 - u64::from(bytes.offset % 8) } else { u64::from(bytes.offset) % length };
        let at = VirtAddr(self.last[usize::from(kind != Kind::Fetch)] + offset);
        Some(match kind {
            Kind::Fetch => Ref::fetch(at, bytes.len),
            _ => Ref::data(kind, at, bytes.size_log2, 0),
        })
    }

    /// Returns the address of a page. It is never the last page, so that references across its end stay in range.
    fn address(&self, page: Page) -> u64 {
        let Machine { layout, sizes, .. } = self.machine;
        let bits = layout.address_bits().min(47);
        let size = sizes[usize::from(page.size) % sizes.len()];
        let region = u64::from(page.region) << (bits - 2);
        let address = region + (u64::from(page.large) << size.0) + (u64::from(page.base) << layout.base.0);
        (address % ((1 << bits) - layout.base.bytes())) & !(layout.base.bytes() - 1)
    }
}
