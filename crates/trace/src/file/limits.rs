//! What a file may state in proportion to its bytes.
//!
//! A compressed byte can stand for thousands, and a count of four bytes for billions of items. So a reader holds what a
//! file states against the bytes that the file has, before it takes memory or time: a file of a megabyte costs at most 64 MB
//! and, read once, two seconds. Recordings of programs stay far below (gcc: 3 references, 4 bytes of streams and 6 bytes of
//! expanded forms for each stored byte). The writer pads a segment that would not.

use super::layout::SegmentHeader;
use super::stream::Stream;

/// The bytes at the start of a file that the allowances of [`Totals`] are for.
const FREE_BYTES: u64 = 1 << 20;

/// A limit on a total: an allowance for the first [`FREE_BYTES`], and a rate for each further byte of the file.
struct Rule {
    what: &'static str,
    allowance: u64,
    rate: u64,
}

/// They are read in 1.2 s. A tight loop has 500 in a byte; segments without any contents would have 2,000.
const REFS: Rule = Rule { what: "references", allowance: 1 << 28, rate: 2048 };
const EVENTS: Rule = Rule { what: "events", allowance: 1 << 20, rate: 1 };
const BLOCKS: Rule = Rule { what: "bytes of blocks", allowance: 8 << 20, rate: 16 };

/// The bytes of memory that a block takes beside its definition.
const BLOCK_BYTES: u64 = 64;

impl Rule {
    /// Returns the fewest bytes of a file with `n` of these things.
    fn least(&self, n: u64) -> u64 {
        match n.checked_sub(self.allowance) {
            None | Some(0) => 0,
            Some(more) => FREE_BYTES + more.div_ceil(self.rate),
        }
    }
}

/// What the segments of a file hold together, up to one of them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Totals {
    pub refs: u64,
    pub events: u64,
    /// Bytes of block definitions, with [`BLOCK_BYTES`] for each block.
    blocks: u64,
}

impl Totals {
    /// Adds a segment of these counts, whose blocks are not known yet.
    pub fn add(&mut self, refs: u32, events: u32) {
        self.refs = self.refs.saturating_add(refs.into());
        self.events = self.events.saturating_add(events.into());
    }

    /// Adds the blocks of a segment.
    pub fn add_blocks(&mut self, header: &SegmentHeader) {
        let bytes = u64::from(header.blocks) * BLOCK_BYTES + u64::from(header.streams[Stream::Blocks].raw);
        self.blocks = self.blocks.saturating_add(bytes);
    }

    /// Returns the fewest bytes that a file has up to the end of these segments.
    pub fn least_len(&self) -> u64 {
        self.rules().map(|(rule, n)| rule.least(n)).into_iter().max().unwrap_or(0)
    }

    /// Fails if the segments end at byte `end` of the file and hold more than that allows, with what they hold too much of.
    pub fn check(&self, end: u64) -> Result<(), String> {
        match self.rules().into_iter().find(|(rule, n)| rule.least(*n) > end) {
            Some((rule, n)) => Err(format!("damaged: {n} {} in a file of {end} bytes up to here", rule.what)),
            None => Ok(()),
        }
    }

    fn rules(&self) -> [(Rule, u64); 3] {
        [(REFS, self.refs), (EVENTS, self.events), (BLOCKS, self.blocks)]
    }
}

/// Returns the fewest bytes that the streams of a segment take as stored, by their lengths before compression.
pub(super) fn least_payload(header: &SegmentHeader) -> u64 {
    let raw = raw_bytes(header);
    // The first bounds memory, the second the time for decompression.
    let memory = raw.saturating_sub(16 << 20).div_ceil(4);
    let time = raw.saturating_sub(2 * u64::from(header.refs)).div_ceil(1024);
    memory.max(time)
}

/// Returns the most bytes that the streams of a segment take as stored: zstd adds little to what it cannot compress, and a
/// writer pads little.
pub(super) fn most_payload(header: &SegmentHeader) -> u64 {
    let raw = raw_bytes(header);
    (raw + raw / 8 + (2 << 20)).min(MAX_PAYLOAD)
}

/// The most bytes of a segment's streams as stored. It matters where a file has holes.
const MAX_PAYLOAD: u64 = 1 << 26;

fn raw_bytes(header: &SegmentHeader) -> u64 {
    header.streams.0.iter().map(|length| u64::from(length.raw)).sum()
}

/// Bytes of the lists of expanded forms and paths that a segment of any length may have.
const EXPANDED_FREE: u64 = 4 << 20;
/// Bytes of these lists for each stored byte of the segment.
const EXPANDED_RATE: u64 = 16;

/// The memory that the forms and paths of a segment take when they are expanded.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ExpandedSize {
    /// Forms and paths.
    pub paths: u64,
    /// Fetches of all forms and paths.
    pub fetches: u64,
    /// Data references of all forms and paths.
    pub data: u64,
    /// Data references of all forms.
    pub slots: u64,
}

impl ExpandedSize {
    /// Returns the most bytes that a decoder needs for these numbers.
    fn bytes(&self) -> u64 {
        32 * self.paths + 44 * self.fetches + 16 * self.data + 16 * self.slots
    }

    /// Returns the fewest bytes that the streams of a segment take as stored, by its forms and paths.
    pub fn least_payload(&self) -> u64 {
        self.bytes().saturating_sub(EXPANDED_FREE).div_ceil(EXPANDED_RATE)
    }

    /// Returns whether a segment whose streams take `payload` bytes as stored may have these numbers.
    #[inline(always)]
    pub fn fits(&self, payload: u64) -> bool {
        self.bytes() <= EXPANDED_FREE + EXPANDED_RATE * payload
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_held_against_the_length_of_the_file() {
        let many = |refs: u64, events: u64| Totals { refs, events, blocks: 0 };
        assert!(many(1 << 28, 1 << 20).check(100).is_ok());
        let error = many((1 << 28) + 1, 0).check(100).unwrap_err();
        assert_eq!(error, "damaged: 268435457 references in a file of 100 bytes up to here");
        assert!(many(0, (1 << 20) + 1).check(100).is_err());
        for (totals, more) in [(many((1 << 28) + 4096, 0), 2), (many(0, (1 << 20) + 7), 7)] {
            let least = totals.least_len();
            assert_eq!(least, FREE_BYTES + more);
            assert!(totals.check(least).is_ok() && totals.check(least - 1).is_err());
        }
    }

    #[test]
    fn blocks_count_with_their_definitions() {
        let mut header = SegmentHeader { blocks: 1 << 16, ..SegmentHeader::default() };
        header.streams[Stream::Blocks].raw = 4 << 20;
        let mut totals = Totals::default();
        totals.add_blocks(&header);
        assert!(totals.check(0).is_ok());
        totals.add_blocks(&header);
        assert_eq!(totals.least_len(), FREE_BYTES + (8 << 20) / 16);
    }
}
