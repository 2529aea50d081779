//! Segments of address spaces (Basu et al. 2013), which are redundant to page tables as ranges are.

use crate::{Ranging, Translated, Vm};
use reach_core::{Asid, RangeTranslation, Vpn};

impl Vm {
    /// Takes the pages from `vpn` to `end` out of segments. A segment that loses pages at one end has its base or limit
    /// moved. One that loses pages in the middle becomes two where any number is allowed; otherwise it ends. Its pages stay
    /// in the page table.
    pub(super) fn cut_segments(&mut self, asid: Asid, vpn: Vpn, end: Vpn, ranging: Ranging) {
        let segments = self.edit(asid).0.segments_mut();
        if segments.iter().all(|segment| segment.end() <= vpn || end <= segment.vpn) {
            return;
        }
        let cut = |segment: RangeTranslation| {
            let before =
                (segment.vpn < vpn).then(|| segment.subrange(segment.vpn, vpn.min(segment.end()) - segment.vpn));
            let behind = (end < segment.end()).then(|| {
                let first = end.max(segment.vpn);
                segment.subrange(first, segment.end() - first)
            });
            let apart = segment.end() <= vpn || end <= segment.vpn;
            let ends = !apart && before.is_some() && behind.is_some() && ranging.translated == Translated::BySegment;
            let pieces = if apart { [Some(segment), None] } else { [before, behind] };
            pieces.into_iter().flatten().filter(move |piece| !ends && (apart || piece.pages >= ranging.least))
        };
        *segments = std::mem::take(segments).into_iter().flat_map(cut).collect();
    }

    /// Makes the pages of `run` a segment, where there are segments and the run is long enough.
    pub(crate) fn add_segment(&mut self, asid: Asid, run: RangeTranslation) {
        let Some(ranging) = self.translation.ranging else { return };
        let segments = self.edit(asid).0.segments_mut();
        let wanted = match ranging.translated {
            Translated::BySegment => segments.is_empty(),
            Translated::BySegments => true,
            Translated::ByRanges | Translated::ByPages => false,
        };
        if wanted && run.pages >= ranging.least {
            let at = segments.partition_point(|other| other.vpn < run.vpn);
            segments.insert(at, RangeTranslation { pte: run.pte.with_range(false), ..run });
            self.accounting.count_ranges(|c| c.segments += 1);
        }
    }
}
