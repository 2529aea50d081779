//! Programs of a small footprint: references with the locality that folding lives on, and what happens between them.

use proptest::collection::vec;
use proptest::prelude::*;
use reach_core::{Kind, Ref, VirtAddr};
use reach_hardware::config::Machine;

/// How many address spaces a program switches between.
pub const PROCESSES: u32 = 3;

/// A step of a program; addresses are made for a machine by [`Placer`].
#[derive(Clone, Debug)]
pub enum Step {
    /// A reference to some page.
    To(Kind, Page, Bytes),
    /// A reference to the page that this side, code or data, is on.
    Again(Kind, Bytes),
    /// A segment ends.
    Cut,
    /// A segment ends, and the operating system does something by itself.
    Meddle,
    /// A segment ends, and another process goes on.
    Switch(u32),
}

/// A page, in parts that mean something for every machine.
#[derive(Clone, Copy, Debug)]
pub struct Page {
    /// Parts of the address space far from one another.
    region: u8,
    /// Which page of which of the machine's sizes in it.
    large: u8,
    size: u8,
    /// Which base page in that.
    base: u8,
}

/// Which bytes of a page.
#[derive(Clone, Copy, Debug)]
pub struct Bytes {
    /// Measured from the page's end rather than its start, so that many cross it.
    near_end: bool,
    offset: u16,
    /// Of a fetch.
    len: u16,
    /// Of data.
    size_log2: u8,
}

pub fn steps(length: usize) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        20 => (kind(), page(), bytes()).prop_map(|(kind, page, bytes)| Step::To(kind, page, bytes)),
        20 => (kind(), bytes()).prop_map(|(kind, bytes)| Step::Again(kind, bytes)),
        1 => Just(Step::Cut),
        1 => Just(Step::Meddle),
        1 => (0..PROCESSES).prop_map(Step::Switch),
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

/// Makes addresses for one machine.
pub struct Placer<'a> {
    machine: &'a Machine,
    /// Where each side is: code, data.
    on: [u64; 2],
}

impl<'a> Placer<'a> {
    pub fn new(machine: &'a Machine) -> Placer<'a> {
        Placer { machine, on: [0; 2] }
    }

    /// The reference of a step; `None` for steps that are none.
    pub fn reference(&mut self, step: &Step) -> Option<Ref> {
        let (kind, bytes) = match *step {
            Step::To(kind, page, bytes) => {
                self.on[usize::from(kind != Kind::Fetch)] = self.address(page);
                (kind, bytes)
            }
            Step::Again(kind, bytes) => (kind, bytes),
            _ => return None,
        };
        let length = self.machine.sizes[0].bytes();
        let offset =
            if bytes.near_end { length - 1 - u64::from(bytes.offset % 8) } else { u64::from(bytes.offset) % length };
        let at = VirtAddr(self.on[usize::from(kind != Kind::Fetch)] + offset);
        Some(match kind {
            Kind::Fetch => Ref::fetch(at, bytes.len),
            _ => Ref::data(kind, at, bytes.size_log2, 0),
        })
    }

    /// The page's address: anywhere but in the last page, so that what crosses its end stays in range.
    fn address(&self, page: Page) -> u64 {
        let Machine { layout, sizes, .. } = self.machine;
        let bits = layout.address_bits().min(47);
        let size = sizes[usize::from(page.size) % sizes.len()];
        let region = u64::from(page.region) << (bits - 2);
        let address = region + (u64::from(page.large) << size.0) + (u64::from(page.base) << layout.base.0);
        (address % ((1 << bits) - layout.base.bytes())) & !(layout.base.bytes() - 1)
    }
}
