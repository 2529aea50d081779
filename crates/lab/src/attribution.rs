//! Attributes the cost of translation to instructions, and to the mappings and 2 MB extents that they access.
//!
//! The processor logs what each reference costs ([`reach_hardware::CostEntry`]). An attributor finds the instruction and the
//! mapping of each, and adds up. Costs are differences of counters, so all [`Site`]s of an [`Attribution`] sum to what the
//! simulation counted, exactly.

mod callers;
mod heat;
mod instructions;
mod mappings;
mod scripts;
mod touched;

pub use heat::Heat;
pub use mappings::{File, Mapping, MappingKind};
pub(crate) use scripts::returns_to;
pub use touched::Pages;

use callers::RecentBlocks;
use mappings::{Mappings, Origins};
use reach_core::{
    Asid, Backing, BlockId, BlockTable, Chunk, Event, FileId, Kind, Mark, PageShift, Ref, Role, Step, VirtAddr,
};
use reach_hardware::{CostEntry, TranslationSpent};
use rustc_hash::FxHashMap;
use scripts::{Script, Scripts};
use touched::Touched;

/// The binary logarithm of the size of extents: the superpage of most machines, 2 MB.
pub const EXTENT_SHIFT: u32 = 21;

/// The number of a mapping in [`Attribution::mappings`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MappingId(pub u32);

/// What one instruction pays for one extent of one mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Site {
    /// The address space.
    pub asid: Asid,
    /// The instruction's block; `None` if the program names no blocks.
    pub block: Option<BlockId>,
    /// The number of the instruction in its block: 0 for fetches, the greatest for the branch before a wrong path. Traces tell numbers
    /// up to 511.
    pub instruction: u16,
    /// The mapping that contains the block.
    pub code: MappingId,
    /// Whether it is a cost of fetching the block; else of loads and stores.
    pub fetch: bool,
    /// The mapping that the reference accesses: that of the block for fetches.
    pub mapping: MappingId,
    /// The first address that the reference accesses, in extents ([`EXTENT_SHIFT`]); 0 where the mapping is
    /// [`MappingKind::WrongPath`].
    pub extent: u64,
    /// The function of a script that runs: the mapping of its code, and the start of a block of it. That is the innermost code that
    /// is compiled at run time, and runs or waits for a call; `None` where there is none.
    pub script: Option<(MappingId, VirtAddr)>,
}

/// The cost of translation by owner.
#[derive(Clone, Debug, Default)]
pub struct Attribution {
    /// The costs.
    pub sites: FxHashMap<Site, TranslationSpent>,
    /// All mappings that ever existed.
    pub mappings: Vec<Mapping>,
    /// The files.
    pub files: FxHashMap<FileId, File>,
    /// The calls that led to mappings ([`Mapping::made_by`]): the files and the places in them, in bytes. The last call comes first;
    /// that of the library which made the system call is left out.
    pub calls: Vec<Vec<(FileId, u64)>>,
    callers: Vec<Vec<callers::Caller>>,
    origins: Origins,
    /// The addresses of the instructions of all sites; none where the program names no blocks.
    pub instructions: FxHashMap<(BlockId, u16), VirtAddr>,
    /// The pages that the program has touched, by mapping and extent, from its start on. With base pages only: of a superpage, no more
    /// than the first page is known.
    pub touched: FxHashMap<(MappingId, u64), Pages>,
    /// Misses by address and time.
    pub heat: Heat,
}

impl Attribution {
    /// Returns the mapping with this number.
    pub fn mapping(&self, id: MappingId) -> &Mapping {
        &self.mappings[id.0 as usize]
    }

    /// Finds the addresses of instructions, and the calls that made mappings. `blocks` are those of the program.
    pub(crate) fn locate(&mut self, blocks: &BlockTable) {
        self.calls = self.callers.iter().map(|callers| callers::calls(callers, blocks)).collect();
        for site in self.sites.keys() {
            if let Some(block) = site.block {
                let key = (block, site.instruction);
                self.instructions.entry(key).or_insert_with(|| instructions::address(blocks.get(block), key.1));
            }
        }
    }

    /// Returns the file that contains the instruction of `site`, with the instruction's place in it in bytes; `None` for code that
    /// no file contains.
    pub fn place(&self, site: &Site) -> Option<(&File, u64)> {
        let at = self.instructions.get(&(site.block?, site.instruction))?;
        let (file, offset) = self.mapping(site.code).place(*at)?;
        Some((self.files.get(&file)?, offset))
    }

    /// Returns the processes that may have compiled the code of a mapping while they ran: the one that has mapped it, and the
    /// ancestors that have had it before. Those that have executed another program since are left out.
    pub fn compilers(&self, code: MappingId) -> Vec<Asid> {
        self.origins.compilers(code, &self.mappings)
    }

    /// Returns the sum over all sites.
    pub fn total(&self) -> TranslationSpent {
        let mut total = TranslationSpent::default();
        self.sites.values().for_each(|spent| total.absorb(spent));
        total
    }
}

/// The reference that a cost belongs to, and its instruction.
#[derive(Clone, Copy, Debug)]
struct At {
    r: Ref,
    /// The block of the last fetch up to it; `None` before the first.
    block: Option<Fetched>,
    /// The block of the fetch before that one, if `r` is a fetch.
    before: Option<Fetched>,
}

/// A block that was fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fetched {
    /// `None` if the program names no blocks.
    block: Option<BlockId>,
    pc: VirtAddr,
    /// The function of a script that runs, as [`Scripts::fetch`] gives it.
    script: Option<Script>,
}

/// Adds up costs while a program runs.
#[derive(Debug)]
pub(crate) struct Attributor {
    mappings: Mappings,
    blocks: RecentBlocks,
    scripts: Scripts,
    touched: Touched,
    heat: Heat,
    /// Whether the source leaves references out.
    skips: bool,
    /// References since measuring began, up to the step that runs.
    time: u64,
    sites: FxHashMap<Site, TranslationSpent>,
    /// The site of the last cost and its sum, which are often asked for again.
    recent: Option<(Site, TranslationSpent)>,
    /// The last reference of the last step that ran.
    last: Option<At>,
    /// The costs of a step.
    entries: Vec<CostEntry>,
}

impl Attributor {
    /// Begins without any cost. `base` is the base page of the machine.
    pub fn new(base: PageShift) -> Attributor {
        Attributor {
            mappings: Mappings::default(),
            blocks: RecentBlocks::default(),
            scripts: Scripts::default(),
            touched: Touched::new(base),
            heat: Heat::default(),
            skips: false,
            time: 0,
            sites: FxHashMap::default(),
            recent: None,
            last: None,
            entries: Vec::new(),
        }
    }

    /// Learns where the calls at the ends of new blocks return to. Call before the steps that execute the blocks.
    pub fn learn(&mut self, calls: &[(BlockId, VirtAddr)]) {
        self.scripts.learn(calls);
    }

    /// Takes an event of the program.
    pub fn notice(&mut self, event: &Event) {
        self.scripts.notice(event);
        if let Event::Switch { .. } = event {
            self.blocks.clear();
        }
        let asks = matches!(event, Event::Map(map) if map.role == Role::Mmap && map.backing == Backing::Anonymous);
        match event {
            Event::Mark(Mark::FastForward) => self.skips = true,
            Event::Mark(Mark::Measure) => self.skips = false,
            _ => {}
        }
        // While references are left out, the block that ran last has not asked.
        let known = asks && !self.skips;
        let callers = if known { self.blocks.callers(&mut self.mappings) } else { Vec::new() };
        self.mappings.notice(event, callers);
    }

    /// Forgets all costs so far.
    pub fn start(&mut self) {
        self.sites.clear();
        self.recent = None;
        (self.heat, self.time) = (Heat::default(), 0);
    }

    /// Returns the buffer that takes the costs of a step ([`reach_hardware::Mmu::take_costs`]).
    pub fn entries(&mut self) -> &mut Vec<CostEntry> {
        &mut self.entries
    }

    /// Attributes the costs of `step`, which are in [`Attributor::entries`].
    pub fn attribute(&mut self, chunk: &Chunk, step: &Step) {
        let entries = std::mem::take(&mut self.entries);
        let mut position = Position::new(chunk, step, self.last);
        for entry in &entries {
            let (scripts, mappings) = (&mut self.scripts, &mut self.mappings);
            let (at, time) = match entry.reference {
                None => (self.last, self.time),
                Some(reference) => (
                    position.at(reference as usize, scripts, mappings),
                    self.time + (reference as usize - step.refs.start) as u64,
                ),
            };
            self.add(at, time, entry);
        }
        self.time += step.refs.len() as u64;
        self.blocks.add(chunk, step);
        let last = position.at(step.refs.end.saturating_sub(1), &mut self.scripts, &mut self.mappings);
        self.last = last.or(self.last);
        self.entries = entries;
    }

    /// Attributes costs that come after the last step that ran: of instructions that were in flight at its end.
    pub fn attribute_rest(&mut self) {
        let entries = std::mem::take(&mut self.entries);
        entries.iter().for_each(|entry| self.add(self.last, self.time, entry));
        self.entries = entries;
    }

    fn add(&mut self, at: Option<At>, time: u64, entry: &CostEntry) {
        let site = self.site(at, entry);
        if entry.spent.misses > 0 {
            self.heat.add(time, (site.mapping, site.extent), entry.spent.misses);
        }
        match &mut self.recent {
            Some((recent, spent)) if *recent == site => spent.absorb(&entry.spent),
            recent => {
                if let Some((site, spent)) = recent.replace((site, entry.spent)) {
                    self.sites.entry(site).or_default().absorb(&spent);
                }
            }
        }
    }

    fn site(&mut self, at: Option<At>, &CostEntry { fetch, squashed, .. }: &CostEntry) -> Site {
        let asid = self.mappings.current();
        let Some(At { r, block, before }) = at else { return self.unknown(asid, fetch) };
        let behind_branch = squashed && r.kind() == Kind::Fetch;
        let block = if behind_branch { before.or(block) } else { block };
        let code = block.map_or(MappingId(0), |block| self.mappings.find(block.pc));
        let data = match block {
            _ if squashed => None,
            Some(block) if fetch => Some((code, block.pc)),
            _ => Some((self.mappings.find(r.addr()), r.addr())),
        };
        if let Some((mapping, address)) = data {
            self.touched.note(mapping, address);
            // A reference that crosses into another page has touched that, too.
            let last = if r.kind() == Kind::Fetch || !fetch { r.last() } else { address };
            self.touched.note(mapping, last);
        }
        let (mapping, address) = data.unwrap_or((Mappings::WRONG_PATH, VirtAddr(0)));
        Site {
            asid,
            block: block.and_then(|block| block.block),
            instruction: match r.kind() {
                _ if behind_branch => instructions::LAST,
                Kind::Fetch => 0,
                _ if fetch && !squashed => 0,
                _ => r.index(),
            },
            code,
            fetch,
            mapping,
            extent: address.0 >> EXTENT_SHIFT,
            script: block
                .and_then(|block| block.script)
                .map(|Script { at, code }| (code.unwrap_or_else(|| self.mappings.find(at)), at)),
        }
    }

    /// The site of a cost before the first reference.
    fn unknown(&self, asid: Asid, fetch: bool) -> Site {
        let code = Mappings::UNKNOWN;
        Site { asid, block: None, instruction: 0, code, fetch, mapping: code, extent: 0, script: None }
    }

    /// Returns the sums.
    pub fn finish(mut self) -> Attribution {
        if let Some((site, spent)) = self.recent.take() {
            self.sites.entry(site).or_default().absorb(&spent);
        }
        self.heat.keep();
        let (mappings, origins, files, callers) = self.mappings.finish();
        Attribution {
            sites: self.sites,
            mappings,
            files,
            calls: Vec::new(),
            callers,
            origins,
            instructions: FxHashMap::default(),
            touched: self.touched.finish(),
            heat: self.heat,
        }
    }
}

/// A position in the references of a step, which only moves forward.
struct Position<'a> {
    refs: &'a [Ref],
    fetched: &'a [BlockId],
    /// The references before this one have been passed.
    next: usize,
    /// The number of fetches of the step that have been passed.
    fetches: usize,
    block: Option<Fetched>,
    before: Option<Fetched>,
}

impl<'a> Position<'a> {
    fn new(chunk: &'a Chunk, step: &Step, last: Option<At>) -> Position<'a> {
        let refs = &chunk.refs[..step.refs.end];
        let fetched = chunk.fetched.get(step.fetched.clone()).unwrap_or_default();
        let (block, before) = last.map_or((None, None), |last| (last.block, last.before));
        Position { refs, fetched, next: step.refs.start, fetches: 0, block, before }
    }

    /// Moves to `reference`, and returns it; `None` if there is none. `scripts` follow the fetches on the way.
    fn at(&mut self, reference: usize, scripts: &mut Scripts, mappings: &mut Mappings) -> Option<At> {
        let r = *self.refs.get(reference)?;
        for passed in self.refs.get(self.next..=reference).unwrap_or_default() {
            if passed.kind() == Kind::Fetch {
                let block = self.fetched.get(self.fetches).copied();
                let pc = passed.addr();
                let script = block.and_then(|block| scripts.fetch(block, pc, mappings));
                self.before = self.block.replace(Fetched { block, pc, script });
                self.fetches += 1;
            }
        }
        self.next = self.next.max(reference + 1);
        Some(At { r, block: self.block, before: self.before })
    }
}
