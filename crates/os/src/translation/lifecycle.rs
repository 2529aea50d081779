//! Making, lending out for changes, and tearing down the tables of an address space.

use super::tables::Translations;
use crate::{Frames, OutOfMemory, Translated, Vm};
use reach_core::{Asid, EditablePageTable, Label, RangeTable, Vpn};

impl Vm {
    /// Returns the tables of a live address space, to be changed, and the frames that their nodes live in.
    pub(super) fn edit(&mut self, asid: Asid) -> (&mut EditablePageTable, &mut Frames) {
        let process = self.processes.get_mut(asid).expect("callers name live processes");
        (&mut process.translations.table, &mut self.frames)
    }

    /// Makes the tables of a new address space. The root is zeroed together with the nodes of the first page that is
    /// mapped. An address space whose range table gets no frame has none.
    ///
    /// # Errors
    /// When there is no memory for the root.
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
        if let Some(monitor) = self.options.monitor {
            table.shadow(monitor.agile);
        }
        *table.ranges_mut() = self.new_range_table();
        Ok(Translations { table })
    }

    /// Makes an empty range table. Returns `None` where the system keeps no ranges, or when there is no frame.
    fn new_range_table(&mut self) -> Option<Box<RangeTable>> {
        self.translation.ranging.filter(|ranging| ranging.translated == Translated::ByRanges)?;
        let table = RangeTable::new(self.base().bytes(), &mut self.frames)?;
        self.accounting.count_ranges(|c| c.table_bytes.rise(table.bytes()));
        Some(Box::new(table))
    }

    /// Frees the tables of an address space that maps nothing any more.
    pub(crate) fn release_translations(&mut self, mut translations: Translations) {
        if let Some(mut ranges) = translations.table.ranges_mut().take() {
            debug_assert!(ranges.is_empty(), "pages go before their ranges");
            self.accounting.count_ranges(|c| c.table_bytes.fall(ranges.bytes()));
            ranges.release(&mut self.frames);
        }
        translations.table.release(&mut self.frames);
    }

    /// Charges for tearing down the page table of `asid`, whose addresses have `all` base pages: by entries, of which
    /// larger pages need fewer, and by pages of nodes (Zhou et al. 2023, §9).
    pub(crate) fn charge_teardown(&mut self, asid: Asid, all: u64) {
        let options = self.options();
        let (layout, costs) = (&options.layout, &options.costs);
        if (costs.exit_per_pte, costs.table_page) == (0, 0) {
            return;
        }
        let table = self.at(asid).table();
        let entries: u64 = table.iter_pages(Vpn(0), all).map(|entry| layout.placement(entry.pte.shift()).1).sum();
        // The root stays until the process ends, and is one page among many.
        let cycles = entries * costs.exit_per_pte + self.table_pages(asid) * costs.table_page;
        self.charge(Label::Fault, cycles);
        self.tally(asid, |c| c.entries_torn_down += entries);
    }

    /// Returns how many base pages the page table of `asid` takes.
    pub(crate) fn table_pages(&self, asid: Asid) -> u64 {
        self.at(asid).table().bytes().div_ceil(self.base().bytes())
    }
}
