//! Examines what the page cache holds of a file.

use crate::elf::BASE;
use crate::frames::{Folios, ORDERS, PageMap};
use crate::layout::CLUSTER;
use crate::map::{Advice, FileMap};
use std::fs::File;
use std::io;
use std::ops::Range;

/// The pages of a part of a file that the page cache holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resident {
    /// File offset of the first page, in bytes.
    pub start: u64,
    /// For each base page, the order of its folio; `None` if it is not in memory.
    pages: Vec<Option<u8>>,
    /// Whether the orders of folios are known; if not, all are 0.
    pub orders_known: bool,
}

impl Resident {
    /// Examines a part of a file. Touches only pages that are in memory.
    ///
    /// # Errors
    /// If the file cannot be mapped.
    pub fn of(file: &File, range: Range<u64>) -> io::Result<Resident> {
        let map = FileMap::new(file, range.clone())?;
        let resident = map.resident()?;
        let mut pages: Vec<Option<u8>> = resident.iter().map(|&resident| resident.then_some(0)).collect();
        let orders_known = match Folios::open() {
            Ok(mut folios) => orders(&map, &mut folios, &mut pages)?,
            Err(_) => false,
        };
        Ok(Resident { start: range.start, pages, orders_known })
    }

    /// Returns the pages of `range`, which may exceed the part.
    fn part(&self, range: &Range<u64>) -> &[Option<u8>] {
        let page = |offset: u64| ((offset.saturating_sub(self.start) / BASE) as usize).min(self.pages.len());
        &self.pages[page(range.start)..page(range.end.next_multiple_of(BASE))]
    }

    /// Returns the bytes of `range` in memory.
    pub fn bytes(&self, range: &Range<u64>) -> u64 {
        BASE * self.part(range).iter().flatten().count() as u64
    }

    /// Returns whether all of `range` is in memory.
    pub fn all(&self, range: &Range<u64>) -> bool {
        self.part(range).iter().all(Option::is_some)
    }

    /// Returns the bytes of `range` in memory, by the order of their folios.
    pub fn by_order(&self, range: &Range<u64>) -> [u64; ORDERS] {
        let mut bytes = [0; ORDERS];
        self.part(range).iter().flatten().for_each(|&order| bytes[usize::from(order)] += BASE);
        bytes
    }

    /// Returns the number of clusters of `range` that are completely in memory, and the number of all.
    pub fn clusters(&self, range: &Range<u64>) -> (u64, u64) {
        let clusters = self.part(range).chunks((CLUSTER / BASE) as usize);
        (clusters.clone().filter(|pages| pages.iter().all(Option::is_some)).count() as u64, clusters.len() as u64)
    }
}

/// Finds the folio orders of all pages in memory. Returns `false` if the kernel hides frames.
fn orders(map: &FileMap, folios: &mut Folios, pages: &mut [Option<u8>]) -> io::Result<bool> {
    let all = 0..BASE * pages.len() as u64;
    map.advise(all.clone(), Advice::Random)?;
    let mut page = 0;
    while page < pages.len() {
        let run = pages[page..].iter().take_while(|page| page.is_some()).count();
        if run > 0 {
            // Pages may be evicted meanwhile: their orders stay unknown, which is no error.
            let _ = map.advise(BASE * page as u64..BASE * (page + run) as u64, Advice::Populate);
        }
        page += run.max(1);
    }
    let (mut known, mut failed) = (true, None);
    PageMap::of(None)?.read(map.address()..map.address() + all.end, |address, entries| {
        let first = ((address - map.address()) / BASE) as usize;
        for (page, entry) in pages[first..].iter_mut().zip(entries).filter(|(page, _)| page.is_some()) {
            match entry.frame() {
                Some(frame) => match folios.order(frame) {
                    Ok(order) => *page = Some(order),
                    Err(error) => failed = Some(error),
                },
                None => known &= !entry.present(),
            }
        }
    })?;
    failed.map_or(Ok(known), Err)
}
