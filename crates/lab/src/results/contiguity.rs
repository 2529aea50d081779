//! Rows of contiguity: of the largest process, and of code.

use super::Rows;
use crate::metrics::quotient;

impl Rows<'_> {
    /// Adds the contiguity of the largest process in base pages (Karakostas et al., Tables 2 and 7).
    pub(super) fn census(&mut self) {
        let Some(census) = &self.outcome.census else { return };
        self.count("mapped.pages", "pages", census.pages);
        for (size, entries) in self.outcome.sizes.iter().zip(&census.entries) {
            self.count(&format!("mapped.entries.{size}"), "count", *entries);
        }
        let count = census.ranges.len() as u64;
        self.count("mapped.ranges", "count", count);
        self.ratio("mapped.ranges.coverage", "share", quotient(census.covered(), census.pages));
        self.count("mapped.ranges.median", "pages", census.median());
        self.ratio("mapped.ranges.average", "pages", quotient(census.covered(), count));
        self.count("mapped.ranges.greatest", "pages", census.ranges.last().copied().unwrap_or(0));
        self.count("mapped.ideal_ranges", "count", census.ideal.len() as u64);
        self.count("mapped.ideal_ranges.for_99_percent", "count", census.for_99_percent());
        let greatest = census.ideal.last().copied().unwrap_or(0);
        self.ratio("mapped.ideal_ranges.greatest", "share", quotient(greatest, census.pages));
    }

    /// Adds how much code was mapped, touched and in superpages (Zhou et al. 2023, Table 3, Figures 1 and 2).
    pub(super) fn code(&mut self) {
        let Some(code) = &self.outcome.code else { return };
        let below = |bytes: u64| code.libraries.partition_point(|&library| library < bytes) as u64;
        let with = |clusters: u64| (code.clusters.len() - code.clusters.partition_point(|&c| c < clusters)) as u64;
        self.count("code.executable_bytes", "bytes", code.executable);
        self.count("code.libraries", "count", code.libraries.len() as u64);
        self.count("code.libraries.below_1M", "count", below(1 << 20));
        self.count("code.libraries.below_2M", "count", below(2 << 20));
        self.count("code.libraries.greatest_bytes", "bytes", code.libraries.last().copied().unwrap_or(0));
        self.count("code.written_bytes", "bytes", code.written.resident);
        self.count("code.extents", "count", code.clusters.len() as u64 + code.written.extents);
        self.count("code.extents.touched", "count", with(1) + code.written.touched);
        for clusters in 1..=32 {
            self.count(&format!("code.extents.with_{clusters}"), "count", with(clusters));
        }
        self.count("code.superpages", "pages", code.promoted + code.written.promoted);
    }
}
