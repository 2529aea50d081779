//! Promotes the code of a file to superpages in the page cache, and undoes it.
//!
//! The page cache reads a file in folios of 2 MB through a mapping with `MADV_HUGEPAGE`, on file systems with large folios
//! (ext4 since Linux 6.16, XFS and others before). Smaller folios must be evicted first, and cannot be while a process maps
//! them. On tmpfs the pages are the file, and are collapsed in place. The file is never written.

use crate::elf::{BASE, Kind};
use crate::error::{LiveError, LiveErrorKind};
use crate::frames::ORDERS;
use crate::host::{self, Ability, FileSystem};
use crate::image::Image;
use crate::layout::{self, CLUSTER, Congruence, Region, SUPERPAGE};
use crate::lease;
use crate::map::{self, Advice, FileMap};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::time::Duration;

/// Clusters of 64 KB in a region.
pub const CLUSTERS: u64 = SUPERPAGE / CLUSTER;

/// The flags that make a linker align code to 2 MB, as the user types them.
pub const LINKER_FLAGS: &str =
    "-Wl,-z,max-page-size=0x200000,-z,separate-code (with lld: -z,separate-loadable-segments)";

/// Which regions of a file to promote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Least number of resident clusters in a region, 0 to 32 (Zhou et al. 2023, section 5). 0 promotes all regions.
    pub threshold: u64,
    /// Whether to promote the unmapped regions of a file in use. If false, a file in use is an error.
    pub around_users: bool,
}

/// How the page cache holds a file's code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    /// Number of regions that can be promoted.
    pub regions: usize,
    /// Number of these that a new mapping maps with a superpage.
    pub superpages: usize,
    /// Bytes of code in memory.
    pub resident: u64,
    /// The same by folio order. `None` if the kernel hides frames.
    pub by_order: Option<[u64; ORDERS]>,
}

impl State {
    /// Examines a file.
    ///
    /// # Errors
    /// If its page cache is not visible to this user.
    pub fn of(image: &Image) -> Result<State, LiveError> {
        if !image.cache_is_visible() {
            return Err(LiveError::new(&image.path, LiveErrorKind::NotOwner));
        }
        let (held, regions) = (image.resident()?, image.promotable());
        let ranges = || image.elf.code().map(|segment| segment.offset..segment.offset + segment.file_size);
        let mut by_order = [0; ORDERS];
        for range in ranges() {
            by_order.iter_mut().zip(held.by_order(&range)).for_each(|(sum, bytes)| *sum += bytes);
        }
        Ok(State {
            regions: regions.len(),
            superpages: image.as_superpages(&regions)?.into_iter().filter(|&yes| yes).count(),
            resident: ranges().map(|range| held.bytes(&range)).sum(),
            by_order: held.orders_known.then_some(by_order),
        })
    }
}

/// The results of a promotion, in numbers of regions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Superpages already before.
    pub already: usize,
    /// Not promoted: too few resident clusters.
    pub below_threshold: usize,
    /// Not promoted: cannot be evicted, usually because a process maps them with smaller pages.
    pub busy: usize,
    /// Not tried: beyond the limit.
    pub deferred: usize,
    /// Promoted to superpages now.
    pub promoted: usize,
    /// Read again, but not in folios of 2 MB.
    pub failed: usize,
}

/// Checks that a file's code can be promoted as it is.
///
/// # Errors
/// Names the obstacle, and what to do about it.
pub fn check(image: &Image) -> Result<(), LiveError> {
    let plain = |message: String| Err(LiveError::plain(&image.path, message));
    match host::superpage() {
        Some(SUPERPAGE) => {}
        Some(other) => return plain(format!("superpages of this kernel have {other} bytes; only 2 MB is supported")),
        None => return plain("this kernel has no transparent huge pages (CONFIG_TRANSPARENT_HUGEPAGE)".into()),
    }
    match image.congruence() {
        Congruence::Never => {
            return plain(format!(
                "its code cannot be mapped with superpages: addresses and file offsets differ modulo 2 MB; make an aligned \
                 copy with `reach text align`, or link it with {LINKER_FLAGS}"
            ));
        }
        Congruence::WhereLoaded if image.elf.kind == Kind::Pie => {
            return plain(format!(
                "its code is not aligned to 2 MB, so only one load address in 512 allows superpages; make an aligned copy \
                 with `reach text align`, or link it with {LINKER_FLAGS}"
            ));
        }
        Congruence::WhereLoaded | Congruence::Always => {}
    }
    if image.promotable().is_empty() {
        let code = layout::code_bytes(&image.elf) >> 10;
        return plain(format!(
            "has no aligned region of 2 MB that is all code (it has {code} KB of code); `reach text show` shows whether \
             it can be padded"
        ));
    }
    if !image.cache_is_visible() {
        return Err(LiveError::new(&image.path, LiveErrorKind::NotOwner));
    }
    match lease::being_written(&image.file) {
        Ok(true) => Err(LiveError::new(&image.path, LiveErrorKind::BeingWritten)),
        Ok(false) => Ok(()),
        Err(error) => Err(LiveError::io(&image.path, "cannot be checked for writers")(error)),
    }
}

/// Promotes a file's regions, and counts the results as verified in new mappings.
///
/// # Errors
/// The errors of [`check`], and one if the file is in use and `around_users` is false.
pub fn promote(image: &Image, request: Request) -> Result<Outcome, LiveError> {
    promote_at_most(image, request, usize::MAX)
}

/// As [`promote`], for at most `limit` regions that are not superpages yet. The others stay as they are.
///
/// # Errors
/// As for `promote`.
pub fn promote_at_most(image: &Image, request: Request, limit: usize) -> Result<Outcome, LiveError> {
    check(image)?;
    let failed = |doing| LiveError::io(&image.path, doing);
    let regions = image.promotable();
    let (held, ready) = (image.resident()?, image.as_superpages(&regions)?);
    let resident = |region: &Region| region.file_range().map_or(0, |range| held.clusters(&range).0);
    let mut outcome = Outcome::default();
    let mut targets = Vec::new();
    for (region, ready) in regions.into_iter().zip(ready) {
        match ready {
            true => outcome.already += 1,
            false if resident(&region) < request.threshold => outcome.below_threshold += 1,
            false => targets.push(region),
        }
    }
    if targets.is_empty() {
        return Ok(outcome);
    }
    let wanted = targets.len();
    if image.file_system == FileSystem::Tmpfs {
        targets.truncate(limit);
    } else {
        (targets, outcome.busy) = evict(image, &targets, request, limit)?;
    }
    outcome.deferred = wanted - targets.len() - outcome.busy;
    for attempt in 1..=ATTEMPTS {
        for region in &targets {
            // If another process has mapped it meanwhile, it stays as it is.
            if attempt > 1 && image.file_system != FileSystem::Tmpfs && !evict_region(image, region)? {
                continue;
            }
            fill(image, region).map_err(failed("cannot be read into memory"))?;
        }
        let superpages = image.as_superpages(&targets)?;
        let before = targets.len();
        targets = targets.into_iter().zip(superpages).filter(|(_, yes)| !yes).map(|(region, _)| region).collect();
        outcome.promoted += before - targets.len();
        // If no region succeeds at first, the file system has no folios of 2 MB.
        if targets.is_empty() || outcome.promoted == 0 {
            break;
        }
    }
    outcome.failed = targets.len();
    Ok(outcome)
}

/// How often a region is read. Each attempt finds other free memory.
const ATTEMPTS: usize = 4;

/// Evicts at most `limit` regions from the page cache. Returns those that are completely evicted, and the number that cannot be.
fn evict(image: &Image, targets: &[Region], request: Request, limit: usize) -> Result<(Vec<Region>, usize), LiveError> {
    let users = image.users()?;
    let in_use = || Err(LiveError::new(&image.path, LiveErrorKind::InUse { by: users.phrase() }));
    if !users.users.is_empty() && !request.around_users {
        return in_use();
    }
    let (mut evicted, mut busy) = (Vec::new(), targets.to_vec());
    for wait in [None].into_iter().chain(WAITS.map(Some)) {
        if let Some(wait) = wait {
            // Only an overlay hides from whom its dirty pages would have to be written.
            if busy.is_empty() || !users.users.is_empty() || image.file_system != FileSystem::Other("overlay") {
                break;
            }
            std::thread::sleep(Duration::from_millis(wait));
        }
        for region in std::mem::take(&mut busy) {
            match evicted.len() < limit && evict_region(image, &region)? {
                true => evicted.push(region),
                false => busy.push(region),
            }
        }
    }
    // With the limit reached, the others were not tried to the end.
    let busy = if evicted.len() == limit { 0 } else { busy.len() };
    if !request.around_users && busy > 0 {
        return in_use();
    }
    evicted.sort_by_key(|region| region.vaddr);
    Ok((evicted, busy))
}

/// Milliseconds to wait for an overlay's pages to be written: eviction starts that, and says nothing of its end.
const WAITS: [u64; 6] = [5, 20, 50, 100, 200, 400];

/// Evicts a region from the page cache. Returns whether none of it remains.
fn evict_region(image: &Image, region: &Region) -> Result<bool, LiveError> {
    let Some(range) = region.file_range() else { return Ok(false) };
    let failed = |doing| LiveError::io(&image.path, doing);
    // Dirty pages cannot be evicted. Only this region's are written, as its owner may have made any number of others.
    map::write_back(&image.file, &range).map_err(failed("cannot be written to disk"))?;
    let (start, length) = (range.start, std::num::NonZero::new(SUPERPAGE));
    let evicted = rustix::fs::fadvise(&image.file, start, length, rustix::fs::Advice::DontNeed);
    evicted.map_err(io::Error::from).map_err(failed("cannot be evicted from memory"))?;
    let resident = FileMap::new(&image.file, range).and_then(|map| map.resident());
    Ok(!resident.map_err(failed("its page cache cannot be examined"))?.contains(&true))
}

/// Reads a region through a mapping that prefers superpages.
fn fill(image: &Image, region: &Region) -> io::Result<()> {
    let Some(range) = region.file_range() else { return Ok(()) };
    let map = FileMap::new(&image.file, range)?;
    let all = 0..SUPERPAGE;
    if image.file_system == FileSystem::Tmpfs {
        map.advise(all.clone(), Advice::Populate)?;
        // The caller verifies the result in a new mapping.
        let _ = map.advise(all, Advice::Collapse);
        return Ok(());
    }
    // Without readahead beyond the region.
    map.advise(all.clone(), Advice::Random)?;
    if !host::denied(Ability::LargeFolios) {
        map::make_room();
        // Kernels without this advice make no superpages, which the caller detects.
        let _ = map.advise(all.clone(), Advice::Huge);
    }
    map.advise(all, Advice::Populate)
}

/// Undoes promotion: reads superpages back in base pages. Returns their number.
///
/// # Errors
/// If the file is in use, or is on tmpfs.
pub fn restore(image: &Image) -> Result<usize, LiveError> {
    if !image.cache_is_visible() {
        return Err(LiveError::new(&image.path, LiveErrorKind::NotOwner));
    }
    let regions = image.promotable();
    let ready = image.as_superpages(&regions)?;
    let targets: Vec<Region> =
        regions.into_iter().zip(ready).filter(|(_, ready)| *ready).map(|(region, _)| region).collect();
    if targets.is_empty() {
        return Ok(0);
    }
    if image.file_system == FileSystem::Tmpfs {
        let message = "is on tmpfs, where superpages are the file itself and stay until it is removed";
        return Err(LiveError::plain(&image.path, message));
    }
    let count = targets.len();
    let (evicted, _) = evict(image, &targets, Request { threshold: 0, around_users: false }, usize::MAX)?;
    evicted.iter().filter_map(Region::file_range).try_for_each(|range| read_as_base_pages(image, range))?;
    Ok(count)
}

/// Reads an evicted part of a file in folios of one base page.
fn read_as_base_pages(image: &Image, range: std::ops::Range<u64>) -> Result<(), LiveError> {
    let failed = |doing| LiveError::io(&image.path, doing);
    let again = image.file.as_fd().try_clone_to_owned().map_err(failed("cannot be opened again"))?;
    let file = std::fs::File::from(again);
    let advised = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::Random);
    advised.map_err(io::Error::from).map_err(failed("cannot be read page by page"))?;
    let mut page = [0; BASE as usize];
    for offset in range.step_by(BASE as usize) {
        file.read_at(&mut page, offset).map_err(failed("cannot be read"))?;
    }
    Ok(())
}
