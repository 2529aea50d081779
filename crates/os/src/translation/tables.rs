//! The tables of one address space. Only this room can change them.

use reach_core::{EditablePageTable, PageTable};

/// The page table of one address space, with the range table and the segments that hang on it.
///
/// The rest of the crate reads it as a [`PageTable`]. Only the room `translation` can name the field.
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
