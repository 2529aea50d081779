//! The kernel's own code: what Linux fetches, loads and stores between an entry and the return to a program.
//!
//! `kernels/linux-6.1.reach` holds passages through a real kernel, recorded by `kernels/record.sh`. Each is announced by a
//! phase of its kind's name. This module cuts the recording into passages, moves the kernel's addresses together, and says
//! which pages they need. `docs/kernel.md` is its prose.

mod calls;

pub use calls::{PLAIN, kind_of};

use crate::conditions::Timing;
use crate::prepare::{Batch, Preparer};
use reach_core::{
    BlockTable, Chunk, EditablePageTable, Event, FrameSource, Layout, PageShift, Pfn, PhysAddr, Pte, Ref, Step,
    VirtAddr,
};
use reach_trace::Source;
use reach_trace::file::Reader;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Cursor;
use std::ops::Range;
use std::sync::OnceLock;

/// The recording.
const RECORDED: &[u8] = include_bytes!("../../../kernels/linux-6.1.reach");

/// Binary logarithm of a window: the unit in which the kernel's addresses are moved.
const WINDOW_SHIFT: u32 = 30;

/// The address of the first window. All are above what programs use under Linux on 39 bits, and few programs on 48 bits have
/// anything there. (The kernel has an address space of its own; only predictors of branches and addresses could confuse the
/// two.)
const FIRST: u64 = 1 << 38;

/// The bits of addresses that a machine must translate.
pub const ADDRESS_BITS: u8 = 39;

/// How large the pages are in which Linux maps a part of its addresses, at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mapped {
    /// All of memory, mapped one to one: 1 GB.
    Directly,
    /// The image, and the array of page descriptors: 2 MB.
    ByImage,
    /// Stacks and areas of single processors: base pages.
    InPieces,
}

impl Mapped {
    /// Returns how Linux maps the window that holds address `at`, of 48 bits (Documentation/arch/x86/x86_64/mm.rst).
    fn of(at: u64) -> Mapped {
        match at >> WINDOW_SHIFT {
            window if (0x8880 << 2..0xc880 << 2).contains(&window) => Mapped::Directly,
            window if (0xea00 << 2..0xeb00 << 2).contains(&window) => Mapped::ByImage,
            window if window == 0xffff_8000_0000 >> WINDOW_SHIFT => Mapped::ByImage,
            _ => Mapped::InPieces,
        }
    }

    /// Returns the size of its pages on a machine with these sizes, ascending.
    fn page(self, sizes: &[PageShift]) -> PageShift {
        let most = match self {
            Mapped::Directly => 30,
            Mapped::ByImage => 21,
            Mapped::InPieces => 0,
        };
        sizes.iter().copied().rfind(|size| size.0 <= most).unwrap_or(sizes[0])
    }
}

/// Passages through the kernel.
pub struct KernelCode {
    batch: Batch,
    /// By kind, the steps of each passage.
    passages: BTreeMap<String, Vec<Range<usize>>>,
    /// The pages of 4 KB that passages touch, as moved.
    pages: BTreeSet<u64>,
    /// By number, how each window is mapped.
    windows: Vec<Mapped>,
}

impl KernelCode {
    /// Returns the recording that comes with Reach.
    pub fn recorded() -> &'static KernelCode {
        static RECORDING: OnceLock<KernelCode> = OnceLock::new();
        RECORDING.get_or_init(|| KernelCode::read(RECORDED))
    }

    /// Returns the instructions of the kernel's blocks.
    pub fn code(&self) -> &reach_hardware::ooo::Code {
        &self.batch.code
    }

    /// Returns the passages of a kind, each as its steps; none if the kind was not recorded.
    pub fn passages(&self, kind: &str) -> impl ExactSizeIterator<Item = &[Step]> {
        let passages = self.passages.get(kind).map_or(&[][..], Vec::as_slice);
        passages.iter().map(|steps| &self.batch.steps[steps.clone()])
    }

    /// Returns the steps of the passage of `kind` whose turn it is.
    ///
    /// # Panics
    /// When the kind was not recorded.
    pub fn passage(&self, kind: &str, turn: usize) -> &[Step] {
        let mut passages = self.passages(kind);
        let number = turn % passages.len();
        passages.nth(number).expect("the number is less than their number")
    }

    /// Returns the chunk of the steps of passages.
    pub fn chunk(&self) -> &Chunk {
        &self.batch.chunk
    }

    /// Reads a recording, which is known to be whole.
    fn read(bytes: &'static [u8]) -> KernelCode {
        let mut reader = Reader::new(Cursor::new(bytes), "kernel").expect("the recording is a trace");
        let (mut chunk, mut all) = (Chunk::default(), Chunk::default());
        while reader.fill(&mut chunk).expect("the recording is whole") {
            all.append(&chunk);
        }
        let windows: BTreeSet<u64> = all.refs.iter().map(|r| r.addr().0 >> WINDOW_SHIFT).collect();
        let windows: Vec<u64> = windows.into_iter().collect();
        let moved = |at: u64| {
            let number = windows.binary_search(&(at >> WINDOW_SHIFT)).expect("all windows were gathered");
            FIRST + ((number as u64) << WINDOW_SHIFT) + (at & ((1 << WINDOW_SHIFT) - 1))
        };
        for r in &mut all.refs {
            *r = r.offset_by(moved(r.addr().0).wrapping_sub(r.addr().0));
        }
        let mut blocks = BlockTable::default();
        for block in reader.blocks().iter() {
            blocks.push(reach_core::Block { pc: VirtAddr(moved(block.pc.0)), ..block.clone() });
        }
        let touched = |r: &Ref| [r.addr().0 >> 12, r.last().0 >> 12];
        let pages = all.refs.iter().flat_map(touched).collect();
        let batch = Preparer::new(Timing::Ooo).prepare(all, &blocks);
        let passages = cut(&batch);
        let windows = windows.into_iter().map(|window| Mapped::of(window << WINDOW_SHIFT)).collect();
        KernelCode { batch, passages, pages, windows }
    }

    /// Returns the kernel's page table on a machine with this layout and these page sizes, ascending. Its memory, and that of
    /// the table, lies behind the `memory` bytes that programs have.
    pub fn page_table(&self, layout: &Layout, sizes: &[PageShift], memory: u64) -> EditablePageTable {
        let start = memory.next_multiple_of(1 << WINDOW_SHIFT);
        let mut frames = Behind(start + ((self.windows.len() as u64) << WINDOW_SHIFT));
        let mut table = EditablePageTable::new(layout.clone(), &mut frames).expect("memory behind does not end");
        for at in self.pages.iter().map(|page| page << 12) {
            let window = ((at - FIRST) >> WINDOW_SHIFT) as usize;
            let size = self.windows[window].page(sizes);
            let first = at & !(size.bytes() - 1);
            if table.lookup(VirtAddr(first).vpn(layout.base)).is_some() {
                continue;
            }
            let frame = Pfn((start + first - FIRST) >> layout.base.0);
            let pte = Pte::new(frame, size).with_writable(true).with_executable(true).with_global(true);
            // The kernel's pages have been used before.
            let pte = pte.with_accessed(true).with_dirty(true);
            let vpn = VirtAddr(first).vpn(layout.base);
            table.set(vpn, pte, &mut frames).expect("memory behind does not end");
        }
        table
    }
}

/// Memory for the table, which is never freed.
struct Behind(u64);

impl FrameSource for Behind {
    fn allocate_table(&mut self, bytes: u64) -> Option<PhysAddr> {
        let at = self.0.next_multiple_of(bytes.max(1 << 16));
        self.0 = at + bytes;
        Some(PhysAddr(at))
    }

    fn free_table(&mut self, _: PhysAddr, _: u64) {}
}

/// Returns the steps of each passage, by kind. A passage begins with the phase of its name.
fn cut(batch: &Batch) -> BTreeMap<String, Vec<Range<usize>>> {
    let mut passages: BTreeMap<String, Vec<Range<usize>>> = BTreeMap::new();
    let mut current: Option<(String, usize)> = None;
    let mut end = |current: Option<(String, usize)>, number: usize| {
        if let Some((name, from)) = current {
            passages.entry(name).or_default().push(from..number);
        }
    };
    for (number, step) in batch.steps.iter().enumerate() {
        for (_, event) in &batch.chunk.events[step.events.clone()] {
            if let Event::Phase(name) = event {
                end(current.replace((name.clone(), number)), number);
            }
        }
    }
    end(current, batch.steps.len());
    passages
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reference_of_every_passage_is_mapped_on_every_layout() {
        let code = KernelCode::recorded();
        for (machine, largest) in
            [("zen4", 30), ("neoverse-n1", 30), ("xiangshan-sv39", 30), ("sandybridge-e5-2430", 30)]
        {
            let machine = crate::machine::resolve(machine).unwrap();
            let (layout, sizes) = (&machine.hardware.layout, &machine.hardware.sizes);
            let table = code.page_table(layout, sizes, 3 << 29);
            let mut used = BTreeSet::new();
            for r in &code.chunk().refs {
                for at in [r.addr(), r.last()] {
                    let page = table.page(at.vpn(layout.base)).unwrap();
                    used.insert(page.pte.shift().0);
                    assert!(page.pte.pfn().addr(layout.base).0 >= 3 << 29, "{at:?}");
                }
            }
            assert_eq!((used.first(), used.last()), (Some(&sizes[0].0), Some(&largest)), "{}", machine.name);
            assert!(used.contains(&21), "{}", machine.name);
        }
    }

    #[test]
    fn passages_are_as_long_as_linux_makes_them() {
        let instructions = |kind: &str| -> u64 {
            KernelCode::recorded().passages(kind).next().unwrap().iter().map(|step| step.counts.instructions).sum()
        };
        // A call that does nothing, a read of 4 KB from the page cache, a switch, a fault, a fork: each of another order.
        let ascending = ["getppid", "read", "switch", "fork"].map(instructions);
        assert!(ascending.is_sorted() && ascending[0] > 100 && ascending[3] > 20_000, "{ascending:?}");
        assert!((1000..5000).contains(&instructions("fault_anonymous")));
    }
}
