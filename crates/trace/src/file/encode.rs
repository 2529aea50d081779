//! Encodes a segment.

use super::checksum::checksum;
use super::forms::Forms;
use super::layout::{SEGMENT_HEADER, SegmentHeader};
use super::limits::{self, ExpandedSize};
use super::paths::Paths;
use super::predict::{FAR, FARTHEST, NEAR, base, difference};
use super::stream::{PerStream, Stream, StreamLength};
use std::io;

/// The zstd level. Level 3 saves 8 % of the bytes for twice the time; level -3 costs 40 % more bytes and is hardly
/// faster.
const LEVEL: i32 = 1;
/// The magic number of a frame of zstd that decompressors skip.
const SKIPPABLE: u32 = 0x184d_2a50;

/// Encodes segments. The buffers are reused from one segment to the next.
pub(super) struct SegmentEncoder {
    zstd: zstd::bulk::Compressor<'static>,
    pub forms: Forms,
    paths: Paths,
    /// The bytes of the last segment, header included.
    pub out: Vec<u8>,
    /// The present step of each slot.
    steps: Vec<u64>,
    raw: PerStream<Vec<u8>>,
    /// The size of the forms and paths of the last segment; at least what a reader counts.
    expanded: ExpandedSize,
}

impl SegmentEncoder {
    pub fn new() -> io::Result<SegmentEncoder> {
        let zstd = zstd::bulk::Compressor::new(LEVEL)?;
        Ok(SegmentEncoder {
            zstd,
            forms: Forms::default(),
            paths: Paths::default(),
            out: Vec::new(),
            steps: Vec::new(),
            raw: Default::default(),
            expanded: ExpandedSize::default(),
        })
    }

    /// Encodes into `out` the segment that [`Forms::collect`] cut into forms last. `blocks`, `events` and `outline` are
    /// streams that are encoded already. `header` must have all counts except those of forms and paths; returns the
    /// complete header.
    pub fn encode(
        &mut self,
        blocks: &[u8],
        events: &[u8],
        outline: &[Vec<u8>; 3],
        mut header: SegmentHeader,
    ) -> io::Result<SegmentHeader> {
        self.raw.0.iter_mut().for_each(Vec::clear);
        let predictors = self.forms.predictors();
        self.forms.encode(&predictors, &mut self.raw[Stream::Forms]);
        self.paths.collect(&self.forms.sequence, &self.forms.list);
        self.raw[Stream::Forms].extend_from_slice(&self.paths.definitions);
        self.encode_addresses(&predictors);
        let slots = predictors.len() as u64;
        self.expanded = ExpandedSize {
            paths: self.forms.list.len() as u64 + u64::from(self.paths.count),
            fetches: self.forms.list.len() as u64 + self.paths.expanded_forms,
            data: slots + self.paths.expanded_data,
            slots,
        };

        (header.forms, header.paths) = (self.forms.list.len() as u32, self.paths.count);
        let out = &mut self.out;
        out.clear();
        out.resize(SEGMENT_HEADER, 0);
        let [steps, visits, pages] = outline;
        for stream in Stream::ALL {
            let raw = match stream {
                Stream::Blocks => blocks,
                Stream::Events => events,
                Stream::Sequence => &self.paths.sequence,
                Stream::Steps => steps,
                Stream::Visits => visits,
                Stream::Pages => pages,
                Stream::Forms | Stream::Control | Stream::Near | Stream::Far => &self.raw[stream],
            };
            let before = out.len();
            if !raw.is_empty() {
                // Blocks and events are also read alone, when the checksum of the segment cannot be verified.
                self.zstd.include_checksum(matches!(stream, Stream::Blocks | Stream::Events))?;
                out.resize(before + zstd::zstd_safe::compress_bound(raw.len()), 0);
                let stored = self.zstd.compress_to_buffer(raw, &mut out[before..])?;
                out.truncate(before + stored);
            }
            header.streams[stream] = StreamLength { raw: raw.len() as u32, stored: (out.len() - before) as u32 };
        }
        header.checksum = checksum(&out[SEGMENT_HEADER..]);
        out[..SEGMENT_HEADER].copy_from_slice(&header.encode());
        Ok(header)
    }

    /// Lengthens the segment that was encoded last until it has at least `least` bytes, and as many as a reader demands of
    /// its contents ([`limits`]). `header` is its header; returns the new one.
    pub fn pad(&mut self, mut header: SegmentHeader, least: u64) -> SegmentHeader {
        let payload = limits::least_payload(&header).max(self.expanded.least_payload());
        let least = least.max(SEGMENT_HEADER as u64 + payload) as usize;
        let Some(stream) = Stream::ALL.into_iter().find(|&stream| header.streams[stream].raw > 0) else {
            return header;
        };
        if self.out.len() >= least {
            return header;
        }
        // Decompressors skip such a frame.
        let padding = least - self.out.len();
        let frame = SKIPPABLE.to_le_bytes().into_iter().chain((padding as u32).to_le_bytes());
        let frame: Vec<u8> = frame.chain(std::iter::repeat_n(0, padding)).collect();
        let stored: usize = header.streams.0[..=stream as usize].iter().map(|length| length.stored as usize).sum();
        let end = SEGMENT_HEADER + stored;
        header.streams[stream].stored += frame.len() as u32;
        self.out.splice(end..end, frame);
        header.checksum = checksum(&self.out[SEGMENT_HEADER..]);
        self.out[..SEGMENT_HEADER].copy_from_slice(&header.encode());
        header
    }

    /// Encodes the control, near and far streams.
    fn encode_addresses(&mut self, predictors: &[u8]) {
        self.steps.clear();
        self.steps.resize(predictors.len(), 0);
        let PerStream([_, _, _, _, control, near, far, ..]) = &mut self.raw;
        let Forms { list, sequence, addresses, .. } = &self.forms;
        control.resize(addresses.len(), 0);
        let mut codes = control.iter_mut().enumerate();
        for &number in sequence {
            let form = list[number as usize];
            let slots = form.first..form.first + form.len;
            let slots = self.steps[slots.clone()].iter_mut().zip(&predictors[slots]);
            for ((step, &predictor), (n, code)) in slots.zip(&mut codes) {
                let addresses = addresses.until(n);
                let new = addresses[FARTHEST].wrapping_sub(base(addresses, predictor));
                let change = difference(new, *step);
                *step = new;
                *code = match change {
                    -126..=127 => change as u8,
                    -0x8000..=0x7fff => {
                        near.extend_from_slice(&(change as i16).to_le_bytes());
                        NEAR
                    }
                    _ => {
                        far.extend_from_slice(&addresses[FARTHEST].to_le_bytes()[..6]);
                        FAR
                    }
                };
            }
        }
    }
}

const _: () = assert!(Stream::Control as usize == 4 && Stream::Near as usize == 5 && Stream::Far as usize == 6);
