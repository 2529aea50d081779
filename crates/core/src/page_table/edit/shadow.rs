//! Tables that a virtual machine monitor shadows: what their changes make it do.

use super::super::shadowed::{ShadowTraps, Shadowed};
use super::{EditablePageTable, NodeId, Slot};

impl EditablePageTable {
    /// Lets a virtual machine monitor shadow the table, which must have a root only. `agile`: nodes that change often are in nested
    /// mode.
    pub fn shadow(&mut self, agile: bool) {
        let root = self.root();
        debug_assert_eq!(self.bytes, self.layout.node_bytes(self.layout.levels() - 1), "the table has nodes already");
        let mut shadowed = Box::new(Shadowed::new(&self.layout, agile));
        shadowed.add(root, self.layout.levels() - 1, root);
        self.table.shadowed = Some(shadowed);
    }

    /// Returns the traps since the last call.
    pub fn take_traps(&mut self) -> ShadowTraps {
        self.table.shadowed.as_mut().map_or_else(ShadowTraps::default, |shadowed| std::mem::take(&mut shadowed.traps))
    }

    /// Ends the monitor's interval: nodes without a write in it go back to shadow mode. Returns how many did.
    pub fn end_shadow_interval(&mut self) -> u64 {
        self.table.shadowed.as_mut().map_or(0, |shadowed| shadowed.end_interval())
    }

    /// Notes that `entries` entries of `node` were written.
    #[inline]
    pub(super) fn note_writes(&mut self, node: NodeId, entries: u64) {
        if let Some(shadowed) = &mut self.table.shadowed
            && let Some(level) = shadowed.write(node, entries)
        {
            self.nest_below(node, level);
        }
    }

    /// Puts `node`, of `level`, and all nodes below it into nested mode.
    fn nest_below(&mut self, node: NodeId, level: usize) {
        let Some(mut shadowed) = self.table.shadowed.take() else { return };
        let mut todo = vec![(node, level)];
        while let Some((node, level)) = todo.pop() {
            shadowed.nest(node);
            let entries = if level == 0 { 0 } else { 1 << self.layout.bits[level] };
            for index in 0..entries {
                if let Slot::Table(next) = self.slot(node, index) {
                    todo.push((next, level - 1));
                }
            }
        }
        self.table.shadowed = Some(shadowed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FrameSource, Layout, PageShift, Pfn, PhysAddr, Pte, Random, Vpn};
    use std::collections::BTreeMap;

    struct Memory(u64);

    impl FrameSource for Memory {
        fn allocate_table(&mut self, bytes: u64) -> Option<PhysAddr> {
            self.0 += bytes.max(4096);
            Some(PhysAddr(self.0))
        }
        fn free_table(&mut self, _: PhysAddr, _: u64) {}
    }

    /// A node by its level and the first page that it spans, with its writes and whether it is nested.
    type Modes = BTreeMap<(usize, u64), (u64, bool)>;

    /// The twin of the modes: all nodes of the tree, compared before and after a change.
    struct Twin {
        agile: bool,
        modes: Modes,
        traps: u64,
    }

    fn first_page(layout: &Layout, level: usize, vpn: u64) -> u64 {
        let span = layout.span((level + 1).min(layout.levels())).base_pages(layout.base);
        vpn / span * span
    }

    /// Returns every entry that is used, by level and first page, with its word.
    fn entries(table: &EditablePageTable) -> BTreeMap<(usize, u64), Slot> {
        let layout = table.layout();
        let mut found = BTreeMap::new();
        let mut todo = vec![(table.root(), layout.levels() - 1, 0)];
        while let Some((node, level, first)) = todo.pop() {
            for index in 0..1 << layout.bits[level] {
                let at = first + index as u64 * layout.span(level).base_pages(layout.base);
                match table.slot(node, index) {
                    Slot::Empty => {}
                    Slot::Table(next) => {
                        found.insert((level, at), Slot::Table(NodeId(0)));
                        todo.push((next, level - 1, at));
                    }
                    leaf => drop(found.insert((level, at), leaf)),
                }
            }
        }
        found
    }

    impl Twin {
        /// Notes that these entries, by level and first page, have changed in this order; the table has only those of `after` now.
        fn change(&mut self, layout: &Layout, written: &[(usize, u64)], after: &BTreeMap<(usize, u64), Slot>) {
            let exists = |level: usize, first: u64| {
                level == layout.levels() - 1 || matches!(after.get(&(level + 1, first)), Some(Slot::Table(_)))
            };
            for &(level, page) in written {
                let first = first_page(layout, level, page);
                let above = (level + 1, first_page(layout, level + 1, page));
                let inherited = level < layout.levels() - 1 && self.modes.get(&above).is_some_and(|mode| mode.1);
                let mode = self.modes.entry((level, first)).or_insert((0, inherited));
                if !mode.1 {
                    self.traps += 1;
                }
                mode.0 += 1;
                if self.agile && mode.0 >= 2 {
                    let span = layout.span(level + 1).base_pages(layout.base);
                    let below = self.modes.range_mut((0, 0)..=(level, u64::MAX));
                    below.filter(|((_, at), _)| (first..first + span).contains(at)).for_each(|(_, mode)| mode.1 = true);
                }
            }
            self.modes.retain(|&(level, first), _| exists(level, first));
        }

        fn end_interval(&mut self, layout: &Layout) {
            for level in (0..layout.levels()).rev() {
                let of_level: Vec<u64> =
                    self.modes.range((level, 0)..=(level, u64::MAX)).map(|(&(_, first), _)| first).collect();
                for first in of_level {
                    let above = self.modes.get(&(level + 1, first_page(layout, level + 1, first))).copied();
                    let mode = self.modes.get_mut(&(level, first)).unwrap();
                    mode.1 &= mode.0 > 0 || level < layout.levels() - 1 && above.unwrap().1;
                }
            }
            self.modes.values_mut().for_each(|mode| mode.0 = 0);
        }
    }

    fn modes(table: &EditablePageTable) -> BTreeMap<(usize, u64), bool> {
        let (layout, shadowed) = (table.layout(), table.shadowed().unwrap());
        let mut found = BTreeMap::new();
        let mut todo = vec![(table.root(), layout.levels() - 1, 0)];
        while let Some((node, level, first)) = todo.pop() {
            found.insert((level, first), shadowed.is_nested(node));
            for index in 0..1 << layout.bits[level] {
                if let Slot::Table(next) = table.slot(node, index) {
                    todo.push((next, level - 1, first + index as u64 * layout.span(level).base_pages(layout.base)));
                }
            }
        }
        found
    }

    #[test]
    fn modes_and_traps_are_those_of_the_entries_that_changed() {
        let layout = Layout::radix(PageShift(12), vec![2, 3, 2]);
        for seed in 0..400 {
            let agile = seed % 4 > 0;
            let (mut memory, mut random) = (Memory(0), Random::new(seed));
            let mut table = EditablePageTable::new(layout.clone(), &mut memory).unwrap();
            table.shadow(agile);
            let mut twin = Twin { agile, modes: BTreeMap::from([((2, 0), (0, false))]), traps: 0 };
            for _ in 0..60 {
                let page = Vpn(random.below(1 << 7));
                let before = entries(&table);
                match random.below(6) {
                    0..=2 if table.lookup(page).is_none() => {
                        // The frame is never 0, so that the entry is not empty.
                        let pte = Pte::new(Pfn(1 + random.below(9)), PageShift(12));
                        table.set(page, pte, &mut memory).unwrap();
                    }
                    3 => drop(table.clear(page, &mut memory)),
                    4 => drop(table.update(page, |pte| pte.with_pfn(pte.pfn() + 16))),
                    5 => {
                        table.end_shadow_interval();
                        twin.end_interval(&layout);
                    }
                    _ => {}
                }
                let after = entries(&table);
                let keys: std::collections::BTreeSet<_> = before.keys().chain(after.keys()).copied().collect();
                let mut written: Vec<_> = keys.into_iter().filter(|key| before.get(key) != after.get(key)).collect();
                if before.len() < after.len() {
                    // A new page's entry is the last to be written, that of one that goes the first.
                    written.reverse();
                }
                twin.change(&layout, &written, &after);
                table.check();
                let expected: BTreeMap<_, _> = twin.modes.iter().map(|(&key, &(_, nested))| (key, nested)).collect();
                assert_eq!(modes(&table), expected, "seed {seed}");
            }
            assert_eq!(table.take_traps().writes, twin.traps, "seed {seed}");
        }
    }
}
