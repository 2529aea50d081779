//! Examines what the page cache holds of a file.

use crate::elf::BASE;
use crate::frames::{Folios, ORDERS, PageMap};
use crate::layout::CLUSTER;
use crate::map::{Advice, FileMap};
use std::fs::File;
use std::io;
use std::ops::Range;

/// Bytes of a file that are examined at a time. Bounds the memory taken, whatever the size of the file.
const PIECE: u64 = 32 << 20;

/// Adjacent pages of a file in memory, in folios of the same order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Run {
    /// Number of the first page in the file.
    first: u64,
    /// Number of pages.
    pages: u32,
    /// Order of their folios; 0 if unknown.
    order: u8,
}

impl Run {
    fn end(&self) -> u64 {
        self.first + u64::from(self.pages)
    }
}

/// The pages of parts of a file that the page cache holds. Takes no memory for what is not in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resident {
    /// In the order of the file, without overlap.
    runs: Vec<Run>,
    /// Whether the orders of folios are known; if not, all are 0.
    pub orders_known: bool,
}

impl Resident {
    /// Examines parts of a file, in any order; they may overlap. Touches only pages that are in memory.
    ///
    /// # Errors
    /// If the file cannot be mapped.
    pub fn of(file: &File, parts: impl IntoIterator<Item = Range<u64>>) -> io::Result<Resident> {
        let mut folios = Folios::open().ok();
        let mut resident = Resident { runs: Vec::new(), orders_known: folios.is_some() };
        for part in merged(parts) {
            for start in part.clone().step_by(PIECE as usize) {
                let end = part.end.min(start + PIECE);
                resident.examine(file, start..end, folios.as_mut())?;
            }
        }
        Ok(resident)
    }

    /// Examines a piece behind all others.
    fn examine(&mut self, file: &File, piece: Range<u64>, folios: Option<&mut Folios>) -> io::Result<()> {
        let map = FileMap::new(file, piece.clone())?;
        let mut pages: Vec<Option<u8>> = map.resident()?.into_iter().map(|yes| yes.then_some(0)).collect();
        if let Some(folios) = folios.filter(|_| pages.iter().any(Option::is_some)) {
            self.orders_known &= orders(&map, folios, &mut pages)?;
        }
        for (i, order) in pages.into_iter().enumerate() {
            let Some(order) = order else { continue };
            let page = piece.start / BASE + i as u64;
            match self.runs.last_mut() {
                Some(last) if last.end() == page && last.order == order && last.pages < u32::MAX => last.pages += 1,
                _ => self.runs.push(Run { first: page, pages: 1, order }),
            }
        }
        Ok(())
    }

    /// Returns the order of each run in `range`, with its number of pages there.
    fn part(&self, range: &Range<u64>) -> impl Iterator<Item = (u8, u64)> {
        let (start, end) = (range.start / BASE, range.end.div_ceil(BASE));
        let first = self.runs.partition_point(|run| run.end() <= start);
        let inside = self.runs[first..].iter().take_while(move |run| run.first < end);
        inside.map(move |run| (run.order, run.end().min(end) - run.first.max(start)))
    }

    /// Returns the bytes of `range` in memory, in whole pages.
    pub fn bytes(&self, range: &Range<u64>) -> u64 {
        BASE * self.part(range).map(|(_, pages)| pages).sum::<u64>()
    }

    /// Returns whether all of `range` is in memory.
    pub fn all(&self, range: &Range<u64>) -> bool {
        let pages = range.end.div_ceil(BASE).saturating_sub(range.start / BASE);
        self.bytes(range) == BASE * pages
    }

    /// Returns the bytes of `range` in memory, by the order of their folios.
    pub fn by_order(&self, range: &Range<u64>) -> [u64; ORDERS] {
        let mut bytes = [0; ORDERS];
        self.part(range).for_each(|(order, pages)| bytes[usize::from(order)] += BASE * pages);
        bytes
    }

    /// Returns the number of clusters of `range` that are completely in memory, and the number of all.
    pub fn clusters(&self, range: &Range<u64>) -> (u64, u64) {
        let all = range.clone().step_by(CLUSTER as usize);
        let full = all.clone().filter(|&start| self.all(&(start..range.end.min(start + CLUSTER)))).count();
        (full as u64, all.count() as u64)
    }
}

/// Returns the same bytes in whole pages, in order, and without overlap.
fn merged(parts: impl IntoIterator<Item = Range<u64>>) -> Vec<Range<u64>> {
    let mut parts: Vec<Range<u64>> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.sort_by_key(|part| part.start);
    let mut merged: Vec<Range<u64>> = Vec::new();
    for part in parts {
        let part = part.start / BASE * BASE..part.end.next_multiple_of(BASE);
        match merged.last_mut() {
            Some(last) if part.start <= last.end => last.end = last.end.max(part.end),
            _ => merged.push(part),
        }
    }
    merged
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn parts_are_merged_in_whole_pages() {
        let parts = [8192..8193, 0..1, 4096..8192, 5..5, 20480..24576];
        assert_eq!(merged(parts), [0..12288, 20480..24576]);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Runs answer as a list with one entry for each page does.
        #[test]
        fn runs_are_the_pages(
            pages in prop::collection::vec(prop::option::of(0u8..3), 1..100),
            start in 0u64..100 * BASE,
            length in 0u64..40 * BASE,
        ) {
            let mut runs: Vec<Run> = Vec::new();
            for (page, order) in pages.iter().enumerate().filter_map(|(page, order)| Some((page as u64, (*order)?))) {
                match runs.last_mut() {
                    Some(last) if last.end() == page && last.order == order => last.pages += 1,
                    _ => runs.push(Run { first: page, pages: 1, order }),
                }
            }
            let resident = Resident { runs, orders_known: true };
            let range = start..start + length;
            let inside: Vec<Option<u8>> = (start / BASE..range.end.div_ceil(BASE))
                .map(|page| pages.get(page as usize).copied().flatten())
                .collect();
            prop_assert_eq!(resident.bytes(&range), BASE * inside.iter().flatten().count() as u64);
            prop_assert_eq!(resident.all(&range), inside.iter().all(Option::is_some));
            let ones = inside.iter().flatten().filter(|&&order| order == 1).count() as u64;
            prop_assert_eq!(resident.by_order(&range)[1], BASE * ones);
            let aligned = range.start / BASE * BASE..range.end / BASE * BASE;
            let pages = &inside[..(aligned.end.saturating_sub(aligned.start) / BASE) as usize];
            let clusters = pages.chunks((CLUSTER / BASE) as usize);
            let full = clusters.clone().filter(|pages| pages.iter().all(Option::is_some)).count() as u64;
            prop_assert_eq!(resident.clusters(&aligned), (full, clusters.len() as u64));
        }
    }
}
