//! What the page cache holds of a file.

use crate::elf::BASE;
use crate::frames::{Folios, ORDERS, PageMap};
use crate::layout::CLUSTER;
use crate::map::{Advice, FileMap};
use std::fs::File;
use std::io;
use std::ops::Range;

/// What the page cache holds of a part of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// Offset of the first page.
    pub start: u64,
    /// For each base page whether it is there, and the order of its folio.
    pages: Vec<Option<u8>>,
    /// Whether the kernel told the orders of folios.
    pub orders_known: bool,
}

impl Held {
    /// Looks. Only pages that are there are touched.
    ///
    /// # Errors
    /// When the file cannot be mapped.
    pub fn of(file: &File, range: Range<u64>) -> io::Result<Held> {
        let map = FileMap::new(file, range.clone())?;
        let resident = map.resident()?;
        let mut pages: Vec<Option<u8>> = resident.iter().map(|&resident| resident.then_some(0)).collect();
        let orders_known = match Folios::open() {
            Ok(mut folios) => orders(&map, &mut folios, &mut pages)?,
            Err(_) => false,
        };
        Ok(Held { start: range.start, pages, orders_known })
    }

    fn part(&self, range: &Range<u64>) -> &[Option<u8>] {
        let page = |offset: u64| ((offset.saturating_sub(self.start) / BASE) as usize).min(self.pages.len());
        &self.pages[page(range.start)..page(range.end.next_multiple_of(BASE))]
    }

    /// Bytes of `range` in memory.
    pub fn bytes(&self, range: &Range<u64>) -> u64 {
        BASE * self.part(range).iter().flatten().count() as u64
    }

    /// Whether all of `range` is in memory.
    pub fn all(&self, range: &Range<u64>) -> bool {
        self.part(range).iter().all(Option::is_some)
    }

    /// Bytes of `range` in memory, by the order of their folios.
    pub fn by_order(&self, range: &Range<u64>) -> [u64; ORDERS] {
        let mut bytes = [0; ORDERS];
        self.part(range).iter().flatten().for_each(|&order| bytes[usize::from(order)] += BASE);
        bytes
    }

    /// Clusters of 64 KB of `range` that are in memory whole, and how many there are.
    pub fn clusters(&self, range: &Range<u64>) -> (u64, u64) {
        let clusters = self.part(range).chunks((CLUSTER / BASE) as usize);
        (clusters.clone().filter(|pages| pages.iter().all(Option::is_some)).count() as u64, clusters.len() as u64)
    }
}

/// Finds the orders of the folios of all pages that are there; `false` where the kernel hides frames.
fn orders(map: &FileMap, folios: &mut Folios, pages: &mut [Option<u8>]) -> io::Result<bool> {
    let all = 0..BASE * pages.len() as u64;
    map.advise(all.clone(), Advice::Random)?;
    let mut page = 0;
    while page < pages.len() {
        let run = pages[page..].iter().take_while(|page| page.is_some()).count();
        if run > 0 {
            // What has gone since the look stays unknown, and is not worth an error.
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
