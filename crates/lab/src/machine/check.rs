//! Checks of a machine: the contract between machine files and `reach-hardware`.
//!
//! [`check_hardware`] refuses values that the simulator's structures cannot represent and values that no processor has.
//! Each error names the part.

use super::error::Problem;
use reach_core::{Layout, PageShift};
use reach_hardware::config::{Cache, Index, Machine, Replacement, Serves, Tlb, WalkCache, Walker};
use std::collections::BTreeSet;

/// Bits of a traced program's virtual addresses.
pub const PROGRAM_ADDRESS_BITS: u32 = 48;

/// Returns all errors of `machine`; none for one that can be simulated.
///
/// Errors of the layout or the page sizes are returned alone, because all other checks depend on them.
pub fn check_hardware(machine: &Machine) -> Vec<Problem> {
    let mut problems = Problems::default();
    problems.layout(&machine.layout);
    if problems.0.is_empty() {
        problems.sizes(&machine.layout, &machine.sizes);
    }
    if !problems.0.is_empty() {
        return problems.0;
    }
    problems.tlbs(machine);
    problems.walker(machine);
    problems.nested(machine);
    problems.caches(machine);
    problems.core(machine);
    problems.0
}

/// The errors found so far.
#[derive(Default)]
struct Problems(Vec<Problem>);

/// Returns the number of sets.
///
/// # Errors
/// When it is not a power of two; the text says which number of ways would give one.
fn sets(entries: u64, ways: u64) -> Result<u64, String> {
    if entries == 0 || ways == 0 {
        return Err(format!("{entries} entries in {ways} ways hold nothing: expected at least 1 of both"));
    }
    if ways > entries {
        return Err(format!("{ways} ways are more than the {entries} entries; write \"full\" for one set"));
    }
    if entries.is_multiple_of(ways) && (entries / ways).is_power_of_two() {
        return Ok(entries / ways);
    }
    let possible = (0..=entries.trailing_zeros()).map(|doublings| entries >> doublings);
    let nearest = possible.min_by_key(|possible| possible.abs_diff(ways));
    let hint = nearest.map_or(String::new(), |ways| format!(": {ways} ways would be"));
    Err(format!("{entries} entries in {ways} ways is not a power-of-two number of sets{hint}"))
}

impl Problems {
    fn add(&mut self, at: impl Into<String>, what: impl Into<String>) {
        self.0.push(Problem::new(at, what));
    }

    fn names<'a>(&mut self, kind: &str, names: impl Iterator<Item = &'a str>) {
        let mut seen = BTreeSet::new();
        for name in names {
            let at = format!("{kind}.{name}");
            let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
            if name.is_empty() || !name.bytes().all(allowed) {
                self.add(&at, format!("the name {name:?}: expected only a-z, 0-9 and _"));
            }
            if !seen.insert(name) {
                self.add(&at, "a second array with this name; rename one");
            }
        }
    }

    fn layout(&mut self, layout: &Layout) {
        let (base, bits) = (layout.base.0, &layout.bits);
        if !(10..=24).contains(&base) {
            self.add("page_table.base", format!("base pages of 2^{base} bytes: expected 1K to 16M"));
        }
        if !(1..=5).contains(&bits.len()) {
            self.add("page_table.bits", format!("{} levels: expected one to five", bits.len()));
        }
        if let Some(wide) = bits.iter().find(|b| !(1..=24).contains(*b)) {
            self.add("page_table.bits", format!("a level of {wide} index bits: expected 1 to 24"));
        }
        let total = u32::from(base) + bits.iter().map(|&b| u32::from(b)).sum::<u32>();
        if !(PROGRAM_ADDRESS_BITS..64).contains(&total) {
            let what = format!("translates {total}-bit addresses: expected 48 to 63; change the root");
            self.add("page_table.bits", what);
        }
    }

    fn sizes(&mut self, layout: &Layout, sizes: &[PageShift]) {
        let at = "page_table.sizes";
        if sizes.first() != Some(&layout.base) {
            self.add(at, format!("the first size must be the base page, {}", layout.base));
        }
        if !sizes.is_sorted_by(|a, b| a < b) {
            self.add(at, "sizes must ascend, without duplicates");
        }
        if sizes.len() > 16 {
            self.add(at, format!("{} page sizes: expected at most 16", sizes.len()));
        }
        for size in sizes.iter().filter(|size| size.0 >= layout.address_bits()) {
            self.add(at, format!("a page of 2^{} bytes does not fit in the page table's address space", size.0));
        }
        for &size in sizes.iter().filter(|size| **size > layout.base && size.0 < layout.address_bits()) {
            let (level, copies) = layout.placement(size);
            if copies > 1 << layout.bits[level] {
                self.add(at, format!("a page of {size} needs {copies} entries at level {level}, more than a node has"));
            }
        }
    }

    /// Checks a policy. `is_foreign` says which only `theirs`, arrays of another kind, have.
    fn replacement(
        &mut self,
        at: &str,
        replacement: Replacement,
        ways: u32,
        is_foreign: fn(Replacement) -> bool,
        theirs: &str,
    ) {
        if is_foreign(replacement) {
            let what = format!("{replacement} is for {theirs}: expected another policy, such as lru");
            self.add(format!("{at}.replacement"), what);
        }
        if !replacement.takes(ways) {
            let expected = replacement.expected_ways();
            let what = format!("{replacement} over {ways} ways: expected {expected}; or use lru or nru");
            self.add(format!("{at}.replacement"), what);
        }
    }

    fn tlb(&mut self, tlb: &Tlb, machine: &Machine) {
        let at = format!("tlb.{}", tlb.name);
        if let Err(what) = sets(tlb.entries.into(), tlb.ways.into()) {
            self.add(&at, what);
        }
        if tlb.entries > 1 << 20 {
            self.add(format!("{at}.entries"), format!("{} entries: expected at most 1048576", tlb.entries));
        }
        let of_caches = |policy| policy == Replacement::PageTableAware;
        self.replacement(&at, tlb.replacement, tlb.ways, of_caches, "data caches");
        if tlb.index != Index::Low && tlb.level <= 1 {
            self.add(format!("{at}.index"), "a hash in the first level: expected low; only later levels hash");
        }
        if tlb.serves == Serves::default() {
            self.add(format!("{at}.serves"), "serves no class of references; name fetch, load or store");
        }
        if tlb.sizes.is_empty() || !tlb.sizes.is_sorted_by(|a, b| a < b) {
            self.add(format!("{at}.sizes"), "expected at least one size, ascending, without duplicates");
        }
        if let Some(span) = tlb.coalesce {
            self.coalesced(&format!("{at}.coalesce"), span, tlb, machine);
        }
        for size in tlb.sizes.iter().filter(|size| !machine.sizes.contains(size)) {
            self.add(format!("{at}.sizes"), format!("the machine has no pages of {size}; page_table.sizes lists them"));
        }
    }

    fn coalesced(&mut self, at: &str, span: PageShift, tlb: &Tlb, machine: &Machine) {
        let base = machine.layout.base;
        // A line of 64 bytes holds eight entries.
        if !(1..=3).contains(&(span.0.saturating_sub(base.0))) || machine.sizes.contains(&span) {
            self.add(at, format!("{span}: expected 2, 4 or 8 pages of {base}, and no page size of the machine"));
        }
        if machine.layout.bits.first().is_none_or(|&bits| bits < span.0.saturating_sub(base.0)) {
            self.add(at, format!("{span}: a page-table node of level 0 maps less"));
        }
        if machine.sizes.len() > 15 {
            self.add(at, format!("{} page sizes: expected at most 15 with coalesced entries", machine.sizes.len()));
        }
        if !tlb.sizes.contains(&base) {
            self.add(at, format!("an array without pages of {base}, which are what it would coalesce"));
        }
        if machine.coalesces() != Some(span) {
            self.add(at, format!("{span}: an earlier array coalesces another span; expected one for all arrays"));
        }
        if matches!(machine.walker, Walker::Software { .. }) {
            self.add(at, "a software handler enters single pages; coalescing needs [walker.hardware]");
        }
    }

    fn tlbs(&mut self, machine: &Machine) {
        self.names("tlb", machine.tlbs.iter().map(|tlb| tlb.name.as_str()));
        for tlb in &machine.tlbs {
            self.tlb(tlb, machine);
        }
        let base = machine.layout.base;
        type Served = fn(&Serves) -> bool;
        let classes: [(&str, Served); 3] = [("fetch", |s| s.fetch), ("load", |s| s.load), ("store", |s| s.store)];
        for (class, served) in classes {
            let of = |level: u8| machine.tlbs.iter().filter(move |tlb| tlb.level == level && served(&tlb.serves));
            if !of(0).chain(of(1)).any(|tlb| tlb.sizes.contains(&base)) {
                self.add("tlb", format!("no first-level array holds {base} pages for {class}; add one at level 1"));
            }
            if of(0).next().is_some() && of(1).next().is_none() {
                self.add("tlb", format!("{class} has a level 0 but no level 1 behind it; make it level 1"));
            }
            let first = if of(0).next().is_some() { 0 } else { 1 };
            for tlb in of(first).filter(|tlb| tlb.latency > 0) {
                let what = format!("{} cycles: expected 0, as {class} looks it up first", tlb.latency);
                self.add(format!("tlb.{}.latency", tlb.name), what);
            }
            let top = machine.tlbs.iter().filter(|tlb| served(&tlb.serves)).map(|tlb| tlb.level).max().unwrap_or(1);
            for level in 2..=top {
                if of(level).next().is_none() {
                    self.add(
                        "tlb",
                        format!("{class} has level {top} but no level {level}; number levels without gaps"),
                    );
                }
                let slowest = of(level - 1).map(|tlb| tlb.latency).max().unwrap_or(0);
                for tlb in of(level).filter(|tlb| tlb.latency < slowest) {
                    let what = format!(
                        "{} cycles for {class}: expected at least the {slowest} of the level before",
                        tlb.latency
                    );
                    self.add(format!("tlb.{}.latency", tlb.name), what);
                }
            }
        }
    }

    fn walk_cache(&mut self, cache: &WalkCache, machine: &Machine) {
        let at = format!("walker.hardware.caches.{}", cache.name);
        let levels = machine.layout.levels();
        if cache.levels.is_empty() || !cache.levels.is_sorted_by(|a, b| a < b) {
            self.add(format!("{at}.levels"), "expected at least one level, ascending, without duplicates");
        }
        for level in cache.levels.iter().filter(|level| !(1..levels).contains(&usize::from(**level))) {
            let what = format!("level {level}: expected 1 to {}, whose entries point to tables", levels - 1);
            self.add(format!("{at}.levels"), what);
        }
        match &cache.within {
            Some(within) => {
                if !machine.tlbs.iter().any(|tlb| tlb.name == *within) {
                    let names: Vec<_> = machine.tlbs.iter().map(|tlb| tlb.name.as_str()).collect();
                    let what = format!("no TLB array {within:?}; there are {}", names.join(", "));
                    self.add(format!("{at}.within"), what);
                }
                if cache.entries != 0 || cache.ways != 0 {
                    self.add(&at, "entries of its own and `within` exclude each other; keep one");
                }
            }
            None => {
                if let Err(what) = sets(cache.entries.into(), cache.ways.into()) {
                    self.add(&at, what);
                }
                if cache.entries > 1 << 20 {
                    self.add(format!("{at}.entries"), format!("{} entries: expected at most 1048576", cache.entries));
                }
            }
        }
    }

    fn walker(&mut self, machine: &Machine) {
        match &machine.walker {
            Walker::Hardware { walkers, lookup: _, cache_level, caches } => {
                let farthest = machine.caches.iter().filter(|cache| cache.data).map(|cache| cache.level).max();
                let farthest = farthest.unwrap_or(1);
                if !(1..=farthest).contains(cache_level) {
                    let what = format!("level {cache_level}: expected 1 to {farthest}, a data cache for walks to read");
                    self.add("walker.hardware.cache_level", what);
                }
                if *walkers == 0 {
                    self.add("walker.hardware.walkers", "0: expected at least 1, to fill the TLB");
                }
                self.names("walker.hardware.caches", caches.iter().map(|cache| cache.name.as_str()));
                let mut held = BTreeSet::new();
                for cache in caches {
                    self.walk_cache(cache, machine);
                    for level in cache.levels.iter().filter(|level| !held.insert(**level)) {
                        let at = format!("walker.hardware.caches.{}.levels", cache.name);
                        self.add(at, format!("level {level} is in an earlier walk cache already"));
                    }
                }
            }
            Walker::Software { cycles, instructions, loads, stores: _ } => {
                if *cycles == 0 || *instructions == 0 {
                    self.add("walker.software", "0: expected at least 1 of cycles and instructions");
                }
                if *loads == 0 {
                    self.add(
                        "walker.software.loads",
                        "0: expected at least 1, as the handler reads the entry that it inserts",
                    );
                }
            }
        }
    }

    fn nested(&mut self, machine: &Machine) {
        let Some(nested) = &machine.nested else { return };
        if !matches!(machine.walker, Walker::Hardware { .. }) {
            self.add(
                "nested.host_page",
                "a guest on a machine whose TLB software fills; nested paging needs [walker.hardware]",
            );
        } else if !machine.sizes.contains(&nested.host_page) {
            self.add("nested.host_page", "not a page size of this machine; page_table.sizes lists them");
        }
        if nested.tlb_entries.max(nested.walk_cache_entries.iter().copied().max().unwrap_or(0)) > 1 << 16 {
            self.add("nested", "more than 65536 entries: expected at most 65536");
        }
        if nested.walk_cache_entries.len() >= machine.layout.levels() {
            let what =
                format!("{} levels: expected at most {}, those above the leaf", nested.walk_cache_entries.len(), {
                    machine.layout.levels() - 1
                });
            self.add("nested.walk_cache_entries", what);
        }
    }

    fn cache(&mut self, cache: &Cache, last: bool, base: PageShift) {
        let at = format!("caches.{}", cache.name);
        if cache.level == 0 {
            self.add(format!("{at}.level"), "0: expected at least 1, the nearest cache");
        }
        if !(cache.instructions || cache.data) {
            self.add(format!("{at}.holds"), "holds nothing; name instructions or data");
        }
        let line = u64::from(cache.line);
        if !line.is_power_of_two() || !(8..=base.bytes()).contains(&line) {
            self.add(
                format!("{at}.line"),
                format!("lines of {line} bytes: expected a power of two from 8 to the base page"),
            );
        } else if cache.ways == 0 || cache.bytes == 0 || !cache.bytes.is_multiple_of(line * u64::from(cache.ways)) {
            let what = format!("{} bytes are not {} ways of whole {line}-byte lines", cache.bytes, cache.ways);
            self.add(&at, what);
        } else if cache.bytes > 1 << 40 {
            self.add(format!("{at}.bytes"), format!("{} bytes: expected at most 1T", cache.bytes));
        } else if let (false, Err(what)) = (last, sets(cache.bytes / line, cache.ways.into())) {
            self.add(&at, what.replace("entries", "lines"));
        }
        let of_tlbs = |policy| matches!(policy, Replacement::InstructionAware | Replacement::ReusePrediction(_));
        self.replacement(&at, cache.replacement, cache.ways, of_tlbs, "TLB arrays");
        if cache.latency == 0 {
            self.add(format!("{at}.latency"), "0 cycles: expected at least 1, from the load to the use");
        }
    }

    fn caches(&mut self, machine: &Machine) {
        self.names("caches", machine.caches.iter().map(|cache| cache.name.as_str()));
        let last = machine.caches.iter().map(|cache| cache.level).max();
        for cache in &machine.caches {
            self.cache(cache, Some(cache.level) == last, machine.layout.base);
        }
        if !machine.caches.is_sorted_by_key(|cache| cache.level) {
            self.add("caches", "caches must be listed nearest first");
        }
        // Between two caches of a kind, a level may hold the other kind alone, as Lion Cove's second level of data does.
        let levels: BTreeSet<u8> = machine.caches.iter().map(|cache| cache.level).collect();
        type Holds = fn(&Cache) -> bool;
        let kinds: [(&str, Holds); 2] = [("instructions", |c| c.instructions), ("data", |c| c.data)];
        for (kind, holds) in kinds {
            let path: Vec<_> = machine.caches.iter().filter(|cache| holds(cache)).collect();
            if path.first().is_some_and(|first| first.level != 1) {
                self.add("caches", format!("no level 1 holds {kind}; number levels from 1"));
            }
            for pair in path.windows(2) {
                let (near, far) = (pair[0], pair[1]);
                let at = format!("caches.{}", far.name);
                if far.level == near.level {
                    self.add(&at, format!("a second cache for {kind} at level {}: expected one", far.level));
                } else if let Some(gap) = (near.level.saturating_add(1)..far.level).find(|gap| !levels.contains(gap)) {
                    self.add(
                        &at,
                        format!("no level {gap} between {} and {} for {kind}; leave no gap", near.name, far.name),
                    );
                }
                if far.latency <= near.latency {
                    let what =
                        format!("{} cycles: expected more than the {} of {}", far.latency, near.latency, near.name);
                    self.add(format!("{at}.latency"), what);
                }
                if far.line < near.line {
                    self.add(format!("{at}.line"), format!("shorter than the {} bytes of {}", near.line, near.name));
                }
                if near.shared && !far.shared {
                    self.add(format!("{at}.shared"), format!("private behind {}, which is shared", near.name));
                }
            }
            if let Some(far) = path.last().filter(|far| machine.memory <= far.latency) {
                let what = format!("{} cycles: expected more than the {} of {}", machine.memory, far.latency, far.name);
                self.add("memory.latency", what);
            }
        }
        if machine.memory == 0 {
            self.add("memory.latency", "0 cycles: expected at least 1");
        }
    }

    fn core(&mut self, machine: &Machine) {
        let core = &machine.core;
        for (key, zero) in [
            ("millicycles_per_instruction", core.millicycles_per_instruction == 0),
            ("mhz", core.hertz == 0),
            ("walk_access", core.walk_access == 0),
            ("asids", core.asids == 0),
        ] {
            if zero {
                self.add(format!("core.{key}"), "0: expected at least 1");
            }
        }
    }
}
