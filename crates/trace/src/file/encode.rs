//! One segment to bytes.

use super::forms::Forms;
use super::layout::{
    BLOCKS, CONTROL, EVENTS, FAR_BYTES, FORMS, NEAR_BYTES, SEGMENT_HEADER, SEQUENCE, STEPS, STREAMS, SegmentHeader,
};
use super::paths::Paths;
use super::predict::{FAR, FARTHEST, NEAR, base, difference};
use std::io;
use xxhash_rust::xxh3::xxh3_64;

/// zstd's fastest ordinary level.
const LEVEL: i32 = 1;

/// Encodes segments; keeps its memory from one to the next.
pub(super) struct SegmentEncoder {
    zstd: zstd::bulk::Compressor<'static>,
    pub forms: Forms,
    paths: Paths,
    /// The segment that was encoded last.
    pub out: Vec<u8>,
    /// What each slot has learnt.
    steps: Vec<u64>,
    raw: [Vec<u8>; STREAMS],
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
        })
    }

    /// Encodes what [`Forms::collect`] has just cut into forms, with block and event streams that are bytes
    /// already, and those of the outline, to `out`. `header` has all counts but that of the forms.
    pub fn encode(
        &mut self,
        blocks: &[u8],
        events: &[u8],
        outline: &[Vec<u8>; 3],
        mut header: SegmentHeader,
    ) -> io::Result<SegmentHeader> {
        self.raw.iter_mut().for_each(Vec::clear);
        let predictors = self.forms.predictors();
        self.forms.encode(&predictors, &mut self.raw[FORMS]);
        self.paths.fold(&self.forms.sequence, &self.forms.list);
        self.raw[FORMS].extend_from_slice(&self.paths.definitions);
        self.addresses(&predictors);

        (header.forms, header.paths) = (self.forms.list.len() as u32, self.paths.count);
        let out = &mut self.out;
        out.clear();
        out.resize(SEGMENT_HEADER, 0);
        for i in 0..STREAMS {
            let raw = match i {
                BLOCKS => blocks,
                EVENTS => events,
                SEQUENCE => &self.paths.sequence,
                STEPS.. => &outline[i - STEPS],
                _ => &self.raw[i],
            };
            let before = out.len();
            if !raw.is_empty() {
                // Blocks and events are also read by themselves, where the segment's checksum cannot be verified.
                self.zstd.include_checksum(i == BLOCKS || i == EVENTS)?;
                out.resize(before + zstd::zstd_safe::compress_bound(raw.len()), 0);
                let stored = self.zstd.compress_to_buffer(raw, &mut out[before..])?;
                out.truncate(before + stored);
            }
            header.streams[i] = (raw.len() as u32, (out.len() - before) as u32);
        }
        header.checksum = xxh3_64(&out[SEGMENT_HEADER..]);
        out[..SEGMENT_HEADER].copy_from_slice(&header.encode());
        Ok(header)
    }

    /// The control, near and far streams.
    fn addresses(&mut self, predictors: &[u8]) {
        self.steps.clear();
        self.steps.resize(predictors.len(), 0);
        let [_, _, _, _, control, near, far, ..] = &mut self.raw;
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

const _: () = assert!(CONTROL == 4 && NEAR_BYTES == 5 && FAR_BYTES == 6 && STEPS + 3 == STREAMS);
