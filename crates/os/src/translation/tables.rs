//! The tables of one address space, and who may change them: this room, and nobody else.

use super::Translated;
use crate::{Frames, OutOfMemory, Vm};
use reach_core::{Asid, EditablePageTable, Label, PageTable, RangeTable};

/// The page table of one address space, with the range table and the segments that hang on it.
///
/// The rest of the crate reads it as a [`PageTable`]. Only the room `translation` can name the field, so that only the
/// functions of its head change an entry.
pub(crate) struct Translations {
    pub(super) table: EditablePageTable,
}

impl Translations {
    /// Returns the page table.
    pub(crate) fn table(&self) -> &PageTable {
        &self.table
    }

    /// Returns the page table for the processor, which sets accessed and dirty bits in it.
    pub(crate) fn hardware_view(&mut self) -> &mut PageTable {
        self.table.hardware_view()
    }
}

impl Vm {
    /// Makes the tables of a new address space. The root is zeroed together with the nodes of the first page that is
    /// mapped.
    ///
    /// # Errors
    /// When reclaiming memory does not yield a frame for the root. An address space whose range table gets no frame
    /// has none.
    pub(crate) fn new_translations(&mut self) -> Result<Translations, OutOfMemory> {
        let layout = self.options().layout.clone();
        let mut table = match EditablePageTable::new(layout.clone(), &mut self.frames) {
            Some(table) => table,
            None => {
                let order = self.frames.table_order(layout.node_bytes(layout.levels() - 1));
                self.make_room(order)?;
                EditablePageTable::new(layout, &mut self.frames).ok_or_else(|| self.out_of_memory(order))?
            }
        };
        *table.ranges_mut() = self.new_range_table();
        Ok(Translations { table })
    }

    /// Frees the tables of an address space that maps nothing any more.
    pub(crate) fn release_translations(&mut self, mut translations: Translations) {
        if let Some(mut ranges) = translations.table.ranges_mut().take() {
            debug_assert!(ranges.is_empty(), "pages go before their ranges");
            self.count_ranges(|c| c.table_bytes.fall(ranges.bytes()));
            ranges.release(&mut self.frames);
        }
        translations.table.release(&mut self.frames);
    }

    /// Makes an empty range table where the system keeps ranges. Returns `None` where it does not, or without a frame.
    fn new_range_table(&mut self) -> Option<Box<RangeTable>> {
        self.ranging.filter(|how| how.translated == Translated::ByRanges)?;
        let table = RangeTable::new(self.base().bytes(), &mut self.frames)?;
        self.count_ranges(|c| c.table_bytes.rise(table.bytes()));
        Some(Box::new(table))
    }

    /// Returns the tables of a live address space, to be changed, and the frames that their nodes live in.
    pub(super) fn edit(&mut self, asid: Asid) -> (&mut EditablePageTable, &mut Frames) {
        let process = self.processes.get_mut(&asid).expect("callers name live processes");
        (&mut process.translations.table, &mut self.frames)
    }

    /// Charges for tearing down the page table of an address space: by entries, of which larger pages need fewer, and by
    /// pages of nodes (Zhou et al. 2023, §9).
    pub(crate) fn charge_teardown(&mut self, asid: Asid, all: u64) {
        let options = self.options();
        let (layout, costs) = (&options.layout, &options.costs);
        if (costs.exit_per_pte, costs.table_page) == (0, 0) {
            return;
        }
        let table = self.at(asid).table();
        let entries: u64 =
            table.iter_pages(reach_core::Vpn(0), all).map(|entry| layout.placement(entry.pte.shift()).1).sum();
        // The root stays until the process goes, and is one page among many.
        let cycles = entries * costs.exit_per_pte + self.table_pages(asid) * costs.table_page;
        self.ledger.charge(Label::Fault, cycles);
        self.tally(asid, |c| c.entries_torn_down += entries);
    }

    /// Returns how many base pages the page table of `asid` takes.
    pub(crate) fn table_pages(&self, asid: Asid) -> u64 {
        self.at(asid).table().bytes().div_ceil(self.base().bytes())
    }
}
