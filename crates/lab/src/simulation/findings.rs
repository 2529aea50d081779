//! What did not happen in a simulation although the system is for it.

use super::Outcome;
use crate::findings::{Finding, FindingKind};
use reach_core::PageShift;
use reach_os::ExplicitCounts;
use reach_systems::{Criterion, Evidence};

/// The share of first touches on smaller pages above which a system fell back. Below, there is no program without: the dynamic
/// loader's memory lies among mappings of files.
const FELL_BACK: f64 = 0.01;

/// Returns what readers of `outcome` must know. `criterion` is that of its system.
pub(super) fn of(outcome: &Outcome, criterion: Option<Criterion>) -> Vec<Finding> {
    let system = &outcome.system;
    let never = criterion.filter(|criterion| amount(criterion.evidence, outcome) == 0).map(|criterion| {
        let text = format!("{system} {}; its row does not show what it can do", criterion.never);
        Finding::new(FindingKind::NeverActed, text)
    });
    let explicit = outcome.os.explicit.as_ref().and_then(|counts| explicit(system, counts, &outcome.sizes));
    let no_calls = outcome.kernel_code && outcome.total.kernel.system_calls == 0;
    let no_calls = no_calls.then(|| {
        let text = "the program announces no system calls, so the kernel's own code is that of faults, switches and the timer \
                    alone; captured programs announce them, and recordings from format version 5 on";
        Finding::new(FindingKind::NoSystemCalls, text)
    });
    never.into_iter().chain(explicit).chain(no_calls).collect()
}

/// Returns the count that `evidence` names.
fn amount(evidence: Evidence, outcome: &Outcome) -> u64 {
    match evidence {
        Evidence::Superpages => {
            outcome.os.superpages.iter().map(|gauge| gauge.peak).sum::<u64>() + outcome.os.folio_faults
        }
        Evidence::CodeSuperpages => outcome.code_superpages.iter().map(|(_, superpages)| superpages).sum(),
        Evidence::Reservations => outcome.os.reservations,
        Evidence::Ranges => outcome.os.ranges.map_or(0, |ranges| ranges.made),
        Evidence::Segments => outcome.os.ranges.map_or(0, |ranges| ranges.segments),
        Evidence::CoalescedEntries => outcome.total.hardware.aux_tlb_coalesced,
        Evidence::Walks => outcome.total.hardware.walks(),
        Evidence::AssistedWalks => {
            let h = &outcome.total.hardware;
            h.assist_hits + h.assist_hastened + h.assist_predictions - h.assist_mispredictions
        }
    }
}

/// Returns the finding about a system that gives all memory pages of one size, if some memory has smaller ones.
fn explicit(system: &str, counts: &ExplicitCounts, sizes: &[PageShift]) -> Option<Finding> {
    let ExplicitCounts { asked, size, mapped, .. } = counts;
    let all: u64 = mapped.iter().sum();
    let got = sizes.iter().zip(mapped).find(|(shift, _)| *shift == size).map_or(0, |(_, bytes)| *bytes);
    if all == 0 {
        let text = format!("{system} got no page of {asked}: the program touched no heap and no anonymous mapping");
        return Some(Finding::new(FindingKind::NotGiven, text));
    }
    let mut reasons = Vec::new();
    if asked != size {
        reasons.push(format!("the machine has no pages of {asked}, and pages of {size} stand for them"));
    }
    if counts.shared_extents > 0 {
        reasons.push(format!("aligned extents of {size} around its memory hold other mappings, too"));
    }
    if counts.failures > 0 {
        reasons.push(format!("memory had no free block of {size}"));
    }
    let (kind, what) = match got {
        0 => (FindingKind::NotGiven, format!("got no page of {size}")),
        _ if asked != size || (all - got) as f64 > FELL_BACK * all as f64 => {
            (FindingKind::FellBack, "fell back".to_owned())
        }
        _ => return None,
    };
    let parts = sizes.iter().zip(mapped).rev().filter(|(_, bytes)| **bytes > 0);
    let parts: Vec<String> = parts.map(|(shift, &bytes)| format!("{} on pages of {shift}", memory(bytes))).collect();
    let text = format!("{system} {what}: {}. First touches put {}", reasons.join("; "), parts.join(", "));
    Some(Finding::new(kind, text))
}

/// Formats bytes in the largest unit that leaves a number of at least 10, or exactly.
fn memory(bytes: u64) -> String {
    let units = [(30, "GB"), (20, "MB"), (10, "KB")];
    let fits = |shift: u32| bytes >> shift >= 10 || bytes.is_multiple_of(1 << shift);
    match units.into_iter().find(|&(shift, _)| bytes > 0 && bytes >> shift > 0 && fits(shift)) {
        Some((shift, unit)) => format!("{} {unit}", bytes >> shift),
        None => format!("{bytes} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(mapped: [u64; 3], shared_extents: u64, failures: u64) -> ExplicitCounts {
        ExplicitCounts { asked: SIZES[2], size: SIZES[2], mapped: mapped.into(), shared_extents, failures }
    }

    const SIZES: [PageShift; 3] = [PageShift(12), PageShift(21), PageShift(30)];

    #[test]
    fn a_fallback_says_why_and_how_much_has_which_size() {
        let found = |counts| explicit("hugetlb-1g", &counts, &SIZES);
        let none = found(counts([12 << 10, 64 << 20, 0], 40, 0)).unwrap();
        assert_eq!(none.kind, FindingKind::NotGiven);
        assert_eq!(
            none.text,
            "hugetlb-1g got no page of 1G: aligned extents of 1G around its memory hold other mappings, too. First touches \
             put 64 MB on pages of 2M, 12 KB on pages of 4K"
        );
        let part = found(counts([0, 64 << 20, 3 << 30], 0, 7)).unwrap();
        assert_eq!(part.kind, FindingKind::FellBack);
        assert!(
            part.text
                .contains("fell back: memory had no free block of 1G. First touches put 3 GB on pages of 1G, 64 MB")
        );
        assert_eq!(found(counts([40 << 10, 0, 1 << 30], 9, 0)), None, "less than 1 %");
        assert_eq!(found(counts([0, 0, 1 << 30], 0, 0)), None);
        assert!(found(counts([0; 3], 0, 0)).unwrap().text.contains("touched no heap"));
        let alpha = ExplicitCounts { size: SIZES[1], ..counts([0, 64 << 20, 0], 0, 0) };
        assert!(
            found(alpha)
                .is_some_and(|found| found.kind == FindingKind::FellBack && found.text.contains("stand for them"))
        );
    }

    #[test]
    fn amounts_have_one_unit() {
        let expected = ["4 KB", "512 bytes", "1 GB", "1536 MB", "10 MB", "2560 KB"];
        assert_eq!([4096, 512, 1 << 30, 3 << 29, (10 << 20) + 1, 5 << 19].map(memory), expected);
    }
}
